//! A media session of telephony, without I/O.
//!
//! A [`Negotiator`] writes and reads session descriptions (RFC 3264) and returns a [`Stream`], the
//! result of the negotiation. A [`Session`] carries that stream: it turns samples into datagrams
//! and datagrams into samples.
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
pub use session::{Clock, DigitError, Flow, Heard, Seed, Session, SessionError, Statistics};
