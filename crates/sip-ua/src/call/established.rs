//! Calls that stand: changes of the session, and the end (RFC 3261 sections 14 and 15, RFC 3311).

use super::transfer::Referrals;
use super::{ALLOW, Asked, Call, CallError, Offer, State, draft, session_of};
use crate::client::{Heard, Owner, refusal};
use crate::core::{Core, contact};
use crate::event::{End, Event, Failure};
use crate::server::{Answer, ServerKey};
use alloc::string::String;
use alloc::vec::Vec;
use sip::dialog::Dialog;
use sip::header::CSeq;
use sip::transaction::Timers;
use sip::{Duration, Emit, Flow, HeaderName, Instant, Message, Method};

/// What belongs to a call that stands.
pub(super) struct Established {
    pub(super) dialog: Dialog,
    /// Our 2xx to an INVITE, sent until its ACK comes.
    pub(super) unacknowledged: Option<Unacknowledged>,
    /// Our last ACK, with the number of its INVITE: it is sent again when the 2xx comes again.
    pub(super) ack: Option<(u32, Flow, Vec<u8>)>,
    offer: Offer,
    /// The request of the other end that waits for the owner's word.
    asked: Option<Asked>,
    pub(super) referrals: Referrals,
}

/// A 2xx to an INVITE that waits for its ACK (RFC 3261 section 13.3.1.4).
pub(super) struct Unacknowledged {
    key: ServerKey,
    cseq: u32,
    /// Whether the ACK has the answer to our offer.
    wants_answer: bool,
    again: Instant,
    interval: Duration,
    give_up: Instant,
}

impl Unacknowledged {
    pub(super) fn new(
        key: ServerKey,
        cseq: u32,
        wants_answer: bool,
        timers: &Timers,
        now: Instant,
    ) -> Self {
        Self {
            key,
            cseq,
            wants_answer,
            again: now + timers.t1,
            interval: timers.t1,
            give_up: now + timers.t1.times(64),
        }
    }
}

impl Established {
    pub(super) fn new(dialog: Dialog) -> Self {
        let referrals = Referrals::default();
        Self { dialog, unacknowledged: None, ack: None, offer: Offer::None, asked: None, referrals }
    }

    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.unacknowledged.as_ref().map(|answer| answer.again.min(answer.give_up))
    }
}

impl Call {
    /// Sends the 2xx again that has no ACK, or gives up.
    pub(super) fn poll_answer(&mut self, core: &mut Core, now: Instant) {
        let State::Established(established) = &mut self.state else { return };
        let Some(answer) = &mut established.unacknowledged else { return };
        if answer.give_up <= now {
            established.unacknowledged = None;
            return self.send_bye(core, End::Failed(Failure::TimedOut), now);
        }
        if answer.again <= now {
            let timers = core.config.timers;
            answer.interval = answer.interval.times(2).min(timers.t2.max(timers.t1));
            answer.again = now + answer.interval;
            core.send_again(answer.key);
        }
    }

    /// An ACK has come.
    pub(crate) fn on_ack(&mut self, core: &mut Core, ack: &Message<'_>) {
        let State::Established(established) = &mut self.state else { return };
        let cseq = ack.value(HeaderName::CSeq).and_then(|value| CSeq::parse(value).ok());
        let is_meant = |answer: &mut Unacknowledged| Some(answer.cseq) == cseq.map(|c| c.number);
        let Some(answer) = established.unacknowledged.take_if(is_meant) else { return };
        if answer.wants_answer {
            established.offer = Offer::None;
            match session_of(ack) {
                Some(answer) => core.tell(Event::Answer { call: self.id, answer }),
                None => {
                    let failure = Failure::Protocol("the ACK has no answer to our offer");
                    core.tell(Event::OfferFailed { call: self.id, failure });
                }
            }
        }
    }

