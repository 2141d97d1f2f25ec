//! SIP server and phone that need no operating system: the machine, the network and the screen
//! under the engines `sip-server` and `sip-ua`.
//!
//! Everything here but the way in ([`machine::bare`], feature `freestanding`) also builds for the
//! system that tests run on.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod dns;
pub mod lock;
pub mod log;
pub mod machine;
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
