//! G.726 at 32 kbit/s: adaptive differential PCM, 4 bits per sample. Tables and values have the
//! names of the recommendation.

use crate::saturate::saturate;
use alloc::vec::Vec;

/// Thresholds of the quantizer, on its logarithmic scale.
const THRESHOLDS: [i32; 7] = [-124, 80, 178, 246, 300, 349, 400];
/// Output levels of codes (DQLN), and their contribution to the scale (W) and its speed (F), for
/// codes 0 to 7. Codes 15 down to 8 have the opposite sign.
const LEVELS: [i32; 8] = [-2048, 4, 135, 213, 273, 323, 373, 425];
const WEIGHTS: [i32; 8] = [-12, 18, 41, 64, 112, 198, 355, 1122];
const SPEEDS: [i32; 8] = [0, 0, 0, 0x200, 0x200, 0x200, 0x600, 0xe00];

/// The order of two codes in a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    /// The first code in the lower bits: `G726-32` (RFC 3551 section 4.5.4).
    Little,
    /// The first code in the upper bits: `AAL2-G726-32`, as in ATM.
    Big,
}

/// A signed floating-point number with 6 bits of mantissa, as multiplied in the predictor.
#[derive(Clone, Copy, Debug)]
struct Float {
    is_negative: bool,
    exponent: i32,
    mantissa: i32,
}

const fn bits(magnitude: i32) -> i32 {
    32 - magnitude.leading_zeros() as i32
}

/// Wraps to 16 bits, like the registers of the recommendation.
const fn wrap(value: i32) -> i32 {
    value as i16 as i32
}

impl Float {
    const ZERO: Self = Self { is_negative: false, exponent: 0, mantissa: 32 };

    const fn new(is_negative: bool, magnitude: i32) -> Self {
        let exponent = bits(magnitude);
        let mantissa = if magnitude == 0 { 32 } else { (magnitude << 6) >> exponent };
        Self { is_negative, exponent, mantissa }
    }

    /// The product with a coefficient (FMULT).
    const fn times(self, coefficient: i32) -> i32 {
        let coefficient = coefficient >> 2;
        let magnitude = if coefficient > 0 { coefficient } else { -coefficient & 0x1fff };
        let exponent = bits(magnitude) - 6;
        let mantissa = if magnitude == 0 {
            32
        } else if exponent < 0 {
            magnitude << -exponent
        } else {
            magnitude >> exponent
        };
        let exponent = exponent + self.exponent - 13;
        let mantissa = (mantissa * self.mantissa + 0x30) >> 4;
        let product =
            if exponent < 0 { mantissa >> -exponent } else { (mantissa << exponent) & 0x7fff };
        if self.is_negative == (coefficient < 0) { product } else { -product }
    }
}

/// The adaptive state, which encoder and decoder share.
#[derive(Clone, Debug)]
struct State {
    /// The scale factors: fast (YU) and slow (YL), and the weight of the fast one (AP).
    fast: i32,
    slow: i32,
    speed: i32,
    /// Short-term and long-term means of the speed contribution of codes (DMS, DML).
    short_mean: i32,
    long_mean: i32,
    /// Two poles and six zeros, and their inputs, the newest first (SR, DQ).
    poles: [i32; 2],
    zeros: [i32; 6],
    signals: [Float; 2],
    differences: [Float; 6],
    /// True if the last partially reconstructed signals were negative (PK).
    were_negative: [bool; 2],
    /// True if a modem tone is detected (TD).
    is_tone: bool,
}

impl Default for State {
    fn default() -> Self {
        Self {
            fast: 544,
            slow: 34_816,
            speed: 0,
            short_mean: 0,
            long_mean: 0,
            poles: [0; 2],
            zeros: [0; 6],
            signals: [Float::ZERO; 2],
            differences: [Float::ZERO; 6],
            were_negative: [false; 2],
            is_tone: false,
        }
    }
}

/// The prediction of a sample.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    /// The signal estimate, and the contribution of the zeros (SE, SEZ).
    signal: i32,
    by_zeros: i32,
    /// The scale (Y).
    scale: i32,
}

impl Estimate {
    /// Encodes a sample.
    fn quantize(&self, sample: i32) -> u8 {
        let difference = sample - self.signal;
        let magnitude = difference.abs();
        let exponent = bits(magnitude >> 1).min(15);
        let mantissa = ((magnitude << 7) >> exponent) & 0x7f;
        let level = (exponent << 7) + mantissa - (self.scale >> 2);
        let step = THRESHOLDS.iter().position(|&threshold| level < threshold);
        match step.unwrap_or(THRESHOLDS.len()) as u8 {
            step if difference < 0 => 15 - step,
            0 => 15,
            step => step,
        }
    }
}

