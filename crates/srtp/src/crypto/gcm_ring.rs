//! AES-GCM from ring.

use super::GCM_TAG;
use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

/// A key, wiped when it is dropped.
pub(crate) struct Gcm(LessSafeKey);

impl Gcm {
    /// # Panics
    /// The key has not 16 or 32 bytes.
    pub(crate) fn new(key: &[u8]) -> Self {
        let algorithm = if key.len() == 16 { &AES_128_GCM } else { &AES_256_GCM };
        let key = UnboundKey::new(algorithm, key).expect("a key of the length that was asked for");
        Self(LessSafeKey::new(key))
    }

    /// Encrypts `data` and gives its tag.
    ///
    /// # Panics
    /// `data` has more than 2^36 bytes.
    pub(crate) fn seal(&self, nonce: &[u8; 12], aad: &[u8], data: &mut [u8]) -> [u8; GCM_TAG] {
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let tag = self.0.seal_in_place_separate_tag(nonce, Aad::from(aad), data);
        let tag = tag.expect("a packet is not too long");
        let mut bytes = [0; GCM_TAG];
        bytes.copy_from_slice(tag.as_ref());
        bytes
    }

    /// Decrypts `data` if its tag is right, and says whether it was; if not, `data` is lost.
    pub(crate) fn open(
        &self,
        nonce: &[u8; 12],
        aad: &[u8],
        data: &mut [u8],
        tag: &[u8; GCM_TAG],
    ) -> bool {
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let aad = Aad::from(aad);
        self.0.open_in_place_separate_tag(nonce, aad, (*tag).into(), data, 0..).is_ok()
    }
}

impl Drop for Gcm {
    fn drop(&mut self) {
        // ring wipes nothing: another key in the same place does.
        let unused = UnboundKey::new(self.0.algorithm(), &[0; 32][..self.0.algorithm().key_len()]);
        self.0 = LessSafeKey::new(unused.expect("a key of the length that was asked for"));
        zeroize::optimization_barrier(&self.0);
    }
}
