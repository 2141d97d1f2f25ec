//! The keyings of a stream.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use sdp::CryptoAttribute;
use sdp::dtls::{DtlsParameters, Fingerprint};
use sdp::negotiation::NegotiatedSrtp;

/// A protocol for the agreement on SRTP keys, with the parameters of the local end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyAgreement {
    /// Keys in the session descriptions (RFC 4568).
    Sdes,
    /// A DTLS handshake on the media path (RFC 5763), with the fingerprint of the local
    /// certificate.
    Dtls(Fingerprint),
    /// ZRTP on the media path (RFC 6189), with the value of the local `a=zrtp-hash`.
    Zrtp(String),
}

/// The keying of a stream: the protocol of the agreement on its SRTP keys.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Keying {
    /// The stream is in clear.
    #[default]
    None,
    /// SRTP with the keys of the session descriptions (RFC 4568).
    Sdes(NegotiatedSrtp),
    /// SRTP with the keys of a DTLS handshake (RFC 5763). The session carries nothing before
    /// [`Session::set_keys`](crate::Session::set_keys).
    Dtls(DtlsPeer),
    /// SRTP with the keys of ZRTP (RFC 6189), with the value of the other end's `a=zrtp-hash`. The
    /// session carries nothing before [`Session::set_keys`](crate::Session::set_keys).
    Zrtp(String),
}

/// The other end of a DTLS handshake, by the session descriptions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DtlsPeer {
    /// The fingerprints by the strongest hash function. The certificate has to match one of them.
    pub fingerprints: Vec<Fingerprint>,
    /// The identifier of the association (`a=tls-id`, RFC 8842).
    pub tls_id: Option<String>,
    /// True if the local end sends the `ClientHello`.
    pub is_client: bool,
}

impl DtlsPeer {
    /// Returns the peer that a description names. The role is that of the local end.
    #[must_use]
    pub fn new(parameters: &DtlsParameters<'_>, is_client: bool) -> Self {
        Self {
            fingerprints: parameters.strongest().cloned().collect(),
            tls_id: parameters.tls_id.map(ToString::to_string),
            is_client,
        }
    }

    /// Returns true if both describe the same association. Its roles are those of the first
    /// agreement (RFC 8842 section 5).
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.fingerprints == other.fingerprints && self.tls_id == other.tls_id
    }
}

impl Keying {
    /// Returns true if the stream is encrypted.
    #[must_use]
    pub const fn is_encrypted(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// Returns the keys and policies of both directions if the session descriptions have them.
    #[must_use]
    pub const fn sdes(&self) -> Option<&NegotiatedSrtp> {
        match self {
            Self::Sdes(agreed) => Some(agreed),
            Self::None | Self::Dtls(_) | Self::Zrtp(_) => None,
        }
    }

    /// Returns the other end of the handshake if the keys are those of DTLS.
    #[must_use]
    pub const fn dtls(&self) -> Option<&DtlsPeer> {
        match self {
            Self::Dtls(peer) => Some(peer),
            Self::None | Self::Sdes(_) | Self::Zrtp(_) => None,
        }
    }

    /// Returns the value of the other end's `a=zrtp-hash` if the keys are those of ZRTP.
    #[must_use]
    pub const fn zrtp(&self) -> Option<&str> {
        match self {
            Self::Zrtp(hash) => Some(hash.as_str()),
            Self::None | Self::Sdes(_) | Self::Dtls(_) => None,
        }
    }
}

/// Returns true if two attributes have the same keys and the same policy.
pub(crate) fn is_same(one: &CryptoAttribute, other: &CryptoAttribute) -> bool {
    let are_same = |(one, other): (&sdp::crypto::InlineKey, &sdp::crypto::InlineKey)| {
        one.bytes == other.bytes && one.mki == other.mki
    };
    one.policy == other.policy
        && one.keys.len() == other.keys.len()
        && one.keys.iter().zip(&other.keys).all(are_same)
}
