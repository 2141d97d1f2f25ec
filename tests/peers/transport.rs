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
    #[must_use]
    pub fn is_listening(self, port: u16) -> bool {
        // At that address, at all of IPv4, or at all that there are.
        let places =
            [("", "0100007F"), ("", "00000000"), ("6", "00000000000000000000000000000000")];
        places.into_iter().any(|(version, address)| {
            let table = format!("/proc/net/{}{version}", self.name());
            // There is no table of IPv6 where there is no IPv6.
            let table = fs::read_to_string(table).unwrap_or_default();
            let nobody = if version.is_empty() { "00000000" } else { address };
            table.contains(&format!(" {address}:{port:04X} {nobody}:0000 "))
        })
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
