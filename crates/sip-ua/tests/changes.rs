//! Changes of the session before and after the answer (RFC 3311, RFC 3261 section 14).

mod rig;

use barebell_sip_ua::{Agent, CallError, CallId, CallState, Config, Event, Failure};
use rig::{Rig, SESSION, address};
use sip::HeaderName;
use std::net::SocketAddr;
use std::time::Duration;
use test_support::flow::{body, value};
use test_support::network::Link;

const HOLD: &[u8] = b"v=0 hold";
const HELD: &[u8] = b"v=0 held";

fn stranger() -> SocketAddr {
    ([192, 0, 2, 100], 5060).into()
}

fn rig() -> Rig {
    let configs = ["alice", "bob"].map(|user| Config { user: user.into(), ..Config::default() });
    Rig::new(1, Link { delay: Duration::from_millis(5), ..Link::default() }, &configs)
}

/// Alice calls bob, and his agent rings with a settled session.
fn ringing(rig: &mut Rig) -> (CallId, CallId) {
    let here = rig.call(0, 1);
    let there = match rig.expect(1) {
        Event::Incoming { call, .. } => call,
        other => panic!("{other:?}"),
    };
    rig.act(1, |agent, now| agent.ring(now, there, SESSION));
    assert!(matches!(rig.expect(0), Event::Ringing { is_settled: true, .. }));
    rig.pass(Duration::from_millis(100));
    (here, there)
}

#[test]
fn a_session_that_rings_is_changed_by_update_from_either_side() {
    let mut rig = rig();
    let (here, there) = ringing(&mut rig);
    for (side, own, other) in [(0, here, there), (1, there, here)] {
        rig.act(side, |agent, now| agent.offer(now, own, HOLD.to_vec()));
        let asked = Event::Offer { call: other, offer: Some(HOLD.to_vec()) };
        assert_eq!(rig.expect(1 - side), asked);
        rig.act(1 - side, |agent, now| agent.accept(now, other, HELD));
        assert_eq!(rig.expect(side), Event::Answer { call: own, answer: HELD.to_vec() });
        assert_eq!(rig.count(side, "UPDATE"), 1);

        rig.act(side, |agent, now| agent.offer(now, own, b"v=0 video".to_vec()));
        assert!(matches!(rig.expect(1 - side), Event::Offer { .. }));
        rig.act(1 - side, |agent, now| agent.refuse(now, other, 488));
        let failure = Failure::Refused { status: 488, reason: "Not Acceptable Here".into() };
        assert_eq!(rig.expect(side), Event::OfferFailed { call: own, failure });
    }
    rig.act(1, |agent, now| agent.answer(now, there, b""));
    // The session is bob's last offer, which alice has accepted.
    assert_eq!(rig.expect(0), Event::Answered { call: here, session: Some(HOLD.to_vec()) });
    rig.act(0, |agent, now| agent.hang_up(now, here));
    rig.finish();
}

#[test]
fn nothing_is_offered_before_the_first_offer_has_its_answer() {
    let mut rig = rig();
    let here = rig.call(0, 1);
    let there = match rig.expect(1) {
        Event::Incoming { call, .. } => call,
        other => panic!("{other:?}"),
    };
    rig.act(1, |agent, now| agent.ring(now, there, b""));
    assert!(matches!(rig.expect(0), Event::Ringing { is_settled: false, .. }));
    for (side, call) in [(0, here), (1, there)] {
        let refused = rig.try_act(side, |agent, now| agent.offer(now, call, HOLD.to_vec()));
        assert!(matches!(refused, Err(CallError::State(CallState::Settled))), "{refused:?}");
    }
    rig.act(1, |agent, now| agent.ring(now, there, SESSION));
    // The PRACK has not arrived yet.
    let refused = rig.try_act(1, |agent, now| agent.offer(now, there, HOLD.to_vec()));
    assert_eq!(refused, Err(CallError::OfferPending));
    rig.act(0, |agent, now| agent.hang_up(now, here));
    rig.finish();
}

