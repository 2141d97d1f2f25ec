//! The server transactions (RFC 3261 section 17.2).

use crate::event::CallId;
use crate::table::Table;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use sip::Flow;
use sip::transaction::{ServerTransaction, TransactionKind};

/// The key of a server transaction: a keyed hash of its identifying values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ServerKey(pub(crate) u64);

impl ServerKey {
    const MIN: Self = Self(0);
    const MAX: Self = Self(u64::MAX);
}

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
    /// A session description, unless `lines` has a Content-Type.
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
    /// For an INVITE outside of dialogs: a hash of the values that identify the same request on
    /// another path (RFC 3261 section 8.2.2.2).
    pub(crate) merge: Option<u64>,
}

impl Server {
    /// Returns true if the transaction is only kept for a lost response. The 2xx to an INVITE that
    /// begins a call is retransmitted until its ACK arrives.
    fn is_answered(&self) -> bool {
        let begins_call = !self.in_dialog && self.machine.kind() == TransactionKind::Invite;
        self.status >= if begins_call { 300 } else { 200 }
    }
}

/// All server transactions.
#[derive(Default)]
pub(crate) struct Servers {
    pub(crate) all: Table<ServerKey, Server>,
    /// Those outside of dialogs, and those within dialogs.
    kinds: [Transactions; 2],
    merges: BTreeSet<(u64, ServerKey)>,
}

#[derive(Default)]
struct Transactions {
    count: usize,
    answered: BTreeSet<ServerKey>,
}

impl Servers {
    fn of_kind(&mut self, in_dialog: bool) -> &mut Transactions {
        &mut self.kinds[usize::from(in_dialog)]
    }

    /// Adds a transaction.
    pub(crate) fn insert(&mut self, key: ServerKey, server: Server) {
        self.of_kind(server.in_dialog).count += 1;
        self.merges.extend(server.merge.map(|merge| (merge, key)));
        self.all.insert(key, server);
    }

    /// Removes a transaction.
    pub(crate) fn remove(&mut self, key: ServerKey) -> Option<Server> {
        let server = self.all.remove(key)?;
        let kind = self.of_kind(server.in_dialog);
        kind.count -= 1;
        kind.answered.remove(&key);
        if let Some(merge) = server.merge {
            self.merges.remove(&(merge, key));
        }
        Some(server)
    }

    /// Records a sent response.
    pub(crate) fn note_response(&mut self, key: ServerKey, status: u16, response: &[u8]) {
        let Some(server) = self.all.get_mut(key) else { return };
        server.response = response.to_vec();
        server.status = status;
        // A proxy on the path may send another offer (RFC 3261 section 16.7 leaves it open).
        if status == 488
            && let Some(merge) = server.merge.take()
        {
            self.merges.remove(&(merge, key));
        }
        let Some(server) = self.all.get(key) else { return };
        if server.is_answered() {
            let in_dialog = server.in_dialog;
            self.of_kind(in_dialog).answered.insert(key);
        }
    }

    /// Returns true if there is room for one more. The limit is `limit` within dialogs and as many
    /// outside, so that strangers take no room from established peers. At the limit an answered
    /// transaction is removed, which is only kept for a lost response.
    pub(crate) fn make_room(&mut self, in_dialog: bool, limit: usize) -> bool {
        let kind = self.of_kind(in_dialog);
        if kind.count < limit {
            return true;
        }
        let answered = kind.answered.first().copied();
        answered.and_then(|key| self.remove(key)).is_some()
    }

    /// Returns true if another transaction than `key` has the hash `merge`.
    pub(crate) fn has_merged(&self, merge: u64, key: ServerKey) -> bool {
        let same = self.merges.range((merge, ServerKey::MIN)..=(merge, ServerKey::MAX));
        same.into_iter().any(|(_, other)| *other != key)
    }
}
