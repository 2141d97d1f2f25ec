//! The errors of local candidates and of TURN servers.

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;

/// The reason why an address is no candidate: it is unspecified, link-local, or a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CandidateError {
    /// The address.
    pub address: SocketAddr,
}

impl fmt::Display for CandidateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be an ICE candidate: expected a unicast address", self.address.ip())
    }
}

impl Error for CandidateError {}

/// The reason why a TURN server gives no relayed address.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RelayError {
    /// The server has refused the request, with this code and reason phrase.
    Refused {
        /// The code of the error response, 300 to 699.
        code: u16,
        /// The reason phrase, without control characters.
        reason: String,
    },
    /// The server does not answer.
    TimedOut,
    /// The connection to the server was not established, or has ended.
    Disconnected,
    /// The server no longer refreshes the relayed address.
    Expired,
}

impl fmt::Display for RelayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { code: 401, .. } => {
                write!(f, "the TURN server does not accept the user or the password (401)")
            }
            Self::Refused { code, reason } => {
                write!(f, "the TURN server refuses a relayed address: {code} {reason}")
            }
            Self::TimedOut => write!(f, "the TURN server does not answer"),
            Self::Disconnected => write!(f, "there is no connection to the TURN server"),
            Self::Expired => write!(f, "the TURN server no longer relays"),
        }
    }
}

impl Error for RelayError {}
