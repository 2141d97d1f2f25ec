//! URIs of TURN servers (RFC 7065).

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::error::Error;
use core::fmt;
use core::str::FromStr;

/// The ports of TURN servers, without and with TLS or DTLS.
const PORT: u16 = 3478;
const SECURE_PORT: u16 = 5349;

/// The URI of a TURN server, such as `turn:turn.example.org?transport=tcp`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TurnUri {
    /// The host: a name or an address, an IPv6 address without brackets.
    pub host: String,
    /// The port. The default is 3478, or 5349 with TLS or DTLS.
    pub port: u16,
    /// The transport to the server.
    pub transport: TurnTransport,
}

/// The transport from a client to a TURN server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TurnTransport {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
    /// TLS over TCP.
    Tls,
    /// DTLS over UDP.
    Dtls,
}

/// A text is no URI of a TURN server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnUriError;

impl fmt::Display for TurnUriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "not the URI of a TURN server; expected one such as turn:turn.example.org, \
             turn:192.0.2.1:3478?transport=tcp or turns:turn.example.org",
        )
    }
}

impl Error for TurnUriError {}

impl FromStr for TurnUri {
    type Err = TurnUriError;

    fn from_str(text: &str) -> Result<Self, TurnUriError> {
        let (scheme, rest) = text.split_once(':').ok_or(TurnUriError)?;
        let is_secure = match scheme {
            _ if scheme.eq_ignore_ascii_case("turn") => false,
            _ if scheme.eq_ignore_ascii_case("turns") => true,
            _ => return Err(TurnUriError),
        };
        let (address, transport) = match rest.split_once("?transport=") {
            Some((address, "udp")) => (address, Some(TurnTransport::Udp)),
            Some((address, "tcp")) => (address, Some(TurnTransport::Tcp)),
            Some(_) => return Err(TurnUriError),
            None => (rest, None),
        };
        let transport = match (transport, is_secure) {
            (None | Some(TurnTransport::Udp), false) => TurnTransport::Udp,
            (Some(_), false) => TurnTransport::Tcp,
            (Some(TurnTransport::Udp), true) => TurnTransport::Dtls,
            (_, true) => TurnTransport::Tls,
        };
        let is_address = |host: &&str| host.parse::<core::net::Ipv6Addr>().is_ok();
        let is_name = |host: &&str| {
            !host.is_empty()
                && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        };
        let (host, port) = match address.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or(TurnUriError)?;
                let port = if port.is_empty() { None } else { Some(port.strip_prefix(':')) };
                (Some(host).filter(is_address), port.map(|port| port.unwrap_or_default()))
            }
            None => {
                let (host, port) = match address.split_once(':') {
                    Some((host, port)) => (host, Some(port)),
                    None => (address, None),
                };
                (Some(host).filter(is_name), port)
            }
        };
        let default = if is_secure { SECURE_PORT } else { PORT };
        let port = port.map_or(Ok(default), |port| port.parse().map_err(|_| TurnUriError))?;
        let host = host.filter(|_| port != 0).ok_or(TurnUriError)?.to_owned();
        Ok(Self { host, port, transport })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_have_a_host_a_port_and_a_transport() {
        let read = |text: &str| {
            let TurnUri { host, port, transport } = text.parse().ok()?;
            Some((host, port, transport))
        };
        let expected = |host: &str, port, transport| Some((host.to_owned(), port, transport));
        use TurnTransport::{Dtls, Tcp, Tls, Udp};
        for (text, host, port, transport) in [
            ("turn:turn.example.org", "turn.example.org", 3478, Udp),
            ("TURN:192.0.2.1:99?transport=udp", "192.0.2.1", 99, Udp),
            ("turn:a-b?transport=tcp", "a-b", 3478, Tcp),
            ("turns:turn.example.org", "turn.example.org", 5349, Tls),
            ("turns:t:443?transport=tcp", "t", 443, Tls),
            ("turns:t?transport=udp", "t", 5349, Dtls),
            ("turn:[2001:db8::1]", "2001:db8::1", 3478, Udp),
            ("turn:[2001:db8::1]:7?transport=tcp", "2001:db8::1", 7, Tcp),
        ] {
            assert_eq!(read(text), expected(host, port, transport), "{text}");
        }
        for text in [
            "",
            "turn",
            "turn:",
            "stun:a",
            "turn:a:",
            "turn:a:0",
            "turn:a:65536",
            "turn:a b",
            "turn:a?transport=sctp",
            "turn:a?x=y",
            "turn:2001:db8::1",
            "turn:[a]",
            "turn:[::1",
            "turn:[::1]9",
            "turn:alice@a",
            "turn://a",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
