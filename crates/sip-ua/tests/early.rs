//! Early dialogs: reliable provisional responses (RFC 3262), UPDATE (RFC 3311), several ringing
//! phones.

mod rig;

use barebell_sip_ua::{CallId, Config, End, Event, Failure, Reliable};
use rig::{Rig, SESSION, address};
use sip::HeaderName;
use std::net::SocketAddr;
use std::time::Duration;
use test_support::flow::{body, value};
use test_support::network::Link;

const ANSWER: &[u8] = b"v=0 answer";

/// The address of a stranger, which is not an agent.
fn stranger() -> SocketAddr {
    ([192, 0, 2, 100], 5060).into()
}

fn good() -> Link {
    Link { delay: Duration::from_millis(5), ..Link::default() }
}

fn config(user: &str, reliable: Reliable) -> Config {
    Config { user: user.into(), reliable, ..Config::default() }
}

fn rig(reliable: [Reliable; 2]) -> Rig {
    let configs = [config("alice", reliable[0]), config("bob", reliable[1])];
    Rig::new(1, good(), &configs)
}

fn both() -> Rig {
    rig([Reliable::Supported; 2])
}

fn incoming(rig: &mut Rig) -> CallId {
    match rig.expect(1) {
        Event::Incoming { call, .. } => call,
        other => panic!("{other:?}"),
    }
}

/// Alice calls bob, and his agent rings with a session.
fn ringing(rig: &mut Rig) -> (CallId, CallId) {
    let here = rig.call(0, 1);
    let there = incoming(rig);
    rig.act(1, |agent, now| agent.ring(now, there, ANSWER));
    (here, there)
}

fn rings(call: CallId, session: Option<&[u8]>, is_settled: bool) -> Event {
    let session = session.map(<[u8]>::to_vec);
    Event::Ringing { call, status: 183, branch: 0, session, is_settled }
}

#[test]
fn a_session_that_rings_is_the_answer_where_both_ends_know_of_reliability() {
    let mut rig = both();
    let (here, there) = ringing(&mut rig);
    assert_eq!(rig.expect(0), rings(here, Some(ANSWER), true));
    rig.pass(Duration::from_secs(3));
    assert_eq!((rig.count(0, "PRACK"), rig.count(1, "SIP/2.0 183")), (1, 1));
    rig.act(1, |agent, now| agent.answer(now, there, b"v=0 other"));
    assert_eq!(rig.expect(0), Event::Answered { call: here, session: Some(ANSWER.to_vec()) });
    rig.act(0, |agent, now| agent.hang_up(now, here));
    rig.finish();
}

#[test]
fn a_session_that_rings_is_sent_once_where_one_end_knows_nothing_of_reliability() {
    for sides in [[Reliable::Off, Reliable::Supported], [Reliable::Supported, Reliable::Off]] {
        let mut rig = rig(sides);
        let (here, there) = ringing(&mut rig);
        assert_eq!(rig.expect(0), rings(here, Some(ANSWER), false));
        rig.act(1, |agent, now| agent.answer(now, there, ANSWER));
        assert_eq!(rig.expect(0), Event::Answered { call: here, session: Some(ANSWER.to_vec()) });
        assert_eq!(rig.count(0, "PRACK"), 0);
        rig.act(0, |agent, now| agent.hang_up(now, here));
        rig.finish();
    }
}

#[test]
fn who_insists_on_reliability_calls_nobody_without_and_hears_every_ring_reliably() {
    let mut one = rig([Reliable::Required, Reliable::Off]);
    let call = one.call(0, 1);
    match one.expect(0) {
        Event::Ended { call: of, end: End::Failed(Failure::Refused { status: 420, .. }) } => {
            assert_eq!(of, call);
        }
        other => panic!("{other:?}"),
    }
    one.finish();

    let mut other = rig([Reliable::Off, Reliable::Required]);
    other.call(0, 1);
    let end = other.expect(0);
    assert!(
        matches!(&end, Event::Ended { end: End::Failed(Failure::Refused { status: 421, .. }), .. }),
        "{end:?}"
    );
    other.finish();

    let mut both = rig([Reliable::Required, Reliable::Supported]);
    let here = both.call(0, 1);
    let there = incoming(&mut both);
    both.act(1, |agent, now| agent.ring(now, there, b""));
    both.pass(Duration::from_secs(1));
    assert_eq!(both.count(0, "PRACK"), 1);
    both.act(0, |agent, now| agent.hang_up(now, here));
    both.finish();
}

