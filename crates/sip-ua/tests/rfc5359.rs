//! The flows of RFC 5359 section 2, message by message. Agents play every role of a phone, also
//! those of the music, park and announcement servers if these only place or accept calls. A proxy
//! may omit the messages that the RFC has in parentheses: the 100 here, and the 181 in some tests.
//!
//! | flow | omitted | reason |
//! | --- | --- | --- |
//! | 2.3 | REFER to the music server, and its NOTIFY | a local REFER belongs to a call |
//! | 2.4 | | one more NOTIFY: of the 180 (RFC 3515 section 2.4.5 leaves that open) |
//! | 2.10 | `isfocus` in the Contact of the mixer | the Contact of a call is always the same |
//! | 2.11 | all | Join (RFC 3911) is unsupported: a joining party is another caller |
//! | 2.13 | a local 305 | a call that is rejected names no Contact; a stranger sends it |
//! | 2.15 | REFER to the server; SUBSCRIBE to it | as 2.3; no dialog events (RFC 4235) |
//! | 2.16 | SUBSCRIBE to the ringing phone | no dialog events |
//! | 2.17 | all | it consists of dialog events; its calls are those of RFC 3665 |
//! | 2.18 | all | a REFER without a call is rejected: any peer could cause calls |
//!
//! The single-line extension of the drafts is not in the RFC.

mod rig;

use barebell_sip_ua::{
    Account, AccountId, CallId, Config, End, Event, Failure, Password, RegistrationState, Transfer,
};
use rig::proxy::Proxy;
use rig::{Rig, SESSION, address};
use sip::HeaderName;
use std::net::SocketAddr;
use std::time::Duration;
use test_support::flow::{body, relayed, response, value};
use test_support::network::Link;

const HOLD: &[u8] = b"v=0 sendonly";
const HELD: &[u8] = b"v=0 recvonly";

/// Long enough for pending messages, and too short for a retransmission.
const SHORT: Duration = Duration::from_millis(100);

const USERS: [&str; 5] = ["alice", "bob", "carol", "dave", "erin"];

fn place_of(number: u8) -> SocketAddr {
    ([192, 0, 2, 50 + number], 5060).into()
}

fn proxy() -> SocketAddr {
    place_of(0)
}

/// Returns this number of agents, which call directly, or with an account through the proxy.
fn rig(agents: usize) -> Rig {
    let config = |user: &&str| {
        let account = Account {
            proxy: Some(format!("sip:{};lr", proxy())),
            password: Some(Password::new("secret")),
            registers: false,
            ..Account::new(&format!("sip:{user}@example.com"))
        };
        Config { user: (*user).into(), accounts: vec![account], ..Config::default() }
    };
    let configs: Vec<Config> = USERS[..agents].iter().map(config).collect();
    Rig::new(1, Link { delay: Duration::from_millis(5), ..Link::default() }, &configs)
}

/// One agent calls the other one through the proxy.
fn call_by_proxy(rig: &mut Rig, from: usize, to: usize) -> CallId {
    let uri = format!("sip:{}@{}", USERS[to], address(to));
    rig.act(from, |agent, now| agent.call(now, Some(AccountId(0)), &uri, SESSION.to_vec()))
}

fn incoming(rig: &mut Rig, side: usize) -> CallId {
    match rig.expect(side) {
        Event::Incoming { call, .. } => call,
        other => panic!("{other:?}"),
    }
}

fn rings(rig: &mut Rig, side: usize, expected: u16) {
    match rig.expect(side) {
        Event::Ringing { status, .. } => assert_eq!(status, expected),
        other => panic!("{other:?}"),
    }
}

/// The call of `from` rings at `to`. Returns the identifier of the call there.
fn ringing(rig: &mut Rig, from: usize, to: usize) -> CallId {
    let there = incoming(rig, to);
    rig.act(to, |agent, now| agent.ring(now, there, b""));
    rings(rig, from, 180);
    there
}

/// The call rings and is answered.
fn answered(rig: &mut Rig, (from, here): (usize, CallId), to: usize) -> CallId {
    let there = ringing(rig, from, to);
    rig.act(to, |agent, now| agent.answer(now, there, SESSION));
    assert_eq!(rig.expect(from), Event::Answered { call: here, session: Some(SESSION.to_vec()) });
    rig.pass(SHORT);
    there
}

