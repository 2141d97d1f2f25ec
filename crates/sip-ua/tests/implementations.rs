//! Messages of other implementations.

mod rig;

use barebell_sip_ua::{Account, AccountId, Config, End, Event, RegistrationState};
use rig::{Rig, SESSION, address};
use sip::{Duration, HeaderName};
use std::net::SocketAddr;
use test_support::flow::{response, value};
use test_support::network::Link;

fn stranger() -> SocketAddr {
    ([198, 51, 100, 9], 5060).into()
}

fn rig(config: Config) -> Rig {
    Rig::new(1, Link::default(), &[config])
}

fn request(method: &str, kind: &str, lines: &str, body: &str) -> Vec<u8> {
    format!(
        "{method} sip:bob@{here} SIP/2.0\r\nVia: SIP/2.0/UDP {there};branch=z9hG4bK{length}{method}\r\n\
         From: <sip:s@x>;tag=s\r\nTo: <sip:bob@y>\r\nCall-ID: 1\r\nCSeq: 1 {method}\r\n\
         Max-Forwards: 70\r\nContact: <sip:s@{there}>\r\n{lines}Content-Type: {kind}\r\n\
         Content-Length: {length}\r\n\r\n{body}",
        here = address(0),
        there = stranger(),
        length = body.len()
    )
    .into_bytes()
}

#[test]
fn a_server_tells_of_messages_that_wait_and_other_notices_are_refused() {
    let mut rig = rig(Config::default());
    let kind = "application/simple-message-summary";
    let body = "Messages-Waiting: yes\r\nVoice-Message: 2/8\r\n";
    let summary = request("NOTIFY", kind, "Event: message-summary\r\n", body);
    rig.send(stranger(), 0, &summary);
    rig.mail(stranger(), "SIP/2.0 200");
    let expected =
        Event::MessagesWaiting { account: None, waiting: true, new: Some(2), old: Some(8) };
    assert_eq!(rig.expect(0), expected);
    rig.send(stranger(), 0, &request("NOTIFY", kind, "Event: presence\r\n", "x"));
    let refusal = rig.mail(stranger(), "SIP/2.0 489");
    let line = "\r\nAllow-Events: message-summary, refer\r\n";
    assert!(String::from_utf8_lossy(&refusal).contains(line));
    assert!(rig.events(0).is_empty());
}

#[test]
fn a_session_among_the_parts_of_a_body_is_an_offer() {
    let mut rig = rig(Config::default());
    let body = "--b\r\nContent-Type: application/isup\r\n\r\nx\r\n--b\r\n\
                Content-Type: application/sdp\r\n\r\nv=0\r\n\r\n--b--\r\n";
    rig.send(stranger(), 0, &request("INVITE", "multipart/mixed;boundary=b", "", body));
    let Event::Incoming { offer, .. } = rig.expect(0) else { panic!("no call") };
    assert_eq!(offer.as_deref(), Some(SESSION));
}

#[test]
fn a_caller_is_sent_elsewhere_by_a_contact() {
    let mut rig = rig(Config::default());
    rig.send(stranger(), 0, &request("INVITE", "application/sdp", "", "v=0\r\n"));
    let Event::Incoming { call, .. } = rig.expect(0) else { panic!("no call") };
    for wrong in ["sip:a@b>\r\nX: y", "mailto:a@b", ""] {
        assert!(rig.try_act(0, |agent, now| agent.redirect(now, call, wrong)).is_err());
    }
    rig.act(0, |agent, now| agent.redirect(now, call, "sip:carol@example.com"));
    let moved = rig.mail(stranger(), "SIP/2.0 302");
    assert_eq!(value(&moved, HeaderName::Contact), "<sip:carol@example.com>");
    assert_eq!(rig.expect(0), Event::Ended { call, end: End::Declined });
}

#[test]
fn the_expiry_of_our_only_binding_counts_though_its_address_was_rewritten() {
    let own = format!("sip:alice@{}", stranger());
    let other = "Contact: <sip:alice@203.0.113.7:1024>;expires=300\r\n";
    let two = format!("{other}Contact: <sip:alice@203.0.113.8>;expires=90\r\n");
    for (lines, seconds) in [(other, 300), (&two, 600)] {
        let mut rig = rig(Config { accounts: vec![Account::new(&own)], ..Config::default() });
        rig.act(0, |agent, now| {
            agent.register(now, AccountId(0));
            Ok(())
        });
        let register = rig.mail(stranger(), "REGISTER");
        rig.send(stranger(), 0, &response(&register, address(0), 200, "r", lines, ""));
        let expires = Duration::from_secs(seconds);
        let state = RegistrationState::Registered { expires };
        assert_eq!(rig.expect(0), Event::Registration { account: AccountId(0), state });
    }
}

