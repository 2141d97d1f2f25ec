//! Offers and answers within a dialog, early or not (RFC 3264, RFC 3311, RFC 6337), and their
//! order.

use super::ack::acknowledge;
use super::error::{CallError, CallState};
use super::exchange::{Offer, Sent, Turn, Waiting, cseq_of, session_of};
use super::reliable::prack;
use super::state::{Call, State, Unacknowledged};
use super::timer::{SessionTimer, agree, too_brief};
use crate::capabilities;
use crate::client_transaction::{Owner, RequestResult};
use crate::core::{Core, contact};
use crate::draft::Draft;
use crate::envelope::Envelope;
use crate::event::{Event, Failure};
use crate::server_transaction::{Answer, Asked, ServerKey};
use crate::violation::Violation;
use alloc::vec::Vec;
use sip::header::retry_after;
use sip::{Duration, Encode, Flow, HeaderName, Instant, Message, Method};

/// The maximum number of attempts of one offer that the other end defers.
const MAX_TRIES: u32 = 5;

/// The time without an answer after which a re-INVITE gets a 100 (RFC 3261 section 17.2.1).
const TRYING_AFTER: Duration = Duration::from_millis(200);

/// The maximum of Retry-After that is respected.
const LONGEST_WAIT: Duration = Duration::from_secs(32);

impl Call {
    /// Processes a re-INVITE or UPDATE: a change of the session, or of the remote target (RFC 3261
    /// section 14.2, RFC 3311 section 5.2).
    pub(super) fn on_change(
        &mut self,
        core: &mut Core,
        request: &Message<'_>,
        flow: &Flow,
        key: ServerKey,
        now: Instant,
    ) {
        let tag = self.local_tag();
        let is_invite = request.method() == Some(Method::Invite);
        if is_invite && let State::Established(established) = &mut self.state {
            // The other end has the answer, although the ACK is missing (RFC 5407 section 3.1.4).
            let is_known = established.unacknowledged.take_if(|answer| !answer.wants_answer);
            established.is_confirmed |= is_known.is_some();
        }
        let waits = self.waits_for_peer();
        let is_established = matches!(self.state, State::Established(_));
        if is_established && let Some(lines) = too_brief(&core.config, request) {
            let answer = Answer { status: 422, tag: &tag, lines: &lines, body: b"" };
            return core.respond(request, flow, key, &answer, now);
        }
        let Some((dialog, exchange)) = self.parts_of(request) else { return };
        exchange.note_allow(request);
        let offer = session_of(request);
        if !is_invite && offer.is_none() {
            dialog.refresh_target(request);
            self.way = None;
            return self.respond_with_session(core, request, (flow, key), (b"", None), now);
        }
        let refused = match exchange.offer {
            Offer::Ours => Some(491),
            // The previous offer is not yet answered.
            Offer::Theirs => Some(500),
            Offer::None if waits || (is_invite && !is_established) => Some(500),
            Offer::None => None,
        };
        if let Some(status) = refused {
            let mut lines = Vec::new();
            if status == 500 {
                ("Retry-After: ", core.tokens.below(11), "\r\n").encode(&mut lines);
            }
            let answer = Answer { status, tag: &tag, lines: &lines, body: b"" };
            return core.respond(request, flow, key, &answer, now);
        }
        self.ask_owner(core, request, flow, key, offer, now);
    }

    /// Asks the owner for the answer to `offer` of `request`, or for an offer.
    pub(super) fn ask_owner(
        &mut self,
        core: &mut Core,
        request: &Message<'_>,
        flow: &Flow,
        key: ServerKey,
        offer: Option<Vec<u8>>,
        now: Instant,
    ) {
        let id = self.id;
        let Some((_, exchange)) = self.parts_of(request) else { return };
        core.belongs(key, id);
        let trying = (request.method() == Some(Method::Invite)).then(|| now + TRYING_AFTER);
        exchange.offer = Offer::Theirs;
        let asked = Asked { request: request.as_bytes().to_vec(), flow: *flow, key };
        exchange.turn = Some(Turn::Response(asked, trying));
        self.make_current(request);
        core.note_received(self.id, request);
        core.tell(Event::Offer { call: self.id, offer });
    }

