//! Media that the server relays, on a simulated network.

mod lan;

use image::machine::heap::Heap;
use image::options::server::Page;
use image::screen::Grid;
use image::screen::console::View as _;
use image::server::screens::{Rates, View};
use lan::call::{Call, Phone, rtp};
use lan::{Lan, Sent};
use sip::Duration;
use std::net::{Ipv4Addr, SocketAddrV4};

const ALICE: Phone = Phone::new(20);
const BOB: Phone = Phone::new(21);
const PHONES: [Phone; 2] = [ALICE, BOB];
const PORTS: [u16; 2] = [4000, 6000];
const STRANGER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 66), 14_000);
const CONSOLE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 30), 7000);

/// A call between both phones.
fn call(options: &str) -> (Lan, Call) {
    let mut lan = Lan::ready(&format!("auth=off query=192.0.2.30:5099 {options}"), "bob:secret\n");
    lan.register(BOB, "bob", 1);
    let invite = lan.offer(PHONES, "bob", (2, PORTS[0])).expect("an INVITE at the callee");
    let call = lan.answer(PHONES, &invite, (2, PORTS));
    (lan, call)
}

/// The packet of one side as the other gets it.
fn relayed(call: &Call, from: usize, packet: Vec<u8>) -> Vec<Sent> {
    let to = 1 - from;
    let is_rtcp = u16::from(packet[1] == 200);
    let port = call.relay[to] + is_rtcp;
    let to = call.phones[to].media(call.ports[to] + is_rtcp);
    vec![Sent { port, to, payload: packet }]
}

/// Sends packets of both sides. All have to arrive.
fn talk(lan: &mut Lan, call: &Call, numbers: std::ops::Range<u16>) {
    for number in numbers {
        for side in [0, 1] {
            let from = call.phones[side].media(call.ports[side]);
            let sent = lan.pass(from, call.relay[side], &rtp(number));
            assert_eq!(sent, relayed(call, side, rtp(number)), "{number} of {side}");
        }
        lan.now += Duration::from_millis(20);
    }
}

/// The number of packets that were rewritten in their frames.
fn rewritten(lan: &mut Lan) -> u64 {
    lan.run(Duration::from_millis(300));
    let answer = lan.pass(CONSOLE, 5099, b"timings");
    let answer = answer.iter().map(|sent| String::from_utf8_lossy(&sent.payload)).next();
    let answer = answer.expect("the timings");
    let count = answer.split("\"rewrite\":{\"count\":").nth(1).expect("the count of rewrites");
    count.split(',').next().and_then(|count| count.parse().ok()).expect("a number")
}

/// The number of ICMP errors for a datagram.
fn errors(lan: &mut Lan, from: SocketAddrV4, port: u16, packet: &[u8]) -> usize {
    lan.send(from, port, packet);
    let now = lan.now;
    lan.server.step(&mut || now);
    let frames = std::mem::take(&mut lan.wire.borrow_mut().from_server);
    frames.iter().filter(|frame| frame[12..14] == [8, 0] && frame[23] == 1).count()
}

#[test]
fn phones_behind_address_translations_hear_each_other() {
    let (mut lan, call) = call("");
    let near = ALICE.media(PORTS[0]);
    // The address of the callee is not known before its first packet.
    assert_eq!(lan.pass(near, call.relay[0], &rtp(0)), []);
    lan.pass(BOB.media(PORTS[1]), call.relay[1], &rtp(0));
    lan.run(Duration::from_millis(5));
    talk(&mut lan, &call, 1..200);
    // One packet of each second and direction renews the entry of the others.
    let count = rewritten(&mut lan);
    assert!((350..396).contains(&count), "{count}");

    // A stranger gets nothing, and nothing of its packets passes.
    assert_eq!(lan.pass(STRANGER, call.relay[0], &rtp(7)), []);
    assert_eq!(lan.pass(ALICE.media(4002), call.relay[0], &rtp(7)), []);
    assert_eq!(errors(&mut lan, STRANGER, call.relay[0], &rtp(7)), 0);
    // RTCP has ports of its own.
    let report = [&[0x80, 200, 0, 6][..], &[7; 24]].concat();
    lan.pass(BOB.media(PORTS[1] + 1), call.relay[1] + 1, &report);
    let sent = lan.pass(ALICE.media(PORTS[0] + 1), call.relay[0] + 1, &report);
    assert_eq!(sent, relayed(&call, 0, report));

    lan.hang_up(&call);
    assert_eq!(lan.pass(near, call.relay[0], &rtp(300)), []);
    assert_eq!(errors(&mut lan, near, call.relay[0], &rtp(300)), 1);
}

