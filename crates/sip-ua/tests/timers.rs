//! Session timers (RFC 4028): calls are refreshed, and end without a refresh.

mod rig;

use barebell_sip_ua::{CallId, Config, End, Event, Failure};
use rig::{Rig, SESSION, address};
use sip::{Duration as Span, HeaderName};
use std::net::SocketAddr;
use std::time::Duration;
use test_support::flow::{body, value};
use test_support::network::Link;

fn stranger() -> SocketAddr {
    ([192, 0, 2, 100], 5060).into()
}

fn config(user: &str, expires: Option<u64>, min_se: u64) -> Config {
    Config {
        user: user.into(),
        session_expires: expires.map(Span::from_secs),
        min_se: Span::from_secs(min_se),
        ..Config::default()
    }
}

fn rig(alice: (Option<u64>, u64), bob: (Option<u64>, u64)) -> Rig {
    let link = Link { delay: Duration::from_millis(5), ..Link::default() };
    Rig::new(1, link, &[config("alice", alice.0, alice.1), config("bob", bob.0, bob.1)])
}

fn usual() -> Rig {
    rig((Some(200), 90), (Some(100), 90))
}

fn talking(rig: &mut Rig) -> (CallId, CallId) {
    let here = rig.call(0, 1);
    let there = match rig.expect(1) {
        Event::Incoming { call, .. } => call,
        other => panic!("{other:?}"),
    };
    rig.act(1, |agent, now| agent.answer(now, there, SESSION));
    assert!(matches!(rig.expect(0), Event::Answered { .. }));
    (here, there)
}

#[test]
fn the_caller_refreshes_by_update_after_half_of_the_shorter_time() {
    let mut rig = usual();
    let (here, _) = talking(&mut rig);
    rig.pass(Duration::from_secs(1000));
    assert_eq!((rig.count(0, "UPDATE"), rig.count(1, "UPDATE")), (19, 0));
    assert_eq!((rig.events(0), rig.events(1)), (vec![], vec![]));
    rig.act(0, |agent, now| agent.hang_up(now, here));
    rig.finish();
}

#[test]
fn nothing_is_refreshed_where_nobody_wants_it() {
    let mut rig = rig((None, 90), (None, 90));
    let (here, _) = talking(&mut rig);
    rig.pass(Duration::from_secs(10_000));
    assert_eq!((rig.count(0, "UPDATE"), rig.count(1, "UPDATE")), (0, 0));
    rig.act(0, |agent, now| agent.hang_up(now, here));
    rig.finish();
}

#[test]
fn who_alone_knows_of_timers_refreshes() {
    for side in [0, 1] {
        let one = (Some(100), 90);
        let mut rig = if side == 0 { rig(one, (None, 90)) } else { rig((None, 90), one) };
        let (here, _) = talking(&mut rig);
        rig.pass(Duration::from_secs(120));
        assert_eq!((rig.count(side, "UPDATE"), rig.count(1 - side, "UPDATE")), (2, 0));
        rig.act(0, |agent, now| agent.hang_up(now, here));
        rig.finish();
    }
}

#[test]
fn a_call_that_lost_the_other_end_is_over_at_both_sides() {
    let mut rig = usual();
    let (here, there) = talking(&mut rig);
    rig.pass(Duration::from_secs(10));
    rig.set_link(Link { loss: 1000, ..Link::default() });
    let mut ends = [rig.expect_any(), rig.expect_any()];
    ends.sort_by_key(|(side, _)| *side);
    let end = |call| Event::Ended { call, end: End::Failed(Failure::TimedOut) };
    assert_eq!(ends, [(0, end(here)), (1, end(there))]);
    // At 100 s minus 32 s, while the refresh at half of the interval gets no response.
    assert_eq!(rig.now().as_secs(), 68);
    rig.finish();
}

#[test]
fn an_invite_that_asks_for_less_than_is_wanted_is_made_again_with_more() {
    let mut rig = rig((Some(100), 90), (Some(1800), 300));
    let (here, _) = talking(&mut rig);
    assert_eq!((rig.count(1, "SIP/2.0 422"), rig.count(0, "INVITE")), (1, 2));
    rig.pass(Duration::from_secs(310));
    assert_eq!(rig.count(0, "UPDATE"), 2);
    rig.act(0, |agent, now| agent.hang_up(now, here));
    rig.finish();
}