#[test]
fn updates_that_meet_are_made_again_one_after_the_other() {
    let mut rig = rig();
    let (here, there) = ringing(&mut rig);
    rig.act(0, |agent, now| agent.offer(now, here, b"v=0 one".to_vec()));
    rig.act(1, |agent, now| agent.offer(now, there, b"v=0 two".to_vec()));
    assert_eq!(rig.expect(0), Event::Offer { call: here, offer: Some(b"v=0 two".to_vec()) });
    assert_eq!((rig.count(0, "SIP/2.0 491"), rig.count(1, "SIP/2.0 491")), (1, 1));
    rig.act(0, |agent, now| agent.accept(now, here, b"v=0 both"));
    assert!(matches!(rig.expect(1), Event::Answer { .. }));
    // An offer that is still wanted is made again.
    assert_eq!(rig.expect(0), Event::OfferDue { call: here });
    rig.act(0, |agent, now| agent.offer(now, here, b"v=0 three".to_vec()));
    assert!(matches!(rig.expect(1), Event::Offer { .. }));
    rig.act(1, |agent, now| agent.accept(now, there, HELD));
    assert!(matches!(rig.expect(0), Event::Answer { .. }));
    rig.act(0, |agent, now| agent.hang_up(now, here));
    rig.finish();
}

/// Offers of both ends that meet, in an answered call. The timer of the callee ends first (RFC 3261
/// section 14.1): the caller is asked for its offer again, that of the callee succeeds at once.
#[test]
fn reinvites_that_meet_both_succeed() {
    let mut rig = rig();
    let (here, there) = ringing(&mut rig);
    rig.act(1, |agent, now| agent.answer(now, there, b""));
    assert!(matches!(rig.expect(0), Event::Answered { .. }));
    rig.pass(Duration::from_secs(1));
    rig.act(0, |agent, now| agent.offer(now, here, HOLD.to_vec()));
    rig.act(1, |agent, now| agent.offer(now, there, b"v=0 two".to_vec()));
    assert_eq!(rig.expect(0), Event::Offer { call: here, offer: Some(b"v=0 two".to_vec()) });
    assert_eq!((rig.count(0, "SIP/2.0 491"), rig.count(1, "SIP/2.0 491")), (1, 1));
    rig.act(0, |agent, now| agent.accept(now, here, b"v=0 both"));
    let answer = b"v=0 both".to_vec();
    assert_eq!(rig.expect(1), Event::Answer { call: there, answer });
    assert_eq!(rig.expect(0), Event::OfferDue { call: here });
    rig.act(0, |agent, now| agent.offer(now, here, b"v=0 hold newer".to_vec()));
    let offer = Some(b"v=0 hold newer".to_vec());
    assert_eq!(rig.expect(1), Event::Offer { call: there, offer });
    rig.act(1, |agent, now| agent.accept(now, there, HELD));
    assert_eq!(rig.expect(0), Event::Answer { call: here, answer: HELD.to_vec() });
    rig.pass(Duration::from_secs(10));
    assert_eq!((rig.events(0), rig.events(1)), (vec![], vec![]));
    rig.act(0, |agent, now| agent.hang_up(now, here));
    rig.finish();
}

#[test]
fn a_newer_offer_takes_the_place_of_a_deferred_one_that_is_outdated() {
    let mut rig = rig();
    let (here, there) = ringing(&mut rig);
    rig.act(1, |agent, now| agent.answer(now, there, b""));
    assert!(matches!(rig.expect(0), Event::Answered { .. }));
    rig.pass(Duration::from_secs(1));
    rig.act(0, |agent, now| agent.offer(now, here, HOLD.to_vec()));
    rig.act(1, |agent, now| agent.offer(now, there, b"v=0 two".to_vec()));
    assert!(matches!(rig.expect(0), Event::Offer { .. }));
    rig.act(0, |agent, now| agent.accept(now, here, b"v=0 both"));
    rig.act(0, |agent, now| agent.offer(now, here, b"v=0 three".to_vec()));
    assert!(matches!(rig.expect(1), Event::Answer { .. }));
    let offer = Some(b"v=0 three".to_vec());
    assert_eq!(rig.expect(1), Event::Offer { call: there, offer });
    rig.act(1, |agent, now| agent.accept(now, there, HELD));
    assert_eq!(rig.expect(0), Event::Answer { call: here, answer: HELD.to_vec() });
    rig.act(0, |agent, now| agent.hang_up(now, here));
    rig.finish();
}

#[test]
fn an_offer_under_way_when_the_call_is_answered_is_answered_after_it() {
    let mut rig = rig();
    let (here, there) = ringing(&mut rig);
    rig.act(0, |agent, now| agent.offer(now, here, HOLD.to_vec()));
    assert!(matches!(rig.expect(1), Event::Offer { .. }));
    rig.act(1, |agent, now| agent.answer(now, there, b""));
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.events(0), []);
    rig.act(1, |agent, now| agent.accept(now, there, HELD));
    assert_eq!(rig.expect(0), Event::Answer { call: here, answer: HELD.to_vec() });
    assert!(matches!(rig.expect(0), Event::Answered { .. }));
    rig.act(0, |agent, now| agent.hang_up(now, here));
    rig.finish();
}

