//! A joined call with messages of both ends in any order and state.

use crate::choices::{Choices, LINES, METHODS, STATUSES, keep};
use b2bua::{B2bua, Config, Event};
use sip::message::{Response, reason_phrase};
use sip::{Connection, Flow, HeaderName, Instant, Message, Method, Transport};
use std::collections::BTreeSet;

/// The limits of calls, and of those of a source.
const CALLS: usize = 4;
const CALLS_OF_SOURCE: usize = 2;
/// The maximum number of messages that one message or timer causes.
const CAUSED: usize = 64;

/// The address of the server.
const HERE: [u8; 4] = [192, 0, 2, 100];

/// Parts of session descriptions: media, directions and lines with valid, unusual and damaged
/// values.
const MEDIA: &[&str] = &[
    "m=audio 4000 RTP/AVP 0 8 101\r\na=rtpmap:101 telephone-event/8000\r\n",
    "m=audio 0 RTP/AVP 0\r\n",
    "m=audio 65535 RTP/SAVP 9\r\na=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:AAAA\r\n",
    "m=audio 4294967296 RTP/AVP 999\r\n",
    "m=video 5000 RTP/AVP 96\r\na=rtpmap:96 VP8/90000\r\n",
    "m=image 5002 udptl t38\r\na=T38FaxVersion:0\r\n",
    "m=\r\n",
    "a=sendonly\r\n",
    "a=inactive\r\n",
    "c=IN IP4 0.0.0.0\r\n",
    "c=IN IP6 ::\r\n",
    "o=second 1 1 IN IP4 10.0.0.1\r\n",
    "\r\n\r\n",
    "a=\u{0}\r\n",
    "x\n",
];

/// A dialog of one leg as its phone knows it: Call-ID, the tag of the B2BUA and its own.
type Known = (String, String, String);

struct World<'a> {
    b2bua: B2bua,
    now: Instant,
    choices: Choices<'a>,
    /// True if some messages are damaged. Then addresses may be where no field shows them.
    has_damage: bool,
    /// The messages sent last, with their flows.
    sent: Vec<(Flow, Vec<u8>)>,
    known: Vec<Known>,
    /// The calls that the owner knows as answered.
    answered: BTreeSet<u64>,
    count: u32,
}

/// The internal flow of the calls of a source.
fn flow(source: usize) -> Flow {
    Flow {
        transport: Transport::Tcp,
        local: (HERE, 5060).into(),
        remote: ([192, 0, 2, source as u8], 5060).into(),
        connection: Some(Connection::INTERNAL),
    }
}

/// Returns true for a dialog that a caller has begun.
fn is_of_caller(call_id: &str) -> bool {
    call_id.starts_with("caller")
}

/// Runs a [`B2bua`] with the events that `bytes` choose.
///
/// # Panics
/// It sends an invalid message, shows one end the addresses or the origin of the other, exceeds its
/// limits, or keeps state at the end.
pub fn b2bua(bytes: &[u8]) {
    let config = Config { calls: CALLS, calls_of_source: CALLS_OF_SOURCE, ..Config::default() };
    let mut choices = Choices::new(bytes);
    let has_damage = choices.below(2) == 0;
    let mut world = World {
        b2bua: B2bua::new(config, &[7; 32]),
        now: Instant::from_micros(1_000_000_000),
        choices,
        has_damage,
        sent: Vec::new(),
        known: Vec::new(),
        answered: BTreeSet::new(),
        count: 0,
    };
    for _ in 0..bytes.len().clamp(1, 400) {
        world.step();
    }
    world.end();
}

