//! Log lines for a syslog collector (RFC 5424, RFC 5426).

use crate::log::Log;
use crate::net::Network;
use core::net::{Ipv4Addr, SocketAddrV4};
use sip::Instant;

/// The port of both ends.
const PORT: u16 = 514;
/// Facility `local0`, severity `notice`.
const PRIORITY: u8 = 16 << 3 | 5;

/// Sends new log lines.
#[derive(Debug)]
pub(super) struct Syslog {
    collector: SocketAddrV4,
    seen: u64,
}

impl Syslog {
    pub(super) const fn new(collector: Ipv4Addr) -> Self {
        Self { collector: SocketAddrV4::new(collector, PORT), seen: 0 }
    }

    /// Sends the lines logged since the last call, without a time, which the collector adds.
    pub(super) fn send(&mut self, now: Instant, log: &Log, network: &mut Network) {
        for line in log.since(self.seen) {
            let message = alloc::format!("<{PRIORITY}>1 - - barebell - - - {line}");
            network.send(now, PORT, self.collector, message.as_bytes());
        }
        self.seen = log.said();
    }
}
