//! Master keys and key derivation (RFC 3711 section 4.3).

use crate::crypto::Aes;
use crate::error::PolicyError;
use crate::suite::Suite;
use alloc::vec::Vec;
use core::fmt;
use zeroize::Zeroizing;

/// A master key with its salt, zeroized on drop.
#[derive(Clone)]
pub struct MasterKey {
    suite: Suite,
    /// The key followed by the salt.
    bytes: Zeroizing<Vec<u8>>,
    mki: Vec<u8>,
    lifetime: u64,
}

impl MasterKey {
    /// Creates a key for a suite from the bytes of key and salt, in the order of SDES.
    ///
    /// # Errors
    /// The length does not match the suite.
    pub fn new(suite: Suite, key_and_salt: &[u8]) -> Result<Self, PolicyError> {
        let length = key_and_salt.len();
        if length != suite.key_length() + suite.salt_length() {
            return Err(PolicyError::KeyLength { suite, length });
        }
        let bytes = Zeroizing::new(key_and_salt.to_vec());
        Ok(Self { suite, bytes, mki: Vec::new(), lifetime: u64::MAX })
    }

    /// Sets the MKI, which every packet carries (RFC 3711 section 3.1).
    #[must_use]
    pub fn with_mki(mut self, mki: &[u8]) -> Self {
        self.mki = mki.to_vec();
        self
    }

    /// Sets the lifetime in RTP packets, and in RTCP packets. By default only the limits of RFC
    /// 3711 apply: 2^48 and 2^31 per source.
    #[must_use]
    pub fn with_lifetime(mut self, packets: u64) -> Self {
        self.lifetime = packets;
        self
    }

    /// The suite of the key.
    #[must_use]
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// The MKI, empty if absent.
    #[must_use]
    pub fn mki(&self) -> &[u8] {
        &self.mki
    }

    /// The lifetime, see [`MasterKey::with_lifetime`].
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

/// The purpose of a session key (RFC 3711 section 4.3.2). An RTCP label is the RTP label plus 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Label {
    Encryption = 0,
    Authentication = 1,
    Salt = 2,
}

/// RTP or RTCP, which have separate session keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Rtp = 0,
    Rtcp = 3,
}

/// The key derivation function: AES in counter mode with the master key.
pub(crate) struct Derivation {
    aes: Aes,
    /// The master salt, times 2^16.
    salt: Zeroizing<u128>,
}

impl Derivation {
    /// Fills `key` with the session key of a label. `index` is the packet index divided by the key
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
    fn keys_are_derived_as_in_the_rfcs() {
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
    fn debug_output_hides_keys() {
        let key = MasterKey::new(Suite::AesCm128HmacSha1_80, &[0xab; 30]).unwrap().with_mki(&[1]);
        let shown = format!("{key:?}");
        assert!(
            shown.contains("mki: [1]") && !shown.contains("171") && !shown.contains("ab, "),
            "{shown}"
        );
    }

    #[test]
    fn the_key_length_is_checked() {
        let suite = Suite::AeadAes256Gcm;
        assert!(MasterKey::new(suite, &[0; 44]).is_ok());
        let error = MasterKey::new(suite, &[0; 46]).unwrap_err();
        assert_eq!(error, PolicyError::KeyLength { suite, length: 46 });
        let expected = "master key and salt of 46 bytes, AEAD_AES_256_GCM requires 32 and 12";
        assert_eq!(format!("{error}"), expected);
    }
}
