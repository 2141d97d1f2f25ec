//! Messages of phones, with variations chosen by the input.

use super::input::Input;
use sip::digest::{Challenge, DigestInput, Ha1Set};
use sip::message::MAX_MESSAGE;
use sip::{HeaderName, Message, StartLine};
use sip_server::{Connection, Flow};
use std::num::NonZeroU64;

/// The length of a body with a session description, which ends with a long attribute.
const DESCRIPTION_LENGTH: usize = 1200;
const DESCRIPTION: &[u8] =
    b"v=0\r\no=- 1 1 IN IP4 10.0.0.7\r\ns=-\r\nc=IN IP4 10.0.0.7\r\nt=0 0\r\n\
    m=audio 4000 RTP/AVP 0\r\na=x:";

/// The users and their domains.
pub(super) const USERS: [(&str, &str); 4] = [
    ("alice", "example.com"),
    ("bob", "example.com"),
    ("carol", "example.com"),
    ("dave", "example.org"),
];
pub(super) const PASSWORD: &[u8] = b"secret";

const METHODS: [&str; 12] = [
    "INVITE",
    "INVITE",
    "INVITE",
    "OPTIONS",
    "MESSAGE",
    "SUBSCRIBE",
    "BYE",
    "PUBLISH",
    "REFER",
    "NOTIFY",
    "CANCEL",
    "X",
];
const STATUSES: [u16; 20] = [
    200, 180, 200, 183, 486, 100, 302, 401, 407, 408, 480, 487, 500, 503, 600, 603, 404, 420, 202,
    199,
];

/// The flows of phones and strangers. Sources in 192.0.2.0/24 are trusted.
pub(super) fn flows() -> [Flow; 8] {
    let flow = |transport, local: &str, remote: &str, connection| Flow {
        transport,
        local: local.parse().expect("a valid address"),
        remote: remote.parse().expect("a valid address"),
        connection: NonZeroU64::new(connection).map(Connection),
    };
    let (udp, tcp) = (sip::Transport::Udp, sip::Transport::Tcp);
    [
        flow(udp, "198.51.100.1:5060", "192.0.2.10:5060", 0),
        flow(udp, "198.51.100.1:5060", "192.0.2.11:40000", 0),
        flow(tcp, "198.51.100.1:5060", "192.0.2.12:40001", 1),
        flow(tcp, "198.51.100.1:5060", "192.0.2.10:40002", 2),
        flow(udp, "127.0.0.1:5060", "127.0.0.1:5070", 0),
        flow(udp, "[2001:db8::1]:5060", "[2001:db8::5]:5060", 0),
        flow(tcp, "[2001:db8::1]:5060", "[2001:db8::6]:40003", 3),
        flow(udp, "198.51.100.1:5060", "203.0.113.9:5060", 0),
    ]
}

/// A message under construction.
struct Text(Vec<u8>);

impl Text {
    fn line(&mut self, line: &str) {
        self.0.extend_from_slice(line.as_bytes());
        self.0.extend_from_slice(b"\r\n");
    }

    fn field(&mut self, name: &str, value: &[u8]) {
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b": ");
        self.0.extend_from_slice(value);
        self.0.extend_from_slice(b"\r\n");
    }

    /// Adds rare header fields, a body, and rarely a wrong byte.
    fn finish(mut self, input: &mut Input<'_>) -> Vec<u8> {
        if input.chance(20) {
            let name = input.pick(&EXTRAS);
            let length = input.below(40);
            self.field(name, input.bytes(length));
        }
        let body = if input.chance(60) {
            let room = MAX_MESSAGE.saturating_sub(self.0.len() + 30);
            input
                .pick(&[
                    0,
                    1,
                    DESCRIPTION_LENGTH,
                    1400,
                    30_000,
                    room.saturating_sub(300),
                    room.saturating_sub(100),
                    room,
                ])
                .min(room)
        } else {
            0
        };
        if body == DESCRIPTION_LENGTH {
            self.line("Content-Type: application/sdp\r\n");
        }
        self.line(&format!("Content-Length: {body}\r\n"));
        let end = self.0.len() + body;
        if body == DESCRIPTION_LENGTH {
            self.0.extend_from_slice(DESCRIPTION);
        }
        self.0.resize(end, b'x');
        if input.chance(16) {
            let at = input.number() % self.0.len();
            let cut = input.below(8).min(self.0.len() - at);
            let length = input.below(16);
            self.0.splice(at..at + cut, input.bytes(length).iter().copied());
        }
        self.0
    }
}

