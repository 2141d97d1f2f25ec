//! The addresses that packets come from and go to.

use super::*;

#[test]
fn packets_pass_between_a_phone_behind_nat_and_one_with_a_public_address() {
    let rig = Rig::new(Limits::default());
    let offer = rig.first_offer(&sdp("10.0.0.7", 4000));
    assert!(offer.contains("m=audio 20002 ") && !offer.contains("10.0.0.7"), "{offer}");
    let answer = rig.first_answer(&sdp("203.0.113.1", 6000)).unwrap();
    assert!(answer.contains("c=IN IP4 192.0.2.1\r\n") && answer.contains("m=audio 20000 "));
    // The caller has no address before its first packet.
    assert_eq!(rig.send(Side::Callee, "203.0.113.1:6000", &rtp(1)), Err(Drop::NoDestination));
    let (to, packet) = rig.send(Side::Caller, "198.51.100.1:33333", &rtp(1)).unwrap();
    assert_eq!((to, packet), (place("203.0.113.1:6000"), rtp(1)));
    let (to, _) = rig.send(Side::Callee, "203.0.113.1:6000", &rtp(2)).unwrap();
    assert_eq!(to, place("198.51.100.1:33333"));
    let [caller, callee] = rig.stream().summary();
    assert_eq!((caller.packets, callee.packets, callee.unsent), (1, 2, 1));
}

/// A server of the callee plays an announcement before another one answers.
#[test]
fn packets_follow_the_answer_after_early_media_of_another_address() {
    let rig = Rig::new(Limits::default());
    let (caller, early, callee) = ("198.51.100.1:4000", "203.0.113.9:7000", "203.0.113.1:6000");
    rig.first_offer(&sdp("198.51.100.1", 4000));
    let role = Role::Response { exchange: 1, is_final: false };
    let progress = rig.pass(Side::Callee, role, &sdp("203.0.113.9", 7000), |passage| {
        passage.branch = BRANCH;
    });
    let progress = progress.unwrap().unwrap();
    assert_eq!(rig.send(Side::Callee, early, &rtp(1)).unwrap().0, place(caller));
    assert_eq!(rig.send(Side::Caller, caller, &rtp(1)).unwrap().0, place(early));
    let answer = rig.first_answer(&sdp("203.0.113.1", 6000)).unwrap();
    // The caller hears both at the port that both descriptions announce.
    assert!([&progress, &answer].iter().all(|it| it.contains("m=audio 20000 ")), "{answer}");
    assert_eq!(rig.send(Side::Caller, caller, &rtp(2)).unwrap().0, place(callee));
    assert_eq!(rig.send(Side::Callee, early, &rtp(2)), Err(Drop::Source));
    assert_eq!(rig.send(Side::Callee, callee, &rtp(3)).unwrap().0, place(caller));
}

/// A proxy of the callee forks the call, and one callee answers without a description, after its
/// early answer (RFC 3262 section 5).
#[test]
fn packets_follow_the_callee_that_answers_of_several_with_early_answers() {
    let caller = "198.51.100.1:4000";
    let callees = [("one", "203.0.113.1:6000"), ("two", "203.0.113.2:7000")];
    for (answering, other) in [(0, 1), (1, 0)] {
        let rig = Rig::new(Limits::default());
        rig.first_offer(&sdp("198.51.100.1", 4000));
        let respond = |callee: usize, role, body: &str| {
            rig.pass(Side::Callee, role, body, |passage| {
                (passage.branch, passage.from_tag) = (BRANCH, callees[callee].0.as_bytes());
            })
        };
        for (callee, (_, at)) in callees.iter().enumerate() {
            let at = place(at);
            let body = sdp(&std::format!("{}", at.ip()), at.port());
            let role = Role::Response { exchange: 1, is_final: false };
            respond(callee, role, &body).unwrap().unwrap();
            assert_eq!(rig.send(Side::Caller, caller, &rtp(1)).unwrap().0, at);
        }
        let role = Role::Confirmation { exchange: 1 };
        let changed = respond(answering, role, "").unwrap();
        assert_eq!(changed.is_some(), answering == 0);
        rig.relay.confirm(b"c", b"b", callees[answering].0.as_bytes(), Duration::ZERO);
        let [at, other] = [callees[answering].1, callees[other].1];
        assert_eq!(rig.send(Side::Caller, caller, &rtp(2)).unwrap().0, place(at));
        assert_eq!(rig.send(Side::Callee, at, &rtp(1)).unwrap().0, place(caller));
        assert_eq!(rig.send(Side::Callee, other, &rtp(1)), Err(Drop::Source));
        // A repeated response changes nothing.
        assert_eq!(respond(1 - answering, role, ""), Ok(None));
        rig.send(Side::Callee, at, &rtp(2)).unwrap();
    }
}

