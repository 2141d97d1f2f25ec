//! The messages that a peer sends: responses and relayed messages, subject to its script.

use super::counts::PeerCounts;
use super::script::{Kind, Rules, Script, What};
use super::streams::StreamId;
use sip::header::{self, CSeq, NameAddr, Via};
use sip::message::{Field, Response, reason_phrase};
use sip::{Encode, HeaderName, Host, Message, Method, SipUri, Uri};
use std::io::Write as _;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// The tag of all responses of the peer itself, which create no dialogs.
pub(super) const TAG: &[u8] = b"barebell-peer";
/// The hops of a request without Max-Forwards.
const MAX_FORWARDS: u32 = 70;
const GARBAGE: &[u8] = b"\x00\xffthis is no SIP message\r\n";

/// The transport address of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Datagram(SocketAddr),
    Stream(StreamId),
}

/// A received message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) way: Way,
    /// The address of the other end.
    pub(super) source: SocketAddr,
    /// The local address of receipt.
    pub(super) local: SocketAddr,
}

/// A message to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// The start in [`Output::bytes`].
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) way: Way,
    /// The local source address.
    pub(super) local: IpAddr,
    /// The delay.
    pub(super) delay: Duration,
}

/// The messages to send; the buffers are reused.
#[derive(Debug, Default)]
pub(super) struct Output {
    pub(super) bytes: Vec<u8>,
    pub(super) pieces: Vec<Piece>,
}

impl Output {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.pieces.clear();
    }
}

/// A received request.
pub(super) struct Request<'a> {
    pub(super) incoming: Incoming<'a>,
    pub(super) message: &'a Message<'a>,
    pub(super) method: Method<'a>,
    pub(super) uri: &'a [u8],
}

impl<'a> Request<'a> {
    pub(super) fn to_tag(&self) -> Option<&'a [u8]> {
        NameAddr::parse(HeaderName::To, self.message.value(HeaderName::To)?).ok()?.tag()
    }
}

/// The local address in the form of header fields, updated when it changes.
#[derive(Debug)]
struct Written {
    local: SocketAddr,
    via_udp: Vec<u8>,
    via_tcp: Vec<u8>,
    route_udp: Vec<u8>,
    route_tcp: Vec<u8>,
}

impl Written {
    fn new(local: SocketAddr) -> Self {
        Self {
            local,
            via_udp: format!("Via: SIP/2.0/UDP {local};branch=z9hG4bK").into_bytes(),
            via_tcp: format!("Via: SIP/2.0/TCP {local};branch=z9hG4bK").into_bytes(),
            route_udp: format!("Record-Route: <sip:{local};lr>\r\n").into_bytes(),
            route_tcp: format!("Record-Route: <sip:{local};transport=tcp;lr>\r\n").into_bytes(),
        }
    }
}

/// Writes messages, and counts them.
pub(super) struct Writer {
    pub(super) rules: Rules,
    pub(super) counts: PeerCounts,
    written: Written,
    /// The source of the last datagram, and the start of a Via of that source.
    last_source: (SocketAddr, Vec<u8>),
}

impl Writer {
    pub(super) fn new(script: &Script, local: SocketAddr) -> Self {
        Self {
            rules: Rules::new(&script.rules, script.seed),
            counts: PeerCounts::default(),
            written: Written::new(local),
            last_source: (local, format!("SIP/2.0/UDP {local};").into_bytes()),
        }
    }

    pub(super) fn reject(&mut self, request: &Request<'_>, status: u16, out: &mut Output) {
        if request.method != Method::Ack {
            self.answer(request, status, out, |_| ());
        }
    }

    pub(super) fn answer(
        &mut self,
        request: &Request<'_>,
        status: u16,
        out: &mut Output,
        fields: impl FnOnce(&mut Vec<u8>),
    ) {
        let incoming = &request.incoming;
        let way = self.way_back(request);
        let start = out.bytes.len();
        Response {
            request: request.message,
            source: incoming.source,
            status,
            reason: reason_phrase(status),
            to_tag: Some(TAG),
        }
        .write(&mut out.bytes, fields);
        self.emit(
            start,
            way,
            incoming.local.ip(),
            Kind { method: request.method, status: Some(status) },
            out,
        );
    }

