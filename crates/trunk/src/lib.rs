#![doc = include_str!("../README.md")]
//!
//! ## Contents
//!
//! - [`Registry`]: the engine. Its inputs are responses, located servers, failed calls, and timers.
//!   Its outputs are messages ([`Registry::poll_transmit`]), events ([`Registry::poll_event`]) and
//!   the time of its next timer.
//! - [`TrunkConfig`], [`AccountConfig`]: the configuration.
//! - [`TrunkView`]: the target of a trunk and the marks of its requests.
//! - [`TrunkReport`]: the state with the last reasons, for the operator.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod account;
mod config;
mod event;
mod place;
mod random;
mod registry;
mod report;
mod trunk;
mod words;

pub use config::{AccountConfig, TrunkConfig};
pub use event::{Event, Notice, Ticket};
pub use registry::{Counters, Registry};
pub use report::{AccountReport, PlaceReport, State, TrunkReport, TrunkView};
pub use sip_ua::{Location, Password, Transmit};
pub use {sip, sip_ua};
