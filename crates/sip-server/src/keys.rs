//! Keyed hashes: everything that strangers choose is hashed with a secret, and everything that is
//! given to strangers to bring back is authenticated with one.

use core::hash::Hasher;
use siphasher::sip::SipHasher24;

/// A secret for one purpose.
#[derive(Clone)]
pub(crate) struct Key([u8; 16]);

impl Key {
    /// The key for `purpose` that follows from the server's secret.
    pub(crate) fn derive(secret: &[u8; 32], purpose: &str) -> Self {
        let (first, second) = secret.split_at(16);
        let mut key = [0; 16];
        for (half, (out, seed)) in key.chunks_exact_mut(8).zip([first, second]).enumerate() {
            let seed: &[u8; 16] = seed.first_chunk().unwrap_or(&[0; 16]);
            let mut hasher = SipHasher24::new_with_key(seed);
            hasher.write_u8(half as u8);
            hasher.write(purpose.as_bytes());
            // Each half depends on both halves of the secret.
            hasher.write(secret);
            out.copy_from_slice(&hasher.finish().to_le_bytes());
        }
        Self(key)
    }

    /// SipHash-2-4 of `parts`, each preceded by its length, so that no two lists run together.
    pub(crate) fn hash(&self, parts: &[&[u8]]) -> u64 {
        // In one piece: feeding it bit by bit costs more than copying.
        let mut joined = [0; 256];
        let mut at = 0;
        for part in parts {
            let Some(place) = joined.get_mut(at..at + 4 + part.len()) else {
                return self.hash_long(parts);
            };
            place[..4].copy_from_slice(&(part.len() as u32).to_le_bytes());
            place[4..].copy_from_slice(part);
            at += place.len();
        }
        self.hasher().hash(&joined[..at])
    }

    /// The same for what may be of any length.
    fn hash_long(&self, parts: &[&[u8]]) -> u64 {
        let mut hasher = self.hasher();
        for part in parts {
            hasher.write(&(part.len() as u32).to_le_bytes());
            hasher.write(part);
        }
        hasher.finish()
    }

    /// SipHash-2-4 to be fed piece by piece.
    pub(crate) fn hasher(&self) -> SipHasher24 {
        SipHasher24::new_with_key(&self.0)
    }
}

/// Appends `bytes` in lower-case hexadecimal.
pub(crate) fn put_hex(out: &mut alloc::vec::Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
}

/// Reads the `N` bytes that `hex` spells.
pub(crate) fn take_hex<const N: usize>(hex: &[u8]) -> Option<[u8; N]> {
    if hex.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_by_purpose_and_by_every_byte_of_the_secret() {
        let secret = [7; 32];
        let one = Key::derive(&secret, "nonce");
        assert_ne!(one.0, Key::derive(&secret, "tag").0);
        for at in 0..32 {
            let mut other = secret;
            other[at] ^= 1;
            let other = Key::derive(&other, "nonce");
            assert_ne!(one.0[..8], other.0[..8]);
            assert_ne!(one.0[8..], other.0[8..]);
        }
    }

    #[test]
    fn lists_do_not_run_together() {
        let key = Key::derive(&[1; 32], "x");
        assert_ne!(key.hash(&[b"ab", b"c"]), key.hash(&[b"a", b"bc"]));
        assert_eq!(key.hash(&[b"ab", b"c"]), key.hash(&[b"ab", b"c"]));
        for length in [0, 100, 247, 248, 249, 1000] {
            let long = alloc::vec![7; length];
            assert_eq!(key.hash(&[b"x", &long]), key.hash_long(&[b"x", &long]), "{length}");
        }
    }

    #[test]
    fn hexadecimal_comes_back() {
        let mut out = alloc::vec::Vec::new();
        put_hex(&mut out, &[0, 0xff, 0x5a]);
        assert_eq!(out, b"00ff5a");
        assert_eq!(take_hex::<3>(&out), Some([0, 0xff, 0x5a]));
        assert_eq!(take_hex::<2>(&out), None);
        assert_eq!(take_hex::<1>(b"g0"), None);
    }
}
