#![doc = include_str!("../README.md")]
//!
//! ## Contents
//!
//! - [`Codec`]: its names and numbers in SDP and RTP.
//! - [`Encoder`] and [`Decoder`]: samples to payloads and back. The decoder conceals lost payloads.
//! - [`Resampler`]: conversion of the sample rate.
//!
//! The time to encode and to decode 20 ms on one core of a server of 2026, in microseconds
//! (`benches/codecs.rs`): Opus 270 and 17, a quarter and a half of that at 8 kHz, G.722 40 and 38,
//! G.726 26 and 22, GSM 17 and 4, G.711 less than 1. Concealment takes 10 to 35.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod comfort_noise;
mod concealment;
mod g722;
mod g726;
mod gsm;
#[cfg(feature = "opus")]
mod opus;
mod resampler;
mod saturate;

pub use resampler::Resampler;

use alloc::boxed::Box;
use alloc::vec::Vec;
use audio_codec_algorithms::{decode_alaw, decode_ulaw, encode_alaw, encode_ulaw};
use comfort_noise::ComfortNoise;
use concealment::Concealment;
use g726::Packing;

/// An audio codec.
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
    /// GSM 06.10, full rate.
    Gsm,
    /// G.726 at 32 kbit/s, packed as in RFC 3551.
    G726,
    /// G.726 at 32 kbit/s, packed as in ATM.
    Aal2G726,
}

impl Codec {
    /// All codecs, in the order of offers.
    pub const ALL: &[Self] = &[
        #[cfg(feature = "opus")]
        Self::Opus,
        Self::G722,
        Self::Pcmu,
        Self::Pcma,
        Self::Gsm,
        Self::G726,
        Self::Aal2G726,
    ];

    /// Returns true if the codec is worth offering by default. Peers that support none of these are
    /// rare.
    #[must_use]
    pub const fn is_offered_by_default(self) -> bool {
        !matches!(self, Self::Gsm | Self::G726 | Self::Aal2G726)
    }

    /// The encoding name in `a=rtpmap`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            #[cfg(feature = "opus")]
            Self::Opus => "opus",
            Self::G722 => "G722",
            Self::Pcmu => "PCMU",
            Self::Pcma => "PCMA",
            Self::Gsm => "GSM",
            Self::G726 => "G726-32",
            Self::Aal2G726 => "AAL2-G726-32",
        }
    }

    /// The RTP clock rate in Hz. That of G.722 is half its sample rate (RFC 3551 section 4.5.2),
    /// that of Opus is always 48 kHz (RFC 7587 section 4.1).
    #[must_use]
    pub const fn clock_rate(self) -> u32 {
        match self {
            #[cfg(feature = "opus")]
            Self::Opus => 48_000,
            _ => 8000,
        }
    }

    /// The sample rate of encoder and decoder in Hz.
    #[must_use]
    pub const fn sample_rate(self) -> u32 {
        match self {
            #[cfg(feature = "opus")]
            Self::Opus => opus::SAMPLE_RATE,
            Self::G722 => 16_000,
            _ => 8000,
        }
    }

    /// The sample rate of the codec that suits sound of `rate` samples per second best: the Opus
    /// codec also has 8000, the others have one rate.
    #[must_use]
    pub const fn sample_rate_for(self, rate: u32) -> u32 {
        let _ = rate;
        match self {
            #[cfg(feature = "opus")]
            Self::Opus if rate <= opus::NARROW_RATE => opus::NARROW_RATE,
            _ => self.sample_rate(),
        }
    }

    /// The number of channels in `a=rtpmap`. Encoder and decoder have one channel.
    #[must_use]
    pub const fn channels(self) -> u8 {
        match self {
            #[cfg(feature = "opus")]
            Self::Opus => 2,
            _ => 1,
        }
    }

    /// The value of `a=fmtp`, if any.
    #[must_use]
    pub const fn format_parameters(self) -> Option<&'static str> {
        match self {
            #[cfg(feature = "opus")]
            Self::Opus => Some(opus::PARAMETERS),
            _ => None,
        }
    }

    /// The number of samples in a packet of 20 ms.
    #[must_use]
    pub const fn frame_samples(self) -> usize {
        self.sample_rate() as usize / 50
    }

    /// The maximum number of samples of a payload of `length` bytes.
    #[must_use]
    pub const fn max_samples(self, length: usize) -> usize {
        let most = match self {
            #[cfg(feature = "opus")]
            Self::Opus => opus::MAX_SAMPLES,
            Self::G722 | Self::G726 | Self::Aal2G726 => 2 * length,
            Self::Pcmu | Self::Pcma => length,
            Self::Gsm => length / gsm::BYTES * gsm::SAMPLES,
        };
        // An undecodable payload is concealed by a frame.
        if most < self.frame_samples() { self.frame_samples() } else { most }
    }

    /// The duration of `payload` in units of [`Codec::clock_rate`]. `None` if it is no payload of
    /// the codec.
    #[must_use]
    pub fn units(self, payload: &[u8]) -> Option<u32> {
        let length = u32::try_from(payload.len()).ok()?;
        let units = match self {
            #[cfg(feature = "opus")]
            Self::Opus => opus::units(payload)?,
            // At 64 kbit/s a unit of 8 kHz has one byte.
            Self::G722 | Self::Pcmu | Self::Pcma => length,
            Self::G726 | Self::Aal2G726 => 2 * length,
            Self::Gsm => length / gsm::BYTES as u32 * gsm::SAMPLES as u32,
        };
        (units > 0).then_some(units)
    }

    /// The static payload type of RFC 3551, if any.
    #[must_use]
    pub const fn static_payload_type(self) -> Option<u8> {
        match self {
            Self::Pcmu => Some(0),
            Self::Gsm => Some(3),
            Self::Pcma => Some(8),
            Self::G722 => Some(9),
            // Payload type 2 was used for G.726 in either packing (RFC 3551 section 6).
            _ => None,
        }
    }

    /// The codec with this encoding name (case-insensitive) and clock rate.
    #[must_use]
    pub fn from_encoding_name(name: &str, clock_rate: u32) -> Option<Self> {
        let is_it = |codec: &Self| {
            codec.name().eq_ignore_ascii_case(name) && codec.clock_rate() == clock_rate
        };
        Self::ALL.iter().copied().find(is_it)
    }
}

