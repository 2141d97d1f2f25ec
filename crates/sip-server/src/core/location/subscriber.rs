//! A user and the bindings of the user.

use super::tombstones::Tombstones;
use crate::core::binding::Binding;
use crate::core::ended::OnConnection;
use crate::core::keys::Key;
use crate::core::logins::Logins;
use alloc::boxed::Box;
use alloc::vec::Vec;
use sip::{Deadline, Instant};
use smallvec::SmallVec;

/// A user, or an address-of-record that registered while authentication was off.
#[derive(Debug)]
pub(crate) struct Subscriber {
    /// Most names fit inline, so that a lookup compares them without another memory access.
    pub(super) address_of_record: SmallVec<[u8; 32]>,
    pub(super) logins: Option<Box<Logins>>,
    /// The bindings, in the order of their last registration.
    pub(crate) bindings: Vec<Binding>,
    pub(crate) tombstones: Tombstones,
    /// The earliest reminder in the queue, or never. It is at most one second after the first
    /// expiry. Other reminders are ignored.
    pub(super) reminder: Deadline,
}

/// The data on the bindings of a subscriber that other tables hold.
pub(super) struct Known {
    pub(super) bindings: usize,
    pub(super) ids: SmallVec<[u64; 4]>,
    pub(super) claims: SmallVec<[u64; 4]>,
    pub(super) connections: SmallVec<[OnConnection; 2]>,
}

impl Subscriber {
    pub(super) fn known(&self, key: &Key) -> Known {
        Known {
            bindings: self.bindings.len(),
            ids: self.bindings.iter().map(|binding| binding.id).collect(),
            claims: self.claims(),
            connections: self.connections(key),
        }
    }

    pub(super) fn claims(&self) -> SmallVec<[u64; 4]> {
        self.bindings.iter().map(|binding| binding.claim).collect()
    }

    /// The connections of the bindings, also of those that do not depend on them.
    pub(super) fn connections(&self, key: &Key) -> SmallVec<[OnConnection; 2]> {
        let on_connection = |binding: &Binding| {
            let connection = binding.flow.connection.filter(|_| binding.flow_bound)?;
            let phone = binding.phone(key);
            Some(OnConnection { connection, phone, expires: binding.expires })
        };
        self.bindings.iter().filter_map(on_connection).collect()
    }

    /// The bindings that have not expired, in the order of their last registration.
    pub(crate) fn current(&self, now: Instant) -> impl DoubleEndedIterator<Item = &Binding> {
        self.bindings.iter().filter(move |binding| binding.expires > now)
    }
}
