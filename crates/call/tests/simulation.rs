//! Two ends over a network with a virtual clock that loses datagrams: calls stand, and each end
//! hears the tone of the other one.

use barebell_call::{Call, Change, Setup};
use media::tone::{Tone, amplitude_of};
use media::{Channel, Codec, MediaConfig, Received, Security};
use sip::{Flow, Instant, Transport};
use sip_ua::{Agent, CallId, Config, End, Event, Location};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;
use test_support::network::{self, Link, Network};

const RATE: u32 = 8000;
const FRAME: Duration = Duration::from_millis(20);
/// The tones that the ends send, in hertz.
const TONES: [f64; 3] = [440.0, 660.0, 880.0];
/// The start of the clock.
const BEGIN: Instant = Instant::from_micros(1_700_000_000_000_000);

/// Numbers for keys and sequence numbers, reproducible.
#[derive(Clone)]
struct Numbers(u64);

impl Numbers {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (self.0 >> 56) as u8;
        }
    }
}

struct Side {
    agent: Agent,
    place: SocketAddr,
    call: Option<Call>,
    changes: VecDeque<Change>,
    /// An incoming call that the end has not processed.
    incoming: Option<(CallId, Option<Vec<u8>>)>,
    tone: Tone,
    heard: Vec<i16>,
    keys: String,
    numbers: Numbers,
}

/// An event that wakes the owner.
enum Wake {
    Agent(usize),
    Sound,
    Nothing,
}

struct Rig {
    network: Network<Wake>,
    ends: Vec<Side>,
    /// The addresses of a forking proxy's targets, if an INVITE to `address(9)` forks.
    forks: Vec<SocketAddr>,
}

fn address(number: usize) -> SocketAddr {
    ([192, 0, 2, number as u8 + 1], 5060).into()
}

fn lossy(loss: u64) -> Link {
    let jitter = Duration::from_millis(5);
    Link { loss, delay: Duration::from_millis(20), jitter, ..Link::default() }
}

fn media_config(security: Security) -> MediaConfig {
    MediaConfig { codecs: vec![Codec::Pcmu], security, ..MediaConfig::default() }
}

impl Rig {
    fn new(seed: u64, link: Link, ends: usize) -> Self {
        let end = |number: usize| Side {
            agent: Agent::new(Config::default(), &[number as u8 + seed as u8; 32]),
            place: address(number),
            call: None,
            changes: VecDeque::new(),
            incoming: None,
            tone: Tone::new(TONES[number], RATE, 8000),
            heard: Vec::new(),
            keys: String::new(),
            numbers: Numbers(seed + number as u64),
        };
        let mut network = Network::new(seed, link);
        network.wake_at(FRAME, Wake::Sound);
        Self { network, ends: (0..ends).map(end).collect(), forks: Vec::new() }
    }

    fn now(&self) -> Instant {
        BEGIN + sip::Duration::from(self.network.now())
    }

    fn setup(&self, side: usize, security: Security, early: bool) -> Setup {
        let mut local = self.ends[side].place;
        local.set_port(4000);
        Setup { early, ..Setup::new(media_config(security), local) }
    }

    /// Runs an action of an end on its call.
    fn act<T>(
        &mut self,
        side: usize,
        act: impl FnOnce(&mut Call, &mut Agent, Instant, &mut dyn FnMut(&mut [u8])) -> T,
    ) -> T {
        let now = self.now();
        let Side { agent, call, numbers, .. } = &mut self.ends[side];
        let call = call.as_mut().expect("a call");
        let done = act(call, agent, now, &mut |bytes| numbers.fill(bytes));
        self.drain(side);
        done
    }

    fn prepare(&mut self, side: usize, security: Security, early: bool) {
        let setup = self.setup(side, security, early);
        let end = &mut self.ends[side];
        end.call = Some(Call::new(setup, &mut |bytes| end.numbers.fill(bytes)));
    }

    fn place(&mut self, from: usize, to: SocketAddr, security: Security) {
        self.prepare(from, security, false);
        let uri = format!("sip:user@{to}");
        self.act(from, |call, agent, now, random| call.place(agent, now, None, &uri, random))
            .expect("a URI");
    }

