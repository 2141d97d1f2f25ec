//! Calls on the side of the callee (RFC 3261 section 13.3).

use super::Phone;
use super::session::{Phase, Session};
use crate::wire;
use sip::dialog::Dialog;
use sip::header::HeaderName;
use sip::{Duration, Instant, Message};

/// One received INVITE.
pub(crate) struct Leg {
    pub(crate) call_id: String,
    pub(crate) tag: String,
    pub(crate) started: Instant,
    /// The final response that was sent.
    pub(crate) answered: Option<u16>,
    pub(crate) end: Option<LegEnd>,
    /// The key of the transaction.
    pub(crate) invite: String,
    request: Vec<u8>,
    intention: Intention,
    /// The time of the intended action.
    due: Instant,
    /// The time of the next provisional response.
    ring_again: Instant,
    success: Option<Success>,
}

/// A 2xx that was sent.
struct Success {
    session: Session,
    response: Vec<u8>,
    again: Instant,
    interval: Duration,
    give_up: Instant,
    talk: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LegEnd {
    /// The call was rejected.
    Refused(u16),
    /// A CANCEL arrived while the phone rang.
    Cancelled,
    /// The phone was never told to stop ringing.
    RangTooLong,
    /// No ACK arrived.
    Unacknowledged,
    /// The call was established.
    Talked,
    /// The phone did not respond.
    Silent,
    /// The phone was switched off.
    Off,
}

#[derive(Clone, Copy, Debug)]
enum Intention {
    Answer,
    Refuse(u16),
    Ring,
    /// Sends no response, and forgets the INVITE after its last retransmission.
    Forget,
}

/// The maximum ringing time: longer than timer C of the server and the patience of all callers.
const RING_LIMIT: Duration = Duration::from_secs(400);

impl Leg {
    /// True if no further event is expected.
    pub(crate) fn is_over(&self) -> bool {
        let is_call_over =
            self.success.as_ref().is_none_or(|success| success.session.phase == Phase::Over);
        self.end.is_some() && is_call_over
    }

    /// True if the call was answered and the ACK arrived.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.end == Some(LegEnd::Talked)
    }

    /// Handles a BYE, even if it overtook the ACK.
    pub(super) fn on_bye(&mut self) {
        self.end = self.end.or(Some(LegEnd::Talked));
    }

    pub(super) fn session_mut(&mut self) -> Option<&mut Session> {
        self.success.as_mut().map(|success| &mut success.session)
    }

    pub(super) fn power_off(&mut self) {
        self.end = self.end.or(Some(LegEnd::Off));
        if let Some(session) = self.session_mut() {
            session.phase = Phase::Over;
        }
    }

    pub(super) fn next_timer(&self) -> Option<Instant> {
        match &self.success {
            None if self.end.is_some() => None,
            None => Some(self.due.min(self.ring_again).min(self.started + RING_LIMIT)),
            Some(success) => match success.session.phase {
                Phase::Unconfirmed => Some(success.again.min(success.give_up)),
                _ => success.session.next_timer(),
            },
        }
    }
}

impl Phone {
    pub(super) fn on_invite(&mut self, now: Instant, key: &str, invite: &Message<'_>) {
        let call_id = wire::value(invite, HeaderName::CallId).to_owned();
        let cseq = wire::value(invite, HeaderName::CSeq);
        let is_merged = self.legs.iter().any(|leg| {
            let earlier = Message::parse(&leg.request).expect("a good request");
            leg.call_id == call_id && wire::value(&earlier, HeaderName::CSeq) == cseq
        });
        if is_merged {
            // RFC 3261 section 8.2.2.2.
            return self.answer(now, key, invite, 482);
        }
        let seconds = |from, to| (Duration::from_secs(from), Duration::from_secs(to));
        let (intention, (from, to)) = match self.random.below(100) {
            0..15 => (Intention::Answer, seconds(0, 0)),
            15..55 => (Intention::Answer, seconds(1, 20)),
            55..60 => (Intention::Answer, seconds(170, 230)),
            60..75 => (Intention::Refuse(486), seconds(0, 10)),
            75..80 => (Intention::Refuse(603), seconds(0, 10)),
            80..96 => (Intention::Ring, seconds(500, 500)),
            _ => (Intention::Forget, seconds(40, 40)),
        };
        let wait = self.random.below(to.as_micros() - from.as_micros() + 1) + from.as_micros();
        let again = !matches!(intention, Intention::Forget) && self.random.chance(300);
        let ring_again = if again { 60 } else { 1000 };
        let leg = Leg {
            call_id,
            tag: self.token("callee"),
            started: now,
            answered: None,
            end: None,
            invite: key.to_owned(),
            request: invite.as_bytes().to_vec(),
            intention,
            due: now + Duration::from_micros(wait),
            ring_again: now + Duration::from_secs(ring_again),
            success: None,
        };
        let is_ringing = wait > 0 && !matches!(intention, Intention::Forget);
        let number = self.legs.len();
        self.legs.push(leg);
        if is_ringing {
            self.ring(now, number);
        }
        self.poll_legs(now);
    }

