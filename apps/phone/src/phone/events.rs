//! Handlers of the engine's events.

use super::Phone;
use crate::call::{Call, Stage};
use crate::impression::Impression;
use crate::leg::Leg;
use crate::lookups::Asker;
use crate::outcome::Outcome;
use crate::pcm;
use crate::random::random;
use crate::report::{Answered, PhoneEvent, Security};
use ::call::Change;
use media::Statistics;
use sip::header::NameAddr;
use sip::{Flow, HeaderName};
use sip_ua::{AccountId, CallId, End, Event, Failure, RegistrationState};
use std::time::{Duration, Instant};

/// The From header field value `from` without its parameters.
fn without_tag(from: String) -> String {
    let is_whole = |from: &str| NameAddr::parse(HeaderName::From, from.as_bytes()).is_ok();
    let end = match from.rfind('>') {
        Some(end) => Some(end + 1),
        None => from.find(';'),
    };
    match end.and_then(|end| from.get(..end)).filter(|short| is_whole(short)) {
        Some(short) => short.to_owned(),
        None => from,
    }
}

/// Describes why no media of `party` was received.
fn nothing_heard(totals: &Statistics, party: &str) -> String {
    let packets = |count: u64| match count {
        1 => "1 packet".to_owned(),
        count => format!("{count} packets"),
    };
    match *totals {
        Statistics { refused: count @ 1.., .. } => format!(
            "{} came from {party}, and SRTP refused all: they are not encrypted with the key that \
             was agreed on",
            packets(count)
        ),
        Statistics { unknown: count @ 1.., .. } => format!(
            "{} came from {party}, all of a payload type that was not agreed on",
            packets(count)
        ),
        Statistics { strangers: count @ 1.., .. } => {
            format!("{} came, but from other addresses than {party} has named", packets(count))
        }
        _ => format!("no media came from {party}: a firewall or NAT between, or it is muted"),
    }
}

impl Phone {
    pub(super) fn on_event(&mut self, event: Event) {
        match event {
            Event::Locate { ticket, destination } => {
                self.lookups.ask(Asker::Engine(ticket), destination);
            }
            Event::Registration { account, state } => self.on_registration(account, state),
            // The answer has the public address.
            Event::Incoming { .. } if self.is_waiting() => self.unmapped_incoming.push(event),
            Event::Incoming { call, account, from, flow, offer, replaces } => {
                self.on_incoming(call, account, from, &flow, offer.as_deref());
                // A call with Replaces takes the place of another one, so it is answered at once.
                if let (Some(_), Some(number)) = (replaces, self.number_of(call)) {
                    let _ = self.answer(number);
                }
            }
            Event::Transfer { call, transfer } => {
                if let Some(number) = self.number_of(call) {
                    self.on_transfer(number, transfer);
                }
            }
            Event::TransferAsked { call, to, .. } => {
                let Some(number) = self.number_of(call) else { return };
                if let Some(call) = self.calls.get_mut(&number) {
                    call.wish = Some(to.clone());
                }
                self.tell(PhoneEvent::TransferAsked { call: number, to });
            }
            Event::Message { account, from, text, .. } => {
                let (account, from) = (self.uri_of(account), without_tag(from));
                self.tell(PhoneEvent::Message { from, text, account });
            }
            Event::MessagesWaiting { account, waiting, new, old } => {
                let account = self.uri_of(account);
                self.tell(PhoneEvent::MessagesWaiting { account, waiting, new, old });
            }
            Event::MessageSent { message, result } => {
                let cause = result.err().map(|failure| {
                    Outcome::of_end(&End::Failed(failure), "the other end").to_string()
                });
                self.tell(PhoneEvent::MessageSent { message: message.0, cause });
            }
            Event::Redirected { call, to } => {
                let Some(number) = self.number_of(call) else { return };
                self.tell(PhoneEvent::Redirected { call: number, to });
            }
            _ => self.on_call_event(&event),
        }
    }

    /// The URI of an account.
    fn uri_of(&self, account: Option<AccountId>) -> Option<String> {
        let line = account.and_then(|account| self.lines.get(account.0));
        line.map(|line| line.uri.clone())
    }

    fn on_registration(&mut self, account: AccountId, state: RegistrationState) {
        let Some(line) = self.lines.get_mut(account.0) else { return };
        let name = line.uri.clone();
        let told = match &state {
            RegistrationState::Registered { expires } => {
                PhoneEvent::Registered { account: name, seconds: expires.as_secs() }
            }
            RegistrationState::Failed { failure, retry } => {
                let outcome = Outcome::of_registration(failure, &name);
                let retry_seconds = retry.map(sip::Duration::as_secs);
                let cause = outcome.to_string();
                PhoneEvent::RegistrationFailed { account: name, cause, retry_seconds, outcome }
            }
            RegistrationState::Ended => PhoneEvent::Unregistered { account: name },
        };
        line.state = Some(state);
        self.tell(told);
    }