    /// Makes the incoming call of an end ring.
    fn ring(&mut self, side: usize, security: Security, early: bool) -> Result<(), media::Refusal> {
        self.run_until(|rig| rig.ends[side].incoming.is_some());
        let (id, offer) = self.ends[side].incoming.take().expect("an incoming call");
        self.prepare(side, security, early);
        self.act(side, |call, agent, now, random| {
            call.ring(agent, now, id, offer.as_deref(), random)
        })
    }

    fn answer(&mut self, side: usize) {
        self.act(side, |call, agent, now, _| call.answer(agent, now)).expect("a ringing call");
    }

    /// Calls from end 0 to end 1, until both ends have media.
    fn connect(&mut self, security: [Security; 2]) {
        self.place(0, address(1), security[0]);
        self.ring(1, security[1], false).expect("a usable offer");
        self.expect(0, &Change::Ringing { status: 180, early_media: false });
        self.answer(1);
        self.expect(0, &Change::Answered);
    }

    /// Transmits the messages of an agent, and processes its events.
    fn drain(&mut self, side: usize) {
        let now = self.now();
        let Side { agent, call, place, changes, incoming, numbers, .. } = &mut self.ends[side];
        loop {
            while let Some(transmit) = agent.poll_transmit() {
                let (from, to) = (transmit.flow.local, transmit.flow.remote);
                let forks = to == address(9) && transmit.bytes.starts_with(b"INVITE");
                let targets = if forks { &self.forks[..] } else { &[to] };
                for to in targets {
                    self.network.send(from, *to, &transmit.bytes);
                }
            }
            match agent.poll_event() {
                Some(Event::Locate { ticket, destination }) => {
                    let sip::locate::Host::Ip(ip) = destination.host else { panic!("a name") };
                    let remote = SocketAddr::new(ip, destination.port.unwrap_or(5060));
                    let local = Some(*place);
                    let location = Location { transport: Transport::Udp, remote, local };
                    agent.located(now, ticket, &[location]);
                }
                Some(Event::Incoming { call, offer, .. }) => *incoming = Some((call, offer)),
                Some(event) => {
                    let Some(call) = call.as_mut() else { continue };
                    let random = &mut |bytes: &mut [u8]| numbers.fill(bytes);
                    changes.extend(call.on_event(agent, now, &event, random));
                }
                None => break,
            }
        }
        if let Some(next) = agent.next_timer() {
            let at = next.since(BEGIN).into();
            self.network.wake_at(at, Wake::Agent(side));
        }
    }

    /// Sends and plays 20 ms of sound at all ends.
    fn sound(&mut self) {
        let now = self.now();
        for end in &mut self.ends {
            let Some(call) = &mut end.call else { continue };
            let mut frame = Vec::new();
            end.tone.fill(160, &mut frame);
            let (network, place) = (&mut self.network, end.place);
            call.send(&end.agent, now, &mut frame, &mut |channel, to, bytes| {
                let port = if channel == Channel::Rtp { 4000 } else { 4001 };
                network.send(SocketAddr::new(place.ip(), port), to, bytes);
            });
            call.play(now, &mut end.heard);
        }
        self.network.wake_at(self.network.now() + FRAME, Wake::Sound);
    }

    fn step(&mut self) {
        let event = self.network.next_event().expect("an event");
        let now = self.now();
        match event {
            network::Event::Datagram { from, to, mut bytes } => {
                let place = self.ends.iter().position(|end| end.place.ip() == to.ip());
                let Some(side) = place else { return };
                if to.port() == 5060 {
                    let transport = Transport::Udp;
                    let flow = Flow { transport, local: to, remote: from, connection: None };
                    self.ends[side].agent.receive(now, &flow, &bytes);
                    return self.drain(side);
                }
                let channel = if to.port() == 4000 { Channel::Rtp } else { Channel::Rtcp };
                let end = &mut self.ends[side];
                let heard =
                    end.call.as_mut().map(|call| call.receive(channel, now, from, &mut bytes));
                if let Some(Received::Digit(key)) = heard {
                    end.keys.push(key);
                }
            }
            network::Event::Wake(Wake::Agent(side)) => {
                self.ends[side].agent.on_timer(now);
                self.drain(side);
            }
            network::Event::Wake(Wake::Sound) => self.sound(),
            _ => {}
        }
    }

