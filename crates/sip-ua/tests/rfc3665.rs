//! The flows of RFC 3665 section 3, as far as agents and simple proxies show them. That of an ALG
//! (3.5) is not among them: it changes session descriptions, which are none of the engine's
//! business.

mod rig;

use rig::proxy::Proxy;
use rig::stranger::{response, value};
use rig::{Rig, SESSION, address};
use sip::HeaderName;
use sip_ua::{Account, AccountId, CallId, Config, End, Event, Failure, Password};
use std::net::SocketAddr;
use std::time::Duration;
use test_support::network::Link;

fn proxy(number: u8) -> SocketAddr {
    ([192, 0, 2, 50 + number], 5060).into()
}

/// Alice, whose account goes by the first proxy, and bob, who is behind the second.
fn rig() -> Rig {
    let account = Account {
        password: Some(Password::new("secret")),
        proxy: Some(format!("sip:{};lr", proxy(1))),
        ..Account::new("sip:alice@example.com")
    };
    let alice = Config { accounts: vec![account], ..Config::default() };
    let bob = Config { user: "bob".into(), ..Config::default() };
    let link = Link { delay: Duration::from_millis(5), ..Link::default() };
    Rig::new(1, link, &[alice, bob])
}

fn with_proxies() -> Rig {
    let mut rig = rig();
    rig.add_proxy(Proxy { address: proxy(1), targets: Vec::new(), stands_for: None });
    rig.add_proxy(Proxy { address: proxy(2), targets: vec![address(1)], stands_for: None });
    rig
}

/// Alice calls bob by both proxies.
fn place(rig: &mut Rig) -> CallId {
    let uri = format!("sip:bob@{}", proxy(2));
    let session = SESSION.to_vec();
    rig.act(0, |agent, now| agent.call(now, Some(AccountId(0)), &uri, session))
}

fn incoming(rig: &mut Rig) -> CallId {
    match rig.expect(1) {
        Event::Incoming { call, .. } => call,
        other => panic!("{other:?}"),
    }
}

/// Bob rings, answers and hangs up.
fn talk(rig: &mut Rig, here: CallId) {
    let there = incoming(rig);
    rig.act(1, |agent, now| agent.ring(now, there, b""));
    assert!(matches!(rig.expect(0), Event::Ringing { status: 180, .. }));
    rig.act(1, |agent, now| agent.answer(now, there, SESSION));
    assert_eq!(rig.expect(0), Event::Answered { call: here, session: Some(SESSION.to_vec()) });
    rig.pass(Duration::from_secs(1));
    assert_eq!((rig.count(0, "ACK"), rig.count(1, "SIP/2.0 200")), (1, 1));
    rig.act(1, |agent, now| agent.hang_up(now, there));
    let end = End::HungUpByPeer { reason: String::new() };
    assert_eq!(rig.expect(0), Event::Ended { call: here, end });
    rig.finish();
    assert_eq!((rig.count(1, "BYE"), rig.count(0, "SIP/2.0 200")), (1, 1));
}

fn refused(rig: &mut Rig, here: CallId, expected: u16) {
    match rig.expect(0) {
        Event::Ended { call, end: End::Failed(Failure::Refused { status, .. }) } => {
            assert_eq!((call, status), (here, expected));
        }
        other => panic!("{other:?}"),
    }
    rig.finish();
    assert_eq!(rig.count(0, "ACK"), 1);
}

#[test]
fn flow_3_1_a_call_from_phone_to_phone() {
    let mut rig = rig();
    let call = rig.call(0, 1);
    talk(&mut rig, call);
}

#[test]
fn flow_3_2_a_call_by_two_proxies() {
    let mut rig = with_proxies();
    let call = place(&mut rig);
    talk(&mut rig, call);
    // They stay in the way.
    let to_alice = format!("BYE sip:alice@{} ", address(0));
    assert_eq!(rig.count(1, &to_alice), 1);
}

#[test]
fn flow_3_3_the_proxy_of_the_account_gets_credentials_and_one_behind_it_none_of_them() {
    let mut rig = rig();
    let call = place(&mut rig);
    let invite = rig.mail(proxy(1), "INVITE");
    let challenge = |realm: &str| {
        format!("Proxy-Authenticate: Digest realm=\"{realm}\", nonce=\"n\", qop=\"auth\"\r\n")
    };
    let asks = response(&invite, address(0), 407, "p", &challenge("one"), "");
    rig.send(proxy(1), 0, &asks);
    rig.mail(proxy(1), "ACK");
    let invite = rig.mail(proxy(1), "INVITE");
    assert_eq!(value(&invite, HeaderName::CSeq), "2 INVITE");
    assert!(value(&invite, HeaderName::ProxyAuthorization).contains("realm=\"one\""));
    let asks = response(&invite, address(0), 407, "q", &challenge("two"), "");
    rig.send(proxy(1), 0, &asks);
    let failure = Failure::Unauthorized { realm: "two".to_owned() };
    assert_eq!(rig.expect(0), Event::Ended { call, end: End::Failed(failure) });
    rig.finish();
}

