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
    /// The lowest of the numbers that are reserved for [internal flows](Flow::internal). A program
    /// gives no connection this number or a higher one.
    pub const FIRST_INTERNAL: NonZeroU64 = match NonZeroU64::new(u64::MAX - 0xff) {
        Some(first) => first,
        None => NonZeroU64::MAX,
    };
    /// The connection of the internal flow of a party on a stream.
    pub const INTERNAL: Self = Self(NonZeroU64::MAX);
    /// The connection of the internal flow of a party on a datagram transport.
    pub const INTERNAL_OF_DATAGRAM: Self = Self(Self::FIRST_INTERNAL);

    /// True if the number is reserved for internal flows.
    #[must_use]
    pub const fn is_internal(self) -> bool {
        self.0.get() >= Self::FIRST_INTERNAL.get()
    }
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
    /// The internal flow of the party at the other end of this flow: between a proxy and a B2BUA in
    /// the same process, for a call of that party. It has the addresses of this flow, and is a
    /// reliable stream that is as secure as this flow. Its messages never leave the process.
    #[must_use]
    pub const fn internal(&self) -> Self {
        if self.is_internal() {
            return *self;
        }
        let (transport, connection) = match self.transport {
            Transport::Udp => (Transport::Tcp, Connection::INTERNAL_OF_DATAGRAM),
            transport => (transport, Connection::INTERNAL),
        };
        Self { transport, connection: Some(connection), ..*self }
    }

    /// True if this is an [internal flow](Flow::internal).
    #[must_use]
    pub const fn is_internal(&self) -> bool {
        matches!(self.connection, Some(connection) if connection.is_internal())
    }

    /// The transport of the party at the other end, also of an internal flow.
    #[must_use]
    pub fn outer_transport(&self) -> Transport {
        match self.connection {
            Some(Connection::INTERNAL_OF_DATAGRAM) => Transport::Udp,
            _ => self.transport,
        }
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.transport.uri_name(), self.remote)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_internal_flow_is_a_stream_of_the_same_party_and_as_secure() {
        for transport in Transport::ALL {
            let connection = transport.is_stream().then_some(Connection(NonZeroU64::MIN));
            let local = ([192, 0, 2, 1], 5060).into();
            let flow = Flow { transport, local, remote: ([192, 0, 2, 9], 9).into(), connection };
            let internal = flow.internal();
            assert!(internal.is_internal() && !flow.is_internal(), "{transport:?}");
            assert!(internal.transport.is_stream());
            assert_eq!(internal.transport.is_secure(), transport.is_secure());
            assert_eq!((internal.local, internal.remote), (flow.local, flow.remote));
            assert_eq!(internal.outer_transport(), transport);
            assert_eq!(flow.outer_transport(), transport);
            assert_eq!(internal.internal(), internal, "{transport:?}");
        }
    }
}
