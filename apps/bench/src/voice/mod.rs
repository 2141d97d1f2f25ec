//! Calls with media: a load of simultaneous calls in which the callees return the audio, and the
//! measurements on it.
//!
//! A worker is a thread with both ends of its calls. The signalling and the negotiation are those
//! of the crate `call`. The packets are written here, from audio that is encoded beforehand: so the
//! cost of codecs does not limit the load.

mod air;
mod comparison;
mod end;
mod error;
pub(crate) mod fault;
mod found;
mod headroom;
mod line;
mod link;
pub(crate) mod plan;
mod reception;
mod run;
mod side;
mod signal;
#[cfg(test)]
mod tests;
mod web;
mod worker;

pub(crate) use found::Found;
pub(crate) use headroom::headroom;
pub(crate) use plan::{Callees, CodecName, MediaKind, Pair, Plan, Protection};
pub(crate) use run::{VoiceError, run, run_after};
