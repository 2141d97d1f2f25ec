//! The transports that the peers speak with the server.

use std::fs;
use std::net::Ipv4Addr;

/// A transport between a peer and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Datagrams.
    Udp,
    /// A connection that the peer opens.
    Tcp,
    /// The same over TLS.
    Tls,
    /// WebSocket over TLS.
    Wss,
}

impl Transport {
    /// Its name as the value of a `transport` parameter.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Wss => "wss",
        }
    }

    /// What the system calls what is below it.
    fn below(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp | Self::Tls | Self::Wss => "tcp",
        }
    }

    /// Whether something listens on this port of `address`. To bind it for a try could take it away
    /// from whoever is to have it.
    #[must_use]
    pub fn is_listening(self, address: Ipv4Addr, port: u16) -> bool {
        let address = format!("{:08X}", u32::from_le_bytes(address.octets()));
        // At that address, at all of IPv4, or at all that there are.
        let places = [("", &*address), ("", "00000000"), ("6", "00000000000000000000000000000000")];
        places.into_iter().any(|(version, address)| {
            // The network is that of the thread, which may have one of its own.
            let table = format!("/proc/thread-self/net/{}{version}", self.below());
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
    use std::net::{TcpListener, UdpSocket};
    use test_support::ports::free_ports;

    #[test]
    fn tells_who_listens() {
        let port = free_ports(1);
        let is_listening = |transport: Transport| transport.is_listening(Ipv4Addr::LOCALHOST, port);
        assert!(!is_listening(Transport::Udp) && !is_listening(Transport::Tcp));
        let _tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("a free port");
        assert!(!is_listening(Transport::Udp) && is_listening(Transport::Tcp));
        let _udp = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).expect("a free port");
        assert!(is_listening(Transport::Udp));
    }
}
