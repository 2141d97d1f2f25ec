#![doc = include_str!("../README.md")]
//!
//! ## Contents
//!
//! - [`Server`]: users, bindings and transactions, shared by all threads.
//! - [`Worker`]: one thread's part: events in, [`Output`] out. [`Worker::next_timer`] returns the
//!   time of the next timer.
//! - [`config`]: the configuration, with all limits.
//! - [`journal_record`]: the records of bindings that the owner stores and restores.
//! - [`overload`]: the share of new requests that is served under overload.
//! - [`counters`]: counters of messages, errors and processing times.
//!
//! With the feature `metrics`, which is on by default:
//!
//! - `traffic`: requests and responses by method and status, results and delays of sessions.
//! - `histogram`: histograms with fixed bounds.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod core;
mod gate;
mod proxy;
mod registrar;
mod request;
mod server;
mod worker;

pub use crate::core::call_record::{
    CallRecord, LOST_REASON, NO_MINUTES_REASON, Party, Retargeting, TOO_LONG_REASON, Unreached,
    caller_call_id, trunk_of,
};
pub use crate::core::call_services::{CallServices, Group, Strategy};
pub use crate::core::config::Config;
pub use crate::core::flow::{Connection, Flow};
pub use crate::core::joined_calls::JoinedCalls;
pub use crate::core::logins::{AuthName, Logins};
#[cfg(feature = "office")]
pub use crate::core::media_services::{MediaService, MediaServices};
pub use crate::core::numbers::{Caller, Dialed, DialedRefusal, Numbers, TrunkAttempt};
pub use crate::core::output::{Event, Notice, Output, OutputMessage};
#[cfg(feature = "office")]
pub use crate::core::output::{Wake, WakeReason};
pub use crate::core::payers::Payers;
pub use crate::core::source::Source;
pub use crate::core::ticket::Ticket;
pub use crate::core::timings::{Step, Timing};
pub use crate::core::trunks::{TrunkId, TrunkMedia, TrunkTarget, Trunks};
pub use crate::core::watching::{
    CallChange, CallerPlace, RetargetedCall, RingingCall, Watch, WatchedCalls, WatchedParty,
    Watching,
};
pub use crate::core::{config, counters, journal_record, overload};
#[cfg(feature = "metrics")]
pub use crate::core::{histogram, traffic};
#[cfg(feature = "office")]
pub use server::SleepingPhone;
pub use server::{BindingView, Server};
pub use sip::Location;
pub use worker::Worker;
pub use {lock_api, relay, sip};