    /// A request has come within the dialog.
    pub(crate) fn on_request(
        &mut self,
        core: &mut Core,
        request: &Message<'_>,
        flow: &Flow,
        key: ServerKey,
        now: Instant,
    ) {
        let tag = self.local_tag();
        let refuse = |core: &mut Core, status: u16| {
            core.respond(request, flow, key, &Answer::status(status, &tag), now);
        };
        let dialog = match &mut self.state {
            State::Established(established) => &mut established.dialog,
            State::Ringing(ringing) => &mut ringing.dialog,
            State::Calling(_) | State::Over => return refuse(core, 481),
        };
        if let Err(error) = dialog.receive(request) {
            return refuse(core, error.status());
        }
        match request.method() {
            Some(Method::Bye) => {
                refuse(core, 200);
                self.on_bye(core, request, now);
            }
            Some(Method::Invite | Method::Update) => {
                self.on_change(core, request, flow, key, now);
            }
            Some(Method::Options) => refuse(core, 200),
            Some(Method::Info) => {
                let status = self.on_info(core, request);
                refuse(core, status);
            }
            Some(Method::Notify) => {
                let status = self.on_notify(core, request);
                refuse(core, status);
            }
            Some(Method::Message) => {
                let status = core.on_message(self.account, request, flow);
                refuse(core, status);
            }
            Some(Method::Refer) => {
                if let Err(status) = self.on_refer(core, request, flow, key, now) {
                    refuse(core, status);
                }
            }
            Some(Method::Other(_)) | None => refuse(core, 501),
            Some(_) => {
                let answer = Answer { status: 405, tag: &tag, lines: ALLOW, body: b"" };
                core.respond(request, flow, key, &answer, now);
            }
        }
    }

    fn on_bye(&mut self, core: &mut Core, bye: &Message<'_>, now: Instant) {
        let reason = String::from_utf8_lossy(bye.value(HeaderName::Reason).unwrap_or_default());
        let end = End::HungUpByPeer { reason: reason.into_owned() };
        match &self.state {
            // Whoever hangs up before the answer has it refused.
            State::Ringing(_) => self.refuse_invite(core, 487, end, now),
            _ => self.end(core, end),
        }
    }

    /// The other end changes the session, or says where it is now (RFC 3261 section 14.2, RFC 3311 section 5.2).
    fn on_change(
        &mut self,
        core: &mut Core,
        request: &Message<'_>,
        flow: &Flow,
        key: ServerKey,
        now: Instant,
    ) {
        let tag = self.local_tag();
        let is_invite = request.method() == Some(Method::Invite);
        let State::Established(established) = &mut self.state else {
            return core.respond(request, flow, key, &Answer::status(491, &tag), now);
        };
        let offer = session_of(request);
        if !is_invite && offer.is_none() {
            established.dialog.refresh_target(request);
            self.way = None;
            return self.respond_with_session(core, request, flow, key, b"", now);
        }
        let waits = established.unacknowledged.is_some() || established.asked.is_some();
        let refused = match established.offer {
            Offer::Ours => Some((491, &b""[..])),
            // The one before is not settled.
            _ if waits => Some((500, &b"Retry-After: 1\r\n"[..])),
            _ => None,
        };
        if let Some((status, lines)) = refused {
            let answer = Answer { status, tag: &tag, lines, body: b"" };
            return core.respond(request, flow, key, &answer, now);
        }
        established.offer = Offer::Theirs;
        established.asked = Some(Asked { request: request.as_bytes().to_vec(), flow: *flow, key });
        core.tell(Event::Offer { call: self.id, offer });
    }

    /// The owner takes the change that was asked for, with `session`: an answer, or an offer where none came.
    pub(crate) fn accept(
        &mut self,
        core: &mut Core,
        session: &[u8],
        now: Instant,
    ) -> Result<(), CallError> {
        let State::Established(established) = &mut self.state else {
            return Err(CallError::State("established"));
        };
        let asked = established.asked.take().ok_or(CallError::State("asked for a change"))?;
        let Ok(request) = Message::parse(&asked.request) else { return Err(CallError::Unknown) };
        established.dialog.refresh_target(&request);
        let had_offer = session_of(&request).is_some();
        established.offer = if had_offer { Offer::None } else { Offer::Ours };
        if request.method() == Some(Method::Invite) {
            let cseq = request.value(HeaderName::CSeq).and_then(|v| CSeq::parse(v).ok());
            established.unacknowledged = Some(Unacknowledged::new(
                asked.key,
                cseq.map_or(0, |cseq| cseq.number),
                !had_offer,
                &core.config.timers,
                now,
            ));
        }
        self.way = None;
        self.respond_with_session(core, &request, &asked.flow, asked.key, session, now);
        Ok(())
    }

    /// The owner refuses the change that was asked for; the session stays as it is.
    pub(crate) fn refuse(
        &mut self,
        core: &mut Core,
        status: u16,
        now: Instant,
    ) -> Result<(), CallError> {
        let tag = self.local_tag();
        let State::Established(established) = &mut self.state else {
            return Err(CallError::State("established"));
        };
        let asked = established.asked.take().ok_or(CallError::State("asked for a change"))?;
        established.offer = Offer::None;
        if let Ok(request) = Message::parse(&asked.request) {
            core.respond(&request, &asked.flow, asked.key, &Answer::status(status, &tag), now);
        }
        Ok(())
    }

