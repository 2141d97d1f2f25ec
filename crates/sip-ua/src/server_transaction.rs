//! Requests of others that are in progress or remembered: each is a server transaction (RFC 3261
//! section 17.2).

use crate::event::CallId;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use sip::transaction::{Kind, ServerTransaction};
use sip::{Flow, Instant};

/// The server transaction of a request, by a keyed hash of what tells it from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ServerKey(pub(crate) u64);

/// What is to be done with a request that came in.
pub(crate) enum Arrival {
    /// It is new.
    New(ServerKey),
    /// It was answered, or there is no room for it.
    Done,
}

/// A request that is to be answered.
pub(crate) struct Asked {
    pub(crate) request: Vec<u8>,
    pub(crate) flow: Flow,
    pub(crate) key: ServerKey,
}

/// A response, without what the request gives it.
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    /// The tag in To.
    pub(crate) tag: &'a [u8],
    /// Whole header field lines.
    pub(crate) lines: &'a [u8],
    pub(crate) body: &'a [u8],
}

impl<'a> Answer<'a> {
    pub(crate) const fn status(status: u16, tag: &'a [u8]) -> Self {
        Self { status, tag, lines: b"", body: b"" }
    }
}

pub(crate) struct Server {
    pub(crate) machine: ServerTransaction,
    /// The way back.
    pub(crate) flow: Flow,
    /// What was answered last.
    pub(crate) response: Vec<u8>,
    /// The status of that; 0: nothing yet.
    pub(crate) status: u16,
    /// Whether the request came within a dialog of ours.
    pub(crate) in_dialog: bool,
    /// Whose INVITE it is.
    pub(crate) call: Option<CallId>,
    /// Hash of what makes a request that came on another way the same (RFC 3261 section 8.2.2.2).
    pub(crate) merge: u64,
}

/// All that are in progress or remembered.
#[derive(Default)]
pub(crate) struct Servers {
    pub(crate) all: BTreeMap<ServerKey, Server>,
}

impl Servers {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether one more fits, of which `limit` are taken within dialogs and as many outside:
    /// strangers take no room from those that are talked to. Where all is taken one goes that is
    /// answered, and is remembered only for the case that the answer was lost.
    pub(crate) fn make_room(&mut self, in_dialog: bool, limit: usize) -> bool {
        let mut of_kind = self.all.iter().filter(|(_, server)| server.in_dialog == in_dialog);
        if of_kind.clone().count() < limit {
            return true;
        }
        // The 2xx to an INVITE that begins a call is sent until its ACK comes.
        let is_answered = |server: &Server| {
            server.status >= 300
                || (server.status >= 200 && (in_dialog || server.machine.kind() != Kind::Invite))
        };
        let answered = of_kind.find(|(_, server)| is_answered(server)).map(|(key, _)| *key);
        answered.and_then(|key| self.all.remove(&key)).is_some()
    }

    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.all.values().filter_map(|server| server.machine.next_timer()).min()
    }
}
