//! Several threads work on one server at once: no message is lost, no transaction is stuck, and
//! there is no deadlock.

use barebell_sip_server::config::{Domain, Listener};
use barebell_sip_server::{Config, Flow, Output, Server, Worker};
use parking_lot::RawMutex;
use sip::dialog::Dialog;
use sip::message::{Response, reason_phrase};
use sip::{Duration, HeaderName, Instant, Message, Method, Transport};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};

const THREADS: usize = 4;
const USERS: usize = 50;
const CALLS: usize = 500;
const START: Instant = Instant::from_micros(1_700_000_000_000_000);
const SERVER: ([u8; 4], u16) = ([192, 0, 2, 1], 5060);

/// A datagram for the server, with its source.
type Datagram = (SocketAddr, Vec<u8>);

fn address(user: usize) -> SocketAddr {
    ([203, 0, 113, user as u8], 5060).into()
}

fn request(method: Method<'static>, user: usize, from: usize, call: &str) -> Vec<u8> {
    let (source, mut out) = (address(from), Vec::new());
    let address = |user: usize| ("<sip:u", user as u64, "@example.com>");
    let to_user = (method != Method::Register).then_some(("u", user as u64, "@"));
    let uri = ("sip:", to_user, "example.com");
    Dialog::new(call, address(from), "a", address(user), uri)
        .request(method, 1, ("SIP/2.0/UDP ", source, ";branch=z9hG4bK", call), &mut out)
        .field(HeaderName::Contact, ("<sip:u", from as u64, "@", source, ">"))
        .end();
    out
}

/// The response of the phone of a user to a message, if any.
fn reaction(user: usize, bytes: &[u8]) -> Option<Vec<u8>> {
    let message = Message::parse(bytes).expect("a message");
    let status = match (message.method()?, user % 3) {
        (Method::Ack, _) => return None,
        (Method::Invite, 0) => 486,
        _ => 200,
    };
    let mut out = Vec::new();
    let response = Response {
        request: &message,
        source: SERVER.into(),
        status,
        reason: reason_phrase(status),
        to_tag: Some(b"b"),
    };
    response.write(&mut out, |_| ());
    Some(out)
}

/// Passes a datagram to the server, and the responses of the phones to some thread.
fn work(
    worker: &mut Worker<RawMutex>,
    (source, bytes): Datagram,
    threads: &[Sender<Datagram>],
    finals: &mut usize,
) {
    let flow =
        Flow { transport: Transport::Udp, local: SERVER.into(), remote: source, connection: None };
    let mut out = Output::default();
    worker.receive(START, &flow, &bytes, &mut out);
    for transmit in &out.transmits {
        let bytes = &out.bytes[transmit.range.clone()];
        let std::net::IpAddr::V4(ip) = transmit.flow.remote.ip() else { panic!("no IPv6 here") };
        let user = usize::from(ip.octets()[3]);
        let status = Message::parse(bytes).expect("a message").status();
        *finals += usize::from(status.is_some_and(|status| status >= 200));
        if let Some(reaction) = reaction(user, bytes) {
            let thread = (user + reaction.len()) % threads.len();
            // A thread that has finished receives nothing more, like a phone that is off.
            let _ = threads[thread].send((transmit.flow.remote, reaction));
        }
    }
}

fn run(
    number: usize,
    server: &Arc<Server<RawMutex>>,
    inbox: &Receiver<Datagram>,
    threads: &[Sender<Datagram>],
    barrier: &Barrier,
) -> usize {
    let mut worker = server.worker();
    let mut finals = 0;
    for user in (number..USERS).step_by(THREADS) {
        let register = request(Method::Register, user, user, &format!("register{user}"));
        work(&mut worker, (address(user), register), threads, &mut finals);
    }
    barrier.wait();
    for call in 0..CALLS {
        let (from, to) = ((number + call) % USERS, (number * 7 + call * 13) % USERS);
        let method = [Method::Invite, Method::Message][call % 2];
        let request = request(method, to, from, &format!("call{number}-{call}"));
        work(&mut worker, (address(from), request), threads, &mut finals);
        while let Ok(datagram) = inbox.try_recv() {
            work(&mut worker, datagram, threads, &mut finals);
        }
        worker.on_timer(START, &mut Output::default());
        assert!(worker.next_timer().is_some());
    }
    // Responses to the other threads arrive after all requests, and cause no output for a third
    // thread.
    barrier.wait();
    while let Ok(datagram) = inbox.try_recv() {
        work(&mut worker, datagram, threads, &mut finals);
    }
    finals
}

#[test]
fn threads_share_a_server() {
    let config = Config {
        listeners: vec![Listener { transport: Transport::Udp, address: SERVER.into() }],
        domains: vec![Domain { name: "example.com".into(), aliases: vec![] }],
        authentication: barebell_sip_server::config::Authentication {
            required: false,
            ..Default::default()
        },
        limits: barebell_sip_server::config::Limits {
            source_rate: 0,
            foreign_rate: 0,
            ..Default::default()
        },
        ..Config::default()
    };
    let server = Arc::new(Server::<RawMutex>::new(config, &[1; 32]));
    let (threads, inboxes): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| channel()).unzip();
    let barrier = Barrier::new(THREADS);
    let finals: usize = std::thread::scope(|scope| {
        let handles: Vec<_> = inboxes
            .into_iter()
            .enumerate()
            .map(|(number, inbox)| {
                let (server, threads, barrier) = (&server, &threads, &barrier);
                scope.spawn(move || run(number, server, &inbox, threads, barrier))
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().expect("a thread")).sum()
    });
    assert_eq!(finals, USERS + THREADS * CALLS);
    assert_eq!((server.registered(), server.bindings()), (USERS, USERS));
    let mut worker = server.worker();
    for seconds in 0..100 {
        worker.on_timer(START + Duration::from_secs(seconds), &mut Output::default());
    }
    assert_eq!(server.transactions(), 0);
    let sum = |name| server.counters().into_iter().find(|counter| counter.0 == name).unwrap().1;
    assert_eq!(sum("invites") as usize, THREADS * CALLS / 2);
    assert_eq!(sum("timeouts"), 0);
}