    /// Advances the time until `is_done`, at most ten minutes.
    fn run_until(&mut self, is_done: impl Fn(&Self) -> bool) {
        let end = self.network.now() + Duration::from_secs(600);
        while !is_done(self) {
            assert!(self.network.now() < end, "it does not happen");
            self.step();
        }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.network.now() + time;
        self.network.wake_at(end, Wake::Nothing);
        self.run_until(|rig| rig.network.now() >= end);
    }

    /// Runs until the next change of an end, which is `change`.
    fn expect(&mut self, side: usize, change: &Change) {
        self.run_until(|rig| !rig.ends[side].changes.is_empty());
        assert_eq!(self.ends[side].changes.pop_front().as_ref(), Some(change));
    }

    /// Returns the amplitude of each end's tone in the sound that `side` hears in two seconds.
    fn tones(&mut self, side: usize) -> [f64; 3] {
        self.pass(Duration::from_secs(1));
        self.ends[side].heard.clear();
        self.pass(Duration::from_secs(2));
        let heard = &self.ends[side].heard;
        assert!(heard.len() > 15_000, "{} samples", heard.len());
        TONES.map(|hertz| amplitude_of(hertz, RATE, heard))
    }

    /// Asserts that `side` hears only the tone of `from`, or only silence.
    fn assert_hears(&mut self, side: usize, from: Option<usize>) {
        let tones = self.tones(side);
        for (number, amplitude) in tones.into_iter().enumerate() {
            let is_there = amplitude > 3000.0;
            let is_silent = amplitude < 300.0;
            let is_right = if from == Some(number) { is_there } else { is_silent };
            assert!(is_right, "end {side} hears {tones:?}, not the tone of {from:?}");
        }
    }
}

#[test]
fn both_ends_hear_each_other_in_spite_of_loss() {
    for (seed, security) in [(1, Security::Off), (2, Security::Optional), (3, Security::Required)] {
        let mut rig = Rig::new(seed, lossy(30), 2);
        rig.connect([security; 2]);
        rig.assert_hears(0, Some(1));
        rig.assert_hears(1, Some(0));
        let is_secured = rig.ends[0].call.as_ref().and_then(Call::session);
        let is_secured = is_secured.is_some_and(|session| session.stream().keying.is_encrypted());
        assert_eq!(is_secured, security != Security::Off);
        let hang_up = |call: &mut Call, agent: &mut Agent, now: Instant| {
            agent.hang_up(now, call.id().expect("a placed call"))
        };
        rig.act(0, |call, agent, now, _| hang_up(call, agent, now)).expect("a call");
        rig.expect(0, &Change::Ended(End::HungUp));
        rig.expect(1, &Change::Ended(End::HungUpByPeer { reason: String::new() }));
    }
}

#[test]
fn a_held_end_hears_silence_and_the_sound_returns() {
    let mut rig = Rig::new(4, lossy(30), 2);
    rig.connect([Security::Optional; 2]);
    let hold = |rig: &mut Rig, holds: bool| {
        rig.act(0, |call, agent, now, random| call.hold(agent, now, holds, random))
            .expect("an established call");
        rig.expect(1, &Change::HeldByPeer(holds));
        rig.expect(0, &Change::Held(holds));
    };
    rig.assert_hears(1, Some(0));
    hold(&mut rig, true);
    rig.assert_hears(1, None);
    hold(&mut rig, false);
    rig.assert_hears(1, Some(0));
    rig.assert_hears(0, Some(1));
}

