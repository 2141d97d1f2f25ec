//! A simulated network with a virtual clock: datagrams are lost, duplicated, delayed and reordered,
//! and streams break. All randomness comes from one seed, so that failures are reproducible.
//!
//! The owner takes one [`Event`] after another with [`Network::next_event`], which advances the
//! clock, and dispatches it.

use crate::random::Random;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};
use std::net::SocketAddr;
use std::time::Duration;

/// The characteristics of the network.
#[derive(Clone, Copy, Debug, Default)]
pub struct Link {
    /// The datagrams lost, per thousand.
    pub loss: u64,
    /// The datagrams duplicated, per thousand.
    pub duplication: u64,
    /// The minimum transit time.
    pub delay: Duration,
    /// The maximum additional transit time, random for each item, so that datagrams overtake
    /// others.
    pub jitter: Duration,
}

/// An event. `W` is the payload of the owner's timers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<W> {
    /// A datagram arrives.
    Datagram {
        /// The source address.
        from: SocketAddr,
        /// The destination address.
        to: SocketAddr,
        /// The contents.
        bytes: Vec<u8>,
    },
    /// Data written at once on a stream arrives.
    Stream {
        /// The number of the stream.
        stream: u64,
        /// The source address.
        from: SocketAddr,
        /// The destination address.
        to: SocketAddr,
        /// The contents.
        bytes: Vec<u8>,
    },
    /// An end of a stream learns that it is closed.
    Closed {
        /// The number of the stream.
        stream: u64,
        /// The address of the end.
        to: SocketAddr,
    },
    /// A timer of the owner has fired.
    Wake(W),
}

/// The network and the clock.
#[derive(Debug)]
pub struct Network<W> {
    /// The characteristics that apply from now on.
    pub link: Link,
    now: Duration,
    random: Random,
    queue: BinaryHeap<Reverse<Entry<W>>>,
    serial: u64,
    streams: BTreeMap<u64, Stream>,
    opened: u64,
    trace: u64,
}

#[derive(Debug)]
struct Entry<W> {
    at: Duration,
    serial: u64,
    event: Event<W>,
}

/// An open stream, with the arrival time of the last item in transit to each end.
#[derive(Debug)]
struct Stream {
    ends: [(SocketAddr, Duration); 2],
}

impl<W> Network<W> {
    /// Creates a network without events.
    #[must_use]
    pub fn new(seed: u64, link: Link) -> Self {
        Self {
            link,
            now: Duration::ZERO,
            random: Random::new(seed),
            queue: BinaryHeap::new(),
            serial: 0,
            streams: BTreeMap::new(),
            opened: 0,
            trace: 0xcbf2_9ce4_8422_2325,
        }
    }

    /// The time since the start.
    #[must_use]
    pub const fn now(&self) -> Duration {
        self.now
    }

    /// The source of all randomness.
    pub const fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// A hash of all arrivals in order, equal for equal runs.
    #[must_use]
    pub const fn trace(&self) -> u64 {
        self.trace
    }

    /// Sends a datagram.
    pub fn send(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        if self.random.chance(self.link.loss) {
            return;
        }
        let copies = if self.random.chance(self.link.duplication) { 2 } else { 1 };
        for _ in 0..copies {
            let at = self.now + self.way();
            self.push(at, Event::Datagram { from, to, bytes: bytes.to_vec() });
        }
    }

    /// Opens a stream. Its number is unique.
    pub fn open(&mut self, from: SocketAddr, to: SocketAddr) -> u64 {
        self.opened += 1;
        let ends = [(from, self.now), (to, self.now)];
        self.streams.insert(self.opened, Stream { ends });
        self.opened
    }

    /// Returns true if the stream is open.
    #[must_use]
    pub fn is_open(&self, stream: u64) -> bool {
        self.streams.contains_key(&stream)
    }

    /// Writes to a stream from the end `from`. Returns false if it is not open.
    pub fn write(&mut self, stream: u64, from: SocketAddr, bytes: &[u8]) -> bool {
        let at = self.now + self.way();
        let Some(open) = self.streams.get_mut(&stream) else { return false };
        let [one, other] = &mut open.ends;
        let end = if one.0 == from { other } else { one };
        end.1 = end.1.max(at);
        let (to, at) = *end;
        self.push(at, Event::Stream { stream, from, to, bytes: bytes.to_vec() });
        true
    }

    /// Breaks a stream. Data in transit is lost, and both ends are informed.
    pub fn close(&mut self, stream: u64) {
        let Some(open) = self.streams.remove(&stream) else { return };
        for (to, _) in open.ends {
            let at = self.now + self.way();
            self.push(at, Event::Closed { stream, to });
        }
    }

    /// The open streams with an end at `address`.
    #[must_use]
    pub fn streams_of(&self, address: SocketAddr) -> Vec<u64> {
        let has_end = |stream: &Stream| stream.ends.iter().any(|end| end.0 == address);
        self.streams.iter().filter(|(_, open)| has_end(open)).map(|(&stream, _)| stream).collect()
    }

