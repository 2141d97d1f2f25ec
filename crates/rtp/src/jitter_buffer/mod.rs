//! A jitter buffer: puts packets in order and plays them at an even pace, with as little delay as
//! the network allows.
//!
//! The delay adapts to the network. For each packet the buffer measures how much later it arrived
//! than the fastest packets of the last seconds. The target delay is sufficient for all but 1 % of
//! the packets. To approach the target, the buffer inserts a frame or skips one, preferably a frame
//! that is missing anyway.
//!
//! Packets may differ in duration. Each is played whole, and the next one begins where it ends. A
//! packet arrives when its last sample is recorded, so that the delay is measured from the end of
//! packets, and covers the longest of them.

use alloc::collections::BTreeMap;
use core::time::Duration;

/// The configuration of a jitter buffer. Start with [`Config::new`] and change single fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Timestamp units per second.
    pub clock_rate: u32,
    /// The maximum duration of a concealed frame, and the duration of packets that are inserted
    /// without one: 20 ms for most audio.
    pub frame: Duration,
    /// The minimum delay.
    pub minimum: Duration,
    /// The maximum delay. Packets that arrive later are lost.
    pub maximum: Duration,
}

impl Config {
    /// Frames of 20 ms, and a delay from 10 to 500 ms.
    #[must_use]
    pub fn new(clock_rate: u32) -> Self {
        Self {
            clock_rate,
            frame: Duration::from_millis(20),
            minimum: Duration::from_millis(10),
            maximum: Duration::from_millis(500),
        }
    }
}

/// The result of inserting a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertResult {
    /// The packet waits to be played.
    Buffered,
    /// The playout time of the packet has passed.
    Late,
    /// A packet with the same timestamp is waiting already.
    Duplicate,
    /// The timestamp is far from the others. The packet is dropped, unless the next one is near it.
    Discontinuity,
}

/// The output of one call of [`JitterBuffer::play`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Playout<T> {
    /// A packet, to be played whole.
    Frame(T),
    /// Missing audio to be concealed: it was lost, is late, or was never sent.
    Missing {
        /// The duration to conceal, in timestamp units.
        units: u32,
    },
    /// A concealed frame without a loss: the delay grows by its duration.
    Held {
        /// The duration to conceal, in timestamp units.
        units: u32,
    },
    /// Silence: no packet has been received yet.
    Empty,
}

/// Packet and frame counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets played.
    pub played: u64,
    /// Packets that arrived too late to be played.
    pub late: u64,
    /// Packets received before.
    pub duplicate: u64,
    /// Packets skipped to reduce the delay.
    pub discarded: u64,
    /// Frames without a packet.
    pub missing: u64,
    /// Frames inserted to increase the delay.
    pub stretched: u64,
}

/// The packets that wait to be played. Times are durations since an epoch that the caller chooses
/// and keeps.
#[derive(Clone, Debug)]
pub struct JitterBuffer<T> {
    config: Config,
    /// Packets and their durations in units, by extended timestamp. The first packet has [`FIRST`].
    packets: BTreeMap<u64, (u64, T)>,
    /// The newest timestamp and its extended value.
    newest: Option<(u32, u64)>,
    /// The last timestamp that was far from the others.
    far: Option<u32>,
    /// The extended timestamp of the audio that is played next.
    next: u64,
    /// The duration of the last played packet in units.
    last: u64,
    is_playing: bool,
    delays: Delays,
    /// The number of frames since one was inserted or skipped.
    since_change: u32,
    counts: Counts,
}

/// The extended timestamp of the first packet, large enough for packets that it overtook.
const FIRST: u64 = 1 << 40;

/// A stream restarts if its timestamp jumps by more than this number of seconds.
const JUMP: i64 = 3;

/// The minimum number of frames between a change of the delay and a skipped frame.
const CHANGE_INTERVAL: u32 = 10;

/// The maximum number of waiting packets, whatever their duration: 640 ms in packets of 5 ms.
const MAX_PACKETS: usize = 128;

