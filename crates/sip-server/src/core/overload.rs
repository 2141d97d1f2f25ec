//! Overload control: an overloaded server serves only a share of the new requests, so that dialogs
//! and transactions in progress are completed. Without it a server beyond its capacity completes
//! none.

use memchr::{memchr, memchr_iter};
use sip::{Duration, HeaderName, Instant};

/// The first four bytes of messages of existing dialogs and transactions: responses, and the
/// methods within dialogs and transactions. All other requests begin something new.
pub const BEGUN: [[u8; 4]; 9] =
    [*b"SIP/", *b"ACK ", *b"BYE ", *b"CANC", *b"PRAC", *b"UPDA", *b"INFO", *b"NOTI", *b"REFE"];

/// A share of the new requests, in units of 1/2^16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u32);

impl Share {
    /// All requests.
    pub const ALL: Self = Self(1 << 16);
    /// The smallest share. With a smaller one the end of the overload would be detected late.
    pub const LEAST: Self = Self(1 << 5);

    /// The share in units of 1/2^16.
    #[must_use]
    pub const fn parts(self) -> u32 {
        self.0
    }

    /// True if the share includes the request with this `hash`.
    pub(crate) const fn has(self, hash: u64) -> bool {
        hash as u32 & (Self::ALL.0 - 1) < self.0
    }

    /// True if the share includes the next of consecutive requests. `credit` is the state between
    /// the calls.
    fn lets_in(self, credit: &mut u32) -> bool {
        *credit += self.0;
        let is_in = *credit >= Self::ALL.0;
        if is_in {
            *credit -= Self::ALL.0;
        }
        is_in
    }

    /// Returns this share of `other`.
    fn of(self, other: Self) -> Self {
        Self((u64::from(self.0) * u64::from(other.0) / u64::from(Self::ALL.0)) as u32)
    }

    /// Returns this share as a share of `other`, which is not smaller.
    fn as_part_of(self, other: Self) -> Self {
        Self((u64::from(self.0) * u64::from(Self::ALL.0) / u64::from(other.0)) as u32)
    }

    fn times(self, factor: f64) -> Self {
        let parts = f64::from(self.0) * factor;
        Self((parts as u32).clamp(Self::LEAST.0, Self::ALL.0))
    }
}

/// Determines the share of the new requests that is served, from the time that messages wait in the
/// receive queue.
///
/// While most new requests are served, all are read, and calls beyond the share are rejected with
/// 503. A rejection costs a quarter of a call and ends the attempt. The smaller the share, the
/// fewer requests are rejected for each one that is served, and the others are dropped at low cost:
/// the owner leaves datagrams unread, and their senders retransmit them (RFC 3261 section 17.1).
/// [`Worker::lets_in`](crate::Worker::lets_in) drops messages on streams.
#[derive(Debug)]
pub struct Throttle {
    share: Share,
    /// The credit of the requests on streams.
    credit: u32,
    /// The time of the last decision. Messages that arrived before it were admitted by the previous
    /// share, and say nothing about the current one.
    decided: Instant,
    /// The share that was read before the last decision.
    read_before: Share,
    /// The current group of messages: how long they waited, and the times at which the first of
    /// them arrived and was read.
    first: Option<(Wait, Instant, Instant)>,
}

/// A class of waiting times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Short,
    Middling,
    Long,
}

impl Wait {
    /// The class of `waited`, given the maximum waiting time `longest`.
    fn of(waited: Duration, longest: Duration) -> Self {
        match waited {
            waited if waited.times(4) <= longest => Self::Short,
            waited if waited.times(2) < longest => Self::Middling,
            _ => Self::Long,
        }
    }
}

/// Messages that arrive within this time and with the same class of waiting time are evaluated
/// together.
const STEP: Duration = Duration::from_millis(10);

