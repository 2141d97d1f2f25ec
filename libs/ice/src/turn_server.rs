//! A TURN server and the credentials for it.

use std::fmt;
use std::net::SocketAddr;

/// A TURN server (RFC 8656) that relays datagrams.
#[derive(Clone, PartialEq, Eq)]
pub struct TurnServer {
    /// The address.
    pub address: SocketAddr,
    /// The transport to the server. The relayed datagrams are UDP in any case.
    pub transport: TurnTransport,
    /// The user of the long-term credentials.
    pub user: String,
    /// The password of the long-term credentials.
    pub password: String,
}

/// The transport from the client to a TURN server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnTransport {
    /// UDP, on the socket of the medium.
    Udp,
    /// A connection that the owner opens: TCP, or TLS over it.
    Stream,
}

impl fmt::Debug for TurnServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, transport, user, .. } = self;
        f.debug_struct("TurnServer")
            .field("address", address)
            .field("transport", transport)
            .field("user", user)
            .finish_non_exhaustive()
    }
}
