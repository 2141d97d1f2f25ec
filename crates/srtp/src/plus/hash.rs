//! Scheme 2: HMAC-SHA1 over SSRC, sequence number and timestamp.

use super::tag::FixedHeader;
use crate::crypto::HmacSha1;

/// The first 32 bits of the HMAC of the header from the sequence number on. The paper omits the
/// SSRC. With it, sources can share a key, and a forged SSRC costs no key derivation.
#[inline]
pub(super) fn tag(hmac: &HmacSha1, header: &FixedHeader) -> [u8; 4] {
    let code = hmac.code(&header[2..], &[]);
    [code[0], code[1], code[2], code[3]]
}