impl<T> JitterBuffer<T> {
    /// Creates an empty buffer.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            packets: BTreeMap::new(),
            newest: None,
            far: None,
            next: FIRST,
            last: 0,
            is_playing: false,
            delays: Delays::new(&config),
            since_change: 0,
            counts: Counts::default(),
        }
    }

    fn clock_rate(&self) -> u64 {
        u64::from(self.config.clock_rate.max(1))
    }

    /// Converts a duration to timestamp units.
    fn units(&self, span: Duration) -> u64 {
        micros(span).saturating_mul(self.clock_rate()) / 1_000_000
    }

    /// The maximum duration of a concealed frame in timestamp units.
    fn frame(&self) -> u64 {
        self.units(self.config.frame).clamp(1, u32::MAX.into())
    }

    /// The duration of a concealed frame in timestamp units: that of the last packet, within half a
    /// frame and a frame.
    fn step(&self) -> u64 {
        let frame = self.frame();
        self.last.clamp(frame.div_ceil(2), frame)
    }

    /// Converts an extended timestamp to microseconds.
    fn time(&self, sent: u64) -> u64 {
        (u128::from(sent) * 1_000_000 / u128::from(self.clock_rate())) as u64
    }

    fn is_near(&self, timestamp: u32, other: u32) -> bool {
        let ahead = i64::from(timestamp.wrapping_sub(other).cast_signed());
        ahead.abs() <= JUMP * i64::from(self.config.clock_rate.max(1))
    }

    /// Extends a timestamp. Returns `None` if it is far from the others.
    fn extend(&self, timestamp: u32) -> Option<u64> {
        let Some((newest, extended)) = self.newest else { return Some(FIRST) };
        let ahead = i64::from(timestamp.wrapping_sub(newest).cast_signed());
        self.is_near(timestamp, newest).then(|| extended.checked_add_signed(ahead))?
    }

    /// Inserts a packet of the usual duration, [`Config::frame`], received at `now`.
    pub fn insert(&mut self, timestamp: u32, now: Duration, packet: T) -> InsertResult {
        self.insert_lasting(self.frame() as u32, timestamp, now, packet)
    }

    /// Inserts a packet that lasts `units` timestamp units, received at `now`.
    pub fn insert_lasting(
        &mut self,
        units: u32,
        timestamp: u32,
        now: Duration,
        packet: T,
    ) -> InsertResult {
        let most = self.units(self.config.maximum).max(self.frame());
        let units = u64::from(units).clamp(1, most);
        let sent = match self.extend(timestamp) {
            Some(sent) => sent,
            None if self.far.is_some_and(|far| self.is_near(timestamp, far)) => {
                self.restart();
                FIRST
            }
            None => {
                self.far = Some(timestamp);
                return InsertResult::Discontinuity;
            }
        };
        self.far = None;
        if self.newest.is_none_or(|(_, newest)| sent > newest) {
            self.newest = Some((timestamp, sent));
        }
        self.delays.add(micros(now), self.time(sent + units), self.time(units));
        // A packet that began within concealed audio is still played, and whole.
        if self.is_playing && sent + units <= self.next {
            self.counts.late += 1;
            return InsertResult::Late;
        }
        if self.packets.contains_key(&sent) {
            self.counts.duplicate += 1;
            return InsertResult::Duplicate;
        }
        self.packets.insert(sent, (units, packet));
        // Packets beyond the maximum delay are of no use: the oldest ones are too late.
        let most = self.units(self.config.maximum).saturating_add(2 * self.frame());
        let mut waiting: u64 = self.packets.values().map(|(units, _)| units).sum();
        while self.packets.len() > 1 && (waiting > most || self.packets.len() > MAX_PACKETS) {
            if let Some((oldest, (units, _))) = self.packets.pop_first() {
                waiting -= units;
                self.next = self.next.max(oldest + units);
                self.counts.discarded += 1;
            }
        }
        InsertResult::Buffered
    }

    fn restart(&mut self) {
        self.counts.discarded += self.packets.len() as u64;
        self.packets.clear();
        self.newest = None;
        self.next = FIRST;
        self.last = 0;
        self.is_playing = false;
        self.delays = Delays::new(&self.config);
    }

    /// Returns the next output. Called at `now`, at most a frame before the previous output ends.
    pub fn play(&mut self, now: Duration) -> Playout<T> {
        let Some(fastest) = self.delays.fastest() else { return Playout::Empty };
        let now = micros(now);
        if !self.is_playing {
            let Some((&oldest, _)) = self.packets.first_key_value() else { return Playout::Empty };
            if self.delay(now, fastest, oldest) < self.target_micros().cast_signed() {
                return Playout::Empty;
            }
            self.next = oldest;
            self.is_playing = true;
        }
        let early = self.target_micros().cast_signed() - self.delay(now, fastest, self.next);
        let step = self.step();
        let frame = micros(self.config.frame).max(1).cast_signed();
        self.since_change = self.since_change.saturating_add(1);
        let may_hold = if self.packets.is_empty() { early > 0 } else { early > frame / 2 };
        if may_hold && !self.has_next() {
            self.counts.stretched += 1;
            self.since_change = 0;
            return Playout::Held { units: step as u32 };
        }
        if early < -frame {
            let may_discard = self.since_change >= CHANGE_INTERVAL || early < -8 * frame;
            while !self.has_next() && self.gap().is_some() && self.is_late(now, fastest, 0) {
                self.next += self.gap().map_or(step, |gap| gap.min(step));
            }
            let first = self.packets.first_key_value().map_or(0, |(_, &(units, _))| units);
            if may_discard
                && self.packets.len() > 1
                && self.has_next()
                && self.is_late(now, fastest, first)
            {
                self.take_next();
                self.counts.discarded += 1;
                self.since_change = 0;
            }
        }
        let packet = self.take_next();
        match packet {
            Some(packet) => {
                self.counts.played += 1;
                Playout::Frame(packet)
            }
            None => {
                self.counts.missing += 1;
                let units = self.gap().map_or(step, |gap| gap.min(step));
                self.next += units;
                Playout::Missing { units: units as u32 }
            }
        }
    }

    /// Returns the packet that is played next, if it has arrived. After [`Playout::Missing`] it may
    /// hold a redundant copy of the missing one.
    #[must_use]
    pub fn upcoming(&self) -> Option<&T> {
        let first = self.packets.first_key_value().filter(|_| self.has_next());
        first.map(|(_, (_, packet))| packet)
    }

    /// The target delay from the recording of audio to its playout, less the transit time of the
    /// fastest packets.
    fn target_micros(&self) -> u64 {
        self.delays.target + self.delays.longest()
    }

    /// The time between the recording of the audio at `sent` and its playout at `now`, less the
    /// transit time of the fastest packets.
    fn delay(&self, now: u64, fastest: u64, sent: u64) -> i64 {
        now.wrapping_sub(fastest.wrapping_add(self.time(sent))).cast_signed()
    }

    /// Returns true if the next audio is played later than the target delay, by more than a frame
    /// and more than `units`.
    fn is_late(&self, now: u64, fastest: u64, units: u64) -> bool {
        let most = self.target_micros() + self.time(units).max(micros(self.config.frame));
        self.delay(now, fastest, self.next) > most.cast_signed()
    }

    /// The units between the next audio and the first waiting packet, if there is one.
    fn gap(&self) -> Option<u64> {
        let (&first, _) = self.packets.first_key_value()?;
        Some(first.saturating_sub(self.next))
    }

    /// Returns true if the next audio has arrived. A gap of less than half a frame is skipped.
    fn has_next(&self) -> bool {
        self.gap().is_some_and(|gap| gap < self.frame().div_ceil(2))
    }

    fn take_next(&mut self) -> Option<T> {
        if !self.has_next() {
            return None;
        }
        let (sent, (units, packet)) = self.packets.pop_first()?;
        self.next = self.next.max(sent + units);
        self.last = units;
        // Packets that lie wholly within this one.
        while self.packets.first_entry().is_some_and(|next| next.key() + next.get().0 <= self.next)
        {
            self.packets.pop_first();
            self.counts.discarded += 1;
        }
        Some(packet)
    }

    /// The target delay: from the arrival of the fastest packets to their playout.
    #[must_use]
    pub fn target(&self) -> Duration {
        Duration::from_micros(self.delays.target)
    }

    /// The number of waiting packets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Returns true if no packet is waiting.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// The packet and frame counters.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// The distribution of packet delays relative to the fastest packets.
