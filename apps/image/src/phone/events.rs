//! Handlers of the engine's events.

use super::leg::Gate;
use super::{Call, Login, Phone, Search, Stage};
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
            Event::Ringing { call, status, session, .. } => {
                let Some(ours) = self.call_of(call) else { return };
                ours.stage = Stage::Ringing;
                if let Some(session) = session {
                    self.take(now, &session);
                }
                self.log.say(format_args!("it rings there ({status})"));
            }
            Event::Answered { call, session } => {
                let Some(ours) = self.call_of(call) else { return };
                ours.stand(now);
                let has_session = ours.leg.session.is_some();
                self.log.say(format_args!("the call is established"));
                match session {
                    Some(session) => self.take(now, &session),
                    None if has_session => {}
                    None => self.give_up(now, "the other end has sent no session description"),
                }
            }
            Event::Answer { call, answer } if self.call_of(call).is_some() => {
                self.take(now, &answer);
            }
            Event::Offer { call, offer } => self.on_offer(now, call, offer.as_deref()),
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
            Event::Moved { call } => {
                let Some(ours) = self.ours() else { return };
                let Some(current) = self.call.as_mut().filter(|current| current.id == Some(call))
                else {
                    return;
                };
                let (port, _) = current.leg.ports();
                current.leg.negotiator.move_to(SocketAddr::new(IpAddr::V4(ours), port));
                let session = current.leg.offer(&mut self.random);
                let _ = self.agent.offer(now, call, session);
            }
            Event::Key { key, .. } => {
                self.log.say(format_args!("the other end has pressed {key}"));
            }
            Event::Ended { call, end } if self.call_of(call).is_some() => {
                self.end_call(now, &why(&end));
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
        leg.gate = Gate::Closed;
        leg.host = self.host.unwrap_or(leg.host);
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
        let session = match call.offer.take() {
            Some(offer) => call.leg.answer(now, &offer, &mut self.random),
            None => Ok(call.leg.offer(&mut self.random)),
        };
        match session {
            Ok(session) => (call.session, call.stage) = (session, Stage::RingingHere),
            Err(refusal) => {
                let why = format!("refused here: {refusal}");
                self.end_call(now, &why);
                let _ = self.agent.decline(now, id, 488);
                return;
            }
        }
        let _ = self.agent.ring(now, id, b"");
        self.log.say(format_args!("{} calls", call.party));
        if self.options.answers {
            self.answer(now);
        }
    }

    /// Handles a re-INVITE or UPDATE of the remote end.
    fn on_offer(&mut self, now: Instant, id: CallId, offer: Option<&[u8]>) {
        let Some(call) = self.call.as_mut().filter(|call| call.id == Some(id)) else { return };
        call.leg.host = self.host.unwrap_or(call.leg.host);
        let session = match offer {
            Some(offer) => call.leg.answer(now, offer, &mut self.random),
            None => Ok(call.leg.offer(&mut self.random)),
        };
        let _ = match session {
            Ok(session) => self.agent.accept(now, id, &session),
            Err(_) => self.agent.refuse(now, id, 488),
        };
    }

    /// Applies the remote end's answer to our offer.
    fn take(&mut self, now: Instant, answer: &[u8]) {
        let Some(call) = &mut self.call else { return };
        call.leg.host = self.host.unwrap_or(call.leg.host);
        if let Err(refusal) = call.leg.accept(now, answer, &mut self.random) {
            let why = format!("{refusal}");
            self.give_up(now, &why);
        }
    }

    /// Ends a call without usable media.
    fn give_up(&mut self, now: Instant, why: &str) {
        let id = self.call.as_ref().and_then(|call| call.id);
        self.end_call(now, why);
        if let Some(id) = id {
            let _ = self.agent.hang_up(now, id);
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
