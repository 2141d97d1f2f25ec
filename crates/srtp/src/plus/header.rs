//! Scheme 4: AES over the fixed header and the rollover counter.

use super::tag::FixedHeader;
use crate::crypto::Aes;

/// The first 32 bits of one AES block: the fixed header as sent, and the rollover counter.
#[inline]
pub(super) fn tag(aes: &Aes, header: &FixedHeader, index: u64) -> [u8; 4] {
    let mut block = [0; 16];
    block[..12].copy_from_slice(header);
    block[12..].copy_from_slice(&((index >> 16) as u32).to_be_bytes());
    aes.block(&mut block);
    [block[0], block[1], block[2], block[3]]
}