    fn respond_with_session(
        &self,
        core: &mut Core,
        request: &Message<'_>,
        flow: &Flow,
        key: ServerKey,
        session: &[u8],
        now: Instant,
    ) {
        let tag = self.local_tag();
        let user = core.contact_user(self.account);
        let mut lines = Vec::new();
        ("Contact: ", contact(&user, flow), "\r\n", ALLOW).emit(&mut lines);
        let answer = Answer { status: 200, tag: &tag, lines: &lines, body: session };
        core.respond(request, flow, key, &answer, now);
    }

    /// Offers another session: hold, another codec, another address.
    pub(crate) fn offer(
        &mut self,
        core: &mut Core,
        session: Vec<u8>,
        now: Instant,
    ) -> Result<(), CallError> {
        let State::Established(established) = &mut self.state else {
            return Err(CallError::State("established"));
        };
        if established.offer != Offer::None || established.unacknowledged.is_some() {
            return Err(CallError::OfferPending);
        }
        established.offer = Offer::Ours;
        let draft = draft(self.account, &mut established.dialog, Method::Invite, session);
        let way = self.way_to(draft.dialog.next_hop());
        core.request(draft, Owner::Call(self.id), way, now);
        Ok(())
    }

    /// Hangs up and tells so.
    pub(super) fn send_bye(&mut self, core: &mut Core, end: End, now: Instant) {
        self.send_bye_quietly(core, now);
        core.tell(Event::Ended { call: self.id, end });
    }

    /// Hangs up. The rest is the transaction's.
    pub(super) fn send_bye_quietly(&mut self, core: &mut Core, now: Instant) {
        let State::Established(established) = &mut self.state else { return };
        let bye = draft(self.account, &mut established.dialog, Method::Bye, Vec::new());
        let way = self.way_to(bye.dialog.next_hop());
        core.request(bye, Owner::Nobody, way, now);
        self.state = State::Over;
    }

    /// Something has come of a request within the dialog, or once more of the INVITE that made it.
    pub(super) fn on_established_heard(&mut self, core: &mut Core, heard: Heard<'_>, now: Instant) {
        if heard.method == Method::Refer {
            return self.on_refer_heard(core, &heard);
        }
        let State::Established(established) = &mut self.state else { return };
        let response = match heard.what {
            Ok(response) => response,
            Err(failure) => return self.on_offer_failed(core, heard.method, failure, now),
        };
        let status = response.status().unwrap_or_default();
        if heard.method != Method::Invite || status < 200 {
            return;
        }
        let cseq = response.value(HeaderName::CSeq).and_then(|value| CSeq::parse(value).ok());
        let cseq = cseq.map_or(0, |cseq| cseq.number);
        established.dialog.skip_cseq(cseq);
        if status >= 300 {
            return self.on_offer_failed(core, Method::Invite, refusal(response), now);
        }
        let is_ours =
            Dialog::of_response(response).is_ok_and(|d| d.id() == established.dialog.id());
        if !is_ours {
            return self.refuse_second_answer(core, response, heard.flow, now);
        }
        if let Some((acknowledged, flow, bytes)) = &established.ack
            && *acknowledged == cseq
        {
            return core.send(*flow, bytes.clone());
        }
        // A new one: of our offer.
        established.offer = Offer::None;
        let confirmed = established.dialog.confirm_by(response);
        let (dialog, id) = (established.dialog.clone(), self.id);
        let ack = self.acknowledge(core, &dialog, heard.flow);
        if let State::Established(established) = &mut self.state {
            established.ack = ack;
        }
        match session_of(response).filter(|_| confirmed.is_ok()) {
            Some(answer) => core.tell(Event::Answer { call: id, answer }),
            None => {
                let failure = Failure::Protocol("the answer has no session description");
                core.tell(Event::OfferFailed { call: id, failure });
            }
        }
    }

    /// A change that we wanted has come to nothing. Where the other end does not know the call any more, it is over
    /// (RFC 3261 section 12.2.1.2).
    fn on_offer_failed(
        &mut self,
        core: &mut Core,
        method: Method<'_>,
        failure: Failure,
        now: Instant,
    ) {
        let State::Established(established) = &mut self.state else { return };
        if method != Method::Invite || established.offer != Offer::Ours {
            return;
        }
        established.offer = Offer::None;
        let is_gone = matches!(
            failure,
            Failure::Refused { status: 408 | 481, .. } | Failure::TimedOut | Failure::Unreachable
        );
        if is_gone {
            return self.send_bye(core, End::Failed(failure), now);
        }
        core.tell(Event::OfferFailed { call: self.id, failure });
    }
}
