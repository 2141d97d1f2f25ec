//! The datagrams of captures in the corpora.

use std::path::Path;
use std::time::Duration;

/// The UDP payloads of a capture with their times. Supports little-endian pcap with microseconds,
/// Ethernet, and IPv4 without options. `barebell-bench capture` reads other formats.
///
/// # Panics
/// The file cannot be read or has another format.
#[must_use]
pub fn datagrams(path: &Path) -> Vec<(Duration, Vec<u8>)> {
    const HEADERS: usize = 14 + 20 + 8;
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let word = |at: usize| {
        u32::from_le_bytes(bytes[at..at + 4].try_into().expect("the slice has four bytes"))
    };
    assert_eq!(
        (word(0), word(20)),
        (0xa1b2_c3d4, 1),
        "{}: unsupported pcap format",
        path.display()
    );
    let mut datagrams = Vec::new();
    let mut at = 24;
    while at < bytes.len() {
        let time =
            Duration::from_secs(word(at).into()) + Duration::from_micros(word(at + 4).into());
        let packet = &bytes[at + 16..][..word(at + 8) as usize];
        at += 16 + packet.len();
        let is_udp = packet.len() > HEADERS && packet[12..15] == [8, 0, 0x45] && packet[23] == 17;
        if is_udp {
            datagrams.push((time, packet[HEADERS..].to_vec()));
        }
    }
    datagrams
}
