//! The duration of the steps of SRTP in a session, by suite.

use alloc::vec::Vec;
use srtp::Suite;
use srtp::timings::{Step, StepTimer, Timings};

/// A clock, in nanoseconds since any fixed time.
pub type Clock = fn() -> u64;

/// The measurements of a session. It is empty without a clock.
#[derive(Debug, Default)]
pub(super) struct Measured {
    clock: Option<Clock>,
    pub(super) suites: Vec<(Suite, Timings)>,
}

impl Measured {
    pub(super) const fn by(clock: Option<Clock>) -> Self {
        Self { clock, suites: Vec::new() }
    }

    /// Returns the stopwatch of a suite, if there is a clock.
    pub(super) fn watch(&mut self, suite: Suite) -> Option<StepTimer<'_>> {
        let clock = self.clock?;
        let place = self.suites.iter().position(|measured| measured.0 == suite);
        let place = place.unwrap_or_else(|| {
            self.suites.push((suite, Timings::default()));
            self.suites.len() - 1
        });
        Some(StepTimer::new(clock, &mut self.suites[place].1))
    }

    /// Runs `act`, which is a step of this suite, and measures it.
    pub(super) fn measure<T>(&mut self, suite: Suite, step: Step, act: impl FnOnce() -> T) -> T {
        match self.watch(suite) {
            Some(mut watch) => watch.measure(step, act),
            None => act(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{sessions, talk};
    use super::super::{Seed, Session};
    use super::*;
    use crate::negotiation::Security;
    use std::cell::Cell;

    std::thread_local!(static NOW: Cell<u64> = const { Cell::new(0) });

    fn clock() -> u64 {
        NOW.set(NOW.get() + 10);
        NOW.get()
    }

    #[test]
    fn the_steps_of_srtp_are_measured_where_there_is_a_clock() {
        let mut ends = sessions(Security::Required);
        assert!(talk(&mut ends, 0).0.len() > 1000 && ends[0].timings().is_empty());
        let streams = [0, 1].map(|end| ends[end].stream().clone());
        let seed = |ssrc| Seed { ssrc, sequence_number: 1, timestamp: 1 };
        let [one, other] = streams;
        let mut ends = [(one, 1), (other, 2)]
            .map(|(stream, ssrc)| Session::measured(stream, seed(ssrc), Some(clock)).unwrap());
        talk(&mut ends, 0);
        let counts = |session: &Session| {
            let [(suite, timings)] = session.timings() else { panic!("one suite") };
            assert_eq!(*suite, Suite::AesCm128HmacSha1_80);
            assert!(Step::ALL.iter().all(|step| {
                let timing = timings.get(*step);
                timing.nanoseconds >= 10 * timing.count
            }));
            Step::ALL.map(|step| timings.get(step).count)
        };
        assert_eq!(counts(&ends[0]), [2, 50, 0, 50, 50, 100]);
        assert_eq!(counts(&ends[1]), [2, 0, 50, 50, 50, 50]);
    }

    #[test]
    fn a_call_in_clear_has_nothing_to_measure() {
        let [session, _] = sessions(Security::Off);
        let seed = Seed { ssrc: 1, sequence_number: 1, timestamp: 1 };
        let session = Session::measured(session.stream().clone(), seed, Some(clock)).unwrap();
        assert!(session.timings().is_empty());
    }
}
