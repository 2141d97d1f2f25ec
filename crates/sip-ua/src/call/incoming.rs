//! Incoming calls (RFC 3261 section 13.3).

use super::ack::next_hop;
use super::error::{CallError, CallState};
use super::exchange::{Exchange, Offer, cseq_of, session_of};
use super::probe::Probe;
use super::reliable::{Progress, Responses};
use super::state::{Call, Cause, Established, Ringing, State, Unacknowledged};
use super::timer::{SessionTimer, agree, too_brief};
use crate::capabilities;
use crate::config::{AccountId, Reliable};
use crate::core::{Core, contact};
use crate::event::{CallId, End, Event};
use crate::server_transaction::{Answer, Asked, ServerKey};
use crate::way::keeps;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use sip::dialog::Dialog;
use sip::{Encode, HeaderName, Instant, Message};

impl Call {
    /// Accepts an INVITE. `Err` is the status and the header field lines of the rejection.
    pub(crate) fn take(
        core: &mut Core,
        id: CallId,
        account: Option<AccountId>,
        invite: &Message<'_>,
        asked: Asked,
        replaces: Option<CallId>,
        now: Instant,
    ) -> Result<Self, (u16, Vec<u8>)> {
        let mut tag = Vec::new();
        core.tokens.next().encode(&mut tag);
        let dialog = Dialog::from_request(invite, &tag);
        let dialog = dialog.map_err(|error| (error.status(), Vec::new()))?;
        let key = core.dialog_key(dialog.id().call_id, &tag);
        let offer = session_of(invite);
        if offer.is_none() && !invite.body().is_empty() && !core.config.passes {
            return Err((415, b"Accept: application/sdp\r\n".to_vec()));
        }
        if let Some(lines) = too_brief(&core.config, invite) {
            return Err((422, lines));
        }
        let reliable = Responses::new(&core.config, invite);
        if core.config.reliable == Reliable::Required && !reliable.is_possible() {
            return Err((421, b"Require: 100rel\r\n".to_vec()));
        }
        let mut exchange = match &offer {
            Some(offer) => Exchange::new(Offer::Theirs, b"", offer),
            None => Exchange::new(Offer::None, b"", b""),
        };
        exchange.note_allow(invite);
        core.belongs(asked.key, id);
        let from = String::from_utf8_lossy(invite.value(HeaderName::From).unwrap_or_default());
        let (from, flow) = (from.into_owned(), asked.flow);
        let event = Event::Incoming { call: id, account, from, flow, offer, replaces };
        core.tell(event);
        let next = next_hop(&dialog);
        let way = keeps(&flow, None, next).then(|| (next.uri.to_vec(), flow));
        let ringing = Ringing {
            invite: asked,
            cseq: cseq_of(invite),
            dialog,
            exchange,
            reliable,
            give_up: now + core.config.ringing,
        };
        let (state, min_se) = (State::Ringing(Box::new(ringing)), core.config.min_se);
        Ok(Self {
            id,
            key,
            account,
            is_ours: false,
            min_se,
            state,
            is_moved: false,
            way,
            last_flow: Some(flow),
            cause: Cause::default(),
            replaces,
            replacement: None,
            is_counted_out: false,
        })
    }

    /// Sends a 100 to the caller. It is no response of a dialog, and never a reliable one (RFC 3262
    /// section 3).
    pub(crate) fn trying(&self, core: &mut Core, now: Instant) -> Result<(), CallError> {
        let State::Ringing(ringing) = &self.state else {
            return Err(CallError::State(CallState::Incoming));
        };
        core.respond_to(&ringing.invite, &Answer::status(100, b""), now);
        Ok(())
    }

    /// Sends a provisional response to the caller, with a session or without.
    pub(crate) fn ring(
        &mut self,
        core: &mut Core,
        response: Progress,
        now: Instant,
    ) -> Result<(), CallError> {
        let State::Ringing(ringing) = &mut self.state else {
            return Err(CallError::State(CallState::Incoming));
        };
        if ringing.reliable.is_waiting() {
            ringing.reliable.next = Some(response);
            return Ok(());
        }
        let Progress { status, ref session, .. } = response;
        let mut lines = response.lines.clone();
        // The session is settled once. An offer is made reliably or not at all (RFC 3261 section
        // 13.2.1).
        let has_offer = ringing.exchange.offer == Offer::Theirs;
        let is_possible = ringing.reliable.is_possible();
        let session = match ringing.exchange.is_settled || !(has_offer || is_possible) {
            true => &b""[..],
            false => session,
        };
        let rseq = ringing.reliable.begin(core, !session.is_empty(), now);
        if rseq.is_some() && !session.is_empty() {
            ringing.exchange.local = session.to_vec();
            match has_offer {
                true => ringing.exchange.settle(),
                false => ringing.exchange.offer = Offer::Ours,
            }
        }
        rseq.map(|rseq| ("Require: 100rel\r\nRSeq: ", rseq, "\r\n")).encode(&mut lines);
        let (body, body_line) = response.body(session, &ringing.exchange.local);
        lines.extend(body_line);
        respond_to_invite(core, self.account, ringing, status, &lines, &body, now);
        Ok(())
    }

