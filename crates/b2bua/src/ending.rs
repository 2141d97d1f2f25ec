//! The end of a call: the other leg ends with it, for the same reason.

use crate::b2bua::{B2bua, BridgeId};
use crate::bridge::Side;
use crate::fields::{self, reason_line};
use crate::trunk::status_for_caller;
use alloc::vec::Vec;
use core::fmt;
use sip::{Encode, Instant, Message, Status};
use sip_ua::{CallId, End};

/// No call with this number stands: it has ended, or there was none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownCall(pub u64);

impl fmt::Display for UnknownCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no call has the number {}", self.0)
    }
}

impl core::error::Error for UnknownCall {}

impl B2bua {
    /// Ends the call with this number. The requests have the Reason `reason` (RFC 3326), such as
    /// `Q.850;cause=16`.
    ///
    /// # Errors
    /// [`UnknownCall`]: no call with this number stands.
    pub fn hang_up(
        &mut self,
        now: Instant,
        call: BridgeId,
        reason: &str,
    ) -> Result<(), UnknownCall> {
        let bridge = self.bridges.get(&call).ok_or(UnknownCall(call))?;
        let legs = [Side::Caller, Side::Callee].map(|side| bridge.call(side));
        for leg in legs.into_iter().flatten() {
            // A leg may have ended with the other one.
            let _ = self.agent.hang_up_with(now, leg, &reason_line(reason));
        }
        self.process(now);
        Ok(())
    }

    /// Processes the end of one leg.
    pub(crate) fn on_ended(&mut self, call: CallId, end: &End, now: Instant) {
        let Some((id, side)) = self.bridge_of.remove(&call) else { return };
        let Some(bridge) = self.bridges.get_mut(&id) else { return };
        bridge.leg(side).call = None;
        let status = status_of(end);
        let is_hidden = match bridge.on_trunk.map(|on| on.side) {
            Some(Side::Callee) => true,
            // The provider would call the target of a redirection at the cost of the trunk.
            Some(Side::Caller) => matches!(status, 300..=399),
            None => false,
        };
        let other = bridge.call(side.other());
        let is_refused =
            side == Side::Callee && other.is_some_and(|caller| self.agent.invite(caller).is_some());
        let received = core::mem::take(&mut self.received);
        let message = Message::parse(&received).ok();
        match other {
            Some(_) if is_refused && self.call_with_other_keys(id, status, now) => return,
            Some(_) if is_refused && self.fail_over(id, end, now) => return,
            Some(caller) if is_refused && is_hidden => {
                let lines = message.map(|it| fields::reason(&it, None)).unwrap_or_default();
                let status = status_for_caller(status);
                let _ = self.agent.decline_with(now, caller, status, &lines);
            }
            Some(caller) if is_refused => {
                let lines = message.map(|it| fields::passed_in_refusal(&it)).unwrap_or_default();
                let _ = self.agent.decline_with(now, caller, status, &lines);
            }
            Some(other) => {
                let lines = match message {
                    Some(message) => fields::reason(&message, message.status()),
                    None => reason_of(end),
                };
                let _ = self.agent.hang_up_with(now, other, &lines);
            }
            None => {}
        }
        self.remove_ended(id);
    }

    /// Removes a bridge without legs.
    fn remove_ended(&mut self, id: BridgeId) {
        let Some(bridge) = self.bridges.get(&id) else { return };
        if bridge.call(Side::Caller).is_some() || bridge.call(Side::Callee).is_some() {
            return;
        }
        let (source, is_reported) = (bridge.source(), bridge.is_reported);
        if is_reported {
            self.report_ended(id);
        }
        let bridge = self.bridges.remove(&id);
        if let Some(until) = bridge.as_ref().and_then(|bridge| bridge.decided_by) {
            self.undecided.remove(&(until, id));
        }
        if let Some(refused) = bridge.and_then(|bridge| bridge.refused) {
            self.refused.remove(&refused);
        }
        self.due.remove(&id);
        if let Some(count) = self.sources.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                self.sources.remove(&source);
            }
        }
    }
}

/// Returns the status for the caller after the callee has ended the call unanswered.
fn status_of(end: &End) -> u16 {
    match end {
        End::Failed(failure) => failure.status(),
        End::NotAnswered => Status::REQUEST_TIMEOUT.code(),
        _ => Status::REQUEST_TERMINATED.code(),
    }
}

/// Returns the Reason line for the other leg if no message has ended this one.
fn reason_of(end: &End) -> Vec<u8> {
    let mut lines = Vec::new();
    if matches!(end, End::Failed(_) | End::NotAnswered) {
        ("Reason: SIP;cause=", status_of(end), "\r\n").encode(&mut lines);
    }
    lines
}
