//! The engine of a SIP registrar, redirect server and proxy, without I/O.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod config;
pub mod flow;
pub mod output;
pub mod record;

pub use config::Config;
pub use flow::{Connection, Flow, Transport};
pub use output::{Event, Output, Transmit};
