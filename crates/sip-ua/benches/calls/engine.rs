//! A user agent with many calls, and its scripted peers.

use super::Measure;
use barebell_sip_ua::{Agent, CallId, Config, Event, Location};
use sip::message::{Response, reason_phrase};
use sip::{Duration, Flow, HeaderName, Instant, Message, Method, Transport};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const SESSION: &[u8] = b"v=0\r\n";
const LOCAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 5060);
/// The maximum number of calls and of transactions of the agent.
const LIMIT: usize = 100_000;

pub(crate) struct Engine {
    agent: Agent,
    now: Instant,
    /// The established calls, each with the template of its peer's requests.
    calls: Vec<(CallId, String)>,
    /// The number of calls so far.
    count: usize,
}

impl Engine {
    /// Returns an agent with `calls` established calls, half of them incoming. Their transactions
    /// have not yet timed out.
    pub(crate) fn with_calls(calls: usize) -> Self {
        let config = Config {
            direct_calls: true,
            incoming_calls: LIMIT,
            server_transactions: LIMIT,
            ..Config::default()
        };
        let agent = Agent::new(config, &[7; 32]);
        let now = Instant::from_micros(1_000_000_000);
        let mut engine = Self { agent, now, calls: Vec::new(), count: 0 };
        for _ in 0..calls / 2 {
            let (call, template) = engine.accept();
            engine.calls.push((call, template));
            let (call, template) = engine.place();
            engine.calls.push((call, template));
        }
        engine
    }

    /// An INVITE without a response is sent again.
    pub(crate) fn retransmit(&mut self, _: usize, measure: Measure<'_>) {
        let (call, invite) = self.start();
        let timer = self.agent.next_timer().expect("a timer");
        self.now = timer;
        measure(&mut || {
            self.agent.on_timer(timer);
            std::hint::black_box(self.agent.next_timer());
        });
        assert_eq!(self.sent(), invite);
        self.answer(&invite, 486, "busy");
        assert!(
            matches!(self.agent.poll_event(), Some(Event::Ended { call: of, .. }) if of == call)
        );
        self.drain();
    }

    /// A peer sends a request within its call.
    pub(crate) fn request_within(&mut self, repeat: usize, measure: Measure<'_>) {
        let (_, template) = self.some_call(repeat);
        let request = write(&template, Method::Options, 10 + repeat);
        let flow = flow();
        measure(&mut || self.agent.receive(self.now, &flow, &request));
        assert!(self.sent().starts_with(b"SIP/2.0 200"));
    }

    /// The agent sends a request within a call, and receives the response.
    pub(crate) fn ask_within(&mut self, repeat: usize, measure: Measure<'_>) {
        let (call, _) = self.some_call(repeat);
        measure(&mut || {
            self.agent.press(self.now, call, '1').expect("an established call");
            let request = self.sent();
            self.answer(&request, 200, "");
        });
    }

    /// A peer calls, and hangs up.
    pub(crate) fn incoming_call(&mut self, _: usize, measure: Measure<'_>) {
        measure(&mut || {
            let (_, template) = self.accept();
            self.receive(&write(&template, Method::Bye, 2));
            assert!(self.sent().starts_with(b"SIP/2.0 200"));
            assert!(matches!(self.agent.poll_event(), Some(Event::Ended { .. })));
        });
    }

    /// The agent calls, and hangs up.
    pub(crate) fn outgoing_call(&mut self, _: usize, measure: Measure<'_>) {
        measure(&mut || {
            let (call, _) = self.place();
            self.agent.hang_up(self.now, call).expect("a call");
            let bye = self.sent();
            self.answer(&bye, 200, "");
            assert!(matches!(self.agent.poll_event(), Some(Event::Ended { .. })));
        });
    }

    /// Returns one of the established calls.
    fn some_call(&self, repeat: usize) -> (CallId, String) {
        self.calls[repeat * 7919 % self.calls.len()].clone()
    }

    /// A peer calls, and the agent answers.
    fn accept(&mut self) -> (CallId, String) {
        let template = self.template("<sip:agent@192.0.2.1>", "<sip:peer@198.51.100.1>;tag=peer");
        self.receive(&write(&template, Method::Invite, 1));
        let Some(Event::Incoming { call, .. }) = self.agent.poll_event() else {
            panic!("no call");
        };
        self.agent.ring(self.now, call, b"").expect("a ringing call");
        self.agent.answer(self.now, call, SESSION).expect("a ringing call");
        self.sent();
        let answer = self.sent();
        let to = value(&answer, HeaderName::To);
        let template = template.replace("<sip:agent@192.0.2.1>", &to);
        self.receive(&write(&template, Method::Ack, 1));
        (call, template)
    }

