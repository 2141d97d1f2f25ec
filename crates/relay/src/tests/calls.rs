//! Offers and answers, limits, and the ends of calls.

use super::*;
use crate::CallReport;

#[test]
fn a_medium_has_its_ports_until_its_end_is_answered() {
    let rig = Rig::new(Limits::default());
    rig.first_offer(&sdp("198.51.100.1", 4000));
    rig.first_answer(&sdp("203.0.113.1", 6000)).unwrap();
    let role = Role::Offer { exchange: 2 };
    let end = sdp("198.51.100.1", 0);
    rig.pass(Side::Caller, role, &end, |_| {}).unwrap().unwrap();
    // The callee has refused it.
    rig.send(Side::Caller, "198.51.100.1:4000", &rtp(1)).unwrap();
    assert_eq!(rig.open.load(Relaxed), 1);
    exchange(&rig, 3, &end, &sdp("203.0.113.1", 0));
    assert_eq!(rig.open.load(Relaxed), 0);
}

#[test]
fn each_medium_is_charged() {
    let rig = Rig::new(Limits { calls_of_owner: 3, ..Limits::default() });
    let begin = |media: usize| {
        let role = Role::Offer { exchange: 1 };
        let offer = sdp("198.51.100.1", 4000) + &"m=audio 5000 RTP/AVP 0\r\n".repeat(media - 1);
        rig.pass(Side::Caller, role, &offer, |passage| {
            (passage.branch, passage.begins, passage.to_tag) = (BRANCH, true, b"");
        })
    };
    assert_eq!(begin(4), Err(RelayError::Share));
    assert_eq!((rig.relay.count(), rig.open.load(Relaxed)), (0, 0));
    begin(3).unwrap();
    let role = Role::Offer { exchange: 1 };
    let other = rig.pass(Side::Caller, role, &sdp("198.51.100.1", 4000), |passage| {
        (passage.call_id, passage.branch, passage.begins) = (b"other", BRANCH, true);
    });
    assert_eq!(other, Err(RelayError::Share));
    assert!(rig.relay.end_branch(b"c", b"b").is_some());
    begin(3).unwrap();
}

#[test]
fn an_offer_in_a_response_is_answered_in_the_acknowledgement() {
    let rig = Rig::new(Limits::default());
    let role = Role::Response { exchange: 1, is_final: true };
    let begin = |passage: &mut Passage<'_>| (passage.branch, passage.begins) = (BRANCH, true);
    let offer = rig.pass(Side::Callee, role, &sdp("203.0.113.1", 6000), begin).unwrap().unwrap();
    assert!(offer.contains("m=audio 20000 "), "{offer}");
    rig.relay.confirm(b"c", b"b", b"callee", Duration::ZERO);
    let role = Role::Acknowledgement { exchange: 1 };
    let answer = rig.pass(Side::Caller, role, &sdp("198.51.100.1", 4000), |_| {}).unwrap().unwrap();
    assert!(answer.contains("m=audio 20002 "), "{answer}");
    rig.send(Side::Caller, "198.51.100.1:4000", &rtp(1)).unwrap();
    rig.send(Side::Callee, "203.0.113.1:6000", &rtp(1)).unwrap();
}

