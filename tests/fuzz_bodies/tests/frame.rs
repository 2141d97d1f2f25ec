//! The fuzz body of rewritten frames over damaged frames.

use test_support::Random;
use test_support::hostile::End;

#[test]
fn damaged_frames_are_handled() {
    let end = |host| End { mac: [2, 0, 0, 0, 0, host], address: [192, 0, 2, host].into() };
    let rtp = [&[0x80, 0, 0, 1, 0, 0, 0, 160, 1, 2, 3, 4][..], &[0xd5; 160]].concat();
    let ipv4 = end(1).frame(4000, end(2), 20000, &rtp);
    let mut ipv6 = vec![2; 12];
    ipv6.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 180, 17, 64]);
    ipv6.extend([0x20; 32]);
    ipv6.extend([0x0f, 0xa0, 0x4e, 0x20, 0, 180, 0x12, 0x34]);
    ipv6.extend(&rtp);
    for frame in [ipv4, ipv6] {
        fuzz_bodies::frame(&frame);
        for seed in 0..20_000 {
            let mut random = Random::new(seed);
            let mut damaged = frame.clone();
            for _ in 0..=random.below(3) {
                // The headers.
                let place = random.below(damaged.len().min(80) as u64) as usize;
                match random.below(8) {
                    0 => damaged.truncate(place),
                    1 => damaged.insert(place, random.number() as u8),
                    _ => damaged[place] = random.number() as u8,
                }
                if damaged.is_empty() {
                    break;
                }
            }
            fuzz_bodies::frame(&damaged);
        }
    }
}
