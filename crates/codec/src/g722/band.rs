//! The two bands of G.722: adaptive differential PCM, each with its own quantizer and the same kind
//! of predictor.

use crate::saturate::saturate;

/// Thresholds of the 6-bit quantizer (Q6).
const Q6: [i32; 29] = [
    35, 72, 110, 150, 190, 233, 276, 323, 370, 422, 473, 530, 587, 650, 714, 786, 858, 940, 1023,
    1121, 1219, 1339, 1458, 1612, 1765, 1980, 2195, 2557, 2919,
];
/// Output levels of 6-bit codes (QM6). The first four codes are never sent.
const QM6: [i32; 64] = [
    -136, -136, -136, -136, -24_808, -21_904, -19_008, -16_704, -14_984, -13_512, -12_280, -11_192,
    -10_232, -9360, -8576, -7856, -7192, -6576, -6000, -5456, -4944, -4464, -4008, -3576, -3168,
    -2776, -2400, -2032, -1688, -1360, -1040, -728, 24_808, 21_904, 19_008, 16_704, 14_984, 13_512,
    12_280, 11_192, 10_232, 9360, 8576, 7856, 7192, 6576, 6000, 5456, 4944, 4464, 4008, 3576, 3168,
    2776, 2400, 2032, 1688, 1360, 1040, 728, 432, 136, -432, -136,
];
/// Output levels of 5-bit codes (QM5), for mode 2, which is not used in RTP but in the test
/// vectors.
#[cfg(test)]
const QM5: [i32; 32] = [
    -280, -280, -23_352, -17_560, -14_120, -11_664, -9752, -8184, -6864, -5712, -4696, -3784,
    -2960, -2208, -1520, -880, 23_352, 17_560, 14_120, 11_664, 9752, 8184, 6864, 5712, 4696, 3784,
    2960, 2208, 1520, 880, 280, -280,
];
/// Output levels of the upper four bits of a code (QM4), from which both ends adapt.
const QM4: [i32; 16] = [
    0, -20_456, -12_896, -8968, -6288, -4240, -2584, -1200, 20_456, 12_896, 8968, 6288, 4240, 2584,
    1200, 0,
];
/// The change of the scale for the upper four bits of a code (WL by RL42).
const W4: [i32; 16] =
    [-60, 3042, 1198, 538, 334, 172, 58, -30, 3042, 1198, 538, 334, 172, 58, -30, -60];
/// Output levels of 2-bit codes (QM2), and the changes of the scale (WH by RH2).
const QM2: [i32; 4] = [-7408, -1616, 7408, 1616];
const W2: [i32; 4] = [798, -214, 798, -214];
/// The threshold of the 2-bit quantizer.
const Q2: i32 = 564;
/// 2048 times powers of two in steps of 1/32 (ILB).
const ILB: [i32; 32] = [
    2048, 2093, 2139, 2186, 2233, 2282, 2332, 2383, 2435, 2489, 2543, 2599, 2656, 2714, 2774, 2834,
    2896, 2960, 3025, 3091, 3158, 3228, 3298, 3371, 3444, 3520, 3597, 3676, 3756, 3838, 3922, 4008,
];

/// The scale of a quantizer: its logarithm (NB) and its value (DET).
#[derive(Clone, Debug)]
struct Scale {
    log: i32,
    value: i32,
}

impl Scale {
    /// LOGSCL and SCALEL, or LOGSCH and SCALEH: they differ in the maximum logarithm and in the
    /// shift.
    fn adapt(&mut self, change: i32, highest: i32, shift: i32) {
        self.log = (((self.log * 127) >> 7) + change).clamp(0, highest);
        let mantissa = ILB[(self.log >> 6 & 31) as usize];
        let down = shift - (self.log >> 11);
        self.value = if down < 0 { mantissa << -down } else { mantissa >> down } << 2;
    }
}

/// The magnitude that selects the step of a quantizer.
const fn magnitude(error: i32) -> i32 {
    if error < 0 { !error } else { error }
}