#[test]
fn a_ring_without_prack_is_repeated_for_64_times_t1_and_the_call_refused() {
    let mut rig = both();
    let (_, there) = ringing(&mut rig);
    // No packet arrives any more.
    rig.set_link(Link { loss: 1000, ..good() });
    assert_eq!(rig.expect(1), Event::Ended { call: there, end: End::Failed(Failure::TimedOut) });
    assert_eq!(rig.now().as_secs(), 32);
    // At 0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5 s.
    assert_eq!(rig.count(1, "SIP/2.0 183"), 7);
    assert_eq!(rig.count(1, "SIP/2.0 504"), 1);
}

#[test]
fn an_answer_waits_for_the_prack_of_a_session_and_passes_a_ring_by() {
    for session in [ANSWER, b""] {
        let mut rig = rig([Reliable::Required, Reliable::Supported]);
        rig.call(0, 1);
        let there = incoming(&mut rig);
        rig.act(1, |agent, now| agent.ring(now, there, session));
        rig.act(1, |agent, now| agent.answer(now, there, ANSWER));
        let answers = usize::from(session.is_empty());
        assert_eq!(rig.count(1, "SIP/2.0 200"), answers);
        rig.pass(Duration::from_secs(1));
        // The PRACK gets a 200 in any case.
        assert_eq!((rig.count(1, "SIP/2.0 200 OK (2 PRACK)"), rig.count(0, "ACK")), (1, 1));
        rig.act(1, |agent, now| agent.hang_up(now, there));
        rig.finish();
    }
}

#[test]
fn rings_go_one_after_the_other() {
    let mut rig = rig([Reliable::Required, Reliable::Supported]);
    let here = rig.call(0, 1);
    let there = incoming(&mut rig);
    for session in [&b""[..], ANSWER] {
        rig.act(1, |agent, now| agent.ring(now, there, session));
    }
    assert_eq!(rig.count(1, "SIP/2.0 18"), 1);
    let first = rig.expect(0);
    assert!(matches!(first, Event::Ringing { status: 180, is_settled: false, .. }), "{first:?}");
    assert_eq!(rig.expect(0), rings(here, Some(ANSWER), true));
    rig.act(1, |agent, now| agent.hang_up(now, there));
    rig.finish();
}

#[test]
fn a_call_without_an_offer_is_offered_one_reliably_and_answers_by_prack() {
    let mut rig = both();
    let here = rig.call_with(0, 1, b"");
    let there = incoming(&mut rig);
    rig.act(1, |agent, now| agent.ring(now, there, b"v=0 offer"));
    assert_eq!(rig.expect(0), rings(here, None, false));
    let offer = Event::Offer { call: here, offer: Some(b"v=0 offer".to_vec()) };
    assert_eq!(rig.expect(0), offer);
    // The owner answers late. The retransmitted offer is reported once.
    rig.pass(Duration::from_secs(4));
    assert_eq!(rig.events(0), []);
    rig.act(0, |agent, now| agent.accept(now, here, ANSWER));
    assert_eq!(rig.expect(1), Event::Answer { call: there, answer: ANSWER.to_vec() });
    rig.act(1, |agent, now| agent.answer(now, there, b""));
    let answered = Event::Answered { call: here, session: Some(b"v=0 offer".to_vec()) };
    assert_eq!(rig.expect(0), answered);
    rig.act(0, |agent, now| agent.hang_up(now, here));
    rig.finish();
}

#[test]
fn a_call_without_an_offer_is_offered_one_in_the_answer_and_answers_by_ack() {
    let mut rig = rig([Reliable::Off; 2]);
    let here = rig.call_with(0, 1, b"");
    let there = incoming(&mut rig);
    rig.act(1, |agent, now| agent.answer(now, there, b"v=0 offer"));
    assert_eq!(rig.expect(0), Event::Answered { call: here, session: None });
    let offer = Event::Offer { call: here, offer: Some(b"v=0 offer".to_vec()) };
    assert_eq!(rig.expect(0), offer);
    rig.pass(Duration::from_secs(4));
    assert_eq!((rig.events(0), rig.count(0, "ACK")), (vec![], 0));
    rig.act(0, |agent, now| agent.accept(now, here, ANSWER));
    assert_eq!(rig.expect(1), Event::Answer { call: there, answer: ANSWER.to_vec() });
    rig.act(0, |agent, now| agent.hang_up(now, here));
    rig.finish();
}

