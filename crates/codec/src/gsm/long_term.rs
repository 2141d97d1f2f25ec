//! Long-term prediction: a sub-frame is predicted from up to 120 samples before (sections 5.2.11 to
//! 5.2.12).

use super::fixed_point::{QUARTER, cut_product, norm, product};
use crate::saturate::saturate;

/// The range of lags, in samples.
pub(super) const SHORTEST: usize = 40;
pub(super) const LONGEST: usize = 120;
/// Thresholds (DLB) and values (QLB) of the gain.
const THRESHOLDS: [i32; 3] = [6554, 16_384, 26_214];
const GAINS: [i32; 4] = [3277, 11_469, 21_299, 32_767];

/// The reconstructed residual, the newest sample last.
#[derive(Clone, Debug)]
pub(super) struct Past([i32; LONGEST]);

impl Default for Past {
    fn default() -> Self {
        Self([0; LONGEST])
    }
}

impl Past {
    /// The sub-frame that starts `lag` samples before.
    fn at(&self, lag: usize) -> &[i32] {
        &self.0[LONGEST - lag..][..QUARTER]
    }

    /// The lag with the best correlation to `residual`, and the code of the gain.
    pub(super) fn find(&self, residual: &[i32; QUARTER]) -> (usize, usize) {
        let highest = residual.iter().map(|value| saturate(value.abs())).max().unwrap_or(0);
        let spare = if highest == 0 { 6 } else { norm(highest << 16).min(6) };
        let shift = 6 - spare;
        let scaled = residual.map(|value| value >> shift);
        let likeness = |lag: usize| -> i32 {
            scaled.iter().zip(self.at(lag)).map(|(one, other)| one * other).sum()
        };
        let mut best = (SHORTEST, 0);
        for lag in SHORTEST..=LONGEST {
            let likeness = likeness(lag);
            if likeness > best.1 {
                best = (lag, likeness);
            }
        }
        let (lag, likeness) = best;
        let likeness = (likeness << 1) >> (6 - shift);
        let power: i32 = self.at(lag).iter().map(|value| (value >> 3) * (value >> 3)).sum();
        let power = power << 1;
        let gain = if likeness <= 0 {
            0
        } else if likeness >= power {
            3
        } else {
            let shift = norm(power);
            let (likeness, power) = ((likeness << shift) >> 16, (power << shift) >> 16);
            let is_below = |threshold: &i32| likeness <= cut_product(power, *threshold);
            THRESHOLDS.iter().position(is_below).unwrap_or(THRESHOLDS.len())
        };
        (lag, gain)
    }

    /// The prediction from `lag` samples before.
    pub(super) fn predict(&self, lag: usize, gain: usize) -> [i32; QUARTER] {
        let past = self.at(lag);
        core::array::from_fn(|place| product(GAINS[gain & 3], past[place]))
    }

    /// Adds the prediction to the excitation, and stores and returns the residual.
    pub(super) fn keep(
        &mut self,
        excitation: &[i32; QUARTER],
        prediction: &[i32; QUARTER],
    ) -> [i32; QUARTER] {
        let residual =
            core::array::from_fn(|place| saturate(excitation[place] + prediction[place]));
        self.0.copy_within(QUARTER.., 0);
        self.0[LONGEST - QUARTER..].copy_from_slice(&residual);
        residual
    }
}
