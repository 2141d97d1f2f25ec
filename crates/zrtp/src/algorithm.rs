//! The algorithms, their names, and the choice between them (RFC 6189 section 5.1).

use alloc::vec;
use alloc::vec::Vec;

/// The most names of one kind in a Hello message, and the most that are read.
pub(crate) const NAMES: usize = 7;

/// A kind of algorithm.
pub(crate) trait Algorithm: Copy + PartialEq + 'static {
    /// All that this crate has.
    const ALL: &'static [Self];
    /// Those that every end has, whether named or not.
    const MANDATORY: &'static [Self];

    /// The name in messages.
    fn name(self) -> &'static [u8; 4];

    /// The algorithm with this name.
    fn from_name(name: [u8; 4]) -> Option<Self> {
        Self::ALL.iter().copied().find(|it| *it.name() == name)
    }

    /// The first of ours that the peer has, or a mandatory one.
    fn choose(ours: &[Self], theirs: &[[u8; 4]]) -> Self {
        let has = |it: &&Self| theirs.contains(it.name()) || Self::MANDATORY.contains(it);
        ours.iter().find(has).copied().unwrap_or(Self::MANDATORY[0])
    }

    /// The algorithm with this name if it is one of ours or mandatory.
    fn accept(ours: &[Self], name: [u8; 4]) -> Option<Self> {
        Self::from_name(name).filter(|it| ours.contains(it) || Self::MANDATORY.contains(it))
    }
}

/// A hash function, and the HMAC by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Hash {
    /// SHA-256.
    S256,
    /// SHA-384.
    S384,
}

impl Algorithm for Hash {
    const ALL: &'static [Self] = &[Self::S256, Self::S384];
    const MANDATORY: &'static [Self] = &[Self::S256];

    fn name(self) -> &'static [u8; 4] {
        match self {
            Self::S256 => b"S256",
            Self::S384 => b"S384",
        }
    }
}

/// The cipher of SRTP and of Confirm messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cipher {
    /// AES with a key of 128 bits.
    Aes1,
    /// AES with a key of 256 bits.
    Aes3,
}

impl Cipher {
    /// The length of a key in bytes.
    #[must_use]
    pub fn key_length(self) -> usize {
        match self {
            Self::Aes1 => 16,
            Self::Aes3 => 32,
        }
    }
}

impl Algorithm for Cipher {
    const ALL: &'static [Self] = &[Self::Aes1, Self::Aes3];
    const MANDATORY: &'static [Self] = &[Self::Aes1];

    fn name(self) -> &'static [u8; 4] {
        match self {
            Self::Aes1 => b"AES1",
            Self::Aes3 => b"AES3",
        }
    }
}

/// The length of the authentication tag of an RTP packet: HMAC-SHA1 with 32 or 80 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AuthTag {
    /// 32 bits.
    Hs32,
    /// 80 bits.
    Hs80,
}

impl Algorithm for AuthTag {
    const ALL: &'static [Self] = &[Self::Hs32, Self::Hs80];
    const MANDATORY: &'static [Self] = Self::ALL;

    fn name(self) -> &'static [u8; 4] {
        match self {
            Self::Hs32 => b"HS32",
            Self::Hs80 => b"HS80",
        }
    }
}

/// The group of the Diffie-Hellman exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeyAgreement {
    /// X25519. Not in RFC 6189; named as by bzrtp, the library of linphone.
    X255,
    /// The curve P-256.
    Ec25,
    /// The MODP group of 3072 bits of RFC 3526.
    Dh3k,
}

impl KeyAgreement {
    /// The length of a public value in bytes.
    #[must_use]
    pub fn public_length(self) -> usize {
        match self {
            Self::X255 => 32,
            Self::Ec25 => 64,
            Self::Dh3k => 384,
        }
    }
}

impl Algorithm for KeyAgreement {
    const ALL: &'static [Self] = &[Self::X255, Self::Ec25, Self::Dh3k];
    const MANDATORY: &'static [Self] = &[Self::Dh3k];

    fn name(self) -> &'static [u8; 4] {
        match self {
            Self::X255 => b"X255",
            Self::Ec25 => b"EC25",
            Self::Dh3k => b"DH3k",
        }
    }
}

/// The rendering of the short authentication string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SasType {
    /// Four characters, of 20 bits.
    B32,
    /// Two words of the PGP word list, of 16 bits.
    B256,
}

impl Algorithm for SasType {
    const ALL: &'static [Self] = &[Self::B32, Self::B256];
    const MANDATORY: &'static [Self] = &[Self::B32];

    fn name(self) -> &'static [u8; 4] {
        match self {
            Self::B32 => b"B32 ",
            Self::B256 => b"B256",
        }
    }
}

/// The algorithms that an end offers, the preferred first. The mandatory ones are taken in any
/// case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preferences {
    /// Hash functions.
    pub hashes: Vec<Hash>,
    /// Ciphers.
    pub ciphers: Vec<Cipher>,
    /// Authentication tags.
    pub auth_tags: Vec<AuthTag>,
    /// Groups of the exchange.
    pub key_agreements: Vec<KeyAgreement>,
    /// Renderings of the short authentication string.
    pub sas_types: Vec<SasType>,
}

impl Default for Preferences {
    fn default() -> Self {
        Self {
            hashes: vec![Hash::S256, Hash::S384],
            ciphers: vec![Cipher::Aes1, Cipher::Aes3],
            auth_tags: vec![AuthTag::Hs80, AuthTag::Hs32],
            key_agreements: vec![KeyAgreement::X255, KeyAgreement::Ec25, KeyAgreement::Dh3k],
            sas_types: vec![SasType::B32, SasType::B256],
        }
    }
}

/// The algorithms of one agreement, which the initiator chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Suite {
    pub(crate) hash: Hash,
    pub(crate) cipher: Cipher,
    pub(crate) auth_tag: AuthTag,
    pub(crate) key_agreement: KeyAgreement,
    pub(crate) sas_type: SasType,
}

impl Suite {
    /// The suite of SRTP.
    pub(crate) fn srtp(self) -> srtp::Suite {
        match (self.cipher, self.auth_tag) {
            (Cipher::Aes1, AuthTag::Hs32) => srtp::Suite::AesCm128HmacSha1_32,
            (Cipher::Aes1, AuthTag::Hs80) => srtp::Suite::AesCm128HmacSha1_80,
            (Cipher::Aes3, AuthTag::Hs32) => srtp::Suite::AesCm256HmacSha1_32,
            (Cipher::Aes3, AuthTag::Hs80) => srtp::Suite::AesCm256HmacSha1_80,
        }
    }
}