    /// Accepts the requested change with `session`: an answer, or an offer if the request has none.
    /// `envelope` is the body around it.
    pub(crate) fn accept(
        &mut self,
        core: &mut Core,
        session: &[u8],
        envelope: Option<Envelope>,
        now: Instant,
    ) -> Result<(), CallError> {
        let (id, account) = (self.id, self.account);
        let none = CallError::State(CallState::OfferReceived);
        let (_, exchange) = self.asked().ok_or(none)?;
        // The deferred offer is older than this description: the owner makes it again.
        match exchange.waiting.take_if(|waiting| waiting.tries == 0) {
            Some(_) => {
                core.tell(Event::Moved { call: id });
                self.is_moved = true;
            }
            None => {
                if let Some(waiting) = &mut exchange.waiting {
                    waiting.is_outdated = true;
                }
            }
        }
        let (dialog, exchange) = self.asked().ok_or(none)?;
        let Some(turn) = exchange.turn.take() else { return Err(none) };
        exchange.local = session.to_vec();
        let asked = match turn {
            Turn::Response(asked, _) => asked,
            Turn::Prack(cseq, rseq) => {
                exchange.settle();
                let mut prack = prack(account, dialog, cseq, rseq, session.to_vec());
                prack.put_in(envelope.as_ref());
                let way = self.way_to(prack.dialog.next_hop());
                core.request(prack, Owner::Call(id), way, now);
                return Ok(());
            }
            Turn::Ack(accepted) => {
                exchange.settle();
                acknowledge(core, id, dialog, accepted, None, (session, envelope));
                return Ok(());
            }
        };
        let Ok(request) = Message::parse(&asked.request) else { return Err(CallError::Unknown) };
        dialog.refresh_target(&request);
        match session_of(&request) {
            Some(offer) => {
                exchange.remote = offer;
                exchange.settle();
            }
            None => exchange.offer = Offer::Ours,
        }
        let wants_answer = exchange.offer == Offer::Ours;
        if let State::Established(established) = &mut self.state
            && request.method() == Some(Method::Invite)
        {
            let cseq = cseq_of(&request);
            let timers = &core.config.timers;
            let mut answer = Unacknowledged::new(asked.key, cseq, wants_answer, timers, now);
            answer.is_astray = self.is_moved;
            established.unacknowledged = Some(answer);
        }
        self.way = None;
        let content = (session, envelope.as_ref());
        self.respond_with_session(core, &request, (&asked.flow, asked.key), content, now);
        self.go_on(core, now);
        Ok(())
    }

    /// Rejects the requested change, with the header field lines `lines` in the response. The
    /// session is unchanged: an offer in a 2xx is answered with the description as before. A call
    /// without a first session ends.
    pub(crate) fn refuse(
        &mut self,
        core: &mut Core,
        status: u16,
        lines: &[u8],
        now: Instant,
    ) -> Result<(), CallError> {
        let tag = self.local_tag();
        let (_, exchange) = self.asked().ok_or(CallError::State(CallState::OfferReceived))?;
        let local = exchange.local.clone();
        if exchange.is_settled && matches!(exchange.turn, Some(Turn::Ack(..))) {
            return self.accept(core, &local, None, now);
        }
        exchange.offer = Offer::None;
        match exchange.turn.take() {
            Some(Turn::Response(asked, _)) => {
                let answer = Answer { status, tag: &tag, lines, body: b"" };
                core.respond_to(&asked, &answer, now);
                self.go_on(core, now);
            }
            turn => {
                exchange.turn = turn;
                self.hang_up(core, b"", now);
            }
        }
        Ok(())
    }

