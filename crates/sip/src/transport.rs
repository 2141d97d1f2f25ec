//! The transport protocols of SIP.

/// A transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Transport {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
    /// TLS over TCP.
    Tls,
    /// WebSocket (RFC 7118).
    Ws,
    /// WebSocket over TLS.
    Wss,
}

impl Transport {
    /// All transports.
    pub const ALL: [Self; 5] = [Self::Udp, Self::Tcp, Self::Tls, Self::Ws, Self::Wss];

    /// Returns true if the transport is a connection with ordered delivery: a sent message arrives
    /// or an error is reported, so that no retransmission is needed (a reliable transport in RFC
    /// 3261).
    #[must_use]
    pub const fn is_stream(self) -> bool {
        !matches!(self, Self::Udp)
    }

    /// Returns true if only Content-Length delimits messages (RFC 3261 section 18.3).
    #[must_use]
    pub const fn is_framed_by_length(self) -> bool {
        matches!(self, Self::Tcp | Self::Tls)
    }

    /// Returns true if the transport is encrypted and authenticated.
    #[must_use]
    pub const fn is_secure(self) -> bool {
        matches!(self, Self::Tls | Self::Wss)
    }

    /// The same transport over TLS, as required by a SIPS URI (RFC 3261 section 26.2.2). `None` for
    /// UDP.
    #[must_use]
    pub const fn over_tls(self) -> Option<Self> {
        match self {
            Self::Udp => None,
            Self::Tcp | Self::Tls => Some(Self::Tls),
            Self::Ws | Self::Wss => Some(Self::Wss),
        }
    }

    /// The name in a Via header field.
    #[must_use]
    pub const fn via_name(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
            Self::Tls => "TLS",
            Self::Ws => "WS",
            Self::Wss => "WSS",
        }
    }

    /// The name in the `transport` parameter of a URI.
    #[must_use]
    pub const fn uri_name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Ws => "ws",
            Self::Wss => "wss",
        }
    }

    /// The value of the `transport` parameter in URIs of our own. WebSocket has one value for both
    /// variants (RFC 7118 section 5.2.4).
    #[must_use]
    pub const fn uri_param(self) -> &'static str {
        match self {
            Self::Wss => Self::Ws.uri_name(),
            other => other.uri_name(),
        }
    }

    /// The default port.
    #[must_use]
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Udp | Self::Tcp => 5060,
            Self::Tls => 5061,
            Self::Ws => 80,
            Self::Wss => 443,
        }
    }

    /// The transport with this name (case-insensitive), as in Via or in a URI.
    #[must_use]
    pub fn parse(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.uri_name().as_bytes().eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ports() {
        for transport in Transport::ALL {
            assert_eq!(Transport::parse(transport.via_name().as_bytes()), Some(transport));
            assert_eq!(Transport::parse(transport.uri_name().as_bytes()), Some(transport));
        }
        assert_eq!(Transport::parse(b"SCTP"), None);
        assert_eq!(Transport::ALL.map(Transport::is_stream), [false, true, true, true, true]);
        let framed = [false, true, true, false, false];
        assert_eq!(Transport::ALL.map(Transport::is_framed_by_length), framed);
        assert_eq!(Transport::ALL.map(Transport::is_secure), [false, false, true, false, true]);
        assert_eq!(Transport::ALL.map(Transport::default_port), [5060, 5060, 5061, 80, 443]);
    }

    #[test]
    fn secured_transports_are_secure() {
        for transport in Transport::ALL {
            assert!(transport.over_tls().is_none_or(Transport::is_secure));
            assert!(!transport.is_secure() || transport.over_tls() == Some(transport));
        }
    }
}
