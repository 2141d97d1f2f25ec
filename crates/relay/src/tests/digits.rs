//! Digits between an end with telephone events and one without.

use super::codecs::{callee, caller};
use super::{BRANCH, Rig, place};
use crate::{Calls, Codec, Digit, Drop, Limits, Passage, Pressed, Role, Side};
use core::time::Duration;
use rtp::Packet;
use rtp::event::TelephoneEvent;
use rtp::packet::HeaderFields;
use std::string::String;
use std::vec::Vec;

const HERE: &str = "198.51.100.1:4000";
const THERE: &str = "203.0.113.1:6000";
const EVENTS: &str = "rtpmap:101 telephone-event/8000";

/// Establishes a call of these descriptions. `takes` tells which ends take digits by signalling.
/// Returns the descriptions as they arrive.
fn call(rig: &Rig, [offer, answer]: [&str; 2], takes: [bool; 2]) -> [String; 2] {
    let begin = |passage: &mut Passage<'_>| {
        (passage.branch, passage.begins, passage.to_tag) = (BRANCH, true, b"");
        passage.from.takes_digits = takes[0];
    };
    let role = Role::Offer { exchange: 1 };
    let offer = rig.pass(Side::Caller, role, offer, begin).unwrap().unwrap();
    let role = Role::Response { exchange: 1, is_final: true };
    let answer = rig.pass(Side::Callee, role, answer, |passage| {
        passage.branch = BRANCH;
        passage.from.takes_digits = takes[1];
    });
    rig.relay.confirm(b"c", b"b", b"callee", Duration::ZERO);
    [offer, answer.unwrap().unwrap()]
}

/// A packet of 20 ms, by its place in the stream. Numbers and timestamps wrap.
fn sound(payload_type: u8, number: u32) -> Vec<u8> {
    packet(payload_type, number, number, &[0xd5; 160])
}

fn packet(payload_type: u8, number: u32, time: u32, payload: &[u8]) -> Vec<u8> {
    let fields = HeaderFields {
        marker: false,
        payload_type,
        sequence_number: (65_530 + number) as u16,
        timestamp: (u32::MAX - 900).wrapping_add(160 * time),
        ssrc: 9,
    };
    [&fields.to_bytes()[..], payload].concat()
}

fn event(event: u8, duration: u16, end: bool) -> [u8; 4] {
    TelephoneEvent { event, end, volume: 10, duration }.to_bytes()
}

/// Sends a packet, 20 ms after the one before. Returns the packet that leaves, if one does.
fn send(rig: &Rig, side: Side, packet: &[u8]) -> Result<Option<Vec<u8>>, Drop> {
    rig.now.set(rig.now.get() + Duration::from_millis(20));
    let from = if side == Side::Caller { HERE } else { THERE };
    let (_, sent) = rig.send(side, from, packet)?;
    Ok(Some(sent).filter(|sent| !sent.is_empty()))
}

/// The packets of digits that are due.
fn played(rig: &Rig) -> Vec<Vec<u8>> {
    let (mut out, mut buffer) = (Vec::new(), [0; 1500]);
    rig.relay.play(rig.now.get(), &mut buffer, |port, packet, to| {
        assert_eq!((port, to), (20_002, place(THERE)));
        out.push(packet.to_vec());
    });
    out
}

fn press(rig: &Rig, side: Side, key: char, milliseconds: u64) -> bool {
    let digit = Digit { key, duration: Duration::from_millis(milliseconds) };
    rig.relay.press(b"c", b"caller", side, digit, rig.now.get())
}

fn pressed(rig: &Rig) -> Vec<(Side, char, u64)> {
    let name = |it: Pressed| {
        assert_eq!((&*it.call_id, &*it.caller_tag), (&b"c"[..], &b"caller"[..]));
        (it.side, it.digit.key, it.digit.duration.as_millis() as u64)
    };
    rig.relay.take_pressed().into_iter().map(name).collect()
}

/// The sequence numbers follow one another.
fn assert_no_gap(packets: &[Vec<u8>]) {
    let numbers = packets.iter().map(|it| Packet::parse(it).unwrap().header.sequence_number());
    let numbers: Vec<u16> = numbers.collect();
    for pair in numbers.windows(2) {
        assert_eq!(pair[1], pair[0].wrapping_add(1), "{numbers:?}");
    }
}

