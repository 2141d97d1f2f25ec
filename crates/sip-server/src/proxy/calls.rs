//! The INVITEs in progress that depend on a connection: the connection of a ringing phone or that
//! of the caller.

use crate::core::flow::Connection;
use crate::core::ticket::Handle;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use hashbrown::HashMap;
use lock_api::{Mutex, RawMutex};

const SHARDS: usize = 16;

/// The contexts to notify when a connection ends, by connection.
pub(super) struct Calls<R: RawMutex> {
    shards: Box<[Mutex<R, Shard>]>,
}

type Shard = HashMap<Connection, BTreeSet<Handle>>;

impl<R: RawMutex> Calls<R> {
    pub(super) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::new(HashMap::new())).collect() }
    }

    fn shard(&self, connection: Connection) -> &Mutex<R, Shard> {
        &self.shards[connection.0.get() as usize % SHARDS]
    }

    pub(super) fn add(&self, connection: Connection, context: Handle) {
        self.shard(connection).lock().entry(connection).or_default().insert(context);
    }

    pub(super) fn remove(&self, connection: Connection, context: Handle) {
        let mut shard = self.shard(connection).lock();
        if let Some(contexts) = shard.get_mut(&connection) {
            contexts.remove(&context);
            if contexts.is_empty() {
                shard.remove(&connection);
            }
        }
    }

    /// Removes and returns the contexts that depend on the ended `connection`.
    pub(super) fn take(&self, connection: Connection) -> Vec<Handle> {
        let contexts = self.shard(connection).lock().remove(&connection);
        contexts.into_iter().flatten().collect()
    }
}
