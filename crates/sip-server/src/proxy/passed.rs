//! The INVITEs that were forwarded without a transaction. Their CANCEL and the ACK of a non-2xx
//! response carry no credentials and no token, and are forwarded because of this record (RFC 3261
//! section 16.11).

use alloc::boxed::Box;
use hashbrown::HashTable;
use lock_api::{Mutex, RawMutex};

const SHARDS: usize = 16;

/// Keys of the latest INVITEs in two generations. When the younger generation is full, it replaces
/// the older one.
pub(crate) struct Passed<R: RawMutex> {
    shards: Box<[Mutex<R, [HashTable<u64>; 2]>]>,
}

impl<R: RawMutex> Passed<R> {
    pub(crate) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    fn shard(&self, key: u64) -> &Mutex<R, [HashTable<u64>; 2]> {
        // The hash table uses bits from both ends of the key.
        &self.shards[(key >> 40) as usize % SHARDS]
    }

    /// Records an INVITE with the transaction key `key`. At most `max` keys are kept.
    pub(crate) fn note(&self, key: u64, max: usize) {
        let [young, old] = &mut *self.shard(key).lock();
        if young.find(key, |&known| known == key).is_some() {
            return;
        }
        if young.len() >= max / (2 * SHARDS) {
            *old = core::mem::take(young);
        }
        young.insert_unique(key, key, |&key| key);
    }

    /// True if an INVITE with this key is recorded.
    pub(crate) fn has(&self, key: u64) -> bool {
        let generations = self.shard(key).lock();
        generations.iter().any(|keys| keys.find(key, |&known| known == key).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_remembered_and_no_more() {
        let passed = Passed::<parking_lot::RawMutex>::new();
        let key = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for number in 0..10_000 {
            passed.note(key(number), 1600);
            assert!(passed.has(key(number)));
        }
        let kept = (0..10_000).filter(|&number| passed.has(key(number))).count();
        assert!((700..=1600).contains(&kept), "{kept}");
        assert!(!passed.has(key(10_000)));
    }
}
