//! Attacks on the calls of browsers: checks of ICE and handshakes of DTLS on the ports of the
//! relay.

use crate::relay::{
    Call, STRANGER, address, description, packet, ports, relay_with, socket, wait_until_closed,
};
use dtls::{Association, Event, Identity};
use ice::stun::{BINDING, Class, Message, TransactionId, Writer, attribute_type as at};
use peers::call::{End, establish_described};
use peers::process::wait_until;
use peers::server::DOMAIN;
use peers::test_server::TestServer;
use sdp::dtls::{Fingerprint, HashFunction};
use srtp::{Policy, Receiver, Sender};
use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Instant;

/// The user fragment of the page.
const UFRAG: &str = "page";
/// The handshakes that a leg makes for one peer.
const MAX_ATTEMPTS: usize = 5;
/// The datagrams of a flood.
const FLOOD: usize = 300;

/// A relayed call of a page, or of a phone with a handshake, with a phone in clear.
pub(crate) struct WebCall {
    ends: [End; 2],
    /// The sockets of the page and of the phone.
    pub(crate) page: UdpSocket,
    phone: UdpSocket,
    /// The answer to the page.
    answer: String,
    /// The addresses of the relay for both.
    pub(crate) relay: [SocketAddr; 2],
    keys: Option<(Sender, Receiver)>,
    sent: u16,
}

/// The value of the attribute `name`.
fn value<'a>(description: &'a str, name: &str) -> &'a str {
    let start = format!("a={name}:");
    let value = description.lines().find_map(|line| line.strip_prefix(&start));
    value.unwrap_or_else(|| panic!("no {name} in {description}"))
}

impl WebCall {
    /// A call with this fingerprint in its offer.
    fn new(exchange: &TestServer, users: [&str; 2], fingerprint: &Fingerprint) -> Self {
        let offer = format!(
            "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n\
             m=audio 9 UDP/TLS/RTP/SAVPF 0\r\nc=IN IP4 0.0.0.0\r\na=rtcp-mux\r\n\
             a=ice-ufrag:{UFRAG}\r\na=ice-pwd:abcdefghijklmnopqrstuv\r\n\
             a=fingerprint:{fingerprint}\r\na=setup:actpass\r\na=mid:0\r\n"
        );
        Self::with(exchange, users, socket(Ipv4Addr::LOCALHOST), &offer)
    }

    /// A call with this offer, of media at the socket `page`.
    pub(crate) fn with(
        exchange: &TestServer,
        [caller, callee]: [&str; 2],
        page: UdpSocket,
        offer: &str,
    ) -> Self {
        let phone = socket(Ipv4Addr::LOCALHOST);
        let (caller, called) = (exchange.agent(caller), exchange.agent(callee));
        let answer = description(address(&phone).port(), "");
        let uri = format!("sip:{callee}@{DOMAIN}");
        let (caller, called, [offered, answer]) =
            establish_described(caller, called, &uri, [offer, &answer]);
        let relay = [&answer, &offered].map(|text| (Ipv4Addr::LOCALHOST, ports(text)[0]).into());
        Self { ends: [caller, called], page, phone, answer, relay, keys: None, sent: 0 }
    }

    /// A check that nominates, by `password` or the right one.
    fn check(&self, password: Option<&str>) -> Vec<u8> {
        self.check_as(&format!("{}:{UFRAG}", value(&self.answer, "ice-ufrag")), password)
    }

    /// A check of this user that nominates, by `password` or the right one.
    fn check_as(&self, user: &str, password: Option<&str>) -> Vec<u8> {
        let right = value(&self.answer, "ice-pwd");
        let mut out = Vec::new();
        let mut writer = Writer::new(Class::Request, BINDING, TransactionId([7; 12]), &mut out);
        let fields: [(u16, &[u8]); 4] = [
            (at::USERNAME, user.as_bytes()),
            (at::PRIORITY, &[0x7e, 0, 0, 0xff]),
            (at::ICE_CONTROLLING, &[1; 8]),
            (at::USE_CANDIDATE, &[]),
        ];
        for (number, value) in fields {
            writer.attribute(number, value).expect("the attribute fits");
        }
        writer.integrity(password.unwrap_or(right).as_bytes()).expect("the message has room");
        writer.fingerprint().expect("the message has room");
        out
    }

