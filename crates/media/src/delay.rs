//! The measurement of the round-trip time of audio through an end that sends it back: marks are
//! sent and detected in the received audio.

use alloc::vec::Vec;
use core::f64::consts::TAU;
use core::time::Duration;

/// The sample rate of the detection in hertz. Marks have no frequency above half of it.
const RATE: u32 = 8000;
/// The length of a mark in samples of [`RATE`]. A mark is a sweep from the lower to the higher
/// frequency: every codec of telephony carries it, and its autocorrelation has a single peak.
const LENGTH: usize = 800;
const LOW: f64 = 400.0;
const HIGH: f64 = 3000.0;
/// The amplitude of a mark: 6 dB below full scale.
const LOUDNESS: f64 = 16_000.0;
/// The interval of the marks in samples: two seconds. A longer round trip is not measured.
const PERIOD: usize = 2 * RATE as usize;
/// The correlation from which a window counts as a mark, 0 to 1. Noise is below 0.2, a mark after a
/// codec above 0.8.
const LIKE: f32 = 0.5;
/// The mean square below which a window is silence.
const SILENCE: f32 = 100.0;
/// The maximum number of stored times.
const MAX_TIMES: usize = 64;

/// Sends and detects marks. [`Marks::fill`] and [`Marks::hear`] are called alternately, each with
/// the same count of samples: samples sent and received in the same round have the same time.
#[derive(Clone, Debug)]
pub struct Marks {
    /// The sample rate of sent and received audio in hertz.
    rate: u32,
    /// The samples of a mark, and the sum of their squares.
    mark: Vec<f32>,
    energy: f32,
    /// Samples of [`RATE`] since the start of the last mark: sent, and received.
    sent: usize,
    heard: usize,
    /// The last [`LENGTH`] received samples.
    window: Vec<f32>,
    /// The highest correlation since the start of the last mark, and the start of that window.
    best: (f32, usize),
    /// The round-trip times of marks, in samples of [`RATE`].
    times: Vec<usize>,
}

impl Default for Marks {
    fn default() -> Self {
        let mark: Vec<f32> = (0..LENGTH).map(|at| sweep(at as f64) as f32).collect();
        let energy = mark.iter().map(|sample| sample * sample).sum();
        Self {
            rate: RATE,
            mark,
            energy,
            sent: 0,
            heard: 0,
            window: Vec::new(),
            best: (0.0, 0),
            times: Vec::new(),
        }
    }
}

/// Returns the sample of a mark at `at` samples of [`RATE`] after its start.
fn sweep(at: f64) -> f64 {
    let length = LENGTH as f64;
    let seconds = at / f64::from(RATE);
    let mean = LOW + (HIGH - LOW) * at / length / 2.0;
    // The edges fade in and out.
    let edge = (at.min(length - at) / (length / 10.0)).clamp(0.0, 1.0);
    LOUDNESS * edge * libm::sin(TAU * mean * seconds)
}

impl Marks {
    /// Appends the next `count` samples to `out`, with a sample rate of `rate` hertz, a multiple of
    /// 8000.
    pub fn fill(&mut self, rate: u32, count: usize, out: &mut Vec<i16>) {
        if rate != self.rate {
            self.rate = rate;
            self.begin();
        }
        if self.sent >= PERIOD {
            if self.best.0 >= LIKE {
                if self.times.len() == MAX_TIMES {
                    self.times.remove(0);
                }
                self.times.push(self.best.1);
            }
            self.begin();
        }
        let step = self.step();
        let samples = (0..count).map(|at| {
            let at = self.sent as f64 + at as f64 / step as f64;
            if at < LENGTH as f64 { sweep(at) as i16 } else { 0 }
        });
        out.extend(samples);
        self.sent += count / step;
    }

    fn begin(&mut self) {
        (self.sent, self.heard, self.best) = (0, 0, (0.0, 0));
        self.window.clear();
    }

    /// Returns the decimation factor from the sample rate to [`RATE`].
    const fn step(&self) -> usize {
        let step = self.rate / RATE;
        if step == 0 { 1 } else { step as usize }
    }

