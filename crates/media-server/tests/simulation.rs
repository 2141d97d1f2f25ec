//! Phones call the media server on a virtual clock: they hear their own sound in the echo, leave a
//! message and play it, and hear one another in a conference room.

use barebell_media_server::call::{Call, Change, Setup};
use barebell_media_server::media::tone::{Tone, amplitude_of};
use barebell_media_server::media::{Channel, Codec, MediaConfig};
use barebell_media_server::sip::{Duration, Endpoint, Flow, Instant, Transport};
use barebell_media_server::sip_ua::{self, Agent, CallId, End, Location};
use barebell_media_server::{
    Ask, Config, Event, MediaServer, Opening, RATE, Reply, Sounds, Summary,
};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

const FRAME: Duration = Duration::from_millis(20);

/// Reproducible numbers for keys.
fn numbers(seed: u64) -> impl FnMut(&mut [u8]) + Send {
    let mut state = seed;
    move |bytes| {
        bytes.fill_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        });
    }
}

/// A source of random octets.
type RandomSource = Box<dyn FnMut(&mut [u8]) + Send>;

struct Phone {
    agent: Agent,
    call: Call,
    place: SocketAddr,
    tone: Option<Tone>,
    heard: Vec<i16>,
    rate: u32,
    ended: Option<End>,
    /// The target that the server has asked the phone to call.
    transferred: Option<String>,
    random: RandomSource,
    /// The first Route of the INVITE, as the proxy writes it.
    route: String,
}

/// A message in the mailbox.
struct Message {
    id: u64,
    is_heard: bool,
    samples: Arc<[i16]>,
    caller: String,
}

struct World {
    now: Instant,
    server: MediaServer,
    phones: Vec<Phone>,
    /// The ports of the server, by call.
    ports: HashMap<CallId, u16>,
    next_port: u16,
    messages: Vec<Message>,
    /// True if the mailbox has no room.
    is_full: bool,
    /// True if the packets of the phones get lost.
    is_cut: bool,
}

fn server_place() -> SocketAddr {
    ([192, 0, 2, 1], 5060).into()
}

fn flow_of(phone: SocketAddr) -> Flow {
    let flow =
        Flow { transport: Transport::Udp, local: server_place(), remote: phone, connection: None };
    flow.internal_to(Endpoint::MediaServer)
}

impl World {
    fn new(config: Config) -> Self {
        Self {
            now: Instant::from_micros(1_700_000_000_000_000),
            server: MediaServer::new(config, Box::new(numbers(1))),
            phones: Vec::new(),
            ports: HashMap::new(),
            next_port: 20_000,
            messages: Vec::new(),
            is_full: false,
            is_cut: false,
        }
    }

    /// Adds a phone that calls the service of `route`, and sends a tone of `hertz`. Zero stands for
    /// silence.
    fn call(&mut self, route: &str, codec: Codec, hertz: f64) -> usize {
        let number = self.phones.len();
        let place: SocketAddr = ([192, 0, 2, 10 + number as u8], 5060).into();
        let mut random = numbers(10 + number as u64);
        let media = MediaConfig { codecs: vec![codec], ..MediaConfig::default() };
        let local = SocketAddr::new(place.ip(), 4000);
        let rate = codec.sample_rate();
        let mut phone = Phone {
            agent: Agent::new(sip_ua::Config::default(), &[number as u8 + 1; 32]),
            call: Call::new(Setup::new(media, local), &mut random),
            place,
            tone: (hertz > 0.0).then(|| Tone::new(hertz, rate, 8000)),
            heard: Vec::new(),
            rate,
            ended: None,
            transferred: None,
            random: Box::new(random),
            route: route.to_owned(),
        };
        let uri = format!("sip:service@{}", server_place());
        let Phone { agent, call, random, .. } = &mut phone;
        call.place(agent, self.now, None, &uri, random).expect("a URI");
        self.phones.push(phone);
        self.settle();
        number
    }

