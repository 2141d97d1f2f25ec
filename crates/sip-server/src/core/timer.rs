//! The timer queue.

use alloc::collections::{BinaryHeap, VecDeque};
use core::cmp::Reverse;
use sip::{Duration, Instant};

/// The number of lines. Calls wait for T1, 64 times T1, T4 and timer C, and unanswered requests for
/// powers of two times T1.
const LINES: usize = 6;

/// The maximum number of entries at the end of a line that a new entry may be inserted before.
/// Delays count from the arrival of responses, which varies.
const REACH: usize = 64;

/// The maximum distance of the end of a line from a new entry, for which the line is preferred to
/// an empty one.
const NEAR: Duration = Duration::from_millis(250);

/// A queue of entries by time. An entry is a reminder to check an item, which knows if it is due.
/// So no entry has to be removed when a time changes.
///
/// Most entries are pushed with one of a few delays, and so nearly in order. They are kept in
/// lines, which are cheaper than a heap: a new entry stands beside the last one, in the processor
/// cache. Entries that fit into no line go into a heap.
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
    /// Adds a reminder of `what` at `when`.
    pub(crate) fn push(&mut self, when: Instant, what: T) {
        // An empty line is better than one with a distant end.
        let distance = |line: &VecDeque<(Instant, T)>| {
            let end = line.back().map(|(end, _)| end.since(when).max(when.since(*end)));
            end.unwrap_or(NEAR)
        };
        let nearest = self.lines.iter_mut().min_by_key(|line| distance(line));
        let later = |line: &VecDeque<(Instant, T)>| {
            line.iter().rev().take(REACH).take_while(|(other, _)| *other > when).count()
        };
        match nearest.map(|line| (later(line), line)) {
            Some((0, line)) => line.push_back((when, what)),
            Some((later, line)) if later < REACH => line.insert(line.len() - later, (when, what)),
            _ => self.others.push(Reverse((when, what))),
        }
    }

    /// Removes and returns an entry that is due, with its time.
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

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.lines.iter().map(VecDeque::len).sum::<usize>() + self.others.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    #[test]
    fn what_has_few_delays_stands_in_lines_though_answers_jitter() {
        let mut queue = TimerQueue::default();
        for serial in 0..20_000u64 {
            let now = 100_000_000 + serial * 10_000;
            for delay in [500, 32_000, 5_000, 180_000] {
                // A jitter of up to 100 ms, in random order.
                let jitter = serial.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
                queue.push(Instant::from_micros(now + delay * 1000 + jitter % 100_000), serial);
            }
            while queue.pop_due(Instant::from_micros(now)).is_some() {}
        }
        assert!(queue.others.is_empty(), "{}", queue.others.len());
        assert!(queue.lines.iter().filter(|line| !line.is_empty()).count() <= 5);
    }

    proptest! {
        #[test]
        fn entries_come_out_by_time(
            pushes in proptest::collection::vec((0u64..50, 0u64..1000), 0..300),
            step in 1u64..200,
            unit in prop_oneof![Just(10), Just(100_000)],
        ) {
            let mut queue = TimerQueue::default();
            let (mut now, mut waiting) = (0, BTreeSet::new());
            for (delay, what) in pushes {
                now += what % step * unit / 10;
                let when = Instant::from_micros(now + delay * unit);
                if waiting.insert((when, what)) {
                    queue.push(when, what);
                }
                prop_assert_eq!(queue.next(), waiting.first().map(|(when, _)| *when));
                prop_assert_eq!(queue.len(), waiting.len());
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
