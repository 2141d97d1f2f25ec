//! Why commands for calls are not carried out.

use core::fmt;

/// Why a command for a call is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError {
    /// The call is over, or never was.
    Unknown,
    /// The call is not so far: what it would have to be.
    State(&'static str),
    /// A change of the session is under way, of this end or the other.
    OfferPending,
    /// There is no such account, or the URI leads nowhere.
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
