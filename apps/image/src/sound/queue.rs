//! The queues between the phone and a sound device: ring buffers on the device's side, and samples
//! of the phone's rate on our side.
//!
//! The device has its own clock. A queue that leaves its band loses or gains a few frames of each
//! block until it is back in it.

use crate::machine::memory::shared;
use alloc::vec::Vec;
use codec::Resampler;
use core::ptr;

/// The device's rate in frames per second, and the phone's in samples per second.
pub(super) const DEVICE_RATE: u32 = 48_000;
const PHONE_RATE: u32 = 8000;
/// Device frames per sample of the phone.
const FACTOR: usize = (DEVICE_RATE / PHONE_RATE) as usize;
const MILLISECOND: u32 = DEVICE_RATE / 1000;

/// Frames of a ring. A power of two, so that positions may wrap around.
pub(super) const FRAMES: u32 = 1 << 15;
/// Bytes of a frame: 16 bits left, 16 bits right.
pub(super) const FRAME: u32 = 4;

/// Target level: frames not yet played when the next 20 ms are queued, and frames recorded when 20
/// ms are read.
const TARGET: u32 = 40 * MILLISECOND;
/// Minimum level of the playback queue, since the device reads ahead.
const PLAY_LEAST: i32 = 2 * MILLISECOND as i32;
/// Tolerated deviation from the target.
const BAND: i32 = 8 * MILLISECOND as i32;
/// Frames dropped or repeated in a block of 20 ms: 2 of 1000 are inaudible.
const CHANGE: isize = 2;
/// Maximum level of a queue.
const MOST: i32 = 80 * MILLISECOND as i32;
/// Number of blocks in the mean level: devices transfer several frames at a time.
const WEIGHT: i32 = 32;

/// A ring buffer shared with the device.
#[derive(Debug)]
struct Ring(*mut u32);

impl Ring {
    fn new() -> Self {
        Self(shared((FRAMES * FRAME) as usize).cast())
    }

    fn read(&self, at: u32) -> u32 {
        // SAFETY: the index is within the ring.
        unsafe { ptr::read_volatile(self.0.wrapping_add((at % FRAMES) as usize)) }
    }

    fn write(&mut self, at: u32, frame: u32) {
        // SAFETY: as above.
        unsafe { ptr::write_volatile(self.0.wrapping_add((at % FRAMES) as usize), frame) }
    }
}

/// Signed distance in frames between two positions of a ring, in the shorter direction.
fn between(from: u32, to: u32) -> i32 {
    let ahead = (to.wrapping_sub(from) % FRAMES) as i32;
    if ahead < FRAMES as i32 / 2 { ahead } else { ahead - FRAMES as i32 }
}

/// The correction of a queue before the next block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It has run empty.
    Empty,
    /// It has run full.
    Full,
    /// The number of frames that the block gains, or loses if below 0.
    Gain(isize),
}

/// Keeps the level of a queue near the target.
#[derive(Debug)]
struct Pace {
    /// The mean level before each block, times [`WEIGHT`].
    sum: i32,
}

impl Pace {
    const NEW: Self = Self { sum: TARGET as i32 * WEIGHT };

    /// The correction of a queue of `length` frames that needs at least `least`.
    fn step(&mut self, length: i32, least: i32) -> Step {
        if length < least || length > MOST {
            *self = Self::NEW;
            return if length < least { Step::Empty } else { Step::Full };
        }
        self.sum += length - self.sum / WEIGHT;
        match self.sum / WEIGHT - TARGET as i32 {
            off if off > BAND => Step::Gain(-CHANGE),
            off if off < -BAND => Step::Gain(CHANGE),
            _ => Step::Gain(0),
        }
    }
}

/// The playback queue.
#[derive(Debug)]
pub(super) struct Speaker {
    ring: Ring,
    /// The position of the next block, once sound is played.
    next: Option<u32>,
    pace: Pace,
    resampler: Resampler,
}

impl Speaker {
    pub(super) fn new() -> Self {
        Self {
            ring: Ring::new(),
            next: None,
            pace: Pace::NEW,
            resampler: Resampler::new(PHONE_RATE, DEVICE_RATE),
        }
    }

    /// The physical address of the ring.
    pub(super) fn address(&self) -> u64 {
        self.ring.0.addr() as u64
    }

