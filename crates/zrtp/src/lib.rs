#![doc = include_str!("../README.md")]
//!
//! ## Contents
//!
//! - [`Association`]: one key agreement, as a state machine.
//! - [`Cache`]: the secrets that the owner keeps between calls.
//! - [`HelloHash`]: the value of `a=zrtp-hash`.
//! - [`is_zrtp`]: tells ZRTP from the other packets of a port.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod agreement;
mod algorithm;
mod association;
mod cache;
mod crypto;
mod error;
mod event;
mod hello_hash;
mod keys;
mod message;
mod packet;
mod sas;
#[cfg(test)]
mod vectors;
mod words;

pub use algorithm::{AuthTag, Cipher, Hash, KeyAgreement, Preferences, SasType};
pub use association::{Association, Config};
pub use cache::{Cache, CacheError, Retained, Update, Zid, ZidError};
pub use error::{ErrorCode, Failure};
pub use event::{Continuity, Event, Keyed};
pub use hello_hash::{HelloHash, HelloHashError};
pub use packet::is_zrtp;
pub use sas::Sas;
pub use srtp;
