//! The upstream side of a context: its server transaction, the responses that were sent, and their
//! destination (RFC 3261 sections 16.7, 17.2 and 18.2.2).

use super::dialogs::Place;
use super::forward::ResponseChanges;
use super::plan::Plan;
use super::record_route::token_for_sender;
use super::token::Life;
use super::via_branch::Answer;
use crate::core::event::{Env, MOST_UNASKED};
use crate::core::flow::Flow;
use crate::core::ticket::Handle;
use crate::core::timings::{Step, timed};
use crate::core::traffic::Attempt;
use alloc::vec::Vec;
use core::net::SocketAddr;
use sip::header::Via;
use sip::message::Response;
use sip::transaction::{ServerTransaction, State, TransactionKind};
use sip::{HeaderName, Message, Status};

/// The result of handling a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseOutcome {
    /// The response matches no request.
    Unmatched,
    /// The response was accepted.
    Accepted,
    /// The response is a 2xx and was forwarded. The answerer may have moved since its provisional
    /// response.
    Success { moved: Option<Place> },
}

/// A response that was forwarded.
pub(super) struct Passed {
    /// The place of the answerer, if it differs from that in its provisional response.
    pub(super) moved: Option<Place>,
}

/// The upstream side of a request.
pub(super) struct WayBack {
    pub(super) server: ServerTransaction,
    kind: TransactionKind,
    /// The flow that responses are sent on.
    flow: Flow,
    /// The port in the Via of a request that came on a connection. Responses go to it after the
    /// connection has ended.
    port: u16,
    /// The last response that was sent, while it may have to be retransmitted.
    last_response: Vec<u8>,
    /// The destination of the token in the last provisional response.
    early: Option<Place>,
    /// Bytes of the request and its retransmissions.
    received: usize,
    /// Bytes of the responses that were sent.
    returned: usize,
    attempt: Attempt,
}

impl WayBack {
    /// The upstream side of `request`. `is_initial` is true if it is outside of a dialog.
    pub(super) fn new(
        kind: TransactionKind,
        request: &Message<'_>,
        is_initial: bool,
        plan: &Plan,
        env: &Env<'_>,
    ) -> Self {
        let is_stream = plan.upstream.transport.is_stream();
        Self {
            server: ServerTransaction::new(kind, is_stream),
            kind,
            flow: plan.upstream,
            port: match is_stream {
                true => request.top_via().map_or(0, |via| via.port_or_default()),
                false => 0,
            },
            last_response: Vec::new(),
            early: None,
            received: plan.received,
            returned: 0,
            attempt: Attempt::new(request, &plan.upstream, is_initial, env.now - env.waited),
        }
    }

    /// The flow that responses are sent on.
    pub(super) const fn flow(&self) -> &Flow {
        &self.flow
    }

    /// The final response that was sent, if it may have to be sent again.
    pub(super) fn last_response(&self) -> &[u8] {
        &self.last_response
    }

