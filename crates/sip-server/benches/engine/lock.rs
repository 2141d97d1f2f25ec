//! A lock that counts how often it was taken, and how often somebody had to wait for it.

#![allow(unsafe_code)]

use lock_api::RawMutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static TAKEN: AtomicU64 = AtomicU64::new(0);
static CONTENDED: AtomicU64 = AtomicU64::new(0);
/// Counting is itself work on shared memory, and left out where time is measured on one thread.
static IS_COUNTING: AtomicBool = AtomicBool::new(false);

/// Counts from now on.
pub(crate) fn begin() {
    TAKEN.store(0, Ordering::Relaxed);
    CONTENDED.store(0, Ordering::Relaxed);
    IS_COUNTING.store(true, Ordering::Relaxed);
}

/// How often a lock was taken, and how often waited for.
pub(crate) fn end() -> (u64, u64) {
    IS_COUNTING.store(false, Ordering::Relaxed);
    (TAKEN.load(Ordering::Relaxed), CONTENDED.load(Ordering::Relaxed))
}

/// The lock of `parking_lot`, with a look at it before it is taken.
pub(crate) struct Counting(parking_lot::RawMutex);

// SAFETY: everything that makes it a lock is done by the lock within.
unsafe impl RawMutex for Counting {
    const INIT: Self = Self(parking_lot::RawMutex::INIT);
    type GuardMarker = <parking_lot::RawMutex as RawMutex>::GuardMarker;

    fn lock(&self) {
        if !IS_COUNTING.load(Ordering::Relaxed) {
            return self.0.lock();
        }
        TAKEN.fetch_add(1, Ordering::Relaxed);
        if !self.0.try_lock() {
            CONTENDED.fetch_add(1, Ordering::Relaxed);
            self.0.lock();
        }
    }

    fn try_lock(&self) -> bool {
        self.0.try_lock()
    }

    unsafe fn unlock(&self) {
        // SAFETY: whoever calls this holds the lock.
        unsafe { self.0.unlock() }
    }
}
