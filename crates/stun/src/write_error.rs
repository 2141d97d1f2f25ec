//! The error of the writer.

use core::error::Error;
use core::fmt;

/// The reason why an attribute was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteError {
    /// The length of the attribute or of the message would exceed its 16-bit field.
    TooLong,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => f.write_str("a STUN message of more than 65,535 bytes"),
        }
    }
}

impl Error for WriteError {}
