//! Outgoing calls (RFC 3261 section 13.2), and their redirection.

use super::ack::{acknowledge, next_hop};
use super::exchange::{Accepted, Offer, Turn, cseq_of, session_of};
use super::probe::Probe;
use super::redirect::{Place, Redirects};
use super::state::{Call, Calling, Cause, Established, State};
use crate::capabilities;
use crate::client_transaction::{ClientId, Owner, RequestResult};
use crate::config::{AccountId, Reliable};
use crate::core::Core;
use crate::draft::Draft;
use crate::event::{CallId, End, Event, Failure};
use crate::violation::Violation;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use sip::dialog::Dialog;
use sip::{Instant, Message, Method, Uri};

/// The maximum number of 422 responses: several servers on the path may each require a longer
/// session interval.
const MAX_BRIEFS: u32 = 4;

impl Call {
    /// Places a call with the offer `session`.
    pub(crate) fn place(
        core: &mut Core,
        id: CallId,
        account: Option<AccountId>,
        dialog: Dialog,
        session: Vec<u8>,
        cause: Cause,
        now: Instant,
    ) -> Self {
        let key = core.dialog_key(dialog.id().call_id, dialog.id().local_tag);
        let redirects = Redirects::new(dialog.remote_target(), core.config.redirects);
        let calling = Calling {
            dialog,
            redirects,
            session,
            early: Vec::new(),
            branches: 0,
            current: None,
            give_up: now + core.config.ringing,
            ending: None,
            briefs: 0,
        };
        let (state, min_se) = (State::Calling(Box::new(calling)), core.config.min_se);
        let mut call = Self {
            id,
            key,
            account,
            is_ours: true,
            min_se,
            state,
            is_moved: false,
            way: None,
            last_flow: None,
            cause,
            replaces: None,
            replacement: None,
            is_counted_out: false,
        };
        let _ = call.invite(core, now);
        call
    }

    /// Sends the INVITE, for the first time or again. Existing early dialogs are removed.
    pub(super) fn invite(&mut self, core: &mut Core, now: Instant) -> Option<ClientId> {
        let State::Calling(calling) = &mut self.state else { return None };
        for early in core::mem::take(&mut calling.early) {
            early.exchange.abandon(core, early.dialog.id().local_tag, now);
        }
        calling.current = None;
        let session = calling.session.clone();
        let dialog = &mut calling.dialog;
        let mut draft = Draft::within(self.account, dialog, Method::Invite, session);
        draft.lines = capabilities::lines_if(&core.config, self.cause.is_reliable);
        draft.put_in(self.cause.envelope.as_ref());
        draft.lines.extend_from_slice(&self.cause.lines);
        if core.config.reliable == Reliable::Required {
            draft.lines.extend_from_slice(b"Require: 100rel\r\n");
        }
        draft.lines.extend(self.timer_lines(&core.config));
        let way = self.way_to(draft.dialog.next_hop());
        Some(core.request(draft, Owner::Call(self.id), way, now))
    }

    /// Cancels the call (RFC 3261 section 9.1), with the header field lines `lines`.
    pub(super) fn take_back(&mut self, core: &mut Core, lines: &[u8], end: End, now: Instant) {
        let State::Calling(calling) = &mut self.state else { return };
        if calling.ending.is_some() {
            return;
        }
        calling.ending = Some(end.clone());
        self.tell_news(core, 487);
        // An answer that arrives at the same time is ended by a BYE.
        let is_under_way = core.cancel(self.id, lines, now);
        core.tell(Event::Ended { call: self.id, end });
        if !is_under_way {
            self.leave(core, now);
        }
    }

    pub(super) fn on_invite_result(
        &mut self,
        core: &mut Core,
        result: RequestResult<'_>,
        now: Instant,
    ) {
        let response = match result.outcome {
            Ok(response) => response,
            Err(_) if self.redirect(core, None, now) => return,
            Err(failure) => return self.fail(core, failure, now),
        };
        match response.status().unwrap_or_default() {
            100 => {}
            101..200 => self.on_ringing(core, response, result.flow, now),
            200..300 => self.on_answer(core, response, Accepted::of(&result, response), now),
            _ => self.on_refused(core, response, now),
        }
    }

    /// Processes a rejection of the INVITE, which may be repeated.
    fn on_refused(&mut self, core: &mut Core, response: &Message<'_>, now: Instant) {
        core.note_received(self.id, response);
        let wants_more = self.note_min_se(response);
        let State::Calling(calling) = &mut self.state else { return };
        calling.dialog.raise_local_cseq(cseq_of(response));
        if wants_more && calling.briefs < MAX_BRIEFS && calling.ending.is_none() {
            calling.briefs += 1;
            let _ = self.invite(core, now);
        } else if !self.redirect(core, Some(response), now) {
            self.fail(core, Failure::refused_by(response), now);
        }
    }

