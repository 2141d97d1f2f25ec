//! Phones call the media server on a virtual clock: they hear their own sound in the echo, leave a
//! message and play it, and hear one another in a conference room.

mod parking;
mod world;

use barebell_media_server::media::Codec;
use barebell_media_server::media::tone::{Tone, amplitude_of};
use barebell_media_server::sip::{Duration, Instant};
use barebell_media_server::{Config, Event, MediaServer, RATE, Sounds};
use world::{Phone, World, flow_of, numbers};

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
