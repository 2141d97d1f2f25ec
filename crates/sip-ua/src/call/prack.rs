//! The PRACKs of local provisional responses (RFC 3262 section 3), their timeout, and the messages
//! that wait for them.

use super::exchange::{Offer, session_of};
use super::state::{Call, State};
use crate::core::Core;
use crate::event::{End, Event, Failure};
use crate::server_transaction::{Answer, ServerKey};
use crate::violation::Violation;
use sip::header::RAck;
use sip::{Flow, HeaderName, Instant, Message, Method};

impl Call {
    /// Retransmits the provisional response without a PRACK, or ends the call after the timeout.
    pub(super) fn poll_ring(&mut self, core: &mut Core, now: Instant) {
        let State::Ringing(ringing) = &mut self.state else { return };
        let Some(sent) = &mut ringing.reliable.sent else { return };
        if sent.give_up <= now {
            return self.refuse_invite(core, 504, b"", End::Failed(Failure::TimedOut), now);
        }
        if sent.again <= now {
            sent.interval = sent.interval.times(2);
            sent.again = now + sent.interval;
            core.send_again(ringing.invite.key);
        }
    }

    /// Processes a PRACK.
    pub(super) fn on_prack(
        &mut self,
        core: &mut Core,
        prack: &Message<'_>,
        flow: &Flow,
        key: ServerKey,
        now: Instant,
    ) {
        let tag = self.local_tag();
        let rack = prack.value(HeaderName::RAck).and_then(|value| RAck::parse(value).ok());
        let Some(rack) = rack else {
            return core.respond(prack, flow, key, &Answer::status(400, &tag), now);
        };
        let is_meant = |rseq: u32, cseq: u32| {
            rack.rseq == rseq && rack.cseq.number == cseq && rack.cseq.method == Method::Invite
        };
        let is_known = match &mut self.state {
            State::Ringing(ringing) => {
                let (cseq, last) = (ringing.cseq, ringing.reliable.last);
                ringing.reliable.sent.take_if(|_| is_meant(last, cseq)).is_some()
            }
            State::Established(established) => {
                established.unpracked.take_if(|(rseq, cseq)| is_meant(*rseq, *cseq)).is_some()
            }
            State::Calling(_)
            | State::Referred(_)
            | State::Leaving(_)
            | State::Mortal(_)
            | State::Over => false,
        };
        let call = self.id;
        let Some((_, exchange)) = self.parts_of(prack).filter(|_| is_known) else {
            return core.respond(prack, flow, key, &Answer::status(481, &tag), now);
        };
        match session_of(prack) {
            answer if exchange.offer == Offer::Ours && exchange.sent.is_none() => {
                exchange.settle();
                exchange.remote = answer.clone().unwrap_or_default();
                core.note_received(call, prack);
                core.tell(match answer {
                    Some(answer) => Event::Answer { call, answer },
                    None => {
                        let failure = Failure::Protocol(Violation::NoAnswerInPrack);
                        Event::OfferFailed { call, failure }
                    }
                });
            }
            Some(offer) if exchange.offer == Offer::None && !exchange.is_open() => {
                return self.ask_owner(core, prack, flow, key, Some(offer), now);
            }
            Some(_) => {
                return core.respond(prack, flow, key, &Answer::status(491, &tag), now);
            }
            None => {}
        }
        core.respond(prack, flow, key, &Answer::status(200, &tag), now);
        self.go_on(core, now);
    }

    /// Sends the response that has waited for a PRACK or for the answer to an offer.
    pub(super) fn go_on(&mut self, core: &mut Core, now: Instant) {
        let State::Ringing(ringing) = &mut self.state else { return };
        if ringing.reliable.is_waiting() || ringing.exchange.is_open() {
            return;
        }
        if let Some(answer) = ringing.reliable.answer.take() {
            let _ = self.answer(core, answer, now);
        } else if let Some(next) = ringing.reliable.next.take() {
            let _ = self.ring(core, next, now);
        }
    }
}
