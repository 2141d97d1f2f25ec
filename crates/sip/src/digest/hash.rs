//! HA1, and hashes in hexadecimal, without allocation.

use core::fmt;

use md5::Md5;
use sha2::{Digest, Sha256, Sha512_256};
use subtle::ConstantTimeEq;

use super::Algorithm;

/// H(user ":" realm ":" password) of one user with every [`Algorithm`], in binary.
///
/// A server stores these hashes instead of the password. Within the realm they are equivalent to
/// the password, so `Debug` hides them.
#[derive(Clone, PartialEq, Eq)]
pub struct Ha1Set {
    /// With MD5.
    pub md5: [u8; 16],
    /// With SHA-256.
    pub sha256: [u8; 32],
    /// With SHA-512/256.
    pub sha512_256: [u8; 32],
}

impl Ha1Set {
    /// Hashes `password` for `user` in `realm`. All three are the text between quotes.
    #[must_use]
    pub fn new(user: &[u8], realm: &[u8], password: &[u8]) -> Self {
        let parts = [user, realm, password];
        Self {
            md5: hash::<Md5>(&parts).into(),
            sha256: hash::<Sha256>(&parts).into(),
            sha512_256: hash::<Sha512_256>(&parts).into(),
        }
    }

    /// The hash with `algorithm`, 16 or 32 octets.
    #[must_use]
    pub fn get(&self, algorithm: Algorithm) -> &[u8] {
        match algorithm {
            Algorithm::Md5 => &self.md5,
            Algorithm::Sha256 => &self.sha256,
            Algorithm::Sha512_256 => &self.sha512_256,
        }
    }
}

impl fmt::Debug for Ha1Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ha1Set(..)")
    }
}

/// A hash in lower-case hexadecimal, 32 or 64 digits, stored inline.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Hex {
    digits: [u8; 64],
    len: u8,
}

impl Hex {
    /// Encodes `octets`, at most 32 of them.
    #[must_use]
    pub fn new(octets: &[u8]) -> Self {
        let mut digits = [0; 64];
        let len = write_hex(octets, &mut digits);
        Self { digits, len: len as u8 }
    }

    /// The digits.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.digits[..usize::from(self.len)]
    }
}

impl AsRef<[u8]> for Hex {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|&digit| fmt::Write::write_char(f, digit.into()))
    }
}

impl fmt::Debug for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hex({self})")
    }
}

/// Returns true if `given` equals `expected` (case-insensitive). Takes constant time.
#[must_use]
pub fn response_matches(expected: &Hex, given: &[u8]) -> bool {
    if given.len() != expected.as_bytes().len() {
        return false;
    }
    let mut lower = [0; 64];
    lower[..given.len()].copy_from_slice(given);
    lower.make_ascii_lowercase();
    // Unused positions are zero in both. Comparing eight digits at a time takes an eighth of the
    // comparisons.
    words(&expected.digits).ct_eq(&words(&lower)).into()
}

fn words(digits: &[u8; 64]) -> [u64; 8] {
    let mut words = [0; 8];
    for (word, digits) in words.iter_mut().zip(digits.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*digits);
    }
    words
}

/// Writes `octets` in lower-case hexadecimal up to the end of `out`. Returns the number of digits.
pub(super) fn write_hex(octets: &[u8], out: &mut [u8]) -> usize {
    let mut len = 0;
    for (octet, pair) in octets.iter().zip(out.chunks_exact_mut(2)) {
        for (digit, nibble) in pair.iter_mut().zip([octet >> 4, octet & 15]) {
            *digit = if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 };
            len += 1;
        }
    }
    len
}

/// The hash of `parts` separated by colons, in hexadecimal.
pub(super) fn hash_hex(algorithm: Algorithm, parts: &[&[u8]]) -> Hex {
    match algorithm {
        Algorithm::Md5 => Hex::new(&hash::<Md5>(parts)),
        Algorithm::Sha256 => Hex::new(&hash::<Sha256>(parts)),
        Algorithm::Sha512_256 => Hex::new(&hash::<Sha512_256>(parts)),
    }
}

fn hash<D: Digest>(parts: &[&[u8]]) -> sha2::digest::Output<D> {
    let mut hasher = D::new();
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            hasher.update(b":");
        }
        hasher.update(part);
    }
    hasher.finalize()
}
