//! The time of day, as the engine counts it.

use sip::Instant;
use std::time::SystemTime;

/// Now, by the wall clock: it may jump, so the running server counts on with a monotonic one.
pub(crate) fn wall_clock() -> Instant {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Instant::from_micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}
