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

/// True if the peer of `flow`, which names the address `said` as its own, is in the private
/// network of the local end (of the same /24, or /64 in IPv6). A peer whose address was translated
/// on the way names another one; behind a container's translation all peers come from a private
/// address, and in another private network our end is not known to be reachable.
pub(crate) fn is_inside(said: Option<IpAddr>, flow: &Flow) -> bool {
    let (near, far) = (flow.local.ip().to_canonical(), flow.remote.ip().to_canonical());
    let is_near = match (near, far) {
        (IpAddr::V4(near), IpAddr::V4(far)) => near.octets()[..3] == far.octets()[..3],
        (IpAddr::V6(near), IpAddr::V6(far)) => near.segments()[..4] == far.segments()[..4],
        _ => false,
    };
    is_near && is_private(far) && said.is_some_and(|said| said.to_canonical() == far)
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