    pub(super) fn respond_with_session(
        &mut self,
        core: &mut Core,
        request: &Message<'_>,
        (flow, key): (&Flow, ServerKey),
        (session, envelope): (&[u8], Option<&Envelope>),
        now: Instant,
    ) {
        let tag = self.local_tag();
        let user = core.contact_user(self.account);
        let mut lines = Vec::new();
        (
            "Contact: ",
            contact(&user, flow, request.request_uri().unwrap_or_default()),
            "\r\n",
            capabilities::lines(&core.config),
        )
            .encode(&mut lines);
        if request.method() != Some(Method::Prack)
            && let State::Established(established) = &mut self.state
            && let Some((agreed, timer)) = agree(&core.config, request)
        {
            lines.extend(timer);
            established.timer = Some(SessionTimer::start(agreed, now));
        }
        lines.extend(envelope.map(Envelope::fields).unwrap_or_default());
        let body = envelope.map_or_else(|| session.to_vec(), |it| it.around(session));
        let answer = Answer { status: 200, tag: &tag, lines: &lines, body: &body };
        core.respond(request, flow, key, &answer, now);
    }

    /// Returns true if the re-INVITE with the transaction `key` waits for the owner's decision.
    pub(super) fn waits_for_answer(&mut self, key: ServerKey) -> bool {
        let is_meant = |turn: &Turn| matches!(turn, Turn::Response(asked, _) if asked.key == key);
        self.asked().is_some_and(|(_, exchange)| exchange.turn.as_ref().is_some_and(is_meant))
    }

    /// Sends a 100 to a re-INVITE without an answer when due. From then on the other end may send a
    /// CANCEL.
    pub(super) fn poll_trying(&mut self, core: &mut Core, now: Instant) {
        let turn = self.asked().and_then(|(_, exchange)| exchange.turn.as_mut());
        let Some(Turn::Response(asked, trying)) = turn else { return };
        if trying.take_if(|at| *at <= now).is_some() {
            core.respond_to(asked, &Answer::status(100, b""), now);
        }
    }

    /// Cancels the pending local offer in a re-INVITE (RFC 3261 section 9.1).
    pub(crate) fn cancel_offer(&mut self, core: &mut Core, now: Instant) -> Result<(), CallError> {
        let none = CallError::State(CallState::OfferSent);
        let exchange = &mut self.established().map_err(|_| none)?.exchange;
        let sent = exchange.sent.as_mut().filter(|sent| !sent.is_refresh).ok_or(none)?;
        // An UPDATE that was sent before the answer cannot be cancelled.
        if core.clients.method_of(sent.id) != Some(Method::Invite) {
            return Err(none);
        }
        // It is not repeated after another rejection.
        sent.tries = MAX_TRIES;
        if !core.cancel_request(sent.id, b"", now) {
            exchange.sent = None;
            exchange.offer = Offer::None;
            core.tell(Event::OfferFailed { call: self.id, failure: Failure::cancelled() });
        }
        Ok(())
    }

    /// Returns true if a new session may be offered at once in an established call.
    pub(crate) fn may_offer(&self) -> bool {
        matches!(self.state, State::Established(_)) && self.is_free()
    }

    /// Returns true if a new session may be offered at once before the answer: the first one is
    /// settled, and the other end supports UPDATE (RFC 3311 section 5.1).
    pub(crate) fn may_offer_early(&self) -> bool {
        let is_early = !matches!(self.state, State::Established(_));
        let may = self.current().is_some_and(|it| it.is_settled && it.takes_update);
        is_early && may && self.is_free()
    }

    /// Offers `session`, in the body `envelope`, on behalf of another party, which makes it again
    /// itself if it is deferred. `lines` are further header field lines.
    pub(crate) fn offer_once(
        &mut self,
        core: &mut Core,
        session: Vec<u8>,
        envelope: Option<Envelope>,
        lines: &[u8],
        now: Instant,
    ) -> Result<(), CallError> {
        if !self.may_offer() && !self.may_offer_early() {
            return Err(CallError::OfferPending);
        }
        self.send_offer(core, session, envelope, lines, MAX_TRIES, now);
        Ok(())
    }