/// One agent calls the other one directly, which answers. Returns the identifiers at both.
fn talking(rig: &mut Rig, from: usize, to: usize) -> (CallId, CallId) {
    let here = rig.call(from, to);
    let there = answered(rig, (from, here), to);
    (here, there)
}

/// One end changes the session, and the other one accepts.
fn change(rig: &mut Rig, own: (usize, CallId), other: (usize, CallId), session: [&[u8]; 2]) {
    let [offer, answer] = session.map(<[u8]>::to_vec);
    rig.act(own.0, |agent, now| agent.offer(now, own.1, offer.clone()));
    assert_eq!(rig.expect(other.0), Event::Offer { call: other.1, offer: Some(offer) });
    rig.act(other.0, |agent, now| agent.accept(now, other.1, &answer));
    assert_eq!(rig.expect(own.0), Event::Answer { call: own.1, answer });
    rig.pass(SHORT);
}

/// The other end has hung up.
fn ended(rig: &mut Rig, side: usize, call: CallId) {
    let end = End::HungUpByPeer { reason: String::new() };
    assert_eq!(rig.expect(side), Event::Ended { call, end });
}

/// One end hangs up.
fn hang_up(rig: &mut Rig, own: (usize, CallId), other: (usize, CallId)) {
    rig.act(own.0, |agent, now| agent.hang_up(now, own.1));
    assert_eq!(rig.expect(own.0), Event::Ended { call: own.1, end: End::HungUp });
    ended(rig, other.0, other.1);
    rig.pass(SHORT);
}

fn transfer(rig: &mut Rig, side: usize) -> Transfer {
    match rig.expect(side) {
        Event::Transfer { transfer, .. } => transfer,
        other => panic!("{other:?}"),
    }
}

fn tag(bytes: &[u8], name: HeaderName) -> String {
    value(bytes, name).split_once(";tag=").expect("a tag").1.to_owned()
}

/// Returns the URI that replaces the other end of a call of alice, from `response` in that call, as
/// a park server or dialog events would send it. `own` is the header field of alice.
fn instead(response: &[u8], own: HeaderName, other: HeaderName) -> String {
    let id = value(response, HeaderName::CallId);
    let [own, other] = [own, other].map(|name| tag(response, name));
    format!("sip:alice@{}?Replaces={id}%3Bto-tag%3D{own}%3Bfrom-tag%3D{other}", address(0))
}

/// The same for a call from alice to agent `other`.
fn instead_of(rig: &Rig, other: usize, response: &str) -> String {
    let response = rig.last(address(other), address(0), response);
    instead(response, HeaderName::From, HeaderName::To)
}

/// The same for a call from agent `other` to alice.
fn instead_of_caller(rig: &Rig, other: usize) -> String {
    let response = rig.last(address(0), address(other), "SIP/2.0 200");
    instead(response, HeaderName::To, HeaderName::From)
}

/// Agent `by` calls alice with `uri`, to replace her call `old`, and she answers. Returns the
/// identifiers at both.
fn take_over(rig: &mut Rig, by: usize, uri: &str, old: CallId) -> (CallId, CallId) {
    let theirs = rig.call_uri(by, uri, SESSION);
    let new = match rig.expect(0) {
        Event::Incoming { call, replaces, .. } => {
            assert_eq!(replaces, Some(old));
            call
        }
        other => panic!("{other:?}"),
    };
    rig.act(0, |agent, now| agent.answer(now, new, SESSION));
    assert_eq!(rig.expect(0), Event::Ended { call: old, end: End::Replaced { by: new } });
    assert!(matches!(rig.expect(by), Event::Answered { call, .. } if call == theirs));
    rig.pass(SHORT);
    let invite = rig.last(address(by), address(0), "INVITE");
    assert_eq!(value(invite, HeaderName::Require), "replaces");
    (new, theirs)
}

