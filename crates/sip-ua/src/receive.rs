//! The dispatch of received messages, and of other input, to transactions, calls and registrations.

use crate::admission;
use crate::agent::Agent;
use crate::call::{Call, refuse_answer};
use crate::capabilities::{self, ALLOW};
use crate::client_transaction::{Owner, RequestResult};
use crate::event::{Failure, Ticket};
use crate::message::ACCEPT;
use crate::server_transaction::{Answer, Arrival, Asked, ServerKey};
use crate::summary::ALLOW_EVENTS;
use core::net::SocketAddr;
use sip::message::FramingFault;
use sip::{Flow, Instant, Location, Message, Method, Transport};

impl Agent {
    /// Processes a datagram, or a message from a stream, that arrived on `flow`. Until the owner
    /// polls the outputs, peers can cause at most [`Config::server_transactions`] pending messages
    /// and events each. Messages beyond that are dropped, except final responses.
    ///
    /// [`Config::server_transactions`]: crate::Config::server_transactions
    pub fn receive(&mut self, now: Instant, flow: &Flow, bytes: &[u8]) {
        if let Ok(message) = Message::parse(bytes) {
            self.receive_message(now, flow, &message);
        }
    }

    /// Like [`Agent::receive`], for a message that the owner has parsed.
    pub fn receive_message(&mut self, now: Instant, flow: &Flow, message: &Message<'_>) {
        // Values copied from such a message would break the lines of sent messages.
        if message.framing_fault() == Some(FramingFault::LineEnd) {
            return;
        }
        let is_final = message.status().is_some_and(|status| status >= 200);
        if !is_final && self.core.is_full() {
            return;
        }
        if message.status().is_some() {
            if !admission::is_sound(message) {
                return;
            }
            if let Some(result) = self.core.on_response(message, now) {
                self.on_result(result, now);
            }
        } else {
            self.on_request(message, flow, now);
        }
        self.settle(now);
    }

    /// Processes a delivery failure of a message from [`Agent::poll_transmit`], with the reason
    /// `failure`. The beginning of `bytes` is sufficient, if it includes Via.
    pub fn undeliverable(&mut self, now: Instant, bytes: &[u8], failure: Failure) {
        if self.core.acknowledge_again(bytes).is_none()
            && let Some(result) = self.core.on_undeliverable(bytes, failure, now)
        {
            self.on_result(result, now);
        }
        self.settle(now);
    }

    /// Processes the end of a connection to `remote`. An account that is registered through it is
    /// no longer reachable, and registers again.
    pub fn closed(&mut self, now: Instant, transport: Transport, remote: SocketAddr) {
        for registration in self.registrations.values_mut() {
            registration.on_closed(&mut self.core, transport, remote, now);
        }
        self.settle(now);
    }

    /// Passes the answer to [`Event::Locate`]: the locations of the destination in order of
    /// preference. Empty if it is not located. Those without a local address are not used.
    ///
    /// [`Event::Locate`]: crate::Event::Locate
    pub fn located(&mut self, now: Instant, ticket: Ticket, locations: &[Location]) {
        if self.core.acknowledge_at(ticket, locations).is_none()
            && let Some(result) = self.core.on_located(ticket, locations, now)
        {
            self.on_result(result, now);
        }
        self.settle(now);
    }

    /// Processes the result of a local request.
    pub(crate) fn on_result(&mut self, result: RequestResult<'_>, now: Instant) {
        match result.owner {
            Owner::Registration(account) => {
                if let Some(registration) = self.registrations.get_mut(account) {
                    registration.on_result(&mut self.core, &result, now);
                }
            }
            Owner::Call(call) => match self.calls.get_mut(call) {
                Some(call) => call.on_result(&mut self.core, result, now),
                None => self.on_stray_response(&result, now),
            },
            #[cfg(feature = "messages")]
            Owner::Messages(account) => {
                if let Some(registration) = self.registrations.get_mut(account) {
                    registration.messages.on_result(&result, now);
                }
            }
            Owner::Message(message) => self.core.on_message_result(message, &result),
            Owner::Options(request) => self.core.on_options_result(request, &result),
            Owner::Passed(request) => self.core.on_passed_result(request, &result),
            Owner::None => self.on_stray_response(&result, now),
        }
    }

    /// Processes a late response to a request of a call that is over: a 2xx to an INVITE is
    /// acknowledged and ended by BYE.
    fn on_stray_response(&mut self, result: &RequestResult<'_>, now: Instant) {
        refuse_answer(&mut self.core, None, result, now);
    }