#[test]
fn who_refuses_the_first_offer_has_no_call() {
    for is_reliable in [Reliable::Off, Reliable::Supported] {
        let mut rig = rig([is_reliable; 2]);
        let here = rig.call_with(0, 1, b"");
        let there = incoming(&mut rig);
        match is_reliable {
            Reliable::Off => rig.act(1, |agent, now| agent.answer(now, there, SESSION)),
            _ => rig.act(1, |agent, now| agent.ring(now, there, SESSION)),
        }
        while !matches!(rig.expect(0), Event::Offer { .. }) {}
        rig.act(0, |agent, now| agent.refuse(now, here, 488));
        assert_eq!(rig.expect(0), Event::Ended { call: here, end: End::HungUp });
        rig.finish();
    }
}

/// Alice calls a stranger. Returns the INVITE.
fn call_of_stranger(rig: &mut Rig) -> (CallId, Vec<u8>) {
    let call = rig.call_uri(0, &format!("sip:{}", stranger()), SESSION);
    (call, rig.mail(stranger(), "INVITE"))
}

#[test]
fn reliable_responses_are_acknowledged_once_and_in_order_for_each_phone() {
    let mut rig = both();
    let (call, invite) = call_of_stranger(&mut rig);
    let ways = (stranger(), 0);
    let lines = |rseq: u32| format!("Require: 100rel\r\nRSeq: {rseq}\r\n");
    // RSeq 7, 9, 8, 7, 9 of one phone, and 1 of another one in between.
    for (tag, rseq) in [("one", 7), ("one", 9), ("two", 1), ("one", 8), ("one", 7), ("one", 9)] {
        rig.reply(ways, &invite, (183, tag), &lines(rseq), "");
        rig.pass(Duration::from_millis(50));
    }
    let pracks = rig.all_mail(stranger(), "PRACK");
    let mut found: Vec<(String, String, String)> = Vec::new();
    for prack in &pracks {
        let to = value(prack, HeaderName::To);
        let tag = to.split_once("tag=").expect("a tag").1.to_owned();
        found.push((tag, value(prack, HeaderName::RAck), value(prack, HeaderName::CSeq)));
    }
    let expected = [
        ("one", "7 1 INVITE", "2 PRACK"),
        ("two", "1 1 INVITE", "2 PRACK"),
        ("one", "8 1 INVITE", "3 PRACK"),
        ("one", "9 1 INVITE", "4 PRACK"),
    ];
    let expected = expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned()));
    assert_eq!(found, expected);
    assert_eq!(rig.events(0).len(), 4);
    for prack in &pracks {
        rig.reply(ways, prack, (200, ""), "", "");
    }
    rig.act(0, |agent, now| agent.hang_up(now, call));
    rig.reply(ways, &invite, (487, "one"), "", "");
    let cancel = rig.mail(stranger(), "CANCEL");
    rig.reply(ways, &cancel, (200, "one"), "", "");
    rig.finish();
}

/// A stranger calls bob. Returns the INVITE, and bob's call.
fn stranger_calls(rig: &mut Rig, lines: &str, session: &str) -> (String, CallId) {
    let invite = request("INVITE", 1, "", lines, session);
    rig.send(stranger(), 1, invite.as_bytes());
    let call = incoming(rig);
    (invite, call)
}

fn request(method: &str, cseq: u32, to_tag: &str, lines: &str, session: &str) -> String {
    let place = stranger();
    let kind = if session.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
    format!(
        "{method} sip:bob@{to} SIP/2.0\r\nVia: SIP/2.0/UDP {place};branch=z9hG4bK{method}{cseq}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:carol@{place}>;tag=c\r\nTo: <sip:bob@{to}>{to_tag}\r\n\
         Call-ID: x@y\r\nCSeq: {cseq} {method}\r\nContact: <sip:carol@{place}>\r\n{lines}{kind}\
         Content-Length: {length}\r\n\r\n{session}",
        to = address(1),
        length = session.len(),
    )
}

fn tag_of(response: &[u8]) -> String {
    let to = value(response, HeaderName::To);
    format!(";tag={}", to.split_once(";tag=").expect("a tag").1)
}

