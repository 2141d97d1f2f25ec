//! The captures of `qos`: one for each repeat, and the delays in it.

use super::error::CommandError;
use crate::capture::calls::CallOutcome;
use crate::capture::registrations::{RegistrationOutcome, record};
use crate::capture::{Analysis, Reading, listen};
use crate::record::{Delay, Histogram};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

/// Does `work` while `interface` is captured, if there is one. Returns its result with the analysis
/// of the capture.
///
/// # Errors
/// That of `work`, or the interface cannot be captured.
pub(super) fn captured<T>(
    interface: Option<&str>,
    work: impl FnOnce() -> Result<T, CommandError>,
) -> Result<(T, Option<Analysis>), CommandError> {
    let Some(name) = interface else { return Ok((work()?, None)) };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (opened, is_open) = mpsc::channel();
        let capture = scope.spawn(|| {
            listen(name, None, &is_over, Reading::new(&[]), move || {
                let _ = opened.send(());
            })
        });
        // If the capture fails, the channel closes.
        let done = is_open.recv().is_ok().then(work);
        is_over.store(true, Ordering::SeqCst);
        let analysis = capture.join().expect("the capture does not panic")?;
        let done = done.expect("the work is done if the capture succeeded")?;
        Ok((done, Some(analysis)))
    })
}

/// Returns the delays of registrations at `server` and of calls through it in a capture: TReg to
/// T200_OK, TInv1 to TInv2, TInv1 to TSDP_OK2.
pub(super) fn delays_of(analysis: &Analysis, server: SocketAddr) -> BTreeMap<Delay, Histogram> {
    let mut delays: BTreeMap<Delay, Histogram> = BTreeMap::new();
    let mut note = |delay, from, to| {
        record(delays.entry(delay).or_default(), from, to);
    };
    for one in &analysis.registrations.list {
        if one.destination == server && one.outcome == RegistrationOutcome::Succeeded {
            note(Delay::Rrd, Some(one.register_us), one.final_us);
        }
    }
    for call in &analysis.calls.list {
        if !call.hops.iter().any(|hop| hop.destination == server) {
            continue;
        }
        let times = call.times;
        let forwarded = times.authorised_us.filter(|&time| Some(time) <= times.inv2_us);
        note(Delay::Invite, forwarded.or(times.inv1_us), times.inv2_us);
        if call.outcome == CallOutcome::Established {
            note(Delay::Setup, times.inv1_us, times.sdp_ok2_us);
        }
    }
    delays
}
