#![doc = include_str!("../README.md")]
//!
//! ## Contents
//!
//! - [`Negotiator`]: writes and reads session descriptions. Its result is a [`Stream`].
//! - [`Session`]: carries a stream. It turns samples into datagrams and datagrams into samples.
//! - [`Mapper`]: the public address of a socket behind a NAT, by STUN.
//! - [`demultiplex`]: the protocol of a datagram (RFC 7983).
//! - [`audio_meter`], [`tone`], [`Marks`]: measurements of received audio: levels, tones, delay.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod audio_meter;
mod delay;
pub mod demultiplex;
mod error;
mod keying;
mod mapper;
mod negotiation;
mod packet_path;
mod rtcp;
mod session;
pub mod tone;

pub use codec::{Codec, Resampler};
pub use delay::Marks;
pub use error::{DigitError, SendError, SessionError};
pub use keying::{DtlsPeer, KeyAgreement, Keying};
pub use mapper::{Mapper, Mapping};
pub use negotiation::{
    ExtendedReports, MediaConfig, Negotiator, Random, Refusal, Security, Stream, shorten,
};
pub use packet_path::{PacketPath, PathError};
pub use rtcp::{Channel, ReportSeed};
pub use session::{AudioFlow, Clock, Received, Seed, Session, Statistics};
pub use {codec, sdp, srtp, zeroize};
