//! The networks of the matrix: a LAN, and if wanted a second one, each behind a NAT of its own,
//! with a network of public addresses between the NATs.

use crate::lifetime::Namespaces;
use crate::link::{Link, run};
use std::fs;
use std::io;
use std::net::Ipv4Addr;

/// The server without an operating system, in the LAN, and its public address behind the NAT.
pub(super) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 10);
pub(super) const PUBLIC: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 11);
/// The local host in the LAN: the server on Linux, and the TFTP server.
pub(super) const HOST: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
/// The interfaces of the virtual machines of a LAN.
pub(super) const TAPS: [&str; 3] = ["tap0", "tap1", "tap2"];
/// The ports that the first NAT forwards to the server: SIP and relayed media.
const FORWARDED: &str = "{ 5060, 20000-29999 }";

/// The namespaces: two LANs, the network between the NATs, and the NATs.
const NAMESPACES: [&str; 5] = ["lan", "elsewhere", "public", "nat1", "nat2"];

/// A place of a phone: the LAN of the server, or the network behind the second NAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Lan,
    Elsewhere,
}

impl Place {
    /// The name of its LAN in [`NAMESPACES`].
    const fn name(self) -> &'static str {
        match self {
            Self::Lan => "lan",
            Self::Elsewhere => "elsewhere",
        }
    }

    /// Returns the address of host `number`; the first is the local one, 254 is the NAT.
    pub(super) const fn address(self, number: u8) -> Ipv4Addr {
        match self {
            Self::Lan => Ipv4Addr::new(10, 78, 0, number),
            Self::Elsewhere => Ipv4Addr::new(10, 79, 0, number),
        }
    }
}

/// The networks. Dropping it removes them.
#[derive(Debug)]
pub(super) struct Lab {
    has_nats: bool,
    _namespaces: Namespaces,
}

impl Lab {
    /// Sets up the LAN, and with `has_nats` the other networks.
    ///
    /// # Errors
    /// `ip` or `nft` failed; they need root.
    pub(super) fn start(has_nats: bool) -> io::Result<Self> {
        let names = NAMESPACES.map(name);
        let namespaces = Namespaces::prepare(names.iter().map(|name| &**name))?;
        let lab = Self { has_nats, _namespaces: namespaces };
        lab.lan(Place::Lan)?;
        if has_nats {
            lab.lan(Place::Elsewhere)?;
            let public = lab.add("public")?;
            run(&format!("ip -n {public} link add bridge type bridge forward_delay 0"))?;
            run(&format!("ip -n {public} link set bridge up"))?;
            lab.nat(Place::Lan, PUBLIC)?;
            lab.nat(Place::Elsewhere, Ipv4Addr::new(198, 51, 100, 12))?;
        }
        Ok(lab)
    }

    /// Returns true if there are NATs.
    pub(super) const fn has_nats(&self) -> bool {
        self.has_nats
    }

    /// Returns the name of the namespace of a place.
    pub(super) fn namespace(&self, place: Place) -> String {
        name(place.name())
    }

    fn add(&self, of: &str) -> io::Result<String> {
        let name = name(of);
        run(&format!("ip netns add {name}"))?;
        run(&format!("ip -n {name} link set lo up"))?;
        Ok(name)
    }

    /// Adds a LAN: a bridge that has the addresses of the phones for Linux, and the interfaces of
    /// virtual machines.
    fn lan(&self, place: Place) -> io::Result<()> {
        let name = self.add(place.name())?;
        run(&format!("ip -n {name} link add bridge type bridge forward_delay 0"))?;
        // Phones take a later change of addresses for a change of the network.
        run(&format!("ip -n {name} link set bridge addrgenmode none"))?;
        for number in [1, 21, 22] {
            run(&format!("ip -n {name} address add {}/24 dev bridge", place.address(number)))?;
        }
        run(&format!("ip -n {name} link set bridge up"))?;
        for tap in TAPS {
            run(&format!("ip -n {name} tuntap add dev {tap} mode tap"))?;
            run(&format!("ip -n {name} link set {tap} master bridge up"))?;
        }
        Ok(())
    }

    /// Adds the NAT of a place: plain masquerade, and for the LAN the forwarded ports, which the
    /// LAN reaches by the public address, too.
    fn nat(&self, place: Place, public: Ipv4Addr) -> io::Result<()> {
        let (lan, middle) = (self.namespace(place), name("public"));
        let nat = self.add(match place {
            Place::Lan => "nat1",
            Place::Elsewhere => "nat2",
        })?;
        let gateway = place.address(254);
        for (inner, outer, address) in [("inside", &lan, gateway), ("outside", &middle, public)] {
            let port = format!("to-{}", &nat[nat.len() - 4..]);
            run(&format!(
                "ip link add {inner} netns {nat} type veth peer name {port} netns {outer}"
            ))?;
            run(&format!("ip -n {outer} link set {port} master bridge up"))?;
            run(&format!("ip -n {nat} address add {address}/24 dev {inner}"))?;
            run(&format!("ip -n {nat} link set {inner} up"))?;
        }
        run(&format!("ip -n {lan} route add default via {gateway}"))?;
        Link::inside(&nat, || fs::write("/proc/sys/net/ipv4/ip_forward", "1"))?;
        let mut rules = vec![
            "add table ip nat".to_owned(),
            "add chain ip nat out { type nat hook postrouting priority 100 ; }".to_owned(),
            "add rule ip nat out oifname outside masquerade".to_owned(),
            "add chain ip nat self { type filter hook input priority 0 ; }".to_owned(),
            // Otherwise the port of a phone would be taken by a packet to the NAT itself.
            "add rule ip nat self iifname outside ct state new drop".to_owned(),
        ];
        if place == Place::Lan {
            rules.extend([
                "add chain ip nat in { type nat hook prerouting priority -100 ; }".to_owned(),
                format!(
                    "add rule ip nat in ip daddr {public} udp dport {FORWARDED} dnat to {SERVER}"
                ),
                format!("add rule ip nat out ip saddr {gateway}/24 ip daddr {SERVER} masquerade"),
            ]);
        }
        rules.iter().try_for_each(|rule| run(&format!("ip netns exec {nat} nft {rule}")).map(drop))
    }
}

/// Returns the name of a namespace of this program.
fn name(of: &str) -> String {
    format!("barebell-bare-{}-{of}", std::process::id())
}