    /// The memory on the heap, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.last_response.capacity()
    }

    /// Handles a retransmission of the request of `length` bytes. Returns true if the last response
    /// must be sent again.
    pub(super) fn on_retransmission(&mut self, length: usize) -> bool {
        self.received += length;
        self.server.on_request_retransmission()
    }

    /// Forwards a response with `changes` and with a token for the sender. The token names the
    /// connection that was `opened` for the request, if the response came on it. Returns `None` if
    /// the response is not forwarded.
    pub(super) fn pass(
        &mut self,
        handle: Handle,
        status: u16,
        changes: &ResponseChanges<'_>,
        opened: Option<Flow>,
        answer: &Answer<'_, '_>,
        env: &mut Env<'_>,
    ) -> Option<Passed> {
        let response = answer.message;
        let timers = &env.settings.config.timers;
        let is_success = self.kind == TransactionKind::Invite && (200..300).contains(&status);
        let late_success = is_success
            && matches!(
                self.server.state(),
                State::Completed | State::Confirmed | State::Terminated
            );
        let is_repetition = is_success && self.server.state() == State::Accepted;
        if !self.server.on_response(status, timers, env.now) && !late_success {
            return None;
        }
        if is_repetition && !self.may_repeat(response.as_bytes().len(), env) {
            return None;
        }
        if !is_repetition {
            env.counters.traffic.response(&mut self.attempt, status, env.now);
        }
        let token = token_for_sender(answer, status, Life::Transaction(handle), opened, env);
        let record_route = token.record_route();
        // Some phones keep the route set of the provisional response.
        let place = token.place();
        let moved = place.filter(|place| self.early.is_some_and(|early| early != *place));
        if status < 200 {
            self.early = place.or(self.early);
        }
        let changes = ResponseChanges { record_route, ..*changes };
        let range = env.out.send(self.flow, |bytes| changes.write(response, bytes));
        let range = range.unwrap_or_default();
        self.returned += range.len();
        self.keep(status, &env.out.bytes[range]);
        Some(Passed { moved })
    }

    /// Sends a response of this server to `request`, which came from `source`.
    pub(super) fn respond(
        &mut self,
        request: &Message<'_>,
        source: SocketAddr,
        status: Status,
        env: &mut Env<'_>,
    ) {
        if !self.server.on_response(status.code(), &env.settings.config.timers, env.now) {
            return;
        }
        env.counters.traffic.response(&mut self.attempt, status.code(), env.now);
        let tag = (status > Status::TRYING).then(|| env.to_tag(request));
        let response = Response {
            request,
            source,
            status: status.code(),
            reason: status.reason_phrase(),
            to_tag: tag.as_ref().map(|tag| &tag[..]),
        };
        let range = timed(env.stopwatch, Step::FormatResponse, || {
            env.out.send(self.flow, |bytes| response.write(bytes, |_| {}))
        });
        let range = range.unwrap_or_default();
        self.returned += range.len();
        // A 100 is not stored, because it is cheap to generate again.
        if status > Status::TRYING {
            self.keep(status.code(), &env.out.bytes[range]);
        }
    }

    /// Sends the last response again. Returns false if no response is kept and a new one may be
    /// sent.
    pub(super) fn repeat(&mut self, env: &mut Env<'_>) -> bool {
        if self.last_response.is_empty() {
            return !self.may_repeat(0, env);
        }
        if self.may_repeat(self.last_response.len(), env) {
            env.counters.retransmissions_sent.add();
            env.out.send(self.flow, |bytes| bytes.extend_from_slice(&self.last_response));
            self.returned += self.last_response.len();
        }
        true
    }

    /// True if the port in the Via of the sender is unchanged. The response goes to that port if
    /// the connection has ended.
    pub(super) fn has_port(&self, response: &Message<'_>) -> bool {
        if !self.flow.transport.is_stream() {
            return true;
        }
        let via = response.elements(HeaderName::Via).nth(1).map(Via::parse);
        matches!(via, Some(Ok(via)) if via.port_or_default() == self.port)
    }

    /// True if a response of this length may be sent once more. The source address may be forged,
    /// as long as there is no sign that responses arrive there.
    fn may_repeat(&self, length: usize, env: &Env<'_>) -> bool {
        let may =
            env.is_asked(&self.flow) || self.returned + length <= MOST_UNASKED * self.received;
        if !may {
            env.counters.unasked.add();
        }
        may
    }

    /// Stores the response for retransmission. A 2xx to an INVITE is not stored: its user agent
    /// server retransmits it.
    fn keep(&mut self, status: u16, bytes: &[u8]) {
        self.last_response.clear();
        if self.kind == TransactionKind::NonInvite || !(200..300).contains(&status) {
            self.last_response.extend_from_slice(bytes);
        } else {
            self.last_response = Vec::new();
        }
    }
}
