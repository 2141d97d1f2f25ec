//! The hash of a Hello message, in a session description as `a=zrtp-hash` (RFC 6189 section 8.1).

use crate::crypto::{is_equal, sha256};
use core::fmt;
use core::str::FromStr;

/// The version of the protocol.
pub(crate) const VERSION: [u8; 4] = *b"1.10";

/// The hash of a Hello message.
///
/// If the signalling that carries it is protected, no other end can take the place of the peer,
/// and the SAS need not be compared. In any case its presence says that the peer has ZRTP.
///
/// It is written and parsed as the value of the attribute: the version, and hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HelloHash([u8; 32]);

impl HelloHash {
    /// The hash of a message, without the header and the checksum of its packet.
    pub(crate) fn of(message: &[u8]) -> Self {
        Self(sha256(message))
    }

    /// Returns true if this is the hash of the message.
    pub(crate) fn is_of(self, message: &[u8]) -> bool {
        is_equal(&self.0, &sha256(message))
    }
}

impl fmt::Display for HelloHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("1.10 ")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for HelloHash {
    type Err = HelloHashError;

    /// # Errors
    /// The version is not 1.10, or there are not 64 hexadecimal digits.
    fn from_str(value: &str) -> Result<Self, HelloHashError> {
        let mut words = value.split_ascii_whitespace();
        if words.next().is_none_or(|version| version.as_bytes() != VERSION) {
            return Err(HelloHashError::Version);
        }
        let digits = words.next().filter(|_| words.next().is_none());
        digits.and_then(bytes).map(Self).ok_or(HelloHashError::Digits)
    }
}

/// The bytes of a text of `2 * N` hexadecimal digits.
pub(crate) fn bytes<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    let digit = |letter: u8| char::from(letter).to_digit(16);
    let mut out = [0; N];
    for (byte, [high, low]) in out.iter_mut().zip(pairs) {
        *byte = (16 * digit(*high)? + digit(*low)?) as u8;
    }
    Some(out)
}

/// The reason why a text is no value of `a=zrtp-hash`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HelloHashError {
    /// The version is missing or another one.
    Version,
    /// There are not 64 hexadecimal digits.
    Digits,
}

impl fmt::Display for HelloHashError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Version => "the version of a zrtp-hash is not 1.10",
            Self::Digits => "a zrtp-hash does not have 64 hexadecimal digits",
        })
    }
}

impl core::error::Error for HelloHashError {}
