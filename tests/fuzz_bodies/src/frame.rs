//! Frames with relayed packets.

use relay::frame::{Endpoint, Ends, Entry, rewrite};
use std::net::IpAddr;

/// Rewrites a frame by an entry for its own addresses and ports.
///
/// # Panics
/// A refused frame is changed, a length is wrong, or a right checksum becomes wrong.
pub fn frame(bytes: &[u8]) {
    let mut entry = entry_for(bytes);
    if let [first, second, ..] = *bytes {
        entry.ssrc = u32::from_be_bytes([first; 4]);
        entry.timestamp = u32::from_be_bytes([second; 4]);
        entry.sequence_number = u16::from_be_bytes([second, first]);
    }
    let mut frame = bytes.to_vec();
    let Ok(rewritten) = rewrite(&mut frame, &entry) else { return assert_eq!(frame, bytes) };
    assert_eq!(frame.len(), bytes.len());
    assert!(rewritten.packet.start >= 42 && rewritten.packet.end <= rewritten.frame);
    assert!(rewritten.frame <= frame.len());
    assert_eq!(frame[rewritten.frame..], bytes[rewritten.frame..]);
    let [before, after] = [bytes, &frame].map(|frame| sums(&frame[..rewritten.frame]));
    assert_eq!(before, after);
}

/// The entry of the datagram in `frame`, if it has one, to other ends.
fn entry_for(frame: &[u8]) -> Entry {
    let byte = |at: usize| frame.get(at).copied().unwrap_or_default();
    let is_ipv6 = byte(12) == 0x86;
    let end = |number: usize| {
        let port = if is_ipv6 { 54 } else { 34 } + 2 * number;
        let ip = match is_ipv6 {
            true => IpAddr::from(std::array::from_fn::<_, 16, _>(|at| byte(22 + 16 * number + at))),
            false => IpAddr::from(std::array::from_fn::<_, 4, _>(|at| byte(26 + 4 * number + at))),
        };
        Endpoint { ip, port: u16::from_be_bytes([byte(port), byte(port + 1)]) }
    };
    let (source, destination) = (end(0), end(1));
    // They return, from the next port.
    let local = Endpoint { port: destination.port.wrapping_add(2), ..destination };
    let received = Ends { source, destination };
    Entry::new(received, Ends { source: local, destination: source }, u128::MAX)
}

/// True for each right checksum of a frame with a datagram: of the IPv4 header, and of UDP.
fn sums(frame: &[u8]) -> [bool; 2] {
    let (header, udp, addresses) = match frame[12] {
        0x86 => (14..14, 54, 22..54),
        _ => (14..34, 34, 26..34),
    };
    let datagram = &frame[udp..];
    let pseudo = [&[0, 17][..], &(datagram.len() as u16).to_be_bytes()].concat();
    let is_absent = datagram[6..8] == [0, 0];
    let datagram = [&frame[addresses], &pseudo, datagram].concat();
    [sum(&frame[header]) != 0xffff, is_absent || sum(&datagram) == 0xffff]
}

/// The one's complement sum of the words in `bytes`.
fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|word| [word[0], word.get(1).copied().unwrap_or_default()]);
    let sum = words.map(|word| u64::from(u16::from_be_bytes(word))).sum::<u64>();
    // A sum is 0 only if all words are.
    if sum == 0 { 0 } else { ((sum - 1) % 0xffff + 1) as u16 }
}