#[test]
fn the_events_of_a_callee_are_reported_for_a_caller_without_events() {
    let rig = Rig::new(Limits::default());
    let answer = callee("0 101", &[EVENTS]);
    let [offer, answer] = call(&rig, [&caller("0", &[]), &answer], [true, false]);
    assert!(offer.contains(" RTP/AVP 0 101\r\n") && offer.contains(EVENTS), "{offer}");
    assert!(offer.contains("a=fmtp:101 0-15\r\n"), "{offer}");
    assert!(answer.contains(" RTP/AVP 0\r\n") && !answer.contains("telephone-event"), "{answer}");
    send(&rig, Side::Caller, &sound(0, 0)).unwrap();
    let (mut number, mut received) = (0, Vec::new());
    for (key, code, steps) in [('5', 5, 8_u16), ('5', 5, 4), ('#', 11, 40)] {
        for _ in 0..5 {
            received.extend(send(&rig, Side::Callee, &sound(0, number)).unwrap());
            number += 1;
        }
        let start = number;
        for step in 1..=steps + 2 {
            let payload = event(code, 160 * step.min(steps), step >= steps);
            let sent = send(&rig, Side::Callee, &packet(101, number, start, &payload)).unwrap();
            assert_eq!(sent, None);
            number += 1;
        }
        assert_eq!(pressed(&rig), [(Side::Callee, key, 20 * u64::from(steps))]);
    }
    received.extend(send(&rig, Side::Callee, &sound(0, number)).unwrap());
    // The sound goes on without a gap, with its timestamps.
    assert_no_gap(&received);
    let last = Packet::parse(received.last().unwrap()).unwrap().header.timestamp();
    assert_eq!(last, (u32::MAX - 900).wrapping_add(160 * number));
    assert!(!press(&rig, Side::Callee, '1', 100), "this end has events");
}

#[test]
fn an_event_whose_end_is_lost_is_reported_once() {
    let rig = Rig::new(Limits::default());
    call(&rig, [&caller("0", &[]), &callee("0 101", &[EVENTS])], [true, false]);
    send(&rig, Side::Caller, &sound(0, 0)).unwrap();
    for (start, next) in [(1, event(2, 160, false)), (30, event(3, 160, false))] {
        send(&rig, Side::Callee, &packet(101, start, start, &event(1, 160, false))).unwrap();
        send(&rig, Side::Callee, &packet(101, start + 1, start, &event(1, 320, false))).unwrap();
        assert_eq!(pressed(&rig), []);
        // Another event follows, and then sound.
        let later = start + 10;
        send(&rig, Side::Callee, &packet(101, later, later, &next)).unwrap();
        assert_eq!(pressed(&rig), [(Side::Callee, '1', 40)]);
        send(&rig, Side::Callee, &sound(0, later + 1)).unwrap();
        assert_eq!(pressed(&rig), []);
        send(&rig, Side::Callee, &sound(0, later + 12)).unwrap();
        assert_eq!(pressed(&rig).len(), 1);
        // A late packet of it is not another one.
        send(&rig, Side::Callee, &packet(101, later + 2, later, &next)).unwrap();
        assert_eq!(pressed(&rig), []);
    }
}

#[test]
fn an_answer_without_events_gets_those_of_the_offer() {
    let rig = Rig::new(Limits::default());
    let texts = [&*caller("0 101", &[EVENTS]), &*callee("0", &[])];
    let [offer, answer] = call(&rig, texts, [false, true]);
    assert_eq!(offer.matches("telephone-event").count(), 1);
    assert!(answer.contains(" RTP/AVP 0 101\r\n") && answer.contains(EVENTS), "{answer}");
    send(&rig, Side::Callee, &sound(0, 0)).unwrap();
    assert_eq!(send(&rig, Side::Caller, &packet(101, 1, 1, &event(9, 800, true))), Ok(None));
    assert_eq!(pressed(&rig), [(Side::Caller, '9', 100)]);
    // The other end renews the session: the offer keeps the events, the answer loses them.
    let [offer, answer] = rig.exchange(Side::Callee, texts[1], texts[0]);
    assert!(offer.contains(" RTP/AVP 0 101\r\n"), "{offer}");
    assert!(answer.contains(" RTP/AVP 0\r\n"), "{answer}");
    assert_eq!(send(&rig, Side::Caller, &packet(101, 2, 9, &event(4, 800, true))), Ok(None));
    assert_eq!(pressed(&rig), [(Side::Caller, '4', 100)]);
}