    /// A response that confirms a check, by `password` or the right one.
    fn confirmation(&self, password: Option<&str>) -> Vec<u8> {
        let right = value(&self.answer, "ice-pwd");
        let mut out = Vec::new();
        let mut writer = Writer::new(Class::Success, BINDING, TransactionId([7; 12]), &mut out);
        writer.integrity(password.unwrap_or(right).as_bytes()).expect("the message has room");
        writer.fingerprint().expect("the message has room");
        out
    }

    /// Sends authentic checks until one is answered.
    fn nominate(&self) {
        let check = self.check(None);
        let mut buffer = [0; 2000];
        wait_until("the response to a check", || {
            self.page.send_to(&check, self.relay[0]).expect("a check is sent");
            let length = self.page.recv(&mut buffer).ok()?;
            let response = Message::parse(&buffer[..length]).ok()?;
            (response.class == Class::Success).then_some(())
        });
    }

    /// Makes a handshake with this certificate, until its end or that of the call. Returns true if
    /// this end has keys.
    pub(crate) fn shake_hands(&mut self, exchange: &TestServer, identity: &Identity) -> bool {
        let mut association =
            Association::new(identity, true, Instant::now()).expect("the association begins");
        association.expect(&[fingerprint_in(&self.answer)]);
        let mut buffer = [0; 2000];
        wait_until("the end of the handshake", || {
            association.on_timeout(Instant::now()).ok()?;
            loop {
                match association.poll() {
                    Ok(Event::Send(datagram)) => {
                        self.page.send_to(datagram, self.relay[0]).expect("a datagram is sent");
                    }
                    Ok(Event::Keys(keys)) => {
                        let policy = Policy::new(keys.suite);
                        let sender = Sender::new(&policy, [keys.local].into());
                        let receiver = Receiver::new(&policy, [keys.remote].into());
                        self.keys = sender.ok().zip(receiver.ok());
                    }
                    Ok(Event::Wait(_)) | Err(_) => break,
                }
            }
            if let Ok(length) = self.page.recv(&mut buffer) {
                let _ = association.receive(Instant::now(), &buffer[..length]);
                return None;
            }
            // The last datagrams are repeated until the other end has them.
            (self.keys.is_some() || records(exchange).contains("No keys")).then_some(())
        });
        self.keys.is_some()
    }

    /// Sends packets from both ends until one reaches each.
    pub(crate) fn talk(&mut self) {
        let (sender, receiver) = self.keys.as_mut().expect("the call has keys");
        let mut heard = [false; 2];
        wait_until("packets to be relayed both ways", || {
            self.sent += 1;
            let mut buffer = [0; 2000];
            let plain = packet(0, self.sent);
            buffer[..plain.len()].copy_from_slice(&plain);
            let length = sender.protect(&mut buffer, plain.len()).expect("a packet is protected");
            self.page.send_to(&buffer[..length], self.relay[0]).expect("a packet is sent");
            let plain = packet(1, self.sent);
            self.phone.send_to(&plain, self.relay[1]).expect("a packet is sent");
            if let Ok(length) = self.phone.recv(&mut buffer) {
                let number = u16::from_be_bytes([buffer[2], buffer[3]]);
                assert_eq!(buffer[..length], packet(0, number), "a foreign packet");
                heard[0] = true;
            }
            if let Ok(length) = self.page.recv(&mut buffer)
                && let Ok(plain) = receiver.unprotect(&mut buffer[..length])
            {
                assert_eq!(plain[8..12], [0, 0, 0, 1], "a foreign packet");
                heard[1] = true;
            }
            (heard == [true; 2]).then_some(())
        });
    }

