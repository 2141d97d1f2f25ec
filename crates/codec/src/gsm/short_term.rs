//! Short-term prediction: a lattice of eight reflection coefficients, sent as log-area ratios
//! (sections 5.2.4 to 5.2.10).

use super::fixed_point::{SAMPLES, cut_product, norm, product};
use crate::saturate::saturate;

/// The parameters of each log-area ratio: factor, offset, lowest code, number of codes, inverse
/// factor (A, B, MIC, MAC, INVA).
const RATIOS: [(i32, i32, i32, i32, i32); 8] = [
    (20_480, 0, -32, 64, 13_107),
    (20_480, 0, -32, 64, 13_107),
    (20_480, 2048, -16, 32, 13_107),
    (20_480, -2560, -16, 32, 13_107),
    (13_964, 94, -8, 16, 19_223),
    (15_360, -1792, -8, 16, 17_476),
    (8534, -341, -4, 8, 31_454),
    (9036, -1144, -4, 8, 29_708),
];

/// The codes of the log-area ratios of `signal`, which loses the bits of its scaling.
pub(super) fn ratios(signal: &mut [i32; SAMPLES]) -> [u8; 8] {
    let correlations = correlate(signal);
    let reflections = reflect(&correlations);
    core::array::from_fn(|place| {
        let reflection = reflections[place];
        let size = match reflection.abs() {
            size @ ..22_118 => size >> 1,
            size @ ..31_130 => size - 11_059,
            size => (size - 26_112) << 2,
        };
        let ratio = if reflection < 0 { -size } else { size };
        let (factor, offset, lowest, count, _) = RATIOS[place];
        let code = saturate(saturate(cut_product(factor, ratio) + offset) + 256) >> 9;
        (code.clamp(lowest, lowest + count - 1) - lowest) as u8
    })
}

fn correlate(signal: &mut [i32; SAMPLES]) -> [i32; 9] {
    let highest = signal.iter().map(|value| saturate(value.abs())).max().unwrap_or(0);
    let shift = if highest == 0 { 0 } else { 4_u32.saturating_sub(norm(highest << 16)) };
    if shift > 0 {
        for value in signal.iter_mut() {
            *value = product(*value, 16_384 >> (shift - 1));
        }
    }
    let correlations = core::array::from_fn(|lag| {
        let pairs = signal[lag..].iter().zip(&*signal);
        pairs.map(|(one, other)| one * other).sum::<i32>() << 1
    });
    for value in signal.iter_mut() {
        *value <<= shift;
    }
    correlations
}

/// The Schur recursion.
fn reflect(correlations: &[i32; 9]) -> [i32; 8] {
    let mut reflections = [0; 8];
    if correlations[0] == 0 {
        return reflections;
    }
    let shift = norm(correlations[0]);
    let mut forward = correlations.map(|value| (value << shift) >> 16);
    let mut backward = forward;
    for (order, reflection) in reflections.iter_mut().enumerate() {
        let size = saturate(forward[1].abs());
        if forward[0] < size {
            break;
        }
        let quotient = divide(size, forward[0]);
        *reflection = if forward[1] > 0 { -quotient } else { quotient };
        forward[0] = saturate(forward[0] + product(forward[1], *reflection));
        for place in 1..8 - order {
            let (ahead, behind) = (forward[place + 1], backward[place]);
            forward[place] = saturate(ahead + product(behind, *reflection));
            backward[place] = saturate(behind + product(ahead, *reflection));
        }
    }
    reflections
}

/// A quotient as a 15-bit fraction, at most one.
const fn divide(numerator: i32, denominator: i32) -> i32 {
    if denominator == 0 {
        return 0;
    }
    let quotient = (numerator << 15) / denominator;
    if quotient > 32_767 { 32_767 } else { quotient }
}

/// Decodes codes to ratios.
fn decode(codes: &[u8; 8]) -> [i32; 8] {
    core::array::from_fn(|place| {
        let (_, offset, lowest, _, inverse) = RATIOS[place];
        let value = saturate(((i32::from(codes[place]) + lowest) << 10) - (offset << 1));
        saturate(2 * product(inverse, value))
    })
}

/// Converts ratios to reflection coefficients.
fn reflections(ratios: [i32; 8]) -> [i32; 8] {
    ratios.map(|ratio| {
        let size = match saturate(ratio.abs()) {
            size @ ..11_059 => size << 1,
            size @ ..20_070 => size + 11_059,
            size => saturate((size >> 2) + 26_112),
        };
        if ratio < 0 { -size } else { size }
    })
}

/// The ratios of the last frame, from which those of the next one are interpolated in three steps.
#[derive(Clone, Debug, Default)]
struct Course([i32; 8]);

impl Course {
    /// The reflection coefficients of each part of the frame, with the end of the part.
    fn go_to(&mut self, codes: &[u8; 8]) -> [(usize, [i32; 8]); 4] {
        let (old, new) = (self.0, decode(codes));
        self.0 = new;
        let between = |mix: fn(i32, i32) -> i32| {
            reflections(core::array::from_fn(|place| mix(old[place], new[place])))
        };
        [
            (13, between(|old, new| saturate(saturate((old >> 2) + (new >> 2)) + (old >> 1)))),
            (27, between(|old, new| saturate((old >> 1) + (new >> 1)))),
            (40, between(|old, new| saturate(saturate((old >> 2) + (new >> 2)) + (new >> 1)))),
            (SAMPLES, reflections(new)),
        ]
    }
}

/// The analysis filter, which removes the prediction from a signal.
#[derive(Clone, Debug, Default)]
pub(super) struct Analysis {
    course: Course,
    lattice: [i32; 8],
}

impl Analysis {
    pub(super) fn filter(&mut self, codes: &[u8; 8], signal: &mut [i32; SAMPLES]) {
        let mut start = 0;
        for (end, reflections) in self.course.go_to(codes) {
            for value in &mut signal[start..end] {
                let mut passed = *value;
                for (kept, reflection) in self.lattice.iter_mut().zip(reflections) {
                    let before = core::mem::replace(kept, passed);
                    passed = saturate(before + product(reflection, *value));
                    *value = saturate(*value + product(reflection, before));
                }
            }
            start = end;
        }
    }
}

/// The synthesis filter, which adds the prediction to a signal.
#[derive(Clone, Debug, Default)]
pub(super) struct Synthesis {
    course: Course,
    lattice: [i32; 9],
}

impl Synthesis {
    pub(super) fn filter(&mut self, codes: &[u8; 8], signal: &mut [i32; SAMPLES]) {
        let mut start = 0;
        for (end, reflections) in self.course.go_to(codes) {
            for value in &mut signal[start..end] {
                for (place, reflection) in reflections.into_iter().enumerate().rev() {
                    let kept = self.lattice[place];
                    *value = saturate(*value - product(reflection, kept));
                    self.lattice[place + 1] = saturate(kept + product(reflection, *value));
                }
                self.lattice[0] = *value;
            }
            start = end;
        }
    }
}
