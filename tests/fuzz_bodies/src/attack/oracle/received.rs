//! Received requests, and names resolved by DNS.

use super::places::Place;
use sip::{Instant, Message};
use sip_server::Flow;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

/// A received request.
pub(super) struct Received {
    pub(super) flow: Flow,
    pub(super) bytes: Vec<u8>,
    pub(super) method: String,
    /// The times at which it was received.
    pub(super) came: Vec<Instant>,
    /// The time of its first final response.
    pub(super) answered: Option<Instant>,
    /// Its valid credentials, once checked.
    pub(super) proof: Option<Option<Proof>>,
}

impl Received {
    pub(super) fn message(&self) -> Message<'_> {
        Message::parse(&self.bytes).expect("the message was parsed before")
    }
}

/// The addresses of domain names according to DNS.
#[derive(Default)]
pub(super) struct Names(pub(super) HashMap<String, HashSet<SocketAddr>>);

impl Names {
    /// Returns true if messages for `place` may be sent to `remote`.
    pub(super) fn leads(&self, place: &Place, remote: SocketAddr) -> bool {
        let is_known = |known: &HashSet<SocketAddr>| known.contains(&remote);
        place.address() == Some(remote) || self.0.get(&place.host).is_some_and(is_known)
    }
}

/// Valid credentials.
#[derive(Clone)]
pub(super) struct Proof {
    pub(super) user: &'static str,
    pub(super) key: (Vec<u8>, u32),
}
