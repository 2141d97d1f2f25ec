//! The keyings of a stream.

use sdp::negotiation::NegotiatedSrtp;

/// The keying of a stream: the protocol of the agreement on its SRTP keys.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Keying {
    /// The stream is in clear.
    #[default]
    None,
    /// SRTP with the keys of the session descriptions (RFC 4568).
    Sdes(NegotiatedSrtp),
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
            Self::None => None,
        }
    }
}
