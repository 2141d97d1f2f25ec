//! The marked signal: the audio of all calls, which is found again in what comes back.
//!
//! The signal is a sequence of frequency sweeps with pseudorandom ends. Every codec of telephony
//! carries it, and 160 ms of it occur once in a period. There are several variants,
//! and each call begins at a frame of its own, so that the audio of another call is detected.

use media::Codec;
use media::codec::Encoder;
use std::collections::HashMap;
use std::f64::consts::TAU;
use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;

/// The duration of a packet in milliseconds.
pub(crate) const FRAME_MILLIS: u64 = 20;
/// The frames of a period.
pub(crate) const PERIOD: u64 = 256;
/// The sample rate of the comparison in hertz.
pub(crate) const RATE: u32 = 8000;
/// The samples of a frame at [`RATE`].
pub(crate) const FRAME: usize = 160;
/// The number of variants.
pub(crate) const VARIANTS: u64 = 4;
/// The frames of a sweep.
const SWEEP: u64 = 2;
/// The band of the sweeps in hertz.
const BAND: Range<f64> = 300.0..2000.0;
/// The amplitude: 12 dB below full scale.
const LOUDNESS: f64 = 8000.0;
/// The mean square below which received audio is silence.
const SILENCE: f32 = 10_000.0;

/// A period of the signal at [`RATE`].
#[derive(Debug)]
pub(crate) struct Reference(Vec<f32>);

/// The signal of a variant, encoded by a codec.
#[derive(Debug)]
pub(crate) struct Sound {
    pub(crate) codec: Codec,
    pub(crate) reference: Reference,
    payloads: Vec<Vec<u8>>,
    /// The frame of each payload, by its hash; payloads that occur twice are absent.
    frames: HashMap<u64, Option<u64>>,
}

/// The place of received samples in the signal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Place {
    /// The first sample, at [`RATE`], from the beginning of a period.
    pub(crate) sample: usize,
    /// The correlation with the signal, from -1 to 1.
    pub(crate) likeness: f32,
}

/// Returns a period of the variant at `rate` hertz.
fn samples(variant: u64, rate: u32) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(0x6d65_6469_6100 + variant);
    let mut end = || BAND.start + (BAND.end - BAND.start) * random.f64();
    let length = u64::from(rate) * FRAME_MILLIS / 1000 * SWEEP;
    let seconds = length as f64 / f64::from(rate);
    let (mut cycles, mut from) = (0.0, end());
    let mut out = Vec::new();
    for _ in 0..PERIOD / SWEEP {
        let to = end();
        out.extend((0..length).map(|at| {
            let at = at as f64 / f64::from(rate);
            let phase: f64 = cycles + from * at + (to - from) * at * at / seconds / 2.0;
            LOUDNESS * (TAU * phase).sin()
        }));
        cycles += f64::midpoint(from, to) * seconds;
        from = to;
    }
    out
}

/// Returns the sum of the products of two sequences.
fn product(one: &[f32], other: &[f32]) -> f32 {
    const LANES: usize = 8;
    let mut sums = [0.0; LANES];
    let (ones, others) = (one.chunks_exact(LANES), other.chunks_exact(LANES));
    let rest: f32 = ones.remainder().iter().zip(others.remainder()).map(|(a, b)| a * b).sum();
    for (one, other) in ones.zip(others) {
        for lane in 0..LANES {
            sums[lane] += one[lane] * other[lane];
        }
    }
    sums.iter().sum::<f32>() + rest
}

impl Reference {
    fn new(variant: u64) -> Self {
        let mut period: Vec<f32> =
            samples(variant, RATE).into_iter().map(|sample| sample as f32).collect();
        // A window that begins near the end of the period continues at its start.
        period.extend_from_within(..RATE as usize);
        Self(period)
    }

