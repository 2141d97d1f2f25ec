//! Sources, the unit of rates, bans and shares, and the evidence for the source of a request.

use crate::core::keys::Key;
use core::fmt;
use core::net::{IpAddr, Ipv6Addr};
use sip::Flow;

/// The addresses that one host can have: an IPv4 address, or an IPv6 /64. It is the unit of all
/// counts, limits and bans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source(IpAddr);

impl Source {
    /// Returns the source that contains `address`.
    #[must_use]
    pub const fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(IpAddr::V4(address)),
            IpAddr::V6(address) => {
                Self(IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)))
            }
        }
    }

    /// The address, or the first one of the network.
    pub(crate) const fn address(self) -> IpAddr {
        self.0
    }

    /// The bytes of the address as an IPv6 address.
    pub(crate) fn octets(self) -> [u8; 16] {
        match self.0 {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        }
    }

    /// A hash for tables.
    pub(crate) fn hash(self, key: &Key) -> u64 {
        match self.0 {
            IpAddr::V4(ip) => key.hash_one(&ip.octets()),
            IpAddr::V6(ip) => key.hash_one(&ip.octets()),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(address) => address.fmt(f),
            IpAddr::V6(network) => write!(f, "{network}/64"),
        }
    }
}

/// The evidence that a request comes from its source address. Each kind has separate allowances, so
/// that requests with weak evidence never use up those of requests with strong evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// None: the source address of a datagram.
    Claim,
    /// A token of a dialog, which was issued to one of the two ends. That end may forge its
    /// address.
    Dialog,
    /// A nonce that was sent to the address and returned.
    Nonce,
    /// A connection.
    Connection,
}

/// The account that a request is charged to: its source, with the kind of evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) source: Source,
    pub(crate) evidence: Evidence,
}

impl Account {
    /// Returns the account of a message on `flow`.
    pub(crate) fn of(flow: &Flow) -> Self {
        let evidence = match flow.outer_transport().is_stream() {
            true => Evidence::Connection,
            false => Evidence::Claim,
        };
        Self { source: Source::of(flow.remote.ip()), evidence }
    }

    /// Returns the same source with `evidence`, unless it is a connection.
    pub(crate) fn with(self, evidence: Evidence) -> Self {
        match self.evidence {
            Evidence::Connection => self,
            _ => Self { evidence, ..self },
        }
    }

    /// A hash for tables.
    pub(crate) fn hash(self, key: &Key) -> u64 {
        self.source.hash(key).rotate_left(self.evidence as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_source_is_an_address_of_ipv4_or_a_network_of_ipv6() {
        let source = |address: &str| Source::of(address.parse().unwrap());
        assert_eq!(source("192.0.2.1"), source("::ffff:192.0.2.1"));
        assert_ne!(source("192.0.2.1"), source("192.0.2.2"));
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:0:0:1"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_eq!(source("::ffff:192.0.2.1").to_string(), "192.0.2.1");
        assert_eq!(source("2001:db8::1").to_string(), "2001:db8::/64");
    }
}
