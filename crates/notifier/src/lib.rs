#![doc = include_str!("../README.md")]
//!
//! ## Contents
//!
//! - [`Notifier`]: the engine. Its inputs are messages with their flows and times, timers and
//!   states. Its outputs are messages ([`Notifier::poll_transmit`]) and the time of its next timer.
//! - [`CallTable`]: the calls of users, by the messages that a proxy forwards.
//! - [`Config`]: the configuration.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod call_table;
mod config;
mod dialog_info;
mod notifier;
mod notify;
mod subscribe;
mod subscription;
mod summary;

pub use call_table::{
    CallStart, CallTable, CallerPlace, Party, Pickup, RetargetedCall, TableLimits,
};
pub use config::Config;
pub use dialog_info::{CallState, Phase};
pub use notifier::{Counters, Notifier};
pub use sip_ua::Transmit;
pub use subscription::Reason;
pub use summary::Messages;
pub use {sip, sip_ua};
