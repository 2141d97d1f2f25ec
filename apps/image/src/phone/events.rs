//! Handlers of the engine's events.

use super::{Call, Login, Phone, Search, Stage};
use ::call::Change;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use sip::header::NameAddr;
use sip::{HeaderName, Instant, Transport};
use sip_ua::{CallId, End, Event, Failure, RegistrationState, Transfer};

impl Phone {
    pub(super) fn on_event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Locate { ticket, mut destination } => {
                destination.transport = destination.transport.or(Some(Transport::Udp));
                let search = Search::Engine(ticket);
                self.resolver.locate(now, destination, search, &mut self.random);
                self.go_on_with_searches(now);
            }
            Event::Registration { state, .. } => self.on_registration(state),
            Event::Incoming { call, from, offer, .. } => {
                self.on_incoming(now, call, &from, offer);
            }
            Event::Transfer { call, transfer: Transfer::Done } => {
                self.log.say(format_args!("transferred"));
                let _ = self.agent.hang_up(now, call);
            }
            Event::Transfer { transfer: Transfer::Failed(failure), .. } => {
                self.log.say(format_args!("not transferred: {}", of_failure(&failure)));
            }
            Event::TransferAsked { call, .. } => {
                // This phone does not follow transfers.
                let _ = self.agent.refuse_transfer(now, call, 603);
            }
            Event::Ended { call, end } if self.call_of(call).is_some() => {
                self.end_call(now, &why(&end));
            }
            event => self.on_call_event(now, &event),
        }
    }

    /// Handles an event of the call.
    fn on_call_event(&mut self, now: Instant, event: &Event) {
        let ours = self.ours();
        let Some(call) = &mut self.call else { return };
        call.leg.prepare(self.host);
        let random = &mut |bytes: &mut [u8]| self.random.fill(bytes);
        let change = call.leg.call.on_event(&mut self.agent, now, event, random);
        match change {
            Some(Change::Ringing { status, .. }) => {
                call.stage = Stage::Ringing;
                self.log.say(format_args!("it rings there ({status})"));
            }
            Some(Change::Answered) => {
                call.stand(now);
                self.log.say(format_args!("the call is established"));
            }
            Some(Change::Failed(refusal)) => self.end_call(now, &format!("{refusal}")),
            Some(Change::Moved) => {
                let Some(ours) = ours else { return };
                let (port, public) = (call.leg.ports.rtp(), call.leg.ports.mapped());
                let local = SocketAddr::new(IpAddr::V4(ours), port);
                let moved = call.leg.call.move_to(&mut self.agent, now, local, public, random);
                if let Err(error) = moved {
                    self.log.say(format_args!("the call does not move: {error}"));
                }
            }
            Some(Change::Key(key)) => {
                self.log.say(format_args!("the other end has pressed {key}"));
            }
            _ => {}
        }
    }

    /// The call, if it has this id.
    fn call_of(&mut self, id: CallId) -> Option<&mut Call> {
        self.call.as_mut().filter(|call| call.id == Some(id))
    }

    fn on_registration(&mut self, state: RegistrationState) {
        self.login = match state {
            RegistrationState::Registered { expires } => {
                if self.login != Login::Registered {
                    self.log.say(format_args!("registered for {} s", expires.as_secs()));
                }
                Login::Registered
            }
            RegistrationState::Failed { failure, .. } => {
                let why = of_failure(&failure);
                self.log.say(format_args!("not registered: {why}"));
                Login::Failed(why)
            }
            RegistrationState::Ended => Login::None,
        };
    }

    fn on_incoming(&mut self, now: Instant, id: CallId, from: &str, offer: Option<Vec<u8>>) {
        if self.call.is_some() {
            let _ = self.agent.decline(now, id, 486);
            return;
        }
        let Some(mut leg) = self.new_leg(now) else {
            let _ = self.agent.decline(now, id, 480);
            return;
        };
        leg.prepare(self.host);
        let party = match NameAddr::parse(HeaderName::From, from.as_bytes()) {
            Ok(from) => String::from_utf8_lossy(from.uri_bytes).into_owned(),
            Err(_) => from.into(),
        };
        let call = Call::new(party, Stage::Opening, leg, now);
        self.call = Some(Call { id: Some(id), offer, ..call });
    }

    /// Makes an incoming call ring, now that the public address of its port is known or given up.
    pub(super) fn ring(&mut self, now: Instant, id: CallId) {
        let Some(call) = &mut self.call else { return };
        call.leg.prepare(None);
        let offer = call.offer.take();
        let random = &mut |bytes: &mut [u8]| self.random.fill(bytes);
        let rings = call.leg.call.ring(&mut self.agent, now, id, offer.as_deref(), random);
        if let Err(refusal) = rings {
            let why = format!("refused here: {refusal}");
            return self.end_call(now, &why);
        }
        call.stage = Stage::RingingHere;
        self.log.say(format_args!("{} calls", call.party));
        if self.options.answers {
            self.answer(now);
        }
    }
}

/// The reason for the end of a call as text.
fn why(end: &End) -> String {
    match end {
        End::HungUp => "hung up here".into(),
        End::HungUpByPeer { .. } => "hung up there".into(),
        End::Cancelled { .. } => "cancelled by the caller".into(),
        End::NotAnswered => "there was no answer".into(),
        End::Declined => "refused here".into(),
        End::Replaced { .. } => "another call has taken its place".into(),
        End::Failed(failure) => of_failure(failure),
        other => format!("{other:?}"),
    }
}

fn of_failure(failure: &Failure) -> String {
    match failure {
        Failure::Refused { status, reason } => format!("refused with {status} {reason}"),
        Failure::NotLocated => "the name was not found".into(),
        Failure::TimedOut => "no answer".into(),
        Failure::Unreachable | Failure::NoRoute | Failure::Untrusted => {
            "it cannot be reached".into()
        }
        Failure::Unauthorized { realm, .. } => format!("wrong name or password for {realm}"),
        Failure::Protocol(what) => format!("the response is not SIP: {what}"),
        other => format!("{other:?}"),
    }
}
