//! The user agent server (RFC 3261 section 8.2): each request is answered once, and a
//! retransmission gets the same response.

use crate::core::Core;
use crate::event::CallId;
use crate::server_transaction::{Answer, Arrival, Asked, Server, ServerKey};
use crate::token::Token;
use alloc::vec::Vec;
use sip::header::NameAddr;
use sip::message::{Response, reason_phrase};
use sip::transaction::{ServerTransaction, State, TimerAction, TransactionKind, server_key};
use sip::{Encode, Flow, HeaderName, Instant, Message, Method};

/// Returns the flow of the response to `request`, which arrived on `flow` (RFC 3261 section
/// 18.2.2).
fn way_back(request: &Message<'_>, flow: &Flow) -> Flow {
    if flow.transport.is_stream() {
        return *flow;
    }
    let address = request.top_via().map(|via| via.response_address(flow.remote));
    Flow { remote: address.unwrap_or(flow.remote), ..*flow }
}

/// True if one of the header field lines is a Content-Type.
fn names_type(lines: &[u8]) -> bool {
    const NAME: &[u8] = b"Content-Type:";
    lines
        .split(|byte| *byte == b'\n')
        .any(|line| line.get(..NAME.len()).is_some_and(|start| start.eq_ignore_ascii_case(NAME)))
}

impl Core {
    /// Processes the arrival of a request other than ACK and CANCEL. `in_dialog` is true for a
    /// request within a local dialog.
    pub(crate) fn arrive(
        &mut self,
        request: &Message<'_>,
        flow: &Flow,
        in_dialog: bool,
    ) -> Arrival {
        let key = self.key_of(request);
        if let Some(server) = self.servers.all.get(key) {
            if server.machine.on_request_retransmission() && !server.response.is_empty() {
                let (flow, response) = (server.flow, server.response.clone());
                self.send(flow, response);
            }
            return Arrival::Done;
        }
        if !self.servers.make_room(in_dialog, self.config.server_transactions) {
            return Arrival::Done;
        }
        let kind = match request.method() {
            Some(Method::Invite) => TransactionKind::Invite,
            _ => TransactionKind::NonInvite,
        };
        let server = Server {
            machine: ServerTransaction::new(kind, flow.transport.is_stream()),
            flow: way_back(request, flow),
            response: Vec::new(),
            status: 0,
            in_dialog,
            call: None,
            merge: (kind == TransactionKind::Invite && !in_dialog)
                .then(|| self.merge_hash(request)),
        };
        self.servers.insert(key, server);
        Arrival::New(key)
    }

    fn key_of(&self, request: &Message<'_>) -> ServerKey {
        ServerKey(server_key(request, |parts| self.tokens.hash(parts)))
    }

    fn merge_hash(&self, request: &Message<'_>) -> u64 {
        use sip::HeaderName::{CSeq, CallId, From};
        let value = |name| request.value(name).unwrap_or_default();
        self.tokens.hash(&[value(From), value(CallId), value(CSeq)])
    }

    /// Returns true if `request`, of the transaction `key`, is merged: the same request has arrived
    /// by another path, and both would ring (RFC 3261 section 8.2.2.2).
    pub(crate) fn is_merged(&self, request: &Message<'_>, key: ServerKey) -> bool {
        self.servers.has_merged(self.merge_hash(request), key)
    }

    /// Returns the transaction of the INVITE that `request` cancels or acknowledges, and its call.
    pub(crate) fn invite_of(&self, request: &Message<'_>) -> Option<(ServerKey, Option<CallId>)> {
        let key = self.key_of(request);
        self.servers.all.get(key).map(|server| (key, server.call))
    }

    /// Processes an ACK. Returns true if it acknowledges a 2xx, which concerns the call.
    pub(crate) fn acknowledge(&mut self, ack: &Message<'_>, now: Instant) -> bool {
        let key = self.key_of(ack);
        let timers = self.config.timers;
        let is_of_call = match self.servers.all.get_mut(key) {
            Some(server) => server.machine.on_ack(&timers, now),
            None => true,
        };
        self.remove_terminated(key);
        is_of_call
    }

    /// Removes a transaction that has ended without a timer, as on a stream.
    fn remove_terminated(&mut self, key: ServerKey) {
        if self.servers.all.get(key).is_some_and(|it| it.machine.state() == State::Terminated) {
            self.servers.remove(key);
        }
    }

    /// Assigns the INVITE of the transaction to a call.
    pub(crate) fn belongs(&mut self, key: ServerKey, call: CallId) {
        if let Some(server) = self.servers.all.get_mut(key) {
            server.call = Some(call);
        }
    }

