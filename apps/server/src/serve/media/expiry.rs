//! The end of calls without an answer, or without packets.

use super::{Relay, since_epoch};
use relay::{CallReport, Calls};
use sip::{Duration, Instant};

/// The interval of checks. Each is of some of the calls.
const INTERVAL: Duration = Duration::from_millis(250);

/// The time of the next check.
pub(in crate::serve) struct Expiry(Instant);

impl Expiry {
    /// Checks from `now` on.
    pub(in crate::serve) const fn new(now: Instant) -> Self {
        Self(now)
    }

    /// The time of the next check of `relay`. `None` if it has no calls.
    pub(in crate::serve) fn next_due(&self, relay: &Relay) -> Option<Instant> {
        (relay.count() > 0).then_some(self.0)
    }

    /// Ends the calls that are over by their limits, if a check is due at `now`.
    pub(in crate::serve) fn end_calls(&mut self, relay: &Relay, now: Instant) -> Vec<CallReport> {
        if self.next_due(relay).is_none_or(|when| when > now) {
            return Vec::new();
        }
        self.0 = now + INTERVAL;
        relay.expire(since_epoch(now))
    }
}
