//! Whether a stream goes on with a packet: loss and late packets told from a source that begins
//! anew.
//!
//! A sequence number alone does not tell. A gap of a minute is loss if the time stamps have gone on
//! for a minute too; numbers that came before are copies if the stream goes on where it was, and a
//! new beginning if it goes on from them. So a packet that is in doubt is held until those after it
//! decide.

use super::sequence::{Sequence, WINDOW};

/// A packet of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    /// Nanoseconds since the Unix epoch.
    pub(super) time: u64,
    /// The bytes of the IP packet.
    pub(super) ip_length: u64,
    pub(super) number: u16,
    pub(super) timestamp: u32,
    pub(super) payload_type: u8,
    pub(super) marker: bool,
    /// The clock rate in Hz, where it is known.
    pub(super) clock: Option<u32>,
    /// Whether it is of a telephone event: then its time stamp stands still (RFC 4733 section
    /// 2.2.1).
    pub(super) is_event: bool,
}

/// What comes of a packet and of those that were held before it.
#[derive(Debug)]
pub(super) enum Verdict {
    /// These are late, copies or strays; then the stream goes on with the packet, where one is
    /// given.
    GoesOn(Vec<Arrived>, Option<Arrived>),
    /// The stream has begun anew with the first of these.
    Restart(Vec<Arrived>),
    /// It is held.
    Held,
}

/// A number at most so far ahead is always what the stream goes on with; one at most so far behind
/// has to prove more to be a new beginning (RFC 3550 appendix A.1, `MAX_MISORDER`).
const NEAR: u16 = 100;
/// Where no time tells: a jump forwards of less than this is loss (RFC 3550 appendix A.1,
/// `MAX_DROPOUT`).
const MAX_DROPOUT: u16 = 3000;
/// The most packets that may be lost between two that are held.
const HELD_STEP: u16 = 16;
/// The most units of the time stamp between them: a minute of speech, five seconds of pictures.
const HELD_UNITS: u32 = 1 << 19;
/// So many packets in sequence make a new beginning far away (`MIN_SEQUENTIAL`), and so many a near
/// one.
const FAR_RUN: usize = 2;
const NEAR_RUN: usize = 4;
/// Packets of a path come at most so far from one another, in nanoseconds.
const ON_A_PATH: u64 = 1_000_000_000;
/// The most that are held.
const HELD: usize = 64;

/// How a stream has gone on since it began, and what is in doubt.
#[derive(Default)]
pub(super) struct Continuity {
    /// Time, time stamp and clock rate of the last packet that is no event.
    last: Option<(u64, u32, Option<u32>)>,
    /// How many units of the time stamp went by, in how many nanoseconds and packets.
    units: i64,
    nanos: u64,
    packets: u64,
    held: Vec<Arrived>,
    /// The last packet with which the stream did not go on: on its path, those after it may come
    /// late too.
    behind: Option<Arrived>,
}

impl Continuity {
    /// Judges the packet after the first.
    pub(super) fn judge(&mut self, sequence: &Sequence, packet: Arrived) -> Verdict {
        if self.goes_on(&packet, sequence.ahead(packet.number)) && !self.is_nearer_to_held(&packet)
        {
            self.note(&packet);
            return Verdict::GoesOn(self.finish(), Some(packet));
        }
        let follows = self.held.last().is_none_or(|last| last.is_before(&packet));
        let mut given_up = if follows { Vec::new() } else { self.finish() };
        self.held.push(packet);
        if self.is_restart(sequence) {
            let held = std::mem::take(&mut self.held);
            *self = Self::default();
            held.iter().for_each(|packet| self.note(packet));
            return Verdict::Restart(held);
        }
        if self.held.len() >= HELD {
            given_up = self.finish();
        }
        if given_up.is_empty() { Verdict::Held } else { Verdict::GoesOn(given_up, None) }
    }

    /// Gives up what is held: the stream does not go on with it.
    pub(super) fn finish(&mut self) -> Vec<Arrived> {
        let held = std::mem::take(&mut self.held);
        self.behind = held.last().copied().or(self.behind);
        held
    }