    /// Answers `request` in its transaction.
    pub(crate) fn respond(
        &mut self,
        request: &Message<'_>,
        flow: &Flow,
        key: ServerKey,
        answer: &Answer<'_>,
        now: Instant,
    ) {
        let mut bytes = Vec::new();
        self.write_response(request, flow, answer, &mut bytes);
        let timers = self.config.timers;
        let Some(server) = self.servers.all.get_mut(key) else { return };
        if server.machine.on_response(answer.status, &timers, now) {
            let flow = server.flow;
            self.servers.note_response(key, answer.status, &bytes);
            self.send(flow, bytes);
        }
        self.remove_terminated(key);
    }

    /// Answers the request `asked` in its transaction.
    pub(crate) fn respond_to(&mut self, asked: &Asked, answer: &Answer<'_>, now: Instant) {
        if let Ok(request) = Message::parse(&asked.request) {
            self.respond(&request, &asked.flow, asked.key, answer, now);
        }
    }

    /// Returns the tag of responses outside of a dialog, which is constant for a transaction (RFC
    /// 3261 section 8.2.7).
    pub(crate) fn tag_of(&self, ServerKey(key): ServerKey) -> Vec<u8> {
        let mut tag = Vec::new();
        Token(self.tokens.hash(&[b"tag", &key.to_le_bytes()])).encode(&mut tag);
        tag
    }

    /// Returns the tag in To of the last response in the transaction `key`, which a response to its
    /// CANCEL has, too (RFC 3261 section 9.2).
    pub(crate) fn tag_of_response(&self, key: ServerKey) -> Vec<u8> {
        let response = self.servers.all.get(key).map(|server| &server.response[..]);
        let response = response.and_then(|response| Message::parse(response).ok());
        let to = response.as_ref().and_then(|response| response.value(HeaderName::To));
        let to = to.and_then(|to| NameAddr::parse(HeaderName::To, to).ok());
        to.and_then(|to| to.tag()).map_or_else(|| self.tag_of(key), <[u8]>::to_vec)
    }

    /// Answers a request without keeping its transaction, as a stateless server does (RFC 3261
    /// section 8.2.7): a retransmission gets the same response. It is never retransmitted on a
    /// timer, since the source of a datagram proves nothing.
    pub(crate) fn respond_statelessly(
        &mut self,
        request: &Message<'_>,
        flow: &Flow,
        key: ServerKey,
        status: u16,
        lines: &[u8],
    ) {
        self.servers.remove(key);
        let tag = self.tag_of(key);
        let answer = Answer { status, tag: &tag, lines, body: b"" };
        self.respond_once(request, flow, &answer);
    }

    /// Sends the last response of a transaction again: a 2xx without an ACK.
    pub(crate) fn send_again(&mut self, key: ServerKey) {
        if let Some(server) = self.servers.all.get(key) {
            let (flow, response) = (server.flow, server.response.clone());
            self.send(flow, response);
        }
    }

    /// Answers a request without a transaction: a CANCEL, or a malformed request.
    pub(crate) fn respond_once(&mut self, request: &Message<'_>, flow: &Flow, answer: &Answer<'_>) {
        let mut bytes = Vec::new();
        self.write_response(request, flow, answer, &mut bytes);
        self.send(way_back(request, flow), bytes);
    }

    fn write_response(
        &self,
        request: &Message<'_>,
        flow: &Flow,
        answer: &Answer<'_>,
        out: &mut Vec<u8>,
    ) {
        let Answer { status, tag, lines, body } = *answer;
        let response = Response {
            request,
            source: flow.remote,
            status,
            reason: reason_phrase(status),
            to_tag: (status > 100).then_some(tag),
        };
        let fields = |out: &mut Vec<u8>| {
            out.extend_from_slice(lines);
            if !body.is_empty() && !names_type(lines) {
                out.extend_from_slice(b"Content-Type: application/sdp\r\n");
            }
        };
        response.write_with_body(out, fields, body);
    }

    /// Processes the due timer of a server transaction: its response is retransmitted, or an old
    /// transaction is removed.
    pub(crate) fn poll_server(&mut self, key: ServerKey, now: Instant) {
        let timers = self.config.timers;
        loop {
            let Some(server) = self.servers.all.take_due(key) else { return };
            match server.machine.poll(&timers, now) {
                TimerAction::None => return,
                TimerAction::Retransmit => self.send_again(key),
                TimerAction::TimedOut | TimerAction::Terminated => drop(self.servers.remove(key)),
            }
        }
    }
}
