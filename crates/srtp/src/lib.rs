#![doc = include_str!("../README.md")]
//!
//! ## Contents
//!
//! - [`Policy`], [`Suite`], [`MasterKey`]: the parameters of a session.
//! - [`Sender`], [`Receiver`]: the two ends of a direction.
//! - [`batch`]: packets of many sessions at once.
//! - [`plus`]: SRTP+, tags that reject forged packets early.
//! - [`timings`]: the duration of each step, by a clock of the owner.
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
mod scheme;
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
pub use rtp;
pub use sender::Sender;
pub use suite::Suite;
