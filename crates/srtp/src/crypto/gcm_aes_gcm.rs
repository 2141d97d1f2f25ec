//! AES-GCM from aes-gcm, which needs nothing but a Rust compiler.

use super::GCM_TAG;
use aes_gcm::aead::AeadInOut;
use aes_gcm::{Aes128Gcm, Aes256Gcm, KeyInit};

/// A key, wiped when it is dropped.
#[allow(clippy::large_enum_variant, reason = "all of a session are alike, and both are large")]
pub(crate) enum Gcm {
    Aes128(Aes128Gcm),
    Aes256(Aes256Gcm),
}

impl Gcm {
    /// # Panics
    /// The key has not 16 or 32 bytes.
    pub(crate) fn new(key: &[u8]) -> Self {
        const LENGTH: &str = "a key of the length that was asked for";
        if key.len() == 16 {
            Self::Aes128(Aes128Gcm::new_from_slice(key).expect(LENGTH))
        } else {
            Self::Aes256(Aes256Gcm::new_from_slice(key).expect(LENGTH))
        }
    }

    /// Encrypts `data` and gives its tag.
    ///
    /// # Panics
    /// `data` has more than 2^36 bytes.
    pub(crate) fn seal(&self, nonce: &[u8; 12], aad: &[u8], data: &mut [u8]) -> [u8; GCM_TAG] {
        let nonce = nonce.into();
        let tag = match self {
            Self::Aes128(gcm) => gcm.encrypt_inout_detached(nonce, aad, data.into()),
            Self::Aes256(gcm) => gcm.encrypt_inout_detached(nonce, aad, data.into()),
        };
        tag.expect("a packet is not too long").into()
    }

    /// Decrypts `data` if its tag is right, and says whether it was; if not, `data` is lost.
    pub(crate) fn open(
        &self,
        nonce: &[u8; 12],
        aad: &[u8],
        data: &mut [u8],
        tag: &[u8; GCM_TAG],
    ) -> bool {
        let (nonce, tag) = (nonce.into(), tag.into());
        let opened = match self {
            Self::Aes128(gcm) => gcm.decrypt_inout_detached(nonce, aad, data.into(), tag),
            Self::Aes256(gcm) => gcm.decrypt_inout_detached(nonce, aad, data.into(), tag),
        };
        opened.is_ok()
    }
}
