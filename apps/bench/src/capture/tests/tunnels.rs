//! Packets in tunnels, and with tags.

use super::build::{Capture, Fields, Link, PCAP, START, analyse, message, udp};
use crate::capture::Analysis;
use crate::capture::hep::tests::datagram;
use std::net::Ipv4Addr;

const A: &str = "10.0.0.1:5060";
const B: &str = "10.0.0.2:5060";

/// Returns two IP packets: a REGISTER and its 200.
fn packets() -> [Vec<u8>; 2] {
    let fields = Fields { call_id: "x", branches: &["1"], cseq: "1 REGISTER", to_tag: "" };
    [udp(A, B, &message("REGISTER sip:b", fields, "")), udp(B, A, &message("200", fields, ""))]
}

/// Returns an Ethernet frame.
fn frame(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    [&[2; 12], &ether_type.to_be_bytes()[..], payload].concat()
}

/// Returns an IPv4 packet between the ends of a tunnel.
fn ip(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(20 + payload.len()).unwrap();
    let mut bytes = vec![0x45, 0];
    bytes.extend(length.to_be_bytes());
    bytes.extend([0, 1, 0, 0, 64, protocol, 0, 0]);
    bytes.extend(Ipv4Addr::new(192, 0, 2, 1).octets());
    bytes.extend(Ipv4Addr::new(192, 0, 2, 2).octets());
    bytes.extend(payload);
    bytes
}

/// Returns an IPv6 packet between the ends of a tunnel.
fn ip6(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0];
    bytes.extend(u16::try_from(payload.len()).unwrap().to_be_bytes());
    bytes.extend([protocol, 64]);
    bytes.extend([0x20; 32]);
    bytes.extend(payload);
    bytes
}

/// Returns the analysis of an Ethernet capture of the IP packets, each in a frame by `wrap`.
fn analysed(wrap: impl Fn(&[u8]) -> Vec<u8>) -> Analysis {
    let mut capture = Capture::default();
    for (index, packet) in (0..).zip(packets()) {
        capture.packets.push((START + index * 1_000, wrap(&packet)));
    }
    analyse(&capture.write(PCAP, Link::Frames)).unwrap()
}

#[track_caller]
fn assert_read(name: &str, is_tunnel: bool, wrap: impl Fn(&[u8]) -> Vec<u8>) {
    let analysis = analysed(wrap);
    assert_eq!(analysis.sip.udp, 2, "{name}: {:?}", analysis.packets);
    assert_eq!(analysis.registrations.list.len(), 1, "{name}");
    assert_eq!(analysis.packets.tunnelled, if is_tunnel { 2 } else { 0 }, "{name}");
    assert_eq!((analysis.packets.datagrams, analysis.packets.other_protocols), (2, 0), "{name}");
}

#[test]
fn tunnels_are_read() {
    assert_read("IP in IP", true, |inner| frame(0x0800, &ip(4, inner)));
    assert_read("IPv4 in IPv6", true, |inner| frame(0x86dd, &ip6(4, inner)));
    assert_read("three in one another", true, |inner| {
        frame(0x86dd, &ip6(41, &ip6(4, &ip(4, inner))))
    });
    assert_read("GRE", true, |inner| frame(0x0800, &ip(47, &[&[0, 0, 8, 0], inner].concat())));
    assert_read("GRE with checksum, key and number", true, |inner| {
        frame(0x0800, &ip(47, &[&[0xb0, 0, 8, 0][..], &[7; 12], inner].concat()))
    });
    assert_read("Ethernet in GRE", true, |inner| {
        let inner = frame(0x0800, inner);
        frame(0x0800, &ip(47, &[&[0x20, 0, 0x65, 0x58, 0, 0, 0, 9], &inner[..]].concat()))
    });
    assert_read("ERSPAN I", true, |inner| {
        let inner = frame(0x0800, inner);
        frame(0x0800, &ip(47, &[&[0, 0, 0x88, 0xbe], &inner[..]].concat()))
    });
    assert_read("ERSPAN II", true, |inner| {
        let inner = frame(0x0800, inner);
        let header = [0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 10, 0, 1, 0, 0, 0, 0];
        frame(0x0800, &ip(47, &[&header, &inner[..]].concat()))
    });
    for more in [0, 1] {
        assert_read("ERSPAN III", true, |inner| {
            let inner = frame(0x0800, inner);
            let header =
                [0x10, 0, 0x22, 0xeb, 0, 0, 0, 1, 0x20, 10, 0, 1, 0, 0, 0, 0, 0, 0, 0, more];
            let more = vec![0; 8 * usize::from(more)];
            frame(0x0800, &ip(47, &[&header[..], &more, &inner].concat()))
        });
    }
    let datagram = |port: u16, payload: &[u8]| {
        frame(0x0800, &udp("192.0.2.1:40000", &format!("192.0.2.2:{port}"), payload))
    };
    assert_read("VXLAN", true, |inner| {
        let inner = frame(0x0800, inner);
        datagram(4789, &[&[8, 0, 0, 0, 0, 0, 5, 0], &inner[..]].concat())
    });
    assert_read("Geneve with an option", true, |inner| {
        let inner = frame(0x0800, inner);
        let header = [1, 0, 0x65, 0x58, 0, 0, 5, 0, 0, 1, 2, 0];
        datagram(6081, &[&header, &inner[..]].concat())
    });
}

