//! GSM 06.10 full rate: 160 samples in 33 bytes (RFC 3551 section 4.5.8). Tables and values have
//! the names of the recommendation.

mod fixed_point;
mod frame;
mod long_term;
mod pulses;
mod short_term;

pub(crate) use fixed_point::SAMPLES;
pub(crate) use frame::BYTES;

use crate::saturate::saturate;
use alloc::vec::Vec;
use fixed_point::{QUARTER, product};
use frame::{Frame, SubFrame};
use long_term::Past;
use short_term::{Analysis, Synthesis};

/// Encodes samples as frames.
#[derive(Clone, Debug, Default)]
pub(crate) struct Encoder {
    /// The state of offset compensation and pre-emphasis.
    last: i32,
    offset: i32,
    emphasis: i32,
    analysis: Analysis,
    past: Past,
}

impl Encoder {
    /// Encodes whole frames. Remaining samples are ignored.
    pub(crate) fn encode(&mut self, samples: &[i16], out: &mut Vec<u8>) {
        for samples in samples.as_chunks::<SAMPLES>().0 {
            out.extend(self.frame(samples).pack());
        }
    }

    fn frame(&mut self, samples: &[i16; SAMPLES]) -> Frame {
        let mut signal = samples.map(|sample| self.prepare(sample.into()));
        let ratios = short_term::ratios(&mut signal);
        self.analysis.filter(&ratios, &mut signal);
        let mut quarters = [SubFrame::default(); 4];
        for (residual, quarter) in signal.as_chunks::<QUARTER>().0.iter().zip(&mut quarters) {
            let (lag, gain) = self.past.find(residual);
            let prediction = self.past.predict(lag, gain);
            let mut error = *residual;
            for (error, predicted) in error.iter_mut().zip(prediction) {
                *error = saturate(*error - predicted);
            }
            let pulses = pulses::choose(&error);
            self.past.keep(&pulses.restore(), &prediction);
            *quarter = SubFrame { lag: lag as u8, gain: gain as u8, pulses };
        }
        Frame { ratios, quarters }
    }

    /// Offset compensation and pre-emphasis of a sample (sections 5.2.1 to 5.2.3).
    fn prepare(&mut self, sample: i32) -> i32 {
        let sample = (sample >> 3) << 2;
        let change = sample - self.last;
        self.last = sample;
        let (high, low) = (self.offset >> 15, self.offset & 0x7fff);
        let sum = (change << 15) + product(low, 32_735);
        self.offset = (high * 32_735).saturating_add(sum);
        let emphasis = product(self.emphasis, -28_180);
        self.emphasis = self.offset.saturating_add(16_384) >> 15;
        saturate(self.emphasis + emphasis)
    }
}

/// Decodes frames to samples.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decoder {
    past: Past,
    lag: usize,
    synthesis: Synthesis,
    emphasis: i32,
}

impl Decoder {
    /// Decodes frames. A frame without signature is ignored.
    pub(crate) fn decode(&mut self, payload: &[u8], out: &mut Vec<i16>) {
        for bytes in payload.as_chunks::<BYTES>().0 {
            if let Some(frame) = Frame::unpack(bytes) {
                out.extend(self.frame(&frame));
            }
        }
    }

    fn frame(&mut self, frame: &Frame) -> [i16; SAMPLES] {
        let mut signal = [0; SAMPLES];
        let residuals = signal.as_chunks_mut::<QUARTER>().0;
        for (quarter, residual) in frame.quarters.iter().zip(residuals) {
            let lag = usize::from(quarter.lag);
            if (long_term::SHORTEST..=long_term::LONGEST).contains(&lag) {
                self.lag = lag;
            }
            let lag = self.lag.max(long_term::SHORTEST);
            let prediction = self.past.predict(lag, quarter.gain.into());
            *residual = self.past.keep(&quarter.pulses.restore(), &prediction);
        }
        self.synthesis.filter(&frame.ratios, &mut signal);
        signal.map(|sample| {
            self.emphasis = saturate(sample + product(self.emphasis, 28_180));
            (saturate(2 * self.emphasis) & !7) as i16
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::noise;

    /// The FNV-1a hash.
    fn hash(bytes: impl IntoIterator<Item = u8>) -> u64 {
        let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, step)
    }

    #[test]
    fn frames_and_samples_match_libgsm() {
        let mut random = noise(9);
        let mut value = 0;
        let samples = (0..50 * SAMPLES as i32).map(|place| {
            value = ((value * 15) >> 4) + (i32::from(random()) - 128) * (4 + place / 400 * 3);
            saturate(value) as i16
        });
        let samples: Vec<i16> = samples.collect();
        let (mut frames, mut back) = (Vec::new(), Vec::new());
        Encoder::default().encode(&samples, &mut frames);
        Decoder::default().decode(&frames, &mut back);
        assert_eq!((frames.len(), back.len()), (50 * BYTES, 50 * SAMPLES));
        // The result of libgsm 1.0.22 for the same samples.
        assert_eq!(hash(frames), 0xc44d_21d4_c20e_0e72);
        assert_eq!(
            hash(back.iter().flat_map(|sample| sample.to_le_bytes())),
            0x13cb_b042_1cc2_aaf8
        );
    }
}
