//! The durations of the steps of message handling. One message of sixteen is measured, so that the
//! measurement costs next to nothing.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};

/// A step of message handling. Steps may be nested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Splitting into header fields, and parsing those that every request has (ParseSIPHeaders).
    ParseHeaders,
    /// The lookup of a user, with secret or bindings (FindUser).
    FindUser,
    /// The change of the bindings of a user (AddUser).
    AddUser,
    /// Checking credentials, or sending a challenge (AuthenticateUser).
    AuthenticateUser,
    /// Writing a response of this server (FormatSIPResponse).
    FormatResponse,
    /// The complete handling of a message.
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

    /// The name for operators.
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

/// The measured values of one [`Step`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// The number of measured messages that included the step.
    pub count: u64,
    /// The total duration in nanoseconds.
    pub nanoseconds: u64,
}

/// The timings of one worker, which writes them. Any thread may read them.
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
        // There is a single writer, so no update is lost between load and store.
        let add = |sum: &AtomicU64, more| {
            sum.store(sum.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        };
        add(count, 1);
        add(nanoseconds, spent);
    }
}

/// One of this many messages is measured on average.
const ONE_OF: u64 = 16;

/// The measurement state of a worker.
pub(crate) struct Stopwatch {
    /// Nanoseconds since an arbitrary start.
    clock: fn() -> u64,
    /// The number of messages until the next measured one.
    rest: Cell<u64>,
    /// The durations of the steps of the current message.
    spent: [Cell<u64>; Step::ALL.len()],
}

impl Stopwatch {
    pub(crate) fn new(clock: fn() -> u64) -> Self {
        Self { clock, rest: Cell::new(0), spent: Default::default() }
    }

    /// True if this message must be measured.
    pub(crate) fn is_due(&self) -> bool {
        match self.rest.get().checked_sub(1) {
            Some(rest) => {
                self.rest.set(rest);
                false
            }
            None => {
                // Not exactly every sixteenth: messages in a periodic order would always give the
                // same kind.
                self.rest.set(ONE_OF / 2 + (self.clock)() % ONE_OF);
                true
            }
        }
    }

    /// Adds the durations of the measured message, and resets them.
    pub(crate) fn add_to(&self, timings: &Timings) {
        for (step, spent) in self.spent.iter().enumerate() {
            match spent.take() {
                0 => {}
                spent => timings.add(step, spent),
            }
        }
    }
}

/// Calls `act`, which is `step`, and measures it if there is a stopwatch.
pub(crate) fn timed<T>(watch: Option<&Stopwatch>, step: Step, act: impl FnOnce() -> T) -> T {
    let Some(watch) = watch else { return act() };
    let start = (watch.clock)();
    let result = act();
    let spent = &watch.spent[step as usize];
    // At least 1 ns, because zero means that the step was not done.
    spent.set(spent.get() + (watch.clock)().saturating_sub(start).max(1));
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell as StdCell;
    use std::thread_local;

    thread_local!(static NOW: StdCell<u64> = const { StdCell::new(0) });

    /// A clock that advances by 10 ns with each call.
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
