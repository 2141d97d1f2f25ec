//! HMAC-SHA1 (RFC 2104) whose two pads are hashed once for a key.

use sha1::block_api::compress;
use zeroize::Zeroize;

const BLOCK: usize = 64;
const INITIAL: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];

/// A key, wiped when it is dropped.
pub(crate) struct HmacSha1 {
    /// SHA-1's state after the inner and the outer pad.
    inner: [u32; 5],
    outer: [u32; 5],
}

impl HmacSha1 {
    /// # Panics
    /// The key is longer than a block: no key of SRTP is.
    pub(crate) fn new(key: &[u8]) -> Self {
        let mut block = [0; BLOCK];
        block[..key.len()].copy_from_slice(key);
        let after_pad = |pad: u8| {
            let mut padded = block.map(|byte| byte ^ pad);
            let mut state = INITIAL;
            compress(&mut state, core::slice::from_ref(&padded));
            padded.zeroize();
            state
        };
        let hmac = Self { inner: after_pad(0x36), outer: after_pad(0x5c) };
        block.zeroize();
        hmac
    }

    /// The code of `data` and what follows it, which has at most 8 bytes.
    #[inline]
    pub(crate) fn code(&self, data: &[u8], more: &[u8]) -> [u8; 20] {
        let inner = finish(self.inner, data, more);
        finish(self.outer, &inner, &[])
    }
}

impl Drop for HmacSha1 {
    fn drop(&mut self) {
        self.inner.zeroize();
        self.outer.zeroize();
    }
}

/// SHA-1's compression function over one block.
pub(crate) fn sha1_compress(state: &mut [u32; 5], block: &[u8; 64]) {
    compress(state, core::slice::from_ref(block));
}

/// The hash of a block that `state` has taken in, of `data` and of `more`.
#[inline]
fn finish(mut state: [u32; 5], data: &[u8], more: &[u8]) -> [u8; 20] {
    let (blocks, rest) = data.as_chunks::<BLOCK>();
    compress(&mut state, blocks);
    let mut last = [0; 2 * BLOCK];
    let used = rest.len() + more.len();
    last[..rest.len()].copy_from_slice(rest);
    last[rest.len()..used].copy_from_slice(more);
    last[used] = 0x80;
    let end = if used + 9 <= BLOCK { BLOCK } else { 2 * BLOCK };
    let bits = 8 * (BLOCK + data.len() + more.len()) as u64;
    last[end - 8..end].copy_from_slice(&bits.to_be_bytes());
    compress(&mut state, last[..end].as_chunks().0);
    let mut hash = [0; 20];
    for (bytes, word) in hash.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{hex, vectors};

    #[test]
    fn codes_are_those_of_rfc_2202() {
        let Some(vectors) = vectors() else { return };
        let mut count = 0;
        for vector in vectors["rfc2202_hmac_sha1"].as_array().unwrap() {
            let (key, data) = (hex(&vector["key"]), hex(&vector["data"]));
            if key.len() > BLOCK {
                continue;
            }
            let hmac = HmacSha1::new(&key);
            for more in 0..=data.len().min(8) {
                let (data, more) = data.split_at(data.len() - more);
                assert_eq!(hmac.code(data, more)[..], hex(&vector["digest"]));
            }
            count += 1;
        }
        assert_eq!(count, 5);
    }

    #[test]
    fn every_length_of_rest_is_padded_right() {
        // One key and message cut anywhere between data and what follows: the code is the same, also
        // where the padding just fits into a block, and where it does not.
        let hmac = HmacSha1::new(b"key");
        let data = [0x5a; 200];
        for length in 8..data.len() {
            let whole = hmac.code(&data[..length], &[]);
            for more in 1..=8 {
                let (data, more) = data[..length].split_at(length - more);
                assert_eq!(hmac.code(data, more), whole, "{length} bytes");
            }
        }
    }
}
