//! Sans-I/O ends on a simulated [network](crate::network) with a common clock.
//!
//! An [`End`] is for example a user agent or a server. It receives data and the time, and returns
//! its output. The rig delivers, fires timers and sends. The owner of the ends performs planned
//! steps:
//!
//! ```
//! use sip::Instant;
//! use std::time::Duration;
//! use test_support::network::Link;
//! use test_support::rig::{End, Outgoing, Peer, Simulation, Way};
//!
//! /// An end that echoes received data.
//! #[derive(Default)]
//! struct Echo(Vec<Outgoing>, usize);
//!
//! impl End for Echo {
//!     fn receive(&mut self, _: Instant, from: Peer, bytes: &[u8]) {
//!         self.1 += 1;
//!         if self.1 < 10 {
//!             let (to, bytes) = (from.address, bytes.to_vec());
//!             self.0.push(Outgoing { to, way: Way::Datagram, bytes });
//!         }
//!     }
//!     fn next_timer(&self) -> Option<Instant> {
//!         None
//!     }
//!     fn on_timer(&mut self, _: Instant) {}
//!     fn next_output(&mut self) -> Option<Outgoing> {
//!         self.0.pop()
//!     }
//! }
//!
//! let mut ends = (Echo::default(), Echo::default());
//! let link = Link { delay: Duration::from_millis(5), ..Link::default() };
//! let mut rig = Simulation::<&str>::new(1, link);
//! let one = rig.attach(([192, 0, 2, 1], 5060).into());
//! let other = ([192, 0, 2, 2], 5060).into();
//! rig.attach(other);
//! rig.plan(Duration::from_secs(1), "serve");
//! while let Some(step) = rig.next(&mut ends, Duration::MAX) {
//!     assert_eq!(step, "serve");
//!     ends.0.0.push(Outgoing { to: other, way: Way::Datagram, bytes: b"ping".to_vec() });
//!     rig.after(&mut ends, one);
//! }
//! assert_eq!((ends.0.1, ends.1.1), (9, 10));
//! ```

use crate::network::{Event, Link, Network};
use sip::Instant;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// The start of the simulated time.
pub const START: Instant = Instant::from_micros(1_700_000_000_000_000);

/// Converts the network's time to that of the ends.
#[must_use]
pub fn instant(since_start: Duration) -> Instant {
    START + sip::Duration::from(since_start)
}

/// Converts the ends' time to that of the network.
#[must_use]
pub fn since_start(instant: Instant) -> Duration {
    instant.since(START).into()
}

/// The source of received data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The address as seen by the network.
    pub address: SocketAddr,
    /// The stream, unless it was a datagram.
    pub stream: Option<u64>,
}

/// The way to send data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// In a datagram.
    Datagram,
    /// On this stream.
    Stream(u64),
    /// On any open stream between the two ends.
    OpenStream,
    /// On a new stream.
    NewStream,
}

/// Data to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The destination address.
    pub to: SocketAddr,
    /// The way to send it.
    pub way: Way,
    /// The contents.
    pub bytes: Vec<u8>,
}

/// A sans-I/O end.
pub trait End {
    /// Receives a datagram, or data written at once on a stream.
    fn receive(&mut self, now: Instant, from: Peer, bytes: &[u8]);

    /// The time of the next call of [`End::on_timer`].
    fn next_timer(&self) -> Option<Instant>;

    /// Processes a fired timer.
    fn on_timer(&mut self, now: Instant);

    /// Takes the next output. Called after each of the other calls until it returns `None`.
    fn next_output(&mut self) -> Option<Outgoing>;

    /// The stream opened for [`Way::NewStream`].
    fn stream_opened(&mut self, _stream: u64) {}

    /// A stream of this end was closed.
    fn stream_closed(&mut self, _now: Instant, _stream: u64) {}

    /// The stream for `outgoing` is closed or does not exist.
    fn undeliverable(&mut self, _now: Instant, _outgoing: Outgoing) {}
}

