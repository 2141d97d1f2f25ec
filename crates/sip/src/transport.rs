//! What carries a message (RFC 3261 section 18).

/// A transport protocol of SIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Datagrams.
    Udp,
    /// A stream.
    Tcp,
    /// An encrypted stream.
    Tls,
}

impl Transport {
    /// The transport that `bytes` names, in any case.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        [Self::Udp, Self::Tcp, Self::Tls]
            .into_iter()
            .find(|transport| bytes.eq_ignore_ascii_case(transport.via_name().as_bytes()))
    }

    /// Whether the transport delivers by itself, so that SIP does not retransmit.
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

    /// The value of a `transport` URI parameter.
    #[must_use]
    pub const fn uri_name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
        }
    }

    /// The port where none is given.
    #[must_use]
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Udp | Self::Tcp => 5060,
            Self::Tls => 5061,
        }
    }
}
