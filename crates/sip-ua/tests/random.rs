//! Calls with random events: with any packet loss both ends agree in the end, and no state remains.

mod rig;

use barebell_sip_ua::{CallId, Config, Event, Reliable};
use rig::{Rig, address};
use sip::Duration as Span;
use std::net::SocketAddr;
use std::time::Duration;
use test_support::Random;
use test_support::network::Link;

/// One end of the call, from the view of its owner.
#[derive(Default)]
struct Side {
    call: Option<CallId>,
    /// The last agreed descriptions of this end and of the other end.
    local: Vec<u8>,
    remote: Vec<u8>,
    /// The pending local offer.
    offered: Option<Vec<u8>>,
    /// The pending offer of the other end.
    asked: Option<Vec<u8>>,
    rings_here: bool,
    /// The number of the last local description.
    version: u32,
}

struct Simulation {
    rig: Rig,
    random: Random,
    sides: [Side; 2],
    /// The numbers of agreed changes and of redirections.
    changes: usize,
    redirects: usize,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let reliable =
            [Reliable::Off, Reliable::Supported, Reliable::Supported, Reliable::Required];
        let configs = ["alice", "bob"].map(|user| Config {
            user: user.into(),
            reliable: *random.pick(&reliable),
            session_expires: Some(Span::from_secs(80 + random.below(60))),
            min_se: Span::from_secs(60 + random.below(60)),
            ..Config::default()
        });
        let link = Link {
            loss: [0, 100, 300][seed as usize % 3],
            duplication: 200,
            delay: Duration::from_millis(10),
            jitter: Duration::from_millis(300),
        };
        let rig = Rig::new(seed, link, &configs);
        Self { rig, random, sides: Default::default(), changes: 0, redirects: 0 }
    }

    /// Returns a new description of an end.
    fn describe(&mut self, side: usize) -> Vec<u8> {
        self.sides[side].version += 1;
        format!("v=0 {side} {}", self.sides[side].version).into_bytes()
    }

    fn place(&mut self) {
        let elsewhere: SocketAddr = ([192, 0, 2, 99], 5060).into();
        self.rig.redirect(elsewhere, &format!("<sip:bob@{}>", address(1)));
        let to = if self.random.chance(300) { elsewhere } else { address(1) };
        let session = if self.random.chance(250) { Vec::new() } else { self.describe(0) };
        self.sides[0].local.clone_from(&session);
        self.sides[0].call = Some(self.rig.call_uri(0, &format!("sip:{to}"), &session));
    }

    /// Records the reported events.
    fn listen(&mut self) {
        for side in [0, 1] {
            for event in self.rig.events(side) {
                self.hear(side, event);
            }
        }
    }

    fn hear(&mut self, number: usize, event: Event) {
        let described = match event {
            Event::Incoming { .. } => self.describe(number),
            _ => Vec::new(),
        };
        let side = &mut self.sides[number];
        match event {
            Event::Incoming { call, offer, .. } => {
                side.call = Some(call);
                side.rings_here = true;
                side.remote = offer.unwrap_or_default();
                side.local = described;
            }
            Event::Ringing { session: Some(session), is_settled: true, .. }
            | Event::Answered { session: Some(session), .. } => side.remote = session,
            Event::Offer { offer, .. } => side.asked = Some(offer.expect("an offer")),
            Event::Answer { answer, .. } => {
                side.remote = answer;
                if let Some(offered) = side.offered.take() {
                    side.local = offered;
                    self.changes += 1;
                }
            }
            Event::OfferFailed { .. } => side.offered = None,
            Event::Redirected { .. } => self.redirects += 1,
            Event::Ended { .. } => *side = Side { version: side.version, ..Side::default() },
            _ => {}
        }
    }

    /// One end takes an action, if it can.
    fn act(&mut self) {
        let number = self.random.below(2) as usize;
        let side = &self.sides[number];
        let Some(call) = side.call else { return };
        if side.asked.is_some() {
            return self.answer_offer(number, call);
        }
        if side.rings_here {
            let session = side.local.clone();
            let what = self.random.below(8);
            let rig = &mut self.rig;
            let _ = match what {
                0 | 1 => rig.try_act(number, |agent, now| agent.ring(now, call, b"")),
                2..5 => rig.try_act(number, |agent, now| agent.ring(now, call, &session)),
                5 if self.random.chance(100) => {
                    rig.try_act(number, |agent, now| agent.decline(now, call, 486))
                }
                5 => return self.offer(number, call),
                _ => {
                    self.sides[number].rings_here = false;
                    rig.try_act(number, |agent, now| agent.answer(now, call, &session))
                }
            };
            return;
        }
        match self.random.below(150) {
            0 => drop(self.rig.try_act(number, |agent, now| agent.hang_up(now, call))),
            1..90 => self.offer(number, call),
            _ => {}
        }
    }

    fn offer(&mut self, number: usize, call: CallId) {
        let session = self.describe(number);
        let offered = session.clone();
        if self.rig.try_act(number, |agent, now| agent.offer(now, call, session)).is_ok() {
            self.sides[number].offered = Some(offered);
        }
    }

    fn answer_offer(&mut self, number: usize, call: CallId) {
        let Some(offer) = self.sides[number].asked.take() else { return };
        // A call without a first session ends.
        if self.random.chance(200) && !self.sides[number].remote.is_empty() {
            return self.rig.act(number, |agent, now| agent.refuse(now, call, 488));
        }
        let session = self.describe(number);
        (self.sides[number].local, self.sides[number].remote) = (session.clone(), offer);
        self.rig.act(number, |agent, now| agent.accept(now, call, &session));
    }

    /// Lets the owners answer all offers, and the network become idle.
    fn rest(&mut self) {
        self.rig.set_link(Link { delay: Duration::from_millis(10), ..Link::default() });
        for _ in 0..200 {
            self.rig.pass(Duration::from_secs(1));
            self.listen();
            for number in [0, 1] {
                if let Some(call) = self.sides[number].call {
                    self.answer_offer(number, call);
                }
            }
            self.listen();
        }
    }
}

#[test]
fn both_ends_agree_whatever_happens_and_nothing_is_left() {
    let (mut changes, mut redirects, mut standing, mut pracks) = (0, 0, 0, 0);
    for seed in 0..400 {
        let mut simulation = Simulation::new(seed);
        simulation.place();
        for _ in 0..80 {
            let wait = simulation.random.duration(Duration::ZERO, Duration::from_secs(2));
            simulation.rig.pass(wait);
            simulation.listen();
            simulation.act();
            simulation.listen();
        }
        simulation.rest();
        let [alice, bob] = &simulation.sides;
        let calls = [simulation.rig.calls(0), simulation.rig.calls(1)];
        assert_eq!(calls[0], calls[1], "seed {seed}");
        if calls == [1, 1] && !bob.rings_here {
            standing += 1;
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let ours = (text(&alice.local), text(&alice.remote));
            assert_eq!(ours, (text(&bob.remote), text(&bob.local)), "seed {seed}");
        }
        changes += simulation.changes;
        redirects += simulation.redirects;
        pracks += simulation.rig.count(0, "PRACK");
        for side in [0, 1] {
            if let Some(call) = simulation.sides[side].call {
                let _ = simulation.rig.try_act(side, |agent, now| agent.hang_up(now, call));
            }
        }
        simulation.rig.finish();
    }
    // All kinds of events have occurred.
    assert!(standing > 100 && changes > 500 && redirects > 50 && pracks > 100);
}