#[test]
fn more_and_more_time_is_not_asked_for_without_end() {
    let mut rig = usual();
    let call = rig.call_uri(0, &format!("sip:{}", stranger()), SESSION);
    for time in 1..=5 {
        let invite = rig.mail(stranger(), "INVITE");
        assert_eq!(value(&invite, HeaderName::CSeq), format!("{time} INVITE"));
        if time > 1 {
            let asked = (200 + time - 1).to_string();
            assert_eq!(value(&invite, HeaderName::SessionExpires), asked);
            assert_eq!(value(&invite, HeaderName::MinSe), asked);
        }
        let lines = format!("Min-SE: {}\r\n", 200 + time);
        rig.reply((stranger(), 0), &invite, (422, "s"), &lines, "");
    }
    match rig.expect(0) {
        Event::Ended { call: of, end: End::Failed(Failure::Refused { status: 422, .. }) } => {
            assert_eq!(of, call);
        }
        other => panic!("{other:?}"),
    }
    rig.finish();
}

/// Alice is in a call with the stranger.
fn stranger_answers(rig: &mut Rig, lines: &str) -> CallId {
    let call = rig.call_uri(0, &format!("sip:{}", stranger()), SESSION);
    let invite = rig.mail(stranger(), "INVITE");
    assert_eq!(value(&invite, HeaderName::SessionExpires), "200");
    rig.reply((stranger(), 0), &invite, (200, "s"), lines, "v=0 theirs");
    assert!(matches!(rig.expect(0), Event::Answered { .. }));
    rig.mail(stranger(), "ACK");
    call
}

fn hang_up(rig: &mut Rig, call: CallId) {
    rig.act(0, |agent, now| agent.hang_up(now, call));
    let bye = rig.mail(stranger(), "BYE");
    rig.reply((stranger(), 0), &bye, (200, "s"), "", "");
    rig.finish();
}

#[test]
fn where_update_is_not_taken_the_description_is_offered_unchanged() {
    for allow in ["Allow: INVITE, ACK, BYE\r\n", "Allow: INVITE, ACK, BYE, UPDATE\r\n"] {
        let mut rig = usual();
        let lines = format!("Session-Expires: 100;refresher=uac\r\nRequire: timer\r\n{allow}");
        let call = stranger_answers(&mut rig, &lines);
        if allow.contains("UPDATE") {
            let update = rig.mail(stranger(), "UPDATE");
            assert_eq!(body(&update), b"");
            rig.reply((stranger(), 0), &update, (501, "s"), "", "");
        }
        for session in ["v=0 theirs", "v=0 moved"] {
            let invite = rig.mail(stranger(), "INVITE");
            assert_eq!(value(&invite, HeaderName::SessionExpires), "100;refresher=uac");
            assert_eq!(body(&invite), SESSION);
            let lines = "Session-Expires: 100;refresher=uac\r\n";
            rig.reply((stranger(), 0), &invite, (200, "s"), lines, session);
            rig.mail(stranger(), "ACK");
        }
        // Only a change is reported.
        assert_eq!(rig.events(0), [Event::Answer { call, answer: b"v=0 moved".to_vec() }]);
        hang_up(&mut rig, call);
    }
}

#[test]
fn a_call_that_the_other_end_does_not_refresh_is_hung_up() {
    let mut rig = usual();
    let call = stranger_answers(&mut rig, "Session-Expires: 90;refresher=uas\r\n");
    let begin = rig.now();
    assert_eq!(rig.expect(0), Event::Ended { call, end: End::Failed(Failure::TimedOut) });
    // At 90 s minus a third.
    assert_eq!((rig.now() - begin).as_secs(), 59);
    let bye = rig.mail(stranger(), "BYE");
    rig.reply((stranger(), 0), &bye, (200, "s"), "", "");
    rig.finish();
}

