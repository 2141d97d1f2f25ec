//! Session descriptions (RFC 8866), their media, and SRTP keys in SDP (RFC 4568), without I/O.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod crypto;
mod lines;
pub mod media;
pub mod negotiation;
mod session;

pub use crypto::CryptoAttribute;
pub use media::{Direction, MediaDescription};
pub use session::{SessionDescription, SessionError};
