//! A lock that counts its acquisitions and its contentions.

#![allow(unsafe_code)]

use lock_api::RawMutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static TAKEN: AtomicU64 = AtomicU64::new(0);
static CONTENDED: AtomicU64 = AtomicU64::new(0);
/// Counting is itself work on shared memory. It is off when time is measured on one thread.
static IS_COUNTING: AtomicBool = AtomicBool::new(false);

/// Starts counting.
pub(crate) fn begin() {
    TAKEN.store(0, Ordering::Relaxed);
    CONTENDED.store(0, Ordering::Relaxed);
    IS_COUNTING.store(true, Ordering::Relaxed);
}

/// Stops counting, and returns the number of acquisitions and of contentions.
pub(crate) fn end() -> (u64, u64) {
    IS_COUNTING.store(false, Ordering::Relaxed);
    (TAKEN.load(Ordering::Relaxed), CONTENDED.load(Ordering::Relaxed))
}

/// The lock of `parking_lot`, with a check before it is taken.
pub(crate) struct Counting(parking_lot::RawMutex);

// SAFETY: the inner lock implements all operations.
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
        // SAFETY: the caller holds the lock.
        unsafe { self.0.unlock() }
    }
}
