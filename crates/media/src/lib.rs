//! A media session of telephony, without I/O.
//!
//! [`Negotiator`] makes and reads session descriptions (RFC 3264) and ends with a [`Stream`]: what
//! both ends have agreed on. A [`Session`] carries that stream: sound in, datagrams out, and back.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod delay;
pub mod demultiplex;
pub mod ear;
mod mapper;
mod negotiation;
mod rtcp;
mod session;
pub mod tone;

pub use codec::{Codec, Resampler};
pub use delay::Marks;
pub use mapper::{Mapper, Mapping};
pub use negotiation::{
    ExtendedReports, Negotiator, Random, Refusal, Security, Stream, Wishes, shorten,
};
pub use rtcp::{Channel, ReportSeed};
pub use session::{Clock, Flow, Heard, Seed, Session, Statistics};
