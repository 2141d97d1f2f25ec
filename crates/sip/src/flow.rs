//! Flows: where a message came from and how another one gets back there (RFC 5626 section 2).

use crate::Transport;
use core::fmt;
use core::net::SocketAddr;
use core::num::NonZeroU64;

/// A stream connection, numbered by the program that owns it. Numbers are not used again, also
/// after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Connection(pub NonZeroU64);

/// The two ends of an exchange of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// What carries the messages.
    pub transport: Transport,
    /// Our end: the address that the peer sent to, never a wildcard, and the listener's port.
    pub local: SocketAddr,
    /// The peer's end.
    pub remote: SocketAddr,
    /// The connection, for a stream. `None` on a stream that is yet to be opened: the program
    /// reuses a connection to `remote` or opens one.
    pub connection: Option<Connection>,
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.transport.uri_name(), self.remote)
    }
}
