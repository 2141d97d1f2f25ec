//! The responses to the branches of a request (RFC 3261 section 16.7).

use super::super::call_changes;
use super::super::fork::{Cancel, ELSEWHERE, ForkState, reason_line};
use super::super::forward::ResponseChanges;
use super::super::media::{body_of_response, offers_handshake, on_answer};
use super::super::via_branch::Answer;
use super::super::way_back::{Passed, ResponseOutcome};
use super::Context;
use crate::core::event::Env;
use crate::core::flow::Flow;
use crate::core::source::Source;
use sip::transaction::{State, TransactionKind};
use sip::{Method, Status};

/// The source of a response.
struct From {
    /// The flow on which the request was sent.
    there: Flow,
    /// The connection that was opened for the request, if the response came on it.
    opened: Option<Flow>,
}

impl Context {
    /// Handles a response to the request of branch `index` that came on `flow`.
    pub(crate) fn on_response(
        &mut self,
        index: u8,
        answer: &Answer<'_, '_>,
        flow: &Flow,
        env: &mut Env<'_>,
    ) -> ResponseOutcome {
        let Answer { message: response, said } = answer;
        let method = said.cseq.method;
        // A CANCEL is created by this server, so its response has no further Via.
        let may_pass = method == Method::Cancel || self.back.has_port(response);
        let status = response.status().filter(|_| may_pass);
        let Some(status) = status else { return ResponseOutcome::Unmatched };
        let timers = env.settings.config.timers;
        let Some(fork) = self.branches.get_mut(usize::from(index)) else {
            return ResponseOutcome::Unmatched;
        };
        // The branch parameter alone does not match a response to its request (RFC 3261 section
        // 17.1.3).
        let kind = match method {
            Method::Cancel => {
                let Cancel::Sent(cancel) = &mut fork.cancel else {
                    return ResponseOutcome::Unmatched;
                };
                let _ = cancel.client.on_response(status, &timers, env.now);
                return ResponseOutcome::Accepted;
            }
            Method::Invite => TransactionKind::Invite,
            _ => TransactionKind::NonInvite,
        };
        if kind != self.kind {
            return ResponseOutcome::Unmatched;
        }
        let ForkState::Sent(sent) = &mut fork.state else { return ResponseOutcome::Unmatched };
        let there = sent.flow;
        let is_stream = sent.flow.transport.is_stream();
        if !is_stream && flow.remote.ip() == there.remote.ip() {
            // The branch parameter cannot be guessed, so that host has received the request.
            env.answered.note(Source::of(there.remote.ip()));
        }
        // A connection that was open before is followed in any case.
        let is_opened = is_stream
            && sent.flow.connection.is_none()
            && (flow.transport, flow.remote) == (sent.flow.transport, sent.flow.remote);
        let from = From { there, opened: is_opened.then_some(*flow) };
        let action = sent.client.on_response(status, &timers, env.now);
        if action.send_ack {
            sent.acknowledge(response, env);
        }
        if !action.pass_up {
            self.conclude(env);
            return ResponseOutcome::Accepted;
        }
        if status < 200 {
            self.on_provisional(index, status, &from, answer, env);
            return ResponseOutcome::Accepted;
        }
        let heard = self.on_final(index, status, &from, answer, env);
        self.conclude(env);
        heard
    }

    /// Handles a provisional response from `from` on branch `index`.
    fn on_provisional(
        &mut self,
        index: u8,
        status: u16,
        from: &From,
        answer: &Answer<'_, '_>,
        env: &mut Env<'_>,
    ) {
        let passes = status > 100;
        let timer_c = (passes && self.kind == TransactionKind::Invite)
            .then_some(env.now + env.settings.config.timer_c);
        self.branches[usize::from(index)].on_provisional(timer_c, env);
        if passes {
            self.pass(status, from, answer, env);
        }
    }

