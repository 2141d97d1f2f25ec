//! G.722 at 64 kbit/s: two bands of 8000 samples a second each, in 6 and 2 bits. Names of tables
//! and steps are the recommendation's.

mod band;

use alloc::vec::Vec;
use band::{Higher, Lower, limit};

/// One half of the coefficients of the quadrature mirror filters; the other half mirrors it.
const QMF: [i32; 12] = [3, -11, 12, 32, -210, 951, 3876, -805, 362, -156, 53, -11];

/// What the filters remember: pairs of samples, the newest last.
#[derive(Clone, Debug, Default)]
struct Taps([[i32; 2]; QMF.len()]);

impl Taps {
    /// Takes a pair of samples: the two sums of the filters.
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

/// Makes a byte of two samples.
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

/// Makes two samples of a byte.
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
