//! The construction of captures.

use crate::capture::open::read_bytes;
use crate::capture::{Analysis, CaptureError, Reading};
use etherparse::PacketBuilder;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// The time of the first packet of most captures, in nanoseconds since the Unix epoch.
pub(super) const START: u64 = 1_700_000_000_000_000_000;

/// The forms of capture files.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    Pcap {
        nanos: bool,
        big_endian: bool,
    },
    /// With this `if_tsresol`.
    PcapNg {
        resolution: u8,
        big_endian: bool,
    },
}

pub(super) const PCAP: Form = Form::Pcap { nanos: false, big_endian: false };
pub(super) const FORMS: [Form; 8] = [
    PCAP,
    Form::Pcap { nanos: true, big_endian: false },
    Form::Pcap { nanos: false, big_endian: true },
    Form::Pcap { nanos: true, big_endian: true },
    Form::PcapNg { resolution: 6, big_endian: false },
    Form::PcapNg { resolution: 9, big_endian: false },
    Form::PcapNg { resolution: 6, big_endian: true },
    Form::PcapNg { resolution: 9, big_endian: true },
];

/// Link types, and the headers before an IP packet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Link {
    Ethernet,
    Vlan,
    DoubleVlan,
    Raw,
    Null,
    Loop,
    Cooked,
    Cooked2,
    /// No header: the packets are Ethernet frames themselves.
    Frames,
}

pub(super) const LINKS: [Link; 8] = [
    Link::Ethernet,
    Link::Vlan,
    Link::DoubleVlan,
    Link::Raw,
    Link::Null,
    Link::Loop,
    Link::Cooked,
    Link::Cooked2,
];

impl Link {
    fn number(self) -> u32 {
        match self {
            Self::Ethernet | Self::Vlan | Self::DoubleVlan | Self::Frames => 1,
            Self::Raw => 101,
            Self::Null => 0,
            Self::Loop => 108,
            Self::Cooked => 113,
            Self::Cooked2 => 276,
        }
    }

    fn packet(self, ip: &[u8]) -> Vec<u8> {
        let is_v6 = ip[0] >> 4 == 6;
        let ether_type: [u8; 2] = if is_v6 { [0x86, 0xdd] } else { [0x08, 0x00] };
        let mut bytes = match self {
            Self::Ethernet | Self::Vlan | Self::DoubleVlan => vec![2; 12],
            Self::Raw | Self::Frames => Vec::new(),
            Self::Null => if is_v6 { 10u32 } else { 2 }.to_le_bytes().to_vec(),
            Self::Loop => if is_v6 { 24u32 } else { 2 }.to_be_bytes().to_vec(),
            Self::Cooked => [&[0, 0, 0, 1, 0, 6][..], &[2; 8]].concat(),
            Self::Cooked2 => ether_type.to_vec(),
        };
        match self {
            Self::Ethernet | Self::Cooked => bytes.extend(ether_type),
            Self::Vlan => bytes.extend([&[0x81, 0, 0, 7][..], &ether_type].concat()),
            Self::DoubleVlan => {
                bytes.extend([&[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8][..], &ether_type].concat());
            }
            Self::Cooked2 => bytes.extend([0; 18]),
            Self::Raw | Self::Null | Self::Loop | Self::Frames => {}
        }
        bytes.extend(ip);
        bytes
    }
}

/// A capture under construction: times in nanoseconds since the Unix epoch, and IP packets.
#[derive(Clone, Debug, Default)]
pub(super) struct Capture {
    pub(super) packets: Vec<(u64, Vec<u8>)>,
}

pub(super) fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Returns an IP packet with a datagram.
pub(super) fn udp(source: &str, destination: &str, payload: &[u8]) -> Vec<u8> {
    let (source, destination) = (address(source), address(destination));
    let builder = match (source.ip(), destination.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ipv4(from.octets(), to.octets(), 64),
        (IpAddr::V6(from), IpAddr::V6(to)) => PacketBuilder::ipv6(from.octets(), to.octets(), 64),
        _ => panic!("addresses of two families"),
    };
    let mut bytes = Vec::new();
    builder.udp(source.port(), destination.port()).write(&mut bytes, payload).unwrap();
    bytes
}

impl Capture {
    /// Adds a datagram at this time in microseconds after [`START`].
    pub(super) fn udp(&mut self, micros: u64, source: &str, destination: &str, payload: &[u8]) {
        self.packets.push((START + micros * 1_000, udp(source, destination, payload)));
    }

    /// Adds a TCP segment.
    pub(super) fn tcp(
        &mut self,
        micros: u64,
        between: (&str, &str),
        (sequence, syn): (u32, bool),
        payload: &[u8],
    ) {
        let (source, destination) = (address(between.0), address(between.1));
        let (IpAddr::V4(from), IpAddr::V4(to)) = (source.ip(), destination.ip()) else { panic!() };
        let builder = PacketBuilder::ipv4(from.octets(), to.octets(), 64);
        let builder = builder.tcp(source.port(), destination.port(), sequence, 1000);
        let builder = if syn { builder.syn() } else { builder.ack(1) };
        let mut bytes = Vec::new();
        builder.write(&mut bytes, payload).unwrap();
        self.packets.push((START + micros * 1_000, bytes));
    }