    fn on_incoming(
        &mut self,
        id: CallId,
        account: Option<AccountId>,
        from: String,
        flow: &Flow,
        offer: Option<&[u8]>,
    ) {
        let now = self.clock.now();
        let from = without_tag(from);
        self.last += 1;
        let number = self.last;
        let leg = self.leg(self.links.local_towards(flow.remote).ip());
        let Ok(mut leg) = leg else {
            let _ = self.agent.decline(now, id, 500);
            return;
        };
        leg.hear_first_offer(offer);
        match leg.call.ring(&mut self.agent, now, id, offer, &mut random) {
            Ok(()) => {
                self.calls.insert(number, Call::new(from.clone(), account, Stage::RingingHere));
                self.set_leg(number, leg);
                let account = self.uri_of(account);
                self.tell(PhoneEvent::Incoming { call: number, from, account });
            }
            Err(refusal) => {
                let cause = refusal.to_string();
                self.tell(PhoneEvent::Refused { call: number, from, cause });
            }
        }
    }

    /// Handles an event of a call.
    fn on_call_event(&mut self, event: &Event) {
        let now = self.clock.now();
        if matches!(event, Event::Ended { .. }) {
            self.unmapped_incoming.retain(|incoming| incoming.call() != event.call());
        }
        let Some(number) = event.call().and_then(|id| self.number_of(id)) else { return };
        let Some(call) = self.calls.get_mut(&number) else { return };
        let Some(leg) = &mut call.leg else { return };
        leg.prepare_ice(event);
        let change = leg.call.on_event(&mut self.agent, now, event, &mut random);
        leg.follow_ice(event);
        match change {
            Some(Change::Ringing { status, early_media }) => {
                call.stage = Stage::Ringing;
                self.tell(PhoneEvent::Ringing { call: number, status, early_media });
            }
            Some(Change::Answered) => {
                call.stage = Stage::Talking;
                call.answered = Some(Instant::now());
                self.open(number);
                self.tell_answered(number);
            }
            Some(Change::MediaStarted) => self.tell_answered(number),
            Some(Change::Held(held)) => {
                self.tell(PhoneEvent::Held { call: number, held, here: true });
                if held {
                    self.refer(number);
                }
            }
            Some(Change::HeldByPeer(held)) => {
                self.tell(PhoneEvent::Held { call: number, held, here: false });
            }
            Some(Change::OfferFailed(failure)) => {
                let cause = Outcome::of_end(&End::Failed(failure), &call.party).to_string();
                self.tell(PhoneEvent::Unchanged { call: number, cause: cause.clone() });
                self.give_up_transfer(number, cause);
            }
            Some(Change::OfferRefused(refusal)) => {
                self.tell(PhoneEvent::Unchanged { call: number, cause: refusal.to_string() });
            }
            Some(Change::Failed(refusal)) => self.end(number, Outcome::of_refusal(&refusal)),
            Some(Change::Moved) => self.on_moved(number),
            Some(Change::Key(key)) => {
                leg.ear.hear_key(key);
                self.tell(PhoneEvent::Dtmf { call: number, digit: key });
            }
            Some(Change::Ended(end)) => self.on_ended(number, &end),
            _ => {}
        }
    }

    /// Reports the keys of handshakes, and ends the calls of failed handshakes.
    pub(super) fn look_for_keys(&mut self) {
        let legs = self.calls.iter_mut().filter_map(|(&number, call)| {
            let security = call.leg.as_mut()?.security.take()?;
            Some((number, security))
        });
        for (number, security) in legs.collect::<Vec<_>>() {
            match security {
                Ok(()) => self.tell_secured(number),
                Err(error) => {
                    let outcome = Outcome::NotSecured(error);
                    if let Ok(id) = self.id_of(number) {
                        let _ = self.agent.hang_up(self.clock.now(), id);
                    }
                    self.end(number, outcome);
                }
            }
        }
    }

    pub(super) fn tell_secured(&mut self, number: u64) {
        let Some(call) = self.calls.get(&number) else { return };
        if let Some(session) = call.session() {
            let proof = call.leg.as_ref().and_then(Leg::proof);
            let security = Security::of(session, self.is_secured(call), proof);
            self.tell(PhoneEvent::Secured { call: number, security });
        }
    }

