//! UDP datagrams in Ethernet frames: parsed and written in place.

use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddrV4};
use core::ops::Range;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, IpAddress, IpProtocol, Ipv4Packet, UdpPacket,
};

/// Length in bytes of the headers of Ethernet, of IP without options, and of UDP.
pub(crate) const ETHERNET: usize = 14;
pub(crate) const IP: usize = 20;
pub(crate) const UDP: usize = 8;
/// The DSCP of SIP: signalling (RFC 4594, class CS3).
pub(super) const SIGNALLING: u8 = 24;

/// The source and the destination of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The claimed source.
    pub source: SocketAddrV4,
    /// The destination.
    pub destination: SocketAddrV4,
}

/// The content of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A datagram, the sender's Ethernet address, and the range of its payload in the frame.
    Datagram { ends: Ends, from: EthernetAddress, payload: Range<usize> },
    /// A fragment of a datagram, and the range of its IP packet.
    Fragment { packet: Range<usize> },
    /// ARP, or DHCP to all hosts.
    Link,
    /// Another IP packet for the stack.
    Packet,
    /// A datagram with a source address that no other host can have (RFC 1122 section 3.2.1.3).
    Impossible(Ipv4Addr),
    /// Content that is dropped.
    Nothing,
}

/// Classifies a frame received by the card with address `mac` of the host `ours`. UDP checksums are
/// verified if `checks`.
pub(crate) fn content(
    frame: &[u8],
    mac: EthernetAddress,
    ours: Option<Ipv4Addr>,
    checks: bool,
) -> Content {
    let Ok(ethernet) = EthernetFrame::new_checked(frame) else { return Content::Nothing };
    if ethernet.dst_addr() != mac && !ethernet.dst_addr().is_multicast() {
        return Content::Nothing;
    }
    if ethernet.ethertype() != EthernetProtocol::Ipv4 {
        return Content::Link;
    }
    let Ok(ip) = Ipv4Packet::new_checked(ethernet.payload()) else { return Content::Nothing };
    let is_ours = Some(ip.dst_addr()) == ours && ethernet.dst_addr() == mac;
    match ip.next_header() {
        IpProtocol::Udp if is_ours => {}
        IpProtocol::Udp => return Content::Link,
        _ => return Content::Packet,
    }
    let is_sound = ip.version() == 4 && ip.header_len() >= 20 && ip.verify_checksum();
    if !is_sound {
        return Content::Nothing;
    }
    if !is_host(ip.src_addr()) || Some(ip.src_addr()) == ours {
        return Content::Impossible(ip.src_addr());
    }
    if ip.more_frags() || ip.frag_offset() != 0 {
        return Content::Fragment { packet: ETHERNET..ETHERNET + usize::from(ip.total_len()) };
    }
    let start = ETHERNET + usize::from(ip.header_len());
    match datagram(ip.src_addr(), ip.dst_addr(), ip.payload(), checks) {
        Some((ends, length)) => Content::Datagram {
            ends,
            from: ethernet.src_addr(),
            payload: start + UDP..start + UDP + length,
        },
        None => Content::Nothing,
    }
}

/// The claimed IP source and the Ethernet source of an IP frame.
pub(crate) fn sender(frame: &[u8]) -> Option<(Ipv4Addr, EthernetAddress)> {
    let ethernet = EthernetFrame::new_checked(frame).ok()?;
    if ethernet.ethertype() != EthernetProtocol::Ipv4 {
        return None;
    }
    let ip = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
    Some((ip.src_addr(), ethernet.src_addr()))
}

/// The ends of the UDP datagram `bytes`, and the length of its payload.
pub(crate) fn datagram(
    source: Ipv4Addr,
    destination: Ipv4Addr,
    bytes: &[u8],
    checks: bool,
) -> Option<(Ends, usize)> {
    let udp = UdpPacket::new_checked(bytes).ok()?;
    let is_sound = !checks
        || udp.checksum() == 0
        || udp.verify_checksum(&IpAddress::Ipv4(source), &IpAddress::Ipv4(destination));
    let ends = Ends {
        source: SocketAddrV4::new(source, udp.src_port()),
        destination: SocketAddrV4::new(destination, udp.dst_port()),
    };
    (is_sound && udp.src_port() != 0).then(|| (ends, udp.payload().len()))
}

/// Returns true if a single host may have this address.
pub(crate) fn is_host(address: Ipv4Addr) -> bool {
    !address.is_unspecified()
        && !address.is_broadcast()
        && !address.is_multicast()
        && !address.is_loopback()
}

/// A fragment of an IP packet with UDP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) from: EthernetAddress,
    pub(crate) to: EthernetAddress,
    pub(crate) ends: Ends,
    /// The class of service.
    pub(crate) dscp: u8,
    /// The identification that all fragments of the packet share.
    pub(crate) ident: u16,
    /// Its offset in the packet in bytes.
    pub(crate) offset: u16,
    pub(crate) is_last: bool,
    /// Its length in bytes, behind the space for the headers.
    pub(crate) length: usize,
}

/// Writes the headers of `part` to the start of `frame`. Returns the length of the frame.
pub(crate) fn write_headers(frame: &mut [u8], part: &Part) -> usize {
    let length = ETHERNET + IP + part.length;
    let mut ethernet = EthernetFrame::new_unchecked(&mut frame[..length]);
    ethernet.set_src_addr(part.from);
    ethernet.set_dst_addr(part.to);
    ethernet.set_ethertype(EthernetProtocol::Ipv4);
    let mut ip = Ipv4Packet::new_unchecked(ethernet.payload_mut());
    ip.set_version(4);
    ip.set_header_len(IP as u8);
    ip.set_dscp(part.dscp);
    ip.set_ecn(0);
    ip.set_total_len((IP + part.length) as u16);
    ip.set_ident(part.ident);
    ip.clear_flags();
    ip.set_more_frags(!part.is_last);
    ip.set_frag_offset(part.offset);
    ip.set_hop_limit(64);
    ip.set_next_header(IpProtocol::Udp);
    ip.set_src_addr(*part.ends.source.ip());
    ip.set_dst_addr(*part.ends.destination.ip());
    ip.fill_checksum();
    length
}

/// Writes the UDP header to the start of `datagram`, before the payload.
pub(crate) fn write_udp(datagram: &mut [u8], ends: Ends) {
    let length = datagram.len() as u16;
    let mut udp = UdpPacket::new_unchecked(datagram);
    udp.set_src_port(ends.source.port());
    udp.set_dst_port(ends.destination.port());
    udp.set_len(length);
    let (source, destination) = (*ends.source.ip(), *ends.destination.ip());
    udp.fill_checksum(&IpAddress::Ipv4(source), &IpAddress::Ipv4(destination));
}

/// Sets the DSCP of a packet of the stack. All its TCP connections carry SIP.
pub(super) fn mark(packet: &mut Ipv4Packet<&mut [u8]>) {
    if packet.next_header() == IpProtocol::Tcp {
        packet.set_dscp(SIGNALLING);
        packet.fill_checksum();
    }
}

/// A datagram: UDP header and `payload`.
pub(super) fn with_header(ends: Ends, payload: &[u8]) -> Vec<u8> {
    let mut bytes = alloc::vec![0; UDP + payload.len()];
    bytes[UDP..].copy_from_slice(payload);
    write_udp(&mut bytes, ends);
    bytes
}