    fn ring(&mut self, now: Instant, number: usize) {
        let leg = &self.legs[number];
        let response = wire::response(&leg.request, 180, &leg.tag, "");
        let key = leg.invite.clone();
        self.respond(now, &key, 180, response);
    }

    fn finish(&mut self, now: Instant, number: usize, status: u16, end: LegEnd) {
        let leg = &mut self.legs[number];
        leg.end = Some(end);
        leg.answered = Some(status);
        let response = wire::response(&leg.request, status, &leg.tag, "");
        let key = leg.invite.clone();
        self.respond(now, &key, status, response);
    }

    fn accept(&mut self, now: Instant, number: usize) {
        let talk = Duration::from_secs(self.random.below(60) + 1);
        let contact = format!("Contact: <{}>\r\n", self.contact());
        let leg = &mut self.legs[number];
        let response = wire::response(&leg.request, 200, &leg.tag, &contact);
        let request = Message::parse(&leg.request).expect("a good request");
        let dialog = Dialog::from_request(&request, leg.tag.as_bytes()).expect("a good request");
        leg.answered = Some(200);
        leg.success = Some(Success {
            session: Session { dialog, phase: Phase::Unconfirmed },
            response: response.clone(),
            again: now + self.timers.t1,
            interval: self.timers.t1,
            give_up: now + self.timers.t1.times(64),
            talk,
        });
        let key = leg.invite.clone();
        self.respond(now, &key, 200, response);
    }

    pub(super) fn on_ack(&mut self, ack: &Message<'_>, now: Instant) {
        let id = wire::dialog_id(ack);
        let (call_id, tag) = (wire::text(id.call_id), wire::text(id.local_tag));
        let leg = self.legs.iter_mut().find(|leg| leg.call_id == call_id && leg.tag == tag);
        let Some(Leg { success: Some(success), end, .. }) = leg else { return };
        if success.session.phase == Phase::Unconfirmed {
            success.session.phase = Phase::Up(now + success.talk);
        }
        *end = end.or(Some(LegEnd::Talked));
    }

    pub(super) fn on_invite_cancelled(&mut self, now: Instant, key: &str) {
        let rings = |leg: &Leg| leg.invite == key && leg.answered.is_none();
        if let Some(number) = self.legs.iter().position(rings) {
            self.finish(now, number, 487, LegEnd::Cancelled);
        }
    }

    pub(super) fn poll_legs(&mut self, now: Instant) {
        for number in 0..self.legs.len() {
            while self.legs[number].next_timer().is_some_and(|next| next <= now) {
                self.poll_leg(now, number);
            }
        }
    }

    fn poll_leg(&mut self, now: Instant, number: usize) {
        let leg = &mut self.legs[number];
        let Some(success) = &mut leg.success else {
            if leg.due <= now {
                match leg.intention {
                    Intention::Answer => self.accept(now, number),
                    Intention::Refuse(status) => {
                        self.finish(now, number, status, LegEnd::Refused(status));
                    }
                    Intention::Ring => leg.due = Instant::MAX,
                    Intention::Forget => {
                        leg.end = Some(LegEnd::Silent);
                        self.served.remove(&leg.invite);
                    }
                }
            } else if leg.started + RING_LIMIT <= now {
                self.finish(now, number, 480, LegEnd::RangTooLong);
            } else {
                leg.ring_again = now + Duration::from_secs(60);
                self.ring(now, number);
            }
            return;
        };
        if success.session.phase == Phase::Unconfirmed && now < success.give_up {
            // RFC 3261 section 13.3.1.4.
            success.interval = success.interval.times(2).min(self.timers.t2);
            success.again = now + success.interval;
            let response = success.response.clone();
            let key = leg.invite.clone();
            self.respond(now, &key, 200, response);
            return;
        }
        if success.session.phase == Phase::Unconfirmed {
            leg.end = Some(LegEnd::Unacknowledged);
        }
        let mut session = success.session.clone();
        self.bye(now, &mut session);
        if let Some(success) = &mut self.legs[number].success {
            success.session = session;
        }
    }
}