    pub(crate) fn hang_up(mut self, exchange: &TestServer) {
        let [page, phone] = &mut self.ends;
        page.pass(phone, "BYE", "");
        wait_until_closed(exchange);
    }
}

fn fingerprint_in(description: &str) -> Fingerprint {
    let (hash, text) = value(description, "fingerprint").split_once(' ').expect("a fingerprint");
    assert_eq!(hash, "sha-256");
    let bytes = text.split(':').map(|byte| u8::from_str_radix(byte, 16).expect("a byte"));
    Fingerprint { hash: HashFunction::Sha256, bytes: bytes.collect() }
}

/// The records of ended calls.
fn records(exchange: &TestServer) -> String {
    std::fs::read_to_string(exchange.server.data().join("calls.jsonl")).unwrap_or_default()
}

pub(crate) fn identity() -> Identity {
    Identity::generate().expect("a certificate can be made")
}

/// The first datagram of a new handshake.
pub(crate) fn hello(identity: &Identity) -> Vec<u8> {
    let mut association =
        Association::new(identity, true, Instant::now()).expect("the association begins");
    association.on_timeout(Instant::now()).expect("the handshake begins");
    match association.poll() {
        Ok(Event::Send(datagram)) => datagram.to_vec(),
        other => panic!("a handshake begins with {other:?}"),
    }
}

/// All datagrams that wait at `socket`.
pub(crate) fn waiting(socket: &UdpSocket) -> Vec<Vec<u8>> {
    let mut buffer = [0; 2000];
    let next = || {
        let length = socket.recv(&mut buffer).ok()?;
        Some(buffer[..length].to_vec())
    };
    std::iter::from_fn(next).collect()
}

/// A proxy between the page and the server has changed the fingerprint of the offer.
#[test]
fn a_changed_fingerprint_ends_the_call_without_audio() {
    let exchange = relay_with("converted", 3);
    let mut call = WebCall::new(&exchange, ["alice", "bob"], identity().fingerprint());
    call.nominate();
    let _ = call.shake_hands(&exchange, &identity());
    wait_until("the record of the call", || {
        records(&exchange).contains("No keys by DTLS").then_some(())
    });
    call.phone.send_to(&packet(1, 1), call.relay[1]).expect("a packet is sent");
    assert!(waiting(&call.phone).is_empty());
    let is_media = |datagram: &Vec<u8>| datagram.first().is_some_and(|first| first >> 6 == 2);
    assert!(!waiting(&call.page).iter().any(is_media));
    for end in &mut call.ends {
        end.agent.request("BYE");
    }
    wait_until_closed(&exchange);
}

/// Strangers send checks without the password, random bytes and handshakes to both ports of the
/// call. Their checks are no consent, and their answers are no larger.
#[test]
fn floods_of_strangers_neither_move_the_media_nor_are_multiplied() {
    let exchange = relay_with("converted", 3);
    let own = identity();
    let mut call = WebCall::new(&exchange, ["alice", "bob"], own.fingerprint());
    let strangers = [STRANGER, Ipv4Addr::LOCALHOST].map(socket);
    let forged = call.check(Some("abcdefghijklmnopqrstuv"));
    let foreign = hello(&identity());
    let mut random = fastrand::Rng::with_seed(50);
    let (mut sent, mut answered) = (0, 0);
    let mut flood = || {
        for stranger in &strangers {
            for round in 0..FLOOD {
                let mut bytes = vec![0; random.usize(1..400)];
                random.fill(&mut bytes);
                // Some of them begin as messages of STUN.
                if bytes.len() >= 20 && round % 2 == 0 {
                    let length = (bytes.len() - 20) as u16 & !3;
                    bytes.truncate(20 + usize::from(length));
                    bytes[..2].copy_from_slice(&[0, 1]);
                    bytes[2..4].copy_from_slice(&length.to_be_bytes());
                    bytes[4..8].copy_from_slice(&[0x21, 0x12, 0xa4, 0x42]);
                }
                for target in call.relay {
                    for datagram in [&forged, &bytes, &foreign] {
                        sent += stranger.send_to(datagram, target).unwrap_or(0);
                    }
                }
            }
            for answer in waiting(stranger) {
                let response = Message::parse(&answer).expect("strangers get responses to checks");
                assert_eq!(response.class, Class::Error);
                answered += answer.len();
            }
        }
    };
    flood();
    call.nominate();
    flood();
    assert!(answered > 0 && answered <= sent, "{answered} bytes for {sent}");
    assert!(call.shake_hands(&exchange, &own));
    call.talk();
    for _ in 0..3 {
        for stranger in &strangers {
            for target in call.relay {
                stranger.send_to(&forged, target).expect("a check is sent");
            }
        }
        call.talk();
    }
    for stranger in &strangers {
        for answer in waiting(stranger) {
            assert!(Message::parse(&answer).is_ok(), "a stranger gets {answer:02x?}");
        }
    }
    call.hang_up(&exchange);
}

