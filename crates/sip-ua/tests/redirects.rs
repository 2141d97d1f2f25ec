//! Redirected calls (RFC 3261 section 8.1.3.4).

mod rig;

use barebell_sip_ua::{Account, AccountId, CallId, Config, End, Event, Failure, Password};
use rig::{Rig, SESSION, address};
use sip::HeaderName;
use std::net::SocketAddr;
use std::time::Duration;
use test_support::flow::value;
use test_support::network::Link;

/// The address of a stranger, which is not an agent.
fn stranger(number: u8) -> SocketAddr {
    ([192, 0, 2, 100 + number], 5060).into()
}

fn rig(redirects: usize) -> Rig {
    let configs =
        ["alice", "bob"].map(|user| Config { user: user.into(), redirects, ..Config::default() });
    Rig::new(1, Link { delay: Duration::from_millis(5), ..Link::default() }, &configs)
}

/// Alice calls the first stranger.
fn place(rig: &mut Rig) -> CallId {
    rig.call_uri(0, &format!("sip:{}", stranger(0)), SESSION)
}

/// Stranger `number` receives an INVITE and answers it with `status` and the Contacts `contacts`.
fn send_elsewhere(rig: &mut Rig, number: u8, status: u16, contacts: &str) -> Vec<u8> {
    let at = stranger(number);
    let invite = rig.mail(at, "INVITE");
    let lines =
        if contacts.is_empty() { String::new() } else { format!("Contact: {contacts}\r\n") };
    let bytes = test_support::flow::response(&invite, address(0), status, "s", &lines, "");
    rig.send(at, 0, &bytes);
    rig.mail(at, "ACK");
    invite
}

fn redirected(call: CallId, to: &str) -> Event {
    Event::Redirected { call, to: to.to_owned() }
}

fn refused(rig: &mut Rig, call: CallId, expected: u16) {
    match rig.expect(0) {
        Event::Ended { call: of, end: End::Failed(Failure::Refused { status, .. }) } => {
            assert_eq!((of, status), (call, expected));
        }
        other => panic!("{other:?}"),
    }
    rig.finish();
}

#[test]
fn a_call_goes_to_the_preferred_place_first_and_on_where_that_does_not_answer() {
    let mut rig = rig(5);
    let call = place(&mut rig);
    let [one, bob, two] = [stranger(1), address(1), stranger(2)];
    // Header fields after the `?`, other schemes and the stranger itself are ignored.
    let contacts = format!(
        "<sip:{bob}>;q=0.2, <sip:{one}?Replaces=x%3Bto-tag=1>;q=0.9, <tel:+1>, <sip:{two}>;q=0.1, \
         <sip:{}>;q=1.0, <sip:{one}>;q=0.5",
        stranger(0)
    );
    let first = send_elsewhere(&mut rig, 0, 302, &contacts);
    assert_eq!(rig.expect(0), redirected(call, &format!("sip:{one}")));
    let second = send_elsewhere(&mut rig, 1, 486, "");
    assert!(second.starts_with(format!("INVITE sip:{one} SIP/2.0\r\n").as_bytes()));
    for name in [HeaderName::CallId, HeaderName::From, HeaderName::To] {
        assert_eq!(value(&first, name), value(&second, name));
    }
    assert_eq!(value(&second, HeaderName::CSeq), "2 INVITE");
    assert_eq!(rig.expect(0), redirected(call, &format!("sip:{bob}")));
    let Event::Incoming { call: there, .. } = rig.expect(1) else { panic!("no call") };
    rig.act(1, |agent, now| agent.answer(now, there, SESSION));
    assert_eq!(rig.expect(0), Event::Answered { call, session: Some(SESSION.to_vec()) });
    rig.act(0, |agent, now| agent.hang_up(now, call));
    rig.finish();
}

#[test]
fn a_call_that_goes_round_in_a_circle_ends() {
    let mut rig = rig(5);
    let call = place(&mut rig);
    send_elsewhere(&mut rig, 0, 302, &format!("<sip:{}>", stranger(1)));
    assert!(matches!(rig.expect(0), Event::Redirected { .. }));
    let back = format!("<sip:{}>, <SIP:{}>", stranger(0), stranger(1));
    send_elsewhere(&mut rig, 1, 301, &back);
    refused(&mut rig, call, 301);
}

