//! The memory budget: each use has a limit, and the limits together leave room for the work on a
//! message.

/// Maximum number of TCP connections, independent of the memory: each frame is compared with all of
/// them.
pub(super) const CONNECTIONS: usize = 512;

/// Maximum number of users, independent of the memory.
const USERS: usize = 1_000_000;
/// Bytes of memory per user: in the file, in the engine, during a reload, and with a registered
/// phone.
pub(super) const USER: usize = 1100;
/// The part of that for a user in the engine.
pub(super) const TAKEN_IN: usize = 320;

/// Bytes of memory per relayed call with one stream: its state, its descriptions, and the BYEs for
/// its end.
pub(super) const CALL: usize = 8 << 10;

/// The limits of a machine, in bytes unless noted otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Budget {
    /// Number of users.
    pub(super) users: usize,
    /// Transactions.
    pub(super) transactions: usize,
    /// Dialogs.
    pub(super) dialogs: usize,
    /// Number of relayed calls.
    pub(super) calls: usize,
    /// TCP connections: their buffers, incomplete messages, and unread responses.
    pub(super) connections: usize,
    /// Incomplete datagrams, and likewise datagrams that wait for a neighbour.
    pub(super) datagrams: usize,
    /// Number of sources with a counted rate.
    pub(super) sources: usize,
    /// Number of nonces with a kept count.
    pub(super) nonces: usize,
}

impl Budget {
    /// The limits of a machine with `memory` bytes.
    pub(super) const fn of(memory: usize) -> Self {
        Self {
            users: if memory / USER < USERS { memory / USER } else { USERS },
            transactions: memory / 4,
            dialogs: memory / 16,
            calls: memory / 16 / CALL,
            connections: memory / 8,
            datagrams: memory / 64,
            sources: memory / 4096,
            nonces: memory / 1024,
        }
    }
}