#[derive(Clone, Debug)]
struct Delays {
    /// The least difference of arrival and sending time, in this time window and in the previous
    /// one. A difference may be negative, and wraps.
    least: [Option<u64>; 2],
    /// The longest packets of the same windows.
    longest: [u64; 2],
    /// The start of the current time window.
    began: u64,
    /// The share of packets in each step of delay.
    shares: [f32; Self::STEPS],
    step: u64,
    minimum: u64,
    target: u64,
}

impl Delays {
    const STEPS: usize = 100;

    /// The length of a time window in microseconds. A fastest packet is remembered for one or two.
    const SPAN: u64 = 5_000_000;

    /// The share of the history that is forgotten with each packet.
    const FORGET: f32 = 0.004;

    /// The share of packets that may arrive too late.
    const TOO_LATE: f32 = 0.01;

    fn new(config: &Config) -> Self {
        let minimum = micros(config.minimum);
        let step = (micros(config.maximum) / Self::STEPS as u64).max(1);
        let shares = [0.0; Self::STEPS];
        let maximum = step * Self::STEPS as u64;
        let minimum = minimum.min(maximum);
        // The initial target: two frames.
        let target = minimum.max(2 * micros(config.frame)).min(maximum);
        Self { least: [None; 2], longest: [0; 2], began: 0, shares, step, minimum, target }
    }

