//! Listening addresses and their syntax: `udp:0.0.0.0:5060` or `tcp:[::]:5060`. With address or
//! port translation on the way: `udp:0.0.0.0:5060 as 203.0.113.5:15060` or
//! `udp:0.0.0.0:5060 as sip.example.com:15060`.

use crate::domains;
use crate::failure::Failure;
use sip::Transport;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::str::FromStr;

/// The default port of SIP (RFC 3261 section 19.1.2).
pub(crate) const DEFAULT_PORT: u16 = 5060;

/// A transport and an address to listen on. Port 0 lets the system choose one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Listen {
    /// The transport protocol.
    pub(crate) transport: Transport,
    /// The address, which may be a wildcard, and the port.
    pub(crate) address: SocketAddr,
    /// The address as peers outside see it, if it is translated.
    pub(crate) advertised: Option<Outside>,
}

/// The address of a listener as peers outside see it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Outside {
    /// An address and a port.
    Address(SocketAddr),
    /// A host name that is resolved, and a port.
    Named(String, u16),
}

impl fmt::Display for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Named(name, port) => write!(f, "{name}:{port}"),
        }
    }
}

impl FromStr for Outside {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is neither an address nor a name with a port");
        if let Ok(address) = text.parse::<SocketAddr>() {
            let is_some = !address.ip().is_unspecified() && address.port() != 0;
            return is_some.then_some(Self::Address(address)).ok_or_else(wrong);
        }
        let (name, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().ok().filter(|&port| port != 0).ok_or_else(wrong)?;
        let name = domains::canonical(name).map_err(|_| wrong())?;
        let is_name = name.parse::<IpAddr>().is_err() && name.contains(char::is_alphabetic);
        is_name.then_some(Self::Named(name, port)).ok_or_else(wrong)
    }
}

impl Listen {
    /// The local address of messages to `remote`, to which the system sends from `source` if no
    /// other address is bound. `None` if no listener of `transport` reaches it.
    pub(crate) fn local_for(
        listens: &[Self],
        transport: Transport,
        remote: SocketAddr,
        source: IpAddr,
    ) -> Option<SocketAddr> {
        let of_kind = |listen: &&Self| {
            listen.transport == transport && listen.address.is_ipv4() == remote.is_ipv4()
        };
        let mut addresses = listens.iter().filter(of_kind).map(|listen| listen.address);
        let is_at_source = |at: &SocketAddr| at.ip() == source || at.ip().is_unspecified();
        match addresses.clone().find(is_at_source) {
            Some(address) => Some(SocketAddr::new(source, address.port())),
            // A second address of an interface.
            None => addresses.find(|at| at.ip().is_loopback() == remote.ip().is_loopback()),
        }
    }

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

    /// [`Listen::defaults`], without IPv6 if the machine does not have it.
    pub(crate) fn defaults_here() -> Vec<Self> {
        let has_v6 = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok();
        let mut listens = Self::defaults();
        listens.retain(|listen| has_v6 || listen.address.is_ipv4());
        listens
    }

    /// The port that peers outside use.
    pub(crate) fn outside_port(&self) -> u16 {
        match &self.advertised {
            None => self.address.port(),
            Some(Outside::Address(address)) => address.port(),
            Some(Outside::Named(_, port)) => *port,
        }
    }

    /// The address or name that peers outside use. `None` for a wildcard address.
    pub(crate) fn outside_host(&self) -> Option<String> {
        let of = |address: &SocketAddr| {
            (!address.ip().is_unspecified()).then(|| address.ip().to_string())
        };
        match &self.advertised {
            None => of(&self.address),
            Some(Outside::Address(address)) => of(address),
            Some(Outside::Named(name, _)) => Some(name.clone()),
        }
    }

    /// The advertised address, if there is one. A name is resolved at each call.
    ///
    /// # Errors
    /// [`Failure`] if the name has no address of the listener's family.
    pub(crate) fn advertised(&self) -> Result<Option<SocketAddr>, Failure> {
        let (name, port) = match &self.advertised {
            None => return Ok(None),
            Some(Outside::Address(address)) => return Ok(Some(*address)),
            Some(Outside::Named(name, port)) => (name.as_str(), *port),
        };
        let (family, is_v4) = match self.address.is_ipv4() {
            true => ("IPv4", true),
            false => ("IPv6", false),
        };
        let cannot = |why: &dyn fmt::Display| {
            Failure::message(format!("{self}: {name} has no {family} address: {why}"))
        };
        let found = (name, port).to_socket_addrs().map_err(|error| cannot(&error))?;
        let mut found = found.filter(|address| address.is_ipv4() == is_v4);
        found.next().map(Some).ok_or_else(|| cannot(&"its addresses are of another family"))
    }

    /// Returns true if only one of the two can be bound: both are stream listeners for one address
    /// and port.
    pub(crate) fn collides_with(&self, other: &Self) -> bool {
        self.transport.is_stream() && self.overlaps(other)
    }

