//! SIP server and phone without an operating system: machine, network and screen for the engines
//! `sip-server` and `sip-ua`.
//!
//! Everything except the entry point (`bare`, feature `freestanding`) also builds for
//! the host system, where the tests run.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod attachment;
#[cfg(feature = "freestanding")]
pub mod bare;
pub mod dns;
pub mod lock;
pub mod log;
pub mod machine;
pub mod media;
pub mod net;
pub mod nic;
pub mod options;
pub mod phone;
pub mod screen;
pub mod server;
pub mod sntp;
pub mod sound;
#[cfg(feature = "freestanding")]
pub mod start;
pub mod tftp;
pub mod users;
pub mod virtio;