/// The predictor: two poles and six zeros (block 4).
#[derive(Clone, Debug, Default)]
struct Predictor {
    /// The signal estimate (S), and the contribution of the zeros (SZ).
    estimate: i32,
    by_zeros: i32,
    /// The last two reconstructed signals (R), and the partially reconstructed ones (P).
    signals: [i32; 2],
    partials: [i32; 2],
    poles: [i32; 2],
    /// The last six quantized differences (D), the newest first.
    differences: [i32; 6],
    zeros: [i32; 6],
}

impl Predictor {
    /// Updates the predictor with a quantized difference.
    fn adapt(&mut self, difference: i32) {
        let signal = saturate(self.estimate + difference);
        let partial = saturate(self.by_zeros + difference);
        self.adapt_poles(partial);
        let step = if difference == 0 { 0 } else { 128 };
        for (zero, &before) in self.zeros.iter_mut().zip(&self.differences) {
            let same = (before < 0) == (difference < 0);
            let change = if same { step } else { -step };
            *zero = saturate(((*zero * 32_640) >> 15) + change);
        }
        self.differences.rotate_right(1);
        self.differences[0] = difference;
        self.signals = [signal, self.signals[0]];
        self.partials = [partial, self.partials[0]];

        let product = |factor: i32, value: i32| (factor * saturate(2 * value)) >> 15;
        let taps = self.zeros.iter().zip(&self.differences).rev();
        self.by_zeros = taps.fold(0, |sum, (&zero, &before)| saturate(sum + product(zero, before)));
        let [first, second] = self.poles;
        let by_poles = product(first, signal) + product(second, self.signals[1]);
        self.estimate = saturate(saturate(by_poles) + self.by_zeros);
    }

    /// UPPOL2 and UPPOL1.
    fn adapt_poles(&mut self, partial: i32) {
        let same = self.partials.map(|before| (before < 0) == (partial < 0));
        let [first, second] = self.poles;
        let quadruple = saturate(4 * first);
        let toward = if same[0] { -quadruple } else { quadruple }.min(32_767) >> 7;
        let change = if same[1] { 128 } else { -128 };
        let second = (toward + change + ((second * 32_512) >> 15)).clamp(-12_288, 12_288);
        let change = if same[0] { 192 } else { -192 };
        let bound = 15_360 - second;
        let first = (((first * 32_640) >> 15) + change).clamp(-bound, bound);
        self.poles = [first, second];
    }
}

/// Limits a band signal to 15 bits.
pub(super) fn limit(value: i32) -> i32 {
    value.clamp(-16_384, 16_383)
}

/// The lower band.
#[derive(Clone, Debug)]
pub(super) struct Lower {
    scale: Scale,
    predictor: Predictor,
}

impl Default for Lower {
    fn default() -> Self {
        Self { scale: Scale { log: 0, value: 32 }, predictor: Predictor::default() }
    }
}

impl Lower {
    /// Encodes a sample as 6 bits.
    pub(super) fn encode(&mut self, sample: i32) -> u8 {
        let error = saturate(sample - self.predictor.estimate);
        let size = magnitude(error);
        let is_below = |threshold: &i32| size < (threshold * self.scale.value) >> 12;
        let step = Q6.iter().position(is_below).unwrap_or(Q6.len()) as u8;
        let code = match (error < 0, step) {
            (true, 0..2) => 63 - step,
            (true, _) => 33 - step,
            (false, _) => 61 - step,
        };
        self.adapt(code);
        code
    }

    /// Decodes a 6-bit code.
    pub(super) fn decode(&mut self, code: u8) -> i32 {
        self.decode_by(code, QM6[usize::from(code & 63)])
    }

    fn decode_by(&mut self, code: u8, step: i32) -> i32 {
        let sample = limit(self.predictor.estimate + ((self.scale.value * step) >> 15));
        self.adapt(code);
        sample
    }

