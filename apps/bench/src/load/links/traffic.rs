//! The messages on links, and their counts.

use serde::{Deserialize, Serialize};
use sip::Instant;
use std::net::SocketAddr;

/// A received message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming<'a> {
    /// The kernel's time of receipt. Messages of a connection that were read together have the time
    /// of the last octet.
    pub(crate) received: Instant,
    pub(crate) link: u32,
    pub(crate) remote: SocketAddr,
    pub(crate) bytes: &'a [u8],
}

/// Counts of messages and errors on the links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LinkCounts {
    /// Datagrams that the kernel dropped because the receive buffer was full.
    pub(crate) drops: u64,
    /// Messages that could not be sent.
    pub(crate) unsent: u64,
    /// Refusals by the server's machine: no listener at the port.
    #[serde(default)]
    pub(crate) refused: u64,
    /// Connections that were opened.
    pub(crate) connections: u64,
    /// Messages sent and received, and their octets.
    pub(crate) sent: u64,
    pub(crate) sent_octets: u64,
    pub(crate) received: u64,
    pub(crate) received_octets: u64,
}

impl LinkCounts {
    /// Returns the sum.
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            drops: self.drops + other.drops,
            unsent: self.unsent + other.unsent,
            refused: self.refused + other.refused,
            connections: self.connections + other.connections,
            sent: self.sent + other.sent,
            sent_octets: self.sent_octets + other.sent_octets,
            received: self.received + other.received,
            received_octets: self.received_octets + other.received_octets,
        }
    }

    /// Returns the difference to the earlier reading `before`.
    pub(crate) const fn since(self, before: Self) -> Self {
        Self {
            drops: self.drops - before.drops,
            unsent: self.unsent - before.unsent,
            refused: self.refused - before.refused,
            connections: self.connections - before.connections,
            sent: self.sent - before.sent,
            sent_octets: self.sent_octets - before.sent_octets,
            received: self.received - before.received,
            received_octets: self.received_octets - before.received_octets,
        }
    }
}
