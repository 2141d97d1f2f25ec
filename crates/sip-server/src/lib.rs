#![doc = include_str!("../README.md")]
//!
//! ## Contents
//!
//! - [`Server`]: users, bindings and transactions, shared by all threads.
//! - [`Worker`]: one thread's part: events in, [`Output`] out. [`Worker::next_timer`] returns the time
//!   of the next timer.
//! - [`config`]: the configuration, with all limits.
//! - [`journal_record`]: the records of bindings that the owner stores and restores.
//! - [`overload`]: the share of new requests that is served under overload.
//! - [`counters`]: counters of messages, errors and processing times.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod admission;
mod authentication;
mod bans;
mod binding;
pub mod config;
mod connections;
mod contacts;
pub mod counters;
mod dialogs;
mod ended;
mod event;
mod flow;
mod gate;
mod gruu;
mod incoming;
pub mod journal_record;
mod keys;
mod known_sources;
mod lines;
mod location;
mod logins;
mod nonce;
mod output;
pub mod overload;
mod past;
mod proxy;
mod rates;
mod reach;
mod registrar;
mod request;
mod server;
mod settings;
mod source;
mod sponsor;
mod timer;
mod timings;
mod worker;

pub use config::Config;
pub use flow::{Connection, Flow};
pub use logins::{AuthName, Logins};
pub use output::{Event, Location, Notice, Output, Ticket, Transmit};
pub use proxy::Payers;
pub use server::{BindingView, Server};
pub use source::Source;
pub use timings::{Step, Timing};
pub use worker::Worker;
pub use {lock_api, sip};