    fn adapt(&mut self, code: u8) {
        let upper = usize::from(code >> 2 & 15);
        let difference = (self.scale.value * QM4[upper]) >> 15;
        self.scale.adapt(W4[upper], 18_432, 8);
        self.predictor.adapt(difference);
    }
}

/// The higher band.
#[derive(Clone, Debug)]
pub(super) struct Higher {
    scale: Scale,
    predictor: Predictor,
}

impl Default for Higher {
    fn default() -> Self {
        Self { scale: Scale { log: 0, value: 8 }, predictor: Predictor::default() }
    }
}

impl Higher {
    /// Encodes a sample as 2 bits.
    pub(super) fn encode(&mut self, sample: i32) -> u8 {
        let error = saturate(sample - self.predictor.estimate);
        let is_small = magnitude(error) < (Q2 * self.scale.value) >> 12;
        let code = if error < 0 { 0 } else { 2 } | u8::from(is_small);
        self.decode(code);
        code
    }

    /// Decodes a 2-bit code.
    pub(super) fn decode(&mut self, code: u8) -> i32 {
        let code = usize::from(code & 3);
        let difference = (self.scale.value * QM2[code]) >> 15;
        let sample = limit(self.predictor.estimate + difference);
        self.scale.adapt(W2[code], 22_528, 10);
        self.predictor.adapt(difference);
        sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus;
    use std::vec::Vec;

    /// The words of a test sequence of appendix II.
    fn words(name: &str) -> Option<Vec<u16>> {
        let bytes = corpus(&std::format!("codecs/g722-appendix-ii/{name}"))?;
        Some(bytes.as_chunks().0.iter().map(|&word| u16::from_be_bytes(word)).collect())
    }

    #[test]
    fn the_encoder_matches_appendix_ii() {
        for (input, output) in [("bt1c1.xmt", "bt2r1.cod"), ("bt1c2.xmt", "bt2r2.cod")] {
            let (Some(samples), Some(codes)) = (words(input), words(output)) else { return };
            let (mut lower, mut higher) = (Lower::default(), Higher::default());
            let mut compared = 0;
            for (place, (&sample, &code)) in samples.iter().zip(&codes).enumerate() {
                if sample & 1 == 1 {
                    (lower, higher) = (Lower::default(), Higher::default());
                    continue;
                }
                let sample = i32::from(sample as i16 >> 1);
                let made = [higher.encode(sample), lower.encode(sample)];
                assert_eq!(made, [(code >> 14) as u8, (code >> 8 & 63) as u8], "{input} {place}");
                compared += 1;
            }
            assert!(compared > 700, "{compared}");
        }
    }

    #[test]
    fn the_decoder_matches_appendix_ii_in_every_mode() {
        for (number, input) in [(1, "bt2r1.cod"), (2, "bt2r2.cod"), (3, "bt1d3.cod")] {
            for mode in 1..=3 {
                let Some(codes) = words(input) else { return };
                let low = words(&std::format!("bt3l{number}.rc{mode}")).unwrap();
                let high = words(&std::format!("bt3h{number}.rc0")).unwrap();
                let (mut lower, mut higher) = (Lower::default(), Higher::default());
                let mut compared = 0;
                for (place, &code) in codes.iter().enumerate() {
                    if code & 1 == 1 {
                        (lower, higher) = (Lower::default(), Higher::default());
                        continue;
                    }
                    let six = (code >> 8 & 63) as u8;
                    let step = match mode {
                        1 => QM6[usize::from(six)],
                        2 => QM5[usize::from(six >> 1)],
                        _ => QM4[usize::from(six >> 2)],
                    };
                    let made = [lower.decode_by(six, step), higher.decode((code >> 14) as u8)];
                    let reference =
                        [low[place], high[place]].map(|word| i32::from(word as i16 >> 1));
                    assert_eq!(made, reference, "{input} mode {mode}, word {place}");
                    compared += 1;
                }
                assert!(compared > 700, "{compared}");
            }
        }
    }
}
