//! The final response of a request: the best one of its branches (RFC 3261 section 16.7).

use super::super::call_changes;
use super::super::fork::Fork;
use super::super::forward::{NO_CHALLENGE, ResponseChanges};
use super::super::search::Search;
use super::super::via_branch::Answer;
use super::Context;
use crate::core::event::Env;
use crate::core::trunks::is_of_trunk;
use sip::transaction::TransactionKind;
use sip::{Message, Status, StatusLine};

/// The response to an undelivered request of the user agent of a trunk (RFC 5626 section 11.5). It
/// differs from the responses of a trunk.
const UNDELIVERED: Status = Status(430);

impl Context {
    /// Opens no further branch, and cancels all open branches except `index` with the Reason lines
    /// `reason`.
    pub(super) fn close_others(&mut self, index: Option<u8>, reason: &[u8], env: &mut Env<'_>) {
        self.is_closing = true;
        if let Some(search) = &mut self.search {
            search.waiting.clear();
        }
        if self.kind == TransactionKind::NonInvite {
            return;
        }
        for (at, fork) in self.branches.iter_mut().enumerate() {
            if Some(at) != index.map(usize::from) {
                fork.request_cancel(reason, env);
            }
        }
    }

    /// If every branch has ended, tries the next targets or answers with the best response.
    pub(super) fn conclude(&mut self, env: &mut Env<'_>) {
        while !self.has_final() && self.stage_has_ended() {
            let Some(search) = &self.search else { return };
            if search.waiting.is_empty() || self.is_closing {
                // A phone of an earlier stage may answer before its CANCEL arrives.
                if !self.leads_on(env) && self.branches.iter().all(Fork::has_ended) {
                    self.answer_best(env);
                }
                break;
            }
            let open = |context: &mut Self, search: &mut Search, request: &Message<'_>| {
                context.open_next(search, request, env);
            };
            if self.with_search(open).is_none() {
                break;
            }
        }
        if self.has_final() && self.branches.iter().all(Fork::has_ended) {
            self.conclude_relayed(env);
            self.search = None;
        }
    }

    fn answer_best(&mut self, env: &mut Env<'_>) {
        let is_of_trunk = is_of_trunk(self.back.flow());
        let Some(search) = &mut self.search else { return };
        let best = search.best.as_ref().map(|(_, bytes)| &bytes[..]);
        search.failing.answered(self.is_cancelled, best);
        match search.best.take() {
            // The CANCEL went on a flow that has failed since, so the branch counts as cancelled.
            Some((430 | 503, bytes)) if self.is_cancelled && bytes.is_empty() => {
                self.respond(Status::REQUEST_TERMINATED, env);
            }
            // The client has timed out at the same time (RFC 4320 section 4.2).
            Some((408, _)) if self.kind == TransactionKind::NonInvite => self.is_abandoned = true,
            Some((status, bytes)) if !bytes.is_empty() => {
                let Ok(response) = Message::parse(&bytes) else { return };
                let Some(answer) = Answer::read(&response) else { return };
                let challenges = core::mem::take(&mut search.challenges);
                let is_challenge = matches!(status, 401 | 407);
                let asks = env.settings.config.authentication.required;
                let changed = match status {
                    // That server is overloaded, not this one (RFC 3261 section 16.7 step 6). The
                    // B2BUA and the user agent of a trunk know them apart.
                    503 if !search.is_full && !is_of_trunk && !search.plan.is_to_trunk => {
                        Some(Status::SERVER_INTERNAL_ERROR.into())
                    }
                    401 | 407 if search.was_stripped && challenges.is_empty() => Some(NO_CHALLENGE),
                    _ => None,
                };
                let changes = ResponseChanges {
                    status: changed,
                    challenges: is_challenge.then_some(&challenges),
                    distrusts: Some(env.settings).filter(|_| asks && !is_challenge),
                    ..ResponseChanges::default()
                };
                let status = changed.map_or(status, |line: StatusLine<'_>| line.status.code());
                self.back.pass(self.handle, status, &changes, None, &answer, env);
                if self.begins_call() {
                    call_changes::respond(self.handle, status, None, env);
                }
            }
            Some((503, _)) if is_of_trunk => self.respond(UNDELIVERED, env),
            // The B2BUA tries another trunk.
            Some((503, _)) if search.plan.is_to_trunk => {
                self.respond(Status::SERVICE_UNAVAILABLE, env);
            }
            // An unreachable target says nothing about this server (RFC 3261 section 21.5.4).
            Some((503, _)) => self.respond(Status::TEMPORARILY_UNAVAILABLE, env),
            Some((status, _)) => self.respond(Status(status), env),
            None if self.is_cancelled => self.respond(Status::REQUEST_TERMINATED, env),
            None => self.respond(Status::REQUEST_TIMEOUT, env),
        }
    }

    /// Sends a response that this server generates.
    pub(super) fn respond(&mut self, status: Status, env: &mut Env<'_>) {
        self.with_search(|context, search, request| {
            context.back.respond(request, search.plan.arrived_on.remote, status, env);
        });
        if self.begins_call() {
            call_changes::respond(self.handle, status.code(), None, env);
        }
    }

    /// Sends the last response again. If no response is kept yet, sends a 100.
    pub(super) fn repeat_response(&mut self, env: &mut Env<'_>) {
        if !self.back.repeat(env) && self.kind == TransactionKind::Invite && !self.has_final() {
            env.counters.retransmissions_sent.add();
            self.respond(Status::TRYING, env);
        }
    }
}
