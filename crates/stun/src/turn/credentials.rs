//! Long-term credentials (RFC 8489 section 9.2).

use alloc::string::String;
use core::fmt;
use md5::{Digest, Md5};

/// A user and a password for a TURN server.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user.
    pub user: String,
    /// The password.
    pub password: String,
}

impl Credentials {
    /// The key of MESSAGE-INTEGRITY in a realm (RFC 8489 section 18.5.1.1).
    #[must_use]
    pub fn key(&self, realm: &[u8]) -> [u8; 16] {
        let mut md5 = Md5::new();
        for part in [self.user.as_bytes(), b":", realm, b":", self.password.as_bytes()] {
            md5.update(part);
        }
        md5.finalize().into()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}
