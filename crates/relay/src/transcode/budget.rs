//! The processor time of a stream, counted in sound.

use core::time::Duration;

/// The sound that a stream may decode per second of time, in percent of real time.
const PERCENT: u64 = 150;

/// The sound that it may decode at once, as after a stall of the network.
const BURST: Duration = Duration::from_secs(2);

/// The least cost of a packet. Shorter ones cost as much work.
pub(super) const LEAST: Duration = Duration::from_millis(5);

/// The cost of another source or another codec, which needs a new decoder.
pub(super) const CHANGE: Duration = Duration::from_millis(20);

/// The sound that a stream may still decode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    left: Duration,
    at: Option<Duration>,
}

impl Default for Budget {
    fn default() -> Self {
        Self { left: BURST, at: None }
    }
}

impl Budget {
    /// Takes `cost` at the time `now`. Returns false if it is not left.
    pub(super) fn take(&mut self, cost: Duration, now: Duration) -> bool {
        let elapsed = now.saturating_sub(self.at.unwrap_or(now)).min(BURST);
        let gained = Duration::from_micros(elapsed.as_micros() as u64 * PERCENT / 100);
        self.left = (self.left + gained).min(BURST);
        self.at = Some(now.max(self.at.unwrap_or(now)));
        let left = self.left.checked_sub(cost);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }
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
}