#[test]
fn a_refresh_that_finds_no_call_ends_it_and_another_refusal_does_not() {
    for status in [408, 481] {
        let mut rig = usual();
        let call = stranger_answers(&mut rig, "Allow: UPDATE\r\nSession-Expires: 100\r\n");
        let update = rig.mail(stranger(), "UPDATE");
        rig.reply((stranger(), 0), &update, (status, "s"), "", "");
        match rig.expect(0) {
            Event::Ended { call: of, end: End::Failed(Failure::Refused { status: found, .. }) } => {
                assert_eq!((of, found), (call, status));
            }
            other => panic!("{other:?}"),
        }
        let bye = rig.mail(stranger(), "BYE");
        rig.reply((stranger(), 0), &bye, (481, "s"), "", "");
        rig.finish();
    }
    for (status, lines) in [(500, ""), (491, ""), (422, "Min-SE: 300\r\n")] {
        let mut rig = usual();
        let call = stranger_answers(&mut rig, "Allow: UPDATE\r\nSession-Expires: 100\r\n");
        let update = rig.mail(stranger(), "UPDATE");
        rig.reply((stranger(), 0), &update, (status, "s"), lines, "");
        let update = rig.mail(stranger(), "UPDATE");
        let expires = if status == 422 { "300" } else { "100" };
        let expires = format!("{expires};refresher=uac");
        assert_eq!(value(&update, HeaderName::SessionExpires), expires);
        let lines = format!("Session-Expires: {expires}\r\n");
        rig.reply((stranger(), 0), &update, (200, "s"), &lines, "");
        rig.pass(Duration::from_secs(49));
        assert_eq!(rig.events(0), []);
        hang_up(&mut rig, call);
    }
}

fn invite(lines: &str) -> String {
    let (place, to) = (stranger(), address(1));
    format!(
        "INVITE sip:bob@{to} SIP/2.0\r\nVia: SIP/2.0/UDP {place};branch=z9hG4bKi\r\n\
         Max-Forwards: 70\r\nFrom: <sip:carol@{place}>;tag=c\r\nTo: <sip:bob@{to}>\r\n\
         Call-ID: x@y\r\nCSeq: 1 INVITE\r\nContact: <sip:carol@{place}>\r\n{lines}\
         Content-Type: application/sdp\r\nContent-Length: 3\r\n\r\nv=0"
    )
}

#[test]
fn the_callee_agrees_as_the_caller_asks() {
    for (asked, expected, required) in [
        // A sender without support for timers does not refresh, and gets no other interval.
        ("", "100;refresher=uas", ""),
        ("Session-Expires: 60\r\n", "60;refresher=uas", ""),
        ("Supported: timer\r\n", "100;refresher=uac", "timer"),
        ("k: timer\r\nx: 200\r\n", "100;refresher=uac", "timer"),
        ("Supported: timer\r\nSession-Expires: 95\r\n", "95;refresher=uac", "timer"),
        ("Supported: timer\r\nSession-Expires: 200;refresher=uas\r\n", "100;refresher=uas", ""),
        ("Require: timer\r\nSession-Expires: 200\r\nMin-SE: 150\r\n", "150;refresher=uac", "timer"),
    ] {
        let mut rig = usual();
        rig.send(stranger(), 1, invite(asked).as_bytes());
        let Event::Incoming { call, .. } = rig.expect(1) else { panic!("no call") };
        rig.act(1, |agent, now| agent.answer(now, call, SESSION));
        let answer = rig.mail(stranger(), "SIP/2.0 200");
        assert_eq!(value(&answer, HeaderName::SessionExpires), expected, "{asked}");
        assert_eq!(value(&answer, HeaderName::Require), required, "{asked}");
    }
}

#[test]
fn less_time_than_is_wanted_is_refused_and_timers_that_are_off_cannot_be_required() {
    for (bob, asked, status) in [
        ((Some(100), 90), "Supported: timer\r\nSession-Expires: 89\r\n", "SIP/2.0 422"),
        ((None, 90), "Require: timer\r\nSession-Expires: 89\r\n", "SIP/2.0 420"),
    ] {
        let mut rig = rig((None, 90), bob);
        rig.send(stranger(), 1, invite(asked).as_bytes());
        let refused = rig.mail(stranger(), status);
        if status.ends_with("422") {
            assert_eq!(value(&refused, HeaderName::MinSe), "90");
        }
        assert_eq!(rig.events(1), []);
    }
}