/// RFC 3261 section 14.1: the timer of the caller ends last, and its hold is offered again.
#[test]
fn both_ends_may_hold_at_the_same_time() {
    let mut rig = Rig::new(5, lossy(0), 2);
    rig.connect([Security::Optional; 2]);
    rig.pass(Duration::from_secs(1));
    for holds in [true, false] {
        for side in [0, 1] {
            rig.act(side, |call, agent, now, random| call.hold(agent, now, holds, random))
                .expect("no change is pending");
        }
        rig.run_until(|rig| {
            let mut calls = rig.ends.iter().map(|end| end.call.as_ref().expect("a call"));
            calls.all(|call| call.holds() == holds && !call.is_changing_hold())
        });
        rig.pass(Duration::from_secs(5));
    }
    rig.assert_hears(0, Some(1));
    rig.assert_hears(1, Some(0));
}

#[test]
fn nothing_is_heard_before_the_answer_without_early_media() {
    let mut rig = Rig::new(5, lossy(0), 2);
    rig.place(0, address(1), Security::Optional);
    rig.ring(1, Security::Optional, false).expect("a usable offer");
    rig.pass(Duration::from_secs(2));
    assert_eq!(rig.ends[0].heard, []);
    rig.answer(1);
    rig.assert_hears(0, Some(1));
}

#[test]
fn early_media_are_heard_before_the_answer() {
    let mut rig = Rig::new(6, lossy(0), 2);
    rig.place(0, address(1), Security::Optional);
    rig.ring(1, Security::Optional, true).expect("a usable offer");
    rig.expect(0, &Change::Ringing { status: 183, early_media: true });
    rig.assert_hears(0, Some(1));
    rig.answer(1);
    rig.expect(0, &Change::Answered);
    rig.assert_hears(0, Some(1));
    rig.assert_hears(1, Some(0));
}

/// Two phones send early media with keys of their own. The last one plays, until the first one
/// answers.
#[test]
fn the_branch_that_answers_is_heard() {
    for answers in [1, 2] {
        let mut rig = Rig::new(7, lossy(0), 3);
        rig.forks = vec![address(1), address(2)];
        rig.place(0, address(9), Security::Required);
        for side in [1, 2] {
            rig.ring(side, Security::Required, true).expect("a usable offer");
            rig.expect(0, &Change::Ringing { status: 183, early_media: true });
            rig.assert_hears(0, Some(side));
        }
        rig.answer(answers);
        rig.expect(0, &Change::Answered);
        // The proxy does not exist, so nothing cancels the other phone.
        let other = 3 - answers;
        rig.act(other, |call, agent, now, _| agent.decline(now, call.id().expect("a call"), 486))
            .expect("a ringing call");
        rig.assert_hears(0, Some(answers));
        rig.assert_hears(answers, Some(0));
    }
}

#[test]
fn keys_arrive() {
    let mut rig = Rig::new(8, lossy(30), 2);
    rig.connect([Security::Optional; 2]);
    for key in ['1', '#'] {
        rig.act(0, |call, agent, now, _| call.press(agent, now, key)).expect("a key");
    }
    rig.run_until(|rig| rig.ends[1].keys == "1#");
}

#[test]
fn an_offer_without_usable_media_is_declined() {
    let mut rig = Rig::new(9, lossy(0), 2);
    rig.place(0, address(1), Security::Off);
    assert_eq!(rig.ring(1, Security::Required, false), Err(media::Refusal::NotSecured));
    rig.run_until(|rig| !rig.ends[0].changes.is_empty());
    let change = rig.ends[0].changes.pop_front();
    assert!(matches!(change, Some(Change::Ended(End::Failed(_)))), "{change:?}");
}

/// The end that moves offers its new address, and the keys stay: both ends hear each other.
#[test]
fn a_moved_end_is_heard() {
    let mut rig = Rig::new(10, lossy(30), 2);
    rig.connect([Security::Required; 2]);
    rig.ends[0].place = address(20);
    rig.act(0, |_, agent, now, _| agent.network_changed(now));
    rig.expect(0, &Change::Moved);
    let local = SocketAddr::new(address(20).ip(), 4000);
    rig.act(0, |call, agent, now, random| call.move_to(agent, now, local, None, random))
        .expect("an established call");
    rig.pass(Duration::from_secs(3));
    rig.assert_hears(0, Some(1));
    rig.assert_hears(1, Some(0));
}
