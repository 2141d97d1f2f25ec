//! Tones: a sine generator, and a detector of one frequency.

use alloc::vec::Vec;
use core::f64::consts::TAU;

/// A sine generator.
#[derive(Clone, Debug)]
pub struct Tone {
    /// The phase increment of a sample, in radians.
    step: f64,
    phase: f64,
    /// The value of the highest sample.
    amplitude: f64,
}

impl Tone {
    /// Returns a tone of `frequency` hertz at `sample_rate` hertz, with a peak value of
    /// `amplitude`.
    #[must_use]
    pub fn new(frequency: f64, sample_rate: u32, amplitude: i16) -> Self {
        let step = TAU * frequency / f64::from(sample_rate.max(1));
        Self { step, phase: 0.0, amplitude: f64::from(amplitude) }
    }

    /// Appends `count` samples.
    pub fn fill(&mut self, count: usize, out: &mut Vec<i16>) {
        for _ in 0..count {
            out.push((self.amplitude * libm::sin(self.phase)) as i16);
            self.phase += self.step;
            if self.phase > TAU {
                self.phase -= TAU;
            }
        }
    }
}

/// Returns the strength of a frequency in `samples`, as the peak value of a sine of that strength
/// (Goertzel algorithm).
#[must_use]
pub fn amplitude_of(frequency: f64, sample_rate: u32, samples: &[i16]) -> f64 {
    let step = TAU * frequency / f64::from(sample_rate.max(1));
    let factor = 2.0 * libm::cos(step);
    let (mut last, mut before) = (0.0, 0.0);
    for &sample in samples {
        let next = f64::from(sample) + factor * last - before;
        before = last;
        last = next;
    }
    let power = last * last + before * before - factor * last * before;
    2.0 * libm::sqrt(power.max(0.0)) / samples.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tone_is_found_at_its_frequency_and_level_and_at_no_other() {
        let mut samples = Vec::new();
        Tone::new(1000.0, 8000, 10_000).fill(8000, &mut samples);
        let here = amplitude_of(1000.0, 8000, &samples);
        assert!((here - 10_000.0).abs() < 50.0, "{here}");
        for other in [500.0, 990.0, 1100.0, 2000.0] {
            assert!(amplitude_of(other, 8000, &samples) < 100.0, "{other}");
        }
    }
}
