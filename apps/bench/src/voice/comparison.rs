//! The comparison of received audio with what was sent.
//!
//! If no element on the path has changed the payloads, each one is compared byte for byte, and
//! tells its frame. Otherwise windows of 160 ms are decoded and found in the signal by
//! correlation. Both give the delay by the content, whatever the path has done to the sequence
//! numbers.

use super::signal::{FRAME, FRAME_MILLIS, PERIOD, RATE, Sound};
use media::Codec;
use media::codec::Decoder;
use sip::{Duration, Instant};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// The number of unknown payloads at the beginning after which payloads are decoded.
const UNKNOWN: u32 = 10;
/// The number of wrong payloads in a row after which the frame is looked up again.
const WRONG: u32 = 3;
/// The frames that a decoder needs to start up, and those of a window.
const START_UP: u32 = 5;
const WINDOW: u32 = 8;
/// The pause between windows in frames: after a found one, and after a failed one.
const PAUSE: i64 = 250;
const SHORT_PAUSE: i64 = 25;
/// The correlation from which a window counts as found.
const LIKE: f32 = 0.5;
/// The longest delay of a window that is found without an expectation.
const LONGEST: Duration = Duration::from_secs(1);
/// The samples before and after the expected place of a window.
const NEAR: i64 = 200;
/// The delay of decoders with concealment (ITU-T G.711 appendix I), in samples.
const CONCEALMENT: i64 = 30;

/// The sent signal of a call.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    /// The signal in the codec of the receiving end.
    pub(crate) sound: Arc<Sound>,
    /// The frame of the period at which the call began.
    pub(crate) phase: u64,
    /// The due time of the first frame.
    pub(crate) start: Instant,
    /// The time that recent frames spent in the callee, if that is in this program.
    pub(crate) turnaround: Turnaround,
}

/// The time that recent frames spent in the callee, in microseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turnaround(Rc<[Cell<u64>; 32]>);

impl Turnaround {
    /// Records the time of a frame.
    pub(crate) fn set(&self, frame: u64, time: Duration) {
        self.0[(frame % 32) as usize].set(time.as_micros());
    }

    /// Returns the time of a recent frame; zero if it is not known.
    pub(crate) fn get(&self, frame: u64) -> Duration {
        Duration::from_micros(self.0[(frame % 32) as usize].get())
    }
}

/// A packet with a known frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    /// The number of the frame in the call.
    pub(crate) frame: u64,
    /// The time since the due time of its frame.
    pub(crate) delay: Duration,
}

/// The results of the comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verified {
    /// Payloads that are those of the frame that was sent.
    pub(crate) exact: u64,
    /// Payloads that are not.
    pub(crate) wrong: u64,
    /// Decoded windows that were found in the signal.
    pub(crate) windows: u64,
    /// Decoded windows that were not.
    pub(crate) failed: u64,
}

#[cfg(test)]
impl Verified {
    /// Returns true if the signal was found.
    pub(crate) const fn is_heard(&self) -> bool {
        self.exact > 0 || self.windows > 0
    }
}

/// The comparison of the audio of one call.
#[derive(Debug)]
pub(crate) struct AudioComparison {
    sent: Sent,
    /// A sequence number, and the time in microseconds since the start at which its first sample
    /// was sent.
    origin: Option<(i64, i64)>,
    unknown: u32,
    wrong: u32,
    decoding: Option<Decoding>,
    pub(crate) verified: Verified,
}

#[derive(Debug)]
struct Decoding {
    decoder: Decoder,
    /// The next sequence number; packets before it are not decoded.
    next: i64,
    frames: u32,
    /// The first packet of the window.
    first: (i64, Instant),
    samples: Vec<i16>,
}

impl AudioComparison {
    pub(crate) fn new(sent: Sent) -> Self {
        let verified = Verified::default();
        Self { sent, origin: None, unknown: 0, wrong: 0, decoding: None, verified }
    }

    /// Returns the signal of the comparison.
    pub(crate) const fn sent(&self) -> &Sent {
        &self.sent
    }