/// The ends of a rig, by the numbers returned by [`Simulation::attach`].
pub trait Nodes {
    /// The end with this number.
    fn end(&mut self, number: usize) -> &mut dyn End;
}

impl<E: End> Nodes for Vec<E> {
    fn end(&mut self, number: usize) -> &mut dyn End {
        &mut self[number]
    }
}

impl<A: End, B: End> Nodes for (A, B) {
    fn end(&mut self, number: usize) -> &mut dyn End {
        if number == 0 { &mut self.0 } else { &mut self.1 }
    }
}

/// The payload of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wake<S> {
    /// The timer of the end with this number.
    End(usize),
    /// A planned step of the owner.
    Step(S),
}

/// The network and the state of each end. `S` is a planned step of the owner.
#[derive(Debug)]
pub struct Simulation<S> {
    /// Messages that contain this text are printed on arrival.
    pub shown: Option<String>,
    net: Network<Wake<S>>,
    places: Vec<Place>,
    numbers: BTreeMap<SocketAddr, usize>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    address: SocketAddr,
    alarm: Option<Duration>,
}

impl<S> Simulation<S> {
    /// Creates a network without ends. All randomness comes from `seed`.
    #[must_use]
    pub fn new(seed: u64, link: Link) -> Self {
        Self {
            shown: None,
            net: Network::new(seed, link),
            places: Vec::new(),
            numbers: BTreeMap::new(),
        }
    }

    /// Attaches the next end and returns its number, from 0 on. The network sees it at `address`,
    /// which differs from its own view behind a NAT.
    pub fn attach(&mut self, address: SocketAddr) -> usize {
        let number = self.places.len();
        self.places.push(Place { address, alarm: None });
        self.numbers.insert(address, number);
        number
    }

    /// Changes the address at which the network sees an end: a new NAT binding, or a moved end.
    /// Data to the old address is lost.
    pub fn move_to(&mut self, number: usize, address: SocketAddr) {
        self.numbers.remove(&self.places[number].address);
        self.numbers.insert(address, number);
        self.places[number].address = address;
    }

    /// Closes all streams of an end, as after a power failure or restart.
    pub fn cut(&mut self, number: usize) {
        for stream in self.net.streams_of(self.places[number].address) {
            self.net.close(stream);
        }
    }

    /// Returns true if an end has an open stream.
    #[must_use]
    pub fn has_stream(&self, number: usize) -> bool {
        !self.net.streams_of(self.places[number].address).is_empty()
    }

    /// The characteristics of the network.
    #[must_use]
    pub const fn link(&self) -> Link {
        self.net.link
    }

    /// Changes the characteristics of the network.
    pub const fn set_link(&mut self, link: Link) {
        self.net.link = link;
    }

    /// The time of the ends.
    #[must_use]
    pub fn now(&self) -> Instant {
        instant(self.net.now())
    }

    /// A hash of all arrivals in order, equal for equal runs.
    #[must_use]
    pub const fn trace(&self) -> u64 {
        self.net.trace()
    }

    /// Plans `step` for the time `at`, or now if that time has passed. [`Simulation::next`] returns
    /// it.
    pub fn plan(&mut self, at: Duration, step: S) {
        self.net.wake_at(at, Wake::Step(step));
    }

    /// Plans `step` after the duration `wait`.
    pub fn plan_in(&mut self, wait: Duration, step: S) {
        self.plan(self.net.now() + wait, step);
    }

