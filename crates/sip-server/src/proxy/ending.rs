//! The end of relayed calls and of calls that are refused before they are relayed, and their
//! records.

use super::media::{label_of, parties_of};
use super::via_branch::DialogFields;
use crate::core::call_record::{
    CallRecord, LOST_REASON, Party, Unreached, caller_call_id, cut, is_of_limit,
};
use crate::core::config::{Joining, Mode, Relaying};
use crate::core::event::Env;
use crate::core::flow::Flow;
use crate::core::incoming::Incoming;
use crate::core::output::Event;
use crate::core::settings::Trust;
use alloc::boxed::Box;
use core::net::SocketAddr;
use relay::{CallReport, Calls};
use sip::header::CSeq;
use sip::{HeaderName, Instant, Message, Method};

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
        if let Some(Ok(best)) = best.map(Message::parse) {
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
    pub(super) fn record(
        mut self,
        response: &Message<'_>,
        env: &Env<'_>,
    ) -> Option<Box<CallRecord>> {
        let report = self.report.take().filter(|report| report.is_last)?;
        self.record_of(*report, response, env).map(Box::new)
    }

    /// Returns the record of a call that was refused with `response` before it reached a phone.
    pub(super) fn record_unreached(
        self,
        refused: &Refused<'_, '_>,
        response: &Message<'_>,
        env: &Env<'_>,
    ) -> Option<Box<CallRecord>> {
        let Refused { request, from, began, is_proven, is_first_leg } = *refused;
        let said = DialogFields::read(request)?;
        let parties = parties_of(request, &from);
        let parties = parties.each_ref().map(|party| &**party);
        let began = began.since_epoch();
        let (call_id, tag) = (said.call_id, said.from_tag);
        let mut report = CallReport::of_unrelayed(call_id, tag, parties, from.remote, began);
        if from.is_internal() {
            report.ends[0].label = Some(label_of(request).into());
        }
        let mut record = self.record_of(report, response, env)?;
        if is_first_leg {
            record.is_joined = true;
            // The B2BUA is a part of this server.
            record.ended_by = match record.ended_by {
                Party::Callee => Party::Server,
                by => by,
            };
        }
        record.unreached = Some(Unreached { is_proven, is_first_leg });
        Some(Box::new(record))
    }

    fn record_of(
        self,
        report: CallReport,
        response: &Message<'_>,
        env: &Env<'_>,
    ) -> Option<CallRecord> {
        if matches!(response.status(), Some(401 | 407)) {
            return None;
        }
        let record = CallRecord::new(report, self.by?, env.now, env.clock_offset);
        Some(record.with_response(response).with_reason(self.reason.as_deref()))
    }
}

/// An INVITE that was refused before it reached a phone.
pub(super) struct Refused<'r, 'm> {
    pub(super) request: &'r Message<'m>,
    /// The flow that it came on.
    pub(super) from: Flow,
    /// The time of its arrival.
    pub(super) began: Instant,
    /// True if its sender is an authenticated user, or at an address of a trusted network.
    pub(super) is_proven: bool,
    /// True if the B2BUA has got it.
    pub(super) is_first_leg: bool,
}

/// True if a call that came on `flow` and is refused before it reaches a phone has a record: each
/// call would be relayed.
pub(super) fn is_recorded(flow: &Flow, env: &Env<'_>) -> bool {
    let config = &env.settings.config;
    let relays_all = config.relaying == Relaying::All && config.mode == Mode::Proxy;
    let joins_all = config.joining == Joining::All && env.settings.has_b2bua();
    env.relay.is_some() && (relays_all || joins_all || flow.is_internal())
}

/// Records the refusal of the request `incoming` without a transaction, if it begins a call and
/// the first message since `sent_before` is its response. The call goes on after a challenge.
/// `reason` is the Reason of the record.
pub(super) fn note_refusal(
    incoming: &Incoming<'_, '_>,
    sent_before: usize,
    is_proven: bool,
    reason: Option<&[u8]>,
    env: &mut Env<'_>,
) {
    let Incoming { message, head, flow, trust, .. } = incoming;
    let begins_call = head.method == Method::Invite && head.to.tag().is_none();
    let Some(sent) = env.out.transmits.get(sent_before).filter(|_| begins_call) else { return };
    if !is_recorded(flow, env) {
        return;
    }
    let sent = &env.out.bytes[sent.range.clone()];
    let Some(response) = Message::parse(sent).ok().filter(|it| it.status() >= Some(300)) else {
        return;
    };
    let mut failing = Failing { reason: reason.map(cut), ..Failing::default() };
    failing.answered(false, None);
    let is_proven = is_proven || *trust == Trust::Trusted;
    let refused =
        Refused { request: message, from: *flow, began: env.now, is_proven, is_first_leg: false };
    let record = failing.record_unreached(&refused, &response, env);
    env.out.events.extend(record.map(Event::CallEnded));
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
    let (Some(relay), Some(said)) = (env.relay, DialogFields::read(message)) else { return };
    if !relay.has_end(said.call_id, [said.from_tag, said.to_tag], ends) {
        return;
    }
    let now = env.now.since_epoch();
    let ended = relay.end_dialog(said.call_id, [said.from_tag, said.to_tag], now);
    if let Some(report) = ended.filter(|report| report.is_last) {
        let is_by_caller = *report.caller_tag == *said.from_tag;
        let of_b2bua = reason.filter(|_| is_by_caller && caller_call_id(&report).is_some());
        let by = match of_b2bua {
            Some(reason) if reason == LOST_REASON.as_bytes() => Party::Callee,
            Some(reason) if cfg!(feature = "office") && is_of_limit(reason) => Party::Limit,
            _ if is_by_caller => Party::Caller,
            _ => Party::Callee,
        };
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