    /// Passes messages until all ends are silent.
    fn settle(&mut self) {
        let now = self.now;
        let mut is_done = false;
        while !is_done {
            is_done = true;
            for phone in &mut self.phones {
                let Phone { agent, call, random, place, route, ended, transferred, .. } = phone;
                while let Some(sent) = agent.poll_transmit() {
                    is_done = false;
                    let mut bytes = sent.bytes;
                    if bytes.starts_with(b"INVITE ") && !route.is_empty() {
                        let end = bytes.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
                        bytes.splice(end..end, format!("Route: {route}\r\n").into_bytes());
                    }
                    self.server.receive(now, &flow_of(*place), &bytes);
                }
                while let Some(event) = agent.poll_event() {
                    is_done = false;
                    if let sip_ua::Event::TransferAsked { to, .. } = &event {
                        *transferred = Some(to.clone());
                    }
                    if let sip_ua::Event::Locate { ticket, .. } = event {
                        let remote = server_place();
                        let local = *place;
                        let location = Location { transport: Transport::Udp, remote, local };
                        agent.located(now, ticket, &[location]);
                    } else if let Some(Change::Ended(end)) =
                        call.on_event(agent, now, &event, random)
                    {
                        *ended = Some(end);
                    }
                }
            }
            while let Some(sent) = self.server.poll_transmit() {
                is_done = false;
                let to = sent.flow.remote;
                if let Some(phone) = self.phones.iter_mut().find(|phone| phone.place == to) {
                    let flow = Flow {
                        transport: Transport::Udp,
                        local: to,
                        remote: server_place(),
                        connection: None,
                    };
                    phone.agent.receive(now, &flow, &sent.bytes);
                }
            }
            while let Some(event) = self.server.poll_event() {
                is_done = false;
                self.serve(event);
            }
        }
    }

    /// Carries out a request of the server.
    fn serve(&mut self, event: Event) {
        match event {
            Event::Open { call, local, deposit, .. } => {
                let opening = match deposit {
                    Some(_) if self.is_full => Opening::MailboxFull,
                    _ => {
                        self.next_port += 2;
                        self.ports.insert(call, self.next_port);
                        Opening::At(SocketAddr::new(local, self.next_port))
                    }
                };
                self.server.open(self.now, call, opening);
            }
            Event::Closed { call } => {
                self.ports.remove(&call).expect("an open port");
            }
            Event::Ask { call, mailbox, ask } => {
                assert_eq!(mailbox, "bob@example.com");
                let messages = &mut self.messages;
                let reply = match ask {
                    Ask::List => Reply::Listed(
                        messages
                            .iter()
                            .map(|it| Summary { id: it.id, is_heard: it.is_heard })
                            .collect(),
                    ),
                    Ask::Load(id) => {
                        let found = messages.iter().find(|message| message.id == id);
                        Reply::Loaded(found.map(|message| Arc::clone(&message.samples)))
                    }
                    Ask::Keep(recording) => {
                        let (id, caller) = (messages.len() as u64 + 1, recording.caller);
                        let samples = recording.samples.into();
                        messages.push(Message { id, is_heard: false, samples, caller });
                        Reply::Done(true)
                    }
                    Ask::Delete(id) => {
                        messages.retain(|message| message.id != id);
                        Reply::Done(true)
                    }
                    Ask::MarkHeard(id) => {
                        let mut messages = messages.iter_mut();
                        messages.find(|it| it.id == id).expect("a message").is_heard = true;
                        return;
                    }
                };
                self.server.reply(call, reply);
            }
            _ => {}
        }
    }

    /// Lets 20 ms pass: each end sends and plays sound.
    fn tick(&mut self) {
        self.now += FRAME;
        let now = self.now;
        let mut to_server = Vec::new();
        for phone in &mut self.phones {
            phone.agent.on_timer(now);
            let mut frame = Vec::new();
            if let Some(tone) = &mut phone.tone {
                tone.fill(phone.rate as usize / 50, &mut frame);
            }
            let Phone { agent, call, place, heard, .. } = phone;
            call.send(agent, now, &mut frame, &mut |channel, to, bytes| {
                to_server.push((place.ip(), channel, to, bytes.to_vec()));
            });
            call.play(now, heard);
        }
        for (ip, channel, to, mut bytes) in to_server {
            let port = if channel == Channel::Rtp { to.port() } else { to.port() & !1 };
            let call = self.ports.iter().find(|(_, known)| **known == port).map(|(call, _)| *call);
            let from = SocketAddr::new(ip, if channel == Channel::Rtp { 4000 } else { 4001 });
            if let Some(call) = call.filter(|_| !self.is_cut) {
                self.server.receive_media(now, call, channel, from, &mut bytes);
            }
        }
        self.server.on_timer(now);
        let mut to_phones = Vec::new();
        self.server.tick(now, &mut |call, channel, to, bytes| {
            to_phones.push((call, channel, to, bytes.to_vec()));
        });
        for (call, channel, to, mut bytes) in to_phones {
            let Some(port) = self.ports.get(&call) else { continue };
            let port = if channel == Channel::Rtp { *port } else { port + 1 };
            let from = SocketAddr::new(server_place().ip(), port);
            let phone = self.phones.iter_mut().find(|phone| phone.place.ip() == to.ip());
            if let Some(phone) = phone {
                phone.call.receive(channel, now, from, &mut bytes);
            }
        }
        self.settle();
    }

