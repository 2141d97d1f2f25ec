//! The transports between peers and the server.

use std::fs;
use std::net::Ipv4Addr;

/// A transport between a peer and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// UDP.
    Udp,
    /// TCP, with a connection opened by the peer.
    Tcp,
    /// TLS, with a connection opened by the peer.
    Tls,
    /// WebSocket over TLS.
    Wss,
}

impl Transport {
    /// The value of the `transport` parameter.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Wss => "wss",
        }
    }

    /// The name of the underlying protocol in `/proc/net`.
    fn below(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp | Self::Tls | Self::Wss => "tcp",
        }
    }

    /// Returns true if a program listens on this port of `address`. A trial bind could interfere
    /// with the program that is to use the port.
    #[must_use]
    pub fn is_listening(self, address: Ipv4Addr, port: u16) -> bool {
        let address = format!("{:08X}", u32::from_le_bytes(address.octets()));
        // At the address, at any IPv4 address, or at any address.
        let places = [("", &*address), ("", "00000000"), ("6", "00000000000000000000000000000000")];
        places.into_iter().any(|(version, address)| {
            // The network of the thread, which may have a separate one.
            let table = format!("/proc/thread-self/net/{}{version}", self.below());
            // The table is missing without IPv6.
            let table = fs::read_to_string(table).unwrap_or_default();
            let unconnected = if version.is_empty() { "00000000" } else { address };
            table.contains(&format!(" {address}:{port:04X} {unconnected}:0000 "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};
    use test_support::ports::free_ports;

    #[test]
    fn listening_ports_are_detected() {
        let port = free_ports(1);
        let is_listening = |transport: Transport| transport.is_listening(Ipv4Addr::LOCALHOST, port);
        assert!(!is_listening(Transport::Udp) && !is_listening(Transport::Tcp));
        let _tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("the port can be bound");
        assert!(!is_listening(Transport::Udp) && is_listening(Transport::Tcp));
        let _udp = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).expect("the port can be bound");
        assert!(is_listening(Transport::Udp));
    }
}
