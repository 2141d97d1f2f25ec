//! The rewrite of a plain RTP packet in its frame.
//!
//! Once both ends of a plain leg are known, all that a relay does to a packet is to replace
//! addresses, ports and some numbers. [`rewrite`] does that in place, on an Ethernet frame, by one
//! [`Entry`]. A packet that needs more is refused unchanged: it takes the ordinary way, to
//! [`Stream::relay`](crate::Stream::relay). Without the entry all packets do.

use crate::codec::bit;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::ops::Range;
use media::demultiplex::Kind;
use rtp::Header;

/// The lengths of the headers of Ethernet, IPv4 without options, IPv6, and UDP, in bytes.
const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;
const UDP: usize = 8;

/// The number of UDP among the protocols above IP.
const PROTOCOL_UDP: u8 = 17;
/// The extension headers of IPv6: hop-by-hop options, routing, fragment, destination options.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;

/// The class of service of media: expedited forwarding (RFC 3246, RFC 4594).
const EXPEDITED: u8 = 46 << 2;
/// The hop limit of sent packets.
const HOP_LIMIT: u8 = 64;

/// An address and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The address.
    pub ip: IpAddr,
    /// The port.
    pub port: u16,
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self { ip: address.ip().to_canonical(), port: address.port() }
    }
}

/// The source and the destination of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The source.
    pub source: Endpoint,
    /// The destination.
    pub destination: Endpoint,
}

/// All that a rewrite needs: the packets of one direction of a plain stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The ends of the packets that are rewritten. Packets from another source are refused.
    pub received: Ends,
    /// The ends that they get, of the same address family.
    pub sent: Ends,
    /// The payload types that are rewritten, one bit each.
    pub payload_types: u128,
    /// The Ethernet addresses that the frames get: the source, and the destination.
    pub link: [[u8; 6]; 2],
    /// The number that is added to the SSRC.
    pub ssrc: u32,
    /// The number that is added to the timestamp.
    pub timestamp: u32,
    /// The number that is added to the sequence number.
    pub sequence_number: u16,
    /// The new hop limit (IPv6) or time to live (IPv4).
    pub hop_limit: u8,
    /// The new traffic class (IPv6) or type of service (IPv4).
    pub traffic_class: u8,
}

const _: () = assert!(size_of::<Entry>() <= 128, "an entry is two cache lines at most");

impl Entry {
    /// Creates an entry that changes addresses and ports only. The Ethernet addresses are zero.
    #[must_use]
    pub const fn new(received: Ends, sent: Ends, payload_types: u128) -> Self {
        Self {
            received,
            sent,
            payload_types,
            link: [[0; 6]; 2],
            ssrc: 0,
            timestamp: 0,
            sequence_number: 0,
            hop_limit: HOP_LIMIT,
            traffic_class: EXPEDITED,
        }
    }
}

/// A rewritten packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// The length of the frame without padding behind the IP packet, in bytes.
    pub frame: usize,
    /// The place of the RTP packet in the frame.
    pub packet: Range<usize>,
}

/// The reason why a frame is not rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// The lengths in the headers contradict that of the frame.
    Length,
    /// The frame has no UDP datagram, or has a VLAN tag.
    Protocol,
    /// The packet has IP options or extension headers.
    Options,
    /// The packet is a fragment.
    Fragment,
    /// The packet must not be forwarded: its hop limit is 1 or 0.
    HopLimit,
    /// The checksum of the IPv4 header is wrong, or that of UDP over IPv6 is missing.
    Checksum,
    /// The packet has another source or destination.
    Ends,
    /// The entry has addresses of two families.
    Family,
    /// The packet is not RTP: RTCP, or another protocol.
    Kind(Kind),
    /// The RTP header is not valid.
    Header,
    /// The payload type was not agreed.
    PayloadType(u8),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length => f.write_str("the lengths in the headers contradict the frame"),
            Self::Protocol => f.write_str("expected a UDP datagram without a VLAN tag"),
            Self::Options => f.write_str("the packet has IP options"),
            Self::Fragment => f.write_str("the packet is a fragment"),
            Self::HopLimit => f.write_str("the hop limit is used up"),
            Self::Checksum => f.write_str("the checksum is wrong or missing"),
            Self::Ends => f.write_str("expected the source and the destination of the entry"),
            Self::Family => f.write_str("the entry has addresses of two families"),
            Self::Kind(kind) => write!(f, "expected RTP: {kind:?}"),
            Self::Header => f.write_str("the RTP header is not valid"),
            Self::PayloadType(number) => write!(f, "payload type {number} was not agreed"),
        }
    }
}

