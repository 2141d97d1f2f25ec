//! The server from the frame to the response, on a simulated network.

mod lan;

use image::machine::heap::Heap;
use image::server::Phase;
use lan::{HOST, Lan, SERVER_END, end, frame, mac_of, request};
use sip::Duration;
use std::net::{Ipv4Addr, SocketAddrV4};
use test_support::hostile::HostileFrames;

const PHONE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 20), 5070);
const OTHER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 21), 5070);
const USERS: &str = "alice:secret\nbob:secret\n";

fn status(message: &[u8]) -> u16 {
    sip::Message::parse(message).ok().and_then(|message| message.status()).unwrap_or(0)
}

#[test]
fn users_are_fetched_before_requests_are_served() {
    let mut lan = Lan::new("auth=off", USERS);
    lan.file = b"alice".to_vec();
    lan.run(Duration::from_secs(1));
    assert_eq!(lan.server.phase(), Phase::Users);
    assert!(lan.log().contains("line 1: expected name:password"), "{}", lan.log());
    assert_eq!(lan.exchange(PHONE, &request("OPTIONS", "alice", PHONE, 1)), []);
    lan.file = USERS.into();
    lan.run(Duration::from_secs(11));
    assert_eq!(lan.server.phase(), Phase::Ready, "{}", lan.log());
    let answers = lan.exchange(PHONE, &request("REGISTER", "alice", PHONE, 2));
    assert_eq!(answers.iter().map(|sent| status(&sent.payload)).collect::<Vec<_>>(), [200]);
    assert_eq!((answers[0].to, answers[0].port), (PHONE, 5060));
    assert_eq!(call(&mut lan, "nobody", 3), 404);
}

/// The status of a call to `user`.
fn call(lan: &mut Lan, user: &str, number: u32) -> u16 {
    let answers = lan.exchange(PHONE, &request("INVITE", user, PHONE, number));
    answers.last().map_or(0, |sent| status(&sent.payload))
}

#[test]
fn a_missing_link_and_a_silent_tftp_server_are_logged() {
    let mut lan = Lan::new("", USERS);
    lan.wire.borrow_mut().is_cut = true;
    lan.run(Duration::from_millis(10));
    assert_eq!((lan.server.phase(), lan.log().contains("no link")), (Phase::Link, true));
    lan.wire.borrow_mut().is_cut = false;
    lan.silent = vec![HOST];
    lan.run(Duration::from_secs(8));
    assert!(lan.log().contains("the TFTP server does not answer"), "{}", lan.log());
    assert_eq!(lan.server.phase(), Phase::Users);
}

#[test]
fn users_of_a_later_file_take_the_place_of_those_before() {
    let mut lan = Lan::ready("auth=off refresh=5", USERS);
    lan.file = b"bob:secret\ncarol:secret\n".to_vec();
    lan.run(Duration::from_secs(6));
    let mut called = |user, number| call(&mut lan, user, number);
    assert_eq!([called("alice", 10), called("bob", 11), called("carol", 12)], [404, 480, 480]);
    lan.file = b"nonsense".to_vec();
    lan.run(Duration::from_secs(6));
    assert_eq!(call(&mut lan, "bob", 20), 480, "users of before are kept: {}", lan.log());
}

#[test]
fn behind_a_forwarded_port_it_goes_by_its_name_outside() {
    let mut lan = Lan::ready("auth=off as=203.0.113.5:15060", USERS);
    lan.exchange(PHONE, &request("REGISTER", "alice", PHONE, 1));
    let route = "Route: <sip:203.0.113.5:15060;lr>\r\nContent-Length";
    let invite = request("INVITE", "alice", OTHER, 2).replace("Content-Length", route);
    lan.exchange(OTHER, &invite);
    lan.run(Duration::from_millis(3));
    let sent = lan.sent.iter().find(|sent| sent.to == PHONE).expect("an INVITE");
    let invite = String::from_utf8_lossy(&sent.payload);
    assert!(invite.starts_with("INVITE ") && !invite.contains("\r\nRoute:"), "{invite}");
    assert!(invite.contains("@203.0.113.5:15060;lr>"), "{invite}");
}