    fn pass(&mut self, millis: u64) {
        (0..millis / 20).for_each(|_| self.tick());
    }

    /// The amplitude of a tone in the sound that a phone hears in the next second.
    fn hears(&mut self, phone: usize, hertz: &[f64]) -> Vec<f64> {
        self.phones[phone].heard.clear();
        self.pass(1000);
        let Phone { heard, rate, .. } = &self.phones[phone];
        hertz.iter().map(|hertz| amplitude_of(*hertz, *rate, heard)).collect()
    }

    fn press(&mut self, phone: usize, key: char) {
        let Phone { agent, call, .. } = &mut self.phones[phone];
        call.press(agent, self.now, key).expect("a call");
        self.pass(300);
    }

    fn hang_up(&mut self, phone: usize) {
        let Phone { agent, call, .. } = &mut self.phones[phone];
        agent.hang_up(self.now, call.id().expect("a placed call")).expect("a call");
        self.settle();
    }

    /// The status of the refusal of a call.
    fn refusal(&self, phone: usize) -> Option<u16> {
        match &self.phones[phone].ended {
            Some(End::Failed(sip_ua::Failure::Refused { status, .. })) => Some(*status),
            _ => None,
        }
    }

    /// Asserts that nothing is left some time after the last call.
    fn assert_empty(&mut self) {
        for _ in 0..40 {
            self.now += Duration::from_secs(1);
            self.server.on_timer(self.now);
            self.phones.iter_mut().for_each(|phone| phone.agent.on_timer(self.now));
            self.settle();
        }
        assert_eq!(self.server.remains(), 0);
        assert_eq!(self.ports.len(), 0);
    }
}

const ECHO: &str = "<sip:echo@media-server.invalid;lr;caller=alice%40example.com>";
const ROOM: &str = "<sip:conference@media-server.invalid;lr;name=sales%40example.com>";
const DEPOSIT: &str =
    "<sip:deposit@media-server.invalid;lr;name=bob%40example.com;caller=alice%40example.com>";
const OF_STRANGER: &str = "<sip:deposit@media-server.invalid;lr;name=bob%40example.com>";
const MUSIC: &str = "<sip:music@media-server.invalid;lr>";
const RETRIEVAL: &str =
    "<sip:retrieval@media-server.invalid;lr;name=bob%40example.com;caller=bob%40example.com>";

#[test]
fn the_echo_returns_the_sound_with_each_codec() {
    for codec in [Codec::Pcmu, Codec::Pcma, Codec::G722] {
        let mut world = World::new(Config::default());
        let phone = world.call(ECHO, codec, 440.0);
        world.pass(1000);
        let heard = world.hears(phone, &[440.0, 880.0]);
        assert!(heard[0] > 6000.0 && heard[1] < 500.0, "{codec:?}: {heard:?}");
        world.hang_up(phone);
        world.assert_empty();
        assert_eq!(world.server.counters().calls, 1);
    }
}

#[test]
fn a_message_is_left_played_and_deleted() {
    let mut world = World::new(Config::default());
    let caller = world.call(DEPOSIT, Codec::Pcma, 440.0);
    world.pass(4000);
    world.hang_up(caller);
    assert_eq!(world.messages.len(), 1);
    assert_eq!(world.messages[0].caller, "alice@example.com");
    let length = world.messages[0].samples.len() as f64 / f64::from(RATE);
    assert!((2.8..3.6).contains(&length), "{length}");
    let owner = world.call(RETRIEVAL, Codec::G722, 0.0);
    world.pass(2000);
    let heard = world.hears(owner, &[440.0, 660.0]);
    assert!(heard[0] > 6000.0 && heard[1] < 500.0, "{heard:?}");
    world.pass(4000);
    assert!(world.messages[0].is_heard);
    world.press(owner, '3');
    assert_eq!(world.messages.len(), 0);
    world.pass(3000);
    assert!(world.phones[owner].ended.is_some());
    world.assert_empty();
}

