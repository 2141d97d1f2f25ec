//! The routing of messages.

use std::net::{IpAddr, SocketAddr, UdpSocket};

/// The local address from which this machine sends to `remote`, by its routing table.
#[must_use]
pub fn source_for(remote: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = if remote.is_ipv4() { [0; 4].into() } else { [0u16; 8].into() };
    // Connecting a datagram socket sends nothing.
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(remote).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}
