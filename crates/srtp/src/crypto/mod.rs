//! The cryptographic primitives, from libraries: what a port to another library would change.

use subtle::ConstantTimeEq;

mod aes;
mod gcm;
mod hmac;
mod instructions;
#[cfg(all(feature = "simd", target_arch = "x86_64"))]
mod lanes;
mod many;
mod messages;

pub(crate) use aes::{Aes, F8};
pub(crate) use gcm::{GCM_TAG, Gcm};
pub(crate) use hmac::{Code, HmacSha1, sha1_compress};
pub(crate) use many::codes;
pub(crate) use messages::{LANES, Message, Wanted};

/// Whether a code begins with this tag: in constant time, whatever they are.
#[inline]
pub(crate) fn begins_with(code: &[u8], tag: &[u8]) -> bool {
    // To hide the whole difference from the optimizer takes less than to hide each byte's, as
    // subtle does for slices: a forged packet is refused in 110 ns in place of 140 on an AMD EPYC,
    // in 152 in place of 158 on an Intel Xeon (AES_CM_128_HMAC_SHA1_80).
    let difference = code.iter().zip(tag).fold(0, |sum, (code, tag)| sum | (code ^ tag));
    code.len() >= tag.len() && difference.ct_eq(&0).into()
}
