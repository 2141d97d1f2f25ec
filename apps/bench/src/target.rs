//! The target server on the command line.

use net::Dns;
use sip::Transport;
use sip::locate::{AddressFamilies, Destination, Host, Target as Location};
use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// The transports that the generator supports, in order of preference.
const TRANSPORTS: [Transport; 3] = [Transport::Udp, Transport::Tcp, Transport::Tls];

/// A server's address: `udp:HOST:PORT`, or with tcp, tls, ws or wss. Transport and port are
/// optional. A domain without a port is resolved as a user agent does (RFC 3263 section 4): the
/// transport by NAPTR if it is not given, host and port by SRV. The first server that answers gets
/// the whole load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) transport: Transport,
    pub(crate) address: SocketAddr,
    /// The host as given, without the transport and the port.
    pub(crate) host: String,
    /// Alternative locations, in the order to try (RFC 3263 section 4.3).
    pub(crate) others: Vec<Location>,
}

impl Target {
    /// Returns the server at `address`; its host is the IP address.
    pub(crate) fn at(transport: Transport, address: SocketAddr) -> Self {
        Self { transport, address, host: address.ip().to_string(), others: Vec::new() }
    }

    /// Returns the target of a SIP URI, by its transport, host and port.
    ///
    /// # Errors
    /// A message if the URI is invalid or has no location.
    pub(crate) fn of_uri(uri: &str) -> Result<Self, String> {
        let wrong = || format!("{uri} is no SIP URI");
        let parsed = sip::Uri::parse(uri.as_bytes()).map_err(|_| wrong())?;
        let parsed = parsed.as_sip().ok_or_else(wrong)?;
        let transport = match parsed.transport() {
            Some(Some(transport)) => transport,
            Some(None) => return Err(format!("the transport of {uri} is not known")),
            None if parsed.secure => Transport::Tls,
            None => Transport::Udp,
        };
        let host = match parsed.host.ip() {
            Some(ip @ IpAddr::V6(_)) => format!("[{ip}]"),
            Some(ip) => ip.to_string(),
            None => parsed.host.to_string(),
        };
        let port = parsed.port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("{}:{host}{port}", transport.uri_name()).parse()
    }