#[test]
fn a_caller_that_ends_the_message_by_a_key_hears_that_it_is_kept() {
    let mut world = World::new(Config::default());
    let caller = world.call(DEPOSIT, Codec::Pcmu, 440.0);
    world.pass(3000);
    world.phones[caller].heard.clear();
    world.press(caller, '#');
    world.pass(700);
    assert_eq!(world.messages.len(), 1);
    let Phone { heard, rate, .. } = &world.phones[caller];
    let tones: Vec<_> = heard.windows(800).map(|it| amplitude_of(880.0, *rate, it)).collect();
    assert!(tones.iter().any(|level| *level > 3000.0));
    assert!(world.phones[caller].ended.is_some());
    world.assert_empty();
}

#[test]
fn each_of_three_members_hears_the_two_others() {
    let mut world = World::new(Config::default());
    let tones = [440.0, 660.0, 880.0];
    let codecs = [Codec::Pcmu, Codec::G722, Codec::Pcma];
    let members: Vec<_> =
        tones.iter().zip(codecs).map(|(hertz, codec)| world.call(ROOM, codec, *hertz)).collect();
    let apart = world.call("<sip:conference@media-server.invalid;lr;name=b>", Codec::Pcmu, 1000.0);
    world.pass(2000);
    for member in &members {
        let heard = world.hears(*member, &[440.0, 660.0, 880.0, 1000.0]);
        for (tone, level) in heard.iter().enumerate() {
            let is_there = tone < 3 && tone != *member;
            assert_eq!(*level > 5000.0, is_there, "{member}: {heard:?}");
            assert!(is_there || *level < 500.0, "{member}: {heard:?}");
        }
    }
    let heard = world.hears(apart, &tones);
    assert!(heard.iter().all(|level| *level < 500.0), "{heard:?}");
    world.press(members[0], '*');
    world.pass(1000);
    assert!(world.hears(members[1], &[440.0])[0] < 500.0);
    world.press(members[0], '*');
    world.pass(1000);
    assert!(world.hears(members[1], &[440.0])[0] > 5000.0);
    for member in members.into_iter().chain([apart]) {
        world.hang_up(member);
    }
    world.assert_empty();
}

#[test]
fn an_announcement_is_played_once_and_music_without_an_end() {
    let mut world = World::new(Config::default());
    let mut sounds = Sounds::default();
    let mut samples = Vec::new();
    Tone::new(500.0, 16_000, 8000).fill(32_000, &mut samples);
    sounds.add("hours", 16_000, &samples);
    world.server.set_sounds(sounds);
    let announced = |name| format!("<sip:announcement@media-server.invalid;lr;name={name}>");
    let phone = world.call(&announced("hours"), Codec::Pcmu, 0.0);
    world.pass(500);
    assert!(world.hears(phone, &[500.0])[0] > 6000.0);
    world.pass(2000);
    assert!(world.phones[phone].ended.is_some());
    let unknown = world.call(&announced("other"), Codec::Pcmu, 0.0);
    assert_eq!(world.refusal(unknown), Some(404));
    let music = world.call(MUSIC, Codec::Pcmu, 0.0);
    world.pass(60_000);
    world.phones[music].heard.clear();
    world.pass(1000);
    assert!(world.phones[music].heard.iter().any(|sample| *sample > 3000));
    world.hang_up(music);
    world.assert_empty();
}

#[test]
fn calls_above_the_limits_and_to_a_full_mailbox_are_refused() {
    let config = Config { calls: 4, calls_of_source: 2, members: 1, ..Config::default() };
    let mut world = World::new(config.clone());
    let member = world.call(ROOM, Codec::Pcmu, 0.0);
    let second = world.call(ROOM, Codec::Pcmu, 0.0);
    assert_eq!(world.refusal(second), Some(486));
    world.is_full = true;
    let full = world.call(DEPOSIT, Codec::Pcmu, 0.0);
    assert_eq!(world.refusal(full), Some(480));
    world.is_full = false;
    let others: Vec<_> = (0..3).map(|_| world.call(ECHO, Codec::Pcmu, 0.0)).collect();
    let over = world.call(ECHO, Codec::Pcmu, 0.0);
    assert_eq!(world.refusal(over), Some(503));
    let counters = world.server.counters();
    assert_eq!((counters.over_limit, counters.over_share, counters.full), (1, 1, 1));
    for phone in others.into_iter().chain([member]) {
        world.hang_up(phone);
    }
    world.assert_empty();
}