    /// Returns the destination of the response to a request (RFC 3261 section 18.2.2).
    fn way_back(&mut self, request: &Request<'_>) -> Way {
        let Way::Datagram(source) = request.incoming.way else { return request.incoming.way };
        if self.last_source.0 != source {
            self.last_source.0 = source;
            self.last_source.1.clear();
            // Writing to a vector cannot fail.
            let _ = write!(self.last_source.1, "SIP/2.0/UDP {source};");
        }
        let via = request.message.value(HeaderName::Via);
        // In most cases `sent-by` equals the source, and need not be parsed.
        if via.is_some_and(|via| via.starts_with(&self.last_source.1)) {
            return request.incoming.way;
        }
        let address = request.message.top_via().map(|via| via.response_address(source));
        Way::Datagram(address.unwrap_or(source))
    }

    pub(super) fn relay(&mut self, request: &Request<'_>, uri: &[u8], way: Way, out: &mut Output) {
        let local = request.incoming.local;
        if self.written.local != local {
            self.written = Written::new(local);
        }
        let (via, route) = match way {
            Way::Datagram(_) => (&self.written.via_udp, &self.written.route_udp),
            Way::Stream(_) => (&self.written.via_tcp, &self.written.route_tcp),
        };
        let Request { incoming, message, method, .. } = *request;
        if message.fields_of(&[HeaderName::MaxForwards]).any(|field| hops_left(&field).is_none()) {
            return self.reject(request, 483, out);
        }
        let start = out.bytes.len();
        let bytes = &mut out.bytes;
        (method, " ", uri, " SIP/2.0\r\n", via).encode(bytes);
        write_way(bytes, incoming.way);
        let branch = message.top_via().ok().and_then(|via| via.branch());
        (branch, "\r\n").encode(bytes);
        if method == Method::Invite && request.to_tag().is_none() {
            route.encode(bytes);
        }
        let (mut is_top_via, mut is_top_route) = (true, true);
        message.write_fields(
            &[HeaderName::Via, HeaderName::Route, HeaderName::MaxForwards],
            |field| match field.name {
                HeaderName::Via => mem::take(&mut is_top_via),
                HeaderName::Route => mem::take(&mut is_top_route),
                _ => true,
            },
            |field, bytes| match field.name {
                HeaderName::Via => message.write_top_via(field, incoming.source, bytes),
                HeaderName::Route => write_without_own_route(bytes, field, local),
                _ => write_max_forwards(bytes, hops_left(field).unwrap_or(0)),
            },
            bytes,
        );
        if !message.has(HeaderName::MaxForwards) {
            write_max_forwards(bytes, MAX_FORWARDS);
        }
        ("\r\n", message.body()).encode(bytes);
        self.counts.relayed += 1;
        self.emit(start, way, local.ip(), Kind { method: request.method, status: None }, out);
    }

    /// Relays a response without the peer's own Via, to the destination in its branch. `None` if
    /// the Via is not the peer's own.
    pub(super) fn relay_response(
        &mut self,
        incoming: &Incoming<'_>,
        message: &Message<'_>,
        status: u16,
        out: &mut Output,
    ) -> Option<()> {
        let field = message.first(HeaderName::Via)?;
        let element = header::elements(field.value).next()?;
        let via = Via::parse(element).ok()?;
        let way = read_way(via.transaction_branch()?.get(header::MAGIC_COOKIE.len()..)?)?;
        let method = match self.rules.is_empty() {
            true => Method::Invite,
            false => CSeq::parse(message.value(HeaderName::CSeq)?).ok()?.method,
        };
        let start = out.bytes.len();
        out.bytes.extend_from_slice(&incoming.bytes[..field.offset]);
        let rest = &field.value[element.len()..];
        if let Some(comma) = rest.iter().position(|&byte| byte == b',') {
            out.bytes.extend_from_slice(b"Via:");
            out.bytes.extend_from_slice(&rest[comma + 1..]);
            out.bytes.extend_from_slice(b"\r\n");
        }
        out.bytes.extend_from_slice(&incoming.bytes[field.offset + field.line.len()..]);
        self.counts.relayed += 1;
        self.emit(start, way, incoming.local.ip(), Kind { method, status: Some(status) }, out);
        Some(())
    }

