//! The queue of things to look at later.

use alloc::collections::{BinaryHeap, VecDeque};
use core::cmp::Reverse;
use sip::Instant;

/// How many lines there are. A proxied call waits by four delays: T1, 64 times T1, T4, and timer C.
const LINES: usize = 6;

/// Entries by time. An entry is a reminder to look at something, which says itself whether it is
/// due: so nothing has to be taken out when plans change.
///
/// Most are pushed with one of a few delays, so that what has the same delay is in order as it comes. Such
/// entries stand in lines, which costs less than a heap: the next is always beside the last one, and in the
/// processor's cache. What fits into no line goes into a heap.
#[derive(Debug)]
pub(crate) struct TimerQueue<T: Ord> {
    lines: [VecDeque<(Instant, T)>; LINES],
    others: BinaryHeap<Reverse<(Instant, T)>>,
}

impl<T: Ord> Default for TimerQueue<T> {
    fn default() -> Self {
        Self { lines: Default::default(), others: BinaryHeap::new() }
    }
}

impl<T: Ord> TimerQueue<T> {
    /// Reminds of `what` at `when`.
    pub(crate) fn push(&mut self, when: Instant, what: T) {
        let end = |line: &VecDeque<(Instant, T)>| line.back().map(|(when, _)| *when);
        // Behind the latest that it may stand behind: so what has a short delay keeps a line of its own.
        let fitting = self.lines.iter_mut().filter(|line| end(line) <= Some(when));
        match fitting.max_by_key(|line| end(line)) {
            Some(line) => line.push_back((when, what)),
            None => self.others.push(Reverse((when, what))),
        }
    }

    /// Takes an entry whose time has come, with its time.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(Instant, T)> {
        let due = self.next().filter(|next| *next <= now)?;
        let first = |line: &VecDeque<(Instant, T)>| line.front().map(|(when, _)| *when);
        match self.lines.iter_mut().find(|line| first(line) == Some(due)) {
            Some(line) => line.pop_front(),
            None => self.others.pop().map(|Reverse(entry)| entry),
        }
    }

    /// The time of the earliest entry.
    pub(crate) fn next(&self) -> Option<Instant> {
        let firsts = self.lines.iter().filter_map(VecDeque::front).map(|(when, _)| *when);
        firsts.chain(self.others.peek().map(|Reverse((when, _))| *when)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    #[test]
    fn what_has_few_delays_stands_in_lines() {
        let mut queue = TimerQueue::default();
        for now in 0..1000 {
            for delay in [5_000, 500, 32_000, 180_000, 500] {
                queue.push(Instant::from_micros(now + delay), now);
            }
        }
        assert!(queue.others.is_empty());
        assert_eq!(queue.lines.iter().filter(|line| !line.is_empty()).count(), 4);
    }

    proptest! {
        #[test]
        fn entries_come_out_by_time(
            pushes in proptest::collection::vec((0u64..50, 0u64..1000), 0..300),
            step in 1u64..200,
        ) {
            let mut queue = TimerQueue::default();
            let (mut now, mut waiting) = (0, BTreeSet::new());
            for (delay, what) in pushes {
                now += what % step;
                let when = Instant::from_micros(now + delay * 10);
                if waiting.insert((when, what)) {
                    queue.push(when, what);
                }
                prop_assert_eq!(queue.next(), waiting.first().map(|(when, _)| *when));
                while what % 3 == 0 && let Some(entry) = queue.pop_due(Instant::from_micros(now)) {
                    prop_assert_eq!(Some(entry.0), waiting.first().map(|(when, _)| *when));
                    prop_assert!(waiting.remove(&entry));
                }
                let is_due = |(when, _): &(Instant, u64)| when.as_micros() <= now;
                prop_assert!(what % 3 != 0 || !waiting.iter().any(is_due));
            }
        }
    }
}
