//! The errors of identities and associations.

use std::error::Error;
use std::fmt;

/// The reason why a handshake has failed. The association is of no further use.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AssociationError {
    /// The certificate of the peer matches none of the fingerprints in its description: another
    /// program answers in its place, or changed the description.
    Fingerprint,
    /// The peer sent no certificate.
    NoCertificate,
    /// The peer agreed to no profile of SRTP.
    NoProfile,
    /// The handshake failed or timed out.
    Handshake(dimpl::Error),
    /// The peer has closed the association.
    Closed,
}

impl fmt::Display for AssociationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fingerprint => write!(
                f,
                "the certificate of the DTLS peer does not match the fingerprint in its description"
            ),
            Self::NoCertificate => write!(f, "the DTLS peer sent no certificate"),
            Self::NoProfile => write!(f, "the DTLS peer agreed to no profile of SRTP"),
            Self::Handshake(error) => write!(f, "the DTLS handshake failed: {error}"),
            Self::Closed => write!(f, "the DTLS peer closed the association"),
        }
    }
}

impl Error for AssociationError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Handshake(error) => Some(error),
            _ => None,
        }
    }
}

/// The reason why no certificate could be made.
#[derive(Debug)]
pub struct IdentityError(pub(crate) rcgen::Error);

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot make a certificate for DTLS: {}", self.0)
    }
}

impl Error for IdentityError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}
