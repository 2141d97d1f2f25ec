//! The queue of things to look at later.

use alloc::collections::{BinaryHeap, VecDeque};
use core::cmp::Reverse;
use sip::{Duration, Instant};

/// How many lines there are: calls wait by T1, 64 times T1, T4 and timer C, and what nobody answers
/// by doubles of T1.
const LINES: usize = 6;

/// How many entries at the end of a line one may have to pass by: delays count from answers, which
/// do not come evenly.
const REACH: usize = 64;

/// How near the end of a line has to be to an entry for it to stand there rather than in an empty
/// line.
const NEAR: Duration = Duration::from_millis(250);

/// Entries by time. An entry is a reminder to look at something, which says itself whether it is
/// due: so nothing has to be taken out when plans change.
///
/// Most are pushed with one of a few delays, and so nearly in order. These stand in lines, which
/// costs less than a heap: the next is always beside the last one, and in the processor's cache.
/// What fits into no line goes into a heap.
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
        // An empty line is better than one whose end is not near.
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

    /// How many entries there are.
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
                // Up to 100 ms, in no order.
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