    /// Requests an offer of the other end, on behalf of another party, with the body `envelope` and
    /// the further header field lines `lines`.
    pub(crate) fn ask_once(
        &mut self,
        core: &mut Core,
        envelope: Option<Envelope>,
        lines: &[u8],
        now: Instant,
    ) -> Result<(), CallError> {
        if !self.is_established() {
            return Err(CallError::State(CallState::Established));
        }
        self.offer_once(core, Vec::new(), envelope, lines, now)
    }

    /// Offers a new session, such as a hold, another codec, or another address.
    pub(crate) fn offer(
        &mut self,
        core: &mut Core,
        session: Vec<u8>,
        now: Instant,
    ) -> Result<(), CallError> {
        let is_early = !matches!(self.state, State::Established(_));
        let none = CallError::State(CallState::Settled);
        let (_, exchange) = self.current_mut().ok_or(none)?;
        if is_early && !(exchange.is_settled && exchange.takes_update) {
            return Err(none);
        }
        if let Some(waiting) = &mut exchange.waiting {
            // The new session replaces the deferred offer.
            waiting.session = session;
            waiting.is_outdated = false;
            return Ok(());
        }
        if !self.is_free() && !self.is_moved {
            return Err(CallError::OfferPending);
        }
        if core::mem::take(&mut self.is_moved) && !self.is_free() {
            // It is sent as soon as allowed.
            if let Some((_, exchange)) = self.current_mut() {
                let waiting = Waiting { at: now, session, tries: 0, is_outdated: false };
                exchange.waiting = Some(waiting);
            }
            return Ok(());
        }
        self.send_offer(core, session, None, b"", 1, now);
        Ok(())
    }

    /// Offers `session` in the body `envelope` as attempt number `tries`, by re-INVITE, or in an
    /// early dialog by UPDATE. `lines` are further header field lines.
    fn send_offer(
        &mut self,
        core: &mut Core,
        session: Vec<u8>,
        envelope: Option<Envelope>,
        lines: &[u8],
        tries: u32,
        now: Instant,
    ) {
        let method = match self.state {
            State::Established(_) => Method::Invite,
            _ => Method::Update,
        };
        let (call, account) = (self.id, self.account);
        let Some((dialog, _)) = self.current_mut() else { return };
        let mut draft = Draft::within(account, dialog, method, session.clone());
        draft.lines = capabilities::lines(&core.config);
        if method == Method::Invite {
            draft.lines.extend(self.timer_lines(&core.config));
        }
        draft.lines.extend_from_slice(lines);
        draft.put_in(envelope.as_ref());
        let way = self.way_to(draft.dialog.next_hop());
        let id = core.request(draft, Owner::Call(call), way, now);
        if let Some((_, exchange)) = self.current_mut() {
            exchange.offer = Offer::Ours;
            exchange.sent = Some(Sent { id, session, envelope, tries, is_refresh: false });
        }
    }

    /// Returns the time at which a deferred offer is due, unless an exchange is pending.
    pub(super) fn next_offer(&self) -> Option<Instant> {
        let waiting = self.current()?.waiting.as_ref().filter(|_| self.is_free());
        waiting.map(|waiting| waiting.at)
    }

    /// Sends a deferred offer when due.
    pub(super) fn poll_offer(&mut self, core: &mut Core, now: Instant) {
        if self.next_offer().is_none_or(|at| at > now) {
            return;
        }
        let waiting = self.current_mut().and_then(|(_, exchange)| exchange.waiting.take());
        match waiting {
            Some(Waiting { is_outdated: true, .. }) => core.tell(Event::OfferDue { call: self.id }),
            Some(Waiting { session, tries, .. }) => {
                self.send_offer(core, session, None, b"", tries + 1, now);
            }
            None => {}
        }
    }

