//! The fuzz body of converted packets over random packets.

use test_support::Random;

#[test]
fn random_packets_are_converted() {
    for seed in 0..2000 {
        let mut random = Random::new(seed);
        let mut byte = |below: u64| random.below(below) as u8;
        let mut bytes = vec![byte(256), byte(256)];
        let (mut number, mut timestamp) = (byte(256), [byte(256), byte(256), byte(256), 0]);
        for _ in 0..byte(60) {
            let length = [33, 12 + 160, 12 + 33, 16, 13, 80, 255][usize::from(byte(7))];
            bytes.extend([byte(40), byte(8), length]);
            let start = bytes.len();
            bytes.extend((0..length).map(|_| byte(256)));
            // A header with the payload type of a codec, of noise or of events.
            let payload_type =
                [0, 3, 8, 9, 13, 96, 97, 98, 99, 100, 101, 102][usize::from(byte(12))];
            let header = [0x80, payload_type, 0, number, timestamp[0], timestamp[1], timestamp[2]];
            bytes[start..start + 7].copy_from_slice(&header);
            bytes[start + 8..start + 12].copy_from_slice(&[0, 0, 0, byte(20) / 19]);
            number = number.wrapping_add(if byte(10) == 0 { byte(9) } else { 1 });
            timestamp[byte(3) as usize] = byte(256);
            if byte(30) == 0 {
                // Reports of both kinds.
                bytes[start..start + 4].copy_from_slice(&[0x81, 200 + byte(2), 0, 7]);
            }
        }
        fuzz_bodies::transcode(&bytes);
    }
}