#[test]
fn calls_end_by_silence_but_not_on_hold_and_their_ports_are_closed() {
    let rig = Rig::new(Limits::default());
    rig.first_offer(&sdp("198.51.100.1", 4000));
    rig.first_answer(&sdp("203.0.113.1", 6000)).unwrap();
    let expire = |seconds| -> usize {
        (0..16).map(|_| rig.relay.expire(Duration::from_secs(seconds)).len()).sum()
    };
    assert_eq!(expire(60), 0);
    // A hold of both directions has no packets.
    let hold = sdp("198.51.100.1", 4000) + "a=inactive\r\n";
    let role = Role::Offer { exchange: 2 };
    rig.pass(Side::Caller, role, &hold, |_| {}).unwrap().unwrap();
    let role = Role::Response { exchange: 2, is_final: true };
    let answer = sdp("203.0.113.1", 6000) + "a=inactive\r\n";
    rig.pass(Side::Callee, role, &answer, |_| {}).unwrap().unwrap();
    assert_eq!(expire(10_000), 0);
    let late = |passage: &mut Passage<'_>| passage.now = Duration::from_secs(10_000);
    let role = Role::Offer { exchange: 3 };
    rig.pass(Side::Caller, role, &sdp("198.51.100.1", 4000), late).unwrap().unwrap();
    let role = Role::Response { exchange: 3, is_final: true };
    rig.pass(Side::Callee, role, &sdp("203.0.113.1", 6000), late).unwrap().unwrap();
    assert_eq!(expire(10_060), 0);
    assert_eq!((expire(10_061), rig.open.load(Relaxed), rig.relay.count()), (1, 0, 0));
}

/// An RTCP BYE of this source.
fn bye(source: u8) -> [u8; 8] {
    [0x81, 203, 0, 1, 0, 0, 0, source]
}

/// Phones that send their BYE past the server leave the media by RTCP.
#[test]
fn a_call_ends_soon_by_silence_after_an_rtcp_bye() {
    let (here, there) = ("198.51.100.1:4000", "203.0.113.1:6000");
    let call = || {
        let rig = Rig::new(Limits::default());
        rig.first_offer(&sdp("198.51.100.1", 4000));
        rig.first_answer(&sdp("203.0.113.1", 6000)).unwrap();
        rig.now.set(Duration::from_secs(100));
        rig.send(Side::Caller, here, &rtp(1)).unwrap();
        rig.send(Side::Callee, there, &rtp(1)).unwrap();
        rig
    };
    let expire = |rig: &Rig, seconds| -> Vec<_> {
        (0..16).flat_map(|_| rig.relay.expire(Duration::from_secs(seconds))).collect()
    };
    for (side, from, has_left) in
        [(Side::Caller, here, [true, false]), (Side::Callee, there, [false, true])]
    {
        let rig = call();
        let (relayed, _) = rig.send(side, from, &bye(9)).unwrap();
        assert_eq!(relayed, place([there, here][side.index()]));
        assert!(expire(&rig, 110).is_empty());
        let ended = expire(&rig, 111);
        assert_eq!((ended.len(), ended[0].has_left), (1, has_left));
        assert_eq!(ended[0].fault(), "has no packets after an RTCP BYE");
    }
    // The BYE of another source, and a source that goes on or is replaced.
    let rig = call();
    rig.send(Side::Caller, here, &bye(8)).unwrap();
    assert!(expire(&rig, 160).is_empty());
    for source in [9, 10] {
        let rig = call();
        rig.send(Side::Caller, here, &bye(9)).unwrap();
        let mut packet = rtp(2);
        packet[11] = source;
        rig.send(Side::Caller, here, &packet).unwrap();
        assert!(expire(&rig, 160).is_empty());
        assert_eq!(expire(&rig, 161)[0].has_left, [false; 2]);
    }
    // As long as the other end speaks, and on hold, the call stands.
    let rig = call();
    rig.send(Side::Caller, here, &bye(9)).unwrap();
    rig.now.set(Duration::from_secs(109));
    rig.send(Side::Callee, there, &rtp(2)).unwrap();
    assert!(expire(&rig, 119).is_empty());
    let held = |host, port| sdp(host, port) + "a=inactive\r\n";
    exchange(&rig, 2, &held("198.51.100.1", 4000), &held("203.0.113.1", 6000));
    assert!(expire(&rig, 1000).is_empty());
    // A resumed call has the time of any other one.
    exchange(&rig, 3, &sdp("198.51.100.1", 4000), &sdp("203.0.113.1", 6000));
    assert!(expire(&rig, 160).is_empty());
}

