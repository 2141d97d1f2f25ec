//! The destinations that a party may have this server send to. A peer that can reach this server
//! must not reach everything that this server can reach.

use crate::core::flow::{Flow, is_sendable};
use crate::core::keys::Key;
use crate::core::settings::Settings;
use crate::core::source::Source;
use alloc::boxed::Box;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::sync::atomic::{AtomicU64, Ordering};
use sip::Transport;

/// The scope of an address, from wide to narrow. A party in a network may have messages sent to its
/// own scope and to all wider ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// Valid everywhere.
    Global,
    /// Valid in one organisation or provider (RFC 1918, RFC 4193, RFC 6598).
    Private,
    /// Valid on one link (RFC 3927, RFC 4291 section 2.5.6).
    Link,
    /// Valid in this machine.
    Host,
}

impl Scope {
    pub(crate) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(ip) => Self::of_v4(ip),
            IpAddr::V6(ip) if ip.is_loopback() || ip.is_unspecified() => Self::Host,
            IpAddr::V6(ip) if ip.is_unicast_link_local() => Self::Link,
            IpAddr::V6(ip) if ip.is_unique_local() || is_site_local(ip) => Self::Private,
            IpAddr::V6(ip) => embedded(ip).map_or(Self::Global, Self::of_v4),
        }
    }

    fn of_v4(ip: Ipv4Addr) -> Self {
        let [first, second, ..] = ip.octets();
        match first {
            0 | 127 => Self::Host,
            169 if second == 254 => Self::Link,
            100 if second & 0xc0 == 64 => Self::Private,
            _ if ip.is_private() => Self::Private,
            _ => Self::Global,
        }
    }

    /// The scope in two bits.
    pub(crate) const fn to_bits(self) -> u8 {
        self as u8
    }

    pub(crate) const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Global,
            1 => Self::Private,
            2 => Self::Link,
            _ => Self::Host,
        }
    }
}

/// True for the deprecated site-local addresses (RFC 3879), and for the local-use translation
/// prefix (RFC 8215).
const fn is_site_local(ip: Ipv6Addr) -> bool {
    let [first, second, third, ..] = ip.segments();
    first & 0xffc0 == 0xfec0 || matches!((first, second, third), (0x64, 0xff9b, 1))
}

/// The IPv4 address that a translator would derive from `ip` (RFC 6052 section 2.1, RFC 3056
/// section 2).
fn embedded(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    match ip.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some(Ipv4Addr::from_bits(ip.to_bits() as u32)),
        [0x2002, ..] => Some(Ipv4Addr::from_bits((ip.to_bits() >> 80) as u32)),
        _ => None,
    }
}

impl Settings {
    /// The scope of the network of the other end of `flow`. It is global for a WebSocket and for a
    /// proxy that does not name its client, because their client may be anywhere.
    pub(crate) fn scope_of(&self, flow: &Flow) -> Scope {
        match self.is_relayed(flow) {
            true => Scope::Global,
            false => self.scope(flow.remote.ip()),
        }
    }

    /// The scope of `address`. Addresses of this machine lead to its programs, past any packet
    /// filter, and messages from them come from this machine.
    pub(crate) fn scope(&self, address: IpAddr) -> Scope {
        if self.is_own(address) { Scope::Host } else { Scope::of(address) }
    }

    /// True if a party in a network of scope `origin` may have a request sent to `remote` by
    /// `transport`. Destinations that are this server are refused.
    pub(crate) fn may_reach(
        &self,
        origin: Scope,
        transport: Transport,
        remote: SocketAddr,
    ) -> bool {
        is_sendable(remote)
            && !self.is_own_end(transport, remote)
            && (self.scope(remote.ip()) <= origin
                || self.config.limits.reachable.iter().any(|net| net.contains(remote.ip())))
    }
}

const SLOTS: usize = 1 << 16;

/// Sources that have answered a request or a challenge, and so accept messages. A new entry may
/// replace an older one.
pub(crate) struct Answered {
    key: Key,
    slots: Box<[AtomicU64]>,
}

impl Answered {
    pub(crate) fn new(key: Key) -> Self {
        Self { key, slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect() }
    }

    pub(crate) fn note(&self, source: Source) {
        let hash = self.key.hash_source(source);
        self.slots[hash as usize % SLOTS].store(hash, Ordering::Relaxed);
    }

    pub(crate) fn has(&self, source: Source) -> bool {
        let hash = self.key.hash_source(source);
        self.slots[hash as usize % SLOTS].load(Ordering::Relaxed) == hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::config::{Config, Listener, Network};

    #[test]
    fn scopes_are_those_of_the_registries() {
        for (address, expected) in [
            ("192.0.2.1", Scope::Global),
            ("172.32.0.1", Scope::Global),
            ("100.128.0.1", Scope::Global),
            ("2001:db8::1", Scope::Global),
            ("64:ff9b::c000:201", Scope::Global),
            ("10.0.0.1", Scope::Private),
            ("172.31.255.255", Scope::Private),
            ("192.168.0.1", Scope::Private),
            ("100.64.0.1", Scope::Private),
            ("fd00::1", Scope::Private),
            ("fec0::1", Scope::Private),
            ("64:ff9b:1::c000:201", Scope::Private),
            ("64:ff9b::a00:1", Scope::Private),
            ("2002:a00:1::1", Scope::Private),
            ("169.254.169.254", Scope::Link),
            ("fe80::1", Scope::Link),
            ("127.0.0.1", Scope::Host),
            ("0.1.2.3", Scope::Host),
            ("::1", Scope::Host),
            ("::ffff:127.0.0.1", Scope::Host),
            ("64:ff9b::7f00:1", Scope::Host),
        ] {
            let scope = Scope::of(address.parse().unwrap());
            assert_eq!(scope, expected, "{address}");
            assert_eq!(Scope::from_bits(scope.to_bits()), scope);
        }
    }

    #[test]
    fn networks_are_open_to_those_who_are_in_them() {
        let mut config = Config {
            listeners: alloc::vec![Listener {
                transport: Transport::Udp,
                address: "192.0.2.1:5060".parse().unwrap(),
            }],
            ..Config::default()
        };
        let network = Network { address: "10.9.0.0".parse().unwrap(), prefix: 16 };
        config.limits.reachable = alloc::vec![network];
        let settings = Settings::new(config).with_address("192.0.2.1".parse().unwrap());
        for (origin, remote, expected) in [
            (Scope::Global, "203.0.113.1:5060", true),
            (Scope::Global, "10.0.0.1:5060", false),
            (Scope::Global, "10.9.0.1:5060", true),
            (Scope::Private, "10.0.0.1:5060", true),
            (Scope::Private, "127.0.0.1:6379", false),
            (Scope::Private, "169.254.169.254:80", false),
            (Scope::Link, "169.254.1.1:5060", true),
            (Scope::Host, "127.0.0.1:6379", true),
            (Scope::Host, "0.0.0.0:5060", false),
            (Scope::Host, "224.0.1.75:5060", false),
            (Scope::Host, "255.255.255.255:5060", false),
            (Scope::Host, "203.0.113.1:0", false),
            (Scope::Host, "192.0.2.1:5060", false),
            (Scope::Host, "192.0.2.1:5070", true),
            (Scope::Private, "192.0.2.1:5070", false),
        ] {
            let remote = remote.parse().unwrap();
            let may = settings.may_reach(origin, Transport::Udp, remote);
            assert_eq!(may, expected, "{origin:?} {remote}");
        }
    }
}
