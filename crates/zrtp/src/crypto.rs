//! Hashes, message authentication, key derivation and the cipher of Confirm messages.

use crate::algorithm::Hash;
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Aes256};
use alloc::vec::Vec;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256, Sha384};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Secret bytes, wiped when dropped.
pub(crate) type Secret = Zeroizing<Vec<u8>>;

/// The hash of the concatenated parts.
pub(crate) fn digest(hash: Hash, parts: &[&[u8]]) -> Secret {
    fn by<D: Digest>(parts: &[&[u8]]) -> Secret {
        let mut state = D::new();
        parts.iter().for_each(|part| state.update(part));
        Zeroizing::new(state.finalize().to_vec())
    }
    match hash {
        Hash::S256 => by::<Sha256>(parts),
        Hash::S384 => by::<Sha384>(parts),
    }
}

/// SHA-256, the implicit hash of hash images and of the hash of Hello messages.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// The HMAC of the concatenated parts.
pub(crate) fn mac(hash: Hash, key: &[u8], parts: &[&[u8]]) -> Secret {
    fn by<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> Secret {
        let mut state = <M as KeyInit>::new_from_slice(key).expect("HMAC takes any key");
        parts.iter().for_each(|part| state.update(part));
        Zeroizing::new(state.finalize().into_bytes().to_vec())
    }
    match hash {
        Hash::S256 => by::<Hmac<Sha256>>(key, parts),
        Hash::S384 => by::<Hmac<Sha384>>(key, parts),
    }
}

/// The first 64 bits of an HMAC, as messages and identifiers of secrets have them.
pub(crate) fn short_mac(hash: Hash, key: &[u8], bytes: &[u8]) -> [u8; 8] {
    *mac(hash, key, &[bytes]).first_chunk().expect("an HMAC has 32 bytes or more")
}

/// Returns true if both are equal, in a time that does not depend on the place of a difference.
pub(crate) fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.ct_eq(other).into()
}

/// The key derivation function (RFC 6189 section 4.5.1). `length` is in bytes, at most that of the
/// hash.
pub(crate) fn derive(
    hash: Hash,
    key: &[u8],
    label: &[u8],
    context: &[u8],
    length: usize,
) -> Secret {
    let bits = 8 * length as u32;
    let parts: [&[u8]; 5] = [&1_u32.to_be_bytes(), label, &[0], context, &bits.to_be_bytes()];
    let mut out = mac(hash, key, &parts);
    out.truncate(length);
    out
}

/// The direction of [`cfb`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Encrypt,
    Decrypt,
}

/// AES in cipher feedback mode with whole blocks of feedback, in place. The key has 16 or 32 bytes.
pub(crate) fn cfb(key: &[u8], iv: [u8; 16], bytes: &mut [u8], direction: Direction) {
    fn by<C: BlockCipherEncrypt<BlockSize = aes::cipher::consts::U16> + KeyInit>(
        key: &[u8],
        iv: [u8; 16],
        bytes: &mut [u8],
        direction: Direction,
    ) {
        let cipher = C::new_from_slice(key).expect("the key has the length of the cipher's");
        let mut feedback = iv;
        for chunk in bytes.chunks_mut(16) {
            let mut stream = Array::from(feedback);
            cipher.encrypt_block(&mut stream);
            if direction == Direction::Decrypt {
                feedback[..chunk.len()].copy_from_slice(chunk);
            }
            chunk.iter_mut().zip(stream).for_each(|(byte, mask)| *byte ^= mask);
            if direction == Direction::Encrypt {
                feedback[..chunk.len()].copy_from_slice(chunk);
            }
        }
    }
    match key.len() {
        16 => by::<Aes128>(key, iv, bytes, direction),
        _ => by::<Aes256>(key, iv, bytes, direction),
    }
}

/// The random bytes of one association: HMACs of a counter by the seed.
pub(crate) struct Random {
    seed: Zeroizing<[u8; 32]>,
    count: u32,
}

impl Random {
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Self { seed: Zeroizing::new(seed), count: 0 }
    }

    /// The number of blocks that were taken.
    #[cfg(test)]
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// The next `N` bytes.
    pub(crate) fn bytes<const N: usize>(&mut self) -> Zeroizing<[u8; N]> {
        let mut out = Zeroizing::new([0; N]);
        for chunk in out.chunks_mut(32) {
            let block = mac(Hash::S256, &*self.seed, &[&self.count.to_be_bytes()]);
            chunk.copy_from_slice(&block[..chunk.len()]);
            self.count += 1;
        }
        out
    }
}

/// A hash chain (RFC 6189 section 9): H0 is random, and each of the others the hash of the one
/// before. A message reveals one, which proves that its sender wrote the messages before.
pub(crate) struct HashChain(pub(crate) [[u8; 32]; 4]);

impl HashChain {
    pub(crate) fn new(h0: [u8; 32]) -> Self {
        let h1 = sha256(&h0);
        let h2 = sha256(&h1);
        Self([h0, h1, h2, sha256(&h2)])
    }
}
