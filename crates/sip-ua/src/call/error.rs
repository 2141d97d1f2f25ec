//! The errors of commands for calls.

use core::fmt;

/// The reason why a command for a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError {
    /// The call is over, or does not exist.
    Unknown,
    /// The call is in another state than this one.
    State(&'static str),
    /// A change of the session is pending, from this end or the other one.
    OfferPending,
    /// The account does not exist, or the URI is invalid.
    Uri,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("there is no such call any more"),
            Self::State(wanted) => write!(f, "the call would have to be {wanted}"),
            Self::OfferPending => f.write_str("the session is being changed already"),
            Self::Uri => f.write_str("expected an account and a SIP URI"),
        }
    }
}

impl core::error::Error for CallError {}