/// Phones that suppress silence send comfort noise once, and then RTCP alone.
#[test]
fn a_call_goes_on_with_rtcp_while_an_end_suppresses_silence() {
    let with_noise = |host, port| sdp(host, port).replace("AVP 0 ", "AVP 0 13 ");
    let rig = Rig::new(Limits::default());
    rig.first_offer(&with_noise("198.51.100.1", 4000));
    rig.first_answer(&with_noise("203.0.113.1", 6000)).unwrap();
    let send = |second, packet: &[u8]| {
        rig.now.set(Duration::from_secs(second));
        rig.send(Side::Caller, "198.51.100.1:4000", packet).unwrap();
    };
    let empty_report = [0x80, 201, 0, 1, 0, 0, 0, 9];
    let mut noise = rtp(2);
    noise[1] = 13;
    send(1, &rtp(1));
    send(2, &noise);
    for second in [62, 120] {
        assert!(expire(&rig, second).is_empty(), "{second}");
        send(second, &empty_report);
    }
    assert!(expire(&rig, 180).is_empty());
    // After speech RTCP does not count.
    send(180, &rtp(3));
    send(230, &empty_report);
    assert!(expire(&rig, 240).is_empty());
    assert_eq!(expire(&rig, 241)[0].fault(), "has no packets");
}

#[test]
fn a_call_that_is_not_answered_ends_after_the_last_progress() {
    let rig = Rig::new(Limits::default());
    rig.first_offer(&sdp("198.51.100.1", 4000));
    let expire = |seconds| -> usize {
        (0..16).map(|_| rig.relay.expire(Duration::from_secs(seconds)).len()).sum()
    };
    for at in [200, 400, 600] {
        rig.relay.progress(b"c", b"b", at == 400, Duration::from_secs(at));
        assert_eq!(expire(at + 300), 0);
    }
    assert_eq!(rig.relay.reports()[0].ringing, Some(Duration::from_secs(400)));
    assert_eq!((expire(901), rig.open.load(Relaxed)), (1, 0));
}

/// The calls that are over after so many seconds.
fn expire(rig: &Rig, seconds: u64) -> Vec<CallReport> {
    (0..16).flat_map(|_| rig.relay.expire(Duration::from_secs(seconds))).collect()
}

/// A call with this direction of the caller and that of the callee.
fn held(caller: &str, callee: &str) -> Rig {
    let rig = Rig::new(Limits::default());
    rig.first_offer(&(sdp("198.51.100.1", 4000) + caller));
    rig.first_answer(&(sdp("203.0.113.1", 6000) + callee)).unwrap();
    rig
}

const INACTIVE: [&str; 2] = ["a=inactive\r\n"; 2];

/// The hold limit in seconds.
const HOLD: u64 = 4 * 3600;

#[test]
fn a_call_on_hold_whose_ends_have_vanished_ends() {
    for [caller, callee] in [
        INACTIVE,
        ["a=sendonly\r\n", "a=recvonly\r\n"],
        ["a=recvonly\r\n", "a=sendonly\r\n"],
        ["a=sendonly\r\n", "a=inactive\r\n"],
    ] {
        let rig = held(caller, callee);
        assert!(expire(&rig, HOLD).is_empty(), "{caller} {callee}");
        let ended = expire(&rig, HOLD + 1);
        assert_eq!((ended.len(), ended[0].on_hold), (1, true));
        assert_eq!(ended[0].fault(), "is on hold without a sign of its ends");
        assert_eq!((rig.open.load(Relaxed), rig.relay.count()), (0, 0));
    }
}

