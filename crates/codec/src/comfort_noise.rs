//! Comfort noise (RFC 3389), played while a peer sends nothing during silence.

use alloc::vec::Vec;

/// The maximum number of reflection coefficients used. A noise spectrum needs no more.
const MOST: usize = 12;
/// The code of a coefficient of zero (RFC 3389 section 3.2), and the number of steps from 0 to 1.
const ZERO: f64 = 127.0;
const STEPS: f64 = 32_768.0 / 258.0;

/// A comfort noise generator.
#[derive(Clone, Debug)]
pub(crate) struct ComfortNoise {
    /// The reflection coefficients, and the state of the filter.
    coefficients: Vec<f64>,
    lattice: [f64; MOST + 1],
    /// The amplitude of the filter's input.
    excitation: f64,
    random: u32,
}

impl ComfortNoise {
    /// Creates a generator that is silent until it is described.
    pub(crate) const fn new() -> Self {
        Self {
            coefficients: Vec::new(),
            lattice: [0.0; MOST + 1],
            excitation: 0.0,
            random: 0x9e37_79b9,
        }
    }

    /// Applies a comfort noise payload: the level in -dBov, then coefficients.
    pub(crate) fn describe(&mut self, description: &[u8]) {
        let Some((&level, coefficients)) = description.split_first() else { return };
        let level = libm::pow(10.0, -f64::from(level & 0x7f) / 20.0) * 32_768.0;
        self.coefficients.clear();
        let coefficients = coefficients.iter().take(MOST);
        self.coefficients.extend(coefficients.map(|&byte| (f64::from(byte) - ZERO) / STEPS));
        // Compensates the gain of the filter.
        let gain = self.coefficients.iter().map(|k| (1.0 - k * k).max(0.0)).product::<f64>();
        // A uniform distribution has a third of the power of its maximum.
        self.excitation = level * libm::sqrt(3.0 * gain);
    }

    /// Appends `count` samples.
    pub(crate) fn fill(&mut self, count: usize, out: &mut Vec<i16>) {
        for _ in 0..count {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 17;
            self.random ^= self.random << 5;
            let mut value =
                self.excitation * f64::from(self.random.cast_signed()) / 2_147_483_648.0;
            for (place, coefficient) in self.coefficients.iter().enumerate().rev() {
                value -= coefficient * self.lattice[place];
                self.lattice[place + 1] = self.lattice[place] + coefficient * value;
            }
            self.lattice[0] = value;
            out.push(value as i16);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{decibels, noise};

    fn level(samples: &[i16]) -> f64 {
        let power: f64 = samples.iter().map(|&sample| f64::from(sample).powi(2)).sum();
        decibels(libm::sqrt(power / samples.len() as f64) / 32_768.0)
    }

    fn made(description: &[u8]) -> Vec<i16> {
        let (mut noise, mut out) = (ComfortNoise::new(), Vec::new());
        noise.describe(description);
        noise.fill(16_000, &mut out);
        out
    }

    #[test]
    fn noise_has_the_described_level_for_any_spectrum() {
        for coefficients in [&[][..], &[127; 10], &[30, 180], &[20], &[230, 100, 140, 127]] {
            for below in [30, 50, 60] {
                let description = [&[below], coefficients].concat();
                let level = level(&made(&description));
                assert!((level + f64::from(below)).abs() < 1.0, "{description:?} {level}");
            }
        }
    }

    #[test]
    fn noise_has_the_described_spectrum() {
        let likeness = |samples: &[i16]| {
            let pairs = samples.windows(2).map(|pair| f64::from(pair[0]) * f64::from(pair[1]));
            pairs.sum::<f64>() / samples.iter().map(|&s| f64::from(s).powi(2)).sum::<f64>()
        };
        // With one coefficient k each sample is -k times the previous one.
        for (byte, expected) in [(127, 0.0), (27, 0.787), (227, -0.787)] {
            let found = likeness(&made(&[40, byte]));
            assert!((found - expected).abs() < 0.05, "{byte} {found}");
        }
    }

    #[test]
    fn any_description_is_bounded_in_level_and_decays() {
        let mut random = noise(3);
        let mut noise = ComfortNoise::new();
        for length in 0..300 {
            let description: Vec<u8> = (0..length).map(|_| random()).collect();
            noise.describe(&description);
            let mut out = Vec::new();
            noise.fill(160, &mut out);
            assert_eq!(out.len(), 160);
            assert!(noise.lattice.iter().all(|value| value.is_finite()));
        }
        let mut out = Vec::new();
        noise.describe(&[127]);
        noise.fill(160, &mut out);
        assert!(out[20..].iter().all(|sample| sample.abs() <= 1), "{out:?}");
    }
}