const ALLOW: &str = "Allow: INVITE, ACK, BYE, CANCEL, PRACK, UPDATE\r\n";

/// Alice calls a stranger. The stranger has settled the session and supports UPDATE.
fn stranger_rings(rig: &mut Rig) -> (CallId, Vec<u8>) {
    let call = rig.call_uri(0, &format!("sip:{}", stranger()), SESSION);
    let invite = rig.mail(stranger(), "INVITE");
    let lines = format!("Require: 100rel\r\nRSeq: 1\r\n{ALLOW}");
    rig.reply((stranger(), 0), &invite, (183, "s"), &lines, "v=0");
    let prack = rig.mail(stranger(), "PRACK");
    rig.reply((stranger(), 0), &prack, (200, "s"), "", "");
    assert!(matches!(rig.expect(0), Event::Ringing { is_settled: true, .. }));
    rig.pass(Duration::from_millis(100));
    (call, invite)
}

/// Ends the established call with the stranger.
fn hang_up(rig: &mut Rig, call: CallId) {
    rig.act(0, |agent, now| agent.hang_up(now, call));
    let bye = rig.mail(stranger(), "BYE");
    rig.reply((stranger(), 0), &bye, (200, "s"), "", "");
    rig.finish();
}

#[test]
fn an_update_that_is_not_known_is_a_reinvite_once_the_call_stands() {
    for status in [405, 501] {
        let mut rig = rig();
        let (call, invite) = stranger_rings(&mut rig);
        rig.act(0, |agent, now| agent.offer(now, call, HOLD.to_vec()));
        let update = rig.mail(stranger(), "UPDATE");
        rig.reply((stranger(), 0), &update, (status, "s"), "", "");
        match rig.expect(0) {
            Event::OfferFailed { failure: Failure::Refused { status: of, .. }, .. } => {
                assert_eq!(of, status);
            }
            other => panic!("{other:?}"),
        }
        let again = rig.try_act(0, |agent, now| agent.offer(now, call, HOLD.to_vec()));
        assert!(matches!(again, Err(CallError::State(CallState::Settled))), "{again:?}");
        rig.reply((stranger(), 0), &invite, (200, "s"), "", "");
        assert!(matches!(rig.expect(0), Event::Answered { .. }));
        rig.act(0, |agent, now| agent.offer(now, call, HOLD.to_vec()));
        assert_eq!(rig.count(0, "INVITE"), 2);
        let again = rig.mail(stranger(), "INVITE");
        rig.reply((stranger(), 0), &again, (200, "s"), "", "v=0 held");
        assert_eq!(rig.expect(0), Event::Answer { call, answer: HELD.to_vec() });
        hang_up(&mut rig, call);
    }
}

#[test]
fn an_update_refused_after_the_answer_goes_on_as_a_reinvite() {
    let mut rig = rig();
    let (call, invite) = stranger_rings(&mut rig);
    rig.act(0, |agent, now| agent.offer(now, call, HOLD.to_vec()));
    let update = rig.mail(stranger(), "UPDATE");
    rig.reply((stranger(), 0), &invite, (200, "s"), "", "");
    assert!(matches!(rig.expect(0), Event::Answered { .. }));
    rig.reply((stranger(), 0), &update, (501, "s"), "", "");
    let again = rig.mail(stranger(), "INVITE");
    assert_eq!(body(&again), HOLD);
    rig.reply((stranger(), 0), &again, (200, "s"), "", "v=0 held");
    assert_eq!(rig.expect(0), Event::Answer { call, answer: HELD.to_vec() });
    hang_up(&mut rig, call);
}

/// Alice is in a call with the stranger.
fn stranger_answers(rig: &mut Rig, lines: &str) -> CallId {
    let call = rig.call_uri(0, &format!("sip:{}", stranger()), SESSION);
    let invite = rig.mail(stranger(), "INVITE");
    rig.reply((stranger(), 0), &invite, (200, "s"), lines, "v=0");
    assert!(matches!(rig.expect(0), Event::Answered { .. }));
    rig.mail(stranger(), "ACK");
    call
}

