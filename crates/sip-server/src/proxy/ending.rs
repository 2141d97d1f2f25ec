//! The end of relayed calls, and their records.

use super::via_branch::Said;
use crate::core::call_record::{CallRecord, Party, cut};
use crate::core::event::Env;
use crate::core::output::Event;
use alloc::boxed::Box;
use core::net::SocketAddr;
use relay::{CallReport, Calls};
use sip::header::CSeq;
use sip::{HeaderName, Message, Method};

/// The end of a call that is not answered, while its INVITE is in progress.
#[derive(Default)]
pub(super) struct Failing {
    /// The report about the branches that have ended.
    report: Option<Box<CallReport>>,
    /// The party that the final response came from.
    by: Option<Party>,
    /// The Reason of the CANCEL or of the final response.
    reason: Option<Box<[u8]>>,
}

impl Failing {
    /// Records the end of a branch.
    pub(super) fn add(&mut self, report: CallReport) {
        let report = match self.report.take() {
            Some(before) => report.merged(*before),
            None => report,
        };
        self.report = Some(Box::new(report));
    }

    /// Records the Reason of the CANCEL.
    pub(super) fn cancelled(&mut self, cancel: &Message<'_>) {
        self.reason = cancel.value(HeaderName::Reason).map(cut);
    }

    /// Records the final response that is sent to the caller: the `best` one, unless the server
    /// generates it.
    pub(super) fn answered(&mut self, is_cancelled: bool, best: Option<&[u8]>) {
        let best = best.filter(|bytes| !bytes.is_empty());
        self.by = Some(match best {
            _ if is_cancelled => Party::Caller,
            Some(_) => Party::Callee,
            None => Party::Server,
        });
        if let Some(Ok(best)) = best.filter(|_| self.report.is_some()).map(Message::parse) {
            let reason = best.value(HeaderName::Reason).map(cut);
            self.reason = self.reason.take().or(reason);
        }
    }

    /// The report about the branches of a relayed call that have ended.
    pub(super) fn report(&self) -> Option<&CallReport> {
        self.report.as_deref()
    }

    /// True if a branch of a relayed call has ended.
    pub(super) const fn has_report(&self) -> bool {
        self.report.is_some()
    }

    /// The party that the final response came from. `None` if it was a 2xx.
    pub(super) const fn by(&self) -> Option<Party> {
        self.by
    }

    /// Returns the record of the call, whose caller got `response`. The call goes on after a
    /// challenge, or on a branch that another request has opened.
    pub(super) fn record(self, response: &Message<'_>, env: &Env<'_>) -> Option<Box<CallRecord>> {
        let report = self.report.filter(|report| report.is_last)?;
        if matches!(response.status(), Some(401 | 407)) {
            return None;
        }
        let record = CallRecord::new(*report, self.by?, env.now, env.clock_offset);
        Some(Box::new(record.with_response(response).with_reason(self.reason.as_deref())))
    }
}

/// Ends the branch of a relayed call on which `response` refuses the INVITE.
pub(super) fn end_branch(response: &Message<'_>, relay: &dyn Calls) -> Option<CallReport> {
    let call_id = response.value(HeaderName::CallId)?;
    relay.end_branch(call_id, response.top_via().ok()?.branch()?)
}

/// Ends the relayed call that a final `response` to the request `bye` ends. The request is empty if
/// it is not known. The response passes between `ends`.
pub(super) fn on_bye(bye: &[u8], response: &Message<'_>, ends: [SocketAddr; 2], env: &mut Env<'_>) {
    let cseq = response.value(HeaderName::CSeq).and_then(|value| CSeq::parse(value).ok());
    let is_bye = cseq.is_some_and(|cseq| cseq.method == Method::Bye);
    // The call goes on after a challenge.
    let is_over = response.status().is_some_and(|it| it >= 200 && !matches!(it, 401 | 407));
    if is_bye && is_over {
        let bye = Message::parse(bye).ok();
        let reason = bye.as_ref().and_then(|bye| bye.value(HeaderName::Reason));
        end_dialog(response, reason, ends, env);
    }
}

/// Ends the relayed call of the dialog of `message`, which is a BYE or its response, and records
/// it. One of `ends` is that of an end of the call: another party that knows the dialog cannot end
/// it between phones of its own.
pub(super) fn end_dialog(
    message: &Message<'_>,
    reason: Option<&[u8]>,
    ends: [SocketAddr; 2],
    env: &mut Env<'_>,
) {
    let (Some(relay), Some(said)) = (env.relay, Said::read(message)) else { return };
    if !relay.has_end(said.call_id, [said.from_tag, said.to_tag], ends) {
        return;
    }
    let now = env.now.since_epoch();
    let ended = relay.end_dialog(said.call_id, [said.from_tag, said.to_tag], now);
    if let Some(report) = ended.filter(|report| report.is_last) {
        let is_by_caller = *report.caller_tag == *said.from_tag;
        let by = if is_by_caller { Party::Caller } else { Party::Callee };
        let record = CallRecord::new(report, by, env.now, env.clock_offset).with_reason(reason);
        env.out.events.push(Event::CallEnded(Box::new(record)));
    }
}

/// Ends the relayed call that a final `response` to a request without a transaction ends.
pub(super) fn on_stateless(
    response: &Message<'_>,
    status: u16,
    ends: [SocketAddr; 2],
    env: &mut Env<'_>,
) {
    on_bye(&[], response, ends, env);
    let cseq = response.value(HeaderName::CSeq).and_then(|value| CSeq::parse(value).ok());
    let is_invite = cseq.is_some_and(|cseq| cseq.method == Method::Invite);
    let Some(relay) = env.relay.filter(|_| is_invite && status >= 300) else { return };
    let Some(report) = end_branch(response, relay) else { return };
    let mut failing = Failing::default();
    failing.add(report);
    failing.answered(status == 487, Some(response.as_bytes()));
    env.out.events.extend(failing.record(response, env).map(Event::CallEnded));
}
