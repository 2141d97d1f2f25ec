//! Sample rate conversion.

use alloc::vec::Vec;
use core::f64::consts::PI;

/// The length of the filter on each side in samples of the lower rate, which is its delay.
const REACH: usize = 16;
/// The parameter of the Kaiser window: 60 dB of attenuation from 1.15 times the Nyquist frequency
/// of the lower rate.
const BETA: f64 = 5.65;

/// A sample rate converter: a polyphase sinc filter with a Kaiser window. The passband reaches 0.85
/// of half the lower rate. The delay is 16 samples of the lower rate.
#[derive(Clone, Debug)]
pub struct Resampler {
    up: usize,
    down: usize,
    /// The coefficients of each phase, that of the newest sample first. Empty if the rates are
    /// equal.
    phases: Vec<Vec<f32>>,
    /// The last samples, the newest last.
    history: Vec<f32>,
    /// The position of the next output sample after the newest input sample, in units of 1/`up`.
    at: usize,
}

impl Resampler {
    /// Creates a converter from `from` to `to` samples per second.
    #[must_use]
    pub fn new(from: u32, to: u32) -> Self {
        let (from, to) = (from.max(1), to.max(1));
        let (mut divisor, mut rest) = (from, to);
        while rest != 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        let (up, down) = ((to / divisor) as usize, (from / divisor) as usize);
        if up == down {
            return Self { up, down, phases: Vec::new(), history: Vec::new(), at: 0 };
        }
        // At `up` times the input rate.
        let reach = REACH * up.max(down);
        let taps = (2 * reach + 1).div_ceil(up);
        let coefficient = |place: usize| {
            let x = (place as f64 - reach as f64) / reach as f64;
            if x.abs() > 1.0 {
                return 0.0;
            }
            let angle = PI * x * REACH as f64;
            let sinc = if angle == 0.0 { 1.0 } else { libm::sin(angle) / angle };
            let window = bessel(BETA * libm::sqrt(1.0 - x * x)) / bessel(BETA);
            (sinc * window * up as f64 / up.max(down) as f64) as f32
        };
        let row = |phase| (0..taps).map(|tap| coefficient(phase + tap * up)).collect();
        let phases = (0..up).map(row).collect();
        Self { up, down, phases, history: alloc::vec![0.0; taps - 1], at: 0 }
    }

    /// Appends the converted `samples` to `out`. The result does not depend on how the input is
    /// split.
    pub fn resample(&mut self, samples: &[i16], out: &mut Vec<i16>) {
        let Some(first) = self.phases.first() else { return out.extend_from_slice(samples) };
        let taps = first.len();
        self.history.extend(samples.iter().map(|&sample| f32::from(sample)));
        for window in self.history.windows(taps) {
            while self.at < self.up {
                let pairs = self.phases[self.at].iter().zip(window.iter().rev());
                let sum: f32 = pairs.map(|(coefficient, sample)| coefficient * sample).sum();
                out.push(libm::roundf(sum) as i16);
                self.at += self.down;
            }
            self.at -= self.up;
        }
        self.history.drain(..samples.len());
    }
}

/// The modified Bessel function of the first kind, order 0.
fn bessel(x: f64) -> f64 {
    let (mut sum, mut term) = (1.0, 1.0);
    for order in 1..=25 {
        let factor = x / (2.0 * f64::from(order));
        term *= factor * factor;
        sum += term;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{amplitude_of, decibels, tone};

    #[test]
    fn a_tone_keeps_its_level_without_aliases() {
        for from in [8000, 16_000, 48_000] {
            for to in [8000, 16_000, 48_000] {
                let nyquist = f64::from(u32::min(from, to)) / 2.0;
                for share in [0.02, 0.1, 0.4, 0.6, 0.85] {
                    let frequency = nyquist * share;
                    let mut out = Vec::new();
                    Resampler::new(from, to).resample(&tone(frequency, from, 2.0), &mut out);
                    assert_eq!(out.len(), 2 * to as usize);
                    let steady = &out[to as usize / 2..][..to as usize];
                    let level = decibels(amplitude_of(frequency, to, steady) / 10_000.0);
                    assert!(level.abs() < 0.2, "{from} to {to} at {frequency}: {level} dB");
                    let power: f64 = steady.iter().map(|&sample| f64::from(sample).powi(2)).sum();
                    let others = (power / steady.len() as f64 - 5e7).abs() / 5e7;
                    assert!(others < 0.01, "{from} to {to} at {frequency}: {others}");
                    let images = [f64::from(from) - frequency, f64::from(from) + frequency];
                    for image in images.into_iter().filter(|image| *image < f64::from(to) / 2.0) {
                        let level = decibels(amplitude_of(image, to, steady) / 10_000.0);
                        assert!(level < -50.0, "{from} to {to}, {image} of {frequency}: {level}");
                    }
                }
            }
        }
    }

    #[test]
    fn aliases_are_suppressed() {
        for (from, to) in [(16_000, 8000), (48_000, 8000), (48_000, 16_000)] {
            for share in [1.15, 1.3, 1.7, 1.98] {
                let frequency = f64::from(to) / 2.0 * share;
                let mut out = Vec::new();
                Resampler::new(from, to).resample(&tone(frequency, from, 1.0), &mut out);
                let loudest = out[to as usize / 2..].iter().map(|sample| sample.unsigned_abs());
                let level = decibels(f64::from(loudest.max().unwrap()) / 10_000.0);
                assert!(level < -50.0, "{from} to {to} at {frequency}: {level} dB");
            }
        }
    }

    #[test]
    fn split_input_gives_the_same_output() {
        let samples = tone(440.0, 48_000, 0.1);
        for (from, to) in [(8000, 48_000), (48_000, 8000), (16_000, 8000), (44_100, 8000)] {
            let (mut whole, mut pieces) = (Vec::new(), Vec::new());
            Resampler::new(from, to).resample(&samples, &mut whole);
            let mut resampler = Resampler::new(from, to);
            for piece in samples.chunks(37) {
                resampler.resample(&[], &mut pieces);
                resampler.resample(piece, &mut pieces);
            }
            assert_eq!(whole, pieces);
        }
    }
}