    /// Returns the place of `heard` among the `count` places from the sample `first` on: the one
    /// with the highest correlation. `None` for silence. `heard` is at most a second.
    pub(crate) fn find(&self, heard: &[f32], first: usize, count: usize) -> Option<Place> {
        let period = PERIOD as usize * FRAME;
        let energy = product(heard, heard);
        if heard.is_empty() || energy < SILENCE * heard.len() as f32 {
            return None;
        }
        let expected = (LOUDNESS * LOUDNESS / 2.0) as f32 * heard.len() as f32;
        let scale = (energy * expected).sqrt();
        let places = (first..first + count.min(period)).map(|at| {
            let sample = at % period;
            let likeness = product(heard, &self.0[sample..sample + heard.len()]) / scale;
            Place { sample, likeness }
        });
        places.max_by(|one, other| one.likeness.total_cmp(&other.likeness))
    }
}

impl Sound {
    /// Returns the signal of `variant`, encoded by `codec`.
    pub(crate) fn new(codec: Codec, variant: u64) -> Self {
        let samples: Vec<i16> =
            samples(variant, codec.sample_rate()).into_iter().map(|sample| sample as i16).collect();
        let mut encoder = Encoder::new(codec);
        let mut encode = || {
            let frames = samples.chunks_exact(codec.frame_samples());
            let encoded = frames.map(|frame| {
                let mut payload = Vec::new();
                encoder.encode(frame, &mut payload);
                payload
            });
            encoded.collect::<Vec<_>>()
        };
        // The second period begins in the final state of the first one, as each later one.
        encode();
        let payloads = encode();
        let mut frames = HashMap::new();
        for (frame, payload) in (0..).zip(&payloads) {
            let place = frames.entry(hash(payload)).or_insert(Some(frame));
            *place = place.filter(|&place| place == frame);
        }
        Self { codec, reference: Reference::new(variant), payloads, frames }
    }

    /// Returns the payload of a frame; the period repeats.
    pub(crate) fn payload(&self, frame: u64) -> &[u8] {
        &self.payloads[(frame % PERIOD) as usize]
    }

    /// Returns the frame in the period that has this payload, if it is one.
    pub(crate) fn frame_of(&self, payload: &[u8]) -> Option<u64> {
        let frame = self.frames.get(&hash(payload)).copied().flatten()?;
        (self.payload(frame) == payload).then_some(frame)
    }
}

fn hash(payload: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(payload);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use media::codec::Decoder;

    /// Decodes `count` frames from `first` on, and returns the samples at [`RATE`].
    fn decoded(sound: &Sound, first: u64, count: u64) -> Vec<f32> {
        let mut decoder = Decoder::new(sound.codec);
        let mut out = Vec::new();
        (first..first + count).for_each(|frame| decoder.decode(sound.payload(frame), &mut out));
        let step = (sound.codec.sample_rate() / RATE) as usize;
        out.into_iter().step_by(step).map(f32::from).collect()
    }

    #[test]
    fn the_signal_of_each_codec_is_found_at_its_place() {
        for &codec in Codec::ALL {
            let sound = Sound::new(codec, 1);
            let heard = decoded(&sound, 30, 13);
            // The decoder starts up in the first frames.
            let window = &heard[5 * FRAME..];
            let place = sound.reference.find(window, 0, PERIOD as usize * FRAME).expect("a place");
            assert!(place.likeness > 0.6, "{codec:?}: {place:?}");
            // Codecs delay the audio by up to 10 ms.
            let delay = 35 * FRAME - place.sample;
            assert!(delay <= 10 * 8, "{codec:?}: {delay} samples");
        }
    }

    #[test]
    fn another_variant_is_not_taken_for_the_signal() {
        let reference = Reference::new(0);
        for variant in 1..VARIANTS {
            let heard: Vec<f32> =
                samples(variant, RATE)[4000..5280].iter().map(|&sample| sample as f32).collect();
            let place = reference.find(&heard, 0, PERIOD as usize * FRAME).expect("a place");
            assert!(place.likeness < 0.45, "variant {variant}: {place:?}");
        }
        assert_eq!(reference.find(&[3.0; 800], 0, 100), None, "silence");
    }

    #[test]
    fn a_payload_tells_its_frame() {
        let sound = Sound::new(Codec::Pcmu, 0);
        for frame in 0..PERIOD {
            assert_eq!(sound.frame_of(sound.payload(frame + PERIOD)), Some(frame));
        }
        assert_eq!(sound.frame_of(&[0xff; 160]), None);
    }
}
