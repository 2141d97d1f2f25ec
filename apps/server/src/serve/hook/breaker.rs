//! The breaker of a hook: after several failures in a row the hook is left alone for a while.

use std::time::{Duration, Instant};

/// The number of failures in a row that open the breaker.
const FAILURES: u32 = 5;
/// The time for which it stays open. Then one request tries the hook.
const PAUSE: Duration = Duration::from_secs(10);

/// The breaker of a hook.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: u32,
    open_until: Option<Instant>,
}

impl Breaker {
    /// True if a request may be made at `now`.
    pub(super) fn permits(&mut self, now: Instant) -> bool {
        match self.open_until {
            Some(until) if until > now => false,
            Some(_) => {
                // Others wait for the result of this one.
                self.open_until = Some(now + PAUSE);
                true
            }
            None => true,
        }
    }

    /// Takes note of the result of a request at `now`. Returns the new state if it has changed:
    /// true for open.
    pub(super) fn note(&mut self, is_success: bool, now: Instant) -> Option<bool> {
        let was_open = self.open_until.is_some();
        if is_success {
            *self = Self::default();
            return was_open.then_some(false);
        }
        self.failures = self.failures.saturating_add(1);
        if self.failures >= FAILURES {
            self.open_until = Some(now + PAUSE);
        }
        (self.open_until.is_some() && !was_open).then_some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_open_it_and_one_request_tries_again() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        for _ in 1..FAILURES {
            assert!(breaker.permits(now));
            assert_eq!(breaker.note(false, now), None);
        }
        assert_eq!(breaker.note(true, now), None, "they were not in a row");
        for failure in 1..=FAILURES {
            assert!(breaker.permits(now));
            assert_eq!(breaker.note(false, now), (failure == FAILURES).then_some(true));
        }
        assert!(!breaker.permits(now));
        let later = now + PAUSE;
        assert!(breaker.permits(later));
        assert!(!breaker.permits(later), "only one tries");
        assert_eq!(breaker.note(false, later), None);
        assert!(!breaker.permits(later + PAUSE / 2));
        let again = later + PAUSE;
        assert!(breaker.permits(again));
        assert_eq!(breaker.note(true, again), Some(false));
        assert!(breaker.permits(again) && breaker.permits(again));
    }
}
