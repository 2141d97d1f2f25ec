//! The cryptographic primitives, from libraries. Only this module depends on them.

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

/// Returns true if `code` starts with `tag`. Takes constant time.
#[inline]
pub(crate) fn begins_with(code: &[u8], tag: &[u8]) -> bool {
    // One optimization barrier for the whole difference costs less than one per byte, which subtle
    // uses for slices: a forged packet is rejected in 110 ns instead of 140 on an AMD EPYC, and in
    // 152 instead of 158 on an Intel Xeon (AES_CM_128_HMAC_SHA1_80).
    let difference = code.iter().zip(tag).fold(0, |sum, (code, tag)| sum | (code ^ tag));
    code.len() >= tag.len() && difference.ct_eq(&0).into()
}
