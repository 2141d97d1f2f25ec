//! A machine that moves to other addresses, in a network namespace with a link to this machine.
//! Requires root.

use crate::nat::{Machine, ip};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of links that this process has opened.
static OPENED: AtomicU32 = AtomicU32::new(0);

/// The link. It is removed on drop.
#[derive(Debug)]
pub struct Link {
    /// The machine at the other end.
    pub machine: Machine,
    /// The address of this machine on the link.
    pub here: Ipv4Addr,
    /// The name of the interface of this machine.
    interface: String,
}

impl Link {
    /// Creates a machine with a link to this one.
    ///
    /// # Panics
    /// The machine cannot be created, usually without root.
    #[must_use]
    pub fn open() -> Self {
        // Tests of one process have links at the same time.
        let count = OPENED.fetch_add(1, Ordering::Relaxed);
        let number = format!("{}-{count}", std::process::id());
        let [.., high, low] = (std::process::id() + (count << 14)).to_be_bytes();
        let address = |host| Ipv4Addr::new(10, high, low, host);
        let (namespace, here) = (format!("barebell-{number}-link"), address(1));
        let machine = Machine { namespace, address: address(2) };
        let link = Self { machine, here, interface: format!("bb{number}") };
        let (namespace, outer) = (&link.machine.namespace, &link.interface);
        ip(&format!("netns add {namespace}"));
        ip(&format!("-n {namespace} link set lo up"));
        ip(&format!("link add {outer} type veth peer name eth0 netns {namespace}"));
        ip(&format!("address add {here}/24 dev {outer}"));
        ip(&format!("link set {outer} up"));
        // A local address of IPv6 would be a change of the network some time after the start.
        ip(&format!("-n {namespace} link set eth0 addrgenmode none"));
        ip(&format!("-n {namespace} link set eth0 up"));
        link.connect();
        link
    }

    /// Adds the address of the machine, and its route.
    fn connect(&self) {
        let (Machine { namespace, address }, here) = (&self.machine, self.here);
        ip(&format!("-n {namespace} address add {address}/24 dev eth0"));
        ip(&format!("-n {namespace} route add default via {here}"));
    }

    /// Takes the address from the machine, as where a network is left, and gives it the next one.
    ///
    /// # Panics
    /// The machine has no such address.
    pub fn change_network(&mut self) {
        let Machine { namespace, address } = &self.machine;
        ip(&format!("-n {namespace} address delete {address}/24 dev eth0"));
        let [a, b, c, host] = address.octets();
        self.machine.address = Ipv4Addr::new(a, b, c, host + 1);
        self.connect();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Closed sockets keep the namespace for a while, and with it the link.
        ip(&format!("link delete {}", self.interface));
        ip(&format!("netns delete {}", self.machine.namespace));
    }
}
