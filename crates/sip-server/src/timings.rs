//! How long the steps of handling a message take (row A11), looked at in one message of sixteen, so
//! that looking costs next to nothing.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};

/// A step of handling a message. Steps may lie within others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Finding the header fields and reading those that every request has (ParseSIPHeaders).
    ParseHeaders,
    /// Finding a user, with secret or bindings (FindUser).
    FindUser,
    /// Changing a user's bindings (AddUser).
    AddUser,
    /// Judging credentials, or asking for them (AuthenticateUser).
    AuthenticateUser,
    /// Writing a response of our own (FormatSIPResponse).
    FormatResponse,
    /// All that is done about a message.
    Handler,
}

impl Step {
    /// Every step.
    pub const ALL: [Self; 6] = [
        Self::ParseHeaders,
        Self::FindUser,
        Self::AddUser,
        Self::AuthenticateUser,
        Self::FormatResponse,
        Self::Handler,
    ];

    /// The name that operators see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ParseHeaders => "parse-headers",
            Self::FindUser => "find-user",
            Self::AddUser => "add-user",
            Self::AuthenticateUser => "authenticate-user",
            Self::FormatResponse => "format-response",
            Self::Handler => "handler",
        }
    }
}

/// What was measured of one [`Step`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// In how many of the messages looked at the step was taken.
    pub count: u64,
    /// How long it took in all of them, in nanoseconds.
    pub nanoseconds: u64,
}

/// The timings of one worker, which it writes and any may read.
#[derive(Debug, Default)]
pub(crate) struct Timings([(AtomicU64, AtomicU64); Step::ALL.len()]);

impl Timings {
    pub(crate) fn get(&self, step: Step) -> Timing {
        let (count, nanoseconds) = &self.0[step as usize];
        Timing {
            count: count.load(Ordering::Relaxed),
            nanoseconds: nanoseconds.load(Ordering::Relaxed),
        }
    }

    fn add(&self, step: usize, spent: u64) {
        let (count, nanoseconds) = &self.0[step];
        // Nobody else writes them, so nothing is lost between reading and writing.
        let add = |sum: &AtomicU64, more| {
            sum.store(sum.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        };
        add(count, 1);
        add(nanoseconds, spent);
    }
}

/// One message is looked at, of so many on the average.
const ONE_OF: u64 = 16;

/// A worker's clock for timings.
pub(crate) struct Stopwatch {
    /// Nanoseconds since whenever.
    clock: fn() -> u64,
    /// Messages until the next that is looked at.
    rest: Cell<u64>,
    /// What the message looked at has taken, by step.
    spent: [Cell<u64>; Step::ALL.len()],
}

impl Stopwatch {
    pub(crate) fn new(clock: fn() -> u64) -> Self {
        Self { clock, rest: Cell::new(0), spent: Default::default() }
    }

    /// Whether to look at this message.
    pub(crate) fn is_due(&self) -> bool {
        match self.rest.get().checked_sub(1) {
            Some(rest) => {
                self.rest.set(rest);
                false
            }
            None => {
                // Not every sixteenth: what comes by turns would always be the same.
                self.rest.set(ONE_OF / 2 + (self.clock)() % ONE_OF);
                true
            }
        }
    }

    /// Adds what the message looked at has taken, and begins anew.
    pub(crate) fn add_to(&self, timings: &Timings) {
        for (step, spent) in self.spent.iter().enumerate() {
            match spent.take() {
                0 => {}
                spent => timings.add(step, spent),
            }
        }
    }
}

/// Does `act`, which is `step`, and measures it where there is a stopwatch.
pub(crate) fn timed<T>(watch: Option<&Stopwatch>, step: Step, act: impl FnOnce() -> T) -> T {
    let Some(watch) = watch else { return act() };
    let start = (watch.clock)();
    let result = act();
    let spent = &watch.spent[step as usize];
    // At least one, which says that it was done.
    spent.set(spent.get() + (watch.clock)().saturating_sub(start).max(1));
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell as StdCell;
    use std::thread_local;

    thread_local!(static NOW: StdCell<u64> = const { StdCell::new(0) });

    /// Each look at the clock finds it 10 ns later.
    fn clock() -> u64 {
        NOW.with(|now| {
            now.set(now.get() + 10);
            now.get()
        })
    }

    #[test]
    fn steps_are_added_up_and_counted_once_for_a_message() {
        let (watch, timings) = (Stopwatch::new(clock), Timings::default());
        timed(Some(&watch), Step::Handler, || {
            timed(Some(&watch), Step::FindUser, || ());
            timed(Some(&watch), Step::FindUser, || ());
        });
        watch.add_to(&timings);
        assert_eq!(timings.get(Step::FindUser), Timing { count: 1, nanoseconds: 20 });
        assert_eq!(timings.get(Step::Handler), Timing { count: 1, nanoseconds: 50 });
        assert_eq!(timings.get(Step::AddUser), Timing::default());
        watch.add_to(&timings);
        assert_eq!(timings.get(Step::Handler).count, 1);
    }

    #[test]
    fn one_of_sixteen_is_looked_at() {
        let watch = Stopwatch::new(clock);
        let due = (0..16_000).filter(|_| watch.is_due()).count();
        assert!((900..1100).contains(&due), "{due}");
    }
}
