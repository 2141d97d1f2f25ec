//! The check that the other end of an established call is still there: an OPTIONS within the dialog
//! (RFC 3261 section 11). A phone on hold that has lost its power sends neither media nor a BYE,
//! and the session timer (RFC 4028) may be long.

use super::bye::is_gone;
use super::state::{Call, State};
use crate::capabilities;
use crate::client_transaction::{Owner, RequestResult};
use crate::config::Config;
use crate::core::Core;
use crate::draft::Draft;
use crate::event::{End, Event, Failure};
use alloc::vec::Vec;
use sip::{Instant, Method};

/// The number of checks that a server may answer for the other end before it counts as gone: until
/// then it may connect again.
const MAX_ABSENT: u32 = 3;

/// The Reason of the BYE to an end that does not answer the check (RFC 3326).
pub const LOST_REASON: &str = "SIP;cause=408;text=\"No response\"";

/// Returns true for a response by which a server tells that the other end cannot be reached.
const fn is_absent(status: u16) -> bool {
    matches!(status, 430 | 480 | 502..=504)
}

impl Call {
    /// Records a request of the other end.
    pub(super) fn note_sign(&mut self, config: &Config, now: Instant) {
        if let State::Established(established) = &mut self.state
            && let Some(probe) = &mut established.probe
        {
            probe.note(config, now);
        }
    }

    /// Checks the other end when due.
    pub(super) fn poll_probe(&mut self, core: &mut Core, now: Instant) {
        let State::Established(established) = &mut self.state else { return };
        let Some(probe) = established.probe.as_mut().filter(|probe| probe.at <= now) else {
            return;
        };
        probe.at = Instant::MAX;
        let dialog = &mut established.dialog;
        let mut draft = Draft::within(self.account, dialog, Method::Options, Vec::new());
        draft.lines = capabilities::lines(&core.config);
        let way = self.way_to(draft.dialog.next_hop());
        let id = core.request(draft, Owner::Call(self.id), way, now);
        if let State::Established(established) = &mut self.state
            && let Some(probe) = &mut established.probe
        {
            probe.request = Some(id);
        }
    }

    /// Processes the result of such an OPTIONS. Returns false for another request.
    pub(super) fn on_probe_result(
        &mut self,
        core: &mut Core,
        result: &RequestResult<'_>,
        now: Instant,
    ) -> bool {
        let State::Established(established) = &mut self.state else { return false };
        let Some(probe) = &mut established.probe else { return false };
        if probe.request != Some(result.id) {
            return false;
        }
        let failure = match &result.outcome {
            Ok(response) => match response.status().unwrap_or_default() {
                ..200 => return true,
                200..300 => None,
                _ => Some(Failure::refused_by(response)),
            },
            Err(failure) => Some(failure.clone()),
        };
        probe.request = None;
        let absent = probe.absent;
        probe.note(&core.config, now);
        let Some(failure) = failure else { return true };
        if matches!(failure, Failure::Refused { status, .. } if is_absent(status)) {
            probe.absent = absent + 1;
            if probe.absent >= MAX_ABSENT {
                self.end_lost(core, Failure::TimedOut, now);
            }
        } else if is_gone(&failure) {
            self.end_lost(core, failure, now);
        }
        // Any other response comes from the other end.
        true
    }

    /// Ends the call, whose other end is gone.
    fn end_lost(&mut self, core: &mut Core, failure: Failure, now: Instant) {
        let lines = ["Reason: ", LOST_REASON, "\r\n"].concat();
        self.send_bye_quietly(core, lines.as_bytes(), now);
        self.state = State::Over;
        core.tell(Event::Ended { call: self.id, end: End::Failed(failure) });
    }
}