/// Section 2.1: bob puts alice on hold and resumes.
#[test]
fn flow_2_1_call_hold() {
    let mut rig = rig(2);
    rig.add_proxy(Proxy::new(proxy(), Vec::new()));
    let alice = call_by_proxy(&mut rig, 0, 1);
    let bob = answered(&mut rig, (0, alice), 1);
    for session in [[HOLD, HELD], [SESSION, SESSION]] {
        change(&mut rig, (1, bob), (0, alice), session);
    }
    hang_up(&mut rig, (0, alice), (1, bob));
    let flow = "A>B INVITE, B>A 180, B>A 200, A>B ACK, B>A INVITE, A>B 200, B>A ACK, \
                B>A INVITE, A>B 200, B>A ACK, A>B BYE, B>A 200";
    rig.assert_flow(&[('P', proxy())], &relayed("P", flow));
    rig.finish();
}

/// Section 2.2: bob puts alice on hold and calls carol in the meantime.
#[test]
fn flow_2_2_consultation_hold() {
    let mut rig = rig(3);
    rig.add_proxy(Proxy::new(proxy(), Vec::new()));
    let alice = call_by_proxy(&mut rig, 0, 1);
    let bob = answered(&mut rig, (0, alice), 1);
    change(&mut rig, (1, bob), (0, alice), [HOLD, HELD]);
    let second = call_by_proxy(&mut rig, 1, 2);
    let carol = answered(&mut rig, (1, second), 2);
    hang_up(&mut rig, (1, second), (2, carol));
    change(&mut rig, (1, bob), (0, alice), [SESSION, SESSION]);
    hang_up(&mut rig, (0, alice), (1, bob));
    let flow = "A>B INVITE, B>A 180, B>A 200, A>B ACK, B>A INVITE, A>B 200, B>A ACK, \
                B>C INVITE, C>B 180, C>B 200, B>C ACK, B>C BYE, C>B 200, \
                B>A INVITE, A>B 200, B>A ACK, A>B BYE, B>A 200";
    rig.assert_flow(&[('P', proxy())], &relayed("P", flow));
    rig.finish();
}

/// Section 2.3: a server (C) replaces bob while he has alice on hold, and he replaces the server
/// again.
#[test]
fn flow_2_3_music_on_hold() {
    let mut rig = rig(3);
    let (alice, bob) = talking(&mut rig, 0, 1);
    change(&mut rig, (1, bob), (0, alice), [HOLD, HELD]);
    let uri = instead_of(&rig, 1, "SIP/2.0 200");
    let (music, server) = take_over(&mut rig, 2, &uri, alice);
    ended(&mut rig, 1, bob);
    let uri = instead_of_caller(&rig, 2) + "&Require=replaces";
    let (alice, bob) = take_over(&mut rig, 1, &uri, music);
    ended(&mut rig, 2, server);
    rig.assert_flow(
        &[],
        "A>B INVITE, B>A 180, B>A 200, A>B ACK, B>A INVITE, A>B 200, B>A ACK, \
         C>A INVITE, A>C 200, C>A ACK, A>B BYE, B>A 200, \
         B>A INVITE, A>B 200, B>A ACK, A>C BYE, C>A 200",
    );
    hang_up(&mut rig, (0, alice), (1, bob));
    rig.finish();
}

/// Section 2.4: alice asks bob to call carol and hangs up at once. The dialog is kept until bob has
/// sent the last notification, whether it arrives or not.
#[test]
fn flow_2_4_transfer_unattended() {
    let mut rig = rig(3);
    let (bob, alice) = talking(&mut rig, 1, 0);
    let uri = format!("sip:carol@{}", address(2));
    rig.act(0, |agent, now| agent.transfer(now, alice, &uri));
    let asked = Event::TransferAsked { call: bob, to: uri, replaces: false };
    assert_eq!(rig.expect(1), asked);
    let new = rig.act(1, |agent, now| agent.follow(now, bob, SESSION.to_vec()));
    assert_eq!(transfer(&mut rig, 0), Transfer::Accepted);
    assert_eq!(transfer(&mut rig, 0), Transfer::Progress { status: 100 });
    hang_up(&mut rig, (0, alice), (1, bob));
    assert_eq!((rig.calls(0), rig.calls(1)), (0, 1));
    let carol = answered(&mut rig, (1, new), 2);
    assert_eq!(rig.events(0), []);
    rig.assert_flow(
        &[],
        "B>A INVITE, A>B 180, A>B 200, B>A ACK, A>B REFER, B>A 202, B>A NOTIFY, A>B 200, \
         A>B BYE, B>A 200, B>C INVITE, C>B 180, B>A NOTIFY, A>B 200, C>B 200, B>C ACK, \
         B>A NOTIFY, A>B 200",
    );
    let last = rig.last(address(1), address(0), "NOTIFY");
    assert_eq!(value(last, HeaderName::SubscriptionState), "terminated;reason=noresource");
    assert_eq!(body(last), b"SIP/2.0 200 OK\r\n");
    let invite = rig.last(address(1), address(2), "INVITE");
    let refer = rig.last(address(0), address(1), "REFER");
    assert_eq!(value(invite, HeaderName::ReferredBy), value(refer, HeaderName::ReferredBy));
    hang_up(&mut rig, (1, new), (2, carol));
    rig.finish();
}

