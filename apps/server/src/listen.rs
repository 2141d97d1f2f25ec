//! Where the server listens, as it is written: `udp:0.0.0.0:5060`, `tcp:[::]:5060`, and where
//! addresses or ports are translated on the way, `udp:0.0.0.0:5060 as 203.0.113.5:15060`.

use sip::Transport;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::str::FromStr;

/// The port of SIP (RFC 3261 section 19.1.2).
pub(crate) const DEFAULT_PORT: u16 = 5060;

/// A transport and an address to listen on. Port 0 lets the system choose one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Listen {
    /// What carries the messages.
    pub(crate) transport: Transport,
    /// The address, which may be a wildcard, and the port.
    pub(crate) address: SocketAddr,
    /// What it is called outside, if something else.
    pub(crate) advertised: Option<SocketAddr>,
}

impl Listen {
    /// UDP and TCP 5060 of all addresses.
    pub(crate) fn defaults() -> Vec<Self> {
        let wildcards = [IpAddr::from(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()];
        [Transport::Udp, Transport::Tcp]
            .into_iter()
            .flat_map(|transport| {
                wildcards.map(|ip| Self {
                    transport,
                    address: (ip, DEFAULT_PORT).into(),
                    advertised: None,
                })
            })
            .collect()
    }

    /// [`Listen::defaults`], without IPv6 on a machine that has none.
    pub(crate) fn defaults_here() -> Vec<Self> {
        let has_v6 = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok();
        let mut listens = Self::defaults();
        listens.retain(|listen| has_v6 || listen.address.is_ipv4());
        listens
    }

    /// What it is called outside.
    pub(crate) fn outside(&self) -> SocketAddr {
        self.advertised.unwrap_or(self.address)
    }

    /// Whether only one of the two can listen: both take connections at one address and port.
    pub(crate) fn collides_with(&self, other: &Self) -> bool {
        let (one, two) = (self.address, other.address);
        let is_same_port = one.port() == two.port() && one.port() != 0;
        let is_same_address = one.is_ipv4() == two.is_ipv4()
            && (one.ip() == two.ip() || one.ip().is_unspecified() || two.ip().is_unspecified());
        is_same_port && is_same_address && self.transport.is_stream() && other.transport.is_stream()
    }

    /// Tries to listen, and stops at once: why it would fail now.
    pub(crate) fn try_out(self) -> std::io::Result<()> {
        match self.transport.is_stream() {
            false => UdpSocket::bind(self.address).map(drop),
            true => TcpListener::bind(self.address).map(drop),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.transport.uri_name(), self.address)?;
        self.advertised.map_or(Ok(()), |advertised| write!(f, " as {advertised}"))
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            format!(
                "`{text}` is no address to listen on; expected TRANSPORT:ADDRESS:PORT with udp, tcp, tls, ws or wss, \
                 such as udp:192.0.2.1:5060 or tls:[::]:5061, and where it is called otherwise \
                 outside, udp:0.0.0.0:5060 as 203.0.113.5:15060"
            )
        };
        let (bound, advertised) = match text.split_once(" as ") {
            Some((bound, advertised)) => {
                let advertised: SocketAddr = advertised.trim().parse().map_err(|_| expected())?;
                if advertised.ip().is_unspecified() || advertised.port() == 0 {
                    return Err(format!(
                        "`{advertised}` is where nobody can be reached; expected an address and port"
                    ));
                }
                (bound.trim_end(), Some(advertised))
            }
            None => (text, None),
        };
        let (transport, address) = bound.split_once(':').ok_or_else(expected)?;
        let transport = match transport {
            "udp" => Transport::Udp,
            "tcp" => Transport::Tcp,
            "tls" => Transport::Tls,
            "ws" => Transport::Ws,
            "wss" => Transport::Wss,
            _ => return Err(expected()),
        };
        let address: SocketAddr = address.parse().map_err(|_| expected())?;
        if let Some(advertised) = advertised.filter(|outer| outer.is_ipv4() != address.is_ipv4()) {
            return Err(format!(
                "`{text}` is IPv4 and IPv6: nobody comes from {advertised} to {address}"
            ));
        }
        Ok(Self { transport, address, advertised })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_to_listen_on_is_read_and_written_alike() {
        for text in [
            "udp:0.0.0.0:5060",
            "tcp:[::]:5060",
            "udp:127.0.0.1:0",
            "tcp:[2001:db8::1]:1",
            "udp:0.0.0.0:5060 as 203.0.113.5:15060",
            "tcp:[::]:5060 as [2001:db8::1]:5061",
        ] {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_to_listen_on_is_refused_with_an_example() {
        for text in ["", "udp", "udp:", "udp:*:5060", "udp:1.2.3.4", "sctp:1.2.3.4:5", "1.2.3.4:5"]
        {
            let error = text.parse::<Listen>().unwrap_err();
            assert!(error.contains("udp:192.0.2.1:5060"), "{error}");
        }
        for text in [
            "udp:0.0.0.0:5060 as 203.0.113.5",
            "udp:0.0.0.0:5060 as 0.0.0.0:5060",
            "udp:0.0.0.0:5060 as 203.0.113.5:0",
            "udp:0.0.0.0:5060 as [2001:db8::1]:5060",
            "udp:0.0.0.0:5060 as pbx:5060",
        ] {
            assert!(text.parse::<Listen>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_port_in_use_is_found_by_trying() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let listen = Listen { transport: Transport::Tcp, address, advertised: None };
        assert!(listen.try_out().is_err());
    }
}
