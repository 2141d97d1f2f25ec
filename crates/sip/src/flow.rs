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

impl Connection {
    /// The number of all internal flows, which no connection may have: see
    /// [`Flow::is_internal`].
    pub const INTERNAL: Self = Self(NonZeroU64::MAX);
}

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

impl Flow {
    /// Returns true for a flow that does not leave the program: between a proxy and the
    /// back-to-back user agent beside it. Its addresses are those of a flow of the caller.
    #[must_use]
    pub fn is_internal(&self) -> bool {
        self.connection == Some(Connection::INTERNAL)
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.transport.uri_name(), self.remote)
    }
}
