//! Changes within a call: hold, refused offers, crossing offers, refreshes, requests for an offer.

mod rig;

use rig::{Rig, session, without_origin};
use sip_ua::{CallId, Event, Failure};
use std::time::Duration;

/// Returns the version in the origin of a description.
fn version(description: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(description);
    let origin = text.lines().find(|line| line.starts_with("o=")).expect("an origin");
    origin.split(' ').nth(2).and_then(|version| version.parse().ok()).expect("a version")
}

fn offer_of(event: Event) -> Vec<u8> {
    let Event::Offer { offer: Some(offer), .. } = event else { panic!("{event:?}") };
    offer
}

fn answer_of(event: Event) -> Vec<u8> {
    let Event::Answer { answer, .. } = event else { panic!("{event:?}") };
    answer
}

#[test]
fn each_end_holds_and_resumes() {
    let mut rig = Rig::new(20, &Rig::phones(2));
    let (caller, callee) = rig.establish(0, 1);
    rig.pass(Duration::from_secs(1));
    let mut versions = Vec::new();
    for (from, to, call, other, direction, reply) in [
        (0, 1, caller, callee, "sendonly", "recvonly"),
        (0, 1, caller, callee, "sendrecv", "sendrecv"),
        (1, 0, callee, caller, "inactive", "inactive"),
        (1, 0, callee, caller, "sendrecv", "sendrecv"),
    ] {
        let offer = session(from, 4000, direction);
        rig.act(from, |phone, now| phone.offer(now, call, offer.clone()));
        let offered = offer_of(rig.expect_where(to, |event| matches!(event, Event::Offer { .. })));
        assert_eq!(without_origin(&offered), without_origin(&offer));
        let answer = session(to, 5000, reply);
        rig.act(to, |phone, now| phone.accept(now, other, &answer));
        let event = rig.expect_where(from, |event| matches!(event, Event::Answer { .. }));
        assert_eq!(without_origin(&answer_of(event)), without_origin(&answer));
        versions.push(version(&offered));
        rig.pass(Duration::from_secs(1));
    }
    assert_eq!(versions[1], versions[0] + 1);
    assert_eq!(versions[3], versions[2] + 1);
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.finish();
}

#[test]
fn a_refused_offer_leaves_the_session() {
    let mut rig = Rig::new(21, &Rig::phones(2));
    let (caller, callee) = rig.establish(0, 1);
    rig.pass(Duration::from_secs(1));
    rig.act(0, |phone, now| phone.offer(now, caller, session(0, 4002, "sendrecv")));
    rig.expect_where(1, |event| matches!(event, Event::Offer { .. }));
    rig.act(1, |phone, now| phone.refuse(now, callee, 488));
    let event = rig.expect_where(0, |event| matches!(event, Event::OfferFailed { .. }));
    let Event::OfferFailed { failure: Failure::Refused { status, .. }, .. } = event else {
        panic!("{event:?}")
    };
    assert_eq!((status, rig.b2bua().calls()), (488, 1));
    rig.act(1, |phone, now| phone.hang_up(now, callee));
    rig.finish();
}

#[test]
fn crossing_offers_are_made_one_after_the_other_and_no_party_waits() {
    for seed in 0..100 {
        let mut rig = Rig::new(seed, &Rig::phones(2));
        let (caller, callee) = rig.establish(0, 1);
        rig.pass(Duration::from_secs(1));
        let offers = [session(0, 4002, "sendonly"), session(1, 5002, "sendonly")];
        rig.act(0, |phone, now| phone.offer(now, caller, offers[0].clone()));
        rig.pass(Duration::from_millis(seed));
        // Later the offer of the other phone has arrived.
        let crosses = rig.phones[1].may_offer(callee);
        if crosses {
            rig.act(1, |phone, now| phone.offer(now, callee, offers[1].clone()));
        }
        let (mut answered, mut told) = (0, [false, !crosses]);
        let calls = [caller, callee];
        let end = rig.now() + sip::Duration::from_secs(60);
        while told != [true; 2] {
            assert!(rig.now() < end, "an offer is lost with seed {seed}");
            rig.pass(Duration::from_millis(10));
            for phone in 0..2 {
                for event in rig.events(phone) {
                    match event {
                        Event::Offer { .. } => {
                            let answer = session(phone, 4002, "recvonly");
                            rig.act(phone, |it, now| it.accept(now, calls[phone], &answer));
                        }
                        Event::Answer { .. } => {
                            answered += 1;
                            told[phone] = true;
                        }
                        // The offer of the other party was first.
                        Event::OfferDue { .. } => {
                            let offer = offers[phone].clone();
                            rig.act(phone, |it, now| it.offer(now, calls[phone], offer));
                        }
                        Event::OfferFailed { failure, .. } => {
                            assert_eq!(failure.status(), 491);
                            told[phone] = true;
                        }
                        _ => {}
                    }
                }
            }
        }
        assert!(answered >= 1, "no offer is answered with seed {seed}");
        rig.act(0, |phone, now| phone.hang_up(now, caller));
        rig.finish();
    }
}

