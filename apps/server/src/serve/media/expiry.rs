//! The end of calls without an answer, or without packets.

use super::since_epoch;
use net::Clock;
use relay::{CallReport, Calls};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// The interval of checks. Each is of some of the calls.
const INTERVAL: Duration = Duration::from_millis(250);

/// Ends the calls that are over by their limits, and passes their reports to `ended`. It does not
/// return.
pub(in crate::serve) async fn expire_calls(
    calls: Arc<dyn Calls>,
    clock: Clock,
    ended: impl Fn(CallReport),
) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        calls.expire(since_epoch(clock.now())).into_iter().for_each(&ended);
    }
}