    /// Returns the file.
    pub(super) fn write(&self, form: Form, link: Link) -> Vec<u8> {
        let mut file = Writer { bytes: Vec::new(), big_endian: form.is_big_endian() };
        file.header(form, link);
        for (time, ip) in &self.packets {
            file.packet(form, *time, &link.packet(ip));
        }
        file.bytes
    }

    pub(super) fn analyse(&self) -> Analysis {
        analyse(&self.write(PCAP, Link::Ethernet)).unwrap()
    }
}

pub(super) fn analyse(bytes: &[u8]) -> Result<Analysis, CaptureError> {
    analyse_bytes(Path::new("made.pcap"), bytes, Reading::default())
}

pub(super) fn analyse_bytes(
    path: &Path,
    source: impl Read + Send,
    mut reading: Reading,
) -> Result<Analysis, CaptureError> {
    let facts = read_bytes(path, source, |frame| reading.take(&frame))?;
    Ok(Analysis { file: path.to_owned(), facts, ..reading.finish() })
}

impl Form {
    fn is_big_endian(self) -> bool {
        match self {
            Self::Pcap { big_endian, .. } | Self::PcapNg { big_endian, .. } => big_endian,
        }
    }
}

struct Writer {
    bytes: Vec<u8>,
    big_endian: bool,
}

impl Writer {
    fn u16(&mut self, value: u16) {
        let bytes = if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
        self.bytes.extend(bytes);
    }

    fn u32(&mut self, value: u32) {
        let bytes = if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
        self.bytes.extend(bytes);
    }

    fn header(&mut self, form: Form, link: Link) {
        match form {
            Form::Pcap { nanos, .. } => {
                self.u32(if nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 });
                self.u16(2);
                self.u16(4);
                for value in [0, 0, 65_535, link.number()] {
                    self.u32(value);
                }
            }
            Form::PcapNg { resolution, .. } => {
                for value in [0x0a0d_0d0a, 28, 0x1a2b_3c4d] {
                    self.u32(value);
                }
                self.u16(1);
                self.u16(0);
                for value in [u32::MAX, u32::MAX, 28] {
                    self.u32(value);
                }
                // Interface Description Block with if_tsresol.
                self.u32(1);
                self.u32(32);
                self.u16(u16::try_from(link.number()).unwrap());
                self.u16(0);
                self.u32(65_535);
                self.u16(9);
                self.u16(1);
                self.bytes.extend([resolution, 0, 0, 0]);
                self.u32(0);
                self.u32(32);
            }
        }
    }

    fn packet(&mut self, form: Form, time: u64, packet: &[u8]) {
        let length = u32::try_from(packet.len()).unwrap();
        match form {
            Form::Pcap { nanos, .. } => {
                let fraction = time % 1_000_000_000 / if nanos { 1 } else { 1_000 };
                self.u32(u32::try_from(time / 1_000_000_000).unwrap());
                self.u32(u32::try_from(fraction).unwrap());
                self.u32(length);
                self.u32(length);
                self.bytes.extend(packet);
            }
            Form::PcapNg { resolution, .. } => {
                let stamp = time / 10u64.pow(9 - u32::from(resolution));
                let padding = packet.len().next_multiple_of(4) - packet.len();
                let block = 32 + length + u32::try_from(padding).unwrap();
                self.u32(6);
                self.u32(block);
                self.u32(0);
                self.u32(u32::try_from(stamp >> 32).unwrap());
                self.u32(stamp as u32);
                self.u32(length);
                self.u32(length);
                self.bytes.extend(packet);
                self.bytes.extend(vec![0; padding]);
                self.u32(block);
            }
        }
    }
}

/// The common header fields of the messages of a transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a> {
    pub(super) call_id: &'a str,
    /// The branches of the Via header fields, topmost first.
    pub(super) branches: &'a [&'a str],
    /// The CSeq, such as `1 INVITE`.
    pub(super) cseq: &'a str,
    /// The tag of To; empty for no tag.
    pub(super) to_tag: &'a str,
}

/// Returns a message with this first line, such as `INVITE sip:bob@b` or `180`.
pub(super) fn message(first: &str, fields: Fields<'_>, sdp: &str) -> Vec<u8> {
    let Fields { call_id, branches, cseq, to_tag } = fields;
    let mut text = if first.as_bytes()[0].is_ascii_digit() {
        format!("SIP/2.0 {first} Reason\r\n")
    } else {
        format!("{first} SIP/2.0\r\n")
    };
    for branch in branches {
        text += &format!("Via: SIP/2.0/UDP h;branch=z9hG4bK{branch}\r\n");
    }
    let to_tag = if to_tag.is_empty() { String::new() } else { format!(";tag={to_tag}") };
    text += &format!(
        "From: <sip:alice@a.example>;tag=1\r\nTo: <sip:bob@b.example>{to_tag}\r\n\
         Call-ID: {call_id}\r\nCSeq: {cseq}\r\n"
    );
    if !sdp.is_empty() {
        text += "Content-Type: application/sdp\r\n";
    }
    text += &format!("Content-Length: {}\r\n\r\n{sdp}", sdp.len());
    text.into_bytes()
}