#[test]
fn a_call_on_hold_goes_on_with_each_sign_of_an_end() {
    let at = Duration::from_secs(10_000);
    let report = [0x80, 201, 0, 1, 0, 0, 0, 9];
    let signs: [&dyn Fn(&Rig); 5] = [
        &|rig| drop(rig.send(Side::Caller, "198.51.100.1:4000", &report)),
        &|rig| drop(rig.send(Side::Callee, "203.0.113.1:6000", &rtp(1))),
        &|rig| rig.relay.note_answer(b"c", [b"caller", b"callee"], at),
        &|rig| rig.relay.note_answer(b"c", [b"callee", b"caller"], at),
        &|rig| {
            let late = |passage: &mut Passage<'_>| passage.now = at;
            let body = sdp("198.51.100.1", 4000) + INACTIVE[0];
            rig.pass(Side::Caller, Role::Offer { exchange: 2 }, &body, late).unwrap().unwrap();
        },
    ];
    for (number, sign) in signs.iter().enumerate() {
        let rig = held(INACTIVE[0], INACTIVE[1]);
        rig.now.set(at);
        sign(&rig);
        assert!(expire(&rig, 10_000 + HOLD).is_empty(), "{number}");
        assert_eq!(expire(&rig, 10_001 + HOLD).len(), 1, "{number}");
    }
    // The answer in another dialog, and the RTCP of another host.
    let rig = held(INACTIVE[0], INACTIVE[1]);
    rig.now.set(at);
    rig.relay.note_answer(b"c", [b"caller", b"another"], at);
    rig.send(Side::Caller, "192.0.2.66:4000", &report).unwrap_err();
    assert_eq!(expire(&rig, HOLD + 1).len(), 1);
}

#[test]
fn a_call_without_relayed_media_has_a_day() {
    let rig = held("", "");
    exchange(&rig, 2, &sdp("198.51.100.1", 0), &sdp("203.0.113.1", 0));
    assert_eq!(rig.open.load(Relaxed), 0);
    assert!(expire(&rig, 24 * 3600).is_empty());
    assert_eq!(expire(&rig, 24 * 3600 + 1).len(), 1);
}

#[test]
fn the_end_that_holds_has_music_or_none() {
    let held = || held("a=sendonly\r\n", "a=recvonly\r\n");
    // Packets that were under way when the hold began, the RTCP BYE of a phone that ends its media
    // for the hold, and packets of an end that is not to send.
    let rig = held();
    rig.now.set(Duration::from_secs(5));
    rig.send(Side::Caller, "198.51.100.1:4000", &rtp(1)).unwrap();
    rig.send(Side::Caller, "198.51.100.1:4000", &bye(9)).unwrap();
    rig.now.set(Duration::from_secs(100));
    rig.send(Side::Callee, "203.0.113.1:6000", &rtp(1)).unwrap();
    assert!(expire(&rig, 1_000).is_empty());
    // Music that has ended.
    let rig = held();
    rig.now.set(Duration::from_secs(6));
    rig.send(Side::Caller, "198.51.100.1:4000", &rtp(1)).unwrap();
    assert!(expire(&rig, 66).is_empty());
    let ended = expire(&rig, 67);
    assert_eq!((ended.len(), ended[0].on_hold, ended[0].fault()), (1, false, "has no packets"));
}

#[test]
fn limits_hold_and_failures_leave_nothing() {
    let rig = Rig::new(Limits { calls: 5, calls_of_owner: 3, ..Limits::default() });
    let call = |number: u8, owner| {
        let role = Role::Offer { exchange: 1 };
        rig.pass(Side::Caller, role, &sdp("198.51.100.1", 4000), |passage| {
            passage.call_id = &CALLS[usize::from(number)];
            (passage.branch, passage.begins, passage.owner) = (BRANCH, true, owner);
        })
    };
    assert!((0..3).all(|number| call(number, 7).is_ok()));
    assert_eq!(call(3, 7), Err(RelayError::Share));
    assert!(call(3, 8).is_ok());
    assert_eq!(call(4, 8), Err(RelayError::NoPort));
    assert_eq!((rig.relay.count(), rig.open.load(Relaxed)), (4, 4));
    assert!(rig.relay.end_branch(&[0], b"b").is_some());
    assert!(call(4, 8).is_ok());
    for number in 1..5 {
        assert!(rig.relay.end_branch(&[number], b"b").is_some());
    }
    assert_eq!((rig.relay.count(), rig.open.load(Relaxed)), (0, 0));
    assert!(rig.relay.end_branch(&[1], b"b").is_none());
}

