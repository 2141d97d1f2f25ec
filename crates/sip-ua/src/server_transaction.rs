//! The server transactions (RFC 3261 section 17.2).

use crate::event::CallId;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use sip::transaction::{ServerTransaction, TransactionKind};
use sip::{Flow, Instant};

/// The key of a server transaction: a keyed hash of its identifying values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ServerKey(pub(crate) u64);

/// The treatment of an arriving request.
pub(crate) enum Arrival {
    /// The request is new.
    New(ServerKey),
    /// The request was answered, or there is no room for it.
    Done,
}

/// A request that waits for its response.
pub(crate) struct Asked {
    pub(crate) request: Vec<u8>,
    pub(crate) flow: Flow,
    pub(crate) key: ServerKey,
}

/// A response, without the values copied from the request.
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    /// The tag in To.
    pub(crate) tag: &'a [u8],
    /// Complete header field lines.
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
    /// The flow of responses.
    pub(crate) flow: Flow,
    /// The last response.
    pub(crate) response: Vec<u8>,
    /// Its status. 0 before the first response.
    pub(crate) status: u16,
    /// True if the request arrived within a local dialog.
    pub(crate) in_dialog: bool,
    /// The call of an INVITE.
    pub(crate) call: Option<CallId>,
    /// A hash of the values that identify the same request on another path (RFC 3261 section
    /// 8.2.2.2).
    pub(crate) merge: u64,
}

/// All server transactions.
#[derive(Default)]
pub(crate) struct Servers {
    pub(crate) all: BTreeMap<ServerKey, Server>,
}

impl Servers {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns true if there is room for one more. The limit is `limit` within dialogs and as many
    /// outside, so that strangers take no room from established peers. At the limit an answered
    /// transaction is removed, which is only kept for a lost response.
    pub(crate) fn make_room(&mut self, in_dialog: bool, limit: usize) -> bool {
        let mut of_kind = self.all.iter().filter(|(_, server)| server.in_dialog == in_dialog);
        if of_kind.clone().count() < limit {
            return true;
        }
        // The 2xx to an INVITE that begins a call is retransmitted until its ACK arrives.
        let is_answered = |server: &Server| {
            server.status >= 300
                || (server.status >= 200
                    && (in_dialog || server.machine.kind() != TransactionKind::Invite))
        };
        let answered = of_kind.find(|(_, server)| is_answered(server)).map(|(key, _)| *key);
        answered.and_then(|key| self.all.remove(&key)).is_some()
    }

    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.all.values().filter_map(|server| server.machine.next_timer()).min()
    }
}
