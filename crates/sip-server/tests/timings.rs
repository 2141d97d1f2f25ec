//! The timings report the duration of each step when they are on.

use barebell_sip_server::config::{Config, Domain, Listener};
use barebell_sip_server::{Flow, Output, Server, Step};
use parking_lot::RawMutex;
use sip::{Instant, Transport};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A clock that advances by 100 ns with each call.
fn clock() -> u64 {
    static NOW: AtomicU64 = AtomicU64::new(0);
    NOW.fetch_add(100, Ordering::Relaxed)
}

/// The measured values of 1600 registrations.
fn measure(is_on: bool) -> Vec<(Step, u64, u64)> {
    let address = "192.0.2.1:5060".parse().unwrap();
    let mut config = Config {
        listeners: vec![Listener { transport: Transport::Udp, address }],
        domains: vec![Domain { name: "example.com".into(), aliases: Vec::new() }],
        timings: is_on,
        ..Config::default()
    };
    config.authentication.required = false;
    config.limits.source_rate = u32::MAX;
    let server: Arc<Server<RawMutex>> = Arc::new(Server::new(config, &[7; 32]));
    let mut worker = server.worker();
    worker.set_clock(clock);
    let mut out = Output::default();
    let remote = "198.51.100.9:5060".parse().unwrap();
    let flow = Flow { transport: Transport::Udp, local: address, remote, connection: None };
    for number in 0..1600 {
        let request = format!(
            "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP {remote};branch=z9hG4bK{number}\r\n\
             Max-Forwards: 70\r\nFrom: <sip:a@example.com>;tag=1\r\nTo: <sip:a@example.com>\r\n\
             Call-ID: x\r\nCSeq: {number} REGISTER\r\nContact: <sip:a@{remote}>\r\nContent-Length: 0\r\n\r\n"
        );
        let now = Instant::from_micros(1_800_000_000_000_000);
        worker.receive(now, &flow, request.as_bytes(), &mut out);
    }
    assert_eq!(out.transmits.len(), 1600);
    server
        .timings()
        .into_iter()
        .filter(|(_, timing)| timing.count > 0)
        .map(|(step, timing)| (step, timing.count, timing.nanoseconds))
        .collect()
}

#[test]
fn the_steps_of_a_registration_are_measured_in_one_message_of_sixteen() {
    let measured = measure(true);
    let [(_, count, _), ..] = measured[..] else { panic!("nothing was measured") };
    assert!((80..=120).contains(&count), "{count}");
    // Each step reads the clock twice, the parser twice, and the handler includes all of them.
    let each = [
        (Step::ParseHeaders, 200),
        (Step::AddUser, 100),
        (Step::FormatResponse, 100),
        (Step::Handler, 900),
    ];
    assert_eq!(measured, each.map(|(step, nanoseconds)| (step, count, count * nanoseconds)));
}

#[test]
fn switched_off_nothing_is_measured() {
    assert_eq!(measure(false), []);
}