/// The rows of the page of calls.
fn page_of_calls(lan: &mut Lan) -> Vec<String> {
    let (mut view, mut grid) = (View::default(), Grid::new(80, 24));
    view.set_page(Page::Calls);
    view.draw(&mut grid, &mut lan.server, &Rates::default(), lan.now);
    (0..24).map(|row| grid.text(row)).collect()
}

#[test]
fn the_quality_of_rewritten_packets_is_shown_and_recorded() {
    let (mut lan, call) = call("");
    let page = page_of_calls(&mut lan);
    assert!(page[23].starts_with(" 1-1 of 1"), "{page:?}");
    lan.pass(ALICE.media(PORTS[0]), call.relay[0], &rtp(0));
    lan.pass(BOB.media(PORTS[1]), call.relay[1], &rtp(0));
    lan.run(Duration::from_millis(20));
    // Both ends lose one packet, at which the timestamp is ahead of the time by 20 ms.
    talk(&mut lan, &call, 1..100);
    talk(&mut lan, &call, 101..200);
    let count = rewritten(&mut lan);
    assert!(count > 350, "{count}");
    let page = page_of_calls(&mut lan);
    for row in &page[2..4] {
        let words: Vec<&str> = row.split_whitespace().collect();
        let [_, .., codec, sent, lost, jitter, score] = words[..] else { panic!("{page:?}") };
        assert_eq!([codec, sent, lost, jitter], ["PCMU/8000", "199", "1", "1.2"], "{page:?}");
        assert!(score.starts_with("4."), "{page:?}");
    }

    lan.hang_up(&call);
    let log = lan.log();
    let line = log.lines().find(|line| line.contains("call from ")).expect("a line for the call");
    for text in [
        "ended by the caller after ",
        "caller: PCMU/8000 199 packets, 1 lost, jitter 1.2 ms, MOS 4.",
        "callee: PCMU/8000 199 packets, 1 lost, jitter 1.2 ms, MOS 4.",
    ] {
        assert!(line.contains(text), "{line}");
    }
    assert!(page_of_calls(&mut lan)[23].starts_with(" 0-0 of 0"));
}

#[test]
fn a_relayed_packet_has_the_class_of_media_and_a_new_hop_limit() {
    let (mut lan, call) = call("");
    lan.pass(ALICE.media(PORTS[0]), call.relay[0], &rtp(0));
    lan.pass(BOB.media(PORTS[1]), call.relay[1], &rtp(0));
    lan.run(Duration::from_millis(5));
    talk(&mut lan, &call, 1..3);
    for number in 3..5 {
        lan.send(ALICE.media(PORTS[0]), call.relay[0], &rtp(number));
        let now = lan.now;
        lan.server.step(&mut || now);
        let frame = lan.wire.borrow_mut().from_server.pop_front().expect("a frame");
        assert_eq!((frame[15], frame[22]), (46 << 2, 64));
        // The next packet passes the stream.
        lan.run(Duration::from_secs(1));
    }
}

