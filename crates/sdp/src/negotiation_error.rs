//! The error of a negotiation of SRTP keys.

use core::error::Error;
use core::fmt;
use srtp::PolicyError;

/// The reason why an offer or an answer results in no keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NegotiationError {
    /// No crypto attribute of the offer is acceptable.
    NotAcceptable,
    /// The answer has no crypto attribute, or several.
    NotSingle,
    /// The tag of the answer is not that of an offered attribute.
    Tag(u32),
    /// The suite, or the unencrypted or unauthenticated parts, are not those of the offer.
    Mismatch,
    /// Both ends would use the same key.
    SharedKey,
    /// The own attribute is invalid.
    Policy(PolicyError),
}

impl fmt::Display for NegotiationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAcceptable => f.write_str("no acceptable crypto attribute is offered"),
            Self::NotSingle => f.write_str("expected one crypto attribute in the answer"),
            Self::Tag(tag) => write!(f, "crypto attribute {tag} was not offered"),
            Self::Mismatch => f.write_str("suite or protection of the answer was not offered"),
            Self::SharedKey => f.write_str("both ends have the same SRTP key"),
            Self::Policy(error) => write!(f, "{error}"),
        }
    }
}

impl Error for NegotiationError {}

impl From<PolicyError> for NegotiationError {
    fn from(error: PolicyError) -> Self {
        Self::Policy(error)
    }
}