#[test]
fn a_refresh_concerns_one_leg() {
    let mut rig = Rig::new(22, &Rig::phones(2));
    let (caller, _) = rig.establish(0, 1);
    rig.pass(Duration::from_secs(1));
    let invites = rig.count(1, "INVITE");
    rig.act(0, |phone, now| phone.offer(now, caller, session(0, 4000, "sendrecv")));
    rig.expect_where(0, |event| matches!(event, Event::Answer { .. }));
    assert_eq!(rig.count(1, "INVITE"), invites);
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.finish();
}

/// The phone offers its description again. It passes to the other phone or not, and the answer is
/// `expected`.
fn refresh(rig: &mut Rig, calls: [CallId; 2], phone: usize, passes: bool, expected: &[u8]) {
    let other = 1 - phone;
    let invites = rig.count(other, "INVITE");
    let offer = session(phone, if phone == 0 { 4000 } else { 5000 }, "sendrecv");
    rig.act(phone, |agent, now| agent.offer(now, calls[phone], offer.clone()));
    if passes {
        rig.expect_where(other, |event| matches!(event, Event::Offer { .. }));
        rig.act(other, |agent, now| agent.accept(now, calls[other], expected));
    }
    let event = rig.expect_where(phone, |event| matches!(event, Event::Answer { .. }));
    assert_eq!(without_origin(&answer_of(event)), without_origin(expected));
    assert_eq!(rig.count(other, "INVITE"), invites + usize::from(passes));
    rig.pass(Duration::from_secs(1));
}

#[test]
fn the_header_fields_of_a_refused_offer_pass() {
    let mut rig = Rig::new(26, &Rig::phones(2));
    let (caller, callee) = rig.establish(0, 1);
    rig.pass(Duration::from_secs(1));
    rig.act(0, |phone, now| phone.offer(now, caller, session(0, 4002, "sendrecv")));
    rig.expect_where(1, |event| matches!(event, Event::Offer { .. }));
    let lines = b"Retry-After: 7\r\nWarning: 305 p1 \"Incompatible media format\"\r\n";
    rig.act(1, |phone, now| phone.refuse_with(now, callee, 488, lines));
    rig.expect_where(0, |event| matches!(event, Event::OfferFailed { .. }));
    let refused = rig.last(0, "SIP/2.0 488");
    assert!(refused.contains(str::from_utf8(lines).unwrap()), "{refused}");
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.finish();
}

/// Each end challenges an offer of the other one (RFC 3261 section 22), and gets the credentials.
#[test]
fn an_offer_is_repeated_with_the_credentials_of_its_party() {
    let mut rig = Rig::new(28, &Rig::phones(2));
    let (caller, callee) = rig.establish(0, 1);
    rig.pass(Duration::from_secs(1));
    for (from, to, call, other) in [(0, 1, caller, callee), (1, 0, callee, caller)] {
        let offer = session(from, 4100, "sendrecv");
        rig.act(from, |phone, now| phone.offer_once(now, call, offer.clone(), None, b""));
        rig.expect_where(to, |event| matches!(event, Event::Offer { .. }));
        assert!(!rig.last(to, "INVITE").contains("Authorization"));
        let challenge = b"Proxy-Authenticate: Digest realm=\"two\", nonce=\"n\"\r\n";
        rig.act(to, |phone, now| phone.refuse_with(now, other, 407, challenge));
        rig.expect_where(from, |event| matches!(event, Event::OfferFailed { .. }));
        let refused = rig.last(from, "SIP/2.0 407");
        assert!(refused.contains(str::from_utf8(challenge).unwrap()), "{refused}");
        let lines = "Proxy-Authorization: Digest username=\"a\", realm=\"two\"\r\n";
        for is_request in [false, true] {
            rig.pass(Duration::from_secs(1));
            let offer = offer.clone();
            rig.act(from, |phone, now| match is_request {
                true => phone.ask_once(now, call, None, lines.as_bytes()),
                false => phone.offer_once(now, call, offer, None, lines.as_bytes()),
            });
            rig.expect_where(to, |event| matches!(event, Event::Offer { .. }));
            let invite = rig.last(to, "INVITE");
            assert!(invite.contains(lines), "{invite}");
            let description = session(to, 5100, "sendrecv");
            rig.act(to, |phone, now| phone.accept(now, other, &description));
            if is_request {
                rig.expect_where(from, |event| matches!(event, Event::Offer { .. }));
                let answer = session(from, 4100, "sendrecv");
                rig.act(from, |phone, now| phone.accept(now, call, &answer));
                rig.expect_where(to, |event| matches!(event, Event::Answer { .. }));
            } else {
                rig.expect_where(from, |event| matches!(event, Event::Answer { .. }));
            }
        }
        rig.pass(Duration::from_secs(1));
    }
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.finish();
}