    /// Queues `samples` for a device at the position `position`.
    pub(super) fn play(&mut self, position: u32, samples: &[i16]) {
        let start = position.wrapping_add(TARGET);
        let length = self.next.map_or(i32::MIN, |next| between(position, next));
        let (mut next, gain) = match self.pace.step(length, PLAY_LEAST) {
            Step::Gain(gain) => (self.next.unwrap_or(start), gain),
            // Late sound is dropped in favour of new sound.
            Step::Empty | Step::Full => (start, 0),
        };
        let mut frames = Vec::with_capacity(samples.len() * FACTOR);
        self.resampler.resample(samples, &mut frames);
        let last = frames.last().copied().unwrap_or_default();
        frames.resize(frames.len().saturating_add_signed(gain), last);
        for frame in frames {
            self.ring.write(next, u32::from(frame as u16) * 0x0001_0001);
            next = next.wrapping_add(1);
        }
        self.next = Some(next);
        // If no block follows in time, the device plays silence for a third of a second.
        (0..FRAMES / 2).for_each(|at| self.ring.write(next.wrapping_add(at), 0));
    }

    /// Drops queued sound.
    pub(super) fn rest(&mut self) {
        self.next = None;
        (0..FRAMES).for_each(|at| self.ring.write(at, 0));
    }
}

/// The recording queue.
#[derive(Debug)]
pub(super) struct Microphone {
    ring: Ring,
    /// The position of the next frame, once recording has started.
    next: Option<u32>,
    pace: Pace,
    resampler: Resampler,
}

impl Microphone {
    pub(super) fn new() -> Self {
        Self {
            ring: Ring::new(),
            next: None,
            pace: Pace::NEW,
            resampler: Resampler::new(DEVICE_RATE, PHONE_RATE),
        }
    }

    /// The physical address of the ring.
    pub(super) fn address(&self) -> u64 {
        self.ring.0.addr() as u64
    }

    /// Appends `count` samples from a device at the position `position`; nothing if it has not
    /// recorded as many yet.
    pub(super) fn record(&mut self, position: u32, count: usize, out: &mut Vec<i16>) {
        let start = position.wrapping_sub(TARGET);
        let next = *self.next.get_or_insert(start);
        let length = position.wrapping_sub(next) % FRAMES;
        let wanted = count * FACTOR;
        let (next, gain) = match self.pace.step(length as i32, wanted as i32 + CHANGE as i32) {
            Step::Empty => return,
            Step::Full => (start, 0),
            Step::Gain(gain) => (next, gain),
        };
        let taken = wanted.saturating_add_signed(-gain) as u32;
        // The left channel: a single microphone is there.
        let mut frames: Vec<i16> =
            (0..taken).map(|at| self.ring.read(next.wrapping_add(at)) as i16).collect();
        frames.resize(wanted, frames.last().copied().unwrap_or_default());
        self.resampler.resample(&frames, out);
        self.next = Some(next.wrapping_add(taken));
    }

