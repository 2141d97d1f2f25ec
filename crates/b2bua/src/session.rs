//! Offers and answers within a call (RFC 3264, RFC 6337): an offer of one leg is offered to the
//! other, and its answer comes back.

use crate::b2bua::{B2bua, BridgeId};
use crate::bridge::{Bridge, OnTrunk, Side};
use crate::fields::{self, TooLong};
use crate::origin::is_same;
use crate::setup::TOO_LARGE;
use alloc::vec::Vec;
use sip::{Instant, Message, Method, Status};
use sip_ua::{Agent, CallError, CallId, Envelope, Failure};

/// The status of an offer that has to wait for another one (RFC 3261 section 21.4.27).
const REQUEST_PENDING: u16 = 491;

/// The maximum number of offers that neither party has asked for. More would be a circle.
const MAX_OFFERS: u32 = 8;

/// Returns the call of `side` and `description` as that leg gets it, if it may be offered now.
fn prepare(
    agent: &Agent,
    bridge: &mut Bridge,
    side: Side,
    description: &[u8],
) -> Result<(CallId, Vec<u8>), CallError> {
    let call = bridge.call(side).ok_or(CallError::Unknown)?;
    // The version of an origin counts the descriptions that were sent.
    match agent.may_offer_now(call) {
        true => Ok((call, bridge.leg(side).offer_of_other(description))),
        false => Err(CallError::OfferPending),
    }
}

impl B2bua {
    /// Returns the body around the session description in the message that causes the current
    /// event. A response loses one that is too long.
    ///
    /// # Errors
    /// That of a request is longer than [`Config::body`](crate::Config::body).
    fn received_envelope(&self) -> Result<Option<Envelope>, TooLong> {
        let Ok(message) = Message::parse(&self.received) else { return Ok(None) };
        match fields::envelope(&message, self.config.body) {
            Err(TooLong) if message.status().is_some() => Ok(None),
            envelope => envelope,
        }
    }

    /// Passes an offer of `call`, or the request for one, to the other leg.
    pub(crate) fn on_offer(&mut self, call: CallId, offer: Option<Vec<u8>>, now: Instant) {
        let Some((id, side)) = self.find(call) else { return };
        let envelope = self.received_envelope();
        let message = Message::parse(&self.received).ok();
        let Some(bridge) = self.bridges.get_mut(&id) else { return };
        // A trunk has an account of its own. Those of an UPDATE are of no use in a re-INVITE.
        let is_to_trunk = bridge.on_trunk.is_some_and(|on| on.side != side);
        let is_passed = |it: &Message<'_>| !is_to_trunk && it.method() == Some(Method::Invite);
        let credentials = message.filter(is_passed).map(|it| fields::credentials(&it));
        let credentials = credentials.unwrap_or_default();
        let agent = &mut self.agent;
        let Ok(envelope) = envelope else {
            let _ = agent.refuse(now, call, TOO_LARGE);
            return;
        };
        let Some(other) = bridge.call(side.other()) else {
            let _ = agent.refuse(now, call, Status::CALL_DOES_NOT_EXIST.code());
            return;
        };
        let Some(offer) = offer else {
            match agent.ask_once(now, other, envelope, &credentials) {
                Ok(()) => bridge.asks = Some(side),
                Err(CallError::OfferPending) => drop(agent.refuse(now, call, REQUEST_PENDING)),
                Err(_) => self.offer_known(id, side, now),
            }
            return;
        };
        if bridge.asks.take_if(|asks| *asks == side.other()).is_some() {
            let written = bridge.leg(side.other()).offer_of_other(&offer);
            bridge.leg(side).offer = Some(offer);
            if agent.accept_with(now, other, &written, envelope).is_err() {
                bridge.leg(side).offer = None;
                let _ = agent.refuse(now, call, REQUEST_PENDING);
            }
            return;
        }
        if side == Side::Callee && agent.invite(other).is_some() && bridge.is_offerless() {
            return self.pass_first_offer(call, offer, envelope, now);
        }
        let leg = bridge.leg(side);
        let is_again = leg.has_answer && is_same(&offer, &leg.received);
        if is_again && envelope.is_none() && bridge.due.is_none() {
            // A refresh with an offer that has an answer concerns this leg only.
            let answer = bridge.leg(side).sent.clone();
            let _ = agent.accept(now, call, &answer);
            return;
        }
        let prepared = prepare(agent, bridge, side.other(), &offer);
        let offered = prepared.and_then(|(other, written)| {
            agent.offer_once(now, other, written, envelope, &credentials)
        });
        match offered {
            Ok(()) => bridge.leg(side).offer = Some(offer),
            Err(_) => {
                let _ = agent.refuse(now, call, REQUEST_PENDING);
            }
        }
    }

    /// Offers to the party of `side`, which has requested an offer, the description that it knows.
    fn offer_known(&mut self, id: BridgeId, side: Side, now: Instant) {
        let Some(bridge) = self.bridges.get_mut(&id) else { return };
        let Some(call) = bridge.call(side) else { return };
        let offer = bridge.leg(side).offer_again();
        let _ = self.agent.accept(now, call, &offer);
    }