/// The page is gone, and sends no check any more. Checks with wrong credentials, and responses that
/// the server has not asked for, keep the call no longer, from the address of the page and from
/// another one; no media go to the latter.
#[test]
fn forged_consent_neither_keeps_a_call_nor_moves_it() {
    let exchange = relay_with("converted", 3);
    let own = identity();
    let mut call = WebCall::new(&exchange, ["alice", "bob"], own.fingerprint());
    call.nominate();
    assert!(call.shake_hands(&exchange, &own));
    call.talk();
    let ufrag = value(&call.answer, "ice-ufrag");
    let forged = [
        call.check(Some("abcdefghijklmnopqrstuv")),
        call.check_as(&format!("{ufrag}:other"), None),
        call.check_as(&format!("other:{UFRAG}"), None),
        call.confirmation(Some("abcdefghijklmnopqrstuv")),
        call.confirmation(None),
    ];
    let stranger = socket(STRANGER);
    let is_error = |datagram: &[u8]| {
        Message::parse(datagram).is_ok_and(|response| response.class == Class::Error)
    };
    let (mut number, mut to_page) = (1000, 0);
    wait_until("the end of the call", || {
        for from in [&call.page, &stranger] {
            for datagram in &forged {
                from.send_to(datagram, call.relay[0]).expect("a datagram is sent");
            }
        }
        number += 1;
        call.phone.send_to(&packet(1, number), call.relay[1]).expect("a packet is sent");
        for answer in waiting(&stranger) {
            assert!(is_error(&answer), "a stranger gets {answer:02x?}");
        }
        let answers = waiting(&call.page);
        to_page += answers.iter().filter(|answer| !is_error(answer)).count();
        records(&exchange).contains("No consent").then_some(())
    });
    assert!(to_page > 0, "the page got no media while its consent lasted");
    for end in &mut call.ends {
        end.agent.request("BYE");
    }
    wait_until_closed(&exchange);
}

/// The page begins handshakes and ends none. Each costs the server a signature at most, and it
/// makes a fixed number of them for a call.
#[test]
fn a_page_that_begins_many_handshakes_gets_few() {
    let exchange = relay_with("converted", 3);
    let mut other = Call::with(exchange.agent("carol"), exchange.agent("bob"));
    let call = WebCall::new(&exchange, ["bob", "alice"], identity().fingerprint());
    call.nominate();
    let own = identity();
    let mut servers = HashSet::new();
    for _ in 0..FLOOD / 10 {
        for _ in 0..10 {
            call.page.send_to(&hello(&own), call.relay[0]).expect("a datagram is sent");
        }
        other.talk();
        for answer in waiting(&call.page) {
            // The random bytes of a ServerHello, after the headers of the record and the message.
            if answer.len() > 59 && answer[0] == 22 && answer[13] == 2 {
                servers.insert(answer[27..59].to_vec());
            }
        }
    }
    assert!((1..=MAX_ATTEMPTS).contains(&servers.len()), "{} handshakes", servers.len());
    other.talk();
}
