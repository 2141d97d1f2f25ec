//! The keeper of messages, for all threads.

use crate::log;
use crate::serve::counted::Named;
use crate::serve::local::{Failed, Internal, Local};
use parking_lot::Mutex;
use sip::Endpoint;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// The maximum number of messages and users that wait for the thread.
const MOST_WAITING: usize = 4096;

/// An input of the thread.
pub(in crate::serve) enum Input {
    /// A message on an internal flow: a request to be stored, or a response to a delivery.
    Message(Internal),
    /// A phone of this user has registered.
    Registered(String),
}

/// The keeper of messages, for all threads.
pub(crate) struct SharedKeeper {
    inputs: SyncSender<Input>,
    /// The other end of `inputs`, until the thread has it.
    pub(in crate::serve) waiting: Mutex<Option<Receiver<Input>>>,
    /// The users with messages.
    pub(in crate::serve) users: Mutex<HashSet<String>>,
    pub(in crate::serve) kept: AtomicU64,
    pub(in crate::serve) delivered: AtomicU64,
    pub(in crate::serve) refused: AtomicU64,
    /// The messages that were stored while the database of accounts was gone.
    pub(in crate::serve) queued: Arc<AtomicU64>,
}

impl SharedKeeper {
    /// A keeper with messages for `users`.
    pub(in crate::serve) fn new(users: Vec<String>) -> Self {
        let (inputs, waiting) = sync_channel(MOST_WAITING);
        Self {
            inputs,
            waiting: Mutex::new(Some(waiting)),
            users: Mutex::new(users.into_iter().collect()),
            kept: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            queued: Arc::default(),
        }
    }

    /// Takes the messages in `local` that are for the keeper. A request that finds no room is
    /// undeliverable.
    pub(in crate::serve) fn take(&self, local: &mut Local) {
        for message in local.take_internal(Endpoint::Keeper) {
            let (flow, bytes) = message.clone();
            if self.inputs.try_send(Input::Message(message)).is_err() {
                log::warn("messages", || "too many messages wait to be stored".to_owned());
                self.refused.fetch_add(1, Ordering::Relaxed);
                local.failed.push(Failed::Send(flow, bytes));
            }
        }
    }

    /// Takes note that a phone of `user` has registered.
    pub(in crate::serve) fn registered(&self, user: &[u8]) {
        let Ok(user) = std::str::from_utf8(user) else { return };
        if self.users.lock().contains(user) {
            // Without room, the next REGISTER begins the delivery.
            let _ = self.inputs.try_send(Input::Registered(user.to_owned()));
        }
    }

    /// The counters of messages.
    pub(in crate::serve) fn counters(&self) -> [Named; 4] {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            (
                "messages-kept",
                "Messages that were stored for users without a reachable phone.",
                of(&self.kept),
            ),
            ("messages-delivered", "Stored messages that were delivered.", of(&self.delivered)),
            (
                "messages-refused",
                "Messages that were not stored, because of a limit or a failure of the storage.",
                of(&self.refused),
            ),
            (
                "messages-queued",
                "Messages that were stored in the data directory while the database of accounts was gone.",
                of(&self.queued),
            ),
        ]
    }
}
