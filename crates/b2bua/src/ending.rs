//! The end of a call: the other leg ends with it, for the same reason.

use crate::b2bua::{B2bua, BridgeId};
use crate::bridge::Side;
use crate::fields;
use alloc::vec::Vec;
use sip::{Encode, Instant, Message, Status};
use sip_ua::{CallId, End};

impl B2bua {
    /// Processes the end of one leg.
    pub(crate) fn on_ended(&mut self, call: CallId, end: &End, now: Instant) {
        let Some((id, side)) = self.bridge_of.remove(&call) else { return };
        let Some(bridge) = self.bridges.get_mut(&id) else { return };
        bridge.leg(side).call = None;
        let status = status_of(end);
        let other = bridge.call(side.other());
        let is_refused =
            side == Side::Callee && other.is_some_and(|caller| self.agent.invite(caller).is_some());
        let received = core::mem::take(&mut self.received);
        let message = Message::parse(&received).ok();
        match other {
            Some(_) if is_refused && self.call_with_other_keys(id, status, now) => return,
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
        self.bridges.remove(&id);
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

/// Returns the line of a Reason.
pub(crate) fn reason_line(reason: &str) -> Vec<u8> {
    [b"Reason: ", reason.as_bytes(), b"\r\n"].concat()
}