/// An offer in an early dialog is of another exchange than the early answers.
#[test]
fn an_early_answer_does_not_hold_after_another_offer() {
    let rig = Rig::new(Limits::default());
    rig.first_offer(&sdp("198.51.100.1", 4000));
    let respond = |tag: &'static [u8], role, body: &str| {
        rig.pass(Side::Callee, role, body, |passage| {
            (passage.branch, passage.from_tag) = (BRANCH, tag);
        })
    };
    let early = Role::Response { exchange: 1, is_final: false };
    respond(b"one", early, &sdp("203.0.113.1", 6000)).unwrap().unwrap();
    respond(b"callee", early, &sdp("203.0.113.2", 7000)).unwrap().unwrap();
    exchange(&rig, 2, &sdp("198.51.100.1", 4000), &sdp("203.0.113.2", 7000));
    assert_eq!(respond(b"one", Role::Confirmation { exchange: 1 }, ""), Ok(None));
    rig.send(Side::Callee, "203.0.113.2:7000", &rtp(1)).unwrap();
}

#[test]
fn packets_of_strangers_are_refused_before_and_after_the_first_packet() {
    let rig = Rig::new(Limits::default());
    rig.first_offer(&sdp("198.51.100.1", 4000));
    rig.first_answer(&sdp("203.0.113.1", 6000)).unwrap();
    let stranger = "192.0.2.66:4000";
    assert_eq!(rig.send(Side::Caller, stranger, &rtp(1)), Err(Drop::Source));
    rig.send(Side::Caller, "198.51.100.1:4000", &rtp(1)).unwrap();
    for from in [stranger, "198.51.100.1:4001"] {
        assert_eq!(rig.send(Side::Caller, from, &rtp(2)), Err(Drop::Source));
    }
    // A new offer with the same address opens no window.
    let role = Role::Offer { exchange: 2 };
    rig.pass(Side::Caller, role, &sdp("198.51.100.1", 4000), |_| {}).unwrap().unwrap();
    let role = Role::Response { exchange: 2, is_final: true };
    rig.pass(Side::Callee, role, &sdp("203.0.113.1", 6000), |_| {}).unwrap().unwrap();
    assert_eq!(rig.send(Side::Caller, "198.51.100.1:4001", &rtp(2)), Err(Drop::Source));
    rig.send(Side::Caller, "198.51.100.1:4000", &rtp(2)).unwrap();
    // With another address it moves, once the answer has passed.
    let role = Role::Offer { exchange: 3 };
    rig.pass(Side::Caller, role, &sdp("198.51.100.1", 4100), |_| {}).unwrap().unwrap();
    assert_eq!(rig.send(Side::Caller, "198.51.100.1:4100", &rtp(3)), Err(Drop::Source));
    let role = Role::Response { exchange: 3, is_final: true };
    rig.pass(Side::Callee, role, &sdp("203.0.113.1", 6000), |_| {}).unwrap().unwrap();
    rig.send(Side::Caller, "198.51.100.1:4100", &rtp(3)).unwrap();
    assert_eq!(rig.stream().summary()[0].refused, 5);
}

