//! G.722 at 64 kbit/s: two bands of 8000 samples per second each, with 6 and 2 bits. Tables and
//! steps have the names of the recommendation.

mod band;

use alloc::vec::Vec;
use band::{Higher, Lower, limit};

/// Half of the coefficients of the quadrature mirror filters. The other half is symmetric.
const QMF: [i32; 12] = [3, -11, 12, 32, -210, 951, 3876, -805, 362, -156, 53, -11];

/// The state of the filters: pairs of samples, the newest last.
#[derive(Clone, Debug, Default)]
struct Taps([[i32; 2]; QMF.len()]);

impl Taps {
    /// Adds a pair of samples and returns the two sums of the filters.
    fn filter(&mut self, pair: [i32; 2]) -> [i32; 2] {
        self.0.rotate_left(1);
        self.0[QMF.len() - 1] = pair;
        let mut sums = [0; 2];
        for (place, [one, other]) in self.0.iter().enumerate() {
            sums[0] += one * QMF[place];
            sums[1] += other * QMF[QMF.len() - 1 - place];
        }
        sums
    }
}

/// Encodes two samples as a byte.
#[derive(Clone, Debug, Default)]
pub(crate) struct Encoder {
    taps: Taps,
    lower: Lower,
    higher: Higher,
}

impl Encoder {
    pub(crate) fn encode(&mut self, samples: &[i16], out: &mut Vec<u8>) {
        out.extend(samples.as_chunks::<2>().0.iter().map(|&[first, second]| {
            let [first, second] = self.taps.filter([first.into(), second.into()]);
            let higher = self.higher.encode(limit((second - first) >> 14));
            let lower = self.lower.encode(limit((first + second) >> 14));
            higher << 6 | lower
        }));
    }
}

/// Decodes a byte to two samples.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decoder {
    taps: Taps,
    lower: Lower,
    higher: Higher,
}

impl Decoder {
    pub(crate) fn decode(&mut self, payload: &[u8], out: &mut Vec<i16>) {
        for &byte in payload {
            let lower = self.lower.decode(byte & 0x3f);
            let higher = self.higher.decode(byte >> 6);
            let [second, first] = self.taps.filter([lower + higher, lower - higher]);
            out.extend(
                [first, second]
                    .map(|sum| (sum >> 11).clamp(i16::MIN.into(), i16::MAX.into()) as i16),
            );
        }
    }
}
