//! Master keys, and what is derived from them (RFC 3711 section 4.3).

use crate::crypto::Aes;
use crate::error::PolicyError;
use crate::suite::Suite;
use alloc::vec::Vec;
use core::fmt;
use zeroize::Zeroizing;

/// A master key with its salt, wiped when it is dropped.
#[derive(Clone)]
pub struct MasterKey {
    suite: Suite,
    /// The key, then the salt.
    bytes: Zeroizing<Vec<u8>>,
    mki: Vec<u8>,
    lifetime: u64,
}

impl MasterKey {
    /// The key for a suite: the bytes of the key, then those of the salt, as SDES writes them.
    ///
    /// # Errors
    /// There are too few or too many of them.
    pub fn new(suite: Suite, key_and_salt: &[u8]) -> Result<Self, PolicyError> {
        let length = key_and_salt.len();
        if length != suite.key_length() + suite.salt_length() {
            return Err(PolicyError::KeyLength { suite, length });
        }
        let bytes = Zeroizing::new(key_and_salt.to_vec());
        Ok(Self { suite, bytes, mki: Vec::new(), lifetime: u64::MAX })
    }

    /// Gives it an identifier that every packet carries (RFC 3711 section 3.1).
    #[must_use]
    pub fn with_mki(mut self, mki: &[u8]) -> Self {
        self.mki = mki.to_vec();
        self
    }

    /// Limits how many RTP packets, and how many RTCP packets, it may protect. Without it only the
    /// limits of RFC 3711 hold: 2^48 and 2^31 for each source.
    #[must_use]
    pub fn with_lifetime(mut self, packets: u64) -> Self {
        self.lifetime = packets;
        self
    }

    /// The suite that it is for.
    #[must_use]
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// Its identifier, empty if it has none.
    #[must_use]
    pub fn mki(&self) -> &[u8] {
        &self.mki
    }

    /// See [`MasterKey::with_lifetime`].
    pub(crate) fn lifetime(&self) -> u64 {
        self.lifetime
    }

    /// Prepares the derivation of session keys.
    pub(crate) fn derivation(&self) -> Derivation {
        let (key, salt) = self.bytes.split_at(self.suite.key_length());
        let mut iv = [0; 16];
        iv[..salt.len()].copy_from_slice(salt);
        Derivation { aes: Aes::new(key), salt: Zeroizing::new(u128::from_be_bytes(iv)) }
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MasterKey")
            .field("suite", &self.suite)
            .field("mki", &self.mki)
            .finish_non_exhaustive()
    }
}

/// What a session key is for (RFC 3711 section 4.3.2). The labels of RTCP are those of RTP and 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Label {
    Encryption = 0,
    Authentication = 1,
    Salt = 2,
}

/// RTP or RTCP, which have session keys of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Rtp = 0,
    Rtcp = 3,
}

/// The key derivation function: AES in counter mode under the master key.
pub(crate) struct Derivation {
    aes: Aes,
    /// The master salt, times 2^16.
    salt: Zeroizing<u128>,
}

impl Derivation {
    /// Fills `key` with the session key for a label and a packet index divided by the key
    /// derivation rate.
    pub(crate) fn derive(&self, label: u8, index: u64, key: &mut [u8]) {
        key.fill(0);
        let first = *self.salt ^ u128::from(label) << 64 ^ u128::from(index) << 16;
        self.aes.counter(first, key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors::{DERIVED, hex};
    use std::format;
    use std::vec;

    #[test]
    fn keys_are_derived_as_the_rfcs_say() {
        for vector in &DERIVED {
            let key = hex(vector.master);
            let suite = Suite::ALL.into_iter().find(|suite| suite.key_length() + 14 == key.len());
            let derivation = MasterKey::new(suite.unwrap(), &key).unwrap().derivation();
            for (label, expected) in [
                (Label::Encryption, vector.encryption),
                (Label::Authentication, vector.authentication),
                (Label::Salt, vector.salt),
            ] {
                let mut derived = vec![0; expected.len() / 2];
                derivation.derive(label as u8, 0, &mut derived);
                assert_eq!(derived, hex(expected), "{label:?}");
            }
        }
    }

    #[test]
    fn keys_are_not_shown() {
        let key = MasterKey::new(Suite::AesCm128HmacSha1_80, &[0xab; 30]).unwrap().with_mki(&[1]);
        let shown = format!("{key:?}");
        assert!(
            shown.contains("mki: [1]") && !shown.contains("171") && !shown.contains("ab, "),
            "{shown}"
        );
    }

    #[test]
    fn keys_have_a_length() {
        let suite = Suite::AeadAes256Gcm;
        assert!(MasterKey::new(suite, &[0; 44]).is_ok());
        let error = MasterKey::new(suite, &[0; 46]).unwrap_err();
        assert_eq!(error, PolicyError::KeyLength { suite, length: 46 });
        let said = "master key and salt of 46 bytes, AEAD_AES_256_GCM wants 32 and 12";
        assert_eq!(format!("{error}"), said);
    }
}
