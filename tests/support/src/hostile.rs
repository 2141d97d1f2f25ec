//! Hostile Ethernet frames: damaged packets of the protocols of a small server.

use etherparse::PacketBuilder;
use fastrand::Rng;
use std::net::{Ipv4Addr, SocketAddrV4};

/// An end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The MAC address.
    pub mac: [u8; 6],
    /// The IPv4 address.
    pub address: Ipv4Addr,
}

impl End {
    /// An Ethernet frame with a datagram from the port `source` of this end to a port of another
    /// end.
    ///
    /// # Panics
    /// The datagram exceeds the length of a frame.
    #[must_use]
    pub fn frame(self, source: u16, to: Self, port: u16, payload: &[u8]) -> Vec<u8> {
        let builder = PacketBuilder::ethernet2(self.mac, to.mac)
            .ipv4(self.address.octets(), to.address.octets(), 64)
            .udp(source, port);
        let mut frame = Vec::new();
        builder.write(&mut frame, payload).expect("the datagram fits into a frame");
        frame
    }

    /// A request of `user` from a port of this end to the server at `to`.
    #[must_use]
    pub fn request(self, port: u16, to: Self, method: &str, user: &str, number: u32) -> String {
        let (from, server) = (SocketAddrV4::new(self.address, port), to.address);
        let uri = match method {
            "REGISTER" | "OPTIONS" => format!("sip:{server}"),
            _ => format!("sip:{user}@{server}"),
        };
        format!(
            "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {from};branch=z9hG4bK{number};rport\r\n\
             Max-Forwards: 70\r\nFrom: <sip:{user}@{server}>;tag={number}\r\n\
             To: <sip:{user}@{server}>\r\nCall-ID: {number}@{from}\r\nCSeq: {number} {method}\r\n\
             Contact: <sip:{user}@{from}>\r\nContent-Length: 0\r\n\r\n"
        )
    }
}

/// An endless sequence of damaged frames to a server.
#[derive(Debug)]
pub struct HostileFrames {
    server: End,
    samples: Vec<Vec<u8>>,
    random: Rng,
    number: usize,
}

impl HostileFrames {
    /// Frames to `server`: SIP from `phone`, and DHCP, TFTP, DNS and NTP from `host`.
    #[must_use]
    pub fn new(server: End, host: End, phone: End, seed: u64) -> Self {
        const SIP: u16 = 5060;
        const PHONE: u16 = 5070;
        let answer = [
            &[0x12, 0x34, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0, 1, b'a', 0, 0, 1, 0, 1][..],
            &[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 1, 2, 3, 4],
        ]
        .concat();
        let mut arp = vec![0xff; 6];
        arp.extend(host.mac);
        arp.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        arp.extend(host.mac);
        arp.extend(host.address.octets());
        arp.extend([0; 6]);
        arp.extend(server.address.octets());
        let mut fragment = phone.frame(PHONE, server, SIP, &[b'x'; 1400]);
        fragment[20] = 0x20;
        let mut syn = phone.frame(PHONE, server, SIP, &[0; 12]);
        syn[23] = 6;
        let sip = |method, user, number| {
            let message = phone.request(PHONE, server, method, user, number);
            phone.frame(PHONE, server, SIP, message.as_bytes())
        };
        let samples = vec![
            sip("INVITE", "bob", 5),
            sip("REGISTER", "alice", 6),
            host.frame(53, server, 50_000, &answer),
            host.frame(67, server, 68, &[2; 300]),
            host.frame(1069, server, 50_000, b"\0\x03\0\x01alice:x\n"),
            host.frame(123, server, 123, &[0x24; 48]),
            arp,
            fragment,
            syn,
        ];
        Self { server, samples, random: Rng::with_seed(seed), number: 0 }
    }
}

impl Iterator for HostileFrames {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Self::Item> {
        let random = &mut self.random;
        let mut frame = self.samples[self.number % self.samples.len()].clone();
        self.number += 1;
        if frame[12..14] == [8, 0] && random.bool() {
            // Correct checksums let more frames pass the first checks.
            let at = random.usize(42..frame.len().max(43));
            frame.truncate(at.max(60).min(frame.len()));
            fix(&mut frame);
        } else {
            damage(&mut frame, random);
            if random.bool() && frame.len() > 34 {
                fix(&mut frame);
            }
        }
        frame[..6].copy_from_slice(&self.server.mac);
        Some(frame)
    }
}

/// Changes, removes or appends bytes.
fn damage(frame: &mut Vec<u8>, random: &mut Rng) {
    for _ in 0..random.usize(1..6) {
        let at = random.usize(0..frame.len());
        match random.u8(0..6) {
            0 => frame.truncate(at),
            1 => frame.extend(std::iter::repeat_with(|| random.u8(..)).take(at % 200)),
            2 => frame[at] = random.choice([0, 1, 0x7f, 0x80, 0xff]).unwrap_or(0),
            _ => frame[at] = random.u8(..),
        }
        if frame.len() < 15 {
            frame.resize(60, 0);
        }
    }
    frame.truncate(1514);
}

/// Corrects the lengths of the IP and UDP headers in `frame` and the IP checksum, and removes the
/// UDP checksum.
fn fix(frame: &mut [u8]) {
    let length = (frame.len() - 14) as u16;
    frame[16..18].copy_from_slice(&length.to_be_bytes());
    if frame[23] == 17 && frame.len() >= 42 {
        frame[38..40].copy_from_slice(&(length - 20).to_be_bytes());
    }
    frame[24..26].fill(0);
    let words =
        frame[14..34].chunks_exact(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let checksum = !(sum as u16);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    if frame[23] == 17 && frame.len() >= 42 {
        frame[40..42].fill(0);
    }
}
