//! A TURN server and the credentials for it.

use std::net::SocketAddr;
use stun::turn::{Credentials, Transport};

/// A TURN server (RFC 8656) that relays datagrams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnServer {
    /// The address.
    pub address: SocketAddr,
    /// The transport to the server: UDP on the socket of the medium, or a connection that the owner
    /// opens.
    pub transport: Transport,
    /// The long-term credentials.
    pub credentials: Credentials,
}