    /// Compares the payload of a packet. Returns its place, once its frame is known. `number` is
    /// the extended sequence number.
    pub(crate) fn hear(&mut self, number: i64, payload: &[u8], at: Instant) -> Option<Placed> {
        if self.decoding.is_some() {
            self.decode(number, payload, at);
            return self.place(number, at);
        }
        if let Some(place) = self.place(number, at)
            && self.sent.sound.payload(place.frame + self.sent.phase) == payload
        {
            self.verified.exact += 1;
            self.wrong = 0;
            return Some(place);
        }
        self.wrong += 1;
        if self.origin.is_some() && self.wrong < WRONG {
            self.verified.wrong += 1;
            return None;
        }
        match self.locate(payload, at) {
            Some(frame) => {
                self.origin = Some((number, (frame * FRAME_MILLIS * 1000).cast_signed()));
                self.verified.exact += 1;
                (self.wrong, self.unknown) = (0, 0);
                self.place(number, at)
            }
            None => {
                self.unknown += 1;
                if self.verified.exact > 0 {
                    self.verified.wrong += 1;
                } else if self.unknown >= UNKNOWN {
                    self.decoding = Some(Decoding::new(self.sent.sound.codec, number + 1, at));
                }
                None
            }
        }
    }

    /// Returns the place of the packet with this number that arrived at `at`.
    fn place(&self, number: i64, at: Instant) -> Option<Placed> {
        let (known, micros) = self.origin?;
        let sent = micros + (number - known) * FRAME_MILLIS as i64 * 1000;
        let arrived = at.since(self.sent.start).as_micros().cast_signed();
        let delay = Duration::from_micros(u64::try_from(arrived - sent).unwrap_or(0));
        let frame = u64::try_from(sent).ok()? / (FRAME_MILLIS * 1000);
        Some(Placed { frame, delay })
    }

    /// Returns the number, from the start of the call, of the last frame with this payload that was
    /// due at `at`.
    fn locate(&self, payload: &[u8], at: Instant) -> Option<u64> {
        let in_period = self.sent.sound.frame_of(payload)?;
        let last = at.since(self.sent.start).as_millis() / FRAME_MILLIS;
        let ahead = (last + self.sent.phase + PERIOD - in_period) % PERIOD;
        last.checked_sub(ahead)
    }

    fn decode(&mut self, number: i64, payload: &[u8], at: Instant) {
        let Some(decoding) = &mut self.decoding else { return };
        if number < decoding.next {
            return;
        }
        if number > decoding.next {
            *decoding = Decoding::new(self.sent.sound.codec, number, at);
        }
        decoding.next = number + 1;
        if decoding.frames == START_UP {
            decoding.samples.clear();
            decoding.first = (number, at);
        }
        decoding.decoder.decode(payload, &mut decoding.samples);
        decoding.frames += 1;
        if decoding.frames < START_UP + WINDOW {
            return;
        }
        let step = (self.sent.sound.codec.sample_rate() / RATE) as usize;
        let heard: Vec<f32> =
            decoding.samples.iter().step_by(step).map(|&sample| f32::from(sample)).collect();
        let first = decoding.first;
        let found = self.find(&heard, first);
        let pause = match found {
            Some(sample) => {
                self.verified.windows += 1;
                let sample = sample + concealment(self.sent.sound.codec);
                self.origin = Some((first.0, sample * 1_000_000 / i64::from(RATE)));
                PAUSE
            }
            None => {
                self.verified.failed += 1;
                self.origin = None;
                SHORT_PAUSE
            }
        };
        self.decoding = Some(Decoding::new(self.sent.sound.codec, number + pause, at));
    }

    /// Returns the position of the window that begins with the packet `first`, in samples since the
    /// start of the call.
    fn find(&self, heard: &[f32], first: (i64, Instant)) -> Option<i64> {
        let (number, at) = first;
        let per_second = i64::from(RATE);
        let samples = |micros: i64| micros * per_second / 1_000_000;
        let arrived = samples(at.since(self.sent.start).as_micros().cast_signed());
        let longest = samples(LONGEST.as_micros().cast_signed());
        let expected = self.origin.map(|(known, micros)| {
            samples(micros + (number - known) * FRAME_MILLIS as i64 * 1000) - NEAR
        });
        let near = expected.map(|from| (from, 2 * NEAR));
        let anywhere = (arrived - longest, longest + 1);
        near.into_iter()
            .chain([anywhere])
            .find_map(|(from, count)| self.find_from(heard, from, count))
    }

