//! The call services of all users, by address-of-record. Few users have some.

use crate::core::call_services::{CallServices, Group, Strategy};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use hashbrown::HashMap;
use lock_api::{Mutex, RawMutex};

/// The call services of users.
pub(crate) struct ServiceTable<R: RawMutex> {
    /// By `name@domain`, the user without escapes.
    users: Mutex<R, HashMap<Box<[u8]>, Arc<CallServices>>>,
    is_empty: AtomicBool,
    /// The number of calls of each group with [`Strategy::RoundRobin`].
    turns: Mutex<R, HashMap<String, usize>>,
}

impl<R: RawMutex> ServiceTable<R> {
    pub(crate) fn new() -> Self {
        Self {
            users: Mutex::new(HashMap::new()),
            is_empty: AtomicBool::new(true),
            turns: Mutex::new(HashMap::new()),
        }
    }

    /// True if no user has call services.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty.load(Ordering::Relaxed)
    }

    /// Sets the call services of the user `address`.
    pub(crate) fn set(&self, address: &[u8], services: CallServices) {
        let mut users = self.users.lock();
        match services.is_empty() {
            true => drop(users.remove(address)),
            false => drop(users.insert(address.into(), Arc::new(services))),
        }
        self.is_empty.store(users.is_empty(), Ordering::Relaxed);
    }

    /// The call services of the user `address`.
    pub(crate) fn of(&self, address: &[u8]) -> Option<Arc<CallServices>> {
        if self.is_empty() { None } else { self.users.lock().get(address).cloned() }
    }

    /// The place of the member that the next call of `group` begins with.
    pub(crate) fn take_turn(&self, group: &Group) -> usize {
        if group.strategy != Strategy::RoundRobin || group.members.is_empty() {
            return 0;
        }
        let mut turns = self.turns.lock();
        let turn = turns.entry_ref(group.name.as_str()).or_insert(0);
        let first = *turn % group.members.len();
        *turn = first + 1;
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use sip::Duration;

    #[test]
    fn services_are_set_and_removed() {
        let table = ServiceTable::<parking_lot::RawMutex>::new();
        assert!(table.is_empty() && table.of(b"bob@a").is_none());
        let services = CallServices { busy: Some("carol@a".into()), ..CallServices::default() };
        table.set(b"bob@a", services.clone());
        assert_eq!(table.of(b"bob@a").as_deref(), Some(&services));
        assert!(table.of(b"bob@b").is_none());
        table.set(b"bob@a", CallServices::default());
        assert!(table.is_empty() && table.of(b"bob@a").is_none());
    }

    #[test]
    fn only_a_round_robin_goes_on_with_the_next_member() {
        let table = ServiceTable::<parking_lot::RawMutex>::new();
        let mut group = Group {
            name: "sales@a".into(),
            members: vec!["a@a".into(), "b@a".into(), "c@a".into()],
            strategy: Strategy::RoundRobin,
            timeout: Duration::from_secs(20),
            fallback: None,
            forwards: false,
        };
        let turns: vec::Vec<_> = (0..5).map(|_| table.take_turn(&group)).collect();
        assert_eq!(turns, [0, 1, 2, 0, 1]);
        // The group has lost a member by a reload.
        group.members.pop();
        assert_eq!([table.take_turn(&group), table.take_turn(&group)], [0, 1]);
        group.strategy = Strategy::InTurn;
        assert_eq!([table.take_turn(&group), table.take_turn(&group)], [0, 0]);
    }
}