#[test]
fn digits_are_played_in_place_of_sound_with_numbers_and_times_that_go_on() {
    let rig = Rig::new(Limits::default());
    call(&rig, [&caller("0", &[]), &callee("0 101", &[EVENTS])], [true, false]);
    send(&rig, Side::Callee, &sound(0, 0)).unwrap();
    let mut received = Vec::new();
    for number in 0..80 {
        received.extend(send(&rig, Side::Caller, &sound(0, number)).unwrap());
        if number == 5 {
            assert!(press(&rig, Side::Caller, '5', 100) && press(&rig, Side::Caller, '*', 160));
        }
        received.extend(played(&rig));
    }
    assert_eq!(rig.relay.next_digit(), None);
    assert_no_gap(&received);
    let mut digits: Vec<Vec<(bool, u32, TelephoneEvent)>> = Vec::new();
    let mut time = u32::MAX - 900;
    for packet in &received {
        let Packet { header, payload } = Packet::parse(packet).unwrap();
        let ahead = header.timestamp().wrapping_sub(time).cast_signed();
        assert!(ahead >= 0, "the timestamps do not step back");
        time = header.timestamp();
        if header.payload_type() == 0 {
            continue;
        }
        assert_eq!((header.payload_type(), header.ssrc()), (101, 9));
        let event = TelephoneEvent::parse_all(payload).next().unwrap();
        if header.marker() {
            digits.push(Vec::new());
        }
        digits.last_mut().expect("a marker").push((header.marker(), header.timestamp(), event));
    }
    let [five, star] = &digits[..] else { panic!("{digits:?}") };
    for (packets, code, total) in [(five, 5, 800), (star, 10, 1280)] {
        assert!(packets.iter().all(|it| it.1 == packets[0].1 && it.2.event == code));
        assert_eq!(packets.iter().filter(|it| it.0).count(), 1);
        assert_eq!(packets.iter().filter(|it| it.2.end).count(), 3);
        assert_eq!(packets.len(), total as usize / 160 + 2);
        let durations: Vec<u16> = packets.iter().map(|it| it.2.duration).collect();
        assert!(durations.is_sorted() && durations.last() == Some(&total), "{durations:?}");
    }
    // The second one begins after the end of the first.
    assert!(star[0].1.wrapping_sub(five[0].1) >= 800 + 320);
    // The events take the place of the sound, except the first packet of each.
    assert_eq!(received.len(), 80 + 2);
}

#[test]
fn a_digit_is_played_in_a_silent_stream() {
    let rig = Rig::new(Limits::default());
    call(&rig, [&caller("0", &[]), &callee("0 101", &[EVENTS])], [true, false]);
    send(&rig, Side::Callee, &sound(0, 0)).unwrap();
    assert!(press(&rig, Side::Caller, '0', 60));
    let mut received = Vec::new();
    while let Some(next) = rig.relay.next_digit() {
        rig.now.set(next);
        received.extend(played(&rig));
    }
    assert_eq!(received.len(), 5);
    assert_no_gap(&received);
    // On hold the other end gets none.
    let held = callee("0 101", &[EVENTS, "sendonly"]);
    rig.exchange(Side::Callee, &held, &caller("0", &["recvonly"]));
    assert!(!press(&rig, Side::Caller, '0', 60));
}

#[test]
fn digits_are_translated_beside_a_conversion() {
    let rig = Rig { transcode: &[Codec::Pcma], ..Rig::new(Limits::default()) };
    let answer = callee("8", &["rtpmap:8 PCMA/8000"]);
    let texts = [&*caller("0 101", &[EVENTS]), &*answer];
    let [_, answer] = call(&rig, texts, [false, true]);
    assert!(answer.contains(" RTP/AVP 0 101\r\n"), "{answer}");
    send(&rig, Side::Callee, &sound(8, 0)).unwrap();
    let mut received = Vec::new();
    for number in 0..30 {
        let packet = match number {
            10..20 => packet(101, number, 10, &event(7, 160 * (number as u16 - 9), number >= 17)),
            _ => sound(0, number),
        };
        received.extend(send(&rig, Side::Caller, &packet).unwrap());
    }
    assert_eq!(pressed(&rig), [(Side::Caller, '7', 160)]);
    assert_no_gap(&received);
    assert_eq!(received.len(), 20);
    assert!(press(&rig, Side::Callee, '3', 60));
    let mut buffer = [0; 1500];
    let mut events = 0;
    rig.relay.play(rig.now.get(), &mut buffer, |_, packet, to| {
        assert_eq!((packet[1], to), (0x80 | 101, place(HERE)));
        events += 1;
    });
    assert_eq!(events, 1);
}

#[test]
fn digits_are_not_translated_between_ends_that_both_have_events_or_take_none() {
    let with = [&*caller("0 101", &[EVENTS]), &*callee("0 101", &[EVENTS])];
    let without = [&*caller("0", &[]), &*callee("0", &[])];
    let one = [&*caller("0 101", &[EVENTS]), &*callee("0", &[])];
    for (texts, takes) in [(with, [true; 2]), (without, [true; 2]), (one, [true, false])] {
        let rig = Rig::new(Limits::default());
        let [_, answer] = call(&rig, texts, takes);
        assert_eq!(answer.contains("101"), texts[1].contains("101"), "{answer}");
        send(&rig, Side::Callee, &sound(0, 0)).unwrap();
        let sent = send(&rig, Side::Caller, &packet(101, 1, 1, &event(1, 160, true)));
        assert_eq!(sent.is_ok_and(|sent| sent.is_some()), texts[0].contains("101"));
        assert_eq!(pressed(&rig), []);
        assert!(!press(&rig, Side::Caller, '1', 100) && !press(&rig, Side::Callee, '1', 100));
    }
}
