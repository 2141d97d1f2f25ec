//! The flows of RFC 3665, message by message, without the 100, which these proxies omit. The
//! proxies are stateless: they forward CANCEL, and the ACK of a failure.
//!
//! | flow | omitted | reason |
//! | --- | --- | --- |
//! | 2.2 | a `mailto:` URI; credentials without a challenge | an agent registers only itself |
//! | 2.3 | all | an agent knows its own contact, and does not query others |
//! | 2.4 | `Contact: *` | an agent removes its own contact; those of other phones stay |
//! | 3.3 | from F11 on | a challenger behind the proxy could authenticate as the caller |
//! | 3.5 | all | an ALG changes session descriptions, which the engine does not parse |
//! | 3.7 | the proxy | it leaves after the INVITE |

mod rig;

use barebell_sip_ua::{
    Account, AccountId, CallId, Config, Denial, End, Event, Failure, Password, RegistrationState,
};
use rig::proxy::Proxy;
use rig::{Rig, SESSION, address};
use sip::HeaderName;
use std::net::SocketAddr;
use std::time::Duration;
use test_support::flow::{relayed, response, value};
use test_support::network::Link;

fn proxy(number: u8) -> SocketAddr {
    ([192, 0, 2, 50 + number], 5060).into()
}

/// Alice, with an account at the first proxy, and bob behind the second one.
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
    rig.add_proxy(Proxy::new(proxy(1), Vec::new()));
    rig.add_proxy(Proxy::new(proxy(2), vec![address(1)]));
    rig
}

/// Alice calls bob through both proxies.
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

/// Bob's agent rings and answers.
fn answered(rig: &mut Rig, here: CallId) -> CallId {
    let there = incoming(rig);
    rig.act(1, |agent, now| agent.ring(now, there, b""));
    assert!(matches!(rig.expect(0), Event::Ringing { status: 180, .. }));
    rig.act(1, |agent, now| agent.answer(now, there, SESSION));
    assert_eq!(rig.expect(0), Event::Answered { call: here, session: Some(SESSION.to_vec()) });
    rig.pass(Duration::from_millis(100));
    there
}

/// Bob hangs up.
fn hung_up(rig: &mut Rig, here: CallId, there: CallId) {
    rig.act(1, |agent, now| agent.hang_up(now, there));
    let end = End::HungUpByPeer { reason: String::new() };
    assert_eq!(rig.expect(0), Event::Ended { call: here, end });
    rig.finish();
}

/// Bob's agent rings, answers and hangs up.
fn talk(rig: &mut Rig, here: CallId) {
    let there = answered(rig, here);
    hung_up(rig, here, there);
}

/// The messages of that.
const TALK: &str = "A>B INVITE, B>A 180, B>A 200, A>B ACK, B>A BYE, A>B 200";

fn refused(rig: &mut Rig, here: CallId, expected: u16) {
    match rig.expect(0) {
        Event::Ended { call, end: End::Failed(Failure::Refused { status, .. }) } => {
            assert_eq!((call, status), (here, expected));
        }
        other => panic!("{other:?}"),
    }
    rig.finish();
}

fn proxies() -> [(char, SocketAddr); 2] {
    [('1', proxy(1)), ('2', proxy(2))]
}

/// Returns an agent with a stranger as its registrar (R).
fn registering() -> Rig {
    let account = Account {
        password: Some(Password::new("secret")),
        expires: sip::Duration::from_secs(3600),
        ..Account::new(&format!("sip:alice@{}", proxy(3)))
    };
    let config = Config { accounts: vec![account], keepalive: None, ..Config::default() };
    let link = Link { delay: Duration::from_millis(5), ..Link::default() };
    let mut rig = Rig::new(1, link, &[config]);
    rig.act(0, |agent, now| {
        agent.register(now, AccountId(0));
        Ok(())
    });
    rig
}

/// The registrar receives a REGISTER, and answers it.
fn registrar(rig: &mut Rig, status: u16, lines: &str) -> Vec<u8> {
    let register = rig.mail(proxy(3), "REGISTER");
    let answer = response(&register, address(0), status, "r", lines, "");
    rig.send(proxy(3), 0, &answer);
    register
}

/// A challenge of the registrar.
const ASKS: &str = "WWW-Authenticate: Digest realm=\"home\", nonce=\"n\", qop=\"auth\"\r\n";

/// The bindings of a phone at `place`, which has also registered the address of a web page.
fn contacts(place: SocketAddr) -> String {
    format!(
        "Contact: <sip:alice@{place}>;expires=3600\r\n\
         Contact: <mailto:alice@example.com>;expires=4294967295\r\n"
    )
}

