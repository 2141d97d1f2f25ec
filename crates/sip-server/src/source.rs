//! Sources: what rates, bans and shares are counted for, and what a request has proved of its own.

use crate::keys::Key;
use core::fmt;
use core::net::{IpAddr, Ipv6Addr};
use sip::Flow;

/// The addresses that one host can have: an IPv4 address, or an IPv6 /64. All that counts, limits
/// or bans does so by this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source(IpAddr);

impl Source {
    /// The source that has `address`.
    #[must_use]
    pub const fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(IpAddr::V4(address)),
            IpAddr::V6(address) => {
                Self(IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)))
            }
        }
    }

    /// Its address, or the first one of its network.
    pub(crate) const fn address(self) -> IpAddr {
        self.0
    }

    /// The bytes of that as an IPv6 address.
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

/// What shows that a request comes from the source that it names. Each kind has allowances of its
/// own, so that what proves less never uses up those of what proves more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// Nothing: a datagram says so.
    Claim,
    /// A token of a dialog, which one of the two ends was given. It may forge its address.
    Dialog,
    /// A nonce that was sent there and came back.
    Nonce,
    /// A connection.
    Connection,
}

/// For whom a request is counted: its source, as far as that is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) source: Source,
    pub(crate) evidence: Evidence,
}

impl Account {
    /// The account of what comes on `flow`.
    pub(crate) fn of(flow: &Flow) -> Self {
        let evidence = match flow.transport.is_stream() {
            true => Evidence::Connection,
            false => Evidence::Claim,
        };
        Self { source: Source::of(flow.remote.ip()), evidence }
    }

    /// The same source with `evidence`, where its own is only a claim.
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
