//! What lies between the phone and a sound device: rings of memory that the device goes round, and
//! sound of the phone's rate on our side.
//!
//! The clock of the device is not ours. So a queue that grows or shrinks beyond a band loses or
//! gains a few frames of each block, until it is back within.

use crate::machine::memory::shared;
use alloc::vec::Vec;
use codec::Resampler;
use core::ptr;

/// Frames a second of the device, and samples a second of the phone.
pub(super) const DEVICE_RATE: u32 = 48_000;
const PHONE_RATE: u32 = 8000;
/// Frames of the device in the time of one sample of the phone.
const FACTOR: usize = (DEVICE_RATE / PHONE_RATE) as usize;
const MILLISECOND: u32 = DEVICE_RATE / 1000;

/// Frames of a ring. A power of two, so that positions may pass the end of their numbers.
pub(super) const FRAMES: u32 = 1 << 15;
/// Bytes of a frame: 16 bits to the left, 16 to the right.
pub(super) const FRAME: u32 = 4;

/// How much the loudspeaker has yet to play when 20 ms come, and how much of the microphone waits
/// when 20 ms are asked for.
const TARGET: u32 = 40 * MILLISECOND;
/// What the loudspeaker may have read already.
const PLAY_LEAST: i32 = 2 * MILLISECOND as i32;
/// How far a queue may be from its target.
const BAND: i32 = 8 * MILLISECOND as i32;
/// Frames of a block of 20 ms that are left out or repeated: 2 of 1000, which nobody hears.
const CHANGE: isize = 2;
/// What no queue is to hold.
const MOST: i32 = 80 * MILLISECOND as i32;
/// Blocks over which the length of a queue is averaged: devices take and give some at a time.
const WEIGHT: i32 = 32;

/// Memory that a device goes round.
#[derive(Debug)]
struct Ring(*mut u32);

impl Ring {
    fn new() -> Self {
        Self(shared((FRAMES * FRAME) as usize).cast())
    }

    fn read(&self, at: u32) -> u32 {
        // SAFETY: the memory has as many frames.
        unsafe { ptr::read_volatile(self.0.wrapping_add((at % FRAMES) as usize)) }
    }

    fn write(&mut self, at: u32, frame: u32) {
        // SAFETY: likewise.
        unsafe { ptr::write_volatile(self.0.wrapping_add((at % FRAMES) as usize), frame) }
    }
}

/// Frames from one place in a ring to another; backwards where that is nearer.
fn between(from: u32, to: u32) -> i32 {
    let ahead = (to.wrapping_sub(from) % FRAMES) as i32;
    if ahead < FRAMES as i32 / 2 { ahead } else { ahead - FRAMES as i32 }
}

/// What is to be done about a queue before the next block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It has run empty.
    Empty,
    /// It has run full.
    Full,
    /// The block is to gain so many frames, or to lose them.
    Gain(isize),
}

/// Keeps a queue about as long as it should be.
#[derive(Debug)]
struct Pace {
    /// The average of what it held before each block, [`WEIGHT`] times.
    sum: i32,
}

impl Pace {
    const NEW: Self = Self { sum: TARGET as i32 * WEIGHT };

    /// What is to be done about a queue that holds so much, and needs so much.
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

/// The way from the phone to the loudspeaker.
#[derive(Debug)]
pub(super) struct Speaker {
    ring: Ring,
    /// Where the next block begins, once something sounds.
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

    /// Queues `samples` for a device that is at frame `position`.
    pub(super) fn play(&mut self, position: u32, samples: &[i16]) {
        let start = position.wrapping_add(TARGET);
        let length = self.next.map_or(i32::MIN, |next| between(position, next));
        let (mut next, gain) = match self.pace.step(length, PLAY_LEAST) {
            Step::Gain(gain) => (self.next.unwrap_or(start), gain),
            // What is late is not heard in place of what is new.
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
        // If nothing comes in time, the device goes on into silence, for a third of a second.
        (0..FRAMES / 2).for_each(|at| self.ring.write(next.wrapping_add(at), 0));
    }

    /// Forgets what has not sounded yet.
    pub(super) fn rest(&mut self) {
        self.next = None;
        (0..FRAMES).for_each(|at| self.ring.write(at, 0));
    }
}

/// The way from the microphone to the phone.
#[derive(Debug)]
pub(super) struct Microphone {
    ring: Ring,
    /// The frame that is next, once somebody listens.
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

    /// Appends `count` samples of a device that is at frame `position`; none where it has not as
    /// many yet.
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
        // The left channel: where there is one microphone, it is there.
        let mut frames: Vec<i16> =
            (0..taken).map(|at| self.ring.read(next.wrapping_add(at)) as i16).collect();
        frames.resize(wanted, frames.last().copied().unwrap_or_default());
        self.resampler.resample(&frames, out);
        self.next = Some(next.wrapping_add(taken));
    }

    /// Nobody listens any more.
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

    /// The shares of the power of `samples` that the tone has, and of the samples that are silent.
    fn shares(rate: u32, samples: &[i16]) -> (f64, f64) {
        let (mut best, mut sum, mut silent) = ([0.0; 2], 0.0, 0.0);
        // Short pieces, for a tone of which samples are left out is not in one phase.
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

    /// A device whose clock differs from ours by so many parts of a million, and that says where it
    /// is only every 10 ms.
    struct Device {
        parts: i64,
        frame: u32,
    }

    impl Device {
        /// Goes on to a time of ours, in microseconds, and says what it has passed.
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

    /// When block `number` is due: 20 ms after the other, but up to 7 ms late.
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
    fn what_does_not_come_in_time_is_silence_and_what_comes_then_is_played() {
        let mut speaker = Speaker::new();
        let block = [9000; BLOCK];
        let mut position = 0;
        let mut next_20_ms = |speaker: &Speaker| {
            position += 960;
            let passed: Vec<_> =
                (position - 960..position).map(|at| speaker.ring.read(at) as i16).collect();
            (passed, position)
        };
        // Once round the ring and farther, so that there is something old in it.
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
    fn what_is_too_much_is_left_out() {
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
        // Half a second later what is old is not heard any more.
        let late = TARGET + DEVICE_RATE / 2;
        microphone.record(late, BLOCK, &mut out);
        assert_eq!(out.len(), 2 * BLOCK);
        assert_eq!(microphone.next, Some(late - TARGET + 960));
        // And what is not there yet is not given.
        microphone.record(late, BLOCK, &mut out);
        assert_eq!(out.len(), 2 * BLOCK);
        microphone.record(late, 0, &mut out);
        assert_eq!(out.len(), 2 * BLOCK);
    }
}
