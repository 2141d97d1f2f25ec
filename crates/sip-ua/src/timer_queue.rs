//! The timer queue.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use sip::Instant;

/// A queue of owners by the time of their next timer. An owner knows the time of its entry, which
/// moves when the time changes, so the queue is no longer than the number of owners.
#[derive(Debug)]
pub struct TimerQueue<K>(BTreeSet<(Instant, K)>);

impl<K: Ord> Default for TimerQueue<K> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

impl<K: Copy + Ord> TimerQueue<K> {
    /// Moves an owner from the time `before` to `time`.
    pub fn set(&mut self, owner: K, before: Option<Instant>, time: Option<Instant>) {
        if before == time {
            return;
        }
        if let Some(before) = before {
            self.0.remove(&(before, owner));
        }
        if let Some(time) = time {
            self.0.insert((time, owner));
        }
    }

    /// Returns the earliest time.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.0.first().map(|(time, _)| *time)
    }

    /// Removes and returns all owners that are due at `now`, in the order of their times.
    pub fn take_due(&mut self, now: Instant) -> Vec<K> {
        let mut due = Vec::new();
        while self.next().is_some_and(|next| next <= now) {
            due.extend(self.0.pop_first().map(|(_, owner)| owner));
        }
        due
    }
}