#[test]
fn a_source_has_its_share_of_the_calls() {
    let mut server =
        MediaServer::new(Config { calls_of_source: 2, ..Config::default() }, Box::new(numbers(3)));
    let now = Instant::from_micros(1_700_000_000_000_000);
    let invite = |number: usize| {
        format!(
            "INVITE sip:echo@example.com SIP/2.0\r\n\
             Via: SIP/2.0/TCP 192.0.2.1;branch=z9hG4bK{number}\r\nRoute: {ECHO}\r\n\
             Max-Forwards: 69\r\nFrom: <sip:a@b>;tag={number}\r\nTo: <sip:echo@example.com>\r\n\
             Call-ID: {number}\r\nCSeq: 1 INVITE\r\nContact: <sip:a@192.0.2.7>\r\n\
             Content-Length: 0\r\n\r\n"
        )
    };
    let mut open = |host: u8, number: usize| {
        let place = ([192, 0, 2, host], 5060).into();
        server.receive(now, &flow_of(place), invite(number).as_bytes());
        let event = server.poll_event();
        matches!(event, Some(Event::Open { .. }))
    };
    assert_eq!([1, 2, 3].map(|number| open(7, number)), [true, true, false]);
    assert!(open(8, 4));
    assert_eq!(server.counters().over_share, 1);
}

#[test]
fn a_call_without_the_line_of_the_proxy_and_a_silent_call_get_no_service() {
    let mut world = World::new(Config::default());
    let stranger = world.call("", Codec::Pcmu, 440.0);
    assert_eq!(world.refusal(stranger), Some(404));
    let phone = world.call(ECHO, Codec::Pcmu, 440.0);
    world.pass(1000);
    world.is_cut = true;
    world.pass(125_000);
    assert!(world.phones[phone].ended.is_some());
    assert_eq!(world.server.counters().ended, 1);
    world.assert_empty();
}

#[test]
fn a_call_ends_by_its_longest_duration() {
    let call_length = Duration::from_secs(5);
    let mut world = World::new(Config { call_length, ..Config::default() });
    let phone = world.call(ECHO, Codec::Pcmu, 440.0);
    world.pass(4900);
    assert!(world.phones[phone].ended.is_none());
    world.pass(300);
    assert!(world.phones[phone].ended.is_some());
    world.assert_empty();
}

#[test]
fn many_sources_do_not_take_all_calls_and_one_mailbox_has_few() {
    let config = Config { calls: 6, calls_of_mailbox: 2, ..Config::default() };
    let mut world = World::new(config.clone());
    let storm: Vec<usize> = (0..5).map(|_| world.call(OF_STRANGER, Codec::Pcmu, 440.0)).collect();
    world.pass(100);
    let refused = |world: &World, phones: &[usize]| {
        phones.iter().filter(|&&phone| world.refusal(phone) == Some(486)).count()
    };
    assert_eq!(refused(&world, &storm), 3, "two messages at a time for one mailbox");
    let more: Vec<usize> = (0..4).map(|_| world.call(MUSIC, Codec::Pcmu, 0.0)).collect();
    world.pass(100);
    assert_eq!(refused(&world, &more), 3);
    let users: Vec<usize> = (0..3).map(|_| world.call(ECHO, Codec::Pcmu, 440.0)).collect();
    world.pass(100);
    assert_eq!(refused(&world, &users), 0);
    assert_eq!(world.server.calls(), config.calls);
    assert_eq!(world.server.counters().over_share, 6);
    for phone in [storm[0], storm[1], more[0]].into_iter().chain(users) {
        world.hang_up(phone);
    }
    world.assert_empty();
}

/// The route of a call that bob has transferred to the slot with this number.
fn parked_by_bob(slot: &str) -> String {
    format!(
        "<sip:park@media-server.invalid;lr;name={slot}%40example.com;caller=x%40example.com>\r\n\
         Referred-By: <sip:bob@example.com>"
    )
}

fn retrieval_from(slot: &str) -> String {
    format!("<sip:park@media-server.invalid;lr;name={slot}%40example.com;caller=c%40example.com>")
}