    /// Processes all events until the owner's next step, and returns it. Returns `None` if there is
    /// no step before `until`.
    pub fn next(&mut self, ends: &mut impl Nodes, until: Duration) -> Option<S> {
        while self.net.next_time().is_some_and(|next| next < until) {
            match self.net.next_event()? {
                Event::Datagram { from, to, bytes } => {
                    self.deliver(ends, Peer { address: from, stream: None }, to, &bytes);
                }
                Event::Stream { stream, from, to, bytes } => {
                    self.deliver(ends, Peer { address: from, stream: Some(stream) }, to, &bytes);
                }
                Event::Closed { stream, to } => {
                    if let Some(&number) = self.numbers.get(&to) {
                        ends.end(number).stream_closed(self.now(), stream);
                        self.after(ends, number);
                    }
                }
                Event::Wake(Wake::End(number)) => {
                    let alarm = &mut self.places[number].alarm;
                    if alarm.take_if(|alarm| *alarm <= self.net.now()).is_some() {
                        let (end, now) = (ends.end(number), self.now());
                        // The end may have postponed its timer.
                        if end.next_timer().is_some_and(|next| next <= now) {
                            end.on_timer(now);
                        }
                        self.after(ends, number);
                    }
                }
                Event::Wake(Wake::Step(step)) => return Some(step),
            }
        }
        None
    }

    fn deliver(&mut self, ends: &mut impl Nodes, from: Peer, to: SocketAddr, bytes: &[u8]) {
        let Some(&number) = self.numbers.get(&to) else { return };
        if let Some(shown) = &self.shown {
            let text = String::from_utf8_lossy(bytes);
            if text.contains(shown) {
                let line = text.lines().next().unwrap_or_default();
                let cseq = text.lines().find(|line| line.starts_with("CSeq")).unwrap_or_default();
                let now = self.net.now().as_secs_f64();
                println!("{now:.6} {} -> {to} {line} ({cseq})", from.address);
            }
        }
        ends.end(number).receive(self.now(), from, bytes);
        self.after(ends, number);
    }

