//! Two ends of ZRTP, with a program between them that changes packets.

use ::zrtp::{Association, Cache, Config, Event, Zid};
use std::time::Duration;

/// The checksum of a packet, CRC-32C, so that changed messages are read.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 * (crc & 1)))
    })
}

/// Runs two ends. Three bytes of the input decide on each packet: to deliver, drop, repeat or delay
/// it, or to change a byte of it; once the input is used up, all are delivered.
///
/// # Panics
/// The ends have keys, but not the same string, although no packet was changed; or packets or
/// events do not end.
pub fn zrtp(bytes: &[u8]) {
    let mut choices = bytes.chunks_exact(3);
    let config = |end: u8| Config::new(Zid([end; 12]), [end; 32], u32::from(end));
    let mut ends = [1, 2].map(|end| Association::new(config(end), Duration::ZERO));
    let (mut strings, mut was_changed, mut delayed) = ([None, None], false, None);
    let mut now = Duration::ZERO;
    let cache = Cache::default();
    for _ in 0..300 {
        for sender in [0, 1] {
            let mut sent = 0;
            while let Some(mut packet) = ends[sender].poll_transmit() {
                sent += 1;
                assert!(sent <= 16, "an end sends without end");
                let receiver = &mut ends[1 - sender];
                match choices.next() {
                    Some([0..=31, ..]) => continue,
                    Some([32..=63, ..]) => receiver.handle(now, &packet, &cache),
                    Some([64..=79, ..]) => {
                        let earlier = delayed.replace(packet.clone());
                        earlier.into_iter().for_each(|it| receiver.handle(now, &it, &cache));
                    }
                    Some([80..=159, place, value]) => {
                        was_changed = true;
                        let place = 4 * usize::from(*place) + usize::from(*value % 4);
                        let length = packet.len() - 4;
                        packet[12 + place % (length - 12)] ^= value | 1;
                        let checksum = crc32c(&packet[..length]);
                        packet[length..].copy_from_slice(&checksum.to_le_bytes());
                    }
                    _ => {}
                }
                receiver.handle(now, &packet, &cache);
            }
            while let Some(event) = ends[sender].poll_event() {
                if let Event::Keyed(keyed) = event {
                    assert!(strings[sender].replace(keyed.sas.to_string()).is_none());
                }
            }
        }
        let Some(due) = ends.iter().filter_map(Association::next_timeout).min() else { break };
        now = now.max(due);
        ends.iter_mut().for_each(|end| end.handle_timeout(now));
    }
    if let ([Some(one), Some(other)], false) = (&strings, was_changed) {
        assert_eq!(one, other);
    }
    ends[0].handle(now, bytes, &cache);
}