#[test]
fn tags_are_passed_over() {
    for count in [1, 2, 3, 4, 9] {
        assert_read("VLAN", false, |inner| {
            let tags: Vec<u8> = (0..count)
                .flat_map(|tag| {
                    let next = if tag + 1 < count { [0x81, 0] } else { [8, 0] };
                    [0, 7, next[0], next[1]]
                })
                .collect();
            frame(0x88a8, &[&tags[..], inner].concat())
        });
    }
    assert_read("MPLS", false, |inner| {
        frame(0x8847, &[&[0, 1, 0, 64, 0, 2, 1, 64], inner].concat())
    });
    assert_read("PPPoE", false, |inner| {
        let length = u16::try_from(inner.len() + 2).unwrap().to_be_bytes();
        frame(0x8864, &[&[0x11, 0, 0, 9, length[0], length[1], 0, 0x21], inner].concat())
    });
}

#[test]
fn packets_of_capture_agents_are_read() {
    let fields = Fields { call_id: "x", branches: &["1"], cseq: "1 REGISTER", to_tag: "" };
    let mut capture = Capture::default();
    // Forwarded a second later, both at once.
    for (first, ends, micros) in [("REGISTER sip:b", [1, 2], 5u32), ("200", [2, 1], 1_005)] {
        let chunks: [(u16, u16, &[u8]); 7] = [
            (0, 3, &[10, 0, 0, ends[0]]),
            (0, 4, &[10, 0, 0, ends[1]]),
            (0, 7, &[19, 196]),
            (0, 8, &[19, 196]),
            (0, 9, &((START / 1_000_000_000) as u32).to_be_bytes()),
            (0, 10, &micros.to_be_bytes()),
            (0, 15, &message(first, fields, "")),
        ];
        let datagram = datagram(&chunks);
        capture.udp(1_000_000, "192.0.2.1:9060", "192.0.2.2:9060", &datagram);
    }
    let analysis = capture.analyse();
    assert_eq!((analysis.sip.udp, analysis.packets.tunnelled), (2, 2));
    let one = &analysis.registrations.list[0];
    assert_eq!(one.final_us.unwrap() - one.register_us, 1_000);
    assert_eq!(analysis.started_us, Some(START / 1_000 + 5));
}

#[test]
fn a_datagram_to_the_port_of_a_tunnel_may_be_something_else() {
    let analysis = analysed(|_| {
        frame(0x0800, &udp("192.0.2.1:40000", "192.0.2.2:4789", b"no VXLAN at all, not at all"))
    });
    assert_eq!((analysis.packets.datagrams, analysis.packets.tunnelled), (2, 0));
    assert_eq!(analysis.sip.other_datagrams, 2);
}

#[test]
fn a_tunnel_that_was_fragmented_is_put_together() {
    let mut capture = Capture::default();
    for (index, packet) in (0..).zip(packets()) {
        let whole = ip(4, &packet);
        let (header, payload) = whole.split_at(20);
        let pieces: Vec<_> = payload.chunks(64).collect();
        for (at, piece) in pieces.iter().enumerate() {
            let mut bytes = header.to_vec();
            bytes[2..4].copy_from_slice(&(piece.len() as u16 + 20).to_be_bytes());
            bytes[4..6].copy_from_slice(&[0, 9 + index as u8]);
            let more = u16::from(at + 1 < pieces.len()) << 13;
            bytes[6..8].copy_from_slice(&((at as u16 * 8) | more).to_be_bytes());
            bytes.extend(*piece);
            capture.packets.push((START + index * 1_000, frame(0x0800, &bytes)));
        }
    }
    let analysis = analyse(&capture.write(PCAP, Link::Frames)).unwrap();
    assert_eq!((analysis.sip.udp, analysis.packets.reassembled), (2, 2));
    assert_eq!(analysis.packets.tunnelled, 2);
}

#[test]
fn packets_are_opened_to_a_depth() {
    let analysis = analysed(|inner| {
        let mut packet = inner.to_vec();
        for _ in 0..1000 {
            packet = ip(4, &packet);
        }
        frame(0x0800, &packet)
    });
    assert_eq!((analysis.sip.udp, analysis.packets.other_protocols), (0, 2));
}