    /// Returns true if both are sockets of one kind (UDP, or TCP below any transport) for one
    /// address and port.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let (one, two) = (self.address, other.address);
        let is_same_port = one.port() == two.port() && one.port() != 0;
        let is_same_address = one.is_ipv4() == two.is_ipv4()
            && (one.ip() == two.ip() || one.ip().is_unspecified() || two.ip().is_unspecified());
        let is_same_kind = self.transport.is_stream() == other.transport.is_stream();
        is_same_port && is_same_address && is_same_kind
    }

    /// Binds the address as the server does, and closes it at once. Returns the error of binding.
    pub(crate) fn try_out(&self) -> std::io::Result<()> {
        match self.transport.is_stream() {
            false => net::Socket::bind(self.address, net::Options::default()).map(drop),
            true => net::listen(self.address).map(drop),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.transport.uri_name(), self.address)?;
        self.advertised.as_ref().map_or(Ok(()), |advertised| write!(f, " as {advertised}"))
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            format!(
                "`{text}` is no address to listen on; expected TRANSPORT:ADDRESS:PORT with udp, tcp, tls, ws or wss, \
                 such as udp:192.0.2.1:5060 or tls:[::]:5061, and with \
                 another public address, udp:0.0.0.0:5060 as 203.0.113.5:15060 or as sip.example.com:15060"
            )
        };
        let (bound, advertised) = match text.split_once(" as ") {
            Some((bound, advertised)) => {
                let advertised = advertised.trim().parse::<Outside>();
                let advertised = advertised.map_err(|wrong| format!("{wrong}: {}", expected()))?;
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
        if let Some(Outside::Address(outer)) = &advertised
            && outer.is_ipv4() != address.is_ipv4()
        {
            return Err(format!("`{text}` is IPv4 and IPv6: {outer} does not lead to {address}"));
        }
        Ok(Self { transport, address, advertised })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn messages_leave_from_a_listener_that_reaches_their_destination() {
        let local = |listens: &[&str], remote: &str, source: &str| {
            let listens: Vec<Listen> = listens.iter().map(|it| it.parse().unwrap()).collect();
            let (remote, source) = (remote.parse().unwrap(), source.parse().unwrap());
            let local = Listen::local_for(&listens, Transport::Udp, remote, source);
            local.map(|local| local.to_string())
        };
        let (trunk, first) = ("203.0.113.1:5060", "192.0.2.1");
        let from = |address: &str| Some(address.to_owned());
        assert_eq!(local(&["udp:0.0.0.0:5070"], trunk, first), from("192.0.2.1:5070"));
        // The second address of an interface, where the system would send from the first.
        let second = ["udp:127.0.0.1:5060", "udp:192.0.2.20:5060"];
        assert_eq!(local(&second, trunk, first), from("192.0.2.20:5060"));
        assert_eq!(local(&second, "127.0.0.1:9", "127.0.0.1"), from("127.0.0.1:5060"));
        let both = ["udp:192.0.2.20:5060", "udp:192.0.2.1:5060"];
        assert_eq!(local(&both, trunk, first), from("192.0.2.1:5060"));
        assert_eq!(local(&["udp:127.0.0.1:5060", "tcp:192.0.2.1:5060"], trunk, first), None);
        assert_eq!(local(&["udp:0.0.0.0:5060"], "[2001:db8::1]:5060", "2001:db8::2"), None);
    }

    #[test]
    fn an_address_to_listen_on_is_read_and_written_alike() {
        for text in [
            "udp:0.0.0.0:5060",
            "tcp:[::]:5060",
            "udp:127.0.0.1:0",
            "tcp:[2001:db8::1]:1",
            "udp:0.0.0.0:5060 as 203.0.113.5:15060",
            "tcp:[::]:5060 as [2001:db8::1]:5061",
            "tls:0.0.0.0:5061 as sip.example.com:15061",
        ] {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn invalid_listeners_are_refused_with_an_example() {
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
            "udp:0.0.0.0:5060 as pbx:0",
            "udp:0.0.0.0:5060 as pbx",
            "udp:0.0.0.0:5060 as a b:5060",
            "udp:0.0.0.0:5060 as 203.0.113:5060",
        ] {
            assert!(text.parse::<Listen>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_name_outside_becomes_an_address_of_the_family() {
        let listen = |text: &str| text.parse::<Listen>().unwrap();
        let named = listen("udp:127.0.0.1:5060 as localhost:15060");
        assert_eq!(named.advertised().unwrap(), Some("127.0.0.1:15060".parse().unwrap()));
        assert_eq!(
            (named.outside_port(), named.outside_host().as_deref()),
            (15060, Some("localhost"))
        );
        let error =
            listen("udp:127.0.0.1:5060 as no-such-name.invalid:1").advertised().unwrap_err();
        assert!(error.to_string().contains("no-such-name.invalid has no IPv4 address"), "{error}");
        assert_eq!(listen("udp:127.0.0.1:5060").advertised().unwrap(), None);
    }

    #[test]
    fn a_port_in_use_is_found_by_trying() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let listen = Listen { transport: Transport::Tcp, address, advertised: None };
        assert!(listen.try_out().is_err());
    }
}
