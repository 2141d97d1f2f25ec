//! A counter of events.

use core::sync::atomic::{AtomicU64, Ordering};

/// A counter that one thread writes and any thread may read. It wraps around after 2^64.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn add(&self) {
        // There is a single writer, so no update is lost between load and store.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Subtracts one, for an event that was reverted.
    pub(crate) fn take_back(&self) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
    }

    /// Returns the count.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