impl core::error::Error for Refused {}

/// Rewrites the packet in `frame` by `entry`. Checksums are updated by the differences (RFC 1624):
/// a wrong UDP checksum stays wrong, and a missing one (IPv4) stays missing.
///
/// # Errors
/// [`Refused`]: the frame is unchanged.
pub fn rewrite(frame: &mut [u8], entry: &Entry) -> Result<Rewritten, Refused> {
    let place = Place::of(frame)?;
    let bytes = &frame[..place.end];
    if place.ends(bytes) != entry.received {
        return Err(Refused::Ends);
    }
    let packet = &bytes[place.udp + UDP..];
    let kind = Kind::of(packet);
    if kind != Kind::Rtp {
        return Err(Refused::Kind(kind));
    }
    let header = Header::parse(packet).map_err(|_| Refused::Header)?;
    let payload_type = header.payload_type();
    if entry.payload_types & bit(payload_type) == 0 {
        return Err(Refused::PayloadType(payload_type));
    }
    let ssrc = header.ssrc().wrapping_add(entry.ssrc);
    let timestamp = header.timestamp().wrapping_add(entry.timestamp);
    let sequence_number = header.sequence_number().wrapping_add(entry.sequence_number);

    let (link, rest) = frame[..place.end].split_at_mut(ETHERNET);
    let (ip, udp) = rest.split_at_mut(place.udp - ETHERNET);
    let Ends { source, destination } = entry.sent;
    let mut addresses = Difference::default();
    match (place.is_ipv4, source.ip, destination.ip) {
        (true, IpAddr::V4(source), IpAddr::V4(destination)) => {
            addresses.write(&mut ip[12..16], &source.octets());
            addresses.write(&mut ip[16..20], &destination.octets());
            let mut header = addresses;
            let [version, protocol] = [ip[0], ip[9]];
            header.write(&mut ip[..2], &[version, entry.traffic_class]);
            header.write(&mut ip[8..10], &[entry.hop_limit, protocol]);
            header.update(&mut ip[10..12]);
        }
        (false, IpAddr::V6(source), IpAddr::V6(destination)) => {
            addresses.write(&mut ip[8..24], &source.octets());
            addresses.write(&mut ip[24..40], &destination.octets());
            let class = 6 << 28 | u32::from(entry.traffic_class) << 20;
            ip[..4].copy_from_slice(&class.to_be_bytes());
            ip[7] = entry.hop_limit;
        }
        _ => return Err(Refused::Family),
    }
    link[..6].copy_from_slice(&entry.link[1]);
    link[6..12].copy_from_slice(&entry.link[0]);
    let mut datagram = addresses;
    datagram.write(&mut udp[..2], &source.port.to_be_bytes());
    datagram.write(&mut udp[2..4], &destination.port.to_be_bytes());
    datagram.write(&mut udp[UDP + 2..UDP + 4], &sequence_number.to_be_bytes());
    datagram.write(&mut udp[UDP + 4..UDP + 8], &timestamp.to_be_bytes());
    datagram.write(&mut udp[UDP + 8..UDP + 12], &ssrc.to_be_bytes());
    let checksum = &mut udp[6..8];
    if *checksum != [0, 0] {
        datagram.update(checksum);
        if *checksum == [0, 0] {
            checksum.fill(0xff);
        }
    }
    Ok(Rewritten { frame: place.end, packet: place.udp + UDP..place.end })
}

/// The place of a UDP datagram in a frame.
struct Place {
    is_ipv4: bool,
    /// The start of the UDP header, and the end of the datagram.
    udp: usize,
    end: usize,
}