/// Section 2.5: bob asks carol to accept alice's call, and alice then replaces him.
#[test]
fn flow_2_5_transfer_attended() {
    let mut rig = rig(3);
    let (alice, bob) = talking(&mut rig, 0, 1);
    change(&mut rig, (1, bob), (0, alice), [HOLD, HELD]);
    let (second, carol) = talking(&mut rig, 1, 2);
    change(&mut rig, (1, second), (2, carol), [HOLD, HELD]);
    rig.act(1, |agent, now| agent.transfer_to(now, bob, second));
    let to = format!("sip:carol@{}", address(2));
    assert_eq!(rig.expect(0), Event::TransferAsked { call: alice, to, replaces: true });
    let here = rig.act(0, |agent, now| agent.follow(now, alice, SESSION.to_vec()));
    let Event::Incoming { call: there, replaces: Some(replaced), .. } = rig.expect(2) else {
        panic!("no call that replaces another one")
    };
    assert_eq!(replaced, carol);
    rig.act(2, |agent, now| agent.answer(now, there, SESSION));
    assert_eq!(rig.expect(2), Event::Ended { call: carol, end: End::Replaced { by: there } });
    assert!(matches!(rig.expect(0), Event::Answered { call, .. } if call == here));
    assert_eq!(transfer(&mut rig, 1), Transfer::Accepted);
    assert_eq!(transfer(&mut rig, 1), Transfer::Progress { status: 100 });
    ended(&mut rig, 1, second);
    assert_eq!(transfer(&mut rig, 1), Transfer::Done);
    hang_up(&mut rig, (1, bob), (0, alice));
    rig.assert_flow(
        &[],
        "A>B INVITE, B>A 180, B>A 200, A>B ACK, B>A INVITE, A>B 200, B>A ACK, \
         B>C INVITE, C>B 180, C>B 200, B>C ACK, B>C INVITE, C>B 200, B>C ACK, \
         B>A REFER, A>B 202, A>B NOTIFY, B>A 200, A>C INVITE, C>A 200, A>C ACK, \
         C>B BYE, B>C 200, A>B NOTIFY, B>A 200, B>A BYE, A>B 200",
    );
    hang_up(&mut rig, (0, here), (2, there));
    rig.finish();
}

/// Section 2.6: bob sends carol a message with the URI that replaces him.
#[test]
fn flow_2_6_transfer_by_a_message() {
    let mut rig = rig(3);
    let (alice, bob) = talking(&mut rig, 0, 1);
    let uri = instead_of(&rig, 1, "SIP/2.0 200");
    let to = format!("sip:carol@{}", address(2));
    let message = rig.act(1, |agent, now| agent.message(now, None, &to, &uri));
    let Event::Message { text, .. } = rig.expect(2) else { panic!("no message") };
    assert_eq!(rig.expect(1), Event::MessageSent { message, result: Ok(()) });
    let (alice, carol) = take_over(&mut rig, 2, &text, alice);
    ended(&mut rig, 1, bob);
    rig.assert_flow(
        &[],
        "A>B INVITE, B>A 180, B>A 200, A>B ACK, B>C MESSAGE, C>B 200, \
         C>A INVITE, A>C 200, C>A ACK, A>B BYE, B>A 200",
    );
    hang_up(&mut rig, (0, alice), (2, carol));
    rig.finish();
}

