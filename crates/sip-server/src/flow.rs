//! Flows, and the addresses that they may lead to.

use core::net::{IpAddr, SocketAddr};
pub use sip::{Connection, Flow};

/// True if messages may be sent to `address`: it is a unicast address, and neither the address nor
/// the port is zero.
pub(crate) fn is_sendable(address: SocketAddr) -> bool {
    let ip = address.ip().to_canonical();
    let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !ip.is_multicast() && !ip.is_unspecified() && !broadcast && address.port() != 0
}

/// True if `ip` is local to a network, so that other networks may use the same address (RFC 1918,
/// RFC 3927, RFC 4193, RFC 6598).
pub(crate) fn is_private(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let [first, second, ..] = ip.octets();
            ip.is_private() || ip.is_link_local() || (first == 100 && second & 0xc0 == 64)
        }
        IpAddr::V6(ip) => ip.is_unique_local() || ip.is_unicast_link_local(),
    }
}