impl State {
    fn estimate(&self) -> Estimate {
        let zeros = self.differences.iter().zip(self.zeros);
        let by_zeros: i32 = zeros.map(|(difference, zero)| difference.times(zero)).sum();
        let poles = self.signals.iter().zip(self.poles);
        let by_poles: i32 = poles.map(|(signal, pole)| signal.times(pole)).sum();
        let slow = self.slow >> 6;
        let scale = if self.speed >= 256 {
            self.fast
        } else {
            let product = (self.fast - slow) * (self.speed >> 2);
            slow + if product < 0 { (product + 0x3f) >> 6 } else { product >> 6 }
        };
        Estimate { signal: wrap(by_zeros + by_poles) >> 1, by_zeros: wrap(by_zeros) >> 1, scale }
    }

    /// Updates the state with a code. Returns the decoded sample in 14 bits.
    fn take(&mut self, code: u8, estimate: Estimate) -> i32 {
        let is_negative = code & 8 != 0;
        let level = usize::from(if is_negative { 15 - code } else { code } & 7);
        let logarithm = LEVELS[level] + (estimate.scale >> 2);
        let magnitude = if logarithm < 0 {
            0
        } else {
            ((128 + (logarithm & 127)) << 7) >> (14 - (logarithm >> 7 & 15)).max(0)
        };
        let difference = if is_negative { -magnitude } else { magnitude };
        let signal = estimate.signal + difference;
        let by_zeros = estimate.by_zeros + difference;

        let is_change = self.is_tone && magnitude > self.change_threshold();
        self.fast =
            (estimate.scale + (((WEIGHTS[level] << 5) - estimate.scale) >> 5)).clamp(544, 5120);
        self.slow += self.fast + (-self.slow >> 6);
        if is_change {
            self.poles = [0; 2];
            self.zeros = [0; 6];
        } else {
            self.adapt_poles(by_zeros);
            for (zero, before) in self.zeros.iter_mut().zip(&self.differences) {
                *zero -= *zero >> 8;
                if magnitude != 0 {
                    *zero += if before.is_negative == is_negative { 128 } else { -128 };
                }
                *zero = wrap(*zero);
            }
        }
        self.differences.rotate_right(1);
        self.differences[0] = Float::new(is_negative, magnitude);
        self.signals = [Float::new(signal < 0, signal.abs().min(0x7fff)), self.signals[0]];
        self.were_negative = [by_zeros < 0, self.were_negative[0]];
        self.is_tone = !is_change && self.poles[1] < -11_776;
        self.adapt_speed(SPEEDS[level], estimate.scale, is_change);
        signal
    }

    /// The difference that ends a modem tone (TRANS).
    const fn change_threshold(&self) -> i32 {
        let (whole, part) = (self.slow >> 15, (self.slow >> 10) & 0x1f);
        let threshold = if whole > 9 { 31 << 10 } else { (32 + part) << whole };
        (threshold + (threshold >> 1)) >> 1
    }

    /// UPA2, LIMC, UPA1 and LIMD.
    fn adapt_poles(&mut self, by_zeros: i32) {
        let same = self.were_negative.map(|was_negative| was_negative == (by_zeros < 0));
        let [first, second] = self.poles;
        let mut next = second - (second >> 7);
        if by_zeros != 0 {
            let toward = if same[0] { -first } else { first };
            next += match toward {
                ..-8191 => -0x100,
                8192.. => 0xff,
                _ => toward >> 5,
            };
            next += if same[1] { 0x80 } else { -0x80 };
        }
        let second = next.clamp(-12_288, 12_288);
        let mut next = first - (first >> 8);
        if by_zeros != 0 {
            next += if same[0] { 192 } else { -192 };
        }
        let bound = 15_360 - second;
        self.poles = [next.clamp(-bound, bound), second];
    }

    fn adapt_speed(&mut self, speed: i32, scale: i32, is_change: bool) {
        self.short_mean += (speed - self.short_mean) >> 5;
        self.long_mean += ((speed << 2) - self.long_mean) >> 7;
        let difference = ((self.short_mean << 2) - self.long_mean).abs();
        let is_fast = scale < 1536 || self.is_tone || difference >= self.long_mean >> 3;
        self.speed = match (is_change, is_fast) {
            (true, _) => 256,
            (_, true) => self.speed + ((0x200 - self.speed) >> 4),
            (_, false) => self.speed + (-self.speed >> 4),
        };
    }
}

/// Encodes two samples as a byte.
#[derive(Clone, Debug)]
pub(crate) struct Encoder {
    packing: Packing,
    state: State,
}

impl Encoder {
    pub(crate) fn new(packing: Packing) -> Self {
        Self { packing, state: State::default() }
    }

    pub(crate) fn encode(&mut self, samples: &[i16], out: &mut Vec<u8>) {
        for pair in samples.as_chunks::<2>().0 {
            let [first, second] = pair.map(|sample| {
                let estimate = self.state.estimate();
                let code = estimate.quantize(i32::from(sample) >> 2);
                self.state.take(code, estimate);
                code
            });
            out.push(match self.packing {
                Packing::Little => second << 4 | first,
                Packing::Big => first << 4 | second,
            });
        }
    }
}

/// Decodes a byte to two samples.
#[derive(Clone, Debug)]
pub(crate) struct Decoder {
    packing: Packing,
    state: State,
}

impl Decoder {
    pub(crate) fn new(packing: Packing) -> Self {
        Self { packing, state: State::default() }
    }