/// Alice calls bob. His proxy calls one agent after the other, and reports it from the agent
/// `news_from` on.
fn hunted(agents: usize, news_from: usize) -> (Rig, CallId) {
    let mut rig = rig(agents);
    let targets = (1..agents).map(address).collect();
    rig.add_proxy(Proxy::hunting(proxy(), targets, news_from));
    let call = rig.call_uri(0, &format!("sip:bob@{}", proxy()), SESSION);
    (rig, call)
}

/// Section 2.7: the proxy forwards the call to a gateway (B). Its 181 has no tag.
#[test]
fn flow_2_7_forwarding_unconditional() {
    let (mut rig, alice) = hunted(2, 0);
    rings(&mut rig, 0, 181);
    let gateway = answered(&mut rig, (0, alice), 1);
    hang_up(&mut rig, (0, alice), (1, gateway));
    rig.assert_flow(
        &[('P', proxy())],
        "A>P INVITE, P>A 181, P>B INVITE, B>P 180, P>A 180, B>P 200, P>A 200, \
         A>P ACK, P>B ACK, A>P BYE, P>B BYE, B>P 200, P>A 200",
    );
    rig.finish();
}

/// Section 2.8: bob is busy, and the proxy calls his second phone (C).
#[test]
fn flow_2_8_forwarding_where_it_is_busy() {
    let (mut rig, alice) = hunted(3, 1);
    let first = incoming(&mut rig, 1);
    rig.act(1, |agent, now| agent.decline(now, first, 486));
    rings(&mut rig, 0, 181);
    let second = answered(&mut rig, (0, alice), 2);
    hang_up(&mut rig, (0, alice), (2, second));
    assert_eq!(rig.events(1), [Event::Ended { call: first, end: End::Declined }]);
    rig.assert_flow(
        &[('P', proxy())],
        "A>P INVITE, P>B INVITE, B>P 486, P>B ACK, P>A 181, P>C INVITE, C>P 180, P>A 180, \
         C>P 200, P>A 200, A>P ACK, P>C ACK, A>P BYE, P>C BYE, C>P 200, P>A 200",
    );
    rig.finish();
}

/// The proxy stops waiting for the first phone, which rings.
fn nobody_answers(rig: &mut Rig) {
    let first = ringing(rig, 0, 1);
    rig.pass(Duration::from_secs(20));
    rig.hunt_on(proxy());
    let end = End::Cancelled { reason: String::new() };
    assert_eq!(rig.expect(1), Event::Ended { call: first, end });
}

/// Section 2.9: the first phone does not answer, and the proxy calls bob's second phone (C).
#[test]
fn flow_2_9_forwarding_where_nobody_answers() {
    let (mut rig, alice) = hunted(3, 1);
    nobody_answers(&mut rig);
    rings(&mut rig, 0, 181);
    let second = answered(&mut rig, (0, alice), 2);
    hang_up(&mut rig, (0, alice), (2, second));
    rig.assert_flow(
        &[('P', proxy())],
        "A>P INVITE, P>B INVITE, B>P 180, P>A 180, P>B CANCEL, B>P 200, B>P 487, P>B ACK, \
         P>A 181, P>C INVITE, C>P 180, P>A 180, C>P 200, P>A 200, A>P ACK, P>C ACK, \
         A>P BYE, P>C BYE, C>P 200, P>A 200",
    );
    rig.finish();
}

/// Section 2.10: bob, the mixer, changes the session with alice and calls carol.
#[test]
fn flow_2_10_conference_to_which_a_third_is_called() {
    let mut rig = rig(3);
    let (alice, bob) = talking(&mut rig, 0, 1);
    change(&mut rig, (1, bob), (0, alice), [b"v=0 mixer", SESSION]);
    let (second, carol) = talking(&mut rig, 1, 2);
    assert_eq!(rig.calls(1), 2);
    rig.assert_flow(
        &[],
        "A>B INVITE, B>A 180, B>A 200, A>B ACK, B>A INVITE, A>B 200, B>A ACK, \
         B>C INVITE, C>B 180, C>B 200, B>C ACK",
    );
    hang_up(&mut rig, (0, alice), (1, bob));
    hang_up(&mut rig, (2, carol), (1, second));
    rig.finish();
}