    /// Sends the output of an end and sets its timer, after the owner has called the end.
    pub fn after(&mut self, ends: &mut impl Nodes, number: usize) {
        let (end, now) = (ends.end(number), self.now());
        let address = self.places[number].address;
        while let Some(outgoing) = end.next_output() {
            let Outgoing { to, way, bytes } = &outgoing;
            let is_sent = match *way {
                Way::Datagram => {
                    self.net.send(address, *to, bytes);
                    true
                }
                Way::Stream(stream) => self.net.write(stream, address, bytes),
                Way::OpenStream => {
                    let own = self.net.streams_of(address);
                    let stream = self.net.streams_of(*to).into_iter().find(|it| own.contains(it));
                    stream.is_some_and(|stream| self.net.write(stream, address, bytes))
                }
                Way::NewStream => {
                    let stream = self.net.open(address, *to);
                    end.stream_opened(stream);
                    self.net.write(stream, address, bytes)
                }
            };
            if !is_sent {
                end.undeliverable(now, outgoing);
            }
        }
        let Some(next) = end.next_timer().map(|next| since_start(next).max(self.net.now())) else {
            return;
        };
        let alarm = &mut self.places[number].alarm;
        if alarm.is_none_or(|alarm| next < alarm) {
            *alarm = Some(next);
            self.net.wake_at(next, Wake::End(number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: Link = Link {
        loss: 300,
        duplication: 100,
        delay: Duration::from_millis(10),
        jitter: Duration::from_millis(300),
    };
    const SERVER: SocketAddr =
        SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)), 5060);

    /// The number of values sent.
    const LAST: u8 = 20;

    /// Sends numbers, each every second until it is echoed. Echoes received numbers.
    #[derive(Default)]
    struct Counter {
        way: Option<Way>,
        next: u8,
        again: Option<Instant>,
        outbox: Vec<Outgoing>,
        heard: Vec<u8>,
        lost: usize,
    }

    impl Counter {
        fn request(&mut self, now: Instant) {
            self.again = Some(now + sip::Duration::from_secs(1));
            let way = self.way.expect("the client has a way to send");
            self.outbox.push(Outgoing { to: SERVER, way, bytes: vec![b'?', self.next] });
        }
    }

    impl End for Counter {
        fn receive(&mut self, now: Instant, from: Peer, bytes: &[u8]) {
            self.heard.push(bytes[1]);
            if bytes[0] == b'?' {
                let way = from.stream.map_or(Way::Datagram, Way::Stream);
                let answer = vec![b'!', bytes[1]];
                self.outbox.push(Outgoing { to: from.address, way, bytes: answer });
            } else if bytes[1] == self.next {
                self.next += 1;
                if self.next < LAST {
                    self.request(now);
                }
            }
        }

        fn next_timer(&self) -> Option<Instant> {
            self.again.filter(|_| self.next < LAST)
        }

        fn on_timer(&mut self, now: Instant) {
            assert_eq!(Some(now), self.again, "the timer fires on time");
            self.request(now);
        }

        fn next_output(&mut self) -> Option<Outgoing> {
            self.outbox.pop()
        }

        fn stream_opened(&mut self, stream: u64) {
            self.way = Some(Way::Stream(stream));
        }

        fn stream_closed(&mut self, _: Instant, stream: u64) {
            if self.way == Some(Way::Stream(stream)) {
                self.way = Some(Way::NewStream);
            }
        }

        fn undeliverable(&mut self, _: Instant, _: Outgoing) {
            self.lost += 1;
        }
    }

    /// Runs a client that sends by `way`, a server, and `act` in the middle.
    fn run(
        seed: u64,
        way: Way,
        act: impl Fn(&mut Simulation<()>, &mut (Counter, Counter)),
    ) -> ((Counter, Counter), u64) {
        let mut rig = Simulation::new(seed, LINK);
        rig.attach(([10, 0, 0, 1], 1).into());
        rig.attach(SERVER);
        let mut ends = (Counter { way: Some(way), ..Counter::default() }, Counter::default());
        ends.0.request(rig.now());
        rig.after(&mut ends, 0);
        rig.plan(Duration::from_secs(3), ());
        while let Some(()) = rig.next(&mut ends, Duration::from_secs(300)) {
            act(&mut rig, &mut ends);
        }
        let trace = rig.trace();
        (ends, trace)
    }

    #[test]
    fn two_ends_communicate_despite_loss_and_duplication() {
        for seed in 0..20 {
            let ((client, server), trace) = run(seed, Way::Datagram, |_, _| ());
            assert_eq!(client.next, LAST);
            assert!(server.heard.len() > usize::from(LAST), "lost data was retransmitted");
            assert_eq!(run(seed, Way::Datagram, |_, _| ()).1, trace);
        }
    }

    #[test]
    fn an_improved_network_loses_nothing() {
        let ((client, server), _) = run(2, Way::Datagram, |rig, ends| {
            rig.set_link(Link { loss: 0, duplication: 0, jitter: Duration::ZERO, ..rig.link() });
            ends.1.heard.clear();
        });
        assert_eq!(client.next, LAST);
        // Since then each number was received once, except those in transit.
        assert!(server.heard.len() <= usize::from(LAST) + 2, "{:?}", server.heard);
    }

    #[test]
    fn a_moved_end_is_reached_only_at_its_new_address() {
        let ((client, _), _) = run(3, Way::Datagram, |rig, _| {
            rig.move_to(0, ([10, 0, 0, 1], 2).into());
            assert_eq!(rig.numbers.len(), 2);
        });
        assert_eq!(client.next, LAST);
    }

    #[test]
    fn a_restarted_end_has_no_streams() {
        let ((client, server), _) = run(4, Way::NewStream, |rig, ends| {
            assert!(rig.has_stream(0) && rig.has_stream(1));
            ends.1 = Counter::default();
            rig.cut(1);
            assert!(!rig.has_stream(0));
            ends.0.request(rig.now());
            rig.after(ends, 0);
            assert_eq!(ends.0.lost, 1, "the end has not been informed yet");
        });
        assert_eq!(client.next, LAST);
        assert!(server.heard[0] > 0 && server.heard.contains(&(LAST - 1)));
    }
}