    /// Stops recording.
    pub(super) fn rest(&mut self) {
        self.next = None;
        self.pace = Pace::NEW;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::f64::consts::TAU;

    const BLOCK: usize = 160;

    fn tone(rate: u32, at: u32) -> i16 {
        (8000.0 * (TAU * 1000.0 * f64::from(at) / f64::from(rate)).sin()) as i16
    }

    /// The share of the tone in the power of `samples`, and the share of silent samples.
    fn shares(rate: u32, samples: &[i16]) -> (f64, f64) {
        let (mut best, mut sum, mut silent) = ([0.0; 2], 0.0, 0.0);
        // Short pieces, since a tone with dropped samples is not coherent.
        for piece in samples.chunks(rate as usize / 50) {
            let mut parts = [0.0; 2];
            for (at, &sample) in piece.iter().enumerate() {
                let angle = TAU * 1000.0 * at as f64 / f64::from(rate);
                parts[0] += f64::from(sample) * angle.cos();
                parts[1] += f64::from(sample) * angle.sin();
                sum += f64::from(sample).powi(2);
            }
            let scale = 2.0 / piece.len() as f64;
            best[0] += parts.iter().map(|part| part * part).sum::<f64>() * scale;
            silent += f64::from(u8::from(piece.iter().all(|&sample| sample == 0)));
        }
        (best[0] / sum, silent * f64::from(rate / 50) / samples.len() as f64)
    }

    /// A device with a clock that deviates by `parts` per million, and that updates its position
    /// every 10 ms.
    struct Device {
        parts: i64,
        frame: u32,
    }

    impl Device {
        /// Advances to `time` in microseconds, and returns the frames passed.
        fn go_on(&mut self, time: u64) -> core::ops::Range<u32> {
            let time = time / 10_000 * 10_000;
            let parts = (1_000_000 + self.parts) as u128;
            let there = (u128::from(time) * 48 * parts / 1_000_000_000) as u32;
            let from = core::mem::replace(&mut self.frame, there);
            from..there
        }

        fn position(&self) -> u32 {
            self.frame % FRAMES
        }
    }

    /// The time of block `number`: every 20 ms, but up to 7 ms late.
    fn due(number: u64) -> u64 {
        number * 20_000 + number * 7919 % 7000
    }

    #[test]
    fn a_loudspeaker_whose_clock_is_another_plays_all_without_a_gap_or_a_delay_that_grows() {
        for parts in [-1000, -100, 0, 100, 1000] {
            let (mut speaker, mut device) = (Speaker::new(), Device { parts, frame: 0 });
            let (mut heard, mut longest) = (Vec::new(), 0);
            for number in 0..3000_u64 {
                for at in device.go_on(due(number)) {
                    heard.push(speaker.ring.read(at) as i16);
                }
                let first = number as u32 * BLOCK as u32;
                let block: Vec<_> = (first..).map(|at| tone(8000, at)).take(BLOCK).collect();
                speaker.play(device.position(), &block);
                longest = longest.max(between(device.position(), speaker.next.unwrap()));
            }
            let (tone, silence) = shares(DEVICE_RATE, &heard[9600..]);
            assert!(tone > 0.99 && silence == 0.0, "{parts}: {tone}, {silence}");
            assert!(longest < 80 * MILLISECOND as i32, "{parts}: {longest}");
        }
    }

    #[test]
    fn a_microphone_whose_clock_is_another_is_heard_without_a_gap_or_a_delay_that_grows() {
        for parts in [-1000, -100, 0, 100, 1000] {
            let (mut microphone, mut device) = (Microphone::new(), Device { parts, frame: 0 });
            let (mut heard, mut longest) = (Vec::new(), 0);
            for number in 0..3000_u64 {
                for at in device.go_on(due(number)) {
                    let both = u32::from(tone(DEVICE_RATE, at) as u16) | 0x5555_0000;
                    microphone.ring.write(at, both);
                }
                let before = heard.len();
                microphone.record(device.position(), BLOCK, &mut heard);
                heard.resize(before + BLOCK, 0);
                longest = longest.max(between(microphone.next.unwrap(), device.position()));
            }
            let (tone, silence) = shares(PHONE_RATE, &heard[1600..]);
            assert!(tone > 0.99 && silence == 0.0, "{parts}: {tone}, {silence}");
            assert!(longest < 60 * MILLISECOND as i32, "{parts}: {longest}");
        }
    }

    #[test]
    fn late_samples_are_replaced_by_silence_and_then_played() {
        let mut speaker = Speaker::new();
        let block = [9000; BLOCK];
        let mut position = 0;
        let mut next_20_ms = |speaker: &Speaker| {
            position += 960;
            let passed: Vec<_> =
                (position - 960..position).map(|at| speaker.ring.read(at) as i16).collect();
            (passed, position)
        };
        // More than once around the ring, so that it contains old sound.
        speaker.play(0, &block);
        for _ in 0..50 {
            let (_, position) = next_20_ms(&speaker);
            speaker.play(position, &block);
        }
        let missed: Vec<_> = (0..15).map(|_| next_20_ms(&speaker).0).collect();
        assert!(missed[0].iter().all(|&sample| sample > 8000));
        assert!(missed[3..].iter().flatten().all(|&sample| sample == 0));
        let (_, position) = next_20_ms(&speaker);
        speaker.play(position, &block);
        assert_eq!(speaker.next, Some(position + TARGET + 960));
        let heard: Vec<_> = (0..3).flat_map(|_| next_20_ms(&speaker).0).collect();
        assert!(heard[TARGET as usize + 480..][..400].iter().all(|&sample| sample > 8000));

        speaker.play(position, &block);
        speaker.rest();
        assert!((0..FRAMES).all(|at| speaker.ring.read(at) == 0) && speaker.next.is_none());
    }

    #[test]
    fn excess_samples_are_dropped() {
        let mut speaker = Speaker::new();
        for number in 0..30 {
            speaker.play(0, &[1000 + number; BLOCK]);
            let length = between(0, speaker.next.unwrap());
            assert!(length <= MOST + 960, "{length}");
            let last = speaker.ring.read(length as u32 - 100) as i16;
            assert!((990 + number..1010 + number).contains(&last), "what is new is kept: {last}");
            assert_eq!(speaker.ring.read(length as u32), 0);
        }

        let mut microphone = Microphone::new();
        let mut out = Vec::new();
        microphone.record(TARGET, BLOCK, &mut out);
        // Half a second later old sound is skipped.
        let late = TARGET + DEVICE_RATE / 2;
        microphone.record(late, BLOCK, &mut out);
        assert_eq!(out.len(), 2 * BLOCK);
        assert_eq!(microphone.next, Some(late - TARGET + 960));
        // Frames that are not recorded yet are not returned.
        microphone.record(late, BLOCK, &mut out);
        assert_eq!(out.len(), 2 * BLOCK);
        microphone.record(late, 0, &mut out);
        assert_eq!(out.len(), 2 * BLOCK);
    }
}