impl Throttle {
    /// Creates a throttle that serves all requests.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            share: Share::ALL,
            credit: 0,
            decided: Instant::ZERO,
            read_before: Share::ALL,
            first: None,
        }
    }

    /// The share of new requests that is read.
    #[must_use]
    pub fn read(&self) -> Share {
        let refused = self.share.of(self.share);
        Share(self.share.0 + refused.0).min(Share::ALL)
    }

    /// The share of the requests read that is served.
    pub(crate) fn served(&self) -> Share {
        self.share.as_part_of(self.read())
    }

    /// The share of the messages of a stream that is served, after they have `waited`, given the
    /// maximum waiting time `longest`.
    pub(crate) fn served_after(&self, waited: Duration, longest: Duration) -> Share {
        if Wait::of(waited, longest) == Wait::Short { Share::ALL } else { self.served() }
    }

    /// True if less than all new requests are served.
    pub(crate) fn is_throttling(&self) -> bool {
        self.share < Share::ALL
    }

    /// True if `message`, which came on a stream, must be read. Otherwise it must be dropped, which
    /// a server may do with requests that it is too busy for (RFC 3261 section 21.5.4). Requests on
    /// streams are not retransmitted. So no message of an existing dialog or transaction is
    /// dropped, whatever its method, and no REGISTER, because serving it costs as little as
    /// rejecting it.
    ///
    /// Messages of a stream without long waiting times are not dropped either: those that are
    /// `expected` to wait for less than a quarter of the maximum `longest`. In that case other
    /// streams cause the overload.
    pub(crate) fn lets_in(
        &mut self,
        message: &[u8],
        expected: Duration,
        longest: Duration,
    ) -> bool {
        let share = self.read();
        share == Share::ALL
            || Wait::of(expected, longest) == Wait::Short
            || !begins_something(message)
            || share.lets_in(&mut self.credit)
    }

    /// True if `datagram`, which arrived at `came`, must be read. It may have arrived when a larger
    /// share was read.
    pub(crate) fn reads(&mut self, datagram: &[u8], came: Instant) -> bool {
        let read = self.read();
        came >= self.decided
            || read >= self.read_before
            || has_begun(datagram)
            || read.as_part_of(self.read_before).lets_in(&mut self.credit)
    }

    /// The maximum interval between calls of [`Throttle::observe`] while less than all requests are
    /// served.
    #[must_use]
    pub const fn step() -> Duration {
        STEP
    }

    /// Records the waiting time `waited` of a message that is read `now`; zero if no message waits.
    /// `longest` is the maximum waiting time; zero disables the throttle. Returns true if the share
    /// has changed.
    pub fn observe(&mut self, now: Instant, waited: Duration, longest: Duration) -> bool {
        if longest == Duration::ZERO {
            return core::mem::take(self).share != Share::ALL;
        }
        let came = now - waited;
        if came < self.decided {
            return false;
        }
        let wait = Wait::of(waited, longest);
        let first = self.first.filter(|(first, ..)| *first == wait).unwrap_or((wait, came, now));
        self.first = Some(first);
        let (_, first_came, first_read) = first;
        let span = came.since(first_came);
        if span < STEP {
            return false;
        }
        let reading = now.since(first_read);
        let micros = |span: Duration| span.as_micros() as f64;
        // Above 1, the queue grows. A server that catches up was only interrupted for a moment.
        let growth = micros(reading) / micros(span);
        let share = match wait {
            // An eighth more each time: from the smallest share to all in 0.6 s.
            Wait::Short => self.share.times(1.125),
            // The share that can be read as fast as it arrives, and less, so that the queue
            // shrinks.
            Wait::Long if growth > 0.9 => {
                let excess = micros(waited.max(longest)) / micros(longest);
                self.share.times(0.875 / growth.min(7.0) / excess)
            }
            Wait::Middling | Wait::Long => self.share,
        };
        if share == self.share {
            self.first = Some((wait, came, now));
            return false;
        }
        // The reading rate is measured from the next message on. For short waiting times it has no
        // meaning.
        let first = (wait == Wait::Short).then_some((wait, now, now));
        *self = Self { share, credit: self.credit, decided: now, read_before: self.read(), first };
        true
    }
}

/// True if `message` begins with one of [`BEGUN`].
pub(crate) fn has_begun(message: &[u8]) -> bool {
    BEGUN.iter().any(|begun| message.starts_with(begun))
}

