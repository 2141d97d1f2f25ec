//! Crypto suites (RFC 4568 section 6.2, RFC 6188, RFC 7714 section 14.2).

use core::fmt;

/// A crypto suite: encryption and authentication of packets, by the names of SDES.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Suite {
    /// AES in counter mode with a key of 128 bits; HMAC-SHA1 with a tag of 80 bits.
    AesCm128HmacSha1_80,
    /// The same with a tag of 32 bits for RTP.
    AesCm128HmacSha1_32,
    /// AES in f8 mode with a key of 128 bits; HMAC-SHA1 with a tag of 80 bits.
    F8128HmacSha1_80,
    /// AES in counter mode with a key of 192 bits; HMAC-SHA1 with a tag of 80 bits.
    AesCm192HmacSha1_80,
    /// The same with a tag of 32 bits for RTP.
    AesCm192HmacSha1_32,
    /// AES in counter mode with a key of 256 bits; HMAC-SHA1 with a tag of 80 bits.
    AesCm256HmacSha1_80,
    /// The same with a tag of 32 bits for RTP.
    AesCm256HmacSha1_32,
    /// AES-GCM with a key of 128 bits and a tag of 128 bits.
    AeadAes128Gcm,
    /// AES-GCM with a key of 256 bits and a tag of 128 bits.
    AeadAes256Gcm,
}

impl Suite {
    /// All suites, in order of support by other implementations.
    pub const ALL: [Self; 9] = [
        Self::AesCm128HmacSha1_80,
        Self::AesCm128HmacSha1_32,
        Self::F8128HmacSha1_80,
        Self::AesCm192HmacSha1_80,
        Self::AesCm192HmacSha1_32,
        Self::AesCm256HmacSha1_80,
        Self::AesCm256HmacSha1_32,
        Self::AeadAes128Gcm,
        Self::AeadAes256Gcm,
    ];

    /// The SDP name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AesCm128HmacSha1_80 => "AES_CM_128_HMAC_SHA1_80",
            Self::AesCm128HmacSha1_32 => "AES_CM_128_HMAC_SHA1_32",
            Self::F8128HmacSha1_80 => "F8_128_HMAC_SHA1_80",
            Self::AesCm192HmacSha1_80 => "AES_192_CM_HMAC_SHA1_80",
            Self::AesCm192HmacSha1_32 => "AES_192_CM_HMAC_SHA1_32",
            Self::AesCm256HmacSha1_80 => "AES_256_CM_HMAC_SHA1_80",
            Self::AesCm256HmacSha1_32 => "AES_256_CM_HMAC_SHA1_32",
            Self::AeadAes128Gcm => "AEAD_AES_128_GCM",
            Self::AeadAes256Gcm => "AEAD_AES_256_GCM",
        }
    }

    /// The suite with this SDP name (case-insensitive). Besides the registered names, the
    /// unregistered ones that phones use for the suites of RFC 6188 are accepted: `AES_CM_192_…`
    /// and `AES_CM_256_…`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        let mut suites = Self::ALL.into_iter();
        suites.find(|suite| is(suite.name()) || suite.legacy_name().is_some_and(is))
    }

    /// The name that phones used before the registration, which only the suites of RFC 6188 have.
    #[must_use]
    pub fn legacy_name(self) -> Option<&'static str> {
        match self {
            Self::AesCm192HmacSha1_80 => Some("AES_CM_192_HMAC_SHA1_80"),
            Self::AesCm192HmacSha1_32 => Some("AES_CM_192_HMAC_SHA1_32"),
            Self::AesCm256HmacSha1_80 => Some("AES_CM_256_HMAC_SHA1_80"),
            Self::AesCm256HmacSha1_32 => Some("AES_CM_256_HMAC_SHA1_32"),
            _ => None,
        }
    }

    /// The length of the master key and of the session encryption keys in bytes.
    #[must_use]
    pub fn key_length(self) -> usize {
        match self {
            Self::AesCm128HmacSha1_80
            | Self::AesCm128HmacSha1_32
            | Self::F8128HmacSha1_80
            | Self::AeadAes128Gcm => 16,
            Self::AesCm192HmacSha1_80 | Self::AesCm192HmacSha1_32 => 24,
            Self::AesCm256HmacSha1_80 | Self::AesCm256HmacSha1_32 | Self::AeadAes256Gcm => 32,
        }
    }

    /// The length of the master salt and of the session salts in bytes.
    #[must_use]
    pub fn salt_length(self) -> usize {
        if self.is_aead() { 12 } else { 14 }
    }

    /// Returns true if encryption and authentication are combined (RFC 7714).
    #[must_use]
    pub fn is_aead(self) -> bool {
        matches!(self, Self::AeadAes128Gcm | Self::AeadAes256Gcm)
    }

    /// The length of an RTP authentication tag in bytes.
    #[must_use]
    pub fn rtp_tag_length(self) -> usize {
        match self {
            Self::AesCm128HmacSha1_32 | Self::AesCm192HmacSha1_32 | Self::AesCm256HmacSha1_32 => 4,
            _ => self.rtcp_tag_length(),
        }
    }

    /// The length of an RTCP authentication tag in bytes: 80 bits even if RTP has 32 (RFC 4568
    /// section 6.2.2).
    #[must_use]
    pub fn rtcp_tag_length(self) -> usize {
        if self.is_aead() { 16 } else { 10 }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
