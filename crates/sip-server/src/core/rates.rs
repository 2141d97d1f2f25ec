//! Rate limits of a large number of keys in a fixed amount of memory.

use crate::core::keys::Key;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering};
use sip::Instant;

/// The number of buckets. Keys with the same hash share a bucket.
const BUCKETS: usize = 1 << 16;

/// Token buckets, found by a keyed hash.
pub(crate) struct Rates {
    key: Key,
    /// The time at which each bucket will be full again, in microseconds.
    buckets: Box<[AtomicU64]>,
}

impl Rates {
    pub(crate) fn new(key: Key) -> Self {
        Self { key, buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Takes one of `rate` per second, with bursts of `burst`, for the key `parts`. Returns false
    /// if the bucket is empty. A rate of 0 means no limit.
    pub(crate) fn take(&self, parts: &[&[u8]], now: Instant, rate: u32, burst: u32) -> bool {
        if rate == 0 {
            return true;
        }
        let cost = (1_000_000 / u64::from(rate)).max(1);
        let bucket = &self.buckets[self.key.hash(parts) as usize % BUCKETS];
        let now = now.as_micros();
        let taken = bucket.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at| {
            let full_at = full_at.max(now) + cost;
            (full_at - now <= cost * u64::from(burst.max(1))).then_some(full_at)
        });
        taken.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip::Duration;

    #[test]
    fn a_burst_passes_and_then_the_rate_binds() {
        let rates = Rates::new(Key::derive(&[1; 32], "rates"));
        let at = |seconds| Instant::from_micros(1_000_000_000) + Duration::from_secs(seconds);
        let take = |name: &[u8], seconds| rates.take(&[name], at(seconds), 20, 100);
        assert!((0..100).all(|_| take(b"one", 0)));
        assert!(!take(b"one", 0));
        assert!(take(b"another", 0));
        assert!((0..20).all(|_| take(b"one", 1)));
        assert!(!take(b"one", 1));
        assert!((0..1000).all(|_| rates.take(&[b"one"], at(1), 0, 0)));
    }
}
