//! The processor time of a stream, counted in sound.

use core::time::Duration;

/// The sound that a stream may convert per second of time, in percent of real time.
const PERCENT: i64 = 150;

/// The sound that it may convert at once, as after a stall of the network.
const BURST: Duration = Duration::from_secs(2);

/// The least cost of a packet. Shorter ones cost as much work.
pub(super) const LEAST: Duration = Duration::from_millis(5);

/// The cost of another source or another codec, which needs a new decoder.
pub(super) const CHANGE: Duration = Duration::from_millis(20);

/// The sound that a stream may still convert.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// In microseconds. Negative after [`Budget::spend`].
    left: i64,
    at: Option<Duration>,
}

impl Default for Budget {
    fn default() -> Self {
        Self { left: micros(BURST), at: None }
    }
}

impl Budget {
    /// Takes `cost` at the time `now`. Returns false if it is not left.
    pub(super) fn take(&mut self, cost: Duration, now: Duration) -> bool {
        let at = self.at.unwrap_or(now);
        let elapsed = now.saturating_sub(at).min(BURST);
        self.left = (self.left + micros(elapsed) * PERCENT / 100).min(micros(BURST));
        self.at = Some(now.max(at));
        let is_left = self.left >= micros(cost);
        if is_left {
            self.spend(cost);
        }
        is_left
    }

    /// Takes `cost`, left or not, for work that a packet caused.
    pub(super) fn spend(&mut self, cost: Duration) {
        self.left -= micros(cost);
    }
}

/// A cost or a time up to [`BURST`], in microseconds.
fn micros(duration: Duration) -> i64 {
    duration.min(BURST).as_micros() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_real_time_is_refused_after_a_burst() {
        let mut budget = Budget::default();
        let mut taken = Duration::ZERO;
        let frame = Duration::from_millis(20);
        for step in 0..20_000 {
            if budget.take(frame, Duration::from_millis(step)) {
                taken += frame;
            }
        }
        let expected = BURST + Duration::from_secs(20) * 3 / 2;
        assert!(taken <= expected && taken + frame * 2 > expected, "{taken:?}");
        // Real time is never refused, and a clock that steps back does no harm.
        let mut budget = Budget::default();
        assert!((0..10_000).all(|step| budget.take(frame, frame * step)));
        assert!(budget.take(frame, Duration::ZERO));
    }

    #[test]
    fn work_over_the_limit_is_owed() {
        let mut budget = Budget::default();
        let second = Duration::from_secs(1);
        (0..3).for_each(|_| budget.spend(second));
        assert!(!budget.take(LEAST, Duration::ZERO));
        assert!(!budget.take(LEAST, second / 2) && budget.take(LEAST, second));
    }
}
