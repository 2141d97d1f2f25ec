//! What goes over links.

use serde::{Deserialize, Serialize};
use sip::Instant;
use std::net::SocketAddr;

/// A message that came in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming<'a> {
    /// When, by the kernel's account. What is read from a connection in one piece has the time of
    /// its last part.
    pub(crate) received: Instant,
    pub(crate) link: u32,
    pub(crate) remote: SocketAddr,
    pub(crate) bytes: &'a [u8],
}

/// What went over the links, and what went wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LinkCounts {
    /// Datagrams that the kernel dropped because nobody took them in time.
    pub(crate) drops: u64,
    /// Messages that could not be sent.
    pub(crate) unsent: u64,
    /// How often the server's machine told that nobody listens there.
    #[serde(default)]
    pub(crate) refused: u64,
    /// Connections that were opened.
    pub(crate) connections: u64,
    /// Messages sent and received, and how many octets they had.
    pub(crate) sent: u64,
    pub(crate) sent_octets: u64,
    pub(crate) received: u64,
    pub(crate) received_octets: u64,
}

impl LinkCounts {
    /// Both together.
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

    /// What came after `before`.
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
