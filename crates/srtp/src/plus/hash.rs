//! Scheme 2 (row B2 of docs/sources.md): HMAC-SHA1 over source, sequence number and timestamp.

use super::tag::FixedHeader;
use crate::crypto::HmacSha1;

/// The first 32 bits of the code of the header's bytes from the sequence number on. The paper
/// leaves the source out: with it sources can share a key, and forged ones cost no derivation.
#[inline]
pub(super) fn tag(hmac: &HmacSha1, header: &FixedHeader) -> [u8; 4] {
    let code = hmac.code(&header[2..], &[]);
    [code[0], code[1], code[2], code[3]]
}
