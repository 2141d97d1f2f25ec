//! Flows: where a message came from and how another one gets back there (RFC 5626 section 2).

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::num::NonZeroU64;
use sip::Transport;

/// A stream connection, numbered by the program that owns it. Numbers are not used again, also
/// after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Connection(pub NonZeroU64);

/// The two ends of an exchange of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// What carries the messages.
    pub transport: Transport,
    /// Our end: the address that the peer sent to, never a wildcard, and the listener's port.
    pub local: SocketAddr,
    /// The peer's end.
    pub remote: SocketAddr,
    /// The connection, for a stream. `None` on a stream that is yet to be opened: the program
    /// reuses a connection to `remote` or opens one.
    pub connection: Option<Connection>,
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.transport.uri_name(), self.remote)
    }
}

/// Whether messages may be sent to `address`: not to everybody, and not to nobody.
pub(crate) fn is_sendable(address: SocketAddr) -> bool {
    let ip = address.ip().to_canonical();
    let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !ip.is_multicast() && !ip.is_unspecified() && !broadcast && address.port() != 0
}

/// Whether `ip` means something only in the network it is in, so that another network may use the
/// same one (RFC 1918, RFC 3927, RFC 4193, RFC 6598).
pub(crate) fn is_private(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let [first, second, ..] = ip.octets();
            ip.is_private() || ip.is_link_local() || (first == 100 && second & 0xc0 == 64)
        }
        IpAddr::V6(ip) => ip.is_unique_local() || ip.is_unicast_link_local(),
    }
}
