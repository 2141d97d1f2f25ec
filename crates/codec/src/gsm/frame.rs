//! The bits of a frame: 4 of signature, 36 of log-area ratios, and four times 56 of a sub-frame.

use super::pulses::{PULSES, Pulses};

/// The number of bytes in a frame.
pub(crate) const BYTES: usize = 33;
/// The first bits of a frame (RFC 3551 section 4.5.8.1).
const SIGNATURE: u8 = 0xd;
/// The number of bits of each log-area ratio.
const RATIO_BITS: [u32; 8] = [6, 6, 5, 5, 4, 4, 3, 3];

/// A quarter of a frame: the lag and gain of the long-term prediction, and the excitation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SubFrame {
    pub(super) lag: u8,
    pub(super) gain: u8,
    pub(super) pulses: Pulses,
}

/// The codes of a frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frame {
    pub(super) ratios: [u8; 8],
    pub(super) quarters: [SubFrame; 4],
}

/// The bits of a frame, the most significant first.
struct Bits {
    bytes: [u8; BYTES],
    at: usize,
}

impl Bits {
    fn put(&mut self, value: u8, count: u32) {
        for bit in (0..count).rev() {
            self.bytes[self.at / 8] |= (value >> bit & 1) << (7 - self.at % 8);
            self.at += 1;
        }
    }

    fn take(&mut self, count: u32) -> u8 {
        (0..count).fold(0, |value, _| {
            let bit = self.bytes[self.at / 8] >> (7 - self.at % 8) & 1;
            self.at += 1;
            value << 1 | bit
        })
    }
}

impl Frame {
    pub(super) fn pack(&self) -> [u8; BYTES] {
        let mut bits = Bits { bytes: [0; BYTES], at: 0 };
        bits.put(SIGNATURE, 4);
        for (&ratio, count) in self.ratios.iter().zip(RATIO_BITS) {
            bits.put(ratio, count);
        }
        for SubFrame { lag, gain, pulses } in &self.quarters {
            bits.put(*lag, 7);
            bits.put(*gain, 2);
            bits.put(pulses.grid, 2);
            bits.put(pulses.highest, 6);
            pulses.codes.iter().for_each(|&code| bits.put(code, 3));
        }
        bits.bytes
    }

    /// Parses a frame. Returns `None` without the signature.
    pub(super) fn unpack(bytes: &[u8; BYTES]) -> Option<Self> {
        let mut bits = Bits { bytes: *bytes, at: 0 };
        if bits.take(4) != SIGNATURE {
            return None;
        }
        let ratios = RATIO_BITS.map(|count| bits.take(count));
        let quarters = [(); 4].map(|()| {
            let (lag, gain) = (bits.take(7), bits.take(2));
            let (grid, highest) = (bits.take(2), bits.take(6));
            let codes = [(); PULSES].map(|()| bits.take(3));
            SubFrame { lag, gain, pulses: Pulses { grid, highest, codes } }
        });
        Some(Self { ratios, quarters })
    }
}
