//! SRTP and SRTCP (RFC 3711, 6188, 7714) without I/O.
//!
//! A [`Sender`] protects the packets of one direction of a session. A [`Receiver`] checks and
//! decrypts those of the other direction. Both work in the caller's buffer, and allocate nothing
//! for a packet of a known source.
//!
//! ```
//! use barebell_srtp::{MasterKey, Policy, Receiver, Sender, Suite};
//!
//! let policy = Policy::new(Suite::AesCm128HmacSha1_80);
//! let key = MasterKey::new(policy.suite, &[7; 30])?;
//! let mut sender = Sender::new(&policy, vec![key.clone()])?;
//! let mut receiver = Receiver::new(&policy, vec![key])?;
//!
//! let mut buffer = [0; 200];
//! let fields = rtp::packet::Fields { ssrc: 1, ..Default::default() };
//! let length = fields.write(b"hello", &mut buffer).unwrap();
//! let length = sender.protect(&mut buffer, length)?;
//! let packet = receiver.unprotect(&mut buffer[..length])?;
//! assert!(packet.ends_with(b"hello"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

// Reported here, because the compiler only reports that its back end has failed.
#[cfg(all(
    target_arch = "x86_64",
    not(target_feature = "sse2"),
    not(all(aes_backend = "soft", polyval_backend = "soft"))
))]
compile_error!(
    "a target without vector registers needs \
     RUSTFLAGS='--cfg aes_backend=\"soft\" --cfg polyval_backend=\"soft\"'"
);

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod batch;
mod crypto;
mod error;
mod index;
mod key;
pub mod plus;
mod policy;
mod receiver;
mod replay;
mod sender;
mod source;
mod suite;
#[cfg(test)]
mod tests;
pub mod timings;
mod transform;
#[cfg(test)]
mod vectors;

pub use error::{PolicyError, ProtectError, UnprotectError};
pub use key::MasterKey;
pub use plus::SrtpPlus;
pub use policy::Policy;
pub use receiver::Receiver;
pub use sender::Sender;
pub use suite::Suite;
