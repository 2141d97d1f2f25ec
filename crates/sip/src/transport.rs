//! The transports that SIP messages travel by.

/// A transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
    /// TLS over TCP.
    Tls,
}

impl Transport {
    /// Every transport.
    pub const ALL: [Self; 3] = [Self::Udp, Self::Tcp, Self::Tls];

    /// Whether what is sent arrives or an error is reported, so that nothing need be sent again.
    #[must_use]
    pub const fn is_reliable(self) -> bool {
        !matches!(self, Self::Udp)
    }

    /// The name in a Via header field.
    #[must_use]
    pub const fn via_name(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
            Self::Tls => "TLS",
        }
    }

    /// The name in the `transport` parameter of a URI.
    #[must_use]
    pub const fn uri_name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
        }
    }

    /// The port where none is given: 5060, or 5061 for TLS.
    #[must_use]
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Udp | Self::Tcp => 5060,
            Self::Tls => 5061,
        }
    }

    /// The transport called `name` in any case, as in Via or in a URI.
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
        assert_eq!(Transport::ALL.map(Transport::is_reliable), [false, true, true]);
        assert_eq!(Transport::ALL.map(Transport::default_port), [5060, 5060, 5061]);
    }
}