#[test]
fn the_subject_in_a_uri_is_that_of_the_call_and_nothing_else_of_it() {
    for (headers, line) in [
        ("?X=y&subject=On%20time", Some("\r\nSubject: On time\r\n")),
        ("?Subject=a%0d%0aX:y", None),
        ("?Route=%3Csip:a%3E", None),
    ] {
        let mut rig = rig(Config::default());
        rig.call_uri(0, &format!("sip:bob@{}{headers}", stranger()), SESSION);
        let invite = String::from_utf8(rig.mail(stranger(), "INVITE")).expect("text");
        let named = ["Subject:", "X:", "Route:"].map(|name| invite.contains(&format!("\n{name}")));
        assert_eq!(named, [line.is_some(), false, false], "{invite}");
        assert!(line.is_none_or(|line| invite.contains(line)), "{invite}");
    }
}

#[test]
fn requests_outside_of_calls_are_answered_by_their_method() {
    let allow = "\r\nAllow: INVITE, ACK, CANCEL, BYE, OPTIONS, PRACK, UPDATE, INFO, MESSAGE, REFER, \
                 NOTIFY\r\n";
    for (method, status, has_allow) in [
        ("OPTIONS", 200, true),
        ("SUBSCRIBE", 405, true),
        ("REFER", 405, true),
        ("REGISTER", 405, true),
        ("BYE", 481, false),
        ("INFO", 481, false),
        ("UPDATE", 481, false),
        ("PRACK", 481, false),
        ("FOO", 501, false),
        ("MESSAGE", 415, false),
    ] {
        let mut rig = rig(Config::default());
        rig.send(stranger(), 0, &request(method, "text/html", "", "x"));
        let answer = rig.mail(stranger(), &format!("SIP/2.0 {status}"));
        let answer = String::from_utf8(answer).expect("text");
        assert_eq!(answer.contains(allow), has_allow, "{answer}");
        assert!(rig.events(0).is_empty(), "{method}");
    }
}

#[test]
fn strangers_reach_an_account_only_if_direct_calls_are_permitted() {
    for direct_calls in [false, true] {
        let accounts = vec![Account::new("sip:bob@example.org")];
        let config = Config { accounts, direct_calls, ..Config::default() };
        for (method, kind) in [("INVITE", "application/sdp"), ("MESSAGE", "text/plain")] {
            let mut rig = rig(config.clone());
            rig.send(stranger(), 0, &request(method, kind, "", "v=0\r\n"));
            if direct_calls {
                assert!(matches!(rig.expect(0), Event::Incoming { .. } | Event::Message { .. }));
            } else {
                rig.mail(stranger(), "SIP/2.0 403");
                assert!(rig.events(0).is_empty(), "{method}");
            }
        }
    }
}

/// A proxy on the path sends another offer after 488.
#[test]
fn another_offer_after_488_is_no_merged_invite() {
    let mut rig = rig(Config::default());
    rig.send(stranger(), 0, &request("INVITE", "application/sdp", "", "v=0\r\n"));
    let Event::Incoming { call, .. } = rig.expect(0) else { panic!("no call") };
    rig.act(0, |agent, now| agent.decline(now, call, 488));
    rig.mail(stranger(), "SIP/2.0 488");
    rig.events(0);
    rig.send(stranger(), 0, &request("INVITE", "application/sdp", "", "v=0\r\n\r\n"));
    let Event::Incoming { .. } = rig.expect(0) else { panic!("no call") };
}

#[test]
fn a_merged_invite_is_rejected() {
    let mut rig = rig(Config::default());
    // The branch depends on the body.
    rig.send(stranger(), 0, &request("INVITE", "application/sdp", "", "v=0\r\n"));
    let Event::Incoming { .. } = rig.expect(0) else { panic!("no call") };
    rig.send(stranger(), 0, &request("INVITE", "application/sdp", "", "v=0\r\n\r\n"));
    rig.mail(stranger(), "SIP/2.0 482");
    assert!(rig.events(0).is_empty());
}