#[test]
fn a_cancelled_offer_is_cancelled_at_the_other_end() {
    // The callee sends a 100, as the proxy in front of a phone does.
    let callee = sip_ua::Config { passes: true, ..sip_ua::Config::default() };
    let mut rig = Rig::new(27, &[sip_ua::Config::default(), callee]);
    let (caller, callee) = rig.establish(0, 1);
    rig.pass(Duration::from_secs(1));
    rig.act(0, |phone, now| phone.offer(now, caller, session(0, 4002, "sendrecv")));
    rig.expect_where(1, |event| matches!(event, Event::Offer { .. }));
    rig.act(0, |phone, now| phone.cancel_offer(now, caller));
    rig.expect_where(1, |event| matches!(event, Event::OfferCancelled { .. }));
    let event = rig.expect_where(0, |event| matches!(event, Event::OfferFailed { .. }));
    let Event::OfferFailed { failure, .. } = event else { panic!("{event:?}") };
    assert_eq!(failure.status(), 487);
    // Either end may make the next offer.
    rig.pass(Duration::from_secs(1));
    rig.act(1, |phone, now| phone.offer(now, callee, session(1, 5002, "sendonly")));
    rig.expect_where(0, |event| matches!(event, Event::Offer { .. }));
    rig.act(0, |phone, now| phone.accept(now, caller, &session(0, 4000, "recvonly")));
    rig.expect_where(1, |event| matches!(event, Event::Answer { .. }));
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.finish();
}

/// The callee refuses an offer, then refreshes the session, as does the caller.
#[test]
fn a_refused_offer_is_no_answer_to_a_refresh() {
    let mut rig = Rig::new(24, &Rig::phones(2));
    let (caller, callee) = rig.establish(0, 1);
    rig.pass(Duration::from_secs(1));
    rig.act(0, |phone, now| phone.offer(now, caller, session(0, 4002, "sendrecv")));
    rig.expect_where(1, |event| matches!(event, Event::Offer { .. }));
    rig.act(1, |phone, now| phone.refuse(now, callee, 488));
    rig.expect_where(0, |event| matches!(event, Event::OfferFailed { .. }));
    rig.pass(Duration::from_secs(1));
    let [first, second] = [session(0, 4000, "sendrecv"), session(1, 5000, "sendrecv")];
    refresh(&mut rig, [caller, callee], 0, false, &second);
    refresh(&mut rig, [caller, callee], 1, true, &first);
    refresh(&mut rig, [caller, callee], 1, false, &first);
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.finish();
}

/// The callee has declined a medium of the offer, and offers its description to refresh the
/// session.
#[test]
fn the_offer_to_a_phone_is_no_answer_to_its_refresh() {
    let mut rig = Rig::new(25, &Rig::phones(2));
    let video = |mut description: Vec<u8>, port: u16| {
        description.extend_from_slice(format!("m=video {port} RTP/AVP 96\r\n").as_bytes());
        description
    };
    let caller = rig.call(0, 1, &video(session(0, 4000, "sendrecv"), 4100));
    let callee = rig.expect_incoming(1);
    let answer = video(session(1, 5000, "sendrecv"), 0);
    rig.act(1, |phone, now| phone.answer(now, callee, &answer));
    rig.expect_where(0, |event| matches!(event, Event::Answered { .. }));
    rig.pass(Duration::from_secs(1));
    rig.act(1, |phone, now| phone.offer(now, callee, answer.clone()));
    let offered = offer_of(rig.expect_where(0, |event| matches!(event, Event::Offer { .. })));
    assert_eq!(without_origin(&offered), without_origin(&answer));
    let declined = video(session(0, 4000, "sendrecv"), 0);
    rig.act(0, |phone, now| phone.accept(now, caller, &declined));
    let event = rig.expect_where(1, |event| matches!(event, Event::Answer { .. }));
    assert_eq!(without_origin(&answer_of(event)), without_origin(&declined));
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.finish();
}