    /// Returns `what` as [`Event::Wake`] at `at`, or now if that time has passed.
    pub fn wake_at(&mut self, at: Duration, what: W) {
        self.push(at.max(self.now), Event::Wake(what));
    }

    /// The time of the next event.
    #[must_use]
    pub fn next_time(&self) -> Option<Duration> {
        self.queue.peek().map(|Reverse(entry)| entry.at)
    }

    /// Advances the clock to the next event.
    pub fn next_event(&mut self) -> Option<Event<W>> {
        loop {
            let Reverse(Entry { at, event, .. }) = self.queue.pop()?;
            self.now = at;
            let (number, to, bytes) = match &event {
                Event::Datagram { to, bytes, .. } => (0, to, &bytes[..]),
                Event::Stream { stream, .. } if !self.is_open(*stream) => continue,
                Event::Stream { stream, to, bytes, .. } => (*stream, to, &bytes[..]),
                Event::Closed { stream, to } => (*stream, to, &[][..]),
                Event::Wake(_) => return Some(event),
            };
            let port = to.port();
            let parts = [&at.as_micros().to_le_bytes()[..], &number.to_le_bytes(), bytes];
            for &byte in parts.into_iter().flatten().chain(&port.to_le_bytes()) {
                // The FNV-1a hash.
                self.trace = (self.trace ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
            return Some(event);
        }
    }

    fn way(&mut self) -> Duration {
        let Link { delay, jitter, .. } = self.link;
        self.random.duration(delay, delay + jitter)
    }

    fn push(&mut self, at: Duration, event: Event<W>) {
        self.serial += 1;
        self.queue.push(Reverse(Entry { at, serial: self.serial, event }));
    }
}

impl<W> Ord for Entry<W> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.serial).cmp(&(other.at, other.serial))
    }
}

impl<W> PartialOrd for Entry<W> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<W> PartialEq for Entry<W> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<W> Eq for Entry<W> {}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: Link = Link {
        loss: 200,
        duplication: 100,
        delay: Duration::from_millis(10),
        jitter: Duration::from_millis(90),
    };

    fn ends() -> (SocketAddr, SocketAddr) {
        (([192, 0, 2, 1], 1).into(), ([192, 0, 2, 2], 2).into())
    }

    /// The first byte and the arrival time of each of 1000 datagrams.
    fn arrivals(seed: u64) -> (Vec<(u8, Duration)>, u64) {
        let mut network = Network::<()>::new(seed, LINK);
        let (from, to) = ends();
        (0..1000u32).for_each(|number| network.send(from, to, &[number as u8]));
        let mut arrivals = Vec::new();
        while let Some(event) = network.next_event() {
            let Event::Datagram { bytes, .. } = event else { panic!("{event:?}") };
            arrivals.push((bytes[0], network.now()));
        }
        (arrivals, network.trace())
    }

    #[test]
    fn datagrams_are_lost_duplicated_delayed_and_reordered() {
        let (arrived, _) = arrivals(1);
        assert!((820..940).contains(&arrived.len()), "{}", arrived.len());
        assert!(arrived.iter().all(|(_, at)| (10..100).contains(&at.as_millis())));
        assert!(arrived.windows(2).any(|pair| pair[0].0 > pair[1].0));
    }

    #[test]
    fn the_same_seed_gives_the_same_trace() {
        assert_eq!(arrivals(1), arrivals(1));
        assert_ne!(arrivals(1).1, arrivals(2).1);
    }

    #[test]
    fn a_stream_is_ordered_until_it_breaks() {
        let mut network = Network::<()>::new(3, LINK);
        let (from, to) = ends();
        let stream = network.open(from, to);
        for number in 0..100 {
            assert!(network.write(stream, from, &[number]));
        }
        for number in 0..60 {
            let event = network.next_event();
            assert!(matches!(event, Some(Event::Stream { bytes, .. }) if bytes == [number]));
        }
        network.close(stream);
        assert!(!network.write(stream, to, b"late"));
        let events: Vec<_> = std::iter::from_fn(|| network.next_event()).collect();
        assert_eq!(events.len(), 2);
        for end in [from, to] {
            assert!(events.contains(&Event::Closed { stream, to: end }));
        }
    }

    #[test]
    fn timers_fire_on_time_in_order() {
        let mut network = Network::new(4, LINK);
        network.wake_at(Duration::from_secs(2), 'c');
        network.wake_at(Duration::from_secs(1), 'a');
        network.wake_at(Duration::from_secs(1), 'b');
        let wakes: Vec<_> = std::iter::from_fn(|| network.next_event()).collect();
        assert_eq!(wakes, ['a', 'b', 'c'].map(Event::Wake));
        assert_eq!(network.now(), Duration::from_secs(2));
    }
}