#[test]
fn a_call_is_sent_elsewhere_so_many_times_and_no_more() {
    for redirects in [0, 3] {
        let mut rig = rig(redirects);
        let call = place(&mut rig);
        for number in 0..=redirects as u8 {
            send_elsewhere(&mut rig, number, 302, &format!("<sip:{}>", stranger(number + 1)));
            if number < redirects as u8 {
                assert!(matches!(rig.expect(0), Event::Redirected { .. }));
            }
        }
        refused(&mut rig, call, 302);
        assert_eq!(rig.count(0, "INVITE"), redirects + 1);
    }
}

#[test]
fn nobody_is_called_after_a_refusal_for_everybody_or_when_the_owner_has_hung_up() {
    let mut one = rig(5);
    let call = place(&mut one);
    let contacts = format!("<sip:{}>, <sip:{}>", stranger(1), stranger(2));
    send_elsewhere(&mut one, 0, 300, &contacts);
    assert!(matches!(one.expect(0), Event::Redirected { .. }));
    send_elsewhere(&mut one, 1, 603, "");
    refused(&mut one, call, 603);

    let mut other = rig(5);
    let call = place(&mut other);
    let invite = other.mail(stranger(0), "INVITE");
    other.act(0, |agent, now| agent.hang_up(now, call));
    let lines = format!("Contact: {contacts}\r\n");
    let bytes = test_support::flow::response(&invite, address(0), 302, "s", &lines, "");
    other.send(stranger(0), 0, &bytes);
    assert_eq!(other.expect(0), Event::Ended { call, end: End::HungUp });
    other.finish();
    assert_eq!(other.count(0, "INVITE"), 1);
}

#[test]
fn a_call_to_a_secure_uri_is_not_sent_to_one_that_is_not() {
    let mut rig = rig(5);
    let call = rig.call_uri(0, &format!("sips:{}", stranger(0)), SESSION);
    let contacts = format!("<sip:{}>, <sips:{}>;q=0.1", stranger(1), stranger(2));
    send_elsewhere(&mut rig, 0, 302, &contacts);
    assert_eq!(rig.expect(0), redirected(call, &format!("sips:{}", stranger(2))));
    send_elsewhere(&mut rig, 2, 404, "");
    refused(&mut rig, call, 404);
}

#[test]
fn a_proxy_that_is_to_be_used_is_a_route_and_the_target_stays() {
    ["", ";lr"].into_iter().for_each(by_proxy);
}

fn by_proxy(params: &str) {
    let mut rig = rig(5);
    let call = place(&mut rig);
    let first = send_elsewhere(&mut rig, 0, 305, &format!("<sip:{}{params}>", stranger(1)));
    assert_eq!(rig.expect(0), redirected(call, &format!("sip:{}{params}", stranger(1))));
    let second = send_elsewhere(&mut rig, 1, 404, "");
    let line = |bytes: &[u8]| bytes.split(|byte| *byte == b'\r').next().map(<[u8]>::to_vec);
    assert_eq!(line(&first), line(&second));
    assert_eq!(value(&second, HeaderName::Route), format!("<sip:{};lr>", stranger(1)));
    refused(&mut rig, call, 404);
}

#[test]
fn who_is_called_instead_gets_no_credentials_whatever_realm_he_names() {
    for realm in [None, Some("home")] {
        for asks in ["home", "elsewhere"] {
            let account = Account {
                password: Some(Password::new("secret")),
                realm: realm.map(str::to_owned),
                ..Account::new("sip:alice@example.com")
            };
            let config = Config { accounts: vec![account], ..Config::default() };
            let mut rig = Rig::new(1, Link::default(), &[config]);
            let uri = format!("sip:{}", stranger(0));
            let session = SESSION.to_vec();
            let call = rig.act(0, |agent, now| agent.call(now, Some(AccountId(0)), &uri, session));
            send_elsewhere(&mut rig, 0, 302, &format!("<sip:{}>", stranger(1)));
            assert!(matches!(rig.expect(0), Event::Redirected { .. }));
            let invite = rig.mail(stranger(1), "INVITE");
            let lines = format!("WWW-Authenticate: Digest realm=\"{asks}\", nonce=\"n\"\r\n");
            let bytes = test_support::flow::response(&invite, address(0), 401, "s", &lines, "");
            rig.send(stranger(1), 0, &bytes);
            let Event::Ended { end: End::Failed(failure), .. } = rig.expect(0) else {
                panic!("{call:?} goes on");
            };
            assert!(matches!(&failure, Failure::Unauthorized { realm, .. } if realm == asks));
            assert!(rig.all_mail(stranger(1), "INVITE").is_empty());
            rig.finish();
        }
    }
}
