//! The network of the system: interfaces, gateways and DNS servers.

use nix::ifaddrs::getifaddrs;
use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant, SystemTime};

/// The route flag for a gateway (`RTF_GATEWAY` of Linux).
const GATEWAY: u32 = 2;

/// The network of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Network {
    /// The interfaces by name, with addresses and prefix lengths.
    pub(crate) interfaces: BTreeMap<String, Vec<(IpAddr, u32)>>,
    /// The gateways of the default routes, with their interfaces.
    pub(crate) gateways: Vec<(IpAddr, String)>,
    pub(crate) name_servers: Vec<String>,
}

impl Network {
    /// Reads the current state. Unavailable parts are left out.
    pub(crate) fn now() -> Self {
        let text = read_to_string("/etc/resolv.conf").unwrap_or_default();
        Self { interfaces: interfaces(), gateways: gateways(), name_servers: name_servers(&text) }
    }
}

/// The gateways of the default routes, with their interfaces.
fn gateways() -> Vec<(IpAddr, String)> {
    let text = |path| read_to_string(path).unwrap_or_default();
    let mut gateways = gateways_v4(&text("/proc/net/route"));
    gateways.extend(gateways_v6(&text("/proc/net/ipv6_route")));
    gateways
}

/// Returns true if an address reaches beyond this machine and its link.
const fn is_of_network(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !ip.is_loopback(),
        IpAddr::V6(ip) => !ip.is_loopback() && !ip.is_unicast_link_local(),
    }
}

/// Interval of the checks.
const LOOKS: Duration = Duration::from_secs(2);
/// Minimum difference of the clocks that means the machine has slept.
const SLEEP: Duration = Duration::from_secs(5);

/// Detects changes of addresses and gateways, and sleep of the machine. Both invalidate earlier
/// knowledge of the network.
pub(crate) struct Watch {
    looked: Instant,
    wall: SystemTime,
    interfaces: BTreeMap<String, Vec<(IpAddr, u32)>>,
    gateways: Vec<(IpAddr, String)>,
    has_slept: bool,
}

impl Watch {
    pub(crate) fn start() -> Self {
        Self {
            looked: Instant::now(),
            wall: SystemTime::now(),
            interfaces: interfaces(),
            gateways: gateways(),
            has_slept: false,
        }
    }

    /// Returns true if the machine had slept at the last change. Flows can be lost then even if the
    /// local address is the same.
    pub(crate) const fn has_slept(&self) -> bool {
        self.has_slept
    }

    /// Returns true if the network changed or the machine slept since the last call of this
    /// function.
    pub(crate) fn has_changed(&mut self) -> bool {
        let passed = self.looked.elapsed();
        if passed < LOOKS {
            return false;
        }
        let now = Self::start();
        // The monotonic clock stops during sleep.
        let by_wall = now.wall.duration_since(self.wall).unwrap_or_default();
        let has_slept = by_wall > passed + SLEEP;
        // Without any address a change has no consequence yet.
        let has_address = now.interfaces.values().flatten().any(|(ip, _)| is_of_network(*ip));
        let ways = |watch: &Self| (watch.interfaces.clone(), watch.gateways.clone());
        let is_other = has_address && ways(&now) != ways(self);
        let (interfaces, gateways) = ways(if has_address { &now } else { self });
        *self = Self { interfaces, gateways, has_slept, ..now };
        has_slept || is_other
    }
}

fn interfaces() -> BTreeMap<String, Vec<(IpAddr, u32)>> {
    let mut interfaces: BTreeMap<String, Vec<(IpAddr, u32)>> = BTreeMap::new();
    for interface in getifaddrs().into_iter().flatten() {
        let (Some(address), Some(mask)) = (interface.address, interface.netmask) else { continue };
        let v4 = address.as_sockaddr_in().zip(mask.as_sockaddr_in());
        let v4 = v4.map(|(at, mask)| (IpAddr::V4(at.ip()), mask.ip().to_bits().count_ones()));
        let v6 = address.as_sockaddr_in6().zip(mask.as_sockaddr_in6());
        let v6 = v6.map(|(at, mask)| (IpAddr::V6(at.ip()), mask.ip().to_bits().count_ones()));
        if let Some(found) = v4.or(v6) {
            interfaces.entry(interface.interface_name).or_default().push(found);
        }
    }
    interfaces
}

/// Parses `/proc/net/route`: a header line, then interface, destination, gateway, flags, ..., mask.
/// Addresses are hexadecimal numbers in native byte order.
fn gateways_v4(text: &str) -> Vec<(IpAddr, String)> {
    let gateway = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |place: usize| u32::from_str_radix(words.get(place)?, 16).ok();
        let is_default = number(1)? == 0 && number(7)? == 0 && number(3)? & GATEWAY != 0;
        let address = Ipv4Addr::from(number(2)?.to_ne_bytes());
        is_default.then(|| (address.into(), words[0].to_owned()))
    };
    text.lines().skip(1).filter_map(gateway).collect()
}

/// Parses `/proc/net/ipv6_route`: destination, its length, source, its length, next hop, metric,
/// reference count, use count, flags, interface. All numbers are hexadecimal.
fn gateways_v6(text: &str) -> Vec<(IpAddr, String)> {
    let gateway = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let address = |place: usize| u128::from_str_radix(words.get(place)?, 16).ok();
        let number = |place: usize| u32::from_str_radix(words.get(place)?, 16).ok();
        let is_default = address(0)? == 0 && number(1)? == 0 && number(8)? & GATEWAY != 0;
        let gateway = Ipv6Addr::from_bits(address(4)?);
        let interface = words.get(9)?;
        is_default.then(|| (gateway.into(), (*interface).to_owned()))
    };
    text.lines().filter_map(gateway).collect()
}

fn name_servers(text: &str) -> Vec<String> {
    let server = |line: &str| {
        let mut words = line.split_whitespace();
        (words.next()? == "nameserver").then(|| words.next().map(str::to_owned))?
    };
    text.lines().filter_map(server).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateways_are_those_of_default_routes() {
        let number = |text: &str| u32::from_ne_bytes(text.parse::<Ipv4Addr>().unwrap().octets());
        let (gateway, net) = (number("192.0.2.1"), number("192.0.2.0"));
        let text = format!(
            "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\n\
             eth0\t00000000\t{gateway:08X}\t0003\t0\t0\t0\t00000000\t0\n\
             eth0\t{net:08X}\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\n\
             tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000000\t0\nshort\n"
        );
        assert_eq!(gateways_v4(&text), [("192.0.2.1".parse().unwrap(), "eth0".to_owned())]);
        let none = "0".repeat(32);
        let hop = "fe80000000000000020000fffe000001";
        let text = format!(
            "{none} 00 {none} 00 {hop} 00000400 00000001 00000000 00000003     eth0\n\
             {none} 00 {none} 00 {none} ffffffff 00000001 00000000 00200200       lo\nshort\n"
        );
        let expected = ("fe80::200:ff:fe00:1".parse().unwrap(), "eth0".to_owned());
        assert_eq!(gateways_v6(&text), [expected]);
    }

    #[test]
    fn name_servers_are_read_past_all_else() {
        let text = "# nameserver 192.0.2.9\nsearch example.org\nnameserver 192.0.2.53\nnameserver\n nameserver\tfe80::1%eth0\n";
        assert_eq!(name_servers(text), ["192.0.2.53", "fe80::1%eth0"]);
    }

    #[test]
    fn this_machine_has_its_loopback() {
        let network = Network::now();
        let mut addresses = network.interfaces.values().flatten();
        assert!(addresses.any(|(address, length)| address.is_loopback() && *length > 0));
    }
}