    /// Ends the failed call. The end of a cancelled call was already reported.
    fn fail(&mut self, core: &mut Core, failure: Failure, now: Instant) {
        self.tell_news(core, failure.status());
        let State::Calling(calling) = &self.state else { return };
        match calling.ending {
            Some(_) => self.leave(core, now),
            None => self.end(core, End::Failed(failure), now),
        }
    }

    /// Processes the answer, from one of the early dialogs or from a new one. The other early
    /// dialogs are removed.
    fn on_answer(
        &mut self,
        core: &mut Core,
        response: &Message<'_>,
        accepted: Accepted,
        now: Instant,
    ) {
        let State::Calling(calling) = &mut self.state else { return };
        let Ok(answered) = Dialog::from_response(response) else {
            return self.fail(core, Failure::Protocol(Violation::NoDialog), now);
        };
        core.note_received(self.id, response);
        let ending = calling.ending.take();
        let asked = calling.dialog.next_hop().to_vec();
        let has_offered = !calling.session.is_empty();
        let early = calling.early.iter().position(|early| early.dialog.id() == answered.id());
        let mut branch = calling.branches;
        let (dialog, mut exchange) = match early.map(|place| calling.early.remove(place)) {
            Some(mut early) => {
                // The dialog was created by a response to the same INVITE.
                let _ = early.dialog.on_success_received(response);
                branch = early.number;
                (early.dialog, early.exchange)
            }
            None => (answered, calling.exchange()),
        };
        self.leave(core, now);
        exchange.note_allow(response);
        self.note_way(next_hop(&dialog), accepted.flow, Some(&asked));
        let id = self.id;
        let session = session_of(response).filter(|_| !exchange.is_settled && !exchange.is_open());
        let offer = session.clone().filter(|_| !has_offered);
        if let Some(session) = session {
            exchange.remote = session;
        }
        let mut established = Established::new(dialog, exchange);
        established.probe = Probe::start(&core.config, now);
        established.branch = Some(branch);
        let exchange = &mut established.exchange;
        if offer.is_some() && ending.is_none() {
            exchange.offer = Offer::Theirs;
            exchange.turn = Some(Turn::Ack(accepted));
        } else {
            if !exchange.is_open() {
                exchange.settle();
            }
            acknowledge(core, id, &established.dialog, accepted, Some(&asked), (b"", None));
        }
        let has_session = offer.is_none() && !established.exchange.remote.is_empty();
        let session = has_session.then(|| established.exchange.remote.clone());
        self.state = State::Established(Box::new(established));
        self.note_timer(core, response, now);
        if ending.is_some() {
            // The end of the call was already reported.
            return self.send_bye_quietly(core, b"", now);
        }
        self.tell_news(core, 200);
        core.tell(Event::Answered { call: id, session });
        if offer.is_some() {
            core.note_received(id, response);
            core.tell(Event::Offer { call: id, offer });
        }
    }

    /// Sends the INVITE to the next target after a failure, by `response` or by a timeout. Returns
    /// false without a further target.
    pub(super) fn redirect(
        &mut self,
        core: &mut Core,
        response: Option<&Message<'_>>,
        now: Instant,
    ) -> bool {
        let State::Calling(calling) = &mut self.state else { return false };
        let status = response.and_then(Message::status).unwrap_or_default();
        // A 6xx is final for all targets (RFC 3261 section 21.6).
        if calling.ending.is_some() || status >= 600 {
            return false;
        }
        if let Some(response) = response.filter(|_| (300..400).contains(&status)) {
            let secure = Uri::parse(calling.dialog.remote_target());
            let secure = secure.is_ok_and(|uri| uri.as_sip().is_some_and(|uri| uri.secure));
            calling.redirects.note(response, secure);
        }
        let Some(uri) = calling.go_elsewhere() else { return false };
        let to = String::from_utf8_lossy(&uri).into_owned();
        core.tell(Event::Redirected { call: self.id, to });
        if let Some(id) = self.invite(core, now) {
            core.mark_redirected(id);
        }
        true
    }
}

impl Calling {
    /// Sets the next target, if any, and returns it.
    fn go_elsewhere(&mut self) -> Option<Vec<u8>> {
        let Place { uri, is_proxy } = self.redirects.next()?;
        if is_proxy {
            let is_loose = matches!(Uri::parse(&uri), Ok(Uri::Sip(uri)) if uri.is_loose());
            self.dialog.set_routes([("<", &uri, (!is_loose).then_some(";lr"), ">")]);
        } else {
            self.dialog.set_target(&uri);
        }
        Some(uri)
    }
}