    pub(super) fn tell_answered(&mut self, number: u64) {
        let Some(call) = self.calls.get(&number) else { return };
        let session = call.session();
        if let Some(session) = session {
            let is_secured = call.id().is_some_and(|id| self.agent.is_secured(id));
            let proof = call.leg.as_ref().and_then(Leg::proof);
            let answered = Answered::new(number, session, &call.party, is_secured, proof);
            self.tell(PhoneEvent::Answered(answered));
        }
    }

    fn on_ended(&mut self, number: u64, end: &End) {
        if self.places_anew(number, end) {
            return;
        }
        let Some(call) = self.calls.get(&number) else { return };
        let mut outcome = Outcome::of_end(end, &call.party);
        let session = call.session();
        let totals = session.map(|session| session.statistics()).unwrap_or_default();
        let (heard_nothing, flow) = (totals.received == 0, totals.flow);
        // A held or very short call may lack received media.
        let had_time = call.answered.is_some_and(|begun| begun.elapsed() >= Duration::from_secs(1));
        let could_hear = had_time && !call.holds() && !call.is_held();
        if outcome == Outcome::Done && could_hear && heard_nothing {
            outcome = Outcome::NothingHeard(nothing_heard(&totals, &call.party));
        } else if outcome == Outcome::Done
            && could_hear
            && flow == media::AudioFlow::NothingGetsThrough
        {
            outcome = Outcome::OneWay(format!(
                "{} reports that nothing arrives there: a firewall or NAT between",
                call.party
            ));
        }
        self.end_told(number, outcome, Some(end));
    }

    /// Removes a call and reports its end.
    pub(super) fn end(&mut self, number: u64, outcome: Outcome) {
        self.end_told(number, outcome, None);
    }

    fn end_told(&mut self, number: u64, outcome: Outcome, end: Option<&End>) {
        let Some(mut call) = self.calls.remove(&number) else { return };
        if let Some(id) = call.id() {
            self.numbers.remove(&id);
        }
        if let Some(leg) = &mut call.leg {
            leg.say_bye(self.clock.now());
        }
        let by_peer = matches!(end, Some(End::HungUpByPeer { .. } | End::Cancelled { .. }));
        let sip_status = match end {
            Some(End::Failed(Failure::Refused { status, .. })) => Some(*status),
            _ => None,
        };
        let cause = match &outcome {
            Outcome::Done if by_peer => format!("hung up by {}", call.party),
            Outcome::Done => "hung up here".to_owned(),
            other => other.to_string(),
        };
        let session = call.session();
        let totals = call.leg.as_ref().and_then(|leg| leg.figures(number));
        let seconds = call.answered.map(|begun| begun.elapsed().as_secs_f64());
        let seconds = seconds.map(|seconds| (seconds * 1e3).round() / 1e3);
        let status = outcome.code();
        if let Some(timings) = session.filter(|_| self.timings).map(|session| session.timings()) {
            self.told.extend(
                timings.iter().map(|(suite, timings)| PhoneEvent::timings(number, *suite, timings)),
            );
        }
        let heard = session.and(call.leg.as_ref()).map(|leg| Impression::of(&leg.ear));
        self.tell(PhoneEvent::Ended {
            call: number,
            cause,
            status,
            by_peer,
            sip_status,
            seconds,
            totals,
            heard,
            pcm: pcm::lacks(),
            outcome,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_party_has_no_tag() {
        for (from, expected) in [
            ("\"a;b>\" <sip:a@b;x=y>;tag=1;z", "\"a;b>\" <sip:a@b;x=y>"),
            ("sip:a@b;tag=1", "sip:a@b"),
            ("<sip:a@b>", "<sip:a@b>"),
            ("<sip:a@b>;tag=\">\"", "<sip:a@b>;tag=\">\""),
        ] {
            assert_eq!(without_tag(from.to_owned()), expected);
        }
    }

    #[test]
    fn the_cause_of_missing_media_is_named() {
        let none = Statistics::default();
        for (totals, expected) in [
            (Statistics { refused: 9, unknown: 1, ..none }, "9 packets came from bob, and SRTP"),
            (Statistics { unknown: 1, ..none }, "1 packet came from bob, all of a payload type"),
            (Statistics { strangers: 2, ..none }, "2 packets came, but from other addresses"),
            (none, "no media came from bob: a firewall"),
        ] {
            let cause = nothing_heard(&totals, "bob");
            assert!(cause.starts_with(expected), "{cause}");
        }
    }
}