/// Section 2.12: the proxy tries four phones of bob (B to E).
#[test]
fn flow_2_12_find_me() {
    let (mut rig, alice) = hunted(5, usize::MAX);
    nobody_answers(&mut rig);
    for (side, status) in [(2, 480), (3, 486)] {
        let call = incoming(&mut rig, side);
        rig.act(side, |agent, now| agent.decline(now, call, status));
        assert_eq!(rig.expect(side), Event::Ended { call, end: End::Declined });
    }
    let bob = answered(&mut rig, (0, alice), 4);
    hang_up(&mut rig, (4, bob), (0, alice));
    rig.assert_flow(
        &[('P', proxy())],
        "A>P INVITE, P>B INVITE, B>P 180, P>A 180, P>B CANCEL, B>P 200, B>P 487, P>B ACK, \
         P>C INVITE, C>P 480, P>C ACK, P>D INVITE, D>P 486, P>D ACK, P>E INVITE, E>P 180, \
         P>A 180, E>P 200, P>A 200, A>P ACK, P>E ACK, E>P BYE, P>A BYE, A>P 200, P>E 200",
    );
    rig.finish();
}

/// A stranger at `place` receives a request with this beginning from alice and answers it.
fn replies(rig: &mut Rig, place: SocketAddr, method: &str, status: u16, lines: &str) -> Vec<u8> {
    let request = rig.mail(place, method);
    rig.send(place, 0, &response(&request, address(0), status, "s", lines, ""));
    if method == "INVITE" {
        rig.mail(place, "ACK");
    }
    request
}

/// A challenge for alice's password at home.
const ASKS: &str = "Digest realm=\"home\", nonce=\"n\", qop=\"auth\"\r\n";

/// The proxy rejects every call, and names the address of an announcement.
fn screened(rig: &mut Rig, place: SocketAddr, call: CallId) {
    replies(rig, place, "INVITE", 407, &format!("Proxy-Authenticate: {ASKS}"));
    let announcement = format!("Error-Info: <sip:screened@{}>\r\n", place_of(2));
    let invite = replies(rig, place, "INVITE", 403, &announcement);
    assert!(value(&invite, HeaderName::ProxyAuthorization).contains("username=\"alice\""));
    let failure = Failure::Refused { status: 403, reason: "Forbidden".into() };
    assert_eq!(rig.expect(0), Event::Ended { call, end: End::Failed(failure) });
}

/// Section 2.13: bob (B) accepts calls only through the proxy, which rejects alice's call. She
/// calls the announcement (S). The proxy is her registrar: a callee could not make her send her
/// credentials to another server.
#[test]
fn flow_2_13_incoming_call_screening() {
    let (bob, server) = (place_of(1), place_of(2));
    let account = Account {
        password: Some(Password::new("secret")),
        ..Account::new(&format!("sip:alice@{}", proxy()))
    };
    let config = Config { accounts: vec![account], ..Config::default() };
    let link = Link { delay: Duration::from_millis(5), ..Link::default() };
    let mut rig = Rig::new(1, link, &[config]);
    rig.act(0, |agent, now| {
        agent.register(now, AccountId(0));
        Ok(())
    });
    replies(&mut rig, proxy(), "REGISTER", 401, &format!("WWW-Authenticate: {ASKS}"));
    replies(&mut rig, proxy(), "REGISTER", 200, "");
    let state = RegistrationState::Registered { expires: sip::Duration::from_secs(600) };
    assert_eq!(rig.expect(0), Event::Registration { account: AccountId(0), state });

    let call = |rig: &mut Rig, to: SocketAddr| {
        let uri = format!("sip:{to}");
        rig.act(0, |agent, now| agent.call(now, Some(AccountId(0)), &uri, SESSION.to_vec()))
    };
    let refused = call(&mut rig, bob);
    replies(&mut rig, bob, "INVITE", 305, &format!("Contact: <sip:{}>\r\n", proxy()));
    let to = format!("sip:{}", proxy());
    assert_eq!(rig.expect(0), Event::Redirected { call: refused, to });
    screened(&mut rig, proxy(), refused);

    let heard = call(&mut rig, server);
    let invite = rig.mail(server, "INVITE");
    rig.reply((server, 0), &invite, (200, "s"), "", "v=0\r\n");
    assert_eq!(rig.expect(0), Event::Answered { call: heard, session: Some(SESSION.to_vec()) });
    rig.mail(server, "ACK");
    let bye = format!(
        "BYE sip:alice@{} SIP/2.0\r\nVia: SIP/2.0/UDP {server};branch=z9hG4bKb\r\n\
         Max-Forwards: 70\r\nFrom: {};tag=s\r\nTo: {}\r\nCall-ID: {}\r\nCSeq: 1 BYE\r\n\r\n",
        address(0),
        value(&invite, HeaderName::To),
        value(&invite, HeaderName::From),
        value(&invite, HeaderName::CallId),
    );
    rig.send(server, 0, bye.as_bytes());
    ended(&mut rig, 0, heard);
    rig.assert_flow(
        &[('B', bob), ('P', proxy()), ('S', server)],
        "A>P REGISTER, P>A 401, A>P REGISTER, P>A 200, \
         A>B INVITE, B>A 305, A>B ACK, A>P INVITE, P>A 407, A>P ACK, \
         A>P INVITE, P>A 403, A>P ACK, A>S INVITE, S>A 200, A>S ACK, S>A BYE, A>S 200",
    );
}

