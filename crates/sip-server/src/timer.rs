//! The queue of things to look at later.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;
use sip::Instant;

/// Entries by time. An entry is a reminder to look at something, which says itself whether it is
/// due: so nothing has to be taken out when plans change.
#[derive(Debug)]
pub(crate) struct TimerQueue<T: Ord> {
    heap: BinaryHeap<Reverse<(Instant, T)>>,
}

impl<T: Ord> Default for TimerQueue<T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new() }
    }
}

impl<T: Ord> TimerQueue<T> {
    /// Reminds of `what` at `when`.
    pub(crate) fn push(&mut self, when: Instant, what: T) {
        self.heap.push(Reverse((when, what)));
    }

    /// Takes an entry whose time has come.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<T> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, what))| what)
    }

    /// The time of the earliest entry.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((when, _))| *when)
    }
}
