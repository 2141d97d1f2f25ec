//! A test bench with an engine, a clock, and the messages of a server.

use super::super::{Engine, Party, Place, Settings, Task};
use crate::load::tally::{Parts, Tally};
use crate::record::{Counts, Delay};
use sip::transaction::Timers;
use sip::{Duration, Instant, Transport};
use std::net::SocketAddr;

/// The longest delay of a timer in milliseconds: the wheel's tick, and the step of the clock here.
pub(super) const TICK: u64 = 4;

/// A sent message with its time in milliseconds from the start.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) at: u64,
    pub(super) link: u32,
    pub(super) remote: Option<SocketAddr>,
    pub(super) text: String,
}

impl Sent {
    /// Returns the values of the header fields with this name.
    pub(super) fn values(&self, name: &str) -> Vec<&str> {
        values(&self.text, name)
    }

    /// Returns the only value of a header field.
    pub(super) fn value(&self, name: &str) -> &str {
        match self.values(name)[..] {
            [value] => value,
            ref other => panic!("{name} has the values {other:?} in {}", self.text),
        }
    }

    /// Returns the number of its CSeq.
    pub(super) fn number(&self) -> u32 {
        self.value("CSeq").split(' ').next().unwrap().parse().unwrap()
    }

    pub(super) fn start_line(&self) -> &str {
        self.text.lines().next().unwrap()
    }
}

fn values<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let head = text.split("\r\n\r\n").next().unwrap();
    let fields = head.lines().skip(1).filter_map(|line| line.split_once(": "));
    fields.filter(|(found, _)| *found == name).map(|(_, value)| value).collect()
}

/// Four users with a socket each; user 0 calls user 2.
pub(super) struct Rig {
    pub(super) engine: Engine,
    origin: Instant,
    pub(super) now: Instant,
}

pub(super) fn server() -> SocketAddr {
    "192.0.2.1:5060".parse().unwrap()
}

impl Rig {
    pub(super) fn new(change: impl FnOnce(&mut Settings)) -> Self {
        let now = Instant::from_micros(1_000_000_000_000);
        let mut settings = Settings {
            salt: 0x1234_5678,
            domain: "example.org".to_owned(),
            transport: Transport::Udp,
            timers: Timers::default(),
            ring: Duration::ZERO,
            hold: Duration::ZERO,
            expires: 600,
            target: ([192, 0, 2, 1], 5060).into(),
            to: None,
            retransmits: true,
            hangs_up: true,
            register_first: false,
            reuse_nonces: false,
        };
        change(&mut settings);
        let parties = (0..4).map(|index| Party {
            name: format!("user{index}"),
            password: format!("secret{index}"),
            link: index,
            way: index,
        });
        let places = (0..4).map(|index| {
            let address = format!("192.0.2.10:{}", 6000 + index).into_bytes();
            Place { sent_by: address.clone(), contact: address }
        });
        let mut engine = Engine::new(settings, parties.collect(), places.collect(), now);
        engine.tally = Tally::new(now, now..Instant::MAX);
        Self { engine, origin: now, now }
    }

    /// Returns the milliseconds since the start.
    pub(super) fn millis(&self) -> u64 {
        self.now.since(self.origin).as_micros() / 1000
    }

    /// Starts a task of user 0 on time.
    pub(super) fn start(&mut self, task: Task) -> Vec<Sent> {
        self.engine.start(self.now, self.now, task, 0, None);
        self.take()
    }

    /// Returns the output, sent at the current time.
    pub(super) fn take(&mut self) -> Vec<Sent> {
        self.engine.sent(self.now);
        let out = &self.engine.out;
        let at = self.millis();
        let sent = out.transmits.iter().map(|transmit| Sent {
            at,
            link: transmit.link,
            remote: transmit.remote,
            text: String::from_utf8(out.bytes[transmit.range.clone()].to_vec()).unwrap(),
        });
        let sent = sent.collect();
        self.engine.out.clear();
        sent
    }

    /// Delivers a message of the server without a processing delay.
    pub(super) fn deliver(&mut self, link: u32, text: &str) -> Vec<Sent> {
        self.deliver_late(link, text, 0, 0)
    }

