//! Flows: the transport association of a message, over which others can be sent back (RFC 5626
//! section 2).

use crate::Transport;
use core::fmt;
use core::net::SocketAddr;
use core::num::NonZeroU64;

/// A stream connection, numbered by the program that owns it. Numbers are unique, even across
/// restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Connection(pub NonZeroU64);

/// The two ends of a transport association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// The transport protocol.
    pub transport: Transport,
    /// The local end: the address to which the peer sent, never a wildcard, and the listener's
    /// port.
    pub local: SocketAddr,
    /// The remote end.
    pub remote: SocketAddr,
    /// The connection of a stream. `None` for a stream to be opened: the program reuses a
    /// connection to `remote` or opens one.
    pub connection: Option<Connection>,
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.transport.uri_name(), self.remote)
    }
}