/// Section 2.14: the proxy does not let alice call bob.
#[test]
fn flow_2_14_outgoing_call_screening() {
    let mut rig = rig(1);
    let call = call_by_proxy(&mut rig, 0, 1);
    screened(&mut rig, proxy(), call);
    rig.assert_flow(
        &[('P', proxy())],
        "A>P INVITE, P>A 407, A>P ACK, A>P INVITE, P>A 403, A>P ACK",
    );
    rig.finish();
}

/// Section 2.15: a park server (C) replaces bob, and carol (D) replaces the server.
#[test]
fn flow_2_15_call_park() {
    let mut rig = rig(4);
    let (alice, bob) = talking(&mut rig, 0, 1);
    let uri = instead_of(&rig, 1, "SIP/2.0 200");
    let (parked, server) = take_over(&mut rig, 2, &uri, alice);
    ended(&mut rig, 1, bob);
    let uri = instead_of_caller(&rig, 2);
    let (alice, carol) = take_over(&mut rig, 3, &uri, parked);
    ended(&mut rig, 2, server);
    rig.assert_flow(
        &[],
        "A>B INVITE, B>A 180, B>A 200, A>B ACK, C>A INVITE, A>C 200, C>A ACK, A>B BYE, \
         B>A 200, D>A INVITE, A>D 200, D>A ACK, A>C BYE, C>A 200",
    );
    hang_up(&mut rig, (0, alice), (3, carol));
    rig.finish();
}

/// Section 2.16: bill (C) replaces bob while bob's phone rings, and not after bob has answered.
#[test]
fn flow_2_16_call_pickup() {
    let mut rig = rig(3);
    let here = rig.call(0, 1);
    let bob = ringing(&mut rig, 0, 1);
    let uri = instead_of(&rig, 1, "SIP/2.0 180") + "%3Bearly-only";
    let (alice, bill) = take_over(&mut rig, 2, &uri, here);
    let end = End::Cancelled { reason: String::new() };
    assert_eq!(rig.expect(1), Event::Ended { call: bob, end });
    hang_up(&mut rig, (0, alice), (2, bill));
    rig.assert_flow(
        &[],
        "A>B INVITE, B>A 180, C>A INVITE, A>C 200, A>B CANCEL, B>A 200, B>A 487, A>B ACK, \
         C>A ACK, A>C BYE, C>A 200",
    );
    let (alice, bob) = talking(&mut rig, 0, 1);
    let uri = instead_of(&rig, 1, "SIP/2.0 200") + "%3Bearly-only";
    let late = rig.call_uri(2, &uri, SESSION);
    let failure = Failure::Refused { status: 486, reason: "Busy Here".into() };
    assert_eq!(rig.expect(2), Event::Ended { call: late, end: End::Failed(failure) });
    hang_up(&mut rig, (0, alice), (1, bob));
    rig.finish();
}
