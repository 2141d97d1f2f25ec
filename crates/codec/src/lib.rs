//! Audio codecs of telephony, without I/O: samples of 16 bits become payloads of RTP, and back.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod g722;
#[cfg(feature = "opus")]
mod opus;
mod resampler;

pub use resampler::Resampler;

use alloc::boxed::Box;
use alloc::vec::Vec;
use audio_codec_algorithms::{decode_alaw, decode_ulaw, encode_alaw, encode_ulaw};

/// A codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Codec {
    /// Opus for speech: one channel, wideband.
    #[cfg(feature = "opus")]
    Opus,
    /// G.722 at 64 kbit/s.
    G722,
    /// G.711, mu-law.
    Pcmu,
    /// G.711, A-law.
    Pcma,
}

impl Codec {
    /// Every codec, in the order in which they are offered.
    pub const ALL: &[Self] = &[
        #[cfg(feature = "opus")]
        Self::Opus,
        Self::G722,
        Self::Pcmu,
        Self::Pcma,
    ];

    /// The encoding's name in `a=rtpmap`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            #[cfg(feature = "opus")]
            Self::Opus => "opus",
            Self::G722 => "G722",
            Self::Pcmu => "PCMU",
            Self::Pcma => "PCMA",
        }
    }

    /// Units of RTP's timestamp in a second. Of G.722 they are half its samples (RFC 3551 section 4.5.2), of Opus
    /// always those of 48 kHz (RFC 7587 section 4.1).
    #[must_use]
    pub const fn clock_rate(self) -> u32 {
        match self {
            #[cfg(feature = "opus")]
            Self::Opus => 48_000,
            Self::G722 | Self::Pcmu | Self::Pcma => 8000,
        }
    }

    /// Samples in a second, of what is encoded and decoded.
    #[must_use]
    pub const fn sample_rate(self) -> u32 {
        match self {
            #[cfg(feature = "opus")]
            Self::Opus => opus::SAMPLE_RATE,
            Self::G722 => 16_000,
            Self::Pcmu | Self::Pcma => 8000,
        }
    }

    /// Its channels, as `a=rtpmap` has them; what is encoded and decoded here has one.
    #[must_use]
    pub const fn channels(self) -> u8 {
        match self {
            #[cfg(feature = "opus")]
            Self::Opus => 2,
            Self::G722 | Self::Pcmu | Self::Pcma => 1,
        }
    }

    /// What `a=fmtp` says of it, if anything.
    #[must_use]
    pub const fn parameters(self) -> Option<&'static str> {
        match self {
            #[cfg(feature = "opus")]
            Self::Opus => Some(opus::PARAMETERS),
            Self::G722 | Self::Pcmu | Self::Pcma => None,
        }
    }

    /// Samples in a frame of 20 ms, which a packet holds.
    #[must_use]
    pub const fn frame_samples(self) -> usize {
        self.sample_rate() as usize / 50
    }

    /// The most samples that a payload of `length` bytes can make.
    #[must_use]
    pub const fn max_samples(self, length: usize) -> usize {
        match self {
            #[cfg(feature = "opus")]
            Self::Opus => opus::MAX_SAMPLES,
            Self::G722 => 2 * length,
            Self::Pcmu | Self::Pcma => length,
        }
    }

    /// The payload type that RFC 3551 gives it, if any.
    #[must_use]
    pub const fn static_payload_type(self) -> Option<u8> {
        match self {
            Self::Pcmu => Some(0),
            Self::Pcma => Some(8),
            Self::G722 => Some(9),
            #[cfg(feature = "opus")]
            Self::Opus => None,
        }
    }

    /// The codec of this encoding name, in any case, and clock rate.
    #[must_use]
    pub fn named(name: &str, clock_rate: u32) -> Option<Self> {
        let is_it = |codec: &Self| {
            codec.name().eq_ignore_ascii_case(name) && codec.clock_rate() == clock_rate
        };
        Self::ALL.iter().copied().find(is_it)
    }
}

/// Makes payloads of samples.
#[derive(Debug)]
pub struct Encoder(Encodes);

#[derive(Debug)]
enum Encodes {
    #[cfg(feature = "opus")]
    Opus(Box<opus::Encoder>),
    G722(Box<g722::Encoder>),
    Pcmu,
    Pcma,
}

impl Encoder {
    /// One for `codec`.
    #[must_use]
    pub fn new(codec: Codec) -> Self {
        Self(match codec {
            #[cfg(feature = "opus")]
            Codec::Opus => Encodes::Opus(Box::default()),
            Codec::G722 => Encodes::G722(Box::default()),
            Codec::Pcmu => Encodes::Pcmu,
            Codec::Pcma => Encodes::Pcma,
        })
    }

    /// Appends the payload of `samples` to `out`.
    pub fn encode(&mut self, samples: &[i16], out: &mut Vec<u8>) {
        match &mut self.0 {
            #[cfg(feature = "opus")]
            Encodes::Opus(encoder) => encoder.encode(samples, out),
            Encodes::G722(encoder) => encoder.encode(samples, out),
            Encodes::Pcmu => out.extend(samples.iter().map(|&sample| encode_ulaw(sample))),
            Encodes::Pcma => out.extend(samples.iter().map(|&sample| encode_alaw(sample))),
        }
    }
}

/// Makes samples of payloads.
#[derive(Debug)]
pub struct Decoder(Decodes);

#[derive(Debug)]
enum Decodes {
    #[cfg(feature = "opus")]
    Opus(Box<opus::Decoder>),
    G722(Box<g722::Decoder>),
    Pcmu,
    Pcma,
}

impl Decoder {
    /// One for `codec`.
    #[must_use]
    pub fn new(codec: Codec) -> Self {
        Self(match codec {
            #[cfg(feature = "opus")]
            Codec::Opus => Decodes::Opus(Box::default()),
            Codec::G722 => Decodes::G722(Box::default()),
            Codec::Pcmu => Decodes::Pcmu,
            Codec::Pcma => Decodes::Pcma,
        })
    }

    /// Appends the samples of `payload` to `out`.
    pub fn decode(&mut self, payload: &[u8], out: &mut Vec<i16>) {
        match &mut self.0 {
            #[cfg(feature = "opus")]
            Decodes::Opus(decoder) => decoder.decode(payload, out),
            Decodes::G722(decoder) => decoder.decode(payload, out),
            Decodes::Pcmu => out.extend(payload.iter().map(|&byte| decode_ulaw(byte))),
            Decodes::Pcma => out.extend(payload.iter().map(|&byte| decode_alaw(byte))),
        }
    }
}

#[cfg(feature = "opus")]
impl Decoder {
    /// Appends 20 ms in the place of a packet that is lost, by `next`, the one after it: Opus' packets hold a copy of
    /// the one before, as good as loss makes it worth. Without a copy, of another codec, the frame is concealed.
    pub fn recover(&mut self, next: &[u8], out: &mut Vec<i16>) {
        if let Decodes::Opus(decoder) = &mut self.0 {
            decoder.recover(next, out);
        }
    }
}

/// As 16 bits hold it.
const fn saturate(value: i32) -> i32 {
    if value > i16::MAX as i32 {
        i16::MAX as i32
    } else if value < i16::MIN as i32 {
        i16::MIN as i32
    } else {
        value
    }
}

/// A file of the corpora; `None` where there are none.
#[cfg(test)]
fn corpus(file: &str) -> Option<std::vec::Vec<u8>> {
    let path = test_support::corpora()?.join(file);
    Some(std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests;