#[test]
fn flow_3_4_a_call_by_another_proxy_where_the_first_is_silent() {
    let mut rig = rig();
    rig.backups = vec![proxy(2)];
    let targets = vec![address(1)];
    rig.add_proxy(Proxy { address: proxy(2), targets, stands_for: Some(proxy(1)) });
    let call = place(&mut rig);
    let there = incoming(&mut rig);
    assert_eq!(rig.now().as_secs(), 32);
    rig.act(1, |agent, now| agent.answer(now, there, SESSION));
    assert!(matches!(rig.expect(0), Event::Answered { .. }));
    rig.act(0, |agent, now| agent.hang_up(now, call));
    rig.finish();
}

#[test]
fn flow_3_6_a_call_that_is_sent_elsewhere_and_answers_the_offer_by_ack() {
    let mut rig = with_proxies();
    let redirect = ([192, 0, 2, 60], 5060).into();
    rig.redirect(redirect, &format!("<sip:bob@{}>", proxy(2)));
    let call = rig.call_uri(0, &format!("sip:bob@{redirect}"), b"");
    let to = format!("sip:bob@{}", proxy(2));
    assert_eq!(rig.expect(0), Event::Redirected { call, to });
    let there = incoming(&mut rig);
    rig.act(1, |agent, now| agent.answer(now, there, b"v=0 offer"));
    assert_eq!(rig.expect(0), Event::Answered { call, session: None });
    let offer = Some(b"v=0 offer".to_vec());
    assert_eq!(rig.expect(0), Event::Offer { call, offer });
    rig.act(0, |agent, now| agent.accept(now, call, SESSION));
    assert_eq!(rig.expect(1), Event::Answer { call: there, answer: SESSION.to_vec() });
    rig.act(1, |agent, now| agent.hang_up(now, there));
    rig.finish();
    // To the redirect server, and to bob.
    assert_eq!(rig.count(0, "ACK"), 2);
}

#[test]
fn flow_3_7_a_call_whose_callee_gets_another_address() {
    let mut rig = rig();
    let here = rig.call(0, 1);
    let there = incoming(&mut rig);
    rig.act(1, |agent, now| agent.answer(now, there, SESSION));
    assert!(matches!(rig.expect(0), Event::Answered { .. }));
    rig.pass(Duration::from_secs(1));
    rig.move_to(1, ([198, 51, 100, 7], 5060).into());
    assert_eq!(rig.expect(1), Event::Moved { call: there });
    rig.act(1, |agent, now| agent.offer(now, there, b"v=0 moved".to_vec()));
    let offer = Some(b"v=0 moved".to_vec());
    assert_eq!(rig.expect(0), Event::Offer { call: here, offer });
    rig.act(0, |agent, now| agent.accept(now, here, SESSION));
    assert!(matches!(rig.expect(1), Event::Answer { .. }));
    rig.act(0, |agent, now| agent.hang_up(now, here));
    assert!(matches!(rig.expect(1), Event::Ended { .. }));
    rig.finish();
    assert_eq!(rig.count(0, "BYE sip:bob@198.51.100.7:5060 "), 1);
}

#[test]
fn flow_3_8_a_call_that_nobody_answers_is_taken_back() {
    let mut rig = with_proxies();
    let here = place(&mut rig);
    let there = incoming(&mut rig);
    rig.act(1, |agent, now| agent.ring(now, there, b""));
    assert!(matches!(rig.expect(0), Event::Ringing { .. }));
    rig.act(0, |agent, now| agent.hang_up(now, here));
    assert_eq!(rig.expect(0), Event::Ended { call: here, end: End::HungUp });
    let end = End::Cancelled { reason: String::new() };
    assert_eq!(rig.expect(1), Event::Ended { call: there, end });
    rig.finish();
    assert_eq!(
        (rig.count(0, "CANCEL"), rig.count(1, "SIP/2.0 487"), rig.count(0, "ACK")),
        (1, 1, 1)
    );
}

#[test]
fn flow_3_9_a_call_to_somebody_who_is_busy() {
    let mut rig = with_proxies();
    let here = place(&mut rig);
    let there = incoming(&mut rig);
    rig.act(1, |agent, now| agent.decline(now, there, 486));
    refused(&mut rig, here, 486);
}

#[test]
fn flow_3_10_a_call_to_somebody_who_is_not_there() {
    let mut rig = rig();
    // Nobody is behind the proxy, and it waits for nobody: the caller does.
    rig.add_proxy(Proxy { address: proxy(1), targets: Vec::new(), stands_for: None });
    let call = place(&mut rig);
    assert_eq!(rig.expect(0), Event::Ended { call, end: End::Failed(Failure::TimedOut) });
    rig.finish();
    assert_eq!(rig.count(0, "INVITE"), 7);
}

#[test]
fn flow_3_11_a_call_to_somebody_who_is_not_available() {
    let mut rig = with_proxies();
    let here = place(&mut rig);
    let there = incoming(&mut rig);
    rig.act(1, |agent, now| agent.ring(now, there, b""));
    assert!(matches!(rig.expect(0), Event::Ringing { .. }));
    rig.act(1, |agent, now| agent.decline(now, there, 480));
    refused(&mut rig, here, 480);
}
