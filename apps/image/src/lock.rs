//! A lock for a machine with one thread of execution.

use core::sync::atomic::{AtomicBool, Ordering};
use lock_api::{GuardSend, RawMutex};

/// A lock that is never contended, since there is one thread of execution.
#[derive(Debug)]
pub struct Lock(AtomicBool);

// SAFETY: `try_lock` succeeds only if it changed the flag from false to true, and only `unlock`
// changes it back.
unsafe impl RawMutex for Lock {
    const INIT: Self = Self(AtomicBool::new(false));
    type GuardMarker = GuardSend;

    fn lock(&self) {
        while !self.try_lock() {
            core::hint::spin_loop();
        }
    }

    fn try_lock(&self) -> bool {
        !self.0.swap(true, Ordering::Acquire)
    }

    unsafe fn unlock(&self) {
        self.0.store(false, Ordering::Release);
    }
}