    pub(crate) fn decode(&mut self, payload: &[u8], out: &mut Vec<i16>) {
        for &byte in payload {
            let codes = match self.packing {
                Packing::Little => [byte & 15, byte >> 4],
                Packing::Big => [byte >> 4, byte & 15],
            };
            out.extend(codes.map(|code| {
                let estimate = self.state.estimate();
                saturate(self.state.take(code, estimate) << 2) as i16
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus;
    use audio_codec_algorithms::{decode_alaw, decode_ulaw, encode_alaw, encode_ulaw};

    /// The G.711 variant of the test sequences: expansion of a byte to 14 bits, and compression of
    /// a 14-bit sample to a byte.
    #[derive(Clone, Copy)]
    struct Law {
        letter: char,
        expand: fn(u8) -> i32,
        compress: fn(i32) -> u8,
    }

    const A: Law = Law {
        letter: 'a',
        expand: |byte| i32::from(decode_alaw(byte)) >> 2,
        compress: |sample| encode_alaw(saturate((sample >> 1) << 3) as i16),
    };
    const MU: Law = Law {
        letter: 'm',
        expand: |byte| i32::from(decode_ulaw(byte)) >> 2,
        // Applied to the magnitude: `encode_ulaw` differs by one where the sign changes.
        compress: |sample| {
            let byte = encode_ulaw(saturate(sample.abs() << 2) as i16);
            if sample < 0 { byte & 0x7f } else { byte }
        },
    };

    fn words(name: &str) -> Option<Vec<u8>> {
        let bytes = corpus(&std::format!("codecs/itu-stl/g726/test_data/{name}"))?;
        Some(bytes.as_chunks().0.iter().map(|&word| u16::from_le_bytes(word) as u8).collect())
    }

    fn encode(state: &mut State, law: Law, samples: &[u8]) -> Vec<u8> {
        let code = |&byte: &u8| {
            let estimate = state.estimate();
            let code = estimate.quantize((law.expand)(byte));
            state.take(code, estimate);
            code
        };
        samples.iter().map(code).collect()
    }

    /// Decodes to G.711 with synchronous tandem adjustment (SYNC). The output is expanded, because
    /// zero has two codes.
    fn decode(state: &mut State, law: Law, codes: &[u8]) -> Vec<i32> {
        let mut values: Vec<i32> = (0..=255).map(law.expand).collect();
        values.sort_unstable();
        values.dedup();
        let sample = |&code: &u8| {
            let estimate = state.estimate();
            let sample = (law.expand)((law.compress)(state.take(code, estimate)));
            let place = values.binary_search(&sample).unwrap();
            let [again, sent] = [estimate.quantize(sample), code].map(|code| code ^ 8);
            match again.cmp(&sent) {
                core::cmp::Ordering::Greater => values[place.saturating_sub(1)],
                core::cmp::Ordering::Less => values[(place + 1).min(values.len() - 1)],
                core::cmp::Ordering::Equal => sample,
            }
        };
        codes.iter().map(sample).collect()
    }

    #[test]
    fn codes_and_samples_match_the_itu_sequences() {
        for law in [A, MU] {
            let letter = law.letter;
            for (input, name) in [("nrm", "rn32f"), ("ovr", "rv32f")] {
                let Some(samples) = words(&std::format!("{input}.{letter}")) else { return };
                let reference = words(&std::format!("{name}{letter}.i")).unwrap();
                let made = encode(&mut State::default(), law, &samples);
                let differs =
                    made.iter().zip(&reference).position(|(made, reference)| made != reference);
                assert_eq!((made.len(), differs), (reference.len(), None), "{name}{letter}.i");
            }
            for (input, name) in [("rn32f", "rn32f"), ("rv32f", "rv32f"), ("", "ri32f")] {
                let input = match input {
                    "" => "i32".into(),
                    input => std::format!("{input}{letter}.i"),
                };
                let reference = words(&std::format!("{name}{letter}.o")).unwrap();
                let made = decode(&mut State::default(), law, &words(&input).unwrap());
                let reference: Vec<i32> = reference.into_iter().map(law.expand).collect();
                let differs =
                    made.iter().zip(&reference).position(|(made, reference)| made != reference);
                assert_eq!((made.len(), differs), (reference.len(), None), "{name}{letter}.o");
            }
        }
    }

    #[test]
    fn the_packings_differ_only_in_nibble_order() {
        let samples = crate::tests::voice(8000, 0.1);
        let [little, big] = [Packing::Little, Packing::Big].map(|packing| {
            let mut bytes = Vec::new();
            Encoder::new(packing).encode(&samples, &mut bytes);
            bytes
        });
        assert_ne!(little, big);
        assert!(little.iter().zip(&big).all(|(little, big)| *little == big.rotate_left(4)));
        let mut state = State::default();
        let estimate = state.estimate();
        let first = estimate.quantize(i32::from(samples[0]) >> 2);
        state.take(first, estimate);
        assert_eq!((little[0] & 15, big[0] >> 4), (first, first));
    }
}