    fn fastest(&self) -> Option<u64> {
        let [this, last] = self.least;
        match (this, last) {
            (Some(this), Some(last)) if last.wrapping_sub(this).cast_signed() < 0 => Some(last),
            _ => this.or(last),
        }
    }

    fn longest(&self) -> u64 {
        self.longest[0].max(self.longest[1])
    }

    /// Adds a packet of this duration which ended at `end`.
    fn add(&mut self, arrival: u64, end: u64, duration: u64) {
        let transit = arrival.wrapping_sub(end);
        if arrival.saturating_sub(self.began) > Self::SPAN {
            self.least = [None, self.least[0]];
            self.longest = [0, self.longest[0]];
            self.began = arrival;
        }
        self.longest[0] = self.longest[0].max(duration);
        let is_less = |than: u64| transit.wrapping_sub(than).cast_signed() < 0;
        if self.least[0].is_none_or(is_less) {
            self.least[0] = Some(transit);
        }
        let fastest = self.fastest().unwrap_or(transit);
        let delay = transit.wrapping_sub(fastest);
        let place = usize::try_from(delay / self.step).unwrap_or(usize::MAX).min(Self::STEPS - 1);
        let total: f32 = self.shares.iter().sum();
        // The first packets weigh as much as all packets before them, for a quick start.
        let forget = if total < 1.0 { 0.0 } else { Self::FORGET };
        let weight = if total < 1.0 { 0.02 } else { Self::FORGET };
        for share in &mut self.shares {
            *share *= 1.0 - forget;
        }
        self.shares[place] += weight;
        self.aim(total + weight);
    }

    fn aim(&mut self, total: f32) {
        let mut rest = total * Self::TOO_LATE;
        let mut place = Self::STEPS;
        while place > 0 {
            rest -= self.shares[place - 1];
            if rest < 0.0 {
                break;
            }
            place -= 1;
        }
        // The upper end of the step that holds the last packet to be played in time.
        let wanted = place as u64 * self.step;
        self.target = wanted.clamp(self.minimum, self.step * Self::STEPS as u64);
    }
}

#[cfg(test)]
mod tests;
