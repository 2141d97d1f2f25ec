//! The sources from which users have logged in within the last day. An entry requires a proved
//! source address and the password of a user, so strangers can neither fill nor clear the table.

use crate::core::address_of_record::AddressOfRecord;
use crate::core::keys::Key;
use crate::core::source::Source;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering};
use sip::{Duration, Instant};

/// The number of entries. A new entry may replace an older one.
const SLOTS: usize = 1 << 16;
/// The lifetime of an entry.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// The number of bits of an entry that hold its time in minutes.
const MINUTE_BITS: u32 = 24;

/// Keyed hashes of pairs of source and user, and of sources alone.
pub(crate) struct KnownSources {
    key: Key,
    slots: Box<[AtomicU64]>,
}

/// A pair of source and user, as a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair(u64);

impl KnownSources {
    pub(crate) fn new(key: Key) -> Self {
        Self { key, slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect() }
    }

    /// The entry of `source` alone.
    pub(crate) fn any_user(&self, source: Source) -> Pair {
        Pair(self.key.hash_source(source))
    }

    /// The entry of `user` at `source`.
    pub(crate) fn pair(&self, source: Source, user: &AddressOfRecord) -> Pair {
        Pair(self.key.hash_source(source).rotate_left(32) ^ user.hash())
    }

    /// Records a login of `user` from `source`.
    pub(crate) fn note(&self, source: Source, user: &AddressOfRecord, now: Instant) {
        for pair in [self.any_user(source), self.pair(source, user)] {
            self.slot(pair).store(entry(pair, now), Ordering::Relaxed);
        }
    }

    /// True if `pair` has logged in within the last day.
    pub(crate) fn has(&self, pair: Pair, now: Instant) -> bool {
        let found = self.slot(pair).load(Ordering::Relaxed);
        let age = (entry(pair, now).wrapping_sub(found)) & ((1 << MINUTE_BITS) - 1);
        found >> MINUTE_BITS == entry(pair, now) >> MINUTE_BITS && age <= LIFETIME.as_secs() / 60
    }

    /// Forgets `pair`.
    pub(crate) fn forget(&self, pair: Pair) {
        self.slot(pair).store(0, Ordering::Relaxed);
    }

    fn slot(&self, pair: Pair) -> &AtomicU64 {
        &self.slots[pair.0 as usize % SLOTS]
    }
}

/// The content of the slot of `pair`: the bits of its hash that do not select the slot, and the
/// minute.
fn entry(pair: Pair, now: Instant) -> u64 {
    let minute = (now.as_secs() / 60) & ((1 << MINUTE_BITS) - 1);
    (pair.0 >> MINUTE_BITS << MINUTE_BITS) | minute
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::location::LocationService;

    #[test]
    fn a_pair_is_known_for_a_day_and_until_it_is_forgotten() {
        let key = |purpose| Key::derive(&[5; 32], purpose);
        let known = KnownSources::new(key("known"));
        let location = LocationService::<parking_lot::RawMutex>::new(key("users"), key("contacts"));
        let at = |minutes: u64| {
            Instant::from_micros(1_800_000_000_000_000) + Duration::from_secs(60 * minutes)
        };
        let source = |host| Source::of([192, 0, 2, host].into());
        let user = |name: &[u8]| location.address_of_record(name, "example.com");
        let has =
            |host, name, minutes| known.has(known.pair(source(host), &user(name)), at(minutes));
        assert!(!has(1, b"alice", 0));
        known.note(source(1), &user(b"alice"), at(0));
        assert!(has(1, b"alice", 24 * 60) && !has(1, b"alice", 24 * 60 + 1));
        assert!(!has(1, b"bob", 0) && !has(2, b"alice", 0));
        assert!(known.has(known.any_user(source(1)), at(0)));
        assert!(!known.has(known.any_user(source(2)), at(0)));
        known.forget(known.pair(source(1), &user(b"alice")));
        assert!(!has(1, b"alice", 0));
        assert!(known.has(known.any_user(source(1)), at(0)), "for other users");
    }
}
