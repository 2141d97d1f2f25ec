//! The error of a local candidate.

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
