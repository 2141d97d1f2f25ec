//! Comfort noise (RFC 3389): what is heard of a peer that sends nothing while nobody speaks.

use alloc::vec::Vec;

/// The most reflection coefficients that are looked at: a spectrum of noise needs no more.
const MOST: usize = 12;
/// Where a coefficient of zero stands (RFC 3389 section 3.2), and how many steps there are to one.
const ZERO: f64 = 127.0;
const STEPS: f64 = 32_768.0 / 258.0;

/// Noise as a description makes it.
#[derive(Clone, Debug)]
pub(crate) struct ComfortNoise {
    /// Reflection coefficients, and what stands in the filter.
    coefficients: Vec<f64>,
    lattice: [f64; MOST + 1],
    /// The highest value of what goes into the filter.
    excitation: f64,
    random: u32,
}

impl ComfortNoise {
    /// Nothing is heard of one that has not been described.
    pub(crate) const fn new() -> Self {
        Self {
            coefficients: Vec::new(),
            lattice: [0.0; MOST + 1],
            excitation: 0.0,
            random: 0x9e37_79b9,
        }
    }

    /// Goes on as `description` says: the level below the loudest in decibels, and coefficients.
    pub(crate) fn describe(&mut self, description: &[u8]) {
        let Some((&level, coefficients)) = description.split_first() else { return };
        let level = libm::pow(10.0, -f64::from(level & 0x7f) / 20.0) * 32_768.0;
        self.coefficients.clear();
        let coefficients = coefficients.iter().take(MOST);
        self.coefficients.extend(coefficients.map(|&byte| (f64::from(byte) - ZERO) / STEPS));
        // What the filter adds is taken off before.
        let gain = self.coefficients.iter().map(|k| (1.0 - k * k).max(0.0)).product::<f64>();
        // Evenly spread values have a third of the power of their highest.
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
    fn noise_has_the_level_that_is_described_whatever_its_spectrum() {
        for coefficients in [&[][..], &[127; 10], &[30, 180], &[20], &[230, 100, 140, 127]] {
            for below in [30, 50, 60] {
                let description = [&[below], coefficients].concat();
                let level = level(&made(&description));
                assert!((level + f64::from(below)).abs() < 1.0, "{description:?} {level}");
            }
        }
    }

    #[test]
    fn the_spectrum_is_the_one_that_is_described() {
        let likeness = |samples: &[i16]| {
            let pairs = samples.windows(2).map(|pair| f64::from(pair[0]) * f64::from(pair[1]));
            pairs.sum::<f64>() / samples.iter().map(|&s| f64::from(s).powi(2)).sum::<f64>()
        };
        // Of one coefficient k each sample is -k of the one before.
        for (byte, expected) in [(127, 0.0), (27, 0.787), (227, -0.787)] {
            let found = likeness(&made(&[40, byte]));
            assert!((found - expected).abs() < 0.05, "{byte} {found}");
        }
    }

    #[test]
    fn no_description_makes_it_louder_than_it_says_or_lasting() {
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
