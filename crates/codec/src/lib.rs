//! Audio codecs of telephony, without I/O: samples of 16 bits become payloads of RTP, and back.
//!
//! What 20 ms cost to encode and to decode on one core of a server of 2026, in microseconds
//! (`benches/codecs.rs`): Opus 270 and 17, G.722 40 and 38, G.726 26 and 22, GSM 17 and 4, G.711
//! less than 1. To conceal them costs 10 to 35.
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
    /// GSM 06.10, full rate.
    Gsm,
    /// G.726 at 32 kbit/s, packed as RFC 3551 says.
    G726,
    /// The same, packed as ATM does.
    Aal2G726,
}

impl Codec {
    /// Every codec, in the order in which they are offered.
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

    /// Whether it is worth while to offer it: somebody who has none of these is rare.
    #[must_use]
    pub const fn is_usual(self) -> bool {
        !matches!(self, Self::Gsm | Self::G726 | Self::Aal2G726)
    }

    /// The encoding's name in `a=rtpmap`.
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

    /// Units of RTP's timestamp in a second. Of G.722 they are half its samples (RFC 3551 section
    /// 4.5.2), of Opus always those of 48 kHz (RFC 7587 section 4.1).
    #[must_use]
    pub const fn clock_rate(self) -> u32 {
        match self {
            #[cfg(feature = "opus")]
            Self::Opus => 48_000,
            _ => 8000,
        }
    }

    /// Samples in a second, of what is encoded and decoded.
    #[must_use]
    pub const fn sample_rate(self) -> u32 {
        match self {
            #[cfg(feature = "opus")]
            Self::Opus => opus::SAMPLE_RATE,
            Self::G722 => 16_000,
            _ => 8000,
        }
    }

    /// Its channels, as `a=rtpmap` has them; what is encoded and decoded here has one.
    #[must_use]
    pub const fn channels(self) -> u8 {
        match self {
            #[cfg(feature = "opus")]
            Self::Opus => 2,
            _ => 1,
        }
    }

    /// What `a=fmtp` says of it, if anything.
    #[must_use]
    pub const fn parameters(self) -> Option<&'static str> {
        match self {
            #[cfg(feature = "opus")]
            Self::Opus => Some(opus::PARAMETERS),
            _ => None,
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
        let most = match self {
            #[cfg(feature = "opus")]
            Self::Opus => opus::MAX_SAMPLES,
            Self::G722 | Self::G726 | Self::Aal2G726 => 2 * length,
            Self::Pcmu | Self::Pcma => length,
            Self::Gsm => length / gsm::BYTES * gsm::SAMPLES,
        };
        // What is none is made up for.
        if most < self.frame_samples() { self.frame_samples() } else { most }
    }

    /// The payload type that RFC 3551 gives it, if any.
    #[must_use]
    pub const fn static_payload_type(self) -> Option<u8> {
        match self {
            Self::Pcmu => Some(0),
            Self::Gsm => Some(3),
            Self::Pcma => Some(8),
            Self::G722 => Some(9),
            // Payload type 2 was G.726's once, in either packing (RFC 3551 section 6).
            _ => None,
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
    Gsm(Box<gsm::Encoder>),
    G726(Box<g726::Encoder>),
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

/// Makes samples of payloads, and makes up for payloads that are lost.
///
/// Opus conceals loss itself. All others do as ITU-T G.711 Appendix I says, for which their sound
/// comes 3.75 ms later.
#[derive(Debug)]
pub struct Decoder {
    decodes: Decodes,
    /// Of a codec that has none of its own.
    concealment: Option<Concealment>,
    noise: ComfortNoise,
    /// Whether the other end is silent, and noise is heard.
    is_silent: bool,
    /// Samples in 20 ms.
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
    /// One for `codec`.
    #[must_use]
    pub fn new(codec: Codec) -> Self {
        let decodes = match codec {
            #[cfg(feature = "opus")]
            Codec::Opus => Decodes::Opus(Box::default()),
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
            _ => Some(Concealment::new(codec.sample_rate())),
        };
        let (noise, frame) = (ComfortNoise::new(), codec.frame_samples());
        Self { decodes, concealment, noise, is_silent: false, frame }
    }

    /// Appends the samples of `payload` to `out`; 20 ms that are made up where it has none.
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

    /// Appends 20 ms of comfort noise, as the payload `description` says (RFC 3389): the other end
    /// is silent, and noise is heard in the place of what is lost until sound comes again.
    pub fn comfort(&mut self, description: &[u8], out: &mut Vec<i16>) {
        self.noise.describe(description);
        self.is_silent = true;
        self.conceal(out);
    }

    /// Whether the other end is silent by its own account, so that what does not come is not lost.
    #[must_use]
    pub const fn is_silent(&self) -> bool {
        self.is_silent
    }

    /// Appends 20 ms in the place of a payload that is lost.
    pub fn conceal(&mut self, out: &mut Vec<i16>) {
        if self.is_silent {
            let start = out.len();
            self.noise.fill(self.frame, out);
            if let Some(concealment) = &mut self.concealment {
                concealment.pass(&mut out[start..]);
            }
            return;
        }
        match (&mut self.decodes, &mut self.concealment) {
            #[cfg(feature = "opus")]
            (Decodes::Opus(decoder), _) => decoder.conceal(out),
            (_, Some(concealment)) => (0..2).for_each(|_| concealment.conceal(out)),
            (_, None) => {}
        }
    }

    /// Appends 20 ms in the place of a payload that is lost, with the help of `next`, the one after
    /// it: Opus' payloads hold a copy of the one before where loss makes it worth that. Else the
    /// same as [`Decoder::conceal`].
    pub fn recover(&mut self, next: &[u8], out: &mut Vec<i16>) {
        if self.is_silent {
            return self.conceal(out);
        }
        match &mut self.decodes {
            #[cfg(feature = "opus")]
            Decodes::Opus(decoder) => decoder.recover(next, out),
            _ => {
                let _ = next;
                self.conceal(out);
            }
        }
    }
}

/// A file of the corpora; `None` where there are none.
#[cfg(test)]
fn corpus(file: &str) -> Option<Vec<u8>> {
    let path = test_support::corpora()?.join(file);
    Some(std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests;