    /// Handles a final response from `from` on branch `index`.
    fn on_final(
        &mut self,
        index: u8,
        status: u16,
        from: &From,
        answer: &Answer<'_, '_>,
        env: &mut Env<'_>,
    ) -> ResponseOutcome {
        let is_success = status < 300;
        let is_acknowledged = self.kind == TransactionKind::Invite && !is_success;
        let request = self.branches[usize::from(index)].on_final(is_acknowledged);
        self.end_relayed(&request, answer.message, (status, from.there.remote), env);
        if is_success {
            // Retransmissions of a 2xx and the 2xx of other branches are all forwarded.
            if self.kind == TransactionKind::Invite
                && self.back.server.state() != State::Accepted
                && !self.back.flow().is_internal()
            {
                env.counters.answered.add();
            }
            #[cfg(feature = "office")]
            self.tell_answerer(index, env);
            let sent_before = env.out.transmits.len();
            let passed = self.pass(status, from, answer, env);
            if self.kind == TransactionKind::Invite
                && let Some(transmit) = env.out.transmits.get(sent_before)
            {
                let passed = &env.out.bytes[transmit.range.clone()];
                let flows = [*self.back.flow(), from.there];
                let earlier = self.search.as_ref().and_then(|search| search.failing.report());
                on_answer((&request, earlier), answer, passed, flows, env);
            }
            self.note_answer(index, env);
            self.close_others(Some(index), ELSEWHERE, env);
            return passed.map_or(ResponseOutcome::Accepted, |passed| ResponseOutcome::Success {
                moved: passed.moved,
            });
        }
        let was_joined = self.aim(index).is_some_and(|aim| aim.target.detour.is_some());
        let has_failed_over = match status {
            // The callee may accept another session description.
            400 | 415 | 488 | 606 if self.offer_another(index, status, env) => {
                if let Some(search) = &mut self.search {
                    let distrusts = env.settings.distrusts(&from.there);
                    search.remember(status, answer.message, distrusts);
                }
                true
            }
            // A phone that answers 503 rejects the call on its other flows as well. A proxy on the
            // path to the phone may not.
            503 => {
                let is_by_path = self.aim(index).is_some_and(|aim| !aim.target.path.is_empty());
                self.fail_over_elsewhere(index, is_by_path, env)
            }
            // These responses mean that the flow has failed, not that the phone rejects the call.
            408 | 430 => self.fail_over(index, true, env),
            // The phone takes that offer for a merged request (RFC 3261 section 8.2.2.2). The
            // caller gets the 488.
            482 if !self.back.flow().is_internal() => {
                self.aim(index).is_some_and(|aim| aim.target.keying.is_some())
            }
            _ => false,
        };
        // The phones of an ended stage do not decide about the next one.
        if has_failed_over || self.is_withdrawn(index) {
            return ResponseOutcome::Accepted;
        }
        if matches!(status, 301 | 302) && self.deflect(index, answer.message, env) {
            return ResponseOutcome::Accepted;
        }
        if status == 430 && self.aim(index).is_some_and(|aim| aim.target.flows.is_some()) {
            // There is no other flow, and the caller does not know of flows.
            self.fail(Status::SERVICE_UNAVAILABLE);
            return ResponseOutcome::Accepted;
        }
        if let Some(search) = &mut self.search {
            if was_joined && !(500..600).contains(&status) {
                search.forget_refusal();
            }
            search.is_full |= was_joined && status == 503;
            let distrusts = env.settings.distrusts(&from.there);
            let distrusts = distrusts.filter(|_| !search.plan.has_credentials_of_trunk());
            search.remember(status, answer.message, distrusts);
        }
        if status >= 600 {
            self.close_after_rejection(index, &reason_line(Status(status)), env);
        }
        ResponseOutcome::Accepted
    }

    /// Makes another offer to the target of branch `index`, by a call of the B2BUA or in the same
    /// dialog. Returns false if there is none.
    fn offer_another(&mut self, index: u8, status: u16, env: &mut Env<'_>) -> bool {
        // Some phones answer 400 to a profile that they do not know.
        let is_of_handshake = self.with_search(|_, _, request| offers_handshake(request));
        if status == 400 && is_of_handshake != Some(true) {
            return false;
        }
        // The phone may refuse the keys of the offer, or an offer without keys.
        self.go_direct(index, env)
            || self.join(index, env)
            || (matches!(status, 400 | 488) && self.change_keys(index, env))
    }

    /// Forwards a response from `from` upstream, without the header fields that only trusted
    /// elements may set.
    fn pass(
        &mut self,
        status: u16,
        from: &From,
        answer: &Answer<'_, '_>,
        env: &mut Env<'_>,
    ) -> Option<Passed> {
        let distrusts = env.settings.distrusts(&from.there);
        let body = body_of_response(answer, &from.there, self.back.flow(), env);
        let changes =
            ResponseChanges { distrusts, body: body.as_deref(), ..ResponseChanges::default() };
        let passed = self.back.pass(self.handle, status, &changes, from.opened, answer, env);
        if passed.is_some() && self.begins_call() {
            call_changes::respond(self.handle, status, Some((answer.message, &answer.said)), env);
        }
        passed
    }
}
