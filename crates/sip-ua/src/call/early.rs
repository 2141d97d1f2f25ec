//! The early dialogs of outgoing calls: one for each ringing phone (RFC 3261 section 13.2.2.1, RFC
//! 3262 section 4).

use super::exchange::{Offer, Turn, cseq_of, session_of};
use super::reliable::prack;
use super::state::{Call, Calling, Early, State};
use crate::capabilities::{self, RELIABLE};
use crate::client_transaction::Owner;
use crate::config::Reliable;
use crate::core::Core;
use crate::event::Event;
use crate::way::{NextHop, keeps};
use alloc::vec::Vec;
use sip::dialog::Dialog;
use sip::header::number;
use sip::{Flow, HeaderName, Instant, Message};

/// The maximum number of early dialogs. Provisional responses of further phones are ignored.
const MAX_EARLY: usize = 16;

impl Calling {
    /// Returns the index of the early dialog `dialog`, which is added if it is new.
    fn early_of(&mut self, dialog: &Dialog) -> Option<usize> {
        let place = self.early.iter().position(|early| early.dialog.id() == dialog.id());
        if place.is_none() && self.early.len() < MAX_EARLY {
            let exchange = self.exchange();
            let early =
                Early { number: self.branches, dialog: dialog.clone(), exchange, rseq: None };
            self.early.push(early);
            self.branches += 1;
            return Some(self.early.len() - 1);
        }
        place
    }

    /// Removes an early dialog.
    fn end_early(&mut self, core: &mut Core, place: usize, now: Instant) {
        let early = self.early.remove(place);
        early.exchange.abandon(core, early.dialog.id().local_tag, now);
        if self.current == Some(early.number) {
            let mut others = self.early.iter().rev();
            self.current = others.find(|other| !other.exchange.remote.is_empty()).map(|e| e.number);
        }
    }
}

/// Returns the RSeq of a provisional response that requires a PRACK.
fn reliable(response: &Message<'_>) -> Option<u32> {
    if !capabilities::has(response, HeaderName::Require, RELIABLE) {
        return None;
    }
    number(HeaderName::RSeq, response.value(HeaderName::RSeq)?, u32::MAX).ok()
}

impl Call {
    /// Processes a provisional response to the INVITE.
    pub(super) fn on_ringing(
        &mut self,
        core: &mut Core,
        response: &Message<'_>,
        flow: Option<Flow>,
        now: Instant,
    ) {
        let (id, account) = (self.id, self.account);
        let State::Calling(calling) = &mut self.state else { return };
        let Ok(dialog) = Dialog::from_response(response) else { return };
        let is_asked = calling.early.iter().any(|early| early.exchange.turn.is_some());
        let (has_offered, is_ending) = (!calling.session.is_empty(), calling.ending.is_some());
        let Some(place) = calling.early_of(&dialog) else { return };
        let early = &mut calling.early[place];
        let rseq = reliable(response).filter(|_| core.config.reliable != Reliable::Off);
        let is_settled = early.exchange.is_settled;
        let session = session_of(response).filter(|_| !is_settled);
        let mut offer = None;
        if let Some(rseq) = rseq {
            // A repeated or premature response is ignored: the missing ones are retransmitted until
            // they arrive.
            if early.rseq.is_some_and(|last| last.checked_add(1) != Some(rseq)) {
                return;
            }
            offer = session.clone().filter(|_| !has_offered);
            // One offer at a time is answered. This response is retransmitted.
            if offer.is_some() && (is_asked || is_ending) {
                return;
            }
            early.rseq = Some(rseq);
        }
        early.dialog.refresh_target(response);
        early.exchange.note_allow(response);
        // Without reliability the session is no offer (RFC 3261 section 13.2.1), but a preview of
        // the answer.
        let session = session.filter(|_| has_offered);
        if let Some(session) = session.as_ref().or(offer.as_ref()) {
            early.exchange.remote.clone_from(session);
            calling.current = Some(early.number);
        }
        let (uri, is_route) =
            (early.dialog.next_hop().to_vec(), !early.dialog.route_set().is_empty());
        let (next, asked) = (NextHop { uri: &uri, is_route }, calling.dialog.next_hop().to_vec());
        let way = flow.filter(|flow| keeps(flow, Some(&asked), next));
        if let Some(rseq) = rseq {
            match &offer {
                Some(_) => {
                    early.exchange.offer = Offer::Theirs;
                    early.exchange.turn = Some(Turn::Prack(cseq_of(response), rseq));
                }
                None => {
                    if session.is_some() {
                        early.exchange.settle();
                    }
                    let cseq = cseq_of(response);
                    let prack = prack(account, &mut early.dialog, cseq, rseq, Vec::new());
                    core.request(prack, Owner::Call(id), way, now);
                }
            }
        }
        let status = response.status().unwrap_or_default();
        let (branch, is_settled) = (early.number, early.exchange.is_settled);
        if status == 199 {
            calling.end_early(core, place, now);
        }
        self.note_way(next, flow, Some(&asked));
        if !is_ending {
            core.note_received(id, response);
            self.tell_news(core, status);
            core.tell(Event::Ringing { call: id, status, branch, session, is_settled });
            if offer.is_some() {
                core.note_received(id, response);
                core.tell(Event::Offer { call: id, offer });
            }
        }
    }
}
