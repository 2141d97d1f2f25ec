//! What fuzz targets do with bytes, as ordinary functions that tests run over the corpora too. Each
//! takes any bytes at all, and panics where the code under test breaks a promise.

use parking_lot::RawMutex;
use sip::digest::{Challenge, Credentials};
use sip::header::{self, CSeq, NameAddr, RAck, Via};
use sip::message::{Frame, Framer, Response, reason_phrase};
use sip::{Duration, HeaderName, Instant, Message, Transport, Uri};
use sip_server::config::{Domain, Listener, Mode, State};
use sip_server::{Config, Connection, Event, Flow, Location, Output, Server, Worker};
use std::num::NonZeroU64;
use std::sync::Arc;

/// Reads a datagram with every parser there is.
///
/// # Panics
/// Where a message is another one when it is read again, or cannot be answered.
pub fn message(bytes: &[u8]) {
    let _ = Uri::parse(bytes);
    let Ok(message) = Message::parse(bytes) else { return };
    let again = Message::parse(message.as_bytes()).expect("a message can be read again");
    assert_eq!(again.as_bytes(), message.as_bytes());
    assert_eq!(again.flaw(), message.flaw());
    let _ = message.top_via();
    message.fields().for_each(|field| read_field(field.name, field.value));
    if message.status().is_some() {
        return;
    }
    let head = message.check();
    let mut answer = Vec::new();
    Response {
        request: &message,
        source: "192.0.2.1:5060".parse().expect("an address"),
        status: 200,
        reason: reason_phrase(200),
        to_tag: Some(b"tag"),
    }
    .write(&mut answer, |_| {});
    let answer = Message::parse(&answer).expect("a request can be answered");
    if head.is_ok() {
        assert_eq!(answer.flaw(), None, "the answer to a sound request is sound");
        assert!(answer.top_via().is_ok());
    }
}

/// Reads the value of a header field with the parser of that field, and with those of others: what
/// stands in a message is not always what its name says.
fn read_field(name: HeaderName, value: &[u8]) {
    for element in header::elements(value) {
        if let Ok(address) = NameAddr::parse(name, element) {
            read_uri(address.uri_bytes);
            address.params.iter().for_each(|(_, value)| {
                header::q_value(value.unwrap_or_default());
            });
        }
        if let Ok(via) = Via::parse(element) {
            let source = "[2001:db8::1]:5060".parse().expect("an address");
            let _ = (via.received(), via.rport(), via.rfc3261_branch());
            let _ = via.response_address(source);
        }
        read_uri(element);
    }
    let _ = CSeq::parse(value);
    let _ = RAck::parse(value);
    let _ = header::number(name, value, u32::MAX);
    let _ = header::delta_seconds(name, value);
    let _ = header::media_type(value).map(|media| media.params.is_valid());
    let _ = header::retry_after(value).map(|retry| retry.params.is_valid());
    let _ = header::session_expires(value).map(|session| session.params.is_valid());
    let _ = header::timestamp(value);
    header::tokens(value).for_each(|token| assert!(!token.is_empty()));
    let _ = sip::param::unquote(value).count();
    if let Ok(Some(challenge)) = Challenge::parse(value) {
        let mut written = Vec::new();
        challenge.write(&mut written);
        assert_eq!(Challenge::parse(&written), Ok(Some(challenge)));
    }
    if let Ok(Some(credentials)) = Credentials::parse(value) {
        let mut written = Vec::new();
        credentials.write(&mut written);
        assert_eq!(Credentials::parse(&written), Ok(Some(credentials)));
    }
}

fn read_uri(bytes: &[u8]) {
    match Uri::parse(bytes) {
        Ok(Uri::Sip(uri)) => {
            let _ = (uri.transport(), uri.is_loose(), uri.is_same(&uri));
            let _ = uri.params.is_valid();
        }
        Ok(Uri::Tel(tel)) => tel.write_canonical_number(&mut Vec::new()),
        Ok(Uri::Other { .. }) | Err(_) => {}
    }
}

/// Reads a stream, once whole and once in pieces, whose sizes are taken from the bytes.
///
/// # Panics
/// Where the messages depend on how the stream is cut.
pub fn stream(bytes: &[u8]) {
    let whole = frames(bytes, &mut std::iter::repeat(bytes.len().max(1)));
    let mut sizes = bytes.iter().map(|&byte| usize::from(byte % 64) + 1).cycle();
    let pieces = frames(bytes, &mut sizes);
    // A stream in pieces may be given up earlier, but says nothing else before.
    assert!(pieces.len() <= whole.len() + 1);
    for (one, other) in whole.iter().zip(&pieces) {
        assert_eq!(one, other);
    }
}

fn frames(mut rest: &[u8], sizes: &mut dyn Iterator<Item = usize>) -> Vec<Vec<u8>> {
    let (mut framer, mut buffer, mut messages) = (Framer::default(), Vec::new(), Vec::new());
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(sizes.next().unwrap_or(1).min(rest.len()));
        rest = after;
        buffer.extend_from_slice(piece);
        loop {
            match framer.next(&buffer) {
                Ok(Frame::Message(length)) => messages.push(buffer.drain(..length).collect()),
                Ok(Frame::LineEnds(length)) => drop(buffer.drain(..length)),
                Ok(Frame::Incomplete) => break,
                Err(_) => return messages,
            }
        }
    }
    messages
}

