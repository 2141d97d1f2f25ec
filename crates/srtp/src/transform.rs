//! Encryption and authentication of a packet with one set of session keys.

use crate::crypto::{Aes, Code, F8, GCM_TAG, Gcm, HmacSha1, begins_with};
use crate::key::{Derivation, Label, Use};
use crate::policy::Policy;
use crate::suite::Suite;
use crate::timings::{Probe, Step};
use alloc::boxed::Box;
use zeroize::Zeroizing;

/// The length of the unencrypted header of an RTCP packet.
pub(crate) const RTCP_HEADER: usize = 8;

/// The length of the SRTCP index word.
pub(crate) const INDEX: usize = 4;

/// The E flag of the SRTCP index word.
pub(crate) const ENCRYPTED: u32 = 1 << 31;

/// The session keys of RTP or RTCP in one direction.
#[allow(
    clippy::large_enum_variant,
    reason = "all keys of a session have the same variant, usually a large one"
)]
#[repr(C)]
pub(crate) enum Transform {
    /// A cipher, then HMAC-SHA1 (RFC 3711).
    Hmac(HmacSha1, Cipher),
    /// AES-GCM, with a salt of 96 bits (RFC 7714).
    Gcm(Zeroizing<u128>, Gcm),
}

/// The cipher of RFC 3711.
#[allow(
    clippy::large_enum_variant,
    reason = "all keys of a session have the same variant, usually a large one"
)]
#[repr(C)]
pub(crate) enum Cipher {
    Null,
    /// AES in counter mode, with a salt of 112 bits.
    Counter(Zeroizing<u128>, Aes),
    /// AES in f8 mode, with two keys. Boxed, because no other cipher needs space for two.
    F8(Box<F8>),
}

impl Transform {
    /// Derives the session keys of packets. `index` is their index divided by the key derivation
    /// rate.
    pub(crate) fn derive(policy: &Policy, derivation: &Derivation, usage: Use, index: u64) -> Self {
        let suite = policy.suite;
        let derive = |label: Label, key: &mut [u8]| {
            derivation.derive(label as u8 + usage as u8, index, key);
        };
        let mut key = Zeroizing::new([0; 32]);
        let key = &mut key[..suite.key_length()];
        derive(Label::Encryption, key);
        // Right-aligned in a number of 16 bytes.
        let salt = |length: usize| {
            let mut bytes = Zeroizing::new([0; 16]);
            derive(Label::Salt, &mut bytes[16 - length..]);
            Zeroizing::new(u128::from_be_bytes(*bytes))
        };
        if suite.is_aead() {
            return Self::Gcm(salt(12), Gcm::new(key));
        }
        let cipher = match suite {
            // Each RTCP packet declares whether it is encrypted.
            _ if usage == Use::Rtp && !policy.encrypt_rtp => Cipher::Null,
            Suite::F8128HmacSha1_80 => {
                Cipher::F8(Box::new(F8::new(key, &Zeroizing::new(salt(14).to_be_bytes())[2..])))
            }
            _ => Cipher::Counter(salt(14), Aes::new(key)),
        };
        let mut key = Zeroizing::new([0; 20]);
        derive(Label::Authentication, &mut *key);
        Self::Hmac(HmacSha1::new(&*key), cipher)
    }

    /// The HMAC key, if the cipher itself does not authenticate.
    #[inline]
    pub(crate) fn hmac(&self) -> Option<&HmacSha1> {
        match self {
            Self::Hmac(hmac, _) => Some(hmac),
            Self::Gcm(..) => None,
        }
    }

    /// Encrypts an RTP packet with a header of `header` bytes. AES-GCM also writes the tag.
    /// Otherwise returns the HMAC key, to be applied to the packet and its [`rollover`].
    #[inline]
    pub(crate) fn encrypt_rtp(
        &mut self,
        packet: &mut [u8],
        header: usize,
        index: u64,
        tag: &mut [u8],
    ) -> Option<&HmacSha1> {
        match self {
            Self::Hmac(hmac, cipher) => {
                cipher.apply_rtp(packet, header, index);
                Some(hmac)
            }
            Self::Gcm(salt, gcm) => {
                let (header, payload) = packet.split_at_mut(header);
                tag.copy_from_slice(&gcm.seal(nonce(salt, &header[8..12], index), header, payload));
                None
            }
        }
    }

    /// Decrypts an RTP packet and returns true if its tag is correct. `code` computes the HMAC of a
    /// packet and the bytes after it.
    #[inline]
    pub(crate) fn unprotect_rtp(
        &mut self,
        packet: &mut [u8],
        header: usize,
        index: u64,
        tag: &[u8],
        probe: &mut impl Probe,
        code: impl FnOnce(&HmacSha1, &[u8], [u8; 4]) -> Code,
    ) -> bool {
        match self {
            Self::Hmac(hmac, cipher) => {
                let is_right = tag.is_empty()
                    || probe.time(Step::Authentication, || {
                        begins_with(&code(hmac, packet, rollover(index)), tag)
                    });
                if is_right {
                    probe.time(Step::Decryption, || cipher.apply_rtp(packet, header, index));
                }
                is_right
            }
            Self::Gcm(salt, gcm) => {
                let (header, payload) = packet.split_at_mut(header);
                let Ok(tag) = tag.try_into() else { return false };
                probe.time(Step::Decryption, || {
                    gcm.open(nonce(salt, &header[8..12], index), header, payload, tag)
                })
            }
        }
    }

