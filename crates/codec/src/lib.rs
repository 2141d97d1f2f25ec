//! Audio codecs of telephony, without I/O: samples of 16 bits become payloads of RTP, and back.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

use alloc::vec::Vec;
use audio_codec_algorithms::{decode_alaw, decode_ulaw, encode_alaw, encode_ulaw};

/// A codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Codec {
    /// G.711, mu-law.
    Pcmu,
    /// G.711, A-law.
    Pcma,
}

impl Codec {
    /// Every codec, in the order in which they are offered.
    pub const ALL: [Self; 2] = [Self::Pcmu, Self::Pcma];

    /// The encoding's name in `a=rtpmap`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pcmu => "PCMU",
            Self::Pcma => "PCMA",
        }
    }

    /// Units of RTP's timestamp in a second.
    #[must_use]
    pub const fn clock_rate(self) -> u32 {
        8000
    }

    /// Samples in a second.
    #[must_use]
    pub const fn sample_rate(self) -> u32 {
        8000
    }

    /// The payload type that RFC 3551 gives it, if any.
    #[must_use]
    pub const fn static_payload_type(self) -> Option<u8> {
        match self {
            Self::Pcmu => Some(0),
            Self::Pcma => Some(8),
        }
    }

    /// The codec of this encoding name, in any case, and clock rate.
    #[must_use]
    pub fn named(name: &str, clock_rate: u32) -> Option<Self> {
        let is_it = |codec: &Self| {
            codec.name().eq_ignore_ascii_case(name) && codec.clock_rate() == clock_rate
        };
        Self::ALL.into_iter().find(is_it)
    }
}

/// Makes payloads of samples.
#[derive(Clone, Debug)]
pub struct Encoder {
    codec: Codec,
}

impl Encoder {
    /// One for `codec`.
    #[must_use]
    pub const fn new(codec: Codec) -> Self {
        Self { codec }
    }

    /// Appends the payload of `samples` to `out`.
    pub fn encode(&mut self, samples: &[i16], out: &mut Vec<u8>) {
        match self.codec {
            Codec::Pcmu => out.extend(samples.iter().map(|&sample| encode_ulaw(sample))),
            Codec::Pcma => out.extend(samples.iter().map(|&sample| encode_alaw(sample))),
        }
    }
}

/// Makes samples of payloads.
#[derive(Clone, Debug)]
pub struct Decoder {
    codec: Codec,
}

impl Decoder {
    /// One for `codec`.
    #[must_use]
    pub const fn new(codec: Codec) -> Self {
        Self { codec }
    }

    /// Appends the samples of `payload` to `out`.
    pub fn decode(&mut self, payload: &[u8], out: &mut Vec<i16>) {
        match self.codec {
            Codec::Pcmu => out.extend(payload.iter().map(|&byte| decode_ulaw(byte))),
            Codec::Pcma => out.extend(payload.iter().map(|&byte| decode_alaw(byte))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_comes_back_within_a_step_of_its_size() {
        for codec in Codec::ALL {
            let samples: Vec<i16> = (i16::MIN..=i16::MAX).step_by(7).collect();
            let (mut payload, mut back) = (Vec::new(), Vec::new());
            Encoder::new(codec).encode(&samples, &mut payload);
            Decoder::new(codec).decode(&payload, &mut back);
            assert_eq!(back.len(), samples.len());
            for (&sample, &decoded) in samples.iter().zip(&back) {
                let error = (i32::from(sample) - i32::from(decoded)).abs();
                let step = 16 + i32::from(sample).abs() / 16;
                assert!(error <= step, "{codec:?} {sample} {decoded}");
            }
        }
    }

    #[test]
    fn names_lead_to_their_codecs() {
        for codec in Codec::ALL {
            assert_eq!(Codec::named(&codec.name().to_lowercase(), 8000), Some(codec));
        }
        assert_eq!(Codec::named("PCMU", 16_000), None);
    }
}