#[test]
fn an_end_behind_nat_moves_with_its_private_address() {
    let rig = Rig::new(Limits::default());
    rig.first_offer(&sdp("10.0.0.7", 4000));
    rig.first_answer(&sdp("203.0.113.1", 6000)).unwrap();
    rig.send(Side::Caller, "198.51.100.1:33333", &rtp(1)).unwrap();
    let role = Role::Offer { exchange: 2 };
    rig.pass(Side::Caller, role, &sdp("10.0.0.7", 4100), |_| {}).unwrap().unwrap();
    assert_eq!(rig.send(Side::Caller, "198.51.100.1:44444", &rtp(2)), Err(Drop::Source));
    let role = Role::Response { exchange: 2, is_final: true };
    rig.pass(Side::Callee, role, &sdp("203.0.113.1", 6000), |_| {}).unwrap().unwrap();
    rig.send(Side::Caller, "198.51.100.1:44444", &rtp(2)).unwrap();
    assert_eq!(rig.send(Side::Caller, "198.51.100.1:33333", &rtp(3)), Err(Drop::Source));
}

/// An older phone holds by the unspecified address (RFC 3264 section 8.4).
#[test]
fn a_hold_by_the_unspecified_address_is_shown_to_the_other_end() {
    let rig = Rig::new(Limits::default());
    let (caller, callee) = (sdp("198.51.100.1", 4000), sdp("203.0.113.1", 6000));
    let offer = |exchange, body: &str| {
        rig.pass(Side::Caller, Role::Offer { exchange }, body, |_| {}).unwrap().unwrap()
    };
    let answer = |exchange, body: &str| {
        let role = Role::Response { exchange, is_final: true };
        rig.pass(Side::Callee, role, body, |_| {}).unwrap().unwrap()
    };
    let directions = |text: &str| {
        let names = ["a=sendrecv", "a=sendonly", "a=recvonly", "a=inactive"];
        text.lines().filter(|line| names.contains(line)).map(String::from).collect::<Vec<_>>()
    };
    rig.first_offer(&caller);
    rig.first_answer(&callee).unwrap();
    let [none, sendonly, inactive] = [&[][..], &["a=sendonly"], &["a=inactive"]];
    let held = sdp("0.0.0.0", 4000);
    for (number, offered, expected) in [
        (2, held.clone(), sendonly),
        (3, held.clone() + "a=sendrecv\r\n", sendonly),
        (4, held.clone() + "a=recvonly\r\n", inactive),
        (5, held.clone() + "a=inactive\r\n", inactive),
        (6, caller.clone(), none),
    ] {
        let text = offer(number, &offered);
        assert_eq!(directions(&text), expected, "{offered}");
        assert!(text.contains("c=IN IP4 192.0.2.1\r\n"), "{text}");
        assert_eq!(directions(&answer(number, &callee)), none);
    }
    // The callee is on hold, too, and then alone.
    offer(7, &held);
    assert_eq!(directions(&answer(7, &sdp("0.0.0.0", 6000))), inactive);
    offer(8, &caller);
    assert_eq!(directions(&answer(8, &sdp("0.0.0.0", 6000))), sendonly);
}

#[test]
fn other_packets_are_refused() {
    let rig = Rig::new(Limits::default());
    rig.first_offer(&sdp("198.51.100.1", 4000));
    rig.first_answer(&sdp("203.0.113.1", 6000)).unwrap();
    let mut other = rtp(1);
    other[1] = 8;
    let here = "198.51.100.1:4000";
    assert_eq!(rig.send(Side::Caller, here, &other), Err(Drop::PayloadType(8)));
    for first in [0, 16, 22, 64, 255] {
        other[0] = first;
        assert!(matches!(rig.send(Side::Caller, here, &other), Err(Drop::Kind(_))), "{first}");
    }
    assert!(matches!(rig.send(Side::Caller, here, &[0x80, 0, 1]), Err(Drop::Rtp(_))));
    assert!(matches!(rig.send(Side::Caller, here, &[]), Err(Drop::Kind(_))));
}

