//! The cryptographic primitives, all from libraries: what a port to another library would change.

mod aes;
#[cfg(feature = "ring")]
#[path = "gcm_ring.rs"]
mod gcm;
#[cfg(not(feature = "ring"))]
#[path = "gcm_aes_gcm.rs"]
mod gcm;
mod hmac;
#[cfg(all(feature = "simd", target_arch = "x86_64"))]
mod lanes;
mod many;

pub(crate) use aes::{Aes, F8};
pub(crate) use gcm::Gcm;
pub(crate) use hmac::{Code, HmacSha1, sha1_compress};
pub(crate) use many::{LANES, Message, Wanted, codes};

/// The length of a tag of AES-GCM in bytes.
pub(crate) const GCM_TAG: usize = 16;