/// True if `message` is a request other than REGISTER outside every dialog, as far as that shows
/// without parsing it.
fn begins_something(message: &[u8]) -> bool {
    if has_begun(message) || message.starts_with(b"REGI") {
        return false;
    }
    let Some(value) = to_value(message) else { return false };
    let is_end = |end: &usize| !matches!(value.get(end + 1), Some(b' ' | b'\t'));
    let value = &value[..memchr_iter(b'\n', value).find(is_end).unwrap_or(value.len())];
    let is_tag = |equal| {
        let name = value[..equal].trim_ascii_end().last_chunk();
        name.is_some_and(|name: &[u8; 3]| name.eq_ignore_ascii_case(b"tag"))
    };
    !memchr_iter(b'=', value).any(is_tag)
}

/// The rest of the message after the name of To.
fn to_value(message: &[u8]) -> Option<&[u8]> {
    let mut rest = message;
    loop {
        rest = &rest[memchr(b'\n', rest)? + 1..];
        if !matches!(rest.first(), Some(b'T' | b't')) {
            continue;
        }
        // The search for the colon ends with the line. Otherwise a message of many such lines would
        // take quadratic time.
        let line = &rest[..memchr(b'\n', rest)?];
        if let Some(colon) = memchr(b':', line)
            && HeaderName::new(line[..colon].trim_ascii_end()) == HeaderName::To
        {
            return Some(&rest[colon + 1..]);
        }
    }
}

impl Default for Throttle {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;

    const LONGEST: Duration = Duration::from_millis(100);

    /// A server that takes `COST` for a call and a quarter for a rejection, with callers that
    /// retransmit after 0.5, 1, 2 s and so on.
    struct Simulation {
        now: u64,
        throttle: Throttle,
        queue: VecDeque<u64>,
        /// The time at which an unread call is retransmitted, with the interval to the next
        /// retransmission.
        again: alloc::collections::BTreeMap<(u64, u64), u64>,
        count: u64,
    }

    const COST: u64 = 800;

    /// The result of a simulated period.
    #[derive(Debug, Default)]
    struct Outcome {
        offered: u64,
        served: u64,
        refused: u64,
        longest_wait: u64,
    }

    impl Simulation {
        fn new() -> Self {
            Self {
                now: 0,
                throttle: Throttle::new(),
                queue: VecDeque::new(),
                again: Default::default(),
                count: 0,
            }
        }

        /// A pseudo-random number.
        fn draw(&mut self) -> u64 {
            self.count += 1;
            self.count.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
        }

        fn arrive(&mut self, at: u64, wait: u64) {
            let number = self.draw();
            if self.throttle.read().has(number) {
                self.queue.push_back(at);
            } else if wait < 32_000_000 {
                self.again.insert((at + wait, number), wait * 2);
            }
        }

        /// Simulates `rate` calls per second for `millis`.
        fn run(&mut self, rate: u64, millis: u64) -> Outcome {
            let mut outcome = Outcome::default();
            let end = self.now + millis * 1000;
            let mut next = self.now;
            while self.now < end {
                while next <= self.now {
                    outcome.offered += 1;
                    self.arrive(next, 500_000);
                    next += 1_000_000 / rate;
                }
                while let Some(entry) =
                    self.again.first_entry().filter(|entry| entry.key().0 <= self.now)
                {
                    let ((at, _), wait) = entry.remove_entry();
                    self.arrive(at, wait);
                }
                let Some(at) = self.queue.pop_front() else {
                    self.throttle.observe(Instant::from_micros(self.now), Duration::ZERO, LONGEST);
                    self.now = next.min(self.now + 10_000);
                    continue;
                };
                let waited = self.now - at;
                outcome.longest_wait = outcome.longest_wait.max(waited);
                let span = Duration::from_micros(waited);
                self.throttle.observe(Instant::from_micros(self.now), span, LONGEST);
                let number = self.draw();
                if waited > 500_000 {
                    // Dropped unparsed, because it has been retransmitted.
                    self.now += COST / 50;
                } else if !self.throttle.reads(b"INVITE", Instant::from_micros(at)) {
                    self.again.insert((at + 500_000, number), 1_000_000);
                    self.now += COST / 50;
                } else if span > LONGEST || !self.throttle.served().has(number) {
                    outcome.refused += 1;
                    self.now += COST / 4;
                } else {
                    outcome.served += 1;
                    self.now += COST;
                }
            }
            outcome
        }
    }