/// An encoder of samples to payloads.
#[derive(Debug)]
pub struct Encoder(Encodes);

#[derive(Debug)]
enum Encodes {
    #[cfg(feature = "opus")]
    Opus(Box<opus::Encoder>),
    G722(Box<g722::Encoder>),
    Pcmu,
    Pcma,
    Gsm(Box<gsm::Encoder>),
    G726(Box<g726::Encoder>),
}

impl Encoder {
    /// Creates an encoder.
    #[must_use]
    pub fn new(codec: Codec) -> Self {
        Self::with_rate(codec, codec.sample_rate())
    }

    /// Creates an encoder for sound that had `rate` samples per second in another codec. Its own
    /// rate is [`Codec::sample_rate_for`]. The Opus encoder takes a quarter of the time at 8000.
    #[must_use]
    pub fn with_rate(codec: Codec, rate: u32) -> Self {
        let _ = rate;
        Self(match codec {
            #[cfg(feature = "opus")]
            Codec::Opus => Encodes::Opus(Box::new(opus::Encoder::new(codec.sample_rate_for(rate)))),
            Codec::G722 => Encodes::G722(Box::default()),
            Codec::Pcmu => Encodes::Pcmu,
            Codec::Pcma => Encodes::Pcma,
            Codec::Gsm => Encodes::Gsm(Box::default()),
            Codec::G726 => Encodes::G726(Box::new(g726::Encoder::new(Packing::Little))),
            Codec::Aal2G726 => Encodes::G726(Box::new(g726::Encoder::new(Packing::Big))),
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
            Encodes::Gsm(encoder) => encoder.encode(samples, out),
            Encodes::G726(encoder) => encoder.encode(samples, out),
        }
    }
}

/// A decoder of payloads to samples, with concealment of lost payloads.
///
/// Opus has its own concealment. All other codecs use ITU-T G.711 appendix I, which delays their
/// output by 3.75 ms.
#[derive(Debug)]
pub struct Decoder {
    decodes: Decodes,
    /// The concealment of a codec without its own.
    concealment: Option<Concealment>,
    noise: ComfortNoise,
    /// True while the other end is silent and comfort noise is played.
    is_silent: bool,
    /// The number of samples in 20 ms.
    frame: usize,
}

#[derive(Debug)]
enum Decodes {
    #[cfg(feature = "opus")]
    Opus(Box<opus::Decoder>),
    G722(Box<g722::Decoder>),
    Pcmu,
    Pcma,
    Gsm(Box<gsm::Decoder>),
    G726(Box<g726::Decoder>),
}

impl Decoder {
    /// Creates a decoder.
    #[must_use]
    pub fn new(codec: Codec) -> Self {
        Self::with_rate(codec, codec.sample_rate())
    }

