//! The reasons why a server does not relay, and why a datagram is not sent.

use crate::WriteError;
use alloc::string::String;
use core::fmt;

/// The reason why a TURN server gives no relayed address, or no longer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The server has refused the request, with this code and reason phrase.
    Refused {
        /// The code of the error response, 300 to 699.
        code: u16,
        /// The reason phrase, without control characters.
        reason: String,
    },
    /// The server does not answer.
    TimedOut,
    /// The connection to the server was not established, or has ended, for this reason.
    Disconnected(String),
    /// The server no longer refreshes the relayed address.
    Expired,
    /// The server sends octets that are not TURN, or a response that lacks its contents.
    Malformed,
    /// The user, the realm or the nonce is too long for a request.
    TooLong,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { code: 401, .. } => {
                write!(f, "the TURN server does not accept the user or the password (401)")
            }
            Self::Refused { code, reason } => {
                write!(f, "the TURN server refuses a relayed address: {code} {reason}")
            }
            Self::TimedOut => write!(f, "the TURN server does not answer"),
            Self::Disconnected(cause) => {
                write!(f, "there is no connection to the TURN server: {cause}")
            }
            Self::Expired => write!(f, "the TURN server no longer relays"),
            Self::Malformed => {
                write!(f, "the TURN server sends something else than TURN; check its port")
            }
            Self::TooLong => {
                write!(f, "the user or the realm of the TURN server is too long for a request")
            }
        }
    }
}

impl core::error::Error for Error {}

/// The reason why a datagram for a peer cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// The server has not permitted the peer: the permission is requested, was refused, or was
    /// never requested.
    NotPermitted,
    /// The datagram does not fit into a message to the server.
    Write(WriteError),
}

impl From<WriteError> for SendError {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPermitted => write!(f, "the TURN server has not permitted the peer"),
            Self::Write(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for SendError {}
