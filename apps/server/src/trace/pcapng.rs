//! The messages of a call as a pcapng file. The IP, UDP and TCP headers are synthesized. Messages
//! that were encrypted, or in WebSocket, appear as plain SIP over TCP.

use super::Traffic;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// The link type of packets that begin with the IP header.
const LINK_RAW: u16 = 101;

/// The maximum length of a TCP segment.
const SEGMENT: usize = 16_384;

/// The port of plain SIP, by which readers recognize it.
const SIP: u16 = 5060;

/// The ports of encrypted SIP and of WebSocket, at which readers expect another protocol.
const OTHER_PORTS: [u16; 3] = [5061, 443, 80];

const UDP: u8 = 17;
const TCP: u8 = 6;

/// The file with `messages`.
pub(crate) fn pcapng(messages: &[Traffic]) -> Vec<u8> {
    let mut out = Vec::new();
    // Section header: byte order, version 1.0, unknown length.
    let mut header = 0x1a2b_3c4d_u32.to_le_bytes().to_vec();
    header.extend([1, 0, 0, 0]);
    header.extend([0xff; 8]);
    block(&mut out, 0x0a0d_0d0a, &header);
    // Interface: the default resolution of times is a microsecond.
    let mut interface = LINK_RAW.to_le_bytes().to_vec();
    interface.extend([0; 6]);
    block(&mut out, 1, &interface);
    // The next sequence number of each direction.
    let mut sequences: HashMap<[SocketAddr; 2], u32> = HashMap::new();
    for message in messages {
        let ends = ends(message);
        let mut comment = format!("worker {}", message.worker);
        if !matches!(&message.transport[..], "udp" | "tcp") {
            comment += &format!("; came over {}, shown as plain SIP over TCP", message.transport);
        }
        if message.transport == "udp" {
            let packet = ip_packet(ends, UDP, udp(ends, &message.bytes));
            enhanced_packet(&mut out, message.at, &packet, &comment);
            continue;
        }
        for segment in message.bytes.chunks(SEGMENT) {
            let acknowledged = *sequences.entry([ends[1], ends[0]]).or_insert(1);
            let sequence = sequences.entry(ends).or_insert(1);
            let packet = ip_packet(ends, TCP, tcp(ends, *sequence, acknowledged, segment));
            *sequence = sequence.wrapping_add(segment.len() as u32);
            enhanced_packet(&mut out, message.at, &packet, &comment);
        }
    }
    out
}

/// The source and the destination of a message, with the ports of plain SIP.
fn ends(message: &Traffic) -> [SocketAddr; 2] {
    let canonical = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
    let (mut local, mut remote) = (canonical(message.local), canonical(message.remote));
    if !matches!(&message.transport[..], "udp" | "tcp") {
        for end in [&mut local, &mut remote] {
            if OTHER_PORTS.contains(&end.port()) {
                end.set_port(SIP);
            }
        }
        if remote.port() != SIP {
            local.set_port(SIP);
        }
    }
    if message.is_sent { [local, remote] } else { [remote, local] }
}

fn udp([from, to]: [SocketAddr; 2], payload: &[u8]) -> Vec<u8> {
    let mut out = [from.port().to_be_bytes(), to.port().to_be_bytes()].concat();
    out.extend(((payload.len() + 8) as u16).to_be_bytes());
    out.extend([0; 2]);
    out.extend(payload);
    let sum = match checksum([from, to], UDP, &out) {
        // Zero stands for no checksum.
        0 => u16::MAX,
        sum => sum,
    };
    out[6..8].copy_from_slice(&sum.to_be_bytes());
    out
}

fn tcp(ends: [SocketAddr; 2], sequence: u32, acknowledged: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = ends.map(|end| end.port().to_be_bytes()).concat();
    out.extend(sequence.to_be_bytes());
    out.extend(acknowledged.to_be_bytes());
    // Five words of header, PSH and ACK, the window, no checksum yet, no urgent data.
    out.extend([0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
    out.extend(payload);
    let sum = checksum(ends, TCP, &out);
    out[16..18].copy_from_slice(&sum.to_be_bytes());
    out
}

/// An IP packet with `payload`. Both ends have one family.
fn ip_packet([from, to]: [SocketAddr; 2], protocol: u8, payload: Vec<u8>) -> Vec<u8> {
    let mut out;
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            out = vec![0x45, 0];
            out.extend(((payload.len() + 20) as u16).to_be_bytes());
            out.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
            out.extend(from.octets());
            out.extend(to.octets());
            let sum = fold(&[&out]);
            out[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        (from, to) => {
            out = vec![0x60, 0, 0, 0];
            out.extend((payload.len() as u16).to_be_bytes());
            out.extend([protocol, 64]);
            out.extend(v6(from));
            out.extend(v6(to));
        }
    }
    out.extend(payload);
    out
}

/// The checksum of a datagram or a segment with its pseudo-header.
fn checksum([from, to]: [SocketAddr; 2], protocol: u8, segment: &[u8]) -> u16 {
    let addresses = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => [from.octets(), to.octets()].concat(),
        (from, to) => [v6(from), v6(to)].concat(),
    };
    let [high, low] = (segment.len() as u16).to_be_bytes();
    fold(&[&addresses, &[0, protocol, high, low], segment])
}

fn v6(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// The checksum of RFC 1071 over `parts`. All but the last have an even length.
fn fold(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let mut sum: u32 = words
        .map(|word| u32::from(u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)])))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Writes a packet of the only interface, with a comment.
