//! The continuity of a stream: distinguishes loss and late packets from a restart of the source.
//!
//! A sequence number alone is not sufficient. A gap of a minute is loss if the timestamps have
//! advanced by a minute too. Earlier numbers are duplicates if the stream continues at its old
//! position, and a restart if it continues after them. So a packet in doubt is held until later
//! packets decide.

use super::sequence::{Sequence, WINDOW};

/// A packet of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    /// The time of arrival in nanoseconds since the Unix epoch.
    pub(super) time: u64,
    /// The length of the IP packet in bytes.
    pub(super) ip_length: u64,
    pub(super) number: u16,
    pub(super) timestamp: u32,
    pub(super) payload_type: u8,
    pub(super) marker: bool,
    /// The clock rate in Hz, if known.
    pub(super) clock: Option<u32>,
    /// True for a telephone event: its timestamp does not advance (RFC 4733 section 2.2.1).
    pub(super) is_event: bool,
}

/// The result for a packet and those that were held before it.
#[derive(Debug)]
pub(super) enum Verdict {
    /// These are late, duplicates or strays; then the stream continues with the packet, if there is
    /// one.
    GoesOn(Vec<Arrived>, Option<Arrived>),
    /// The stream has restarted with the first of these.
    Restart(Vec<Arrived>),
    /// The packet is held.
    Held,
}

/// A number at most this far ahead always continues the stream. A number at most this far behind
/// needs a longer run for a restart (RFC 3550 appendix A.1, `MAX_MISORDER`).
const NEAR: u16 = 100;
/// A forward jump below this is loss if timestamps give no information (RFC 3550 appendix A.1,
/// `MAX_DROPOUT`).
const MAX_DROPOUT: u16 = 3000;
/// The largest step between the sequence numbers of two held packets.
const HELD_STEP: u16 = 16;
/// The largest step between their timestamps: a minute of speech, five seconds of video.
const HELD_UNITS: u32 = 1 << 19;
/// The number of packets in sequence that make a restart far away (`MIN_SEQUENTIAL`), and a near
/// one.
const FAR_RUN: usize = 2;
const NEAR_RUN: usize = 4;
/// The longest time between consecutive packets of a path, in nanoseconds.
const ON_A_PATH: u64 = 1_000_000_000;
/// The most packets that are held.
const HELD: usize = 64;

/// The state of a stream since its start, with the packets in doubt.
#[derive(Default)]
pub(super) struct Continuity {
    /// Time, timestamp and clock rate of the last packet that is not an event.
    last: Option<(u64, u32, Option<u32>)>,
    /// The advance of the timestamp, with its time in nanoseconds and its packets.
    units: i64,
    nanos: u64,
    packets: u64,
    held: Vec<Arrived>,
    /// The last packet that did not continue the stream: later packets of its path may be late too.
    behind: Option<Arrived>,
}

impl Continuity {
    /// Judges a packet after the first.
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

    /// Releases the held packets: they do not continue the stream.
    pub(super) fn finish(&mut self) -> Vec<Arrived> {
        let held = std::mem::take(&mut self.held);
        self.behind = held.last().copied().or(self.behind);
        held
    }

    /// Records a packet that starts or continues the stream.
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

    /// Returns true if a packet is the next of the held packets and its timestamp is nearer to them
    /// than to the stream: a restart may reach the numbers at which the stream was.
    fn is_nearer_to_held(&self, packet: &Arrived) -> bool {
        let (Some(held), Some((_, timestamp, _))) = (self.held.last(), self.last) else {
            return false;
        };
        let distance =
            |other: u32| packet.timestamp.wrapping_sub(other).cast_signed().unsigned_abs();
        held.is_before(packet) && distance(held.timestamp) < distance(timestamp)
    }

    /// Returns true if the elapsed time agrees with the timestamps and suffices for so many
    /// packets. `None` if the timestamps give no information.
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

    /// Returns the rate of the timestamp in units per nanosecond, as observed.
    fn rate(&self) -> Option<f64> {
        (self.units > 0 && self.nanos > 0).then(|| self.units as f64 / self.nanos as f64)
    }

    /// Returns true if the held packets are a restart: enough packets in sequence, at the pace of
    /// their timestamps. Late packets come faster.
    fn is_restart(&self, sequence: &Sequence) -> bool {
        let (Some(first), Some(last)) = (self.held.first(), self.held.last()) else { return false };
        let ahead = sequence.ahead(first.number);
        let behind = ahead.wrapping_neg();
        let is_far = ahead.min(behind) > NEAR;
        // Some may take another path, and the last of them arrive after all others.
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
            // All packets have the same time.
            return is_far;
        }
        let units = f64::from(last.timestamp.wrapping_sub(first.timestamp).cast_signed());
        let elapsed = last.time.saturating_sub(first.time) as f64;
        let has_clock = !first.is_event && !last.is_event && first.clock == last.clock;
        has_clock && units > 0.0 && elapsed * rate >= units / 2.0
    }
}

impl Arrived {
    /// Returns true if `next` is the next of the held packets, or follows soon.
    fn is_before(&self, next: &Self) -> bool {
        let units = next.timestamp.wrapping_sub(self.timestamp).cast_signed().unsigned_abs();
        (1..=HELD_STEP).contains(&next.number.wrapping_sub(self.number)) && units < HELD_UNITS
    }
}
