//! A media session of telephony, without I/O.
//!
//! [`Negotiator`] makes and reads session descriptions (RFC 3264) and ends with a [`Stream`]: what both
//! ends have agreed on. A [`Session`] carries that stream: sound in, datagrams out, and back.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod ear;
mod negotiation;
mod session;
pub mod tone;

pub use codec::{Codec, Resampler};
pub use negotiation::{Negotiator, Random, Refusal, Security, Stream, Wishes};
pub use session::{Heard, Seed, Session, Statistics};