fn told(rig: &mut Rig) -> RegistrationState {
    match rig.expect(0) {
        Event::Registration { account: AccountId(0), state } => state,
        other => panic!("{other:?}"),
    }
}

const REGISTERED: RegistrationState =
    RegistrationState::Registered { expires: sip::Duration::from_secs(3600) };

#[test]
fn flow_2_1_a_registration() {
    let mut rig = registering();
    let first = registrar(&mut rig, 401, ASKS);
    let second = registrar(&mut rig, 200, &contacts(address(0)));
    assert_eq!(told(&mut rig), REGISTERED);
    assert_eq!(value(&first, HeaderName::Authorization), "");
    assert!(value(&second, HeaderName::Authorization).contains("username=\"alice\""));
    assert_eq!(value(&first, HeaderName::CallId), value(&second, HeaderName::CallId));
    assert_eq!(value(&second, HeaderName::CSeq), "2 REGISTER");
    rig.assert_flow(&[('R', proxy(3))], "A>R REGISTER, R>A 401, A>R REGISTER, R>A 200");
}

#[test]
fn flow_2_2_a_registration_is_changed() {
    let mut rig = registering();
    registrar(&mut rig, 200, &contacts(address(0)));
    assert_eq!(told(&mut rig), REGISTERED);
    let place = ([198, 51, 100, 7], 5060).into();
    rig.move_to(0, place);
    let register = registrar(&mut rig, 200, &contacts(place));
    assert_eq!(value(&register, HeaderName::Contact), format!("<sip:alice@{place}>"));
    assert_eq!(told(&mut rig), REGISTERED);
    let others = [('R', proxy(3)), ('N', place)];
    rig.assert_flow(&others, "A>R REGISTER, R>A 200, N>R REGISTER, R>N 200");
}

#[test]
fn flow_2_4_a_registration_is_cancelled() {
    let mut rig = registering();
    registrar(&mut rig, 200, &contacts(address(0)));
    assert_eq!(told(&mut rig), REGISTERED);
    rig.act(0, |agent, now| {
        agent.unregister(now, AccountId(0));
        Ok(())
    });
    let register = registrar(&mut rig, 200, "");
    assert_eq!(value(&register, HeaderName::Expires), "0");
    assert_eq!(told(&mut rig), RegistrationState::Ended);
    rig.finish();
    rig.assert_flow(&[('R', proxy(3))], "A>R REGISTER, R>A 200, A>R REGISTER, R>A 200");
}

#[test]
fn flow_2_5_a_registration_with_a_wrong_password() {
    let mut rig = registering();
    registrar(&mut rig, 401, ASKS);
    registrar(&mut rig, 401, &ASKS.replace("\"n\"", "\"m\", stale=FALSE"));
    let failure = Failure::Unauthorized { realm: "home".to_owned(), denial: Denial::Wrong };
    assert_eq!(told(&mut rig), RegistrationState::Failed { failure, retry: None });
    rig.finish();
    rig.assert_flow(&[('R', proxy(3))], "A>R REGISTER, R>A 401, A>R REGISTER, R>A 401");
}

#[test]
fn a_nonce_that_is_stale_is_replaced() {
    let mut rig = registering();
    registrar(&mut rig, 401, ASKS);
    registrar(&mut rig, 401, &ASKS.replace("\"n\"", "\"m\", stale=TRUE"));
    let register = registrar(&mut rig, 200, &contacts(address(0)));
    assert!(value(&register, HeaderName::Authorization).contains("nonce=\"m\""));
    assert_eq!(told(&mut rig), REGISTERED);
}

#[test]
fn flow_3_1_a_call_from_phone_to_phone() {
    let mut rig = rig();
    let call = rig.call(0, 1);
    talk(&mut rig, call);
    rig.assert_flow(&[], TALK);
}

#[test]
fn flow_3_2_a_call_by_two_proxies_of_which_the_first_wants_credentials() {
    let mut rig = rig();
    rig.add_proxy(Proxy { asks: true, ..Proxy::new(proxy(1), Vec::new()) });
    rig.add_proxy(Proxy::new(proxy(2), vec![address(1)]));
    let call = place(&mut rig);
    talk(&mut rig, call);
    let flow = format!("A>1 INVITE, 1>A 407, A>1 ACK, {}", relayed("12", TALK));
    rig.assert_flow(&proxies(), &flow);
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
    let denial = Denial::OtherRealm { known: "one".to_owned() };
    let failure = Failure::Unauthorized { realm: "two".to_owned(), denial };
    assert_eq!(rig.expect(0), Event::Ended { call, end: End::Failed(failure) });
    rig.finish();
    rig.assert_flow(&proxies(), "A>1 INVITE, 1>A 407, A>1 ACK, A>1 INVITE, 1>A 407, A>1 ACK");
}

