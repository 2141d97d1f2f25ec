//! Established calls: answers that wait for their ACK, and the results of requests (RFC 3261
//! sections 13.3.1.4 and 14.1).

use super::ack::{acknowledge, next_hop, refuse_answer};
use super::exchange::{Accepted, Offer, Turn, cseq_of, session_of};
use super::state::{Call, State, Unacknowledged};
use crate::client_transaction::RequestResult;
use crate::core::Core;
use crate::event::{End, Event, Failure};
use crate::violation::Violation;
use sip::dialog::Dialog;
use sip::{Instant, Message, Method};

impl Call {
    /// Retransmits the 2xx without an ACK, or gives up after the timeout.
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
        answer.retransmit(core, now);
    }

    /// Processes an ACK.
    pub(crate) fn on_ack(&mut self, core: &mut Core, ack: &Message<'_>, now: Instant) {
        self.on_ack_leaving(core, ack, now);
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
                    core.note_received(self.id, ack);
                    core.tell(Event::Answer { call: self.id, answer });
                }
                None => {
                    let failure = Failure::Protocol(Violation::NoAnswerInAck);
                    core.tell(Event::OfferFailed { call: self.id, failure });
                }
            }
        }
    }

    /// Processes the result of a request within the dialog, or a further response to the first
    /// INVITE.
    pub(super) fn on_established_result(
        &mut self,
        core: &mut Core,
        result: RequestResult<'_>,
        now: Instant,
    ) {
        if result.method == Method::Refer {
            return self.on_refer_result(core, &result);
        }
        if self.on_refresh_result(core, &result, now) || self.on_probe_result(core, &result, now) {
            return;
        }
        let State::Established(established) = &mut self.state else { return };
        let answer = match &result.outcome {
            Ok(response) if result.method == Method::Invite => *response,
            _ => return self.on_offer_result(core, &result, now),
        };
        if !answer.status().is_some_and(|status| (200..300).contains(&status)) {
            return self.on_offer_result(core, &result, now);
        }
        let is_ours =
            Dialog::from_response(answer).is_ok_and(|d| d.id() == established.dialog.id());
        if !is_ours {
            return refuse_answer(core, self.account, &result, now);
        }
        if core.repeat_ack(result.id).is_some() {
            return;
        }
        let accepted = Accepted::of(&result, answer);
        let sent = established.exchange.sent.as_ref().filter(|sent| sent.id == result.id);
        let Some(sent) = sent else {
            // The content of the ACK waits for the owner's decision.
            return;
        };
        let offer = session_of(answer).filter(|_| sent.session.is_empty());
        let asked = established.dialog.next_hop().to_vec();
        let _ = established.dialog.on_success_received(answer);
        let dialog = established.dialog.clone();
        if let Some(offer) = offer {
            // The answer to a requested offer is in the ACK.
            let exchange = &mut established.exchange;
            exchange.sent = None;
            exchange.offer = Offer::Theirs;
            exchange.turn = Some(Turn::Ack(accepted));
            exchange.note_allow(answer);
            self.note_way(next_hop(&dialog), result.flow, Some(&asked));
            self.note_timer(core, answer, now);
            core.note_received(self.id, answer);
            return core.tell(Event::Offer { call: self.id, offer: Some(offer) });
        }
        acknowledge(core, self.id, &dialog, accepted, Some(&asked), (b"", None));
        self.note_way(next_hop(&dialog), result.flow, Some(&asked));
        self.on_offer_result(core, &result, now);
    }
}