#[test]
fn an_address_that_never_sends_gets_ten_seconds_of_audio() {
    let rig = Rig::new(Limits::default());
    rig.first_offer(&sdp("198.51.100.1", 4000));
    // The callee names the address of a third party.
    rig.first_answer(&sdp("203.0.113.99", 6000)).unwrap();
    assert_eq!(rig.send_audio(Side::Caller, "198.51.100.1:4000", 1000, 20), 500);
    rig.send(Side::Callee, "203.0.113.99:6000", &rtp(1)).unwrap();
    rig.send(Side::Caller, "198.51.100.1:4000", &rtp(1001)).unwrap();
}

/// The number of packets of the caller that reach a callee which never sends. `signalling` are the
/// hosts of its signalling when the offer is sent and when it answers, and `named` are the hosts
/// that it names for RTP and RTCP.
fn packets_to(signalling: [[u8; 4]; 2], is_proven: bool, named: [&str; 2]) -> usize {
    let rig = Rig::new(Limits::default());
    let at = |host: [u8; 4]| SocketAddr::new(host.into(), 5060);
    let begin = |passage: &mut Passage<'_>| {
        (passage.branch, passage.begins, passage.to_tag) = (BRANCH, true, b"");
        (passage.to.signalling, passage.to.is_proven) = (at(signalling[0]), is_proven);
    };
    let offer = Role::Offer { exchange: 1 };
    rig.pass(Side::Caller, offer, &sdp("198.51.100.1", 4000), begin).unwrap();
    let answer = Role::Response { exchange: 1, is_final: false };
    let follow = |passage: &mut Passage<'_>| {
        (passage.branch, passage.from.signalling) = (BRANCH, at(signalling[1]));
    };
    let [named, rtcp] = named;
    let body = sdp(named, 6000) + &std::format!("a=rtcp:6001 IN IP4 {rtcp}\r\n");
    rig.pass(Side::Callee, answer, &body, follow).unwrap();
    rig.send_audio(Side::Caller, "198.51.100.1:4000", 1000, 20)
}

#[test]
fn an_end_that_only_receives_gets_all_packets_at_the_host_that_it_has_proved() {
    let [callee, second, third] = ["203.0.113.1", "203.0.113.2", "203.0.113.99"];
    assert_eq!(packets_to([CALLEE; 2], true, [callee; 2]), 1000);
    assert_eq!(packets_to([CALLEE; 2], false, [callee; 2]), 500);
    // The address of a third party, also for RTCP alone.
    assert_eq!(packets_to([CALLEE; 2], true, [third; 2]), 500);
    assert_eq!(packets_to([CALLEE; 2], true, [callee, third]), 500);
    // A response of another host than the one that got the request.
    let moved = [CALLEE, [203, 0, 113, 2]];
    assert_eq!(packets_to(moved, true, [second; 2]), 500);
    assert_eq!(packets_to(moved, true, [callee; 2]), 500);
}

#[test]
fn a_packet_in_the_name_of_the_end_does_not_redirect_its_packets() {
    let rig = Rig::new(Limits::default());
    rig.first_offer(&sdp("198.51.100.1", 4000));
    rig.first_answer(&sdp("203.0.113.1", 6000)).unwrap();
    // The host is that of the caller, the port is not.
    rig.send(Side::Caller, "198.51.100.1:1", &rtp(1)).unwrap();
    let to = |packet: &[u8]| rig.send(Side::Callee, "203.0.113.1:6000", packet).unwrap().0;
    assert_eq!(to(&rtp(1)), place("198.51.100.1:1"));
    rig.send(Side::Caller, "198.51.100.1:4000", &rtp(2)).unwrap();
    assert_eq!(to(&rtp(2)), place("198.51.100.1:4000"));
    assert_eq!(rig.send(Side::Caller, "198.51.100.1:1", &rtp(3)), Err(Drop::Source));
}