    fn find_from(&self, heard: &[f32], from: i64, count: i64) -> Option<i64> {
        let period = (PERIOD as usize * FRAME) as i64;
        let phase = self.sent.phase as i64 * FRAME as i64;
        let first = (from + phase).rem_euclid(period);
        let reference = &self.sent.sound.reference;
        let place = reference.find(heard, first as usize, count as usize)?;
        let ahead = (place.sample as i64 - first).rem_euclid(period);
        (place.likeness >= LIKE).then_some(from + ahead)
    }
}

/// Returns the delay of the decoder in samples.
const fn concealment(codec: Codec) -> i64 {
    match codec {
        Codec::Opus => 0,
        _ => CONCEALMENT,
    }
}

impl Decoding {
    fn new(codec: Codec, next: i64, at: Instant) -> Self {
        let (decoder, samples) = (Decoder::new(codec), Vec::new());
        Self { decoder, next, frames: 0, first: (next, at), samples }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Instant {
        Instant::from_micros(1_000_000)
    }

    fn sent(codec: Codec, phase: u64) -> Sent {
        let sound = Arc::new(Sound::new(codec, 2));
        Sent { sound, phase, start: start(), turnaround: Turnaround::default() }
    }

    /// Sends `count` frames that arrive after `delay`, with the payloads of `encoded`, and returns
    /// the last delay and the results.
    fn heard(
        ear: &mut AudioComparison,
        encoded: &Sound,
        phase: u64,
        count: u64,
        delay: u64,
    ) -> Option<Duration> {
        let mut last = None;
        for frame in 0..count {
            let at = start() + Duration::from_millis(frame * FRAME_MILLIS + delay);
            last = ear.hear(5000 + frame as i64, encoded.payload(frame + phase), at);
        }
        last.map(|placed| placed.delay)
    }

    #[test]
    fn unchanged_payloads_tell_the_delay_whatever_their_numbers() {
        let sent = sent(Codec::Pcmu, 77);
        let sound = Arc::clone(&sent.sound);
        let mut ear = AudioComparison::new(sent);
        let delay = heard(&mut ear, &sound, 77, 600, 123);
        assert_eq!(delay, Some(Duration::from_millis(123)));
        assert_eq!(ear.verified, Verified { exact: 600, ..Verified::default() });
    }

    #[test]
    fn transcoded_audio_tells_the_delay_by_correlation() {
        for (from, to) in [(Codec::Pcma, Codec::Pcmu), (Codec::Pcmu, Codec::Gsm)] {
            // The payloads of `to` come from samples that `from` has coded before.
            let (source, target) = (Sound::new(from, 2), sent(to, 11));
            let mut decoder = Decoder::new(from);
            let mut encoder = media::codec::Encoder::new(to);
            let mut ear = AudioComparison::new(target);
            let mut last = None;
            for frame in 0..400 {
                let (mut samples, mut payload) = (Vec::new(), Vec::new());
                decoder.decode(source.payload(frame + 11), &mut samples);
                encoder.encode(&samples, &mut payload);
                let at = start() + Duration::from_millis(frame * FRAME_MILLIS + 50);
                last = ear.hear(frame as i64, &payload, at);
            }
            let verified = ear.verified;
            assert!(verified.windows >= 2 && verified.failed == 0, "{to:?} {verified:?}");
            // The decoder of the transcoder delays the audio by 3.75 ms.
            let millis = last.expect("a delay").delay.as_micros() as f64 / 1000.0;
            assert!((millis - 53.75).abs() <= 1.0, "{to:?}: {millis} ms");
        }
    }

    #[test]
    fn the_audio_of_another_call_is_not_heard() {
        let mut ear = AudioComparison::new(sent(Codec::Pcmu, 0));
        heard(&mut ear, &Sound::new(Codec::Pcmu, 1), 0, 400, 20);
        assert!(!ear.verified.is_heard() && ear.verified.failed > 0, "{:?}", ear.verified);
        // Audio that is replaced during the call is wrong.
        let sent = sent(Codec::Pcmu, 0);
        let sound = Arc::clone(&sent.sound);
        let mut ear = AudioComparison::new(sent);
        heard(&mut ear, &sound, 0, 100, 20);
        let at = start() + Duration::from_millis(2020);
        (0..10).for_each(|number| assert_eq!(ear.hear(5100 + number, &[0x55; 160], at), None));
        assert_eq!(ear.verified, Verified { exact: 100, wrong: 10, ..Verified::default() });
    }
}
