//! The state that the workers of a scenario share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The calls that may still come in, and the end of the run.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The number of calls that may still come in.
    left: AtomicU64,
    /// Set by the scenario at any worker: no more calls, or no calls at all.
    is_stopping: AtomicBool,
    is_stopped: AtomicBool,
}

impl Default for Shared {
    /// Without a limit of calls.
    fn default() -> Self {
        Self::new(None)
    }
}

impl Shared {
    /// Returns the state of a run that takes this number of calls.
    pub(crate) fn new(calls: Option<u64>) -> Self {
        Self {
            left: AtomicU64::new(calls.unwrap_or(u64::MAX)),
            is_stopping: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
        }
    }

    /// Takes one of the calls that may come in. Returns false if all have come.
    pub(super) fn take_call(&self) -> bool {
        let less = |left: u64| left.checked_sub(1);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// Returns true if all calls have come in.
    pub(super) fn is_complete(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }

    /// Stops all workers as the scenario has stopped one, and the one if it has stopped another.
    pub(super) fn spread(&self, is_stopping: &mut bool, is_stopped: &mut bool) {
        for (all, own) in [(&self.is_stopping, is_stopping), (&self.is_stopped, is_stopped)] {
            *own |= all.load(Ordering::Relaxed);
            all.store(*own, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_of_all_workers_are_limited_together() {
        let shared = Shared::new(Some(2));
        assert!(shared.take_call() && !shared.is_complete() && shared.take_call());
        assert!(!shared.take_call() && shared.is_complete());
        assert!(Shared::default().take_call());
    }

    #[test]
    fn the_stop_of_a_worker_is_that_of_all() {
        let shared = Shared::default();
        let (mut stopping, mut stopped) = (true, false);
        shared.spread(&mut stopping, &mut stopped);
        let (mut other, mut other_stopped) = (false, false);
        shared.spread(&mut other, &mut other_stopped);
        assert!(other && !other_stopped);
    }
}
