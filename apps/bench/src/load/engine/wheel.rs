//! The timer queue: a wheel of short ticks. Its entries are checked when they come up.

use sip::{Duration, Instant};

/// The resolution of a timer.
const TICK: Duration = Duration::from_millis(2);
const TICKS: usize = 2048;

/// A slot with its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The index of the slot.
    pub(crate) slot: u32,
    /// The generation of the slot.
    pub(crate) generation: u32,
}

/// Entries by the time at which they come up. An entry beyond the range of the wheel comes up
/// early; the caller inserts it again.
#[derive(Debug)]
pub(crate) struct Wheel {
    ticks: Vec<Vec<Entry>>,
    /// The time of the next tick, in ticks since the Unix epoch.
    current: u64,
    count: usize,
}

impl Wheel {
    /// Returns an empty wheel.
    pub(crate) fn new(now: Instant) -> Self {
        Self { ticks: vec![Vec::new(); TICKS], current: tick_of(now), count: 0 }
    }

    /// Inserts `entry` to come up at `when`, or earlier if that is beyond the range. Returns the
    /// time at which it comes up.
    pub(crate) fn insert(&mut self, when: Instant, entry: Entry) -> Instant {
        // Rounded up, so that an entry is due when it comes up.
        let tick = (tick_of(when) + 1).clamp(self.current, self.current + TICKS as u64 - 1);
        self.ticks[(tick % TICKS as u64) as usize].push(entry);
        self.count += 1;
        Instant::from_micros(tick * TICK.as_micros())
    }

    /// Returns the time of the current tick, or `None` if the wheel is empty.
    pub(crate) fn next(&self) -> Option<Instant> {
        (self.count > 0).then(|| Instant::from_micros(self.current * TICK.as_micros()))
    }

    /// Moves the entries that have come up at `now` into `due`.
    pub(crate) fn take(&mut self, now: Instant, due: &mut Vec<Entry>) {
        let last = tick_of(now);
        if last >= self.current + TICKS as u64 {
            for tick in &mut self.ticks {
                due.append(tick);
            }
            self.current = last;
        }
        while self.current <= last {
            due.append(&mut self.ticks[(self.current % TICKS as u64) as usize]);
            self.current += 1;
        }
        self.count -= due.len().min(self.count);
    }
}

fn tick_of(when: Instant) -> u64 {
    when.as_micros() / TICK.as_micros()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_micros(1_000_000_000 + millis * 1000)
    }

    #[test]
    fn entries_come_up_when_they_are_due_and_not_before() {
        let mut wheel = Wheel::new(at(0));
        let entry = |slot| Entry { slot, generation: 1 };
        for (slot, millis) in [(0, 500), (1, 3), (2, 0), (3, 100_000)] {
            wheel.insert(at(millis), entry(slot));
        }
        let mut due = Vec::new();
        let mut seen = Vec::new();
        for millis in 0..5000 {
            wheel.take(at(millis), &mut due);
            seen.extend(due.drain(..).map(|entry| (entry.slot, millis)));
        }
        let seconds: Vec<u32> = seen.iter().map(|(slot, _)| *slot).collect();
        assert_eq!(seconds, [2, 1, 0, 3]);
        assert!(seen[0].1 <= 4 && (3..=6).contains(&seen[1].1) && (500..=503).contains(&seen[2].1));
        assert!(seen[3].1 < 4100, "as far as the wheel reaches");
        assert_eq!(wheel.next(), None);
    }

    #[test]
    fn a_long_sleep_loses_nothing() {
        let mut wheel = Wheel::new(at(0));
        for slot in 0..100 {
            wheel.insert(at(u64::from(slot) * 40), Entry { slot, generation: 0 });
        }
        let mut due = Vec::new();
        wheel.take(at(1_000_000), &mut due);
        assert_eq!(due.len(), 100);
        assert_eq!(wheel.next(), None);
    }
}
