//! The credentials of one end (RFC 8445 section 5.3).

use alloc::string::String;
use core::fmt;

/// The 64 characters of credentials (`ice-char`).
const CHARACTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// The number of characters of a user fragment: 48 bits, so that calls on one port do not share it.
const UFRAG: usize = 8;

/// The user fragment and the password of one end.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user fragment, which checks name.
    pub ufrag: String,
    /// The password that authenticates checks to this end.
    pub password: String,
}

impl Credentials {
    /// Creates credentials from 32 random bytes: 48 bits in the user fragment, 144 in the password.
    #[must_use]
    pub fn new(random: &[u8; 32]) -> Self {
        let text = |bytes: &[u8]| {
            bytes.iter().map(|byte| char::from(CHARACTERS[usize::from(byte & 63)])).collect()
        };
        Self { ufrag: text(&random[..UFRAG]), password: text(&random[UFRAG..]) }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("ufrag", &self.ufrag).finish_non_exhaustive()
    }
}
