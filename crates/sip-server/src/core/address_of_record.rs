//! The name of a user.

use crate::core::keys::Key;
use alloc::boxed::Box;
use alloc::vec::Vec;
use sip::Encode;
use sip::uri::escape_user;
use smallvec::SmallVec;

/// The URI of the user or service `name`, which is `name@domain`.
pub(crate) fn uri_of(name: &[u8]) -> Box<[u8]> {
    let at = name.iter().rposition(|byte| *byte == b'@').unwrap_or(name.len());
    let mut uri = Vec::new();
    ("sip:", &*escape_user(&name[..at]), &name[at..]).encode(&mut uri);
    uri.into()
}

/// An address-of-record with its hash: `user@domain`, the user without escapes, the domain as
/// configured.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AddressOfRecord {
    bytes: SmallVec<[u8; 64]>,
    hash: u64,
}

impl Clone for AddressOfRecord {
    /// Copies the bytes at once. A clone of a `SmallVec` copies one after the other.
    fn clone(&self) -> Self {
        Self { bytes: SmallVec::from_slice(&self.bytes), hash: self.hash }
    }
}

impl AddressOfRecord {
    /// Returns the address-of-record in `bytes`, with the hash under `key`.
    pub(crate) fn new(key: &Key, bytes: SmallVec<[u8; 64]>) -> Self {
        let hash = key.hash_one(&bytes);
        Self { bytes, hash }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The user part.
    pub(crate) fn name(&self) -> &[u8] {
        let at = self.bytes.iter().rposition(|&byte| byte == b'@');
        &self.bytes[..at.unwrap_or(self.bytes.len())]
    }

    /// A keyed hash of the address-of-record.
    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }
}
