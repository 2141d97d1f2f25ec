//! Keyed hashes. Every value that strangers choose is hashed with a secret, and every value that
//! strangers return is authenticated with one.

use alloc::vec::Vec;
use core::net::IpAddr;
use sip::Source;
use siphasher::sip::{SipHasher13, SipHasher24};

/// A secret key for one purpose.
#[derive(Clone)]
pub(crate) struct Key([u8; 16]);

impl Key {
    /// Derives the key for `purpose` from the secret of the server.
    pub(crate) fn derive(secret: &[u8; 32], purpose: &str) -> Self {
        let (first, second) = secret.split_at(16);
        let mut key = [0; 16];
        for (half, (out, seed)) in key.chunks_exact_mut(8).zip([first, second]).enumerate() {
            let seed: &[u8; 16] = seed.first_chunk().unwrap_or(&[0; 16]);
            // Each half depends on both halves of the secret.
            let input = [&[half as u8], purpose.as_bytes(), secret].concat();
            out.copy_from_slice(&SipHasher24::new_with_key(seed).hash(&input).to_le_bytes());
        }
        Self(key)
    }

    /// A hash of `parts` for internal use: SipHash-1-3. Collisions cannot be produced without
    /// seeing its results.
    #[inline]
    pub(crate) fn hash(&self, parts: &[&[u8]]) -> u64 {
        joined(parts, |joined| SipHasher13::new_with_key(&self.0).hash(joined))
    }

    /// Like [`Key::hash`] for a single piece, without a length prefix. A key must not be used with
    /// both functions: a piece could be chosen that has the hash of a list.
    pub(crate) fn hash_one(&self, piece: &[u8]) -> u64 {
        SipHasher13::new_with_key(&self.0).hash(piece)
    }

    /// A hash of `source` for tables.
    pub(crate) fn hash_source(&self, source: Source) -> u64 {
        match source.address() {
            IpAddr::V4(ip) => self.hash_one(&ip.octets()),
            IpAddr::V6(ip) => self.hash_one(&ip.octets()),
        }
    }

    /// A hash of `parts` that peers see and return as a proof: SipHash-2-4.
    #[inline]
    pub(crate) fn proof(&self, parts: &[&[u8]]) -> u64 {
        joined(parts, |joined| SipHasher24::new_with_key(&self.0).hash(joined))
    }
}

/// The keys of a server, by purpose.
pub(crate) struct Keys {
    pub(crate) call_id: Key,
    pub(crate) tag: Key,
    pub(crate) token: Key,
    pub(crate) branch: Key,
    pub(crate) message: Key,
    pub(crate) fingerprint: Key,
    /// Secrets that match no password, for unknown users. Each algorithm takes the first bytes.
    pub(crate) decoy: [u8; 32],
    pub(crate) gruu: Key,
    pub(crate) edge: Key,
    pub(crate) pass: Key,
    pub(crate) media: Key,
}

impl Keys {
    pub(crate) fn new(secret: &[u8; 32]) -> Self {
        Self {
            call_id: Key::derive(secret, "call-id"),
            tag: Key::derive(secret, "tag"),
            token: Key::derive(secret, "record-route"),
            branch: Key::derive(secret, "branch"),
            message: Key::derive(secret, "message"),
            fingerprint: Key::derive(secret, "fingerprint"),
            decoy: decoy(&Key::derive(secret, "decoy")),
            gruu: Key::derive(secret, "gruu"),
            edge: Key::derive(secret, "edge"),
            pass: Key::derive(secret, "pass"),
            media: Key::derive(secret, "media"),
        }
    }
}

fn decoy(key: &Key) -> [u8; 32] {
    let mut secret = [0; 32];
    for (number, block) in (0u8..).zip(secret.chunks_exact_mut(8)) {
        block.copy_from_slice(&key.proof(&[&[number]]).to_le_bytes());
    }
    secret
}

/// Joins `parts`, each with a length prefix, so that the result is unambiguous. Hashing one piece
/// is faster than hashing the parts. Inlined, because the number of parts is a constant nearly
/// everywhere.
#[inline(always)]
fn joined(parts: &[&[u8]], hash: impl FnOnce(&[u8]) -> u64) -> u64 {
    let length = parts.iter().map(|part| 4 + part.len()).sum();
    let (mut short, mut long) = ([0; 256], Vec::new());
    let joined = match short.get_mut(..length) {
        Some(short) => short,
        None => {
            long.resize(length, 0);
            &mut long[..]
        }
    };
    let mut rest = &mut *joined;
    for part in parts {
        let (place, after) = rest.split_at_mut(4 + part.len());
        place[..4].copy_from_slice(&(part.len() as u32).to_le_bytes());
        place[4..].copy_from_slice(part);
        rest = after;
    }
    hash(joined)
}

/// Appends `bytes` in lower-case hexadecimal.
pub(crate) fn put_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + 2 * bytes.len(), 0);
    write_hex(&mut out[start..], bytes);
}

/// Fills `out` with `bytes` in lower-case hexadecimal.
pub(crate) fn write_hex(out: &mut [u8], bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (pair, byte) in out.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
}

/// The value of each hexadecimal digit. Other bytes have a value of 16 or more.
static VALUES: [u8; 256] = {
    let mut values = [0xff; 256];
    let mut value = 0;
    while value < 16 {
        let digit = b"0123456789abcdef"[value as usize];
        values[digit as usize] = value;
        values[digit.to_ascii_uppercase() as usize] = value;
        value += 1;
    }
    values
};

/// Parses `N` bytes in hexadecimal.
pub(crate) fn take_hex<const N: usize>(hex: &[u8]) -> Option<[u8; N]> {
    if hex.len() != 2 * N {
        return None;
    }
    let (mut bytes, mut all) = ([0; N], 0);
    for (byte, pair) in bytes.iter_mut().zip(hex.as_chunks::<2>().0) {
        let [high, low] = pair.map(|digit| VALUES[usize::from(digit)]);
        *byte = high << 4 | low;
        all |= high | low;
    }
    (all < 16).then_some(bytes)
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
        // A single part that equals the joined form of two parts. Its hash must differ from theirs,
        // because a peer may choose it.
        let two = b"\x02\0\0\0ab\x01\0\0\0c";
        assert_ne!(key.proof(&[two]), key.proof(&[b"ab", b"c"]));
        assert_ne!(key.hash(&[b"ab", b"c"]), key.proof(&[b"ab", b"c"]));
        let hashes = [0, 100, 247, 248, 249, 1000].map(|length| {
            let long = alloc::vec![7; length];
            assert_ne!(key.hash(&[b"x", &long]), key.hash(&[b"y", &long]), "{length}");
            key.hash(&[b"x", &long])
        });
        assert!(hashes.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn hexadecimal_comes_back() {
        let mut out = Vec::new();
        put_hex(&mut out, &[0, 0xff, 0x5a]);
        assert_eq!(out, b"00ff5a");
        assert_eq!(take_hex::<3>(&out), Some([0, 0xff, 0x5a]));
        assert_eq!(take_hex::<2>(&out), None);
        assert_eq!(take_hex::<1>(b"g0"), None);
    }
}