const EXTRAS: [&str; 16] = [
    "Via",
    "Route",
    "Record-Route",
    "Max-Breadth",
    "Require",
    "Proxy-Require",
    "Path",
    "Contact",
    "Content-Length",
    "Supported",
    "Expires",
    "To",
    "From",
    "CSeq",
    "Proxy-Authorization",
    "Call-ID",
];

/// The phones' memory of earlier responses.
#[derive(Default)]
pub(super) struct Memory {
    /// The last challenges of a 401 and of a 407.
    pub(super) challenges: [Vec<Vec<u8>>; 2],
    nonce_count: u32,
}

/// A user, usually one of the first two, so that calls find a registered user.
fn user(input: &mut Input<'_>) -> (&'static str, &'static str) {
    USERS[input.pick(&[0, 0, 0, 1, 1, 1, 2, 3])]
}

fn via(flow: &Flow, input: &mut Input<'_>) -> String {
    let sent_by = match input.below(6) {
        4 => "10.0.0.7:5060".to_string(),
        5 => "phone.example.net".to_string(),
        _ => flow.remote.to_string(),
    };
    let branch = match input.below(16) {
        15 => String::new(),
        14 => ";branch=1".to_string(),
        number => format!(";branch=z9hG4bKp{number}"),
    };
    let rport = if input.chance(128) { ";rport" } else { "" };
    format!("SIP/2.0/{} {sent_by}{branch}{rport}", flow.transport.via_name())
}

fn answer(
    memory: &mut Memory,
    which: usize,
    user: &str,
    method: &str,
    uri: &[u8],
    input: &mut Input<'_>,
) -> Option<Vec<u8>> {
    let values = memory.challenges.get(which)?;
    let value = values.get(input.below(values.len()))?;
    let challenge = Challenge::parse(value).ok()??;
    if !input.chance(30) {
        memory.nonce_count += 1;
    }
    let password = if input.chance(20) { b"wrong" } else { PASSWORD };
    let ha1 = Ha1Set::new(user.as_bytes(), challenge.realm, password);
    let request = DigestInput { method: method.as_bytes(), uri, body: b"" };
    let ha1 = ha1.get(challenge.algorithm);
    let credentials =
        challenge.credentials_for(user.as_bytes(), ha1, &request, b"cnonce", memory.nonce_count);
    let mut value = Vec::new();
    credentials.write(&mut value);
    Some(value)
}

fn contact(user: &str, flow: &Flow, input: &mut Input<'_>) -> String {
    let uri = match input.below(24) {
        1 => format!("sip:{user}@{}?Subject=x", flow.remote),
        2 => format!("sip:{user}@{};long={}", flow.remote, "y".repeat(1990)),
        3 => format!("sips:{user}@{}", flow.remote),
        4 => format!("sip:{user}@198.51.100.1:5060"),
        5 => "tel:+12015550123".to_string(),
        6 => format!("sip:{user}@phone.example.net"),
        7 => format!("sip:{user}@phone.example.net;transport=tcp"),
        8 => format!("sip:{user}@10.0.0.7:5062"),
        9 => format!("sip:{user}@[2001:db8::9]:5060;ob"),
        10 => format!("sip:bob@example.com;x={user}"),
        11 => {
            let length = input.below(30);
            format!("sip:{user}@{}", input.bytes(length).escape_ascii())
        }
        number => format!("sip:{user}{}@{};line={number}", number % 3, flow.remote),
    };
    let params = match input.below(8) {
        3 => ";expires=0",
        4 => ";q=0.5",
        5 => ";q=0.2;expires=90",
        6 => ";+sip.instance=\"<urn:uuid:1>\";reg-id=1",
        7 => ";expires=4294967296",
        _ => "",
    };
    format!("<{uri}>{params}")
}