#[test]
fn session_timers_run_on_each_leg() {
    let expires = |seconds| sip_ua::Config {
        session_expires: Some(sip::Duration::from_secs(seconds)),
        ..sip_ua::Config::default()
    };
    let mut rig = Rig::new(23, &[expires(90), expires(1800)]);
    let (caller, _) = rig.establish(0, 1);
    rig.pass(Duration::from_secs(3600));
    assert_eq!(rig.b2bua().calls(), 1);
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.finish();
}

#[test]
fn a_phone_that_vanishes_ends_the_call_of_the_other() {
    let mut rig = Rig::new(24, &Rig::phones(2));
    rig.establish(0, 1);
    rig.pass(Duration::from_secs(1));
    rig.silence(0);
    rig.expect_where(1, |event| matches!(event, Event::Ended { .. }));
    rig.pass(Duration::from_secs(100));
    let b2bua = rig.b2bua();
    assert_eq!((b2bua.calls(), b2bua.remains()), (0, 0));
}

/// Puts the call on hold, for which no packet is expected.
fn hold(rig: &mut Rig, caller: CallId, callee: CallId) {
    rig.act(0, |phone, now| phone.offer(now, caller, session(0, 4002, "inactive")));
    rig.expect_where(1, |event| matches!(event, Event::Offer { .. }));
    rig.act(1, |phone, now| phone.accept(now, callee, &session(1, 5002, "inactive")));
    rig.expect_where(0, |event| matches!(event, Event::Answer { .. }));
}

#[test]
fn a_call_on_hold_ends_soon_after_both_phones_have_vanished() {
    let mut rig = Rig::new(28, &Rig::phones(2));
    let (caller, callee) = rig.establish(0, 1);
    rig.pass(Duration::from_secs(1));
    hold(&mut rig, caller, callee);
    rig.silence(0);
    rig.silence(1);
    rig.pass(Duration::from_secs(119));
    assert_eq!(rig.b2bua().calls(), 1);
    rig.pass(Duration::from_secs(40));
    assert_eq!(rig.b2bua().calls(), 0);
    rig.pass(Duration::from_secs(60));
    assert_eq!(rig.b2bua().remains(), 0);
}

#[test]
fn a_phone_on_hold_learns_that_the_other_one_has_vanished() {
    let mut rig = Rig::new(29, &Rig::phones(2));
    let (caller, callee) = rig.establish(0, 1);
    rig.pass(Duration::from_secs(1));
    hold(&mut rig, caller, callee);
    // Both answer the checks.
    rig.pass(Duration::from_secs(800));
    assert_eq!((rig.b2bua().calls(), rig.count(0, "OPTIONS"), rig.count(1, "OPTIONS")), (1, 6, 6));
    rig.silence(0);
    rig.expect_where(1, |event| matches!(event, Event::Ended { .. }));
    assert!(rig.last(1, "BYE").contains("Reason: SIP;cause=408\r\n"), "{}", rig.last(1, "BYE"));
    rig.pass(Duration::from_secs(100));
    let b2bua = rig.b2bua();
    assert_eq!((b2bua.calls(), b2bua.remains()), (0, 0));
}

/// The caller asks for an offer.
fn ask(rig: &mut Rig, phone: usize, call: CallId) {
    rig.act(phone, |phone, now| phone.offer(now, call, Vec::new()));
}

