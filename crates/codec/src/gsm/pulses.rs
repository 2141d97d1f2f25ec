//! Regular pulse excitation: every third sample of a sub-frame is sent, with 3 bits and a common
//! scale (sections 5.2.13 to 5.2.17).

use super::fixed_point::{QUARTER, cut_product, product};
use crate::saturate::saturate;

/// The number of pulses in a sub-frame.
pub(super) const PULSES: usize = 13;
/// The weighting filter (H).
const WEIGHTS: [i32; 11] = [-134, -374, 0, 2054, 5741, 8192, 5741, 2054, 0, -374, -134];
/// Mantissas and their inverses (FAC, NRFAC).
const FACTORS: [i32; 8] = [18_431, 20_479, 22_527, 24_575, 26_623, 28_671, 30_719, 32_767];
const INVERSES: [i32; 8] = [29_128, 26_215, 23_832, 21_846, 20_165, 18_725, 17_476, 16_384];

/// The codes of the pulses of a sub-frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pulses {
    /// The position of the first pulse.
    pub(super) grid: u8,
    /// The code of the maximum.
    pub(super) highest: u8,
    pub(super) codes: [u8; PULSES],
}

/// Selects the grid with the highest energy of `error`.
pub(super) fn choose(error: &[i32; QUARTER]) -> Pulses {
    let weighted: [i32; QUARTER] = core::array::from_fn(|place| {
        let taps = WEIGHTS.iter().enumerate().map(|(tap, weight)| {
            let at = (place + tap).checked_sub(WEIGHTS.len() / 2);
            weight * at.and_then(|at| error.get(at)).unwrap_or(&0)
        });
        saturate((4096 + taps.sum::<i32>()) >> 13)
    });
    let on_grid = |grid: usize| weighted[grid..].iter().step_by(3).take(PULSES);
    let power = |grid: usize| -> i32 { on_grid(grid).map(|x| (x >> 2) * (x >> 2)).sum() };
    let mut grid = 0;
    for other in 1..4 {
        if power(other) > power(grid) {
            grid = other;
        }
    }
    let highest = on_grid(grid).map(|value| saturate(value.abs())).max().unwrap_or(0);
    let exponent = (32 - (highest >> 9).leading_zeros()).min(6);
    let highest = (highest >> (exponent + 5)) + (exponent << 3) as i32;
    let (exponent, mantissa) = scale(highest as u8);
    let mut codes = [0; PULSES];
    for (code, value) in codes.iter_mut().zip(on_grid(grid)) {
        // Wrapped to 16 bits.
        let shifted = i32::from((value << (6 - exponent)) as i16);
        *code = ((cut_product(shifted, INVERSES[mantissa]) >> 12) + 4) as u8;
    }
    Pulses { grid: grid as u8, highest: highest as u8, codes }
}

/// The exponent, -4 to 6, and the mantissa of the maximum.
fn scale(highest: u8) -> (i32, usize) {
    let mut exponent = if highest > 15 { i32::from(highest >> 3) - 1 } else { 0 };
    let mut mantissa = i32::from(highest) - (exponent << 3);
    if mantissa == 0 {
        return (-4, 7);
    }
    while mantissa <= 7 {
        mantissa = mantissa << 1 | 1;
        exponent -= 1;
    }
    (exponent, (mantissa & 7) as usize)
}

impl Pulses {
    /// Reconstructs the sub-frame from the codes.
    pub(super) fn restore(&self) -> [i32; QUARTER] {
        let (exponent, mantissa) = scale(self.highest);
        let shift = 6 - exponent;
        let half = if shift == 0 { 0 } else { 1 << (shift - 1) };
        let mut quarter = [0; QUARTER];
        let places = quarter[usize::from(self.grid & 3)..].iter_mut().step_by(3);
        for (place, &code) in places.zip(&self.codes) {
            let value = (2 * i32::from(code) - 7) << 12;
            *place = saturate(product(FACTORS[mantissa], value) + half) >> shift;
        }
        quarter
    }
}
