//! Sources, the unit of rates, bans and shares.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

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
    #[must_use]
    pub const fn address(self) -> IpAddr {
        self.0
    }

    /// The bytes of the address as an IPv6 address.
    #[must_use]
    pub fn octets(self) -> [u8; 16] {
        match self.0 {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
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