/// The host has two names for the server that `./image run` boots: a phone in another virtual
/// machine calls it 10.0.2.2.
#[test]
fn a_route_by_any_of_its_addresses_ends_here() {
    let options = "auth=off domain=localhost,127.0.0.1,10.0.2.2 as=127.0.0.1:15060";
    let mut lan = Lan::ready(options, USERS);
    for (number, port) in [(1, ""), (3, ":15060")] {
        let register = request("REGISTER", "alice", PHONE, number);
        let route = format!("Route: <sip:10.0.2.2{port};lr>\r\nContent-Length");
        let answers = lan.exchange(PHONE, &register.replace("Content-Length", &route));
        let statuses: Vec<_> = answers.iter().map(|sent| status(&sent.payload)).collect();
        assert_eq!(statuses, [200], "{port}");
    }
}

#[test]
fn one_host_may_ask_how_long_steps_take() {
    let mut lan = Lan::ready("auth=off query=192.0.2.20:5099", USERS);
    let host = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 20), 6000);
    let mut ask = |from, question: &[u8]| {
        lan.run(Duration::from_millis(200));
        // Of two simultaneous queries one is answered.
        lan.send(from, 5099, question);
        lan.send(from, 5099, question);
        lan.run(Duration::from_millis(3));
        let answers = lan.sent.drain(..).filter(|sent| sent.to == from);
        answers.map(|sent| String::from_utf8(sent.payload).expect("text")).collect::<Vec<_>>()
    };
    let timings = ask(host, b"timings\n");
    let [line] = &timings[..] else { panic!("{timings:?}") };
    assert!(line.starts_with("{\"timings\":{\"parse-headers\":{\"count\":0,"), "{line}");
    assert!(line.contains("\"total\":{\"count\":0,\"nanoseconds\":0},\"rewrite\":{"), "{line}");
    let error = "{\"error\":\"expected the line: timings\"}\n";
    assert_eq!(ask(host, b"reboot\n"), [error]);
    assert!(ask(OTHER, b"timings\n").is_empty());
}

#[test]
fn a_call_reaches_its_callee_and_a_silent_neighbour_delays_no_other() {
    let mut lan = Lan::ready("auth=off", USERS);
    let gone = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 30), 5070);
    lan.silent = vec![*gone.ip()];
    lan.exchange(gone, &request("REGISTER", "alice", gone, 1));
    lan.exchange(OTHER, &request("REGISTER", "bob", OTHER, 2));
    lan.exchange(PHONE, &request("INVITE", "alice", PHONE, 3));
    let sent = lan.exchange(PHONE, &request("INVITE", "bob", PHONE, 4));
    lan.run(Duration::from_millis(3));
    let all: Vec<_> = sent.iter().chain(&lan.sent).collect();
    let invites = all.iter().filter(|sent| sent.payload.starts_with(b"INVITE"));
    assert_eq!(invites.map(|sent| sent.to).collect::<Vec<_>>(), [OTHER]);
}

#[test]
fn a_forged_sender_is_answered_nowhere_else_than_where_the_frame_came_from() {
    let mut lan = Lan::ready("auth=off", USERS);
    // A host with another Ethernet address claims to be the phone.
    let message = request("OPTIONS", "alice", PHONE, 1);
    let mut forged = frame(PHONE, 5060, message.as_bytes());
    forged[6..12].copy_from_slice(&mac_of(*OTHER.ip()));
    lan.wire.borrow_mut().to_server.push_back(forged);
    let now = lan.now;
    lan.server.step(&mut || now);
    let answer = lan.wire.borrow_mut().from_server.pop_front().expect("an answer");
    assert_eq!(answer[..6], mac_of(*OTHER.ip()));
    // Later packets to the phone are resolved by ARP.
    lan.exchange(OTHER, &request("REGISTER", "bob", OTHER, 2));
    lan.exchange(PHONE, &request("REGISTER", "alice", PHONE, 3));
    lan.exchange(OTHER, &request("INVITE", "alice", OTHER, 4));
    lan.run(Duration::from_millis(3));
    assert!(lan.sent.iter().any(|sent| sent.to == PHONE && sent.payload.starts_with(b"INVITE")));
}

/// Sends a forged ARP packet: the phone at `PHONE` has the Ethernet address of `address`.
fn claim(lan: &mut Lan, address: Ipv4Addr) {
    let card = mac_of(address);
    let mut arp = [&SERVER_END.mac[..], &card, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &card].concat();
    arp.extend(PHONE.ip().octets());
    arp.extend([0; 6]);
    arp.extend(SERVER_END.address.octets());
    lan.wire.borrow_mut().to_server.push_back(arp);
    lan.run(Duration::from_millis(3));
}