/// A REGISTER, usually with credentials.
pub(super) fn register(flow: &Flow, memory: &mut Memory, input: &mut Input<'_>) -> Vec<u8> {
    let (user, domain) = user(input);
    let uri = format!("sip:{domain}");
    let mut text = Text(Vec::new());
    text.line(&format!("REGISTER {uri} SIP/2.0"));
    text.field("Via", via(flow, input).as_bytes());
    text.field("From", format!("<sip:{user}@{domain}>;tag=f").as_bytes());
    text.field("To", format!("<sip:{user}@{domain}>").as_bytes());
    text.field("Call-ID", format!("r{}", input.below(3)).as_bytes());
    text.field("CSeq", format!("{} REGISTER", input.byte()).as_bytes());
    match input.below(10) {
        0 => {}
        1 => {
            text.field("Contact", b"*");
            text.field("Expires", b"0");
        }
        count => {
            for _ in 0..=count % 3 {
                text.field("Contact", contact(user, flow, input).as_bytes());
            }
        }
    }
    if input.chance(60) {
        let value: &[u8] = input.pick(&[&b"0"[..], b"60", b"600", b"59", b"99999999999", b"x"]);
        text.field("Expires", value);
    }
    if input.chance(20) {
        text.field("Path", b"<sip:192.0.2.77;lr>, <sip:edge.example.net:5080;lr>");
        text.field("Supported", b"path");
    }
    if !input.chance(50)
        && let Some(value) = answer(memory, 0, user, "REGISTER", uri.as_bytes(), input)
    {
        text.field("Authorization", &value);
    }
    text.finish(input)
}

/// A request from a user or a stranger to a user or a foreign destination.
pub(super) fn request(flow: &Flow, memory: &mut Memory, input: &mut Input<'_>) -> Vec<u8> {
    let method = input.pick(&METHODS);
    let (from, from_domain) = match input.below(6) {
        4 | 5 => ("eve", "example.net"),
        _ => user(input),
    };
    let (to, to_domain) = user(input);
    let uri = match input.below(16) {
        7 => "sip:eve@example.net".to_string(),
        8 => "sip:eve@192.0.2.66".to_string(),
        9 => "sip:192.0.2.66:5090;transport=tcp".to_string(),
        10 => "sip:198.51.100.1".to_string(),
        11 => "tel:+1-201-555-0123".to_string(),
        12 => "sips:eve@example.net".to_string(),
        13 => format!("sip:{to}@{to_domain}:5099"),
        14 => format!("sip:no%62ody@{to_domain}"),
        15 => {
            let length = input.below(30);
            format!("sip:{}", input.bytes(length).escape_ascii())
        }
        _ => format!("sip:{to}@{to_domain}"),
    };
    let mut text = Text(Vec::new());
    text.line(&format!("{method} {uri} SIP/2.0"));
    text.field("Via", via(flow, input).as_bytes());
    if input.chance(40) {
        text.field("Max-Forwards", input.pick(&["70", "1", "0", "255"]).as_bytes());
    }
    text.field("From", format!("<sip:{from}@{from_domain}>;tag=f").as_bytes());
    text.field("To", format!("<sip:{to}@{to_domain}>").as_bytes());
    text.field("Call-ID", format!("c{}", input.below(4)).as_bytes());
    text.field("CSeq", format!("{} {method}", input.below(4)).as_bytes());
    text.field("Contact", contact(from, flow, input).as_bytes());
    if input.chance(20) {
        text.field("Route", input.pick(&ROUTES));
    }
    if input.chance(20) {
        text.field("Max-Breadth", input.pick(&["0", "1", "2", "4294967295"]).as_bytes());
    }
    if !input.chance(50)
        && let Some(value) = {
            let prover = if input.chance(20) { "carol" } else { from };
            answer(memory, 1, prover, method, uri.as_bytes(), input)
        }
    {
        text.field("Proxy-Authorization", &value);
    }
    text.finish(input)
}

const ROUTES: [&[u8]; 5] = [
    b"<sip:198.51.100.1;lr>",
    b"<sip:198.51.100.1;lr>, <sip:192.0.2.77;lr>",
    b"<sip:192.0.2.77>",
    b"<sip:edge.example.net;lr>, sip:192.0.2.77",
    b"<tel:1>",
];