    #[test]
    fn a_server_that_keeps_up_serves_all() {
        let mut simulation = Simulation::new();
        let outcome = simulation.run(1_000_000 / COST * 95 / 100, 5000);
        assert!(outcome.served + 1 >= outcome.offered, "{outcome:?}");
        assert_eq!(simulation.throttle.share, Share::ALL);
    }

    #[test]
    fn beyond_its_limit_a_server_does_four_fifths_of_what_it_can_and_more() {
        let limit = 1_000_000 / COST;
        for times in [2, 5, 10, 50] {
            let mut simulation = Simulation::new();
            simulation.run(limit / 2, 1000);
            let first_second = simulation.run(limit * times, 1000);
            let enough = limit * 4 / 5;
            assert!(times > 10 || first_second.served >= enough, "{times} times: {first_second:?}");
            let outcome = simulation.run(limit * times, 10_000);
            assert!(outcome.served >= enough * 10, "{times} times: {outcome:?}");
            assert!(times > 10 || outcome.longest_wait < 200_000, "{times} times: {outcome:?}");
        }
    }

    #[test]
    fn all_are_read_soon_after_an_overload_whose_callers_have_gone() {
        let limit = 1_000_000 / COST;
        let mut simulation = Simulation::new();
        simulation.run(limit * 50, 5000);
        assert!(simulation.throttle.share < Share(Share::ALL.0 / 8));
        simulation.again.clear();
        simulation.run(limit / 2, 1000);
        assert_eq!(simulation.throttle.share, Share::ALL);
    }

    #[test]
    fn with_nothing_to_read_all_is_served_within_a_second() {
        let mut throttle = Throttle { share: Share::LEAST, ..Throttle::new() };
        for step in 0..100 {
            let now = Instant::from_micros(1_000_000) + STEP.times(step);
            throttle.observe(now, Duration::ZERO, LONGEST);
        }
        assert!(!throttle.is_throttling(), "{throttle:?}");
    }

    #[test]
    fn a_server_that_stood_still_and_catches_up_leaves_none_out() {
        let mut throttle = Throttle::new();
        // One message per millisecond. The server is interrupted for 90 ms, and reads the queue
        // four times as fast as the messages arrived.
        for step in 0..220 {
            let came = Instant::from_micros(1_000_000 + step * 1000);
            let stopped = Instant::from_micros(1_190_000 + step.saturating_sub(100) * 250);
            let now = if step < 100 { came } else { came.max(stopped) };
            assert!(!throttle.observe(now, now.since(came), LONGEST));
        }
        assert_eq!(throttle.share, Share::ALL);
    }

    #[test]
    fn a_stop_after_a_long_silence_is_no_overload() {
        let mut throttle = Throttle::new();
        for (came, waited) in [(1, 0), (3_600_000, 60), (3_600_001, 59), (3_600_002, 58)] {
            let waited = Duration::from_millis(waited);
            let now = Instant::from_micros(came * 1000) + waited;
            throttle.observe(now, waited, LONGEST);
        }
        assert_eq!(throttle.share, Share::ALL);
    }

    #[test]
    fn without_a_bound_on_waits_everything_is_let_in() {
        let mut simulation = Simulation::new();
        simulation.run(1_000_000 / COST * 10, 2000);
        assert!(simulation.throttle.share < Share::ALL);
        let now = Instant::from_micros(simulation.now);
        assert!(simulation.throttle.observe(now, LONGEST, Duration::ZERO));
        assert!(!simulation.throttle.observe(now, LONGEST, Duration::ZERO));
        assert_eq!(simulation.throttle.read(), Share::ALL);
    }