/// The destination of the phone's INVITE when OTHER calls it.
fn card_of_phone(lan: &mut Lan, number: u32) -> [u8; 6] {
    lan.send(OTHER, 5060, request("INVITE", "alice", OTHER, number).as_bytes());
    let now = lan.now;
    lan.server.step(&mut || now);
    let mut frames = std::mem::take(&mut lan.wire.borrow_mut().from_server);
    frames.retain(|frame| frame[12..14] == [8, 0] && frame[30..34] == PHONE.ip().octets());
    frames[0][..6].try_into().expect("six bytes")
}

#[test]
fn a_forged_neighbour_is_replaced_once_the_true_one_sends() {
    let mut lan = Lan::ready("auth=off", USERS);
    claim(&mut lan, *PHONE.ip());
    lan.exchange(PHONE, &request("REGISTER", "alice", PHONE, 1));
    assert_eq!(card_of_phone(&mut lan, 2), mac_of(*PHONE.ip()));
    claim(&mut lan, *OTHER.ip());
    assert_eq!(card_of_phone(&mut lan, 3), mac_of(*OTHER.ip()), "nobody has said otherwise yet");
    lan.exchange(PHONE, &request("OPTIONS", "alice", PHONE, 4));
    lan.run(Duration::from_secs(2));
    assert_eq!(card_of_phone(&mut lan, 5), mac_of(*PHONE.ip()));
}

#[test]
fn wrong_checksums_are_dropped_unless_checks_are_off() {
    let message = request("OPTIONS", "alice", PHONE, 1);
    let mut wrong = frame(PHONE, 5060, message.as_bytes());
    wrong[40] ^= 0x55;
    for (options, count) in [("auth=off", 0), ("auth=off checksums=off", 1)] {
        let mut lan = Lan::ready(options, USERS);
        lan.wire.borrow_mut().to_server.push_back(wrong.clone());
        lan.turn();
        assert_eq!(lan.sent.len(), count, "{options}");
    }
}

/// The number of hostile frames; `BAREBELL_FLOOD` sets it.
fn rounds() -> usize {
    let given = std::env::var("BAREBELL_FLOOD").ok();
    given.and_then(|count| count.parse().ok()).unwrap_or(30_000)
}

#[test]
fn hostile_frames_change_nothing() {
    let mut lan = Lan::ready("auth=off refresh=5", USERS);
    let frames = HostileFrames::new(SERVER_END, end(HOST), end(*PHONE.ip()), 7);
    for (number, frame) in frames.take(rounds()).enumerate() {
        lan.wire.borrow_mut().to_server.push_back(frame);
        if number % 16 == 0 {
            lan.turn();
            lan.now += Duration::from_millis(1);
            lan.sent.clear();
        }
    }
    lan.run(Duration::from_secs(400));
    let answers = lan.exchange(OTHER, &request("REGISTER", "bob", OTHER, 9_000));
    let statuses: Vec<_> = answers.iter().map(|sent| status(&sent.payload)).collect();
    assert!(statuses.contains(&200), "{statuses:?} {}", lan.log());
}

#[test]
fn a_file_of_too_many_users_changes_nothing_and_its_memory_is_named() {
    fn small() -> Heap {
        Heap { used: 3 << 20, claimed: 30 << 20, used_reserve: 0 }
    }
    let mut lan = Lan::with_memory("auth=off refresh=5 domain=t.test", USERS, small);
    lan.run(Duration::from_millis(500));
    assert_eq!(lan.server.phase(), Phase::Ready, "{}", lan.log());
    lan.file = (0..60_000).flat_map(|number| format!("u{number}:x\n").into_bytes()).collect();
    lan.run(Duration::from_secs(8));
    let said =
        "60000 users need 63 MiB of memory, and this machine has 30 (file users of 192.0.2.1)";
    assert!(lan.log().contains(said), "{}", lan.log());
    assert_eq!(call(&mut lan, "alice", 1), 480, "the users of before are served");
    assert_eq!(call(&mut lan, "u1", 2), 404);
}