    /// Encrypts the RTCP packet in the first `length` bytes of a buffer if the E flag of `index` is
    /// set. Appends index and tag in the order of the suite, and leaves `mki_length` bytes for the
    /// MKI unchanged.
    pub(crate) fn protect_rtcp(
        &mut self,
        buffer: &mut [u8],
        length: usize,
        index: u32,
        mki_length: usize,
    ) {
        let word = index.to_be_bytes();
        match self {
            Self::Hmac(hmac, cipher) => {
                cipher.apply_rtcp(&mut buffer[..length], index);
                let (packet, end) = buffer.split_at_mut(length + INDEX);
                packet[length..].copy_from_slice(&word);
                let code = hmac.code(packet, &[]);
                let tag = &mut end[mki_length..];
                tag.copy_from_slice(&code[..tag.len()]);
            }
            Self::Gcm(salt, gcm) => {
                let tag = with_associated_data(buffer, length, index, |header, aad, data| {
                    gcm.seal(nonce(salt, &header[4..], index & !ENCRYPTED), aad, data)
                });
                let (tag_place, end) = buffer[length..].split_at_mut(GCM_TAG);
                tag_place.copy_from_slice(&tag);
                end[..INDEX].copy_from_slice(&word);
            }
        }
    }

    /// Decrypts an RTCP packet of `length` bytes and returns true if its tag is correct. The word
    /// behind the packet holds another field of SRTCP and is restored.
    pub(crate) fn unprotect_rtcp(
        &mut self,
        buffer: &mut [u8],
        length: usize,
        index: u32,
        tag: &[u8],
    ) -> bool {
        match self {
            Self::Hmac(hmac, cipher) => {
                let is_right =
                    begins_with(&hmac.code(&buffer[..length], &index.to_be_bytes()), tag);
                if is_right {
                    cipher.apply_rtcp(&mut buffer[..length], index);
                }
                is_right
            }
            Self::Gcm(salt, gcm) => {
                let Ok(tag) = tag.try_into() else { return false };
                with_associated_data(buffer, length, index, |header, aad, data| {
                    gcm.open(nonce(salt, &header[4..], index & !ENCRYPTED), aad, data, tag)
                })
            }
        }
    }
}

impl Cipher {
    #[inline]
    fn apply_rtp(&self, packet: &mut [u8], header: usize, index: u64) {
        let (header, payload) = packet.split_at_mut(header);
        match self {
            Self::Null => {}
            Self::Counter(salt, aes) => {
                aes.counter(nonce(salt, &header[8..12], index) << 16, payload);
            }
            Self::F8(f8) => {
                // Zero, then the header from the marker to the SSRC.
                let mut iv = [0; 16];
                iv[1..12].copy_from_slice(&header[1..12]);
                iv[12..].copy_from_slice(&rollover(index));
                f8.apply(&iv, payload);
            }
        }
    }

    fn apply_rtcp(&self, packet: &mut [u8], word: u32) {
        if word & ENCRYPTED == 0 {
            return;
        }
        let (header, payload) = packet.split_at_mut(RTCP_HEADER);
        match self {
            Self::Null => {}
            Self::Counter(salt, aes) => {
                aes.counter(nonce(salt, &header[4..], word & !ENCRYPTED) << 16, payload);
            }
            Self::F8(f8) => {
                let mut iv = [0; 16];
                iv[4..8].copy_from_slice(&word.to_be_bytes());
                iv[8..].copy_from_slice(header);
                f8.apply(&iv, payload);
            }
        }
    }
}

/// The rollover counter of an RTP packet index.
#[inline]
pub(crate) fn rollover(index: u64) -> [u8; 4] {
    ((index >> 16) as u32).to_be_bytes()
}

/// The nonce of AES-GCM with 96 bits (RFC 7714 sections 8.1 and 9.1), and the IV of counter mode
/// with 112 bits, without the block counter (RFC 3711 section 4.1.1).
#[inline]
fn nonce(salt: &u128, ssrc: &[u8], index: impl Into<u128>) -> u128 {
    let ssrc = u32::from_be_bytes([ssrc[0], ssrc[1], ssrc[2], ssrc[3]]);
    salt ^ u128::from(ssrc) << 48 ^ index.into()
}

/// Calls `apply` with the header of the RTCP packet of `length` bytes, the associated data, and the
/// part to be encrypted (RFC 7714 section 9.2).
fn with_associated_data<T>(
    buffer: &mut [u8],
    length: usize,
    word: u32,
    apply: impl FnOnce(&[u8; RTCP_HEADER], &[u8], &mut [u8]) -> T,
) -> T {
    let mut header = [0; RTCP_HEADER];
    header.copy_from_slice(&buffer[..RTCP_HEADER]);
    if word & ENCRYPTED == 0 {
        // Joins the packet and the index word temporarily.
        let mut kept = word.to_be_bytes();
        buffer[length..][..INDEX].swap_with_slice(&mut kept);
        let applied = apply(&header, &buffer[..length + INDEX], &mut []);
        buffer[length..][..INDEX].copy_from_slice(&kept);
        return applied;
    }
    let mut aad = [0; RTCP_HEADER + INDEX];
    aad[..RTCP_HEADER].copy_from_slice(&header);
    aad[RTCP_HEADER..].copy_from_slice(&word.to_be_bytes());
    apply(&header, &aad, &mut buffer[RTCP_HEADER..length])
}
