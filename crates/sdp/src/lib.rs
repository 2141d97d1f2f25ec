#![doc = include_str!("../README.md")]
//!
//! ## Contents
//!
//! - [`SessionDescription`]: a session description, with its [`media`].
//! - [`crypto`]: the crypto attribute: suite, keys and parameters.
//! - [`ice`]: candidates and credentials of ICE.
//! - [`dtls`]: fingerprints and roles of DTLS-SRTP.
//! - [`negotiation`]: offers and answers of crypto attributes.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod crypto;
pub mod dtls;
pub mod ice;
mod lines;
pub mod media;
pub mod negotiation;
mod negotiation_error;
mod session;

pub use crypto::CryptoAttribute;
pub use media::{Direction, MediaDescription, RtpMap};
pub use session::{SessionDescription, SessionError};
pub use {srtp, zeroize};
