//! The shares of the memory: every kind of use has a bound, and the bounds together leave room for
//! the work on a message.

/// The number of connections by TCP, whatever memory there is: every frame looks at all of them.
pub(super) const CONNECTIONS: usize = 512;

/// The number of users, whatever memory there is.
const USERS: usize = 1_000_000;
/// Bytes of memory for each user: the user as the file has it and as the engine has it, while a
/// file is read again, and a phone that is registered.
pub(super) const USER: usize = 1100;
/// The part of that for a user that the engine takes in.
pub(super) const TAKEN_IN: usize = 320;

/// The bounds of a machine, in bytes where nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Budget {
    /// The number of users.
    pub(super) users: usize,
    /// Requests that are answered or under way.
    pub(super) transactions: usize,
    /// Dialogs.
    pub(super) dialogs: usize,
    /// Connections by TCP: their buffers, messages that are not whole, answers that are not read.
    pub(super) connections: usize,
    /// Datagrams that are not whole, and the same for those that wait for a neighbour.
    pub(super) datagrams: usize,
    /// The number of senders whose rates are counted.
    pub(super) sources: usize,
    /// The number of nonces whose counts are kept.
    pub(super) nonces: usize,
}

impl Budget {
    /// The bounds of a machine with `memory` bytes.
    pub(super) const fn of(memory: usize) -> Self {
        Self {
            users: if memory / USER < USERS { memory / USER } else { USERS },
            transactions: memory / 4,
            dialogs: memory / 16,
            connections: memory / 8,
            datagrams: memory / 64,
            sources: memory / 4096,
            nonces: memory / 1024,
        }
    }
}