    /// Emits the message from `start` to the end of `out`, subject to the script.
    fn emit(&mut self, start: usize, way: Way, local: IpAddr, kind: Kind<'_>, out: &mut Output) {
        let end = out.bytes.len();
        let mut piece = Piece { start, end, way, local, delay: Duration::ZERO };
        if self.rules.is_empty() {
            self.counts.sent += 1;
            out.pieces.push(piece);
            return;
        }
        let (mut is_lost, mut copies, mut garbage) = (false, 0, false);
        let concern = |what: &What| match what {
            What::Lose => kind.status.is_some(),
            What::Answer { .. } => false,
            _ => true,
        };
        self.rules.apply(&kind, concern, |what| match what {
            What::Lose => is_lost = true,
            What::Delay(delay) => piece.delay += delay,
            What::Repeat(count) => copies += count,
            What::Garbage => garbage = true,
            What::Answer { .. } => {}
        });
        if is_lost {
            self.counts.lost += 1;
            return;
        }
        if garbage && matches!(way, Way::Datagram(_)) {
            self.counts.garbage += 1;
            out.bytes.extend_from_slice(GARBAGE);
            out.pieces.push(Piece { start: end, end: out.bytes.len(), ..piece });
        }
        self.counts.delayed += u64::from(!piece.delay.is_zero());
        self.counts.repeated += u64::from(copies);
        for _ in 0..=copies {
            self.counts.sent += 1;
            out.pieces.push(piece);
        }
    }
}

/// Returns true if a URI names the peer itself and not a contact: by the local address, or by any
/// domain name.
pub(super) fn is_ours(uri: &SipUri<'_>, local: SocketAddr) -> bool {
    match uri.host {
        Host::Name(_) => true,
        Host::Ip(ip) => ip == local.ip() && uri.port.is_none_or(|port| port == local.port()),
    }
}

/// Returns the Max-Forwards of the relayed request; `None` if the request must not be relayed.
fn hops_left(field: &Field<'_>) -> Option<u32> {
    header::number(HeaderName::MaxForwards, field.value, 255).unwrap_or(0).checked_sub(1)
}

fn write_max_forwards(bytes: &mut Vec<u8>, hops: u32) {
    ("Max-Forwards: ", hops, "\r\n").encode(bytes);
}

/// Writes the topmost Route line, without its first element if that names the peer.
fn write_without_own_route(bytes: &mut Vec<u8>, field: &Field<'_>, local: SocketAddr) {
    let first = header::elements(field.value).next().unwrap_or_default();
    let is_own = NameAddr::parse(HeaderName::Route, first)
        .is_ok_and(|route| matches!(route.uri(), Ok(Uri::Sip(uri)) if is_ours(&uri, local)));
    if !is_own {
        bytes.extend_from_slice(field.line);
        return;
    }
    let mut rest = header::elements(field.value).skip(1).peekable();
    if rest.peek().is_none() {
        return;
    }
    bytes.extend_from_slice(b"Route: ");
    while let Some(element) = rest.next() {
        bytes.extend_from_slice(element);
        bytes.extend_from_slice(if rest.peek().is_some() { b", " } else { b"\r\n" });
    }
}

/// Writes a way as part of a branch: a letter for its kind, hexadecimal digits, and a dot.
fn write_way(bytes: &mut Vec<u8>, way: Way) {
    let mut hex = |octets: &[u8]| {
        for octet in octets {
            bytes.push(b"0123456789abcdef"[usize::from(octet >> 4)]);
            bytes.push(b"0123456789abcdef"[usize::from(octet & 15)]);
        }
    };
    match way {
        Way::Datagram(SocketAddr::V4(address)) => {
            hex(&address.ip().octets());
            hex(&address.port().to_be_bytes());
            bytes.push(b'u');
        }
        Way::Datagram(SocketAddr::V6(address)) => {
            hex(&address.ip().octets());
            hex(&address.port().to_be_bytes());
            bytes.push(b'v');
        }
        Way::Stream(id) => {
            hex(&id.index.to_be_bytes());
            hex(&id.generation.to_be_bytes());
            bytes.push(b't');
        }
    }
}

/// Returns the way at the start of a branch, after the magic cookie.
fn read_way(branch: &[u8]) -> Option<Way> {
    let end = branch.iter().position(|byte| matches!(byte, b'u' | b'v' | b't'))?;
    let mut octets = [0u8; 18];
    let hex = branch[..end].chunks_exact(2);
    if end % 2 != 0 || hex.len() > octets.len() {
        return None;
    }
    for (octet, digits) in octets.iter_mut().zip(hex) {
        *octet = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    let port = |at: usize| u16::from_be_bytes([octets[at], octets[at + 1]]);
    let word = |at: usize| {
        u32::from_be_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]])
    };
    match (branch[end], end) {
        (b'u', 12) => {
            let ip = Ipv4Addr::from(word(0));
            Some(Way::Datagram(SocketAddr::new(ip.into(), port(4))))
        }
        (b'v', 36) => {
            let ip: [u8; 16] = octets[..16].try_into().ok()?;
            Some(Way::Datagram(SocketAddr::new(Ipv6Addr::from(ip).into(), port(16))))
        }
        (b't', 16) => Some(Way::Stream(StreamId { index: word(0), generation: word(4) })),
        _ => None,
    }
}
