//! The rest of the server, as the front end uses it.

use relay::{CallReport, Calls};
use sip_server::Party;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The relay and its time, and the addresses of this machine and those that it may send to.
pub(super) struct Surroundings<'a> {
    pub(super) calls: &'a dyn Calls,
    /// The local address that packets to a host leave from.
    pub(super) local: &'a dyn Fn(IpAddr) -> Option<IpAddr>,
    /// True if a party at the host may have packets sent to the address.
    pub(super) permits: &'a dyn Fn(IpAddr, SocketAddr) -> bool,
    /// Records the end of a call.
    pub(super) ended: &'a dyn Fn(CallReport, Party),
    /// The time of the relay.
    pub(super) now: Duration,
    /// The same time since 1970.
    pub(super) wall: Duration,
}
