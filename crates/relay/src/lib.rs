#![doc = include_str!("../README.md")]
//!
//! ## Contents
//!
//! - [`Relay`]: the relayed calls. It rewrites their session descriptions.
//! - [`Stream`]: one medium of a call. It processes packets.
//! - [`Host`]: the interface to the owner of the ports.
//! - [`frame`]: the rewrite of plain packets in their frames.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod account;
mod announcement;
mod bandwidth;
mod call;
mod calls;
mod codec;
mod description;
mod digits;
#[cfg(feature = "forks")]
mod early;
mod end;
mod error;
mod feedback;
pub mod frame;
mod host;
#[cfg_attr(not(feature = "web"), allow(unreachable_code))]
mod keying;
mod leg;
mod limits;
mod message_ends;
mod pairs;
mod passage;
mod profile;
mod relay;
mod report;
mod side;
mod statistics;
mod stream;
#[cfg(test)]
mod tests;
mod transcode;
mod web;

pub use ::codec::Codec;
pub use bandwidth::Bandwidth;
pub use call::Attachment;
pub use calls::{Calls, Selection};
pub use description::reject;
pub use digits::{Digit, Pressed};
pub use end::{End, EndReport, Keying};
pub use error::{Drop, RelayError};
pub use host::{Host, NoPort, Ports};
pub use limits::{Limits, Refusals};
pub use media::Channel;
pub use pairs::{PORTS_PER_STREAM, Pairs, PortRange, PortRangeError};
pub use passage::{Passage, Role};
pub use profile::{MuxAnswer, MuxOffer, MuxRules};
pub use relay::Relay;
pub use report::CallReport;
pub use side::Side;
pub use statistics::{Direction, Reported, Rewrites};
pub use stream::{Relayed, Stream, Way};
pub use transcode::{CodecRules, Conversions};
pub use web::{WebFault, is_from_browser};
pub use {media, rtp, sdp, srtp};
