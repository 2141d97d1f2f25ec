//! Flows: the transport association of a message, over which others can be sent back (RFC 5626
//! section 2). Messages to send on a flow, and locations to which a flow can be opened.

use crate::Transport;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;
use core::num::NonZeroU64;

/// A stream connection, numbered by the program that owns it. Numbers are unique, even across
/// restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Connection(pub NonZeroU64);

/// A user agent in the process of a proxy, which it reaches on [internal flows](Flow::internal).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// The back-to-back user agent.
    B2bua,
    /// The media server: voicemail, announcements, conferences.
    MediaServer,
    /// The notifier of subscriptions (RFC 6665).
    Notifier,
    /// The keeper of messages for users without a reachable phone.
    Keeper,
    /// The user agent that registers at the trunk with this number, and probes it.
    Trunk(u8),
}

impl Endpoint {
    /// The number of the first trunk.
    const TRUNKS: u64 = 0x80;

    /// The place of the endpoint in the reserved numbers of connections.
    const fn number(self) -> u64 {
        match self {
            Self::B2bua => 0,
            Self::MediaServer => 1,
            Self::Notifier => 2,
            Self::Keeper => 3,
            Self::Trunk(trunk) => Self::TRUNKS + trunk as u64,
        }
    }

    const fn of_number(number: u64) -> Option<Self> {
        match number {
            0 => Some(Self::B2bua),
            1 => Some(Self::MediaServer),
            2 => Some(Self::Notifier),
            3 => Some(Self::Keeper),
            trunk if trunk >= Self::TRUNKS && trunk - Self::TRUNKS <= u8::MAX as u64 => {
                Some(Self::Trunk((trunk - Self::TRUNKS) as u8))
            }
            _ => None,
        }
    }
}

impl Connection {
    /// The lowest of the numbers that are reserved for [internal flows](Flow::internal). A program
    /// gives no connection this number or a higher one.
    pub const FIRST_INTERNAL: NonZeroU64 = match NonZeroU64::new(u64::MAX - 0xffff) {
        Some(first) => first,
        None => NonZeroU64::MAX,
    };
    /// The connection of the internal flow between the B2BUA and a party on a stream.
    pub const INTERNAL: Self = Self::internal(Endpoint::B2bua, false);
    /// The connection of the internal flow between the B2BUA and a party on a datagram transport.
    pub const INTERNAL_OF_DATAGRAM: Self = Self::internal(Endpoint::B2bua, true);

    /// The connection of the internal flow between `endpoint` and a party.
    const fn internal(endpoint: Endpoint, is_of_datagram: bool) -> Self {
        // Odd numbers are those of parties on a stream.
        let offset = endpoint.number() * 2 + !is_of_datagram as u64;
        match NonZeroU64::new(Self::FIRST_INTERNAL.get() + offset) {
            Some(number) => Self(number),
            None => Self(Self::FIRST_INTERNAL),
        }
    }

    /// True if the number is reserved for internal flows.
    #[must_use]
    pub const fn is_internal(self) -> bool {
        self.0.get() >= Self::FIRST_INTERNAL.get()
    }

    /// The endpoint in the process, if this is the connection of an internal flow.
    #[must_use]
    pub const fn endpoint(self) -> Option<Endpoint> {
        match self.0.get().checked_sub(Self::FIRST_INTERNAL.get()) {
            Some(offset) => Endpoint::of_number(offset / 2),
            None => None,
        }
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
    /// The internal flow of the party at the other end of this flow: between a proxy and the B2BUA
    /// in the same process, for a call of that party. It has the addresses of this flow, and is a
    /// reliable stream that is as secure as this flow. Its messages never leave the process.
    #[must_use]
    pub const fn internal(&self) -> Self {
        match self.is_internal() {
            true => *self,
            false => self.internal_to(Endpoint::B2bua),
        }
    }

    /// The internal flow between `endpoint` and the party at the other end of this flow, which may
    /// be internal itself.
    #[must_use]
    pub const fn internal_to(&self, endpoint: Endpoint) -> Self {
        let transport = match self.transport {
            Transport::Udp => Transport::Tcp,
            transport => transport,
        };
        let is_of_datagram = matches!(self.outer_transport(), Transport::Udp);
        let connection = Some(Connection::internal(endpoint, is_of_datagram));
        Self { transport, connection, ..*self }
    }

    /// The endpoint in the process, if this is an [internal flow](Flow::internal).
    #[must_use]
    pub const fn endpoint(&self) -> Option<Endpoint> {
        match self.connection {
            Some(connection) => connection.endpoint(),
            None => None,
        }
    }

    /// True if this is an [internal flow](Flow::internal).
    #[must_use]
    pub const fn is_internal(&self) -> bool {
        matches!(self.connection, Some(connection) if connection.is_internal())
    }

    /// The transport of the party at the other end, also of an internal flow.
    #[must_use]
    pub const fn outer_transport(&self) -> Transport {
        match self.connection {
            Some(connection) if connection.is_internal() && connection.0.get() % 2 == 0 => {
                Transport::Udp
            }
            _ => self.transport,
        }
    }
}

/// A SIP message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The flow to send it on.
    pub flow: Flow,
    /// The complete message.
    pub bytes: Vec<u8>,
}

/// One address of a destination: an element of the answer to a look-up (RFC 3263), with the local
/// address towards it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The transport.
    pub transport: Transport,
    /// The remote address.
    pub remote: SocketAddr,
    /// The local address to send from, which Via and Contact name. It is not a wildcard, has the
    /// port of the listener, and as far as is known, the other end can reach it. `None` if the
    /// owner does not know it: a proxy chooses one of its listeners, and a user agent does not use
    /// the location.
    pub local: Option<SocketAddr>,
}

impl Location {
    /// The flow to this location, which is to be opened. `None` without a local address.
    #[must_use]
    pub fn flow(&self) -> Option<Flow> {
        let Self { transport, remote, local } = *self;
        Some(Flow { transport, local: local?, remote, connection: None })
    }
}

impl From<Flow> for Location {
    /// The location at the remote end of `flow`.
    fn from(flow: Flow) -> Self {
        let Flow { transport, local, remote, .. } = flow;
        Self { transport, remote, local: Some(local) }
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

    #[test]
    fn an_internal_flow_names_its_endpoint() {
        let local = ([192, 0, 2, 1], 5060).into();
        let endpoints = [
            Endpoint::B2bua,
            Endpoint::MediaServer,
            Endpoint::Notifier,
            Endpoint::Keeper,
            Endpoint::Trunk(0),
            Endpoint::Trunk(u8::MAX),
        ];
        for transport in [Transport::Udp, Transport::Tls] {
            let connection = transport.is_stream().then_some(Connection(NonZeroU64::MIN));
            let flow = Flow { transport, local, remote: ([192, 0, 2, 9], 9).into(), connection };
            assert_eq!(flow.endpoint(), None);
            for endpoint in endpoints {
                let internal = flow.internal_to(endpoint);
                assert_eq!(internal.endpoint(), Some(endpoint));
                assert_eq!(internal.outer_transport(), transport);
                assert_eq!(internal.internal_to(Endpoint::B2bua), flow.internal());
            }
        }
        let unused = Connection(Connection::FIRST_INTERNAL).0.get() + 0x7000;
        assert_eq!(NonZeroU64::new(unused).and_then(|it| Connection(it).endpoint()), None);
    }
}
