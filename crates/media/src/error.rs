//! The errors of a session.

use core::fmt;
use rtp::WriteError;
use srtp::{PolicyError, ProtectError};

/// The reason why a session cannot carry a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionError {
    /// The negotiated keys are unusable.
    Keys(PolicyError),
    /// The stream is in clear, and the previous one was encrypted.
    InClear,
    /// The keys are those of a handshake, which this path does not have.
    NoKeys,
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keys(error) => write!(f, "the negotiated SRTP keys are unusable: {error}"),
            Self::NoKeys => f.write_str("the keys of the stream come from a handshake"),
            Self::InClear => f.write_str("the new stream is in clear, the previous one encrypted"),
        }
    }
}

impl core::error::Error for SessionError {}

impl From<PolicyError> for SessionError {
    fn from(error: PolicyError) -> Self {
        Self::Keys(error)
    }
}

/// The reason why a key cannot be sent as a telephone event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DigitError {
    /// The character is not a key.
    Unknown(char),
    /// The other end does not accept telephone events.
    NotAccepted,
}

impl fmt::Display for DigitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(digit) => write!(f, "{digit:?} is not one of 0 to 9, *, #, A to D"),
            Self::NotAccepted => f.write_str("the other end does not accept telephone events"),
        }
    }
}

impl core::error::Error for DigitError {}

/// The reason why a session cannot send a packet. [`Statistics::unsent`] counts these packets.
///
/// [`Statistics::unsent`]: crate::Statistics::unsent
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// It cannot be written: it exceeds the maximum length of a packet.
    Write(WriteError),
    /// It cannot be encrypted, for example because the lifetime of the master key has ended.
    Protect(ProtectError),
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(error) => write!(f, "the packet cannot be written: {error}"),
            Self::Protect(error) => write!(f, "the packet cannot be encrypted: {error}"),
        }
    }
}

impl core::error::Error for SendError {}

impl From<WriteError> for SendError {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}

impl From<ProtectError> for SendError {
    fn from(error: ProtectError) -> Self {
        Self::Protect(error)
    }
}