    /// Delivers a message that is processed `busy` milliseconds after its receipt; the output is
    /// sent `slow` milliseconds after that.
    pub(super) fn deliver_late(
        &mut self,
        link: u32,
        text: &str,
        busy: u64,
        slow: u64,
    ) -> Vec<Sent> {
        let received = self.now;
        self.now += Duration::from_millis(busy);
        self.engine.receive(received, self.now, link, server(), text.as_bytes());
        self.now += Duration::from_millis(slow);
        self.take()
    }

    /// Advances the clock, and runs the timers.
    pub(super) fn wait(&mut self, millis: u64) -> Vec<Sent> {
        let mut sent = Vec::new();
        for _ in 0..millis {
            self.now += Duration::from_millis(1);
            if self.engine.next_timer().is_some_and(|when| when <= self.now) {
                self.engine.on_timer(self.now);
                sent.extend(self.take());
            }
        }
        sent
    }

    pub(super) fn counts(&mut self) -> Counts {
        self.engine.tally.counts().clone()
    }

    /// Returns all counts after the end of the operations.
    pub(super) fn finish(mut self) -> Parts {
        assert_eq!(self.engine.in_flight(), 0, "operations are under way");
        self.parts()
    }

    pub(super) fn parts(&mut self) -> Parts {
        let empty = Tally::new(self.now, self.now..self.now);
        let tally = std::mem::replace(&mut self.engine.tally, empty);
        tally.into_parts(Duration::ZERO..Duration::from_secs(1_000_000))
    }
}

/// Asserts that exactly these delays, in milliseconds, were recorded once each, within the
/// resolution of a histogram of 0.1 %.
#[track_caller]
pub(super) fn assert_delays(parts: &Parts, expected: &[(Delay, u64)]) {
    let names: Vec<_> = parts.delays.keys().copied().collect();
    let mut wanted: Vec<_> = expected.iter().map(|(delay, _)| *delay).collect();
    wanted.sort_unstable();
    assert_eq!(names, wanted, "which delays there are");
    for (delay, millis) in expected {
        let histogram = &parts.delays[delay];
        assert_eq!(histogram.count(), 1, "{delay:?}");
        let micros = millis * 1000;
        assert!(
            histogram.max().abs_diff(micros) <= micros / 1000 + 1,
            "{delay:?} is {} us, not {millis} ms",
            histogram.max()
        );
    }
}

/// Returns a response to `request` of the server, or of an element behind it, with `more` header
/// field lines.
pub(super) fn answer(request: &str, status: &str, more: &str) -> String {
    let mut text = format!("SIP/2.0 {status}\r\n");
    for name in ["Via", "From", "To", "Call-ID", "CSeq"] {
        for value in values(request, name) {
            let tag = match name {
                "To" if !value.contains(";tag=") => ";tag=server",
                _ => "",
            };
            text.push_str(&format!("{name}: {value}{tag}\r\n"));
        }
    }
    text + more + "Content-Length: 0\r\n\r\n"
}

/// Returns `request` as relayed by a proxy, with the Record-Route values `routes`.
pub(super) fn relayed(request: &str, routes: &[&str]) -> String {
    let (line, rest) = request.split_once("\r\n").unwrap();
    let routes: String = routes.iter().map(|route| format!("Record-Route: {route}\r\n")).collect();
    format!("{line}\r\nVia: SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bKproxy\r\n{routes}{rest}")
}

/// Returns `response` as relayed back by a proxy.
pub(super) fn returned(response: &str) -> String {
    let (line, rest) = response.split_once("\r\n").unwrap();
    let (via, rest) = rest.split_once("\r\n").unwrap();
    assert!(via.contains("z9hG4bKproxy"), "{response}");
    format!("{line}\r\n{rest}")
}

/// Returns the only message in `sent`.
#[track_caller]
pub(super) fn only(sent: Vec<Sent>) -> Sent {
    let [one]: [Sent; 1] = sent.try_into().unwrap_or_else(|sent| panic!("not one: {sent:#?}"));
    one
}