#[test]
fn flow_3_4_a_call_by_another_proxy_where_the_first_is_silent() {
    let mut rig = rig();
    rig.backups = vec![proxy(2)];
    let stands_for = Some(proxy(1));
    let second = Proxy::new(proxy(2), vec![address(1)]);
    rig.add_proxy(Proxy { stands_for, asks: true, ..second });
    let call = place(&mut rig);
    talk(&mut rig, call);
    let silent = "A>1 INVITE, ".repeat(7);
    let flow = format!("{silent}A>2 INVITE, 2>A 407, A>2 ACK, {}", relayed("2", TALK));
    rig.assert_flow(&proxies(), &flow);
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
    rig.act(1, |agent, now| agent.ring(now, there, b""));
    assert!(matches!(rig.expect(0), Event::Ringing { status: 180, .. }));
    rig.act(1, |agent, now| agent.answer(now, there, b"v=0 offer"));
    assert_eq!(rig.expect(0), Event::Answered { call, session: None });
    let offer = Some(b"v=0 offer".to_vec());
    assert_eq!(rig.expect(0), Event::Offer { call, offer });
    rig.act(0, |agent, now| agent.accept(now, call, SESSION));
    assert_eq!(rig.expect(1), Event::Answer { call: there, answer: SESSION.to_vec() });
    hung_up(&mut rig, call, there);
    let flow = format!("A>R INVITE, R>A 302, A>R ACK, {}", relayed("2", TALK));
    rig.assert_flow(&[('R', redirect), ('2', proxy(2))], &flow);
}

#[test]
fn flow_3_7_a_call_whose_callee_gets_another_address() {
    let mut rig = rig();
    let here = rig.call(0, 1);
    let there = answered(&mut rig, here);
    let new = ([198, 51, 100, 7], 5060).into();
    rig.move_to(1, new);
    assert_eq!(rig.expect(1), Event::Moved { call: there });
    rig.act(1, |agent, now| agent.offer(now, there, b"v=0 moved".to_vec()));
    let offer = Some(b"v=0 moved".to_vec());
    assert_eq!(rig.expect(0), Event::Offer { call: here, offer });
    rig.act(0, |agent, now| agent.accept(now, here, SESSION));
    assert!(matches!(rig.expect(1), Event::Answer { .. }));
    rig.act(0, |agent, now| agent.hang_up(now, here));
    assert!(matches!(rig.expect(1), Event::Ended { .. }));
    rig.finish();
    rig.assert_flow(
        &[('N', new)],
        "A>B INVITE, B>A 180, B>A 200, A>B ACK, N>A INVITE, A>N 200, N>A ACK, A>N BYE, N>A 200",
    );
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
    let flow = "A>B INVITE, B>A 180, A>B CANCEL, B>A 200, B>A 487, A>B ACK";
    rig.assert_flow(&proxies(), &relayed("12", flow));
}

#[test]
fn flow_3_9_a_call_to_somebody_who_is_busy() {
    let mut rig = with_proxies();
    let here = place(&mut rig);
    let there = incoming(&mut rig);
    rig.act(1, |agent, now| agent.decline(now, there, 486));
    refused(&mut rig, here, 486);
    rig.assert_flow(&proxies(), &relayed("12", "A>B INVITE, B>A 486, A>B ACK"));
}

#[test]
fn flow_3_10_a_call_to_somebody_who_is_not_there() {
    let mut rig = rig();
    let call = place(&mut rig);
    let invite = rig.mail(proxy(1), "INVITE");
    rig.send(proxy(1), 0, &response(&invite, address(0), 100, "", "", ""));
    rig.pass(Duration::from_secs(32));
    rig.send(proxy(1), 0, &response(&invite, address(0), 480, "p", "", ""));
    refused(&mut rig, call, 480);
    rig.assert_flow(&proxies(), "A>1 INVITE, 1>A 100, 1>A 480, A>1 ACK");
}

#[test]
fn a_caller_waits_by_himself_where_the_proxy_does_not() {
    let mut rig = rig();
    let call = place(&mut rig);
    assert_eq!(rig.expect(0), Event::Ended { call, end: End::Failed(Failure::TimedOut) });
    rig.finish();
    rig.assert_flow(&proxies(), ["A>1 INVITE"; 7].join(", ").as_str());
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
    rig.assert_flow(&proxies(), &relayed("12", "A>B INVITE, B>A 180, B>A 480, A>B ACK"));
}