    /// Passes the offer of the callee to a caller that has made none: in the answer, or reliably
    /// before it.
    fn pass_first_offer(
        &mut self,
        callee: CallId,
        offer: Vec<u8>,
        envelope: Option<Envelope>,
        now: Instant,
    ) {
        let Some((id, _)) = self.find(callee) else { return };
        let Some(bridge) = self.bridges.get_mut(&id) else { return };
        let Some(caller) = bridge.call(Side::Caller) else { return };
        let written = bridge.leg(Side::Caller).offer_of_other(&offer);
        bridge.leg(Side::Callee).offer = Some(offer);
        let _ = match bridge.answer.take() {
            Some(lines) => self.agent.answer_with(now, caller, &lines, &written, envelope),
            None => self.agent.progress(now, caller, 183, b"", &written, envelope),
        };
    }

    /// Passes the answer of `call` to the other leg, if that has offered.
    pub(crate) fn on_answer(&mut self, call: CallId, answer: Vec<u8>, now: Instant) {
        let Some((id, side)) = self.find(call) else { return };
        // The exchange is over: an answer that is too long passes without its other parts.
        let envelope = self.received_envelope().unwrap_or_default();
        let Some(bridge) = self.bridges.get_mut(&id) else { return };
        let is_news = !is_same(&answer, &bridge.leg(side).received);
        let Some(other) = bridge.call(side.other()) else { return };
        match bridge.leg(side.other()).offer.take() {
            Some(offer) => {
                let written = bridge.leg(side.other()).answer_of_other(&answer);
                bridge.leg(side.other()).received = offer;
                bridge.leg(side).on_answer(answer);
                let _ = self.agent.accept_with(now, other, &written, envelope);
            }
            None => {
                bridge.leg(side).on_answer(answer);
                if is_news {
                    bridge.due = Some(side.other());
                    self.due.insert(id);
                }
            }
        }
    }

    /// Reports the failure of an offer to the leg that has made it, with the header fields of the
    /// response that has refused it.
    pub(crate) fn on_offer_failed(&mut self, call: CallId, failure: &Failure, now: Instant) {
        let Some((id, side)) = self.find(call) else { return };
        let response = Message::parse(&self.received).ok();
        let response = response.filter(|it| it.status() == Some(failure.status()));
        let is_on_trunk = |on: OnTrunk| on.side == side;
        let is_of_trunk =
            self.bridges.get(&id).and_then(|bridge| bridge.on_trunk).is_some_and(is_on_trunk);
        let lines = response.map_or_else(Vec::new, |response| match is_of_trunk {
            true => fields::reason(&response, None),
            false => fields::passed(&response),
        });
        let Some(bridge) = self.bridges.get_mut(&id) else { return };
        let Some(other) = bridge.call(side.other()) else { return };
        if bridge.asks.take_if(|asks| *asks == side.other()).is_some() {
            match failure {
                // The other end has no offer.
                Failure::Protocol(_) => self.offer_known(id, side.other(), now),
                _ => drop(self.agent.refuse_with(now, other, failure.status(), &lines)),
            }
            return;
        }
        if bridge.leg(side.other()).offer.take().is_some() {
            let _ = self.agent.refuse_with(now, other, failure.status(), &lines);
        }
    }

    /// Cancels the offer of `call`, or its request for one, at the other leg.
    pub(crate) fn on_offer_cancelled(&mut self, call: CallId, now: Instant) {
        let Some((id, side)) = self.find(call) else { return };
        let Some(bridge) = self.bridges.get_mut(&id) else { return };
        let has_offered = bridge.leg(side).offer.take().is_some();
        let has_asked = bridge.asks.take_if(|asks| *asks == side).is_some();
        if let Some(other) = bridge.call(side.other()).filter(|_| has_offered || has_asked) {
            // The answer may have crossed the CANCEL.
            let _ = self.agent.cancel_offer(now, other);
        }
    }

    /// Offers a description to the leg of the bridge of `call` that does not have it yet, if that
    /// is possible now. To be called after each change of a leg.
    pub(crate) fn offer_due(&mut self, now: Instant, call: CallId) {
        let Some((id, _)) = self.find(call).filter(|(id, _)| self.due.contains(id)) else { return };
        let Some(bridge) = self.bridges.get_mut(&id) else { return };
        let Some(side) = bridge.due else { return };
        if bridge.offers >= MAX_OFFERS {
            bridge.due = None;
            self.due.remove(&id);
            return;
        }
        let description = bridge.leg(side.other()).received.clone();
        let prepared = prepare(&self.agent, bridge, side, &description);
        match prepared.and_then(|(call, written)| self.agent.offer(now, call, written)) {
            Ok(()) => {
                bridge.due = None;
                bridge.offers += 1;
            }
            Err(CallError::OfferPending) => return,
            Err(_) => bridge.due = None,
        }
        self.due.remove(&id);
    }
}
