//! Regression tests for the findings of fuzzing, each reduced to the shortest scenario.

use barebell_sip_server::config::{Authentication, Config, Domain, Listener, State};
use barebell_sip_server::{Connection, Flow, Output, Server, Worker};
use parking_lot::RawMutex;
use sip::message::MAX_MESSAGE;
use sip::{Duration, Instant, Message, Transport};
use std::num::NonZeroU64;
use std::sync::Arc;

const CONNECTION: Connection = Connection(NonZeroU64::MIN);

/// A server without authentication.
struct Rig {
    server: Arc<Server<RawMutex>>,
    worker: Worker<RawMutex>,
    now: Instant,
}

impl Rig {
    fn new(state: State) -> Self {
        let listener = |transport| Listener {
            transport,
            address: "192.0.2.1:5060".parse().expect("an address"),
        };
        let config = Config {
            state,
            listeners: vec![listener(Transport::Udp), listener(Transport::Tcp)],
            domains: vec![Domain { name: "example.com".into(), aliases: Vec::new() }],
            authentication: Authentication { required: false, ..Authentication::default() },
            ..Config::default()
        };
        let server = Arc::new(Server::new(config, &[1; 32]));
        let worker = server.worker();
        server.connection_opened(CONNECTION);
        Self { server, worker, now: Instant::from_micros(1_000_000_000_000) }
    }

    /// The first lines of the messages sent when `message` is received.
    fn receive(&mut self, message: &str) -> Vec<String> {
        let mut out = Output::default();
        let flow = Flow {
            transport: Transport::Tcp,
            local: "192.0.2.1:5060".parse().expect("an address"),
            remote: "192.0.2.9:40000".parse().expect("an address"),
            connection: Some(CONNECTION),
        };
        self.worker.receive(self.now, &flow, message.as_bytes(), &mut out);
        let first_line = |range: std::ops::Range<usize>| {
            let bytes = &out.bytes[range];
            assert!(Message::parse(bytes).is_ok(), "{}", bytes.escape_ascii());
            let end = bytes.iter().position(|&byte| byte == b'\r').expect("a line");
            String::from_utf8_lossy(&bytes[..end]).into_owned()
        };
        out.transmits.iter().map(|transmit| first_line(transmit.range.clone())).collect()
    }

    fn register(&mut self, cseq: u32, lines: &str) -> Vec<String> {
        self.receive(&format!(
            "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/TCP 192.0.2.9;branch=z9hG4bKr{cseq}\r\n\
             From: <sip:bob@example.com>;tag=1\r\nTo: <sip:bob@example.com>\r\nCall-ID: r\r\n\
             CSeq: {cseq} REGISTER\r\n{lines}Content-Length: 0\r\n\r\n"
        ))
    }

    fn call(&mut self, body: usize) -> Vec<String> {
        self.receive(&format!(
            "INVITE sip:bob@example.com SIP/2.0\r\nVia: SIP/2.0/TCP 192.0.2.9;branch=z9hG4bKc\r\n\
             From: <sip:al@example.net>;tag=1\r\nTo: <sip:bob@example.com>\r\nCall-ID: c\r\n\
             CSeq: 1 INVITE\r\nContent-Length: {body}\r\n\r\n{}",
            "x".repeat(body)
        ))
    }
}

#[test]
fn a_fetch_that_finds_an_expired_binding_uncounts_it() {
    let mut rig = Rig::new(State::Stateful);
    rig.register(1, "Contact: <sip:bob@192.0.2.9>;expires=60\r\n");
    assert_eq!((rig.server.bindings(), rig.server.registered()), (1, 1));
    rig.now += Duration::from_secs(60);
    assert_eq!(rig.register(2, ""), ["SIP/2.0 200 OK"]);
    assert_eq!((rig.server.bindings(), rig.server.registered()), (0, 0));
}

#[test]
fn a_request_that_would_grow_too_long_is_refused() {
    for (state, expected) in [
        (State::Stateful, &["SIP/2.0 100 Trying", "SIP/2.0 513 Message Too Large"][..]),
        (State::Stateless, &["SIP/2.0 513 Message Too Large"]),
    ] {
        let call = |body| {
            let mut rig = Rig::new(state);
            rig.register(1, "Contact: <sip:bob@192.0.2.9;transport=tcp>\r\n");
            rig.call(body)
        };
        assert_eq!(call(MAX_MESSAGE - 250), expected);
        let forwarded = "INVITE sip:bob@192.0.2.9;transport=tcp SIP/2.0";
        assert_eq!(call(MAX_MESSAGE / 2).last().map(String::as_str), Some(forwarded));
    }
}

#[test]
fn the_header_fields_of_a_contact_are_not_forwarded() {
    let mut rig = Rig::new(State::Stateless);
    rig.register(1, "Contact: <sip:bob?@192.0.2.9;x=1?Subject=y>\r\n");
    assert_eq!(rig.call(0), ["INVITE sip:bob?@192.0.2.9;x=1 SIP/2.0"]);
}

#[test]
fn thousands_of_contacts_are_refused_and_change_nothing() {
    let mut rig = Rig::new(State::Stateful);
    rig.register(1, "Contact: <sip:bob@192.0.2.9>\r\n");
    let contacts: String = (0..4000).map(|number| format!(", sip:{number}@b")).collect();
    let answer = rig.register(2, &format!("Contact: <sip:bob@192.0.2.8>{contacts}\r\n"));
    assert_eq!(answer, ["SIP/2.0 403 Too Many Contacts"]);
    assert_eq!(rig.server.bindings(), 1);
}
