//! Provisional responses of ours that are sent until they are acknowledged (RFC 3262 section 3).

use super::{Call, Offer, State, session_of};
use crate::config::{Config, Reliable};
use crate::core::Core;
use crate::event::{End, Event, Failure};
use crate::option_tags::{self, RELIABLE};
use crate::server::{Answer, ServerKey};
use alloc::vec::Vec;
use sip::header::RAck;
use sip::{Duration, Flow, HeaderName, Instant, Message, Method};

/// What is known of the provisional responses to one INVITE.
pub(super) struct Responses {
    /// Whether the caller takes reliable ones, and insists on them.
    is_possible: bool,
    is_required: bool,
    /// The RSeq of the last one; 0 before the first.
    last: u32,
    /// One at a time is under way.
    sent: Option<Sent>,
    /// What is to be said next: with a session, or that it rings.
    pub(super) next: Option<Vec<u8>>,
    /// The session of a 2xx that has to wait.
    pub(super) answer: Option<Vec<u8>>,
}

/// One that is not acknowledged.
struct Sent {
    has_session: bool,
    again: Instant,
    interval: Duration,
    give_up: Instant,
}

impl Responses {
    /// For `invite`.
    pub(super) fn new(config: &Config, invite: &Message<'_>) -> Self {
        let is_required = option_tags::has(invite, HeaderName::Require, RELIABLE);
        let is_known = is_required || option_tags::has(invite, HeaderName::Supported, RELIABLE);
        let is_possible = is_known && config.reliable != Reliable::Off;
        Self {
            is_possible,
            is_required: is_possible && (is_required || config.reliable == Reliable::Required),
            last: 0,
            sent: None,
            next: None,
            answer: None,
        }
    }

    /// Whether the caller takes reliable ones.
    pub(super) const fn is_possible(&self) -> bool {
        self.is_possible
    }

    /// Whether one is not acknowledged.
    pub(super) const fn is_waiting(&self) -> bool {
        self.sent.is_some()
    }

    /// Whether one with a session is not acknowledged.
    pub(super) fn holds_answer(&self) -> bool {
        self.sent.as_ref().is_some_and(|sent| sent.has_session)
    }

    /// The RSeq of the one that is not acknowledged.
    pub(super) fn unacknowledged(&self) -> Option<u32> {
        self.sent.as_ref().map(|_| self.last)
    }

    /// The RSeq of one that is sent now, with a session or without; `None`: it is not sent
    /// reliably.
    pub(super) fn begin(
        &mut self,
        core: &mut Core,
        has_session: bool,
        now: Instant,
    ) -> Option<u32> {
        if !(self.is_required || (self.is_possible && has_session)) {
            return None;
        }
        self.last = match self.last {
            0 => 1 + core.tokens.below((1 << 31) - 1) as u32,
            last => last + 1,
        };
        let t1 = core.config.timers.t1;
        let give_up = now + t1.times(64);
        self.sent = Some(Sent { has_session, again: now + t1, interval: t1, give_up });
        Some(self.last)
    }

    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.sent.as_ref().map(|sent| sent.again.min(sent.give_up))
    }
}

impl Call {
    /// Sends the provisional response again that has no PRACK, or gives up.
    pub(super) fn poll_ring(&mut self, core: &mut Core, now: Instant) {
        let State::Ringing(ringing) = &mut self.state else { return };
        let Some(sent) = &mut ringing.reliable.sent else { return };
        if sent.give_up <= now {
            return self.refuse_invite(core, 504, End::Failed(Failure::TimedOut), now);
        }
        if sent.again <= now {
            sent.interval = sent.interval.times(2);
            sent.again = now + sent.interval;
            core.send_again(ringing.invite.key);
        }
    }

    /// A PRACK has come.
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
            State::Calling(_) | State::Over => false,
        };
        let call = self.id;
        let Some((_, exchange)) = self.parts_of(prack).filter(|_| is_known) else {
            return core.respond(prack, flow, key, &Answer::status(481, &tag), now);
        };
        match session_of(prack) {
            answer if exchange.offer == Offer::Ours && exchange.sent.is_none() => {
                exchange.settle();
                exchange.remote = answer.clone().unwrap_or_default();
                core.tell(match answer {
                    Some(answer) => Event::Answer { call, answer },
                    None => {
                        let failure = Failure::Protocol("the PRACK has no answer to our offer");
                        Event::OfferFailed { call, failure }
                    }
                });
            }
            Some(offer) if exchange.offer == Offer::None && !exchange.is_open() => {
                return self.ask_owner(core, prack, flow, key, Some(offer));
            }
            Some(_) => {
                return core.respond(prack, flow, key, &Answer::status(491, &tag), now);
            }
            None => {}
        }
        core.respond(prack, flow, key, &Answer::status(200, &tag), now);
        self.go_on(core, now);
    }

    /// Says what had to wait until a provisional response was acknowledged, or an offer answered.
    pub(super) fn go_on(&mut self, core: &mut Core, now: Instant) {
        let State::Ringing(ringing) = &mut self.state else { return };
        if ringing.reliable.is_waiting() || ringing.exchange.is_open() {
            return;
        }
        if let Some(session) = ringing.reliable.answer.take() {
            let _ = self.answer(core, &session, now);
        } else if let Some(session) = ringing.reliable.next.take() {
            let _ = self.ring(core, &session, now);
        }
    }
}
