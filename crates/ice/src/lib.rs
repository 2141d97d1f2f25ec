#![doc = include_str!("../README.md")]
//!
//! ## Contents
//!
//! - [`LiteAgent`]: the agent of one medium.
//! - [`Credentials`]: the user fragment and the password of one end.
//! - [`called_ufrag`]: the agent that a check is for.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod credentials;
mod lite;

pub use credentials::Credentials;
pub use lite::{CONSENT, CheckOutcome, LiteAgent, called_ufrag};
pub use stun;