/// A response to `request`, which the engine sent.
pub(super) fn response(request: &[u8], flow: &Flow, input: &mut Input<'_>) -> Option<Vec<u8>> {
    let request = Message::parse(request).ok()?;
    let status = match input.below(32) {
        31 => 100 + (input.number() % 600) as u16,
        number => STATUSES[number % STATUSES.len()],
    };
    let mut text = Text(Vec::new());
    text.line(&format!("SIP/2.0 {status} Reason"));
    for field in request.fields() {
        match field.name {
            HeaderName::Via
            | HeaderName::From
            | HeaderName::CallId
            | HeaderName::CSeq
            | HeaderName::RecordRoute => text.0.extend_from_slice(field.line),
            HeaderName::To if status > 100 => {
                let tag = format!(";tag=t{}", input.below(3));
                text.field("To", &[field.value, tag.as_bytes()].concat());
            }
            HeaderName::To => text.0.extend_from_slice(field.line),
            _ => {}
        }
    }
    text.field("Contact", contact("callee", flow, input).as_bytes());
    match status {
        401 => text.field("WWW-Authenticate", b"Digest realm=\"other\", nonce=\"1\""),
        407 => text.field("Proxy-Authenticate", b"Digest realm=\"other\", nonce=\"1\""),
        _ => {}
    }
    Some(text.finish(input))
}

/// The ACK or CANCEL of `request`, which a phone sent, with the To of `answer`.
pub(super) fn companion(
    method: &str,
    request: &[u8],
    answer: Option<&[u8]>,
    input: &mut Input<'_>,
) -> Option<Vec<u8>> {
    let request = Message::parse(request).ok()?;
    let answer = answer.and_then(|answer| Message::parse(answer).ok());
    let StartLine::Request { uri, .. } = request.start_line() else { return None };
    let mut text = Text(Vec::new());
    text.line(&format!("{method} {} SIP/2.0", uri.escape_ascii()));
    text.field("Via", request.value(HeaderName::Via)?);
    text.field("From", request.value(HeaderName::From)?);
    let to = answer.as_ref().and_then(|answer| answer.value(HeaderName::To));
    text.field("To", to.or(request.value(HeaderName::To))?);
    text.field("Call-ID", request.value(HeaderName::CallId)?);
    let cseq = sip::header::CSeq::parse(request.value(HeaderName::CSeq)?).ok()?;
    text.field("CSeq", format!("{} {method}", cseq.number).as_bytes());
    Some(text.finish(input))
}

/// A request within the dialog created by `message`, which came from the engine: a response to the
/// caller, or the request received by the callee.
pub(super) fn in_dialog(message: &[u8], flow: &Flow, input: &mut Input<'_>) -> Option<Vec<u8>> {
    let message = Message::parse(message).ok()?;
    let is_caller = message.status().is_some();
    let method = input.pick(&["BYE", "ACK", "INVITE", "BYE", "UPDATE", "NOTIFY"]);
    let mut routes: Vec<&[u8]> = message.elements(HeaderName::RecordRoute).collect();
    if is_caller {
        routes.reverse();
    }
    let contact = message.elements(HeaderName::Contact).next()?;
    let contact = sip::header::NameAddr::parse(HeaderName::Contact, contact).ok()?;
    let mut text = Text(Vec::new());
    // Sometimes in the form sent by a strict router.
    let strict = input.chance(20).then(|| routes.first().copied()).flatten();
    let strict = strict.and_then(|route| {
        Some(sip::header::NameAddr::parse(HeaderName::Route, route).ok()?.uri_bytes)
    });
    let uri = strict.unwrap_or(contact.uri_bytes);
    text.line(&format!("{method} {} SIP/2.0", uri.escape_ascii()));
    text.field("Via", via(flow, input).as_bytes());
    let (from, to) = (message.value(HeaderName::From)?, message.value(HeaderName::To)?);
    let (from, to) = if is_caller { (from, to) } else { (to, from) };
    text.field("From", from);
    text.field("To", to);
    text.field("Call-ID", message.value(HeaderName::CallId)?);
    text.field("CSeq", format!("{} {method}", input.below(200)).as_bytes());
    for route in &routes[usize::from(strict.is_some()).min(routes.len())..] {
        text.field("Route", route);
    }
    if strict.is_some() {
        text.field("Route", &[b"<", contact.uri_bytes, b">"].concat());
    }
    Some(text.finish(input))
}