#[test]
fn an_end_that_asks_gets_the_offer_of_the_other_end_and_answers_it() {
    let mut rig = Rig::new(25, &Rig::phones(2));
    let (caller, callee) = rig.establish(0, 1);
    rig.pass(Duration::from_secs(1));
    for (from, to, asking, other) in [(0, 1, caller, callee), (1, 0, callee, caller)] {
        ask(&mut rig, from, asking);
        let event = rig.expect_where(to, |event| matches!(event, Event::Offer { .. }));
        assert!(matches!(event, Event::Offer { offer: None, .. }), "{event:?}");
        let offer = session(to, 7002, "sendrecv");
        rig.act(to, |phone, now| phone.accept(now, other, &offer));
        let offered =
            offer_of(rig.expect_where(from, |event| matches!(event, Event::Offer { .. })));
        assert_eq!(without_origin(&offered), without_origin(&offer));
        let answer = session(from, 7102, "recvonly");
        rig.act(from, |phone, now| phone.accept(now, asking, &answer));
        let event = rig.expect_where(to, |event| matches!(event, Event::Answer { .. }));
        assert_eq!(without_origin(&answer_of(event)), without_origin(&answer));
        assert!(rig.last(to, "ACK").contains("m=audio 7102 "), "the answer is in the ACK");
        rig.pass(Duration::from_secs(1));
    }
    // Both sessions are known afterwards.
    rig.act(0, |phone, now| phone.offer(now, caller, session(0, 4002, "sendrecv")));
    offer_of(rig.expect_where(1, |event| matches!(event, Event::Offer { .. })));
    rig.act(1, |phone, now| phone.accept(now, callee, &session(1, 5002, "sendrecv")));
    rig.expect_where(0, |event| matches!(event, Event::Answer { .. }));
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.finish();
}

#[test]
fn a_refused_request_for_an_offer_leaves_the_session() {
    let mut rig = Rig::new(26, &Rig::phones(2));
    let (caller, callee) = rig.establish(0, 1);
    rig.pass(Duration::from_secs(1));
    ask(&mut rig, 0, caller);
    rig.expect_where(1, |event| matches!(event, Event::Offer { offer: None, .. }));
    rig.act(1, |phone, now| phone.refuse(now, callee, 488));
    let event = rig.expect_where(0, |event| matches!(event, Event::OfferFailed { .. }));
    let Event::OfferFailed { failure, .. } = event else { panic!("{event:?}") };
    assert_eq!((failure.status(), rig.b2bua().calls()), (488, 1));
    // An offer of the other end is no answer to that request.
    rig.act(1, |phone, now| phone.offer(now, callee, session(1, 5002, "sendrecv")));
    offer_of(rig.expect_where(0, |event| matches!(event, Event::Offer { .. })));
    rig.act(0, |phone, now| phone.accept(now, caller, &session(0, 4002, "sendrecv")));
    rig.expect_where(1, |event| matches!(event, Event::Answer { .. }));
    rig.act(1, |phone, now| phone.hang_up(now, callee));
    rig.finish();
}

#[test]
fn crossing_requests_for_offers_are_answered_in_turn() {
    for seed in 0..100 {
        let mut rig = Rig::new(seed, &Rig::phones(2));
        let (caller, callee) = rig.establish(0, 1);
        rig.pass(Duration::from_secs(1));
        ask(&mut rig, 0, caller);
        rig.pass(Duration::from_millis(seed));
        if rig.phones[1].may_offer(callee) {
            ask(&mut rig, 1, callee);
        }
        let calls = [caller, callee];
        let mut offers = 0;
        for _ in 0..2000 {
            rig.pass(Duration::from_millis(10));
            for (phone, &call) in calls.iter().enumerate() {
                for event in rig.events(phone) {
                    let Event::Offer { offer, .. } = event else { continue };
                    offers += usize::from(offer.is_some());
                    let description = session(phone, 4002, "sendrecv");
                    rig.act(phone, |it, now| it.accept(now, call, &description));
                }
            }
        }
        assert!(offers >= 1, "no request is answered with seed {seed}");
        for (phone, call) in calls.into_iter().enumerate() {
            assert!(rig.phones[phone].may_offer(call), "phone {phone} waits with seed {seed}");
        }
        rig.act(0, |phone, now| phone.hang_up(now, caller));
        rig.finish();
    }
}

#[test]
fn an_end_that_vanishes_after_its_request_for_an_offer_ends_the_call() {
    let mut rig = Rig::new(27, &Rig::phones(2));
    let (caller, callee) = rig.establish(0, 1);
    rig.pass(Duration::from_secs(1));
    ask(&mut rig, 0, caller);
    rig.expect_where(1, |event| matches!(event, Event::Offer { offer: None, .. }));
    rig.silence(0);
    rig.act(1, |phone, now| phone.accept(now, callee, &session(1, 5002, "sendrecv")));
    rig.expect_where(1, |event| matches!(event, Event::Ended { .. }));
    rig.pass(Duration::from_secs(100));
    let b2bua = rig.b2bua();
    assert_eq!((b2bua.calls(), b2bua.remains()), (0, 0));
}