    /// Creates a decoder for an encoder with `rate` samples per second. Its own rate is
    /// [`Codec::sample_rate_for`].
    #[must_use]
    pub fn with_rate(codec: Codec, rate: u32) -> Self {
        let rate = codec.sample_rate_for(rate);
        let decodes = match codec {
            #[cfg(feature = "opus")]
            Codec::Opus => Decodes::Opus(Box::new(opus::Decoder::new(rate))),
            Codec::G722 => Decodes::G722(Box::default()),
            Codec::Pcmu => Decodes::Pcmu,
            Codec::Pcma => Decodes::Pcma,
            Codec::Gsm => Decodes::Gsm(Box::default()),
            Codec::G726 => Decodes::G726(Box::new(g726::Decoder::new(Packing::Little))),
            Codec::Aal2G726 => Decodes::G726(Box::new(g726::Decoder::new(Packing::Big))),
        };
        let concealment = match &decodes {
            #[cfg(feature = "opus")]
            Decodes::Opus(_) => None,
            _ => Some(Concealment::new(rate)),
        };
        let (noise, frame) = (ComfortNoise::new(), rate as usize / 50);
        Self { decodes, concealment, noise, is_silent: false, frame }
    }

    /// Appends the samples of `payload` to `out`. An undecodable payload is concealed by 20 ms.
    pub fn decode(&mut self, payload: &[u8], out: &mut Vec<i16>) {
        let start = out.len();
        self.is_silent = false;
        match &mut self.decodes {
            #[cfg(feature = "opus")]
            Decodes::Opus(decoder) => decoder.decode(payload, out),
            Decodes::G722(decoder) => decoder.decode(payload, out),
            Decodes::Pcmu => out.extend(payload.iter().map(|&byte| decode_ulaw(byte))),
            Decodes::Pcma => out.extend(payload.iter().map(|&byte| decode_alaw(byte))),
            Decodes::Gsm(decoder) => decoder.decode(payload, out),
            Decodes::G726(decoder) => decoder.decode(payload, out),
        }
        if out.len() == start {
            self.conceal(out);
        } else if let Some(concealment) = &mut self.concealment {
            concealment.pass(&mut out[start..]);
        }
    }

    /// Appends 20 ms of comfort noise, as described by the payload `description` (RFC 3389). Until
    /// the next audio payload, comfort noise replaces missing payloads.
    pub fn decode_comfort_noise(&mut self, description: &[u8], out: &mut Vec<i16>) {
        self.noise.describe(description);
        self.is_silent = true;
        self.conceal(out);
    }

    /// Returns true if the other end has announced silence, so that missing payloads are not lost.
    #[must_use]
    pub const fn is_silent(&self) -> bool {
        self.is_silent
    }

    /// Appends 20 ms that conceal a lost payload.
    pub fn conceal(&mut self, out: &mut Vec<i16>) {
        self.conceal_samples(self.frame, out);
    }

    /// Appends `count` samples that conceal a lost payload. The signal continues without a step if
    /// `count` is a multiple of 10 ms.
    pub fn conceal_samples(&mut self, count: usize, out: &mut Vec<i16>) {
        let start = out.len();
        if self.is_silent {
            self.noise.fill(count, out);
            if let Some(concealment) = &mut self.concealment {
                concealment.pass(&mut out[start..]);
            }
            return;
        }
        while out.len() < start + count {
            match (&mut self.decodes, &mut self.concealment) {
                #[cfg(feature = "opus")]
                (Decodes::Opus(decoder), _) => decoder.conceal(start + count - out.len(), out),
                (_, Some(concealment)) => concealment.conceal(out),
                (_, None) => out.resize(start + count, 0),
            }
        }
        out.truncate(start + count);
    }

    /// Appends `count` samples that replace a lost payload. `next` is the payload after it: an Opus
    /// payload may contain a redundant copy of the previous one (FEC). Without a copy, works as
    /// [`Decoder::conceal_samples`].
    pub fn recover(&mut self, next: &[u8], count: usize, out: &mut Vec<i16>) {
        match &mut self.decodes {
            #[cfg(feature = "opus")]
            Decodes::Opus(decoder) if !self.is_silent && count == self.frame => {
                decoder.recover(next, out);
            }
            _ => {
                let _ = next;
                self.conceal_samples(count, out);
            }
        }
    }
}

/// Reads a file of the corpora. Returns `None` if they are not installed.
#[cfg(test)]
fn corpus(file: &str) -> Option<Vec<u8>> {
    let path = test_support::corpora()?.join(file);
    Some(std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests;