    /// Answers the call with a session: an answer, or the local offer if the INVITE has none.
    pub(crate) fn answer(
        &mut self,
        core: &mut Core,
        response: Progress,
        now: Instant,
    ) -> Result<(), CallError> {
        let State::Ringing(ringing) = &mut self.state else {
            return Err(CallError::State(CallState::Incoming));
        };
        if ringing.reliable.holds_answer() || ringing.exchange.is_open() {
            ringing.reliable.answer = Some(response);
            return Ok(());
        }
        let Progress { session, lines: more, .. } = &response;
        let session = if ringing.exchange.is_settled { &b""[..] } else { session };
        let invite = Message::parse(&ringing.invite.request).ok();
        let agreed = invite.and_then(|invite| agree(&core.config, &invite));
        let (agreed, lines) = agreed.unzip();
        let mut lines = lines.unwrap_or_default();
        let (body, body_line) = response.body(session, &ringing.exchange.local);
        lines.extend_from_slice(more);
        lines.extend(body_line);
        respond_to_invite(core, self.account, ringing, 200, &lines, &body, now);
        let State::Ringing(ringing) = core::mem::replace(&mut self.state, State::Over) else {
            return Err(CallError::Unknown);
        };
        let (mut dialog, mut exchange) = (ringing.dialog, ringing.exchange);
        dialog.on_success_sent();
        let wants_answer = !exchange.is_settled && exchange.offer == Offer::None;
        if !exchange.is_settled {
            exchange.local = session.to_vec();
            match wants_answer {
                true => exchange.offer = Offer::Ours,
                false => exchange.settle(),
            }
        }
        let mut established = Established::new(dialog, exchange);
        established.unpracked = ringing.reliable.unacknowledged().map(|rseq| (rseq, ringing.cseq));
        established.timer = agreed.map(|agreed| SessionTimer::start(agreed, now));
        established.probe = Probe::start(&core.config, now);
        established.is_confirmed = false;
        established.unacknowledged = Some(Unacknowledged::new(
            ringing.invite.key,
            ringing.cseq,
            wants_answer,
            &core.config.timers,
            now,
        ));
        self.state = State::Established(Box::new(established));
        Ok(())
    }

    /// Rejects the call, with the header field lines `lines` in the response.
    pub(crate) fn decline(&mut self, core: &mut Core, status: u16, lines: &[u8], now: Instant) {
        self.refuse_invite(core, status, lines, End::Declined, now);
    }

    /// Redirects the caller to `uri`.
    pub(crate) fn redirect_caller(
        &mut self,
        core: &mut Core,
        uri: &str,
        now: Instant,
    ) -> Result<(), CallError> {
        let State::Ringing(ringing) = &self.state else {
            return Err(CallError::State(CallState::Incoming));
        };
        let mut lines = Vec::new();
        ("Contact: <", uri, ">\r\n").encode(&mut lines);
        respond_to_invite(core, self.account, ringing, 302, &lines, b"", now);
        self.end(core, End::Declined, now);
        Ok(())
    }

    pub(super) fn refuse_invite(
        &mut self,
        core: &mut Core,
        status: u16,
        lines: &[u8],
        end: End,
        now: Instant,
    ) {
        let State::Ringing(ringing) = &self.state else { return };
        respond_to_invite(core, self.account, ringing, status, lines, b"", now);
        self.end(core, end, now);
    }

    /// Processes a CANCEL of the INVITE or re-INVITE with the transaction `key`. One that is
    /// answered is not changed (RFC 3261 section 9.2).
    pub(crate) fn on_cancel(
        &mut self,
        core: &mut Core,
        cancel: &Message<'_>,
        key: ServerKey,
        now: Instant,
    ) {
        let is_ringing = self.is_ringing_here();
        if !is_ringing && !self.waits_for_answer(key) {
            return;
        }
        core.note_received(self.id, cancel);
        if !is_ringing {
            let _ = self.refuse(core, 487, b"", now);
            return core.tell(Event::OfferCancelled { call: self.id });
        }
        let reason = String::from_utf8_lossy(cancel.value(HeaderName::Reason).unwrap_or_default());
        self.refuse_invite(core, 487, b"", End::Cancelled { reason: reason.into_owned() }, now);
    }
}

fn respond_to_invite(
    core: &mut Core,
    account: Option<AccountId>,
    ringing: &Ringing,
    status: u16,
    more: &[u8],
    body: &[u8],
    now: Instant,
) {
    let Asked { request, flow, key } = &ringing.invite;
    let Ok(invite) = Message::parse(request) else { return };
    let mut lines = Vec::new();
    if status < 300 {
        invite.write_record_routes(&mut lines);
        let user = core.contact_user(account);
        (
            "Contact: ",
            contact(&user, flow, invite.request_uri().unwrap_or_default()),
            "\r\n",
            capabilities::lines(&core.config),
        )
            .encode(&mut lines);
    }
    lines.extend_from_slice(more);
    let tag = ringing.dialog.id().local_tag;
    let answer = Answer { status, tag, lines: &lines, body };
    core.respond(&invite, flow, *key, &answer, now);
}
