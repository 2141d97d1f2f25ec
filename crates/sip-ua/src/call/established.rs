//! Calls that stand: changes of the session, and the end (RFC 3261 sections 14 and 15, RFC 3311).

use super::exchange::{Exchange, Turn, cseq_of};
use super::outgoing::acknowledge;
use super::timer::SessionTimer;
use super::transfer::Referrals;
use super::{ALLOW, Call, Offer, State, draft, refuse_answer, session_of};
use crate::client::{Heard, Owner};
use crate::core::Core;
use crate::event::{End, Event, Failure};
use crate::server::{Answer, ServerKey};
use alloc::string::String;
use alloc::vec::Vec;
use sip::dialog::Dialog;
use sip::transaction::Timers;
use sip::{Duration, Flow, HeaderName, Instant, Message, Method};

/// What belongs to a call that stands.
pub(super) struct Established {
    pub(super) dialog: Dialog,
    /// Our 2xx to an INVITE, sent until its ACK comes.
    pub(super) unacknowledged: Option<Unacknowledged>,
    /// Whether the other end has answered, or acknowledged our first answer.
    pub(super) is_confirmed: bool,
    /// Our last ACK, with the number of its INVITE: it is sent again when the 2xx comes again.
    pub(super) ack: Option<(u32, Flow, Vec<u8>)>,
    pub(super) exchange: Exchange,
    /// The RSeq of a provisional response of ours that the answer has overtaken, and the CSeq of
    /// its INVITE.
    pub(super) unpracked: Option<(u32, u32)>,
    pub(super) timer: Option<SessionTimer>,
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
    /// Whether the ACK would come to an address that we had before: then nothing waits for it.
    pub(super) is_astray: bool,
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
            is_astray: false,
        }
    }
}

impl Established {
    pub(super) fn new(dialog: Dialog, exchange: Exchange) -> Self {
        Self {
            dialog,
            unacknowledged: None,
            is_confirmed: true,
            ack: None,
            exchange,
            unpracked: None,
            timer: None,
            referrals: Referrals::default(),
        }
    }

    /// `is_free`: the session may be refreshed.
    pub(super) fn next_timer(&self, is_free: bool) -> Option<Instant> {
        let answer = self.unacknowledged.as_ref().map(|answer| answer.again.min(answer.give_up));
        let timer = self.timer.as_ref().map(|timer| timer.next(is_free));
        [answer, timer].into_iter().flatten().min()
    }
}

impl Call {
    /// Sends the 2xx again that has no ACK, or gives up.
    pub(super) fn poll_answer(&mut self, core: &mut Core, now: Instant) {
        let State::Established(established) = &mut self.state else { return };
        let Some(answer) = &mut established.unacknowledged else { return };
        if answer.give_up <= now {
            let Unacknowledged { is_astray, wants_answer, .. } = *answer;
            established.unacknowledged = None;
            if is_astray {
                if wants_answer {
                    established.exchange.offer = Offer::None;
                    let failure = Failure::TimedOut;
                    core.tell(Event::OfferFailed { call: self.id, failure });
                }
                return;
            }
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
        let cseq = cseq_of(ack);
        let is_meant = |answer: &mut Unacknowledged| answer.cseq == cseq;
        let Some(answer) = established.unacknowledged.take_if(is_meant) else { return };
        established.is_confirmed = true;
        if answer.wants_answer {
            established.exchange.settle();
            match session_of(ack) {
                Some(answer) => {
                    established.exchange.remote.clone_from(&answer);
                    core.tell(Event::Answer { call: self.id, answer });
                }
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
        let Some((dialog, _)) = self.parts_of(request) else { return refuse(core, 481) };
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
            Some(Method::Prack) => self.on_prack(core, request, flow, key, now),
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
            // Whoever has not answered refuses, and does not hang up.
            State::Calling(_) => {}
            _ => self.end(core, end, now),
        }
    }

    /// Hangs up and tells so.
    pub(super) fn send_bye(&mut self, core: &mut Core, end: End, now: Instant) {
        self.send_bye_quietly(core, now);
        core.tell(Event::Ended { call: self.id, end });
    }

    /// Hangs up. The rest is the transaction's.
    pub(super) fn send_bye_quietly(&mut self, core: &mut Core, now: Instant) {
        let State::Established(established) = &mut self.state else { return };
        if let Some(Turn::Ack(cseq, flow)) = established.exchange.turn {
            acknowledge(core, &established.dialog, cseq, flow, b"");
        }
        let bye = draft(self.account, &mut established.dialog, Method::Bye, Vec::new());
        let way = self.way_to(bye.dialog.next_hop());
        core.request(bye, Owner::Nobody, way, now);
        self.leave(core, now);
    }

    /// Something has come of a request within the dialog, or once more of the INVITE that made it.
    pub(super) fn on_established_heard(&mut self, core: &mut Core, heard: Heard<'_>, now: Instant) {
        if heard.method == Method::Refer {
            return self.on_refer_heard(core, &heard);
        }
        if self.on_refresh_heard(core, &heard, now) {
            return;
        }
        let State::Established(established) = &mut self.state else { return };
        let answer = match &heard.what {
            Ok(response) if heard.method == Method::Invite => *response,
            _ => return self.on_offer_heard(core, &heard, now),
        };
        if !answer.status().is_some_and(|status| (200..300).contains(&status)) {
            return self.on_offer_heard(core, &heard, now);
        }
        let is_ours = Dialog::of_response(answer).is_ok_and(|d| d.id() == established.dialog.id());
        if !is_ours {
            return refuse_answer(core, self.account, answer, heard.flow, now);
        }
        let cseq = cseq_of(answer);
        if let Some((acknowledged, flow, bytes)) = &established.ack
            && *acknowledged == cseq
        {
            return core.send(*flow, bytes.clone());
        }
        let is_new = established.exchange.sent.as_ref().is_some_and(|sent| sent.id == heard.id);
        if !is_new {
            // The owner has not said what the ACK is to say.
            return;
        }
        let _ = established.dialog.confirm_by(answer);
        established.ack = acknowledge(core, &established.dialog, cseq, heard.flow, b"");
        let next_hop = established.dialog.next_hop().to_vec();
        self.note_way(&next_hop, heard.flow);
        self.on_offer_heard(core, &heard, now);
    }

    /// Ends the call where `failure` says that the other end does not know it any more (RFC 3261
    /// section 12.2.1.2).
    pub(super) fn ends_by(&mut self, core: &mut Core, failure: &Failure, now: Instant) -> bool {
        let is_gone = matches!(
            failure,
            Failure::Refused { status: 408 | 481, .. } | Failure::TimedOut | Failure::Unreachable
        );
        let ends = is_gone && matches!(self.state, State::Established(_));
        if ends {
            self.send_bye(core, End::Failed(failure.clone()), now);
        }
        ends
    }
}
