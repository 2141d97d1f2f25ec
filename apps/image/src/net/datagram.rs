//! UDP datagrams as they stand in Ethernet frames: read where they lie, written where they are sent
//! from.

use core::net::{Ipv4Addr, SocketAddrV4};
use core::ops::Range;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, IpAddress, IpProtocol, Ipv4Packet, TcpPacket,
    UdpPacket,
};

/// Bytes of the headers of Ethernet, of IP without options, and of UDP.
pub(crate) const ETHERNET: usize = 14;
pub(crate) const IP: usize = 20;
pub(crate) const UDP: usize = 8;

/// Where a datagram came from and goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Who sent it, as it says.
    pub source: SocketAddrV4,
    /// Whom it is for.
    pub destination: SocketAddrV4,
}

/// What a frame holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A datagram, and where in the frame its payload stands.
    Datagram { ends: Ends, from: EthernetAddress, payload: Range<usize> },
    /// A part of one that was too long, and where its IP packet stands.
    Fragment { packet: Range<usize> },
    /// Something else.
    Other,
    /// Nothing that anybody wants.
    Nothing,
}

/// Looks into a frame that came to the card with address `mac`, whose host has the address `ours`.
/// Checksums of UDP are looked at if `checks`.
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
        return Content::Other;
    }
    let Ok(ip) = Ipv4Packet::new_checked(ethernet.payload()) else { return Content::Nothing };
    let is_ours = Some(ip.dst_addr()) == ours && ethernet.dst_addr() == mac;
    if ip.next_header() != IpProtocol::Udp || !is_ours {
        return Content::Other;
    }
    let is_sound = ip.version() == 4 && ip.header_len() >= 20 && ip.verify_checksum();
    if !is_sound || !is_host(ip.src_addr()) || Some(ip.src_addr()) == ours {
        return Content::Nothing;
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

/// Who has sent a frame of IP, as it says, and by which card.
pub(crate) fn sender(frame: &[u8]) -> Option<(Ipv4Addr, EthernetAddress)> {
    let ethernet = EthernetFrame::new_checked(frame).ok()?;
    if ethernet.ethertype() != EthernetProtocol::Ipv4 {
        return None;
    }
    let ip = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
    Some((ip.src_addr(), ethernet.src_addr()))
}

/// The sender of a frame with the first packet of a connection by TCP, and its card.
pub(crate) fn connection_begun(frame: &[u8]) -> Option<(Ipv4Addr, EthernetAddress)> {
    let ethernet = EthernetFrame::new_checked(frame).ok()?;
    let ip = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
    let tcp = TcpPacket::new_checked(ip.payload()).ok()?;
    let is_first = ip.next_header() == IpProtocol::Tcp && tcp.syn() && !tcp.ack();
    is_first.then(|| (ip.src_addr(), ethernet.src_addr()))
}

/// The ends of the UDP datagram `bytes`, and how long its payload is.
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

/// Whether one host may have this address.
pub(crate) fn is_host(address: Ipv4Addr) -> bool {
    !address.is_unspecified()
        && !address.is_broadcast()
        && !address.is_multicast()
        && !address.is_loopback()
}

/// A part of an IP packet with UDP in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) from: EthernetAddress,
    pub(crate) to: EthernetAddress,
    pub(crate) ends: Ends,
    /// The number that all parts of the packet have.
    pub(crate) ident: u16,
    /// Where it begins in the packet, in bytes.
    pub(crate) offset: u16,
    pub(crate) is_last: bool,
    /// How many bytes it has, which stand behind the place for the headers.
    pub(crate) length: usize,
}

/// Writes the headers of `part` to the beginning of `frame`; returns how long the frame is.
pub(crate) fn write_headers(frame: &mut [u8], part: &Part) -> usize {
    let length = ETHERNET + IP + part.length;
    let mut ethernet = EthernetFrame::new_unchecked(&mut frame[..length]);
    ethernet.set_src_addr(part.from);
    ethernet.set_dst_addr(part.to);
    ethernet.set_ethertype(EthernetProtocol::Ipv4);
    let mut ip = Ipv4Packet::new_unchecked(ethernet.payload_mut());
    ip.set_version(4);
    ip.set_header_len(IP as u8);
    ip.set_dscp(0);
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

/// Writes the header of UDP to the beginning of `datagram`, whose payload stands behind it.
pub(crate) fn write_udp(datagram: &mut [u8], ends: Ends) {
    let length = datagram.len() as u16;
    let mut udp = UdpPacket::new_unchecked(datagram);
    udp.set_src_port(ends.source.port());
    udp.set_dst_port(ends.destination.port());
    udp.set_len(length);
    let (source, destination) = (*ends.source.ip(), *ends.destination.ip());
    udp.fill_checksum(&IpAddress::Ipv4(source), &IpAddress::Ipv4(destination));
}