#[test]
fn a_change_that_comes_too_early_is_made_again_when_the_other_end_says_and_five_times_at_most() {
    let mut rig = rig();
    let call = stranger_answers(&mut rig, "");
    rig.act(0, |agent, now| agent.offer(now, call, HOLD.to_vec()));
    for time in 1..=5 {
        let begin = rig.now();
        let invite = rig.mail(stranger(), "INVITE");
        assert_eq!(body(&invite), HOLD);
        assert_eq!(value(&invite, HeaderName::CSeq), format!("{} INVITE", time + 1));
        if time > 1 {
            assert_eq!((rig.now() - begin).as_secs(), 7);
        }
        assert_eq!(rig.events(0), []);
        rig.reply((stranger(), 0), &invite, (500, "s"), "Retry-After: 7\r\n", "");
        rig.mail(stranger(), "ACK");
    }
    match rig.expect(0) {
        Event::OfferFailed { failure: Failure::Refused { status: 500, .. }, .. } => {}
        other => panic!("{other:?}"),
    }
    rig.pass(Duration::from_secs(60));
    assert_eq!(rig.count(0, "INVITE"), 6);
    hang_up(&mut rig, call);
}

#[test]
fn who_has_placed_the_call_waits_longer_after_a_491() {
    let mut rig = rig();
    let call = stranger_answers(&mut rig, "");
    rig.act(0, |agent, now| agent.offer(now, call, HOLD.to_vec()));
    let invite = rig.mail(stranger(), "INVITE");
    rig.reply((stranger(), 0), &invite, (491, "s"), "", "");
    rig.mail(stranger(), "ACK");
    let begin = rig.now();
    let invite = rig.mail(stranger(), "INVITE");
    let waited = (rig.now() - begin).as_millis();
    assert!((2000..4100).contains(&waited), "{waited} ms");
    rig.reply((stranger(), 0), &invite, (200, "s"), "", "v=0 held");
    assert_eq!(rig.expect(0), Event::Answer { call, answer: HELD.to_vec() });
    hang_up(&mut rig, call);
}

/// An established call of agents that pass requests on.
fn passing() -> (Rig, CallId, CallId) {
    let config = |user: &str| Config { user: user.into(), passes: true, ..Config::default() };
    let link = Link { delay: Duration::from_millis(5), ..Link::default() };
    let mut rig = Rig::new(1, link, &[config("alice"), config("bob")]);
    let here = rig.call(0, 1);
    let Event::Incoming { call: there, .. } = rig.expect(1) else { panic!("no call") };
    rig.act(1, |agent, now| agent.answer(now, there, SESSION));
    assert!(matches!(rig.expect(0), Event::Received { .. }));
    assert!(matches!(rig.expect(0), Event::Answered { .. }));
    rig.pass(Duration::from_secs(1));
    (rig, here, there)
}

/// Asserts that the last offer of `call` has failed with `status`.
fn assert_refused(event: Event, call: CallId, status: u16) {
    match event {
        Event::OfferFailed { call: of, failure: Failure::Refused { status: with, .. } } => {
            assert_eq!((of, with), (call, status));
        }
        other => panic!("{other:?}"),
    }
}

/// The message of [`Event::Received`].
fn received(event: Event) -> Vec<u8> {
    let Event::Received { message, .. } = event else { panic!("{event:?}") };
    message
}

