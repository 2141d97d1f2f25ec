//! The engine of a SIP registrar, redirect server and proxy, without I/O.
//!
//! All threads share a [`Server`], and each thread has a [`Worker`]. The owner passes events and
//! their times to the worker, and finds in an [`Output`] the changes to store, the messages to send
//! on their flows, and the names to look up. [`Worker::next_timer`] returns the time of the next
//! timer.
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

pub use crate::core::config::Config;
pub use crate::core::flow::{Connection, Flow};
pub use crate::core::logins::{AuthName, Logins};
pub use crate::core::output::{Event, Location, Notice, Output, Transmit};
pub use crate::core::payers::Payers;
pub use crate::core::source::Source;
pub use crate::core::ticket::Ticket;
pub use crate::core::timings::{Step, Timing};
pub use crate::core::{config, counters, journal_record, overload};
pub use server::{BindingView, Server};
pub use worker::Worker;