fn enhanced_packet(out: &mut Vec<u8>, at: u64, packet: &[u8], comment: &str) {
    let mut body = vec![0; 4];
    body.extend(((at >> 32) as u32).to_le_bytes());
    body.extend((at as u32).to_le_bytes());
    let length = (packet.len() as u32).to_le_bytes();
    body.extend([length, length].concat());
    body.extend(packet);
    pad(&mut body);
    body.extend(1_u16.to_le_bytes());
    body.extend((comment.len() as u16).to_le_bytes());
    body.extend(comment.as_bytes());
    pad(&mut body);
    body.extend([0; 4]);
    block(out, 6, &body);
}

/// Writes a block. The length of `body` is a multiple of four.
fn block(out: &mut Vec<u8>, kind: u32, body: &[u8]) {
    let length = (body.len() as u32 + 12).to_le_bytes();
    out.extend(kind.to_le_bytes());
    out.extend(length);
    out.extend(body);
    out.extend(length);
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(transport: &str, ends: [&str; 2], is_sent: bool, bytes: &[u8]) -> Traffic {
        Traffic {
            at: 1_700_000_000_123_456,
            transport: transport.to_owned(),
            local: ends[0].parse().unwrap(),
            remote: ends[1].parse().unwrap(),
            is_sent,
            worker: 0,
            call: 0,
            leg: 0,
            bytes: bytes.to_vec(),
            missing: 0,
        }
    }

    /// The blocks of a file: their types and bodies.
    fn blocks(mut file: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let mut blocks = Vec::new();
        while !file.is_empty() {
            let number = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
            let length = number(4) as usize;
            assert_eq!((length % 4, number(length - 4) as usize), (0, length));
            blocks.push((number(0), file[8..length - 4].to_vec()));
            file = &file[length..];
        }
        blocks
    }

    /// The packet in a block.
    fn packet(block: &(u32, Vec<u8>)) -> &[u8] {
        assert_eq!(block.0, 6);
        let length = u32::from_le_bytes(block.1[12..16].try_into().unwrap()) as usize;
        &block.1[20..20 + length]
    }

    #[test]
    fn datagrams_have_right_lengths_times_and_checksums() {
        let ends = ["192.0.2.1:5060", "[::ffff:192.0.2.9]:1024"];
        let file = pcapng(&[traffic("udp", ends, true, b"abc")]);
        let blocks = blocks(&file);
        let kinds: Vec<u32> = blocks.iter().map(|block| block.0).collect();
        assert_eq!(kinds, [0x0a0d_0d0a, 1, 6]);
        let time = |at| u64::from(u32::from_le_bytes(blocks[2].1[at..at + 4].try_into().unwrap()));
        assert_eq!(time(4) << 32 | time(8), 1_700_000_000_123_456);
        let packet = packet(&blocks[2]);
        assert_eq!((packet.len(), &packet[..4]), (31, &[0x45, 0, 0, 31][..]));
        assert_eq!(fold(&[&packet[..20]]), 0);
        assert_eq!(packet[20..26], [0x13, 0xc4, 4, 0, 0, 11]);
        assert_eq!(fold(&[&packet[12..20], &[0, UDP, 0, 11], &packet[20..]]), 0);
        assert_eq!(packet[28..], *b"abc");
    }

    #[test]
    fn streams_count_bytes_and_encrypted_ones_are_plain() {
        let ends = ["[2001:db8::1]:5061", "[2001:db8::9]:40000"];
        let long = vec![b'x'; SEGMENT + 1];
        let file = pcapng(&[
            traffic("tls", ends, false, b"abcde"),
            traffic("tls", ends, true, &long),
            traffic("tls", ends, false, b"f"),
        ]);
        let blocks = blocks(&file);
        let packets: Vec<&[u8]> = blocks[2..].iter().map(packet).collect();
        let found: Vec<_> = packets
            .iter()
            .map(|packet| {
                let number = |at: usize| u32::from_be_bytes(packet[at..at + 4].try_into().unwrap());
                assert_eq!((packet[0], packet[6]), (0x60, TCP));
                let [high, low] = ((packet.len() - 40) as u16).to_be_bytes();
                let sum = fold(&[&packet[8..40], &[0, TCP, high, low], &packet[40..]]);
                (number(40), number(44), number(48), packet.len() - 60, sum)
            })
            .collect();
        let (there, back) = (40_000 << 16 | 5060, 5060 << 16 | 40_000);
        assert_eq!(
            found,
            [
                (there, 1, 1, 5, 0),
                (back, 1, 6, SEGMENT, 0),
                (back, 1 + SEGMENT as u32, 6, 1, 0),
                (there, 6, 2 + SEGMENT as u32, 1, 0),
            ]
        );
        let comment = b"came over tls";
        assert!(blocks[2].1.windows(comment.len()).any(|part| part == comment));
    }
}
