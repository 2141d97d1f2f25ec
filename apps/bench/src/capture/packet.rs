//! Extracts datagrams and segments from packets: link layers, IP, fragments, and tunnels.

use super::file::Frame;
use super::hep;
use super::tunnel;
use etherparse::defrag::IpDefragBuf;
use etherparse::{
    IpFragOffset, IpNumber, Ipv6ExtensionSlice, LaxNetSlice, LaxSlicedPacket, TcpSlice, UdpSlice,
};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};

/// Packet counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct PacketCounts {
    /// Packets in the file.
    pub(crate) packets: u64,
    /// Packets that the capture truncated (snap length).
    pub(crate) cut_off: u64,
    /// Packets that contain neither IPv4 nor IPv6, or are malformed.
    pub(crate) not_ip: u64,
    /// IP packets that contain neither UDP nor TCP, or are malformed.
    pub(crate) other_protocols: u64,
    /// Packets of unsupported link types, by the number of the link type.
    pub(crate) unknown_links: BTreeMap<i32, u64>,
    /// Packets in tunnels (GRE, ERSPAN, IP in IP, VXLAN, Geneve), with the addresses and lengths of
    /// the innermost packet, and messages of capture agents (HEP), with the addresses and times of
    /// the agent.
    pub(crate) tunnelled: u64,
    /// Complete UDP datagrams, including reassembled ones.
    pub(crate) datagrams: u64,
    /// TCP segments.
    pub(crate) segments: u64,
    /// Fragments of IP packets.
    pub(crate) fragments: u64,
    /// IP packets that were reassembled.
    pub(crate) reassembled: u64,
    /// Fragmented IP packets that were not reassembled: a fragment is missing or contradicts
    /// another, or there were more than [`ASSEMBLIES`] at a time.
    pub(crate) not_reassembled: u64,
}

impl PacketCounts {
    /// Adds the counts of another capture.
    pub(super) fn add(&mut self, other: &Self) {
        for (own, new) in [
            (&mut self.packets, other.packets),
            (&mut self.cut_off, other.cut_off),
            (&mut self.not_ip, other.not_ip),
            (&mut self.other_protocols, other.other_protocols),
            (&mut self.tunnelled, other.tunnelled),
            (&mut self.datagrams, other.datagrams),
            (&mut self.segments, other.segments),
            (&mut self.fragments, other.fragments),
            (&mut self.reassembled, other.reassembled),
            (&mut self.not_reassembled, other.not_reassembled),
        ] {
            *own += new;
        }
        for (link, count) in &other.unknown_links {
            *self.unknown_links.entry(*link).or_default() += count;
        }
    }
}

/// The transport payload of a packet.
#[derive(Debug)]
pub(super) struct Transported<'a> {
    /// The time in nanoseconds since the Unix epoch: that of the last fragment, or that of a
    /// capture agent.
    pub(super) time: u64,
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    /// The length of the IP packets with their headers, in bytes.
    pub(super) ip_length: u64,
    pub(super) payload: Cow<'a, [u8]>,
    /// The flags and number of a TCP segment; `None` for a UDP datagram.
    pub(super) segment: Option<Segment>,
}

impl Transported<'_> {
    pub(super) fn into_owned(self) -> Transported<'static> {
        Transported { payload: Cow::Owned(self.payload.into_owned()), ..self }
    }
}

/// The fields of a TCP segment for the reassembly of its stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) sequence: u32,
    pub(super) syn: bool,
}

/// The limit of concurrent reassemblies; each takes 64 KiB at most.
const ASSEMBLIES: usize = 256;
/// The deepest nesting of tunnels.
const TUNNELS: usize = 8;
/// The timeout of a reassembly in nanoseconds (RFC 8200 section 4.5).
const ASSEMBLY_TIME: u64 = 60_000_000_000;

/// The key of a reassembly (RFC 791 section 3.2, RFC 8200 section 4.5).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct FragmentOf {
    source: IpAddr,
    destination: IpAddr,
    identification: u32,
    protocol: u8,
}

/// The context of an IP packet: the frame, and the depth of tunnels.
#[derive(Clone, Copy)]
struct Outside {
    time: u64,
    whole: bool,
    depth: usize,
}

/// The header fields of an IP packet.
#[derive(Clone, Copy)]
struct Carried {
    source: IpAddr,
    destination: IpAddr,
    ip_length: u64,
    protocol: IpNumber,
}

