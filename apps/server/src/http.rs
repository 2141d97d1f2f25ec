//! The settings of the HTTP listener.

use sip_server::config::Network;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The settings of the HTTP listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpSettings {
    /// The address. `None` for no listener.
    pub(crate) listen: Option<SocketAddr>,
    /// The networks of clients. Connections of others are closed.
    pub(crate) clients: Vec<Network>,
}

impl Default for HttpSettings {
    fn default() -> Self {
        let loopback = [
            Network { address: IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), prefix: 8 },
            Network { address: IpAddr::V6(Ipv6Addr::LOCALHOST), prefix: 128 },
        ];
        Self { listen: None, clients: loopback.to_vec() }
    }
}

impl HttpSettings {
    /// True if the listener uses TLS: on any address but loopback.
    pub(crate) fn is_secure(&self) -> bool {
        self.listen.is_some_and(|address| !address.ip().to_canonical().is_loopback())
    }

    /// The URL of the listener at `address`.
    pub(crate) fn url(&self, address: SocketAddr) -> String {
        format!("http{}://{address}", if self.is_secure() { "s" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_for_loopback_alone() {
        let is_secure = |address: &str| {
            HttpSettings { listen: Some(address.parse().unwrap()), ..HttpSettings::default() }
                .is_secure()
        };
        for address in ["127.0.0.1:80", "127.9.9.9:80", "[::1]:80", "[::ffff:127.0.0.1]:80"] {
            assert!(!is_secure(address), "{address}");
        }
        for address in ["0.0.0.0:80", "[::]:80", "192.0.2.1:80", "[::ffff:192.0.2.1]:80"] {
            assert!(is_secure(address), "{address}");
        }
        assert!(!HttpSettings::default().is_secure());
    }
}
