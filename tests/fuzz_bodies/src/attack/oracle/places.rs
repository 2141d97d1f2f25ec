//! URIs and reachability, implemented independently from the RFCs.

use sip::header::NameAddr;
use sip::{HeaderName, Uri};
use std::net::{IpAddr, SocketAddr};

/// The parts of a SIP URI that determine a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) user: Vec<u8>,
    /// The host in lower case; an address without brackets.
    pub(super) host: String,
    pub(super) port: Option<u16>,
    transport: String,
    maddr: Vec<u8>,
    secure: bool,
    is_loose: bool,
}

impl Place {
    pub(super) fn of(uri: &str) -> Option<Self> {
        let Ok(Uri::Sip(uri)) = Uri::parse(uri.as_bytes()) else { return None };
        let host = match uri.host {
            sip::Host::Ip(ip) => ip.to_canonical().to_string(),
            sip::Host::Name(name) => String::from_utf8_lossy(name).to_ascii_lowercase(),
        };
        let transport = uri.params.value("transport").unwrap_or_default();
        Some(Self {
            user: sip::uri::unescape(uri.user.unwrap_or_default()).into_owned(),
            host: host.strip_suffix('.').unwrap_or(&host).to_owned(),
            port: uri.port,
            transport: String::from_utf8_lossy(transport).to_ascii_lowercase(),
            maddr: uri.params.value("maddr").unwrap_or_default().to_vec(),
            secure: uri.secure,
            is_loose: uri.is_loose(),
        })
    }

    /// The URI of a Route, Record-Route or Contact element.
    pub(super) fn of_element(element: &[u8]) -> Option<Self> {
        let address = NameAddr::parse(HeaderName::Route, element).ok()?;
        Self::of(&String::from_utf8_lossy(address.uri_bytes))
    }

    /// Returns true for the same user, host and port.
    pub(super) fn is_same_phone(&self, other: &Self) -> bool {
        (&self.user, &self.host, self.port) == (&other.user, &other.host, other.port)
    }

    /// The same URI without `lr`, which has no meaning in a Request-URI.
    pub(super) fn without_lr(&self) -> Self {
        Self { is_loose: false, ..self.clone() }
    }

    /// Returns true if it names a local host with a local port or without port.
    pub(super) fn is_ours(&self) -> bool {
        self.is_in_domain() && self.port.is_none_or(|port| port == 5060)
    }

    /// Returns true if it names the local domain, with any port.
    pub(super) fn is_in_domain(&self) -> bool {
        self.host == super::super::parties::DOMAIN || self.host == "203.0.113.1"
    }

    /// The address, if the host is not a domain name.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        let port = if self.secure || self.transport == "tls" { 5061 } else { 5060 };
        Some(SocketAddr::new(self.host.parse().ok()?, self.port.unwrap_or(port)))
    }
}

/// The scope of an address, from 0 (global) to 3 (this machine). A sender has to be at least as
/// near for the address to mean the same.
pub(super) fn nearness(ip: IpAddr) -> u8 {
    match ip.to_canonical() {
        IpAddr::V4(ip) if ip.is_loopback() || ip.octets()[0] == 0 => 3,
        IpAddr::V4(ip) if ip.is_link_local() => 2,
        IpAddr::V4(ip) if ip.is_private() => 1,
        IpAddr::V4(ip) if ip.octets()[0] == 100 && ip.octets()[1] >> 6 == 1 => 1,
        IpAddr::V6(ip) if ip.is_loopback() || ip.is_unspecified() => 3,
        IpAddr::V6(ip) if ip.is_unicast_link_local() => 2,
        IpAddr::V6(ip) if ip.is_unique_local() => 1,
        _ => 0,
    }
}

/// Returns true for multicast, unspecified and broadcast addresses and for port 0.
pub(super) fn is_invalid(address: SocketAddr) -> bool {
    let ip = address.ip().to_canonical();
    ip.is_multicast()
        || ip.is_unspecified()
        || ip == IpAddr::from([255, 255, 255, 255])
        || address.port() == 0
}