    fn on_request(&mut self, request: &Message<'_>, flow: &Flow, now: Instant) {
        let head = match request.validate_request() {
            Ok(head) => head,
            Err(fault) => {
                if request.method() != Some(Method::Ack) {
                    let answer = Answer::status(fault.status(), b"bad");
                    self.core.respond_once(request, flow, &answer);
                }
                return;
            }
        };
        match head.method {
            Method::Ack => return self.on_ack(request, now),
            Method::Cancel => return self.on_cancel(request, flow, now),
            _ => {}
        }
        let has_tag = head.to.tag().is_some();
        let call = self.calls.of(&self.core, request).filter(|_| has_tag);
        let Arrival::New(key) = self.core.arrive(request, flow, call.is_some()) else { return };
        let unsupported = capabilities::unsupported_lines(&self.core.config, request);
        match call {
            Some(call) if !unsupported.is_empty() => {
                let tag = call.local_tag();
                let answer = Answer { status: 420, tag: &tag, lines: &unsupported, body: b"" };
                self.core.respond(request, flow, key, &answer, now);
            }
            Some(call) => call.on_request(&mut self.core, request, flow, key, now),
            None if !unsupported.is_empty() => self.reply(request, flow, key, 420, &unsupported),
            #[cfg(feature = "messages")]
            None if has_tag && head.method == Method::Notify => {
                self.on_notify(request, flow, key, now);
            }
            None if has_tag => self.reply(request, flow, key, 481, b""),
            None => self.on_new_request(request, flow, key, now),
        }
    }

    /// Processes a NOTIFY within a dialog that is no call.
    #[cfg(feature = "messages")]
    fn on_notify(&mut self, notify: &Message<'_>, flow: &Flow, key: ServerKey, now: Instant) {
        let found = self.registrations.values_mut().find(|it| it.messages.has(notify));
        let status = found.map(|it| it.messages.on_notify(&mut self.core, notify, now));
        let Some(status) = status else { return self.reply(notify, flow, key, 481, b"") };
        // The transaction is kept: a retransmission would be reported again.
        let tag = self.core.tag_of(key);
        self.core.respond(notify, flow, key, &Answer::status(status, &tag), now);
    }

    fn on_ack(&mut self, ack: &Message<'_>, now: Instant) {
        if !self.core.acknowledge(ack, now) {
            return;
        }
        if let Some(call) = self.calls.of(&self.core, ack) {
            call.on_ack(&mut self.core, ack, now);
        }
    }

    fn on_cancel(&mut self, cancel: &Message<'_>, flow: &Flow, now: Instant) {
        let Some((key, call)) = self.core.invite_of(cancel) else {
            return self.core.respond_once(cancel, flow, &Answer::status(481, b"none"));
        };
        let call = call.and_then(|call| self.calls.get_mut(call));
        let tag = match &call {
            Some(call) => call.local_tag(),
            None => self.core.tag_of_response(key),
        };
        self.core.respond_once(cancel, flow, &Answer::status(200, &tag));
        if let Some(call) = call {
            call.on_cancel(&mut self.core, cancel, key, now);
        }
    }

    /// Processes a request outside of any dialog.
    fn on_new_request(&mut self, request: &Message<'_>, flow: &Flow, key: ServerKey, now: Instant) {
        let begins =
            matches!(request.method(), Some(Method::Invite | Method::Message | Method::Notify));
        if begins && !self.core.admits(flow) {
            return self.reply(request, flow, key, 403, b"");
        }
        match request.method() {
            Some(Method::Invite) => self.on_invite(request, flow, key, now),
            Some(Method::Options) => {
                let lines = [ALLOW, b"Accept: application/sdp\r\n"].concat();
                self.reply(request, flow, key, 200, &lines);
            }
            Some(Method::Message) => {
                let account = self.core.account_of(request);
                match self.core.on_message(account, request, flow) {
                    // The transaction is kept: a retransmission would be reported again.
                    200 => {
                        let tag = self.core.tag_of(key);
                        let answer = Answer::status(200, &tag);
                        self.core.respond(request, flow, key, &answer, now);
                    }
                    status => self.reply(request, flow, key, status, ACCEPT),
                }
            }
            Some(Method::Notify) => match self.core.on_unasked_notify(request) {
                // The transaction is kept: a retransmission would be reported again.
                200 => {
                    let tag = self.core.tag_of(key);
                    self.core.respond(request, flow, key, &Answer::status(200, &tag), now);
                }
                status => self.reply(request, flow, key, status, ALLOW_EVENTS),
            },
            Some(Method::Bye | Method::Info | Method::Update | Method::Prack) => {
                self.reply(request, flow, key, 481, b"");
            }
            Some(Method::Other(_)) | None => self.reply(request, flow, key, 501, b""),
            Some(_) => self.reply(request, flow, key, 405, ALLOW),
        }
    }

    fn on_invite(&mut self, invite: &Message<'_>, flow: &Flow, key: ServerKey, now: Instant) {
        let replaces = match admission::admit(&self.core, &self.calls, invite, key) {
            Ok(replaces) => replaces,
            Err(status) => return self.reply(invite, flow, key, status, b""),
        };
        let account = self.core.account_of(invite);
        let id = self.core.new_call();
        let asked = Asked { request: invite.as_bytes().to_vec(), flow: *flow, key };
        match Call::take(&mut self.core, id, account, invite, asked, replaces, now) {
            Ok(call) => self.calls.insert(call),
            Err((status, lines)) => self.reply(invite, flow, key, status, &lines),
        }
    }

    /// Answers a request outside of any dialog without keeping state.
    fn reply(
        &mut self,
        request: &Message<'_>,
        flow: &Flow,
        key: ServerKey,
        status: u16,
        lines: &[u8],
    ) {
        self.core.respond_statelessly(request, flow, key, status, lines);
    }
}
