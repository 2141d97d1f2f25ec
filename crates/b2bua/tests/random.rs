//! Random actions of phones, on a network that reorders. Whatever happens, no call, transaction or
//! count of the B2BUA is left, and the parties of a call agree on their sessions.

mod rig;

use rig::{Rig, session, without_origin};
use sip::Method;
use sip_ua::{CallId, Event, PassedRequest};
use std::collections::BTreeMap;
use std::time::Duration;
use test_support::Random;

const PHONES: usize = 4;

/// The state of a call at one phone.
#[derive(Clone, Debug, Default)]
struct Call {
    is_incoming: bool,
    is_answered: bool,
    /// True if the offer of the INVITE was answered before the call was.
    is_settled: bool,
    /// The answer that a provisional response has had.
    early: Option<Vec<u8>>,
    /// True while the other party waits for an answer to its offer.
    is_asked: bool,
    /// The offer of the other party, if it made one.
    asked: Option<Vec<u8>>,
    /// True while a transfer waits for a decision.
    is_referred: bool,
    /// The description that the phone has sent last and that was agreed on, and the one that it
    /// got.
    local: Vec<u8>,
    remote: Vec<u8>,
    /// The offer that waits for an answer.
    offered: Option<Vec<u8>>,
}

impl Call {
    /// Records that the other party's offer was answered by `description`, or its request for one.
    fn accepted(&mut self, description: Vec<u8>) {
        match self.asked.take() {
            Some(offer) => {
                self.remote = offer;
                self.local = description;
            }
            None => self.offered = Some(description),
        }
    }
}

struct World {
    rig: Rig,
    random: Random,
    calls: Vec<BTreeMap<CallId, Call>>,
    port: u16,
}

impl World {
    fn new(seed: u64) -> Self {
        let rig = Rig::new(seed, &Rig::phones(PHONES));
        let calls = vec![BTreeMap::new(); PHONES];
        Self { rig, random: Random::new(seed), calls, port: 4000 }
    }

    fn description(&mut self, phone: usize) -> Vec<u8> {
        self.port += 2;
        let directions = ["sendrecv", "sendonly", "inactive"];
        session(phone, self.port, directions[self.random.below(3) as usize])
    }

    /// Records the events of all phones.
    fn note(&mut self) {
        for phone in 0..PHONES {
            for event in self.rig.events(phone) {
                let Some(id) = event.call() else { continue };
                if let Event::Ended { .. } = event {
                    self.calls[phone].remove(&id);
                    continue;
                }
                let call = self.calls[phone].entry(id).or_default();
                match event {
                    Event::Incoming { offer, .. } => {
                        call.is_incoming = true;
                        call.remote = offer.unwrap_or_default();
                    }
                    Event::Ringing { session: Some(session), is_settled: true, .. } => {
                        call.is_settled = true;
                        call.remote = session;
                        if let Some(offered) = call.offered.take() {
                            call.local = offered;
                        }
                    }
                    Event::Answered { session, .. } => {
                        call.is_answered = true;
                        call.remote = session.unwrap_or_default();
                        // Otherwise it is an offer that was made since.
                        if !call.is_settled
                            && let Some(offered) = call.offered.take()
                        {
                            call.local = offered;
                        }
                    }
                    Event::Offer { offer, .. } => {
                        call.is_asked = true;
                        call.asked = offer;
                    }
                    Event::Answer { answer, .. } => {
                        call.remote = answer;
                        if let Some(offered) = call.offered.take() {
                            call.local = offered;
                        }
                    }
                    Event::OfferFailed { .. } => call.offered = None,
                    Event::TransferAsked { .. } => call.is_referred = true,
                    _ => {}
                }
            }
        }
    }

