#![doc = include_str!("../README.md")]
//!
//! ## Contents
//!
//! - [`B2bua`]: the engine. Its inputs are messages with their flows and times, and timers. Its
//!   outputs are messages ([`B2bua::poll_transmit`]), events ([`B2bua::poll_event`]) and the time
//!   of its next timer.
//! - [`Config`]: the configuration.
//!
//! Session descriptions pass, each with an origin of its leg. A media relay is the matter of the
//! proxy.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod b2bua;
mod bridge;
mod config;
mod decision;
mod digits;
mod ending;
mod event;
mod failover;
mod fields;
mod leg_digits;
mod loss;
mod origin;
mod passing;
mod question;
mod report;
mod session;
mod setup;
mod trunk;
mod trunk_use;

pub use b2bua::{B2bua, Counters};
pub use config::Config;
pub use ending::UnknownCall;
pub use event::Event;
pub use fields::{NO_MINUTES_REASON, TOO_LONG_REASON};
pub use question::{Decision, DecisionTerms, Fallback, Question};
pub use report::CallReport;
pub use sip_ua::{InfoDigit, Password, RequestId, Transmit};
pub use trunk::{Trunk, TrunkAccount, TrunkFrom};
pub use {sip, sip_ua};
