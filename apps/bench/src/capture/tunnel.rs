//! Packets in packets: tunnels, and layers between Ethernet and IP.
//!
//! Each function parses a layer that etherparse does not support, only as far as the start of the
//! next one.

use etherparse::{EtherType, IpNumber, LaxSlicedPacket};

/// The UDP ports of VXLAN (RFC 7348 section 5) and Geneve (RFC 8926 section 3.3).
const VXLAN: u16 = 4789;
const GENEVE: u16 = 6081;

/// Ethernet in GRE and Geneve (RFC 7637 section 3.2).
const TRANSPARENT_ETHERNET: u16 = 0x6558;
/// Mirrored Ethernet: ERSPAN types I and II, and type III (draft-foschiano-erspan).
const ERSPAN: u16 = 0x88be;
const ERSPAN_III: u16 = 0x22eb;
/// A PPPoE session (RFC 2516 section 4).
const PPPOE_SESSION: u16 = 0x8864;
/// MPLS, unicast and multicast (RFC 5332 section 3).
const MPLS: u16 = 0x8847;
const MPLS_MULTICAST: u16 = 0x8848;

/// The limit of tags and labels before a packet.
const TAGS: usize = 16;

/// Returns the packet in an Ethernet frame.
pub(super) fn ethernet(frame: &[u8]) -> Option<LaxSlicedPacket<'_>> {
    ether_payload(number(frame, 12)?, frame.get(14..)?)
}

/// Returns the packet after an EtherType and its tags and labels.
pub(super) fn ether_payload(ether_type: u16, payload: &[u8]) -> Option<LaxSlicedPacket<'_>> {
    let (mut ether_type, mut rest) = (ether_type, payload);
    for _ in 0..TAGS {
        match EtherType(ether_type) {
            EtherType::VLAN_TAGGED_FRAME
            | EtherType::PROVIDER_BRIDGING
            | EtherType::VLAN_DOUBLE_TAGGED_FRAME => {
                (ether_type, rest) = (number(rest, 2)?, rest.get(4..)?);
            }
            EtherType(MPLS | MPLS_MULTICAST) => {
                let is_bottom = rest.get(2)? & 1 == 1;
                rest = rest.get(4..)?;
                if is_bottom {
                    return LaxSlicedPacket::from_ip(rest).ok();
                }
            }
            EtherType(PPPOE_SESSION) => {
                // A header of six bytes, then the PPP protocol number.
                return match number(rest, 6)? {
                    0x0021 | 0x0057 => LaxSlicedPacket::from_ip(rest.get(8..)?).ok(),
                    _ => None,
                };
            }
            ether_type => return Some(LaxSlicedPacket::from_ether_type(ether_type, rest)),
        }
    }
    None
}

/// Returns true if an IP packet of this protocol may contain another packet.
pub(super) fn is_tunnel(protocol: IpNumber) -> bool {
    matches!(protocol, IpNumber::IPV4 | IpNumber::IPV6 | IpNumber::GRE)
}

/// Returns the packet in an IP packet (RFC 2003, RFC 2473, RFC 4213, RFC 2784 with RFC 2890).
pub(super) fn in_ip(protocol: IpNumber, payload: &[u8]) -> Option<LaxSlicedPacket<'_>> {
    match protocol {
        IpNumber::IPV4 | IpNumber::IPV6 => LaxSlicedPacket::from_ip(payload).ok(),
        IpNumber::GRE => in_gre(payload),
        _ => None,
    }
}

fn in_gre(payload: &[u8]) -> Option<LaxSlicedPacket<'_>> {
    let (flags, protocol) = (number(payload, 0)?, number(payload, 2)?);
    // Version 1 is PPTP; RFC 2784 deprecated routing.
    if flags & 0x4007 != 0 {
        return None;
    }
    let (checksum, key, sequence) = (flags >> 15 & 1, flags >> 13 & 1, flags >> 12 & 1);
    let rest = payload.get(4 + 4 * usize::from(checksum + key + sequence)..)?;
    match protocol {
        // Type II has a sequence number and a header of eight bytes; type I has neither.
        ERSPAN if sequence == 1 => ethernet(rest.get(8..)?),
        ERSPAN => ethernet(rest),
        ERSPAN_III => {
            // The last bit of the twelve bytes is set if eight more follow.
            let more = 8 * usize::from(rest.get(11)? & 1);
            ethernet(rest.get(12 + more..)?)
        }
        _ => encapsulated(protocol, rest),
    }
}

/// Returns the packet in a datagram to a tunnel port; `None` if it is not a tunnel packet.
pub(super) fn in_udp(port: u16, payload: &[u8]) -> Option<LaxSlicedPacket<'_>> {
    match port {
        // Only the flag of the network identifier is set, and reserved bits are zero.
        VXLAN if payload.starts_with(&[8, 0, 0, 0]) && payload.get(7) == Some(&0) => {
            ethernet(payload.get(8..)?)
        }
        GENEVE if payload.first()? >> 6 == 0 && payload.get(7) == Some(&0) => {
            let options = 4 * usize::from(payload[0] & 0x3f);
            encapsulated(number(payload, 2)?, payload.get(8 + options..)?)
        }
        _ => None,
    }
}

fn encapsulated(protocol: u16, bytes: &[u8]) -> Option<LaxSlicedPacket<'_>> {
    match protocol {
        TRANSPARENT_ETHERNET => ethernet(bytes),
        _ => ether_payload(protocol, bytes),
    }
}

/// Returns the two bytes at `at` as a number.
pub(super) fn number(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|two| u16::from_be_bytes([two[0], two[1]]))
}
