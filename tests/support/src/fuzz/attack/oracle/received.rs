//! What the oracle keeps of requests that came in, and of names.

use super::places::Place;
use sip::{Instant, Message};
use sip_server::Flow;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

/// A request that came in.
pub(super) struct Received {
    pub(super) flow: Flow,
    pub(super) bytes: Vec<u8>,
    pub(super) method: String,
    /// When it came, each time.
    pub(super) came: Vec<Instant>,
    /// When its first final response went back.
    pub(super) answered: Option<Instant>,
    /// Its good credentials, once they were looked at.
    pub(super) proof: Option<Option<Proof>>,
}

impl Received {
    pub(super) fn message(&self) -> Message<'_> {
        Message::parse(&self.bytes).expect("it was read before")
    }
}

/// What the DNS said of names.
#[derive(Default)]
pub(super) struct Names(pub(super) HashMap<String, HashSet<SocketAddr>>);

impl Names {
    /// Whether what is for `place` may go to `remote`.
    pub(super) fn leads(&self, place: &Place, remote: SocketAddr) -> bool {
        let is_known = |known: &HashSet<SocketAddr>| known.contains(&remote);
        place.address() == Some(remote) || self.0.get(&place.host).is_some_and(is_known)
    }
}

/// Good credentials.
#[derive(Clone)]
pub(super) struct Proof {
    pub(super) user: &'static str,
    pub(super) key: (Vec<u8>, u32),
}