impl World<'_> {
    fn step(&mut self) {
        match self.choices.below(16) {
            0 | 1 => self.call(),
            2 => self.pass(),
            3..9 => self.answer(),
            9 if self.choices.below(8) == 0 => {
                self.b2bua.hang_up_all(self.now, "SIP;cause=503");
            }
            9 | 10 => self.repeat(),
            _ => self.request(),
        }
        self.drain();
        assert!(self.b2bua.calls() <= CALLS, "{} calls", self.b2bua.calls());
    }

    /// Takes all output and events.
    fn drain(&mut self) {
        let mut count = 0;
        while let Some(transmit) = self.b2bua.poll_transmit() {
            count += 1;
            self.check(&transmit.flow, &transmit.bytes);
            keep(&mut self.sent, (transmit.flow, transmit.bytes));
        }
        assert!(count <= CAUSED * CALLS, "{count} messages at once");
        while let Some(event) = self.b2bua.poll_event() {
            match event {
                Event::Answered { call, byes } => {
                    assert!(self.answered.insert(call), "a call is answered once");
                    byes.iter().for_each(|bye| self.check(&bye.flow, &bye.bytes));
                }
                Event::Ended { call } => {
                    assert!(self.answered.remove(&call), "an answered call ends once");
                }
                Event::Digit { request, .. } => {
                    let is_played = self.choices.below(2) == 0;
                    self.b2bua.answer_digit(self.now, request, is_played);
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(self.answered.len() <= self.b2bua.calls(), "an answered call has ended");
    }

    /// Asserts that a sent message is valid, and tells nothing about the other leg.
    fn check(&mut self, flow: &Flow, bytes: &[u8]) {
        assert!(flow.is_internal(), "the B2BUA has no other flow");
        let text = String::from_utf8_lossy(bytes);
        let message = Message::parse(bytes).expect("the B2BUA sends SIP messages");
        if message.method().is_some() {
            let fault = message.validate_request().err();
            assert_eq!(fault, None, "the B2BUA sends valid requests: {text}");
        }
        assert_eq!(message.framing_fault(), None, "the B2BUA sends well-formed messages: {text}");
        let value = |name| {
            let value = message.value(name).unwrap_or_default();
            String::from_utf8_lossy(value).into_owned()
        };
        let call_id = value(HeaderName::CallId);
        let other = if is_of_caller(&call_id) { "callees" } else { "callers" };
        // A body of another type passes as it is, and that of a request without an offer or answer.
        let cseq = value(HeaderName::CSeq);
        let has_session = ["INVITE", "ACK", "UPDATE", "PRACK"].iter().any(|it| cseq.ends_with(it));
        let is_session = has_session && value(HeaderName::ContentType) == "application/sdp";
        let translated =
            if is_session { &text } else { text.split("\r\n\r\n").next().unwrap_or("") };
        assert!(
            self.has_damage || !translated.contains(other),
            "one end sees the address of the other: {text}"
        );
        let tag = |name| {
            let value = value(name);
            value.rsplit_once(";tag=").map_or(String::new(), |(_, tag)| tag.to_owned())
        };
        let (from, to) = (tag(HeaderName::From), tag(HeaderName::To));
        let is_request = message.method().is_some();
        let (ours, theirs) = if is_request { (from, to) } else { (to, from) };
        keep(&mut self.known, (call_id, ours, theirs));
    }

    /// Returns a session description of a party at `host`, or another body.
    fn body(&mut self, host: &str) -> (&'static str, String) {
        match self.choices.below(8) {
            0 | 1 => ("", String::new()),
            2 => (*self.choices.pick(&["text/plain", "application/dtmf-relay"]), "Signal=5".into()),
            3 => ("application/sdp", (*self.choices.pick(&["v=0\r\n", "\0", "o="])).into()),
            _ => {
                let mut body = format!(
                    "v=0\r\no=- 1 1 IN IP4 {host}\r\ns=-\r\nc=IN IP4 192.0.2.9\r\nt=0 0\r\n"
                );
                let count = *self.choices.pick(&[1, 1, 1, 2, 3, 200]);
                for _ in 0..count {
                    body.push_str(self.choices.pick::<&str>(MEDIA));
                }
                ("application/sdp", body)
            }
        }
    }

    /// Writes the end of the header and the body.
    fn finish(&mut self, host: &str, out: &mut Vec<u8>) {
        self.choices.lines(LINES, out);
        let (kind, body) = self.body(host);
        if !kind.is_empty() {
            out.extend_from_slice(format!("Content-Type: {kind}\r\n").as_bytes());
        }
        out.extend_from_slice(format!("Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
    }

    fn spoil(&mut self, bytes: &mut Vec<u8>) {
        if self.has_damage {
            self.choices.spoil(bytes);
        }
    }

    /// A caller sends an INVITE.
    fn call(&mut self) {
        self.count += 1;
        let (count, source) = (self.count, self.choices.below(3));
        let hops = *self.choices.pick(&["70", "70", "70", "1", "0", "256"]);
        let mut out = format!(
            "INVITE sip:bob@example.com SIP/2.0\r\n\
             Via: SIP/2.0/TCP callers.invalid;branch=z9hG4bK{count}\r\nMax-Forwards: {hops}\r\n\
             From: \"A\" <sip:alice@example.com>;tag=a{count}\r\nTo: <sip:bob@example.com>\r\n\
             Call-ID: caller{count}\r\nCSeq: 1 INVITE\r\nContact: <sip:alice@callers.invalid>\r\n\
             Record-Route: <sip:callers.invalid;lr>\r\nRoute: <sip:pass@192.0.2.100;lr>\r\n"
        )
        .into_bytes();
        self.finish("callers.invalid", &mut out);
        self.spoil(&mut out);
        self.b2bua.receive(self.now, &flow(source), &out);
    }

    /// An end answers a request that it has got, with right or wrong tag, CSeq or branch.
    fn answer(&mut self) {
        if self.sent.is_empty() {
            return;
        }
        let at = match self.choices.below(2) {
            0 => self.sent.len() - 1,
            _ => self.choices.below(self.sent.len()),
        };
        let (flow, bytes) = self.sent[at].clone();
        let Ok(request) = Message::parse(&bytes) else { return };
        if request.method().is_none_or(|method| method == Method::Ack) {
            return self.request();
        }
        let status = match self.choices.below(3) {
            0 => *self.choices.pick(&STATUSES),
            1 => *self.choices.pick(&[180, 183, 200]),
            _ => 200,
        };
        let tag = *self.choices.pick(&["t", "t", "t", "u", "v", ""]);
        let call_id = request.value(HeaderName::CallId).unwrap_or_default();
        let host = host_of(&String::from_utf8_lossy(call_id));
        let mut lines = Vec::new();
        // The target of a redirection passes.
        if !(300..400).contains(&status) {
            lines = format!("Contact: <sip:x@{host}>\r\nRecord-Route: <sip:{host};lr>\r\n")
                .into_bytes();
        }
        self.choices.lines(LINES, &mut lines);
        let (kind, body) = self.body(host);
        if !kind.is_empty() {
            lines.extend_from_slice(format!("Content-Type: {kind}\r\n").as_bytes());
        }
        let to_tag = (!tag.is_empty()).then_some(tag.as_bytes());
        let (source, reason) = (flow.local, reason_phrase(status));
        let response = Response { request: &request, source, status, reason, to_tag };
        let mut out = Vec::new();
        response.write_with_body(&mut out, |out: &mut Vec<u8>| out.extend(&lines), body.as_bytes());
        self.spoil(&mut out);
        self.b2bua.receive(self.now, &flow, &out);
    }

    /// An end sends a request within a dialog, which may have ended.
    fn request(&mut self) {
        if self.known.is_empty() {
            return;
        }
        let at = match self.choices.below(2) {
            0 => self.known.len() - 1,
            _ => self.choices.below(self.known.len()),
        };
        let (call_id, ours, theirs) = self.known[at].clone();
        self.count += 1;
        let method = *self.choices.pick(&METHODS);
        let count = self.count;
        // The ACK and the CANCEL of an INVITE have its number.
        let cseq = *self.choices.pick(&[count, count, count, 1, 0, u32::MAX >> 1]);
        let branch = *self.choices.pick(&[count, count, 1]);
        let host = host_of(&call_id);
        let tag = |tag: &str| if tag.is_empty() { String::new() } else { format!(";tag={tag}") };
        let mut out = format!(
            "{method} sip:call@192.0.2.100 SIP/2.0\r\n\
             Via: SIP/2.0/TCP {host};branch=z9hG4bK{branch}\r\nFrom: <sip:x@example.com>{}\r\n\
             To: <sip:y@example.com>{}\r\nCall-ID: {call_id}\r\nCSeq: {cseq} {method}\r\n\
             Max-Forwards: 70\r\nContact: <sip:x@{host}>\r\n",
            tag(&theirs),
            tag(&ours),
        )
        .into_bytes();
        // The body of another request passes as it is.
        let has_origin = matches!(method, "INVITE" | "ACK" | "UPDATE" | "PRACK");
        self.finish(if has_origin { host } else { "192.0.2.9" }, &mut out);
        self.spoil(&mut out);
        let source = self.choices.below(3);
        self.b2bua.receive(self.now, &flow(source), &out);
    }

    /// A message of the B2BUA comes back to it.
    fn repeat(&mut self) {
        if !self.sent.is_empty() {
            let at = self.choices.below(self.sent.len());
            let (flow, bytes) = self.sent[at].clone();
            self.b2bua.receive(self.now, &flow, &bytes);
        }
    }

    /// Advances the time: to the next timer, beyond it, or for long.
    fn pass(&mut self) {
        self.now = self.choices.later(self.now, self.b2bua.next_timer());
        self.b2bua.on_timer(self.now);
    }

    /// Lets all timers run while both ends are silent, and asserts that no state is left.
    fn end(&mut self) {
        for _ in 0..4000 {
            self.drain();
            let Some(next) = self.b2bua.next_timer() else { break };
            self.now = self.now.max(next);
            self.b2bua.on_timer(self.now);
        }
        self.drain();
        assert_eq!(self.b2bua.next_timer(), None, "a timer is pending at the end");
        assert_eq!(self.b2bua.calls(), 0, "calls remain at the end");
        assert_eq!(self.b2bua.remains(), 0, "legs, transactions or counts remain at the end");
        assert!(self.answered.is_empty(), "the owner waits for the end of calls");
    }
}

/// Returns the host of the phones of a leg.
fn host_of(call_id: &str) -> &'static str {
    if is_of_caller(call_id) { "callers.invalid" } else { "callees.invalid" }
}