#[test]
fn a_parked_call_hears_music_until_another_one_retrieves_it_and_both_end_together() {
    let mut world = World::new(Config::default());
    let parked = world.call(&parked_by_bob("702"), Codec::Pcmu, 440.0);
    world.pass(400);
    let heard = world.hears(parked, &[329.6, 392.0]);
    assert!(heard.iter().any(|amplitude| *amplitude > 500.0), "no music: {heard:?}");
    // A second one cannot be parked there, and a transfer does not retrieve a call.
    let second = world.call(&parked_by_bob("702"), Codec::Pcmu, 440.0);
    world.pass(100);
    assert_eq!(world.refusal(second), Some(486));
    let picker = world.call(&retrieval_from("702"), Codec::G722, 620.0);
    world.pass(800);
    assert!(world.hears(parked, &[620.0])[0] > 3000.0);
    assert!(world.hears(picker, &[440.0])[0] > 3000.0);
    let third = world.call(&retrieval_from("702"), Codec::Pcmu, 440.0);
    world.pass(100);
    assert_eq!(world.refusal(third), Some(486));
    world.hang_up(picker);
    world.pass(100);
    assert!(world.phones[parked].ended.is_some(), "the two calls end together");
    assert_eq!(world.server.counters().parked, 1);
    world.assert_empty();
}

#[test]
fn the_first_free_slot_is_announced_by_tones_and_a_call_that_waits_returns() {
    let config = Config { park_time: Duration::from_secs(30), ..Config::default() };
    let mut world = World::new(config);
    let first = world.call(&parked_by_bob("701"), Codec::Pcmu, 440.0);
    // Bob asks for a free slot, which is that with the number 2: two tones.
    let bob = world.call(&retrieval_from("700"), Codec::Pcmu, 1000.0);
    world.pass(400);
    assert!(world.hears(bob, &[880.0])[0] > 1000.0);
    world.pass(29_000);
    assert_eq!(world.phones[first].transferred.as_deref(), Some("sip:bob@example.com"));
    assert_eq!(world.phones[bob].transferred, None, "bob has parked no other call there");
    assert_eq!(world.server.counters().returned, 1);
    world.hang_up(first);
    world.hang_up(bob);
    world.assert_empty();
}

#[test]
fn the_calls_of_one_user_fill_a_part_of_the_slots_only() {
    let mut world = World::new(Config::default());
    let of = |user: &str, slot: &str| {
        format!("<sip:park@media-server.invalid;lr;name={slot}%40example.com;caller={user}>")
    };
    let mut calls = Vec::new();
    for slot in ["701", "702", "700", "700"] {
        calls.push(world.call(&of("mallory", slot), Codec::Pcmu, 440.0));
        world.pass(100);
    }
    // Another slot, a slot by a transfer, and any free slot.
    let referred = "\r\nReferred-By: <sip:bob@example.com>";
    for route in [of("mallory", "709"), of("mallory", "708") + referred, of("mallory", "700")] {
        let refused = world.call(&route, Codec::Pcmu, 440.0);
        world.pass(100);
        assert_eq!(world.refusal(refused), Some(486), "{route}");
    }
    // It may still take a call that waits, and other users have slots.
    calls.push(world.call(&of("bob", "709"), Codec::Pcmu, 620.0));
    world.pass(800);
    calls.push(world.call(&of("mallory", "709"), Codec::Pcmu, 440.0));
    world.pass(800);
    assert!(world.hears(calls[5], &[620.0])[0] > 3000.0);
    for call in calls {
        world.hang_up(call);
        world.pass(100);
    }
    world.assert_empty();
}

#[test]
fn a_call_that_is_picked_up_meets_the_other_one_and_does_not_wait_for_long() {
    let mut world = World::new(Config::default());
    let meet = |name: &str| format!("<sip:meet@media-server.invalid;lr;name={name}>");
    let [caller, picker] = [440.0, 620.0].map(|hertz| world.call(&meet("70"), Codec::Pcmu, hertz));
    let lonely = world.call(&meet("71"), Codec::Pcmu, 440.0);
    world.pass(1000);
    assert!(world.hears(caller, &[620.0])[0] > 3000.0);
    assert!(world.hears(picker, &[440.0])[0] > 3000.0);
    world.pass(20_000);
    assert!(world.phones[lonely].ended.is_some());
    world.hang_up(caller);
    world.pass(100);
    assert!(world.phones[picker].ended.is_some());
    world.assert_empty();
}