struct Assembly {
    buffer: IpDefragBuf,
    begun: u64,
    ip_length: u64,
}

/// The packet decoder.
#[derive(Default)]
pub(super) struct Decoder {
    pub(super) counts: PacketCounts,
    assemblies: HashMap<FragmentOf, Assembly>,
}

impl Decoder {
    /// Returns the payload that `frame` contains or completes; `None` for any protocol but UDP and
    /// TCP.
    pub(super) fn decode<'a>(&mut self, frame: &Frame<'a>) -> Option<Transported<'a>> {
        self.counts.packets += 1;
        self.counts.cut_off += u64::from(!frame.whole);
        let sliced = self.slice(frame)?;
        self.open(&sliced, Outside { time: frame.time, whole: frame.whole, depth: 0 })
    }

    /// Returns the payload of a packet, also of one in a tunnel.
    fn open<'a>(
        &mut self,
        sliced: &LaxSlicedPacket<'a>,
        outside: Outside,
    ) -> Option<Transported<'a>> {
        let (source, destination, ip_length, fragment) = match &sliced.net {
            Some(LaxNetSlice::Ipv4(ip)) => {
                let header = ip.header();
                let fragment = (
                    u32::from(header.identification()),
                    header.fragments_offset(),
                    header.more_fragments(),
                );
                let source = IpAddr::V4(header.source_addr());
                let destination = IpAddr::V4(header.destination_addr());
                (source, destination, u64::from(header.total_len()), Some(fragment))
            }
            Some(LaxNetSlice::Ipv6(ip)) => {
                let header = ip.header();
                let fragment = ip.extensions().clone().into_iter().find_map(|one| match one {
                    Ipv6ExtensionSlice::Fragment(one) => {
                        Some((one.identification(), one.fragment_offset(), one.more_fragments()))
                    }
                    _ => None,
                });
                let source = IpAddr::V6(header.source_addr());
                let destination = IpAddr::V6(header.destination_addr());
                (source, destination, 40 + u64::from(header.payload_length()), fragment)
            }
            _ => {
                self.counts.not_ip += 1;
                return None;
            }
        };
        let ip = sliced.ip_payload()?;
        let carried = Carried { source, destination, ip_length, protocol: ip.ip_number };
        if !ip.fragmented {
            return self.transported(carried, ip.payload, outside);
        }
        let (identification, offset, more) = fragment?;
        self.counts.fragments += 1;
        if ip.incomplete || !outside.whole {
            self.counts.not_reassembled += u64::from(offset.byte_offset() == 0);
            return None;
        }
        let of = FragmentOf { source, destination, identification, protocol: ip.ip_number.0 };
        let (bytes, ip_length) =
            self.assemble(of, outside.time, (offset, more), ip.payload, ip_length)?;
        let transported = self.transported(Carried { ip_length, ..carried }, &bytes, outside)?;
        Some(transported.into_owned())
    }

    /// Counts the incomplete reassemblies.
    pub(super) fn finish(&mut self) {
        self.counts.not_reassembled += self.assemblies.drain().count() as u64;
    }

    /// Returns the IP packet after the header of the link layer.
    fn slice<'a>(&mut self, frame: &Frame<'a>) -> Option<LaxSlicedPacket<'a>> {
        let bytes = frame.bytes;
        let sliced = match frame.link {
            1 => tunnel::ethernet(bytes),
            // Null and loopback: the address family, in the byte order of the capturing machine;
            // the version in the IP header is equivalent.
            0 | 108 => bytes.get(4..).and_then(|ip| LaxSlicedPacket::from_ip(ip).ok()),
            12 | 14 | 101 | 228 | 229 => LaxSlicedPacket::from_ip(bytes).ok(),
            113 => behind_ether_type(bytes, 14, 16),
            276 => behind_ether_type(bytes, 0, 20),
            other => {
                *self.counts.unknown_links.entry(other).or_default() += 1;
                return None;
            }
        };
        if sliced.is_none() {
            self.counts.not_ip += 1;
        }
        sliced
    }

    fn assemble(
        &mut self,
        of: FragmentOf,
        now: u64,
        (offset, more): (IpFragOffset, bool),
        payload: &[u8],
        ip_length: u64,
    ) -> Option<(Vec<u8>, u64)> {
        if !self.assemblies.contains_key(&of) && self.assemblies.len() >= ASSEMBLIES {
            let before = self.assemblies.len();
            self.assemblies.retain(|_, one| now.saturating_sub(one.begun) < ASSEMBLY_TIME);
            if self.assemblies.len() >= ASSEMBLIES {
                let oldest = self.assemblies.iter().min_by_key(|(_, one)| one.begun);
                if let Some((&oldest, _)) = oldest {
                    self.assemblies.remove(&oldest);
                }
            }
            self.counts.not_reassembled += (before - self.assemblies.len()) as u64;
        }
        let assembly = self.assemblies.entry(of).or_insert_with(|| Assembly {
            buffer: IpDefragBuf::new(IpNumber(of.protocol), Vec::new(), Vec::new()),
            begun: now,
            ip_length: 0,
        });
        assembly.ip_length += ip_length;
        let is_sound = assembly.buffer.add(offset, more, payload).is_ok();
        if is_sound && !assembly.buffer.is_complete() {
            return None;
        }
        let Assembly { buffer, ip_length, .. } = self.assemblies.remove(&of)?;
        if is_sound {
            self.counts.reassembled += 1;
            return Some((buffer.take_bufs().0, ip_length));
        }
        self.counts.not_reassembled += 1;
        None
    }

    /// Returns the payload of a complete IP packet.
    fn transported<'a>(
        &mut self,
        carried: Carried,
        bytes: &'a [u8],
        outside: Outside,
    ) -> Option<Transported<'a>> {
        let Carried { source, destination, ip_length, protocol } = carried;
        let parts = match protocol {
            IpNumber::UDP => UdpSlice::from_slice_lax(bytes).ok().map(|udp| udp_parts(&udp)),
            IpNumber::TCP => TcpSlice::from_slice(bytes).ok().map(|tcp| tcp_parts(&tcp)),
            _ if tunnel::is_tunnel(protocol) => {
                let inner = tunnel::in_ip(protocol, bytes);
                return self.enter(inner.as_ref(), outside);
            }
            _ => None,
        };
        let Some((ports, payload, segment)) = parts else {
            self.counts.other_protocols += 1;
            return None;
        };
        if segment.is_none()
            && let Some(inner) = tunnel::in_udp(ports.1, payload)
        {
            return self.enter(Some(&inner), outside);
        }
        if segment.is_none()
            && let Some(forwarded) = hep::read(payload)
        {
            self.counts.tunnelled += u64::from(outside.depth == 0);
            self.count(false);
            // The agent's addresses and time are those of the original message.
            let hep::Forwarded { time, source, destination, payload } = forwarded;
            let (time, payload) = (time.unwrap_or(outside.time), Cow::Borrowed(payload));
            return Some(Transported { time, source, destination, ip_length, payload, segment });
        }
        self.count(segment.is_some());
        Some(Transported {
            time: outside.time,
            source: SocketAddr::new(source, ports.0),
            destination: SocketAddr::new(destination, ports.1),
            ip_length,
            payload: Cow::Borrowed(payload),
            segment,
        })
    }

    /// Returns the payload of a packet in a tunnel; `None` if the content is not a packet.
    fn enter<'a>(
        &mut self,
        inner: Option<&LaxSlicedPacket<'a>>,
        outside: Outside,
    ) -> Option<Transported<'a>> {
        let Some(inner) = inner.filter(|_| outside.depth < TUNNELS) else {
            self.counts.other_protocols += 1;
            return None;
        };
        self.counts.tunnelled += u64::from(outside.depth == 0);
        self.open(inner, Outside { depth: outside.depth + 1, ..outside })
    }

    fn count(&mut self, is_segment: bool) {
        if is_segment {
            self.counts.segments += 1;
        } else {
            self.counts.datagrams += 1;
        }
    }
}

/// Returns the packet after an EtherType.
fn behind_ether_type(
    bytes: &[u8],
    ether_type: usize,
    payload: usize,
) -> Option<LaxSlicedPacket<'_>> {
    tunnel::ether_payload(tunnel::number(bytes, ether_type)?, bytes.get(payload..)?)
}

type Parts<'a> = ((u16, u16), &'a [u8], Option<Segment>);

fn udp_parts<'a>(udp: &UdpSlice<'a>) -> Parts<'a> {
    ((udp.source_port(), udp.destination_port()), udp.payload(), None)
}

fn tcp_parts<'a>(tcp: &TcpSlice<'a>) -> Parts<'a> {
    let segment = Segment { sequence: tcp.sequence_number(), syn: tcp.syn() };
    ((tcp.source_port(), tcp.destination_port()), tcp.payload(), Some(segment))
}