    /// Takes note of a packet with which the stream begins or goes on.
    pub(super) fn note(&mut self, packet: &Arrived) {
        if packet.is_event {
            return;
        }
        let new = (packet.time, packet.timestamp, packet.clock);
        match self.last.replace(new) {
            Some((time, timestamp, clock)) if clock == packet.clock => {
                self.units += i64::from(packet.timestamp.wrapping_sub(timestamp).cast_signed());
                self.nanos += packet.time.saturating_sub(time);
                self.packets += 1;
            }
            _ => (self.units, self.nanos, self.packets) = (0, 0, 0),
        }
    }

    fn goes_on(&self, packet: &Arrived, ahead: u16) -> bool {
        match ahead {
            0 => false,
            1..=NEAR => true,
            _ => self.clock_goes_on(packet, ahead).unwrap_or(ahead < MAX_DROPOUT),
        }
    }

    /// Whether a packet is the next one in what is held, and by its time stamp rather there than in
    /// the stream: a new beginning may come to the numbers where the stream was.
    fn is_nearer_to_held(&self, packet: &Arrived) -> bool {
        let (Some(held), Some((_, timestamp, _))) = (self.held.last(), self.last) else {
            return false;
        };
        let distance =
            |other: u32| packet.timestamp.wrapping_sub(other).cast_signed().unsigned_abs();
        held.is_before(packet) && distance(held.timestamp) < distance(timestamp)
    }

    /// Whether as much time has gone by as the time stamps say, and enough for so many packets.
    /// `None` where the time stamps tell nothing.
    fn clock_goes_on(&self, packet: &Arrived, ahead: u16) -> Option<bool> {
        let (time, timestamp, clock) = self.last?;
        let stands_still = self.packets >= 2 && self.units <= 0;
        if packet.is_event || clock != packet.clock || stands_still {
            return None;
        }
        let rates = [self.rate(), clock.map(|clock| f64::from(clock) / 1e9)];
        if rates == [None; 2] {
            return None;
        }
        let units = f64::from(packet.timestamp.wrapping_sub(timestamp).cast_signed());
        let elapsed = packet.time.saturating_sub(time) as f64;
        let is_steady =
            |rate: f64| (units - elapsed * rate).abs() <= rate * (0.5e9 + elapsed / 4.0);
        let is_steady = units > 0.0 && rates.into_iter().flatten().any(is_steady);
        let a_packet = self.nanos as f64 / self.packets.max(1) as f64;
        Some(is_steady && elapsed * 4.0 >= f64::from(ahead) * a_packet)
    }

    /// Units of the time stamp in a nanosecond, by what has come.
    fn rate(&self) -> Option<f64> {
        (self.units > 0 && self.nanos > 0).then(|| self.units as f64 / self.nanos as f64)
    }

    /// Whether what is held is a new beginning: enough packets in sequence, at the pace of their
    /// time stamps. What was only late comes faster.
    fn is_restart(&self, sequence: &Sequence) -> bool {
        let (Some(first), Some(last)) = (self.held.first(), self.held.last()) else { return false };
        let ahead = sequence.ahead(first.number);
        let behind = ahead.wrapping_neg();
        let is_far = ahead.min(behind) > NEAR;
        // Some may go another way, and the last of them come when all others have come.
        let is_late = self.behind.is_some_and(|behind| {
            behind.is_before(first) && first.time.saturating_sub(behind.time) < ON_A_PATH
        });
        let run = match is_far {
            _ if is_late => HELD,
            true => FAR_RUN,
            false => NEAR_RUN,
        };
        if self.held.len() < run {
            return false;
        }
        if behind >= WINDOW && self.held.len() >= HELD {
            return true;
        }
        let rate = self.rate().or_else(|| first.clock.map(|clock| f64::from(clock) / 1e9));
        let Some(rate) = rate else { return is_far };
        if self.packets > 0 && self.nanos == 0 {
            // All packets have one time.
            return is_far;
        }
        let units = f64::from(last.timestamp.wrapping_sub(first.timestamp).cast_signed());
        let elapsed = last.time.saturating_sub(first.time) as f64;
        let has_clock = !first.is_event && !last.is_event && first.clock == last.clock;
        has_clock && units > 0.0 && elapsed * rate >= units / 2.0
    }
}

impl Arrived {
    /// Whether a packet is the next of those that are held, or follows soon.
    fn is_before(&self, next: &Self) -> bool {
        let units = next.timestamp.wrapping_sub(self.timestamp).cast_signed().unsigned_abs();
        (1..=HELD_STEP).contains(&next.number.wrapping_sub(self.number)) && units < HELD_UNITS
    }
}