    /// Evaluates `samples`, as many as were sent.
    pub fn hear(&mut self, samples: &[i16]) {
        for &sample in samples.iter().step_by(self.step()) {
            self.window.push(f32::from(sample));
            self.heard += 1;
            if self.window.len() < LENGTH {
                continue;
            }
            let likeness = self.likeness();
            if likeness > self.best.0 {
                self.best = (likeness, self.heard - LENGTH);
            }
            self.window.remove(0);
        }
    }

    /// Returns the correlation of the window with a mark.
    fn likeness(&self) -> f32 {
        let energy: f32 = self.window.iter().map(|sample| sample * sample).sum();
        if energy < SILENCE * LENGTH as f32 {
            return 0.0;
        }
        let pairs = self.window.iter().zip(&self.mark);
        let sum: f32 = pairs.map(|(heard, sent)| heard * sent).sum();
        sum / libm::sqrtf(energy * self.energy)
    }

    /// Returns the round-trip time from a sent sample to the same sample received: the median of
    /// all detected marks. `None` until a mark was detected, which takes two seconds.
    #[must_use]
    pub fn round_trip(&self) -> Option<Duration> {
        let mut times = self.times.clone();
        times.sort_unstable();
        let time = times.get(times.len() / 2)?;
        Some(Duration::from_secs_f64(*time as f64 / f64::from(RATE)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tone::Tone;
    use codec::{Codec, Decoder, Encoder};

    /// Returns the result of `seconds` of measurement over a path that applies `way` to each 20 ms.
    fn measure(rate: u32, seconds: u32, mut way: impl FnMut(&[i16]) -> Vec<i16>) -> Option<f64> {
        let mut marks = Marks::default();
        for _ in 0..50 * seconds {
            let mut sent = Vec::new();
            marks.fill(rate, rate as usize / 50, &mut sent);
            marks.hear(&way(&sent));
        }
        Some(marks.round_trip()?.as_secs_f64() * 1e3)
    }

    /// Returns a path with a delay of `delay` samples.
    fn late(delay: usize) -> impl FnMut(&[i16]) -> Vec<i16> {
        let mut line = alloc::vec![0; delay];
        move |samples| {
            line.extend_from_slice(samples);
            line.drain(..samples.len()).collect()
        }
    }

    #[test]
    fn a_delay_is_found_to_the_sample_in_noise() {
        for rate in [8000, 16_000] {
            for millis in [0, 1, 63, 400, 1800] {
                let mut line = late((rate * millis / 1000) as usize);
                let mut state = 1_u32;
                let mut noise = || {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 22) as i16 - 512
                };
                let measured = measure(rate, 5, |samples| {
                    line(samples).iter().map(|sample| sample / 8 + noise()).collect()
                });
                let error = measured.unwrap() - f64::from(millis);
                assert!(error.abs() < 0.2, "{rate} {millis}: {error}");
            }
        }
    }

    #[test]
    fn nothing_is_measured_where_nothing_comes_back() {
        let mut tone = Tone::new(1000.0, 8000, 16_000);
        let tones = measure(8000, 7, |samples| {
            let mut out = Vec::new();
            tone.fill(samples.len(), &mut out);
            out
        });
        assert_eq!(tones, None);
        assert_eq!(measure(8000, 7, |samples| alloc::vec![0; samples.len()]), None);
        // A measurement takes two seconds.
        assert_eq!(measure(8000, 2, <[i16]>::to_vec), None);
    }

    #[test]
    fn every_codec_carries_marks() {
        for &codec in Codec::ALL {
            let (mut encoder, mut decoder) = (Encoder::new(codec), Decoder::new(codec));
            let rate = codec.sample_rate();
            let mut line = late(rate as usize / 10);
            let measured = measure(rate, 5, |samples| {
                let (mut payload, mut out) = (Vec::new(), Vec::new());
                encoder.encode(&line(samples), &mut payload);
                decoder.decode(&payload, &mut out);
                out
            });
            // The codec adds to the delay.
            let measured = measured.unwrap();
            assert!((100.0..120.0).contains(&measured), "{codec:?}: {measured}");
        }
    }
}