    #[test]
    fn the_fewer_are_served_the_fewer_are_refused_for_each() {
        let parts = |share: f64| Share((share * f64::from(Share::ALL.0)) as u32);
        for (share, refused) in
            [(1.0, 0.0), (0.75, 0.25), (0.5, 0.25), (0.25, 0.0625), (0.03, 0.0009)]
        {
            let throttle = Throttle { share: parts(share), ..Throttle::new() };
            for (got, expected) in [
                (throttle.read(), parts(share + refused)),
                (throttle.served(), parts(share / (share + refused))),
            ] {
                assert!(got.0.abs_diff(expected.0) < 80, "{share}: {got:?}, not {expected:?}");
            }
        }
        assert!(Share::ALL.has(u64::MAX) && Share(1).has(0) && !Share(1).has(1));
    }

    #[test]
    fn datagrams_that_came_before_a_decision_are_read_by_it() {
        let decided = Instant::from_micros(1_000_000);
        let read_before = Share(Share::ALL.0 / 2);
        // An eighth of the former share is read, including the rejected ones.
        let share = Share(3891);
        let mut throttle = Throttle { share, decided, read_before, ..Throttle::new() };
        let mut read = |method: &str, came| {
            let request = alloc::format!("{method} sip:bob@example.com SIP/2.0\r\n");
            (0..400).filter(|_| throttle.reads(request.as_bytes(), came)).count()
        };
        let before = Instant::from_micros(999_999);
        assert!((45..=55).contains(&read("INVITE", before)), "{}", read("INVITE", before));
        assert_eq!([read("INVITE", decided), read("BYE", before)], [400, 400]);
        throttle.read_before = Share::LEAST;
        assert!(throttle.reads(b"INVITE", before), "more is read than before");
    }

    #[test]
    fn of_what_comes_on_streams_a_share_of_the_calls_is_dropped_and_nothing_else() {
        let request = |method: &str, to: &str| {
            let head = "sip:bob@example.com SIP/2.0\r\nVia: SIP/2.0/TCP a;branch=tag=1\r\nFrom: <sip:a@b>;tag=1";
            alloc::format!("{method} {head}\r\n{to}\r\nCall-ID: tag=1\r\n\r\n").into_bytes()
        };
        // A quarter is read, including the rejected ones.
        let mut throttle = Throttle { share: Share(13_574), ..Throttle::new() };
        let long = Duration::from_millis(30);
        let mut let_in =
            |message: &[u8]| (0..400).filter(|_| throttle.lets_in(message, long, LONGEST)).count();
        for to in
            ["To: <sip:bob@example.com>", "t :bob <sip:tag@example.com>;x=1", "TO:\r\n sip:a@b"]
        {
            for method in ["INVITE", "MESSAGE", "SUBSCRIBE", "OPTIONS"] {
                assert_eq!(let_in(&request(method, to)), 100, "{method} {to}");
            }
            for method in ["REGISTER", "ACK", "BYE", "CANCEL", "SIP/2.0 200 OK"] {
                assert_eq!(let_in(&request(method, to)), 400, "{method} {to}");
            }
        }
        for to in [
            "To: <sip:a@b>;tag=2",
            "t:sip:a@b;Tag=2",
            "To: <sip:a@b>\r\n\t;tag=2",
            "To: <sip:a@b>;tag\r\n = 2",
            "X: y",
        ] {
            assert_eq!(let_in(&request("INVITE", to)), 400, "{to}");
        }
        let invite = request("INVITE", "To: sip:a@b");
        let short = Duration::from_millis(25);
        let is_in = |throttle: &mut Throttle, waited| throttle.lets_in(&invite, waited, LONGEST);
        assert!((0..400).all(|_| is_in(&mut throttle, short)), "others are to blame");
        assert_eq!(throttle.served_after(short, LONGEST), Share::ALL);
        assert_eq!(throttle.served_after(long, LONGEST), throttle.served());
        throttle.share = Share::ALL;
        assert!((0..400).all(|_| is_in(&mut throttle, long)));
    }
}