    /// Parses a target; `locate` resolves its name by DNS where RFC 3263 requires it.
    fn read(
        text: &str,
        locate: impl FnOnce(Destination) -> Result<Vec<Location>, String>,
    ) -> Result<Self, String> {
        let (named, rest) = match text.split_once(':') {
            Some((name, rest)) => match Transport::parse(name.as_bytes()) {
                Some(transport) => (Some(transport), rest),
                None => (None, text),
            },
            None => (None, text),
        };
        let transport = named.unwrap_or(Transport::Udp);
        // RFC 3263 defines no DNS lookup for WebSocket.
        let is_web = matches!(transport, Transport::Ws | Transport::Wss);
        let has_port = match rest.rfind(']') {
            Some(end) => rest[end..].contains(':'),
            None => rest.contains(':'),
        };
        // A name without a dot is a local host name and not a domain.
        let mut reasons = String::new();
        if !has_port
            && !is_web
            && rest.contains('.')
            && let Ok(host @ Host::Name(_)) = Host::parse(rest.as_bytes())
        {
            let destination = Destination { host, port: None, transport: named, sips: false };
            match locate(destination).as_deref() {
                Ok([Location { transport, address }, others @ ..]) => {
                    let (host, others) = (rest.to_owned(), others.to_vec());
                    return Ok(Self { transport: *transport, address: *address, host, others });
                }
                Ok([]) => reasons = "no SRV or address record; ".to_owned(),
                Err(error) => reasons = format!("{error}; "),
            }
        }
        // A name that is unknown to the DNS may stand in the hosts file.
        let port = transport.default_port();
        let with_port = if has_port { rest.to_owned() } else { format!("{rest}:{port}") };
        let host = with_port.rsplit_once(':').map_or("", |(host, _)| host).to_owned();
        let address = with_port
            .to_socket_addrs()
            .map_err(|error| {
                format!("{reasons}{error}; expected HOST:PORT after udp:, tcp:, tls:, ws: or wss:")
            })?
            .next()
            .ok_or_else(|| format!("{host} has no address"))?;
        Ok(Self { transport, address, host, others: Vec::new() })
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::read(text, |destination| {
            let warn = |text: &str| eprintln!("barebell-bench: {text}");
            let dns = Dns::new(TRANSPORTS.to_vec(), AddressFamilies::V4First, warn);
            dns.locate_and_wait(destination).map_err(|error| error.to_string())
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.transport.uri_name(), self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_defaults() {
        for (text, transport, address, host) in [
            ("udp:127.0.0.1:5070", Transport::Udp, "127.0.0.1:5070", "127.0.0.1"),
            ("TCP:127.0.0.1", Transport::Tcp, "127.0.0.1:5060", "127.0.0.1"),
            ("127.0.0.1", Transport::Udp, "127.0.0.1:5060", "127.0.0.1"),
            ("[::1]", Transport::Udp, "[::1]:5060", "[::1]"),
            ("tcp:[::1]:9", Transport::Tcp, "[::1]:9", "[::1]"),
            ("tls:127.0.0.1", Transport::Tls, "127.0.0.1:5061", "127.0.0.1"),
            ("wss:127.0.0.1", Transport::Wss, "127.0.0.1:443", "127.0.0.1"),
            ("ws:127.0.0.1:8080", Transport::Ws, "127.0.0.1:8080", "127.0.0.1"),
        ] {
            let address = address.parse().unwrap();
            let host = host.to_owned();
            let expected = Target { transport, address, host, others: Vec::new() };
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for text in ["", "sctp:127.0.0.1", "udp:127.0.0.1:x", "[::1"] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_uri_leads_to_its_host_by_its_transport() {
        for (uri, target) in [
            ("sip:service@127.0.0.1:5070", "udp:127.0.0.1:5070"),
            ("sip:127.0.0.1", "udp:127.0.0.1:5060"),
            ("sip:+4930@127.0.0.1;transport=TCP;user=phone", "tcp:127.0.0.1:5060"),
            ("sips:a@[::1]", "tls:[::1]:5061"),
        ] {
            assert_eq!(
                Target::of_uri(uri).map(|it| it.to_string()),
                Ok(target.to_owned()),
                "{uri}"
            );
        }
        for uri in ["tel:+4930", "127.0.0.1", "sip:a@127.0.0.1;transport=pigeon", "sip:"] {
            assert!(Target::of_uri(uri).is_err(), "{uri}");
        }
    }

    #[test]
    fn only_domains_without_a_port_are_looked_up() {
        let found =
            Location { transport: Transport::Tcp, address: "192.0.2.7:5080".parse().unwrap() };
        let other = Location { address: "192.0.2.8:1".parse().unwrap(), ..found };
        for (text, named) in [
            ("Example.com", None),
            ("udp:example.com", Some(Transport::Udp)),
            ("tcp:example.com", Some(Transport::Tcp)),
        ] {
            let target = Target::read(text, |destination| {
                let host = Host::Name("example.com".to_owned());
                assert_eq!(
                    destination,
                    Destination { host, port: None, transport: named, sips: false }
                );
                Ok(vec![found, other])
            });
            let target = target.unwrap();
            assert_eq!(target.others, [other]);
            assert_eq!((target.transport, target.address), (found.transport, found.address));
            assert!(target.host.eq_ignore_ascii_case("example.com"));
        }
        for text in ["127.0.0.1", "udp:127.0.0.1:5", "localhost", "udp:[::1]"] {
            let nobody = |_| -> Result<Vec<Location>, String> { panic!("{text} is looked up") };
            assert!(Target::read(text, nobody).is_ok(), "{text}");
        }
        let error = Target::read("udp:no-such-host.invalid", |_| Ok(Vec::new())).unwrap_err();
        assert!(error.starts_with("no SRV or address record; "), "{error}");
    }
}
