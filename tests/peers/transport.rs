//! The transports that the peers speak with the server.

use std::fs;

/// A transport between a peer and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Datagrams.
    Udp,
    /// A connection that the peer opens.
    Tcp,
}

impl Transport {
    /// Its name as the value of a `transport` parameter.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }

    /// Whether something listens on this port of 127.0.0.1. To bind it for a try could take it away
    /// from whoever is to have it.
    ///
    /// # Panics
    /// When the system does not tell.
    #[must_use]
    pub fn is_listening(self, port: u16) -> bool {
        let table = format!("/proc/net/{}", self.name());
        let table = fs::read_to_string(table).expect("the system's sockets");
        // At that address, or at all of them.
        let mut addresses = ["0100007F", "00000000"].into_iter();
        addresses.any(|address| table.contains(&format!(" {address}:{port:04X} 00000000:0000 ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener, UdpSocket};
    use test_support::ports::free_ports;

    #[test]
    fn tells_who_listens() {
        let port = free_ports(1);
        assert!(!Transport::Udp.is_listening(port) && !Transport::Tcp.is_listening(port));
        let _tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("a free port");
        assert!(!Transport::Udp.is_listening(port) && Transport::Tcp.is_listening(port));
        let _udp = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).expect("a free port");
        assert!(Transport::Udp.is_listening(port));
    }
}
