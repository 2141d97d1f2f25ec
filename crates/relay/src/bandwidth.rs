//! The bandwidth of media: that of a stream by its codec, and the shares of calls and owners.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

/// The traffic that may arrive at once after a pause.
const BURST: Duration = Duration::from_secs(2);

/// The limits of a bandwidth in bytes a second, of UDP payload. [`u64::MAX`] is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    /// Of all calls.
    pub all: u64,
    /// Of the calls of one owner.
    pub owner: u64,
    /// Of one call.
    pub call: u64,
}

impl Default for Bandwidth {
    fn default() -> Self {
        Self { all: 125_000_000, owner: 31_250_000, call: 2_500_000 }
    }
}

/// Measures traffic against a rate: the time until which what has come occupies the rate (GCRA).
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// In nanoseconds.
    busy_until: AtomicU64,
}

impl Pace {
    /// Adds `length` bytes. Returns false, and adds nothing, if they are over `rate` bytes a
    /// second. [`u64::MAX`] is no limit.
    pub(crate) fn admit(&self, length: usize, rate: u64, now: Duration) -> bool {
        if rate == u64::MAX {
            return true;
        }
        let now = now.as_nanos() as u64;
        let cost = (length as u64).saturating_mul(1_000_000_000) / rate.max(1);
        let add = |until: u64| {
            let begin = until.max(now);
            (begin - now <= BURST.as_nanos() as u64).then_some(begin.saturating_add(cost))
        };
        self.busy_until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    /// True if what has come occupies the rate for at least half of a burst.
    pub(crate) fn is_busy(&self, now: Duration) -> bool {
        let until = Duration::from_nanos(self.busy_until.load(Ordering::Relaxed));
        until.saturating_sub(now) > BURST / 2
    }
}

/// The traffic of all calls.
#[derive(Debug)]
pub(crate) struct Total {
    pub(crate) pace: Pace,
    limits: Bandwidth,
    /// Counts packets over a limit of bandwidth.
    pub(crate) dropped: AtomicU64,
}

impl Total {
    pub(crate) fn new(limits: Bandwidth) -> Self {
        Self { pace: Pace::default(), limits, dropped: AtomicU64::new(0) }
    }
}

/// The bandwidth that the streams of one call share.
#[derive(Debug)]
pub(crate) struct Share {
    call: Pace,
    owner: Arc<Pace>,
    total: Arc<Total>,
}

impl Share {
    pub(crate) fn new(owner: Arc<Pace>, total: Arc<Total>) -> Self {
        Self { call: Pace::default(), owner, total }
    }

    /// Adds a packet of `length` bytes to a stream that has the bandwidth `stream`, if one is
    /// known. Returns false if a limit is reached.
    pub(crate) fn admit(
        &self,
        length: usize,
        (pace, stream): (&Pace, Option<u64>),
        now: Duration,
    ) -> bool {
        let Bandwidth { all, owner, call } = self.total.limits;
        let is_admitted = stream.is_none_or(|stream| pace.admit(length, stream, now))
            && self.call.admit(length, call, now)
            && self.owner.admit(length, owner, now)
            && self.total.pace.admit(length, all, now);
        if !is_admitted {
            self.total.dropped.fetch_add(1, Ordering::Relaxed);
        }
        is_admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_of_the_rate_passes_and_more_is_cut_to_it() {
        for (interval, expected) in [(20, 5_000..5_001), (10, 5_100..5_120), (1, 5_100..5_120)] {
            let pace = Pace::default();
            let times = (0..100_000).step_by(interval).map(Duration::from_millis);
            // Packets of 20 ms, and those of two seconds at once.
            let admitted = times.filter(|&now| pace.admit(200, 10_000, now)).count();
            assert!(expected.contains(&admitted), "{interval} ms: {admitted}");
            let later = Duration::from_secs(100);
            assert_eq!(pace.is_busy(later), interval < 20);
            assert!(!pace.is_busy(later + BURST));
        }
        assert!(Pace::default().admit(usize::MAX, 0, Duration::MAX));
    }
}