    /// Processes the result of an UPDATE with a local offer, or of a rejected re-INVITE. For an
    /// accepted re-INVITE it runs after the ACK was sent.
    pub(super) fn on_offer_result(
        &mut self,
        core: &mut Core,
        result: &RequestResult<'_>,
        now: Instant,
    ) {
        let (call, is_ours) = (self.id, self.is_ours);
        let is_confirmed = matches!(self.state, State::Established(_));
        let wants_more = match &result.outcome {
            Ok(response) if self.offering(result.id).is_some() => self.note_min_se(response),
            _ => false,
        };
        let Some((dialog, exchange)) = self.offering(result.id) else { return };
        let response = match &result.outcome {
            Ok(response) if response.status().is_some_and(|status| status < 200) => return,
            Ok(response) => Ok(*response),
            Err(failure) => Err(failure.clone()),
        };
        let Some(sent) = exchange.sent.take() else { return };
        exchange.offer = Offer::None;
        let answer = match response {
            Ok(response) if response.status().is_some_and(|status| status < 300) => {
                exchange.note_allow(response);
                dialog.refresh_target(response);
                Ok(session_of(response))
            }
            Ok(response) if wants_more => {
                Err((Failure::refused_by(response), Some(Duration::ZERO)))
            }
            Ok(response) => Err((Failure::refused_by(response), retry_in(core, response, is_ours))),
            Err(failure) => Err((failure, None)),
        };
        match answer {
            Ok(Some(answer)) => {
                exchange.settle();
                exchange.local = sent.session;
                let is_news = !sent.is_refresh || exchange.remote != answer;
                exchange.remote.clone_from(&answer);
                if is_news {
                    if let Ok(response) = &result.outcome {
                        core.note_received(call, response);
                    }
                    core.tell(Event::Answer { call, answer });
                }
            }
            Err((failure, wait)) if sent.is_refresh => {
                return self.on_refresh_failed(core, failure, wait == Some(Duration::ZERO), now);
            }
            Ok(None) => {
                let failure = Failure::Protocol(Violation::NoAnswer);
                core.tell(Event::OfferFailed { call, failure });
            }
            Err((_, Some(wait))) if sent.tries < MAX_TRIES => {
                let Sent { session, tries, .. } = sent;
                let at = now + wait;
                exchange.waiting = Some(Waiting { at, session, tries, is_outdated: false });
            }
            Err((failure, _)) => {
                let is_unknown = matches!(failure, Failure::Refused { status: 405 | 501, .. });
                if is_unknown && result.method == Method::Update {
                    exchange.takes_update = false;
                    if matches!(self.state, State::Established(_)) {
                        let Sent { session, envelope, tries, .. } = sent;
                        return self.send_offer(core, session, envelope, b"", tries, now);
                    }
                }
                if self.ends_by(core, &failure, now) {
                    return;
                }
                if let Ok(response) = &result.outcome {
                    core.note_received(call, response);
                }
                core.tell(Event::OfferFailed { call, failure });
            }
        }
        // An UPDATE that was sent before the answer has no session timer.
        if is_confirmed
            && result.method == Method::Invite
            && let Ok(response) = &result.outcome
            && response.status().is_some_and(|status| status < 300)
        {
            self.note_timer(core, response, now);
        }
        self.go_on(core, now);
    }
}

/// Returns the delay until a rejected change is requested again, for an outgoing call or an
/// incoming one. `None` if it is not repeated (RFC 3261 sections 14.1 and 21.5.1).
fn retry_in(core: &mut Core, response: &Message<'_>, is_ours: bool) -> Option<Duration> {
    match response.status()? {
        491 if is_ours => Some(Duration::from_millis(2100 + 10 * core.tokens.below(191))),
        491 => Some(Duration::from_millis(10 * core.tokens.below(201))),
        500 => {
            let value = response.value(HeaderName::RetryAfter)?;
            retry_after(value).ok().map(|retry| retry.delay.min(LONGEST_WAIT))
        }
        _ => None,
    }
}
