//! `barebell drain`.

use crate::admin::ask::Ask;
use crate::admin::{Condition, Drained, Request};
use crate::calls::running;
use crate::cli::{DrainFlags, Place};
use crate::failure::Failure;
use crate::output::Out;
use std::thread;
use std::time::{Duration, Instant};

/// The time between two questions for the number of calls.
const PAUSE: Duration = Duration::from_millis(500);

/// Has the server refuse new calls, and waits for the end of those that stand; or has it accept new
/// calls again.
///
/// # Errors
/// [`Failure`] if no server runs, it cannot be accessed or ends meanwhile, calls still stand after
/// the time, or another command ends the draining.
pub(crate) fn run(flags: &DrainFlags, out: &mut Out) -> Result<(), Failure> {
    let DrainFlags { cancel, no_wait, timeout, place } = flags;
    let start = Instant::now();
    let drained: Drained = running(place)?.ask(&Request::Drain { drains: !cancel })?;
    if *cancel {
        return out.line("new calls are accepted again");
    }
    let Drained { calls, transactions, .. } = drained;
    out.line(&format!(
        "new calls are refused; {calls} calls (relayed, or through the B2BUA) and \
         {transactions} transactions stand"
    ))?;
    if *no_wait {
        return Ok(());
    }
    let mut last = calls;
    while last > 0 {
        out.flush()?;
        if timeout.is_some_and(|timeout| start.elapsed() >= timeout) {
            return Err(Failure::message(format!(
                "{last} calls still stand; new ones are refused until `barebell drain --cancel`"
            )));
        }
        thread::sleep(PAUSE);
        let calls = calls_of(place)?;
        if calls != last {
            out.line(&format!("{calls} calls stand"))?;
        }
        last = calls;
    }
    out.line("the last call has ended")
}

/// The number of calls of the draining server of `place`.
fn calls_of(place: &Place) -> Result<u64, Failure> {
    match running(place)?.ask(&Request::Status)? {
        Condition::Running(status) if status.draining => Ok(status.calls),
        Condition::Running(_) => Err(Failure::message(
            "new calls are accepted: another command has ended the draining, or the server has \
             started anew",
        )),
        Condition::Stopped(_) => Err(Failure::message("the server has ended")),
    }
}