#[test]
fn an_address_that_never_sends_gets_no_more_at_other_ports() {
    let rig = Rig::new(Limits::default());
    rig.first_offer(&sdp("198.51.100.1", 4000));
    rig.first_answer(&sdp("203.0.113.99", 6000)).unwrap();
    let mut sent = 0;
    for number in 2..12 {
        sent += rig.send_audio(Side::Caller, "198.51.100.1:4000", 200, 20);
        let answer = sdp("203.0.113.99", 6000 + 2 * number as u16);
        exchange(&rig, number, &sdp("198.51.100.1", 4000), &answer);
    }
    assert_eq!(sent, 500);
}

#[test]
fn ports_of_the_relay_are_no_destinations_but_in_the_next_branch_of_a_call() {
    let rig = Rig::new(Limits::default());
    let own = |port: u16| sdp("192.0.2.1", port);
    let offer = |branch: &'static [u8], from: &'static [u8], body: &str| {
        rig.pass(Side::Caller, Role::Offer { exchange: 1 }, body, |passage| {
            (passage.branch, passage.begins) = (Some(branch), true);
            (passage.from_tag, passage.to_tag) = (from, b"");
        })
    };
    let answer = |branch: &'static [u8], to: &'static [u8], body: &str| {
        let role = Role::Response { exchange: 1, is_final: true };
        rig.pass(Side::Callee, role, body, |passage| {
            (passage.branch, passage.to_tag) = (Some(branch), to);
        })
    };
    // The call passes twice: its second branch has the description of the first.
    assert!(
        offer(b"b1", b"caller", &sdp("198.51.100.1", 4000)).unwrap().unwrap().contains("20002")
    );
    for port in [20_000, 20_006, 20_050] {
        assert_eq!(offer(b"b2", b"caller", &own(port)), Err(RelayError::OwnPort), "{port}");
    }
    let named = own(19_999) + "a=rtcp:20000\r\n";
    assert_eq!(offer(b"b2", b"caller", &named), Err(RelayError::OwnPort));
    assert_eq!(rig.open.load(Relaxed), 1);
    assert!(offer(b"b2", b"caller", &own(20_002)).unwrap().is_some());
    let ports = [20_000, 20_002];
    for port in ports.into_iter().chain([20_050]) {
        assert_eq!(answer(b"b2", b"caller", &own(port)), Err(RelayError::OwnPort), "{port}");
    }
    answer(b"b2", b"caller", &sdp("203.0.113.1", 6000)).unwrap().unwrap();
    let streams = rig.streams.lock().len();
    let second = 20_000 + 4 * (streams as u16 - 1);
    assert_eq!(answer(b"b1", b"caller", &own(20_002)), Err(RelayError::OwnPort));
    assert!(answer(b"b1", b"caller", &own(second)).unwrap().is_some());
}

/// A program on this machine takes any free port for RTP, and none for RTCP.
#[test]
fn a_port_of_the_relay_after_that_of_an_end_gets_no_rtcp() {
    let rig = Rig::new(Limits::default());
    let (caller, callee) = ("192.0.2.1:19999", "203.0.113.1:6000");
    rig.first_offer(&sdp("192.0.2.1", 19_999));
    rig.first_answer(&sdp("203.0.113.1", 6000)).unwrap();
    assert_eq!(rig.send(Side::Caller, caller, &rtp(1)).unwrap().0, place(callee));
    assert_eq!(rig.send(Side::Callee, callee, &rtp(1)).unwrap().0, place(caller));
    let mut report = [0; 1500];
    report[..8].copy_from_slice(&[0x80, 201, 0, 1, 0, 0, 0, 9]);
    let from = place("203.0.113.1:6001");
    let sent =
        rig.stream().relay(Side::Callee, Channel::Rtcp, from, &mut report, 8, Duration::ZERO);
    assert_eq!(sent.err(), Some(Drop::NoDestination));
}