    /// One phone does something.
    fn act(&mut self) {
        let phone = self.random.below(PHONES as u64) as usize;
        let ids: Vec<CallId> = self.calls[phone].keys().copied().collect();
        let choice = self.random.below(12);
        if ids.is_empty() || choice == 0 {
            let to = (phone + 1 + self.random.below(PHONES as u64 - 1) as usize) % PHONES;
            let has_offer = self.random.below(5) > 0;
            let offer = if has_offer { self.description(phone) } else { Vec::new() };
            let id = self.rig.call(phone, to, &offer);
            let call = Call { offered: Some(offer).filter(|_| has_offer), ..Call::default() };
            self.calls[phone].insert(id, call);
            return;
        }
        let id = ids[self.random.below(ids.len() as u64) as usize];
        let description = self.description(phone);
        let Some(call) = self.calls[phone].get_mut(&id) else { return };
        let other = format!("sip:p{}@192.0.2.100", (phone + 1) % PHONES);
        let has_offer = !call.remote.is_empty();
        let rings = call.is_incoming && !call.is_answered;
        let now = self.rig.now();
        let agent = &mut self.rig.phones[phone];
        // The agent refuses what the state does not allow.
        match choice {
            1 if rings => {
                let _ = agent.ring(now, id, b"");
            }
            // One answer before the call is answered is the final one.
            2 if rings && has_offer && call.early.is_none() => {
                let is_sent = agent.ring(now, id, &description).is_ok();
                call.early = is_sent.then_some(description);
            }
            1..=6 if rings => {
                let description = call.early.take().unwrap_or(description);
                if agent.answer(now, id, &description).is_ok() {
                    call.is_answered = true;
                    match has_offer {
                        true => call.local = description,
                        false => call.offered = Some(description),
                    }
                }
            }
            7 if rings => {
                let _ = agent.decline(now, id, 486);
            }
            1..=5 if call.is_asked => {
                call.is_asked = false;
                if agent.accept(now, id, &description).is_ok() {
                    call.accepted(description);
                }
            }
            6 if call.is_asked => {
                call.is_asked = false;
                let _ = agent.refuse(now, id, 488);
            }
            7 if call.is_referred => {
                call.is_referred = false;
                let _ = agent.follow(now, id, description);
            }
            8 if call.is_referred => {
                call.is_referred = false;
                let _ = agent.refuse_transfer(now, id, 603);
            }
            1..=4 => {
                let is_made = agent.offer(now, id, description.clone()).is_ok();
                call.offered = is_made.then_some(description).or(call.offered.take());
            }
            7 => {
                let _ = agent.transfer(now, id, &other);
            }
            8 if ids.len() > 1 => {
                let _ = agent.transfer_to(now, id, ids[0]);
            }
            9 => {
                let request = PassedRequest {
                    method: Method::Info,
                    lines: b"",
                    body_type: "application/dtmf-relay",
                    body: b"Signal=5\r\n",
                };
                let _ = agent.request(now, id, &request);
            }
            10 | 11 => {
                let _ = agent.hang_up(now, id);
            }
            _ => {}
        }
        self.rig.drain(phone);
    }

    /// Answers all that waits, until nothing changes any more.
    fn settle(&mut self) {
        for _ in 0..200 {
            self.rig.pass(Duration::from_millis(500));
            self.note();
            for phone in 0..PHONES {
                let ids: Vec<CallId> = self.calls[phone].keys().copied().collect();
                for id in ids {
                    let description = self.description(phone);
                    let now = self.rig.now();
                    let agent = &mut self.rig.phones[phone];
                    let Some(call) = self.calls[phone].get_mut(&id) else { continue };
                    if core::mem::take(&mut call.is_asked)
                        && agent.accept(now, id, &description).is_ok()
                    {
                        call.accepted(description);
                    }
                    if core::mem::take(&mut call.is_referred) {
                        let _ = agent.refuse_transfer(now, id, 603);
                    }
                    self.rig.drain(phone);
                }
            }
        }
    }

    /// Each description that a phone in an answered call has sent is known to another phone.
    fn check(&self, seed: u64) {
        let answered = || self.calls.iter().flatten().filter(|(_, call)| call.is_answered);
        for (id, call) in answered().filter(|(_, call)| !call.local.is_empty()) {
            let is_known = answered()
                .any(|(_, other)| without_origin(&other.remote) == without_origin(&call.local));
            assert!(
                is_known,
                "no phone has the description of call {id:?} with seed {seed}: {}",
                without_origin(&call.local)
            );
        }
    }
}

#[test]
fn nothing_is_left_and_the_parties_agree() {
    for seed in 0..150 {
        let mut world = World::new(seed);
        for _ in 0..60 {
            world.act();
            let pause = Duration::from_millis(world.random.below(400));
            world.rig.pass(pause);
            world.note();
        }
        world.settle();
        world.check(seed);
        for phone in 0..PHONES {
            let ids: Vec<CallId> = world.calls[phone].keys().copied().collect();
            for id in ids {
                let now = world.rig.now();
                let _ = world.rig.phones[phone].hang_up(now, id);
                world.rig.drain(phone);
            }
        }
        world.rig.finish();
    }
}
