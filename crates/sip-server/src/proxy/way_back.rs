//! The way back of a request in a context: its server transaction, the responses that were sent on
//! it, and where they go (RFC 3261 sections 16.7, 17.2 and 18.2.2).

use super::forward::ResponseChanges;
use super::plan::Plan;
use super::record_route::token_for_sender;
use super::search::MOST_UNASKED;
use super::token::Life;
use super::via_branch::Handle;
use crate::dialogs::Place;
use crate::event::Env;
use crate::flow::Flow;
use crate::timings::{Step, timed};
use alloc::vec::Vec;
use core::net::SocketAddr;
use sip::header::Via;
use sip::message::Response;
use sip::transaction::{Kind, ServerTransaction, State};
use sip::{HeaderName, Message, Status};

/// What became of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// It fits nothing that was sent.
    Nothing,
    /// It was taken.
    Noted,
    /// It is a 2xx, and went back to the sender of the request. Its answerer may have moved since
    /// it rang.
    Success { moved: Option<Place> },
}

/// What went back.
pub(super) struct Passed {
    /// Where the answerer is, where that is not what it said when it rang.
    pub(super) moved: Option<Place>,
}

/// The way back of a request.
pub(super) struct WayBack {
    pub(super) server: ServerTransaction,
    kind: Kind,
    /// Where responses go.
    flow: Flow,
    /// The port in the Via of a request that came on a connection, where responses go when that is
    /// gone.
    port: u16,
    /// The last response that was sent back, as long as it may have to be sent again.
    last_response: Vec<u8>,
    /// Where the token led that the last provisional response had.
    early: Option<Place>,
    /// Bytes of the request, each time that it came.
    received: usize,
    /// Bytes of responses that were sent back.
    returned: usize,
}

impl WayBack {
    pub(super) fn new(kind: Kind, request: &Message<'_>, plan: &Plan) -> Self {
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
        }
    }

    /// The memory that it takes beside itself.
    pub(super) fn bytes(&self) -> usize {
        self.last_response.capacity()
    }

    /// The request came again, with this many bytes. True where the last response is to be sent
    /// again.
    pub(super) fn on_retransmission(&mut self, length: usize) -> bool {
        self.received += length;
        self.server.on_request_retransmission()
    }

    /// Sends a response of another server back, changed by `changes`, and with a token for the
    /// sender, which names the connection that was `opened` for the request and on which the
    /// response came. `None` where it goes nowhere.
    pub(super) fn pass(
        &mut self,
        handle: Handle,
        status: u16,
        changes: &ResponseChanges<'_>,
        opened: Option<Flow>,
        response: &Message<'_>,
        env: &mut Env<'_>,
    ) -> Option<Passed> {
        let timers = &env.settings.config.timers;
        let is_success = self.kind == Kind::Invite && (200..300).contains(&status);
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
        let token = token_for_sender(response, status, Life::Transaction(handle), opened, env);
        let record_route = token.record_route();
        // Some phones keep the routes that they learnt when it rang.
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

    /// Sends a response of our own to `request`, which came from `source`.
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
        // A 100 is quickly made again.
        if status > Status::TRYING {
            self.keep(status.code(), &env.out.bytes[range]);
        }
    }

    /// Sends the last response again. False where none is kept.
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

    /// Whether the Via of the sender is as it was in the port: should the connection be gone, the
    /// response goes there.
    pub(super) fn has_port(&self, response: &Message<'_>) -> bool {
        if !self.flow.transport.is_stream() {
            return true;
        }
        let via = response.elements(HeaderName::Via).nth(1).map(Via::parse);
        matches!(via, Some(Ok(via)) if via.port_or_default() == self.port)
    }

    /// Whether a response of this length may go back once more. The sender's address may be forged,
    /// as long as nothing shows that responses arrive there.
    fn may_repeat(&self, length: usize, env: &Env<'_>) -> bool {
        let may =
            env.is_asked(&self.flow) || self.returned + length <= MOST_UNASKED * self.received;
        if !may {
            env.counters.unasked.add();
        }
        may
    }

    /// A 2xx to an INVITE is sent again by the one who made it.
    fn keep(&mut self, status: u16, bytes: &[u8]) {
        self.last_response.clear();
        if self.kind == Kind::NonInvite || !(200..300).contains(&status) {
            self.last_response.extend_from_slice(bytes);
        } else {
            self.last_response = Vec::new();
        }
    }
}