/// The ICMP error with this code of the host that `sent` was for. It quotes `length` bytes of the
/// payload.
fn unreachable(sent: &lan::Sent, code: u8, length: usize) -> Vec<u8> {
    let payload = &sent.payload[..length.min(sent.payload.len())];
    let udp_length = (8 + sent.payload.len()) as u16;
    let mut quoted = vec![0x45, 0];
    quoted.extend((20 + udp_length).to_be_bytes());
    quoted.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    quoted.extend(SERVER_END.address.octets());
    quoted.extend(sent.to.ip().octets());
    for number in [sent.port, sent.to.port(), udp_length, 0] {
        quoted.extend(number.to_be_bytes());
    }
    quoted.extend(payload);
    let mut bytes = Vec::new();
    etherparse::PacketBuilder::ethernet2(mac_of(*sent.to.ip()), SERVER_END.mac)
        .ipv4(sent.to.ip().octets(), SERVER_END.address.octets(), 64)
        .icmpv4_raw(3, code, [0; 4])
        .write(&mut bytes, &quoted)
        .expect("the vector takes the frame");
    bytes
}

#[test]
fn a_request_whose_target_has_no_listener_is_answered_at_once() {
    let mut lan = Lan::ready("auth=off", USERS);
    for (number, code, is_heard) in [(10, 3, true), (20, 1, true), (30, 4, false)] {
        lan.exchange(PHONE, &request("REGISTER", "alice", PHONE, number));
        let mut sent = lan.exchange(OTHER, &request("INVITE", "alice", OTHER, number + 1));
        lan.run(Duration::from_millis(3));
        sent.append(&mut lan.sent);
        let forwarded = sent.iter().find(|sent| sent.payload.starts_with(b"INVITE"));
        let forwarded = forwarded.expect("the request is forwarded").clone();
        assert_eq!(forwarded.to, PHONE);
        // Without the branch, the error belongs to no request.
        for length in [0, 30, 400] {
            let error = unreachable(&forwarded, code, length);
            lan.wire.borrow_mut().to_server.push_back(error);
            lan.run(Duration::from_millis(3));
            let statuses: Vec<_> = lan.sent.iter().map(|sent| status(&sent.payload)).collect();
            let expected = if length == 400 && is_heard { vec![480] } else { vec![] };
            assert_eq!(statuses, expected, "code {code}, {length} bytes");
        }
    }
}

/// The answer of a time server at `HOST` with `time` in seconds since 1970.
fn tell_time(lan: &mut Lan, time: u64) {
    let question = loop {
        lan.run(Duration::from_millis(10));
        if let Some(at) = lan.sent.iter().position(|sent| sent.to.port() == 123) {
            break lan.sent.remove(at).payload;
        }
    };
    let mut answer = [0; 48];
    (answer[0], answer[1]) = (4 << 3 | 4, 2);
    answer[24..32].copy_from_slice(&question[40..]);
    let stamp = ((time + 2_208_988_800) << 32).to_be_bytes();
    answer[32..40].copy_from_slice(&stamp);
    answer[40..].copy_from_slice(&stamp);
    lan.send(SocketAddrV4::new(HOST, 123), 123, &answer);
    lan.run(Duration::from_millis(10));
}

#[test]
fn the_clock_is_set_at_once_in_both_directions_and_no_registration_ends() {
    for (time, date) in [
        (1_795_700_000 + 8 * 3600, "Date: Thu, 26 Nov 2026 21:33:2"),
        (1_795_700_000 - 8 * 3600, "Date: Thu, 26 Nov 2026 05:33:2"),
    ] {
        let mut lan = Lan::ready("auth=off sntp=192.0.2.1", USERS);
        lan.exchange(PHONE, &request("REGISTER", "alice", PHONE, 1));
        tell_time(&mut lan, time);
        lan.run(Duration::from_secs(1));
        lan.exchange(OTHER, &request("INVITE", "alice", OTHER, 2));
        lan.run(Duration::from_millis(3));
        let invites = lan.sent.iter().filter(|sent| sent.payload.starts_with(b"INVITE"));
        assert_eq!(invites.map(|sent| sent.to).next(), Some(PHONE), "{}", lan.log());
        let answers = lan.exchange(OTHER, &request("REGISTER", "bob", OTHER, 3));
        let answer = String::from_utf8_lossy(&answers.last().expect("an answer").payload);
        assert!(answer.contains(date), "{answer}");
    }
}