/// Gives a datagram to servers of several kinds and plays the phones and the DNS for them, until
/// nothing is left to be done.
///
/// # Panics
/// Where a server sends something that is no message, forwards a request that is not sound, or does
/// not come to an end.
pub fn engine(bytes: &[u8]) {
    for (mode, state, authentication) in [
        (Mode::Proxy, State::Stateful, false),
        (Mode::Proxy, State::Stateful, true),
        (Mode::Proxy, State::Stateless, false),
        (Mode::Redirect, State::Stateful, false),
        (Mode::Registrar, State::Stateful, false),
    ] {
        let mut config = Config { mode, state, ..Config::default() };
        config.authentication.required = authentication;
        Play::new(config).run(bytes);
    }
}

const SERVER: &str = "203.0.113.1:5060";
const PHONE: &str = "198.51.100.20:5060";
const SENDER: &str = "198.51.100.77:5060";

/// A server and everybody else.
struct Play {
    server: Arc<Server<RawMutex>>,
    worker: Worker<RawMutex>,
    now: Instant,
    out: Output,
    /// Messages that may still be answered; without a bound two parties could go on for ever.
    patience: u32,
}

fn flow(transport: Transport, remote: &str) -> Flow {
    Flow {
        transport,
        local: SERVER.parse().expect("an address"),
        remote: remote.parse().expect("an address"),
        connection: NonZeroU64::new(1).map(Connection).filter(|_| transport.is_reliable()),
    }
}

impl Play {
    fn new(mut config: Config) -> Self {
        for transport in [Transport::Udp, Transport::Tcp] {
            let address = SERVER.parse().expect("an address");
            config.listeners.push(Listener { transport, address });
        }
        let domain = |name: &str| Domain { name: name.into(), aliases: Vec::new() };
        config.domains = ["example.com", "example.net", "biloxi.com"].map(domain).to_vec();
        let server = Arc::new(Server::new(config, &[7; 32]));
        let worker = server.worker();
        let now = Instant::from_micros(1_700_000_000_000_000);
        let mut play = Self { server, worker, now, out: Output::default(), patience: 40 };
        for (user, domain) in
            [("user", "example.com"), ("alice", "example.com"), ("bob", "biloxi.com")]
        {
            let register = format!(
                "REGISTER sip:{domain} SIP/2.0\r\nVia: SIP/2.0/UDP {PHONE};branch=z9hG4bK{user}\r\n\
                 From: <sip:{user}@{domain}>;tag=1\r\nTo: <sip:{user}@{domain}>\r\nCall-ID: {user}\r\n\
                 CSeq: 1 REGISTER\r\nContact: <sip:{user}@{PHONE}>, <sip:{user}@192.0.2.5>;q=0.5\r\n\
                 Expires: 3600\r\nContent-Length: 0\r\n\r\n"
            );
            let flow = flow(Transport::Udp, PHONE);
            play.worker.receive(now, &flow, register.as_bytes(), &mut play.out);
        }
        play.out.clear();
        play
    }

    fn run(mut self, bytes: &[u8]) {
        for flow in [flow(Transport::Udp, SENDER), flow(Transport::Tcp, SENDER)] {
            self.worker.receive(self.now, &flow, bytes, &mut self.out);
            self.react(bytes);
        }
        // Timers of transactions end within minutes, the longest binding within hours.
        let end = self.now + Duration::from_secs(100_000);
        for _ in 0..10_000 {
            match self.worker.next_timer() {
                Some(next) if next < end => self.now = self.now.max(next),
                _ => break,
            }
            self.worker.on_timer(self.now, &mut self.out);
            self.react(bytes);
        }
        assert_eq!(self.server.transactions(), 0, "every transaction ends");
        assert_eq!(self.server.bindings(), 0, "every binding ends");
    }

    /// Plays the phones, the senders and the DNS.
    fn react(&mut self, bytes: &[u8]) {
        while !(self.out.transmits.is_empty() && self.out.events.is_empty()) {
            let out = core::mem::take(&mut self.out);
            for record in sip_server::record::read(&out.journal) {
                let record = record.expect("a record of the journal can be read");
                record.bindings().for_each(|binding| {
                    binding.expect("a binding of the journal can be read");
                });
            }
            for transmit in &out.transmits {
                self.answer(&transmit.flow, &out.bytes[transmit.range.clone()], bytes);
            }
            for event in out.events {
                let Event::Locate { ticket, .. } = event else { continue };
                let locations = [Location {
                    transport: Transport::Udp,
                    remote: PHONE.parse().expect("an address"),
                    local: None,
                }];
                self.worker.located(self.now, ticket, &locations, &mut self.out);
            }
        }
    }

    /// Answers a request, in the way of the phone, and with the bytes made an answer to it.
    fn answer(&mut self, flow: &Flow, sent: &[u8], bytes: &[u8]) {
        let request = Message::parse(sent).expect("the server sends messages");
        if request.status().is_some() {
            return;
        }
        if let Err(fault) = request.check() {
            panic!("the server sends sound requests: {fault}: {}", sent.escape_ascii());
        }
        if self.patience == 0 {
            return;
        }
        self.patience -= 1;
        for status in [180, 401, 200] {
            let mut answer = Vec::new();
            let (reason, source) = (reason_phrase(status), flow.local);
            Response { request: &request, source, status, reason, to_tag: Some(b"phone") }
                .write(&mut answer, |_| {});
            self.worker.receive(self.now, flow, &answer, &mut self.out);
        }
        let Some(via) = request.first(HeaderName::Via) else { return };
        if let Some(line_end) = bytes.windows(2).position(|pair| pair == b"\r\n") {
            let (start, rest) = bytes.split_at(line_end + 2);
            let forged = [start, via.line, rest].concat();
            self.worker.receive(self.now, flow, &forged, &mut self.out);
        }
        self.worker.undeliverable(self.now, flow, sent, &mut self.out);
        // It comes back: a loop.
        self.worker.receive(self.now, flow, sent, &mut self.out);
    }
}
