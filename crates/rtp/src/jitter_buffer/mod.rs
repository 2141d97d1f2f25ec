//! A jitter buffer: puts packets in order and plays them at an even pace, with as little delay as
//! the network allows.
//!
//! The delay adapts to the network. For each packet the buffer measures how much later it arrived
//! than the fastest packets of the last seconds. The target delay is sufficient for all but 1 % of
//! the packets. To approach the target, the buffer inserts a frame or skips one, preferably a frame
//! that is missing anyway.

use alloc::collections::BTreeMap;
use core::time::Duration;

/// The configuration of a jitter buffer. Start with [`Config::new`] and change single fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Timestamp units per second.
    pub clock_rate: u32,
    /// The duration that each call of [`JitterBuffer::play`] plays, 20 ms for most audio.
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

/// The output for one frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Playout<T> {
    /// A packet.
    Frame(T),
    /// A missing packet to be concealed: it was lost, is late, or was never sent.
    Missing,
    /// A concealed frame without a loss: the delay grows by a frame.
    Stretched,
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
    /// Packets by extended timestamp. The first packet has [`FIRST`].
    packets: BTreeMap<u64, T>,
    /// The newest timestamp and its extended value.
    newest: Option<(u32, u64)>,
    /// The last timestamp that was far from the others.
    far: Option<u32>,
    /// The extended timestamp of the frame that is played next.
    next: u64,
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
            is_playing: false,
            delays: Delays::new(&config),
            since_change: 0,
            counts: Counts::default(),
        }
    }

    /// Sets the duration of a frame. The packet length may become known, or change, during
    /// reception.
    pub fn set_frame(&mut self, frame: Duration) {
        self.config.frame = frame;
    }

    fn clock_rate(&self) -> u64 {
        u64::from(self.config.clock_rate.max(1))
    }

    /// The length of a frame in timestamp units.
    fn frame(&self) -> u64 {
        (micros(self.config.frame).saturating_mul(self.clock_rate()) / 1_000_000).max(1)
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

    /// Inserts a packet received at `now`.
    pub fn insert(&mut self, timestamp: u32, now: Duration, packet: T) -> InsertResult {
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
        self.delays.add(micros(now), self.time(sent));
        // A packet that begins within a frame already played is played with the next frame.
        if self.is_playing && sent + self.frame() <= self.next {
            self.counts.late += 1;
            return InsertResult::Late;
        }
        if self.packets.contains_key(&sent) {
            self.counts.duplicate += 1;
            return InsertResult::Duplicate;
        }
        self.packets.insert(sent, packet);
        // Packets beyond the maximum delay are of no use: the oldest ones are too late.
        let most = micros(self.config.maximum) / micros(self.config.frame).max(1) + 2;
        while self.packets.len() as u64 > most {
            if let Some((oldest, _)) = self.packets.pop_first() {
                self.next = self.next.max(oldest + self.frame());
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
        self.is_playing = false;
        self.delays = Delays::new(&self.config);
    }

    /// Returns the output of the next frame, which starts at `now`. Called once per frame.
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
        let frame = micros(self.config.frame).max(1).cast_signed();
        self.since_change = self.since_change.saturating_add(1);
        let may_hold = if self.packets.is_empty() { early > 0 } else { early > frame / 2 };
        if may_hold && !self.has_next() {
            self.counts.stretched += 1;
            self.since_change = 0;
            return Playout::Stretched;
        }
        if early < -frame {
            let may_discard = self.since_change >= CHANGE_INTERVAL || early < -8 * frame;
            while !self.has_next() && self.packets_end() > self.next && self.is_late(now, fastest) {
                self.next += self.frame();
            }
            if may_discard
                && self.packets.len() > 1
                && self.has_next()
                && self.is_late(now, fastest)
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
                Playout::Missing
            }
        }
    }

    /// Returns the packet of the next frame, if it has arrived. After [`Playout::Missing`] it may
    /// hold a redundant copy of the missing one.
    #[must_use]
    pub fn upcoming(&self) -> Option<&T> {
        let first = self.packets.first_key_value().filter(|_| self.has_next());
        first.map(|(_, packet)| packet)
    }

    fn target_micros(&self) -> u64 {
        self.delays.target
    }

    /// The time between the arrival of a packet sent at `sent` by the fastest path and its playout
    /// at `now`.
    fn delay(&self, now: u64, fastest: u64, sent: u64) -> i64 {
        now.wrapping_sub(fastest.wrapping_add(self.time(sent))).cast_signed()
    }

    fn is_late(&self, now: u64, fastest: u64) -> bool {
        self.delay(now, fastest, self.next)
            > self.target_micros().cast_signed() + micros(self.config.frame).cast_signed()
    }

    fn packets_end(&self) -> u64 {
        self.packets.last_key_value().map_or(0, |(&sent, _)| sent)
    }

    fn has_next(&self) -> bool {
        self.packets.first_key_value().is_some_and(|(&sent, _)| sent < self.next + self.frame())
    }

    fn take_next(&mut self) -> Option<T> {
        let packet = if self.has_next() { self.packets.pop_first() } else { None };
        // Packets longer or shorter than a frame set the pace by their timestamps.
        let at = packet.as_ref().map_or(self.next, |(sent, _)| (*sent).max(self.next));
        self.next = at + self.frame();
        packet.map(|(_, packet)| packet)
    }

    /// The target delay: from the arrival of the fastest packets to their playout.
    #[must_use]
    pub fn target(&self) -> Duration {
        Duration::from_micros(self.target_micros())
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
        Self { least: [None; 2], began: 0, shares, step, minimum, target }
    }

    fn fastest(&self) -> Option<u64> {
        let [this, last] = self.least;
        match (this, last) {
            (Some(this), Some(last)) if last.wrapping_sub(this).cast_signed() < 0 => Some(last),
            _ => this.or(last),
        }
    }

    fn add(&mut self, arrival: u64, sent: u64) {
        let transit = arrival.wrapping_sub(sent);
        if arrival.saturating_sub(self.began) > Self::SPAN {
            self.least = [None, self.least[0]];
            self.began = arrival;
        }
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