    /// The agent calls, and a peer answers.
    fn place(&mut self) -> (CallId, String) {
        let (call, invite) = self.start();
        self.answer(&invite, 180, "callee");
        self.answer(&invite, 200, "callee");
        assert!(self.sent().starts_with(b"ACK"));
        self.drain();
        let to = format!("{};tag=callee", value(&invite, HeaderName::To));
        let call_id = value(&invite, HeaderName::CallId);
        let template = self.template(&value(&invite, HeaderName::From), &to);
        let (start, rest) = template.split_once("Call-ID: ").expect("a Call-ID");
        let (_, rest) = rest.split_once("\r\n").expect("a line");
        (call, format!("{start}Call-ID: {call_id}\r\n{rest}"))
    }

    /// Returns a new call and its INVITE, which has no response yet.
    fn start(&mut self) -> (CallId, Vec<u8>) {
        self.count += 1;
        let uri = format!("sip:{}@198.51.100.1", self.count);
        let call = self.agent.call(self.now, None, &uri, SESSION.to_vec()).expect("a call");
        let Some(Event::Locate { ticket, .. }) = self.agent.poll_event() else {
            panic!("no query");
        };
        let Flow { transport, remote, local, .. } = flow();
        let location = Location { transport, remote, local: Some(local) };
        self.agent.located(self.now, ticket, &[location]);
        (call, self.sent())
    }

    /// Returns the template of the requests of a peer.
    fn template(&mut self, to: &str, from: &str) -> String {
        self.count += 1;
        let count = self.count;
        format!(
            "METHOD sip:agent@192.0.2.1 SIP/2.0\r\n\
             Via: SIP/2.0/UDP 198.51.100.1;branch=z9hG4bK{count}-BRANCH\r\n\
             Max-Forwards: 70\r\nFrom: {from}\r\nTo: {to}\r\nCall-ID: {count}@198.51.100.1\r\n\
             CSeq: NUMBER METHOD\r\nContact: <sip:peer@198.51.100.1>\r\n"
        )
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.agent.receive(self.now, &flow(), bytes);
    }

    /// The peer answers `request`.
    fn answer(&mut self, request: &[u8], status: u16, tag: &str) {
        let request = Message::parse(request).expect("a message");
        let to_tag = Some(tag.as_bytes()).filter(|tag| !tag.is_empty());
        let reason = reason_phrase(status);
        let response = Response { request: &request, source: LOCAL, status, reason, to_tag };
        let mut bytes = Vec::new();
        let fields = |out: &mut Vec<u8>| {
            out.extend_from_slice(b"Contact: <sip:peer@198.51.100.1>\r\n");
            if status == 200 {
                out.extend_from_slice(b"Content-Type: application/sdp\r\n");
            }
        };
        let body = if status == 200 { SESSION } else { b"" };
        response.write_with_body(&mut bytes, fields, body);
        self.receive(&bytes);
    }

    /// Returns the next sent message. Each takes a tenth of a millisecond.
    fn sent(&mut self) -> Vec<u8> {
        self.now += Duration::from_micros(100);
        self.agent.poll_transmit().expect("a message").bytes
    }

    fn drain(&mut self) {
        while self.agent.poll_transmit().is_some() {}
        while self.agent.poll_event().is_some() {}
    }
}

/// Returns a request of a peer.
fn write(template: &str, method: Method<'_>, cseq: usize) -> Vec<u8> {
    let name = String::from_utf8_lossy(method.as_bytes()).into_owned();
    let head = template.replace("METHOD", &name).replace("NUMBER", &cseq.to_string());
    // The ACK of a 2xx has a branch of its own.
    let head = head.replace("BRANCH", &format!("{name}{cseq}"));
    let body = if method == Method::Invite { "v=0\r\n" } else { "" };
    let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
    format!("{head}{kind}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn flow() -> Flow {
    let remote = ([198, 51, 100, 1], 5060).into();
    Flow { transport: Transport::Udp, local: LOCAL, remote, connection: None }
}

fn value(message: &[u8], name: HeaderName) -> String {
    let message = Message::parse(message).expect("a message");
    String::from_utf8_lossy(message.value(name).unwrap_or_default()).into_owned()
}
