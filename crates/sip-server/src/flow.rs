//! Flows: where a message came from and how another one gets back there (RFC 5626 section 2).

use core::fmt;
use core::net::SocketAddr;
use core::num::NonZeroU64;

/// What carries a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Datagrams (RFC 3261 section 18).
    Udp,
    /// A stream.
    Tcp,
}

impl Transport {
    /// Whether the transport delivers by itself, so that SIP does not retransmit.
    #[must_use]
    pub const fn is_reliable(self) -> bool {
        !matches!(self, Self::Udp)
    }

    /// The name in a Via header field.
    #[must_use]
    pub const fn via_name(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
        }
    }

    /// The value of a `transport` URI parameter.
    #[must_use]
    pub const fn uri_name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }
}

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
