//! The open connections and the bindings on them. A binding that follows a connection ends with it
//! (RFC 5626 section 4.2), because the phone is not reachable any more.

use crate::core::flow::Connection;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use hashbrown::HashMap;
use lock_api::{Mutex, RawMutex};

const SHARDS: usize = 16;

/// The hashes of the addresses-of-record with a binding on an open connection, by connection.
pub(crate) struct Connections<R: RawMutex> {
    shards: Box<[Mutex<R, Open>]>,
}

type Open = HashMap<Connection, BTreeSet<u64>>;

impl<R: RawMutex> Connections<R> {
    pub(crate) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::new(HashMap::new())).collect() }
    }

    fn shard(&self, connection: Connection) -> &Mutex<R, Open> {
        &self.shards[connection.0.get() as usize % SHARDS]
    }

    pub(crate) fn open(&self, connection: Connection) {
        self.shard(connection).lock().insert(connection, BTreeSet::new());
    }

    pub(crate) fn is_open(&self, connection: Connection) -> bool {
        self.shard(connection).lock().contains_key(&connection)
    }

    /// Removes the connection and returns the addresses-of-record with a binding on it.
    pub(crate) fn end(&self, connection: Connection) -> BTreeSet<u64> {
        self.shard(connection).lock().remove(&connection).unwrap_or_default()
    }

    /// Adds an address-of-record with a binding on the connection. Returns false if the connection
    /// has ended.
    pub(crate) fn add(&self, connection: Connection, address: u64) -> bool {
        let mut shard = self.shard(connection).lock();
        shard.get_mut(&connection).map(|addresses| addresses.insert(address)).is_some()
    }

    /// Removes an address-of-record from the connection.
    pub(crate) fn remove(&self, connection: Connection, address: u64) {
        if let Some(addresses) = self.shard(connection).lock().get_mut(&connection) {
            addresses.remove(&address);
        }
    }
}