/// A re-INVITE that waits for its answer gets a 100 after 200 ms (RFC 3261 section 17.2.1), so that
/// it may be cancelled (section 9.1).
#[test]
fn a_reinvite_without_an_answer_is_cancelled() {
    let (mut rig, here, there) = passing();
    for session in [HOLD, b""] {
        let offer = |agent: &mut Agent, now| match session {
            b"" => agent.ask_once(now, here, None, b""),
            _ => agent.offer_once(now, here, session.to_vec(), None, b""),
        };
        rig.act(0, offer);
        assert!(received(rig.expect(1)).starts_with(b"INVITE"));
        assert!(matches!(rig.expect(1), Event::Offer { .. }));
        for (wait, count) in [(199, 0), (1, 1), (60_000, 1)] {
            rig.pass(Duration::from_millis(wait));
            assert_eq!(rig.count(1, "SIP/2.0 100"), count);
        }
        rig.act(0, |agent, now| agent.cancel_offer(now, here));
        assert!(received(rig.expect(1)).starts_with(b"CANCEL"));
        assert_eq!(rig.expect(1), Event::OfferCancelled { call: there });
        assert!(received(rig.expect(0)).starts_with(b"SIP/2.0 487"));
        assert_refused(rig.expect(0), here, 487);
        let late = rig.try_act(1, |agent, now| agent.accept(now, there, HELD));
        assert_eq!(late, Err(CallError::State(CallState::OfferReceived)));
        rig.sent.clear();
    }
    // The next offer of either end is answered. A CANCEL after the answer has no effect.
    let cancel = rig.last(address(0), address(1), "CANCEL").to_vec();
    for (side, own, other) in [(0, here, there), (1, there, here)] {
        rig.act(side, |agent, now| agent.offer(now, own, HOLD.to_vec()));
        assert!(matches!(rig.expect(1 - side), Event::Received { .. }));
        assert!(matches!(rig.expect(1 - side), Event::Offer { .. }));
        rig.send(address(0), 1, &cancel);
        rig.pass(Duration::from_millis(20));
        rig.act(1 - side, |agent, now| agent.accept(now, other, HELD));
        assert!(matches!(rig.expect(side), Event::Received { .. }));
        assert_eq!(rig.expect(side), Event::Answer { call: own, answer: HELD.to_vec() });
        rig.pass(Duration::from_millis(20));
    }
    assert_eq!((rig.count(0, "SIP/2.0 100"), rig.count(1, "SIP/2.0 100")), (0, 0));
    let none = rig.try_act(0, |agent, now| agent.cancel_offer(now, here));
    assert_eq!(none, Err(CallError::State(CallState::OfferSent)));
    assert_eq!((rig.events(0), rig.events(1)), (vec![], vec![]));
    rig.act(0, |agent, now| agent.hang_up(now, here));
    rig.finish();
}

#[test]
fn an_offer_is_cancelled_after_a_provisional_response_and_not_repeated() {
    // The final response after the CANCEL, if any.
    for last in [Some(487), Some(491), Some(200), None] {
        let mut rig = rig();
        let call = stranger_answers(&mut rig, "");
        rig.act(0, |agent, now| agent.offer(now, call, HOLD.to_vec()));
        let invite = rig.mail(stranger(), "INVITE");
        rig.act(0, |agent, now| agent.cancel_offer(now, call));
        rig.pass(Duration::from_millis(100));
        assert_eq!(rig.count(0, "CANCEL"), 0);
        rig.reply((stranger(), 0), &invite, (100, "s"), "", "");
        let cancel = rig.mail(stranger(), "CANCEL");
        assert_eq!(value(&cancel, HeaderName::CSeq), "2 CANCEL");
        rig.reply((stranger(), 0), &cancel, (200, "s"), "", "");
        match last {
            Some(200) => {
                rig.reply((stranger(), 0), &invite, (200, "s"), "", "v=0 held");
                assert_eq!(rig.expect(0), Event::Answer { call, answer: HELD.to_vec() });
            }
            Some(status) => {
                rig.reply((stranger(), 0), &invite, (status, "s"), "", "");
                assert_refused(rig.expect(0), call, status);
            }
            None => assert_refused(rig.expect(0), call, 487),
        }
        rig.pass(Duration::from_secs(10));
        assert_eq!((rig.events(0), rig.count(0, "INVITE"), rig.calls(0)), (vec![], 2, 1));
        hang_up(&mut rig, call);
    }
}

/// RFC 3261 sections 14.2 (Retry-After), 20.44 (challenges) and 20.43 (Warning).
#[test]
fn a_refusal_of_an_offer_passes_with_its_header_fields() {
    let (mut rig, here, there) = passing();
    let refusals = [
        (500, "Retry-After: 7"),
        (488, "Warning: 304 example.com \"Media type not available\""),
        (407, "Proxy-Authenticate: Digest realm=\"r\", nonce=\"n\""),
    ];
    for (status, line) in refusals {
        let session = HOLD.to_vec();
        rig.act(0, |agent, now| agent.offer_once(now, here, session, None, b""));
        assert!(matches!(rig.expect(1), Event::Received { .. }));
        assert!(matches!(rig.expect(1), Event::Offer { .. }));
        let lines = format!("{line}\r\n");
        rig.act(1, |agent, now| agent.refuse_with(now, there, status, lines.as_bytes()));
        let refusal = String::from_utf8(received(rig.expect(0))).expect("text");
        assert!(refusal.lines().any(|of| of == line), "{refusal}");
        assert_refused(rig.expect(0), here, status);
        rig.pass(Duration::from_secs(1));
    }
    rig.act(0, |agent, now| agent.hang_up(now, here));
    rig.finish();
}