#[test]
fn a_prack_that_matches_nothing_is_refused_and_an_offer_in_one_is_answered() {
    let mut rig = both();
    let (_, call) = stranger_calls(&mut rig, "Supported: 100rel\r\n", "v=0 first");
    rig.act(1, |agent, now| agent.ring(now, call, ANSWER));
    let ringing = rig.mail(stranger(), "SIP/2.0 183");
    assert_eq!(value(&ringing, HeaderName::Require), "100rel");
    let (tag, rseq) = (tag_of(&ringing), value(&ringing, HeaderName::RSeq));
    let next = rseq.parse::<u32>().expect("a number") + 1;
    let wrong = [format!("{next} 1 INVITE"), format!("{rseq} 2 INVITE"), format!("{rseq} 1 BYE")];
    for (cseq, rack) in (2..).zip(wrong) {
        let prack = request("PRACK", cseq, &tag, &format!("RAck: {rack}\r\n"), "");
        rig.send(stranger(), 1, prack.as_bytes());
        rig.mail(stranger(), "SIP/2.0 481");
    }
    let rack = format!("RAck: {rseq} 1 INVITE\r\n");
    let prack = request("PRACK", 7, &tag, &rack, "v=0 second");
    rig.send(stranger(), 1, prack.as_bytes());
    let offer = Some(b"v=0 second".to_vec());
    assert_eq!(rig.expect(1), Event::Offer { call, offer });
    // The answer to the call waits for the answer to the offer.
    rig.act(1, |agent, now| agent.answer(now, call, b""));
    assert_eq!(rig.count(1, "SIP/2.0 200"), 0);
    rig.act(1, |agent, now| agent.accept(now, call, b"v=0 agreed"));
    assert_eq!(body(&rig.mail(stranger(), "SIP/2.0 200")), b"v=0 agreed");
    assert_eq!(body(&rig.mail(stranger(), "SIP/2.0 200")), b"");
    rig.send(stranger(), 1, request("ACK", 1, &tag, "", "").as_bytes());
    // After its acknowledgement the response is unknown.
    let prack = request("PRACK", 8, &tag, &rack, "");
    rig.send(stranger(), 1, prack.as_bytes());
    rig.mail(stranger(), "SIP/2.0 481");
    rig.send(stranger(), 1, request("BYE", 9, &tag, "", "").as_bytes());
    rig.mail(stranger(), "SIP/2.0 200");
    rig.finish();
}

#[test]
fn what_no_option_tag_of_ours_is_names_is_refused_within_a_dialog_too() {
    let mut rig = both();
    let (_, call) = stranger_calls(&mut rig, "", SESSION_TEXT);
    rig.act(1, |agent, now| agent.ring(now, call, b""));
    let tag = tag_of(&rig.mail(stranger(), "SIP/2.0 180"));
    let update = request("UPDATE", 2, &tag, "Require: 100rel, x-new\r\n", "");
    rig.send(stranger(), 1, update.as_bytes());
    let refused = rig.mail(stranger(), "SIP/2.0 420");
    assert_eq!(value(&refused, HeaderName::Unsupported), "x-new");
    rig.act(1, |agent, now| agent.decline(now, call, 486));
    let refused = rig.mail(stranger(), "SIP/2.0 486");
    rig.send(stranger(), 1, request("ACK", 1, &tag_of(&refused), "", "").as_bytes());
    rig.finish();
}

const SESSION_TEXT: &str = "v=0\r\n";

#[test]
fn whatever_is_lost_rings_are_acknowledged_and_calls_answered() {
    for seed in 0..60 {
        let link = Link {
            loss: 200,
            duplication: 200,
            delay: Duration::from_millis(10),
            jitter: Duration::from_millis(300),
        };
        let reliable = if seed % 2 == 0 { Reliable::Supported } else { Reliable::Required };
        let configs = [config("alice", reliable), config("bob", reliable)];
        let mut rig = Rig::new(seed, link, &configs);
        let call = rig.call(0, 1);
        let there = loop {
            match rig.expect_any() {
                (1, Event::Incoming { call, .. }) => break Some(call),
                (0, Event::Ended { .. }) => break None,
                _ => {}
            }
        };
        if let Some(there) = there {
            for session in [&b""[..], ANSWER] {
                rig.act(1, |agent, now| agent.ring(now, there, session));
            }
            rig.act(1, |agent, now| agent.answer(now, there, ANSWER));
            let answered = loop {
                match rig.expect(0) {
                    Event::Answered { session, .. } => break session,
                    Event::Ended { .. } => break Some(ANSWER.to_vec()),
                    _ => {}
                }
            };
            assert_eq!(answered.as_deref(), Some(ANSWER), "{seed}");
        }
        let _ = rig.try_act(0, |agent, now| agent.hang_up(now, call));
        rig.finish();
    }
}