impl Place {
    fn of(frame: &[u8]) -> Result<Self, Refused> {
        let (link, packet) = frame.split_at_checked(ETHERNET).ok_or(Refused::Length)?;
        let place = match link[12..] {
            [0x08, 0x00] => Self::of_ipv4(packet)?,
            [0x86, 0xdd] => Self::of_ipv6(packet)?,
            _ => return Err(Refused::Protocol),
        };
        let datagram = frame.get(place.udp..place.end).ok_or(Refused::Length)?;
        let length = usize::from(number(datagram.get(4..6).ok_or(Refused::Length)?));
        if length < UDP || length != datagram.len() {
            return Err(Refused::Length);
        }
        if !place.is_ipv4 && datagram[6..8] == [0, 0] {
            return Err(Refused::Checksum);
        }
        Ok(place)
    }

    fn of_ipv4(packet: &[u8]) -> Result<Self, Refused> {
        let header = packet.first_chunk::<IPV4>().ok_or(Refused::Length)?;
        match header[0] {
            0x45 => {}
            0x46..=0x4f => return Err(Refused::Options),
            _ => return Err(Refused::Protocol),
        }
        let sum = header.chunks_exact(2).map(|word| u32::from(number(word))).sum();
        if folded(sum) != 0xffff {
            return Err(Refused::Checksum);
        }
        // More fragments, or an offset.
        if number(&header[6..8]) & 0x3fff != 0 {
            return Err(Refused::Fragment);
        }
        if header[9] != PROTOCOL_UDP {
            return Err(Refused::Protocol);
        }
        if header[8] <= 1 {
            return Err(Refused::HopLimit);
        }
        let length = usize::from(number(&header[2..4]));
        Ok(Self { is_ipv4: true, udp: ETHERNET + IPV4, end: ETHERNET + length })
    }

    fn of_ipv6(packet: &[u8]) -> Result<Self, Refused> {
        let header = packet.first_chunk::<IPV6>().ok_or(Refused::Length)?;
        if header[0] >> 4 != 6 {
            return Err(Refused::Protocol);
        }
        match header[6] {
            PROTOCOL_UDP => {}
            FRAGMENT => return Err(Refused::Fragment),
            HOP_BY_HOP | ROUTING | DESTINATION => return Err(Refused::Options),
            _ => return Err(Refused::Protocol),
        }
        if header[7] <= 1 {
            return Err(Refused::HopLimit);
        }
        let length = usize::from(number(&header[4..6]));
        let udp = ETHERNET + IPV6;
        Ok(Self { is_ipv4: false, udp, end: udp + length })
    }

    /// The ends of the datagram at this place of `frame`.
    fn ends(&self, frame: &[u8]) -> Ends {
        let end = |ip, port| Endpoint { ip, port: number(&frame[self.udp + port..][..2]) };
        let address = |number: usize| match self.is_ipv4 {
            true => IpAddr::from(octets::<4>(frame, ETHERNET + 12 + 4 * number)),
            false => IpAddr::from(octets::<16>(frame, ETHERNET + 8 + 16 * number)),
        };
        Ends { source: end(address(0), 0), destination: end(address(1), 2) }
    }
}

/// The bytes of `frame` from `at` on, which are there.
fn octets<const N: usize>(frame: &[u8], at: usize) -> [u8; N] {
    core::array::from_fn(|index| frame[at + index])
}

/// The number in the first two bytes.
fn number(bytes: &[u8]) -> u16 {
    u16::from_be_bytes([bytes[0], bytes[1]])
}

/// The one's complement sum in 16 bits.
const fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The change of a one's complement sum by rewritten words.
#[derive(Clone, Copy, Default)]
struct Difference(u32);

impl Difference {
    /// Replaces `place` by `new`: whole words of the sum.
    fn write(&mut self, place: &mut [u8], new: &[u8]) {
        for (place, new) in place.chunks_exact_mut(2).zip(new.chunks_exact(2)) {
            self.0 += u32::from(!number(place)) + u32::from(number(new));
            place.copy_from_slice(new);
        }
    }

    /// Updates the `checksum` of the changed bytes.
    fn update(self, checksum: &mut [u8]) {
        let sum = folded(u32::from(!number(checksum)) + self.0);
        checksum.copy_from_slice(&(!sum).to_be_bytes());
    }
}