/// The controller says which descriptions are answers, and knows neither numbers of requests nor
/// which answer is final.
#[test]
fn answers_belong_to_the_last_offer_of_the_other_side() {
    let rig = Rig::new(Limits::default());
    let answer = |side| {
        rig.pass(side, Role::Answer, &sdp("203.0.113.1", 6000), |passage| {
            passage.branch = BRANCH;
        })
    };
    assert_eq!(answer(Side::Callee), Ok(None));
    rig.first_offer(&sdp("198.51.100.1", 4000));
    for _ in 0..2 {
        answer(Side::Callee).unwrap().unwrap();
    }
    let found = |side| {
        let mut found = None;
        let role = Role::Offer { exchange: 1 };
        let _ = rig.pass(side, role, "", |passage| found = rig.relay.find(passage));
        found.unwrap()
    };
    let (report, side) = found(Side::Callee);
    assert_eq!((side, report.answered), (Side::Callee, Some(Duration::ZERO)));
    assert_eq!((&*report.caller_tag, &*report.callee_tag), (&b"caller"[..], &b"callee"[..]));
    let [caller, callee] = &report.streams[0];
    assert_eq!((caller.local_port, callee.local_port), (20000, 20002));
    assert_eq!(callee.announced, Some(place("203.0.113.1:6000")));
    assert_eq!((&*callee.media_type, &*callee.protocol), ("audio", "RTP/AVP"));
    // The answer of the caller is to an offer of the callee, which has made none.
    let answered = rig.pass(Side::Caller, Role::Answer, &sdp("198.51.100.1", 4000), |_| {});
    assert_eq!(answered, Err(RelayError::NoOffer));
    assert_eq!(found(Side::Caller).0.callee_tag, report.callee_tag);
}

#[test]
fn branches_end_by_identifier_by_tag_and_by_dialog() {
    let rig = Rig::new(Limits::default());
    let begin = || {
        for (id, callee) in [(&b"1"[..], &b"x"[..]), (b"2", b"y"), (b"3", b"z")] {
            let offer = |passage: &mut Passage<'_>| {
                (passage.branch, passage.begins, passage.to_tag) = (Some(id), true, b"");
            };
            let role = Role::Offer { exchange: 1 };
            rig.pass(Side::Caller, role, &sdp("198.51.100.1", 4000), offer).unwrap().unwrap();
            let answer = |passage: &mut Passage<'_>| {
                (passage.branch, passage.from_tag) = (Some(id), callee);
            };
            let answered = rig.pass(Side::Callee, Role::Answer, &sdp("203.0.113.1", 6000), answer);
            answered.unwrap().unwrap();
        }
    };
    for (selection, ended) in [
        (Selection::All, 3),
        (Selection::Branch(b"2"), 1),
        (Selection::Branch(b"4"), 0),
        (Selection::Tag(b"caller"), 3),
        (Selection::Tag(b"z"), 1),
        (Selection::Tag(b"w"), 0),
        (Selection::Dialog([b"y", b"caller"]), 1),
        (Selection::Dialog([b"x", b"y"]), 0),
    ] {
        begin();
        assert_eq!(rig.relay.reports_of(b"c", selection).len(), ended, "{selection:?}");
        assert_eq!(rig.relay.end_all(b"c", selection).len(), ended, "{selection:?}");
        assert_eq!(rig.relay.count(), 3 - ended, "{selection:?}");
        rig.relay.end_all(b"c", Selection::All);
        assert_eq!((rig.relay.count(), rig.open.load(Relaxed)), (0, 0));
    }
}