#[test]
fn a_phone_that_moves_by_a_new_offer_is_heard_from_there() {
    let (mut lan, mut call) = call("");
    lan.pass(ALICE.media(PORTS[0]), call.relay[0], &rtp(0));
    lan.pass(BOB.media(PORTS[1]), call.relay[1], &rtp(0));
    lan.run(Duration::from_millis(5));
    talk(&mut lan, &call, 1..20);
    let invite = lan.within(&call, "INVITE", Some(4100));
    let again = lan.answer(PHONES, &invite, (999_999, [4100, PORTS[1]]));
    assert_eq!(again.relay, call.relay);
    call.ports = again.ports;
    let before = ALICE.media(PORTS[0]);
    lan.pass(ALICE.media(4100), call.relay[0], &rtp(20));
    lan.pass(BOB.media(PORTS[1]), call.relay[1], &rtp(20));
    talk(&mut lan, &call, 21..40);
    assert_eq!(lan.pass(before, call.relay[0], &rtp(41)), []);
}

#[test]
fn a_call_without_packets_ends_with_a_bye_to_both_phones() {
    let (mut lan, call) = call("timeout=20");
    lan.pass(ALICE.media(PORTS[0]), call.relay[0], &rtp(0));
    lan.pass(BOB.media(PORTS[1]), call.relay[1], &rtp(0));
    // Rewritten packets keep it, too.
    for second in 0..6 {
        talk(&mut lan, &call, 50 * second + 1..50 * second + 50);
        lan.run(Duration::from_secs(15));
    }
    assert!(!lan.log().contains("the relay of call"), "{}", lan.log());
    lan.sent.clear();
    lan.run(Duration::from_secs(25));
    assert!(lan.log().contains("ends: it has no packets"), "{}", lan.log());
    for phone in PHONES {
        let bye = lan.messages_to(phone).find(|text| text.starts_with("BYE "));
        assert!(bye.is_some_and(|bye| bye.contains("No media")), "{:?}", lan.sent);
    }
    assert_eq!(lan.pass(ALICE.media(PORTS[0]), call.relay[0], &rtp(9)), []);
}

#[test]
fn the_options_say_which_calls_are_relayed_and_where() {
    let offer = |options: &str, phones| {
        let mut lan = Lan::ready(&format!("auth=off {options}"), "bob:secret\n");
        lan.register(BOB, "bob", 1);
        lan.offer(phones, "bob", (2, PORTS[0])).expect("an INVITE")
    };
    assert!(offer("relay=off", PHONES).contains("c=IN IP4 10.0.0.20\r\n"));
    let invite = offer("ports=30000-30003", PHONES);
    assert!(invite.contains("m=audio 3000"), "{invite}");
    // Both phones are behind the same address translation.
    let same = [Phone { address: SocketAddrV4::new(*BOB.address.ip(), 5080) }, BOB];
    assert!(offer("", same).contains("c=IN IP4 10.0.0.21\r\n"));
    assert!(offer("relay=all", same).contains("c=IN IP4 192.0.2.7\r\n"));
}

#[test]
fn the_memory_bounds_the_calls_and_those_of_one_source() {
    let little = || Heap { used: 0, claimed: 2 << 20, used_reserve: 0 };
    let mut lan = Lan::with_memory("auth=off", "bob:secret\n", little);
    lan.run(Duration::from_millis(500));
    lan.register(BOB, "bob", 1);
    let mut offer = |host, number| {
        // No request times out meanwhile.
        lan.run(Duration::from_millis(300));
        lan.offer([Phone::new(host), BOB], "bob", (number, 4000)).map_err(|refusal| {
            assert!(refusal.starts_with("SIP/2.0 480 "), "{refusal:?}");
        })
    };
    // A sixteenth of the memory is room for 16 calls, a fifth of them for one source.
    let of_one: Vec<_> = (10..16).map(|number| offer(20, number).is_ok()).collect();
    assert_eq!(of_one, [true, true, true, true, false, false]);
    let of_others = (22..60).filter(|&host| offer(host, 100 + u32::from(host)).is_ok());
    assert_eq!(of_others.count(), 12);
}
