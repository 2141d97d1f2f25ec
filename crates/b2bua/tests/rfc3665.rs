//! The flows of RFC 3665 section 3 through the B2BUA (S), message by message, without its 100.
//!
//! | flow | omitted | reason |
//! | --- | --- | --- |
//! | 3.2, 3.3 | the first challenge | `sip-server` sends it, before the B2BUA has the INVITE |
//! | 3.4 | all | the caller finds another proxy before its INVITE reaches the B2BUA |
//! | 3.5 | the media ports of the ALG | the relay belongs to the proxy; here the origin changes |

mod rig;

use rig::flow::SHORT;
use rig::{Rig, session, without_origin};
use sip::HeaderName;
use sip_ua::{End, Event, Failure};
use std::time::Duration;
use test_support::flow::value;

const TALK: &str = "A>B INVITE, B>A 180, B>A 200, A>B ACK";

fn is_end(event: &Event) -> bool {
    matches!(event, Event::Ended { .. })
}

fn refused(rig: &mut Rig) -> u16 {
    match rig.expect_where(0, is_end) {
        Event::Ended { end: End::Failed(Failure::Refused { status, .. }), .. } => status,
        other => panic!("{other:?}"),
    }
}

#[test]
fn flow_3_1_a_call_from_phone_to_phone() {
    let mut rig = Rig::exact(2);
    let (_, bob) = rig.talk(0, 1);
    rig.hang_up(1, bob);
    rig.assert_relayed(&format!("{TALK}, B>A BYE, A>B 200"));
    rig.finish();
}

/// Both legs have a dialog of their own, with constant identifiers.
#[test]
fn flow_3_2_a_call_by_two_proxies() {
    let mut rig = Rig::exact(2);
    let (_, bob) = rig.talk(0, 1);
    rig.hang_up(1, bob);
    let dialog = |message: &str, own, other| {
        [HeaderName::CallId, own, other].map(|name| value(message.as_bytes(), name))
    };
    let (from, to) = (HeaderName::From, HeaderName::To);
    let alice = dialog(&rig.last(0, "SIP/2.0 200"), from, to);
    assert_eq!(dialog(&rig.last(0, "SIP/2.0 180"), from, to), alice);
    assert_eq!(dialog(&rig.last(0, "BYE"), to, from), alice);
    let there = dialog(&rig.last(1, "ACK"), to, from);
    assert_eq!(dialog(&rig.last(1, "SIP/2.0 200"), from, to), there);
    for (name, (here, there)) in ["Call-ID", "own tag", "tag"].iter().zip(alice.iter().zip(&there))
    {
        assert_ne!(here, there, "{name} of both legs");
    }
    rig.finish();
}

/// A proxy behind the B2BUA challenges. Its challenge reaches the caller, and the credentials of
/// the caller reach the proxy.
#[test]
fn flow_3_3_a_challenge_from_behind() {
    let mut rig = Rig::exact(2);
    rig.script(0);
    rig.script(1);
    let offer = session(0, 4000, "sendrecv");
    rig.send(0, &rig::flow::invite(0, 1, "", &offer));
    let challenge = "Proxy-Authenticate: Digest realm=\"two\", nonce=\"n\", qop=\"auth\"\r\n";
    let invite = rig.mail(1, "INVITE");
    rig.reply(1, &invite, (407, "p"), challenge, b"");
    let refusal = rig.mail(0, "SIP/2.0 407");
    assert!(challenge.contains(&value(&refusal, HeaderName::ProxyAuthenticate)));
    let credentials = "Digest username=\"alice\",realm=\"two\",response=\"00\"";
    let lines = format!("Proxy-Authorization: {credentials}\r\n");
    let again = String::from_utf8(rig::flow::invite(0, 1, &lines, &offer)).expect("text");
    rig.send(
        0,
        again.replace("z9hG4bKinvite", "z9hG4bKagain").replace("1 INV", "2 INV").as_bytes(),
    );
    let invite = rig.mail(1, "INVITE");
    assert_eq!(value(&invite, HeaderName::ProxyAuthorization), credentials);
    rig.reply(1, &invite, (486, "b"), "", b"");
    rig.mail(0, "SIP/2.0 486");
    rig.assert_flow(
        "A>S INVITE, S>B INVITE, B>S 407, S>B ACK, S>A 407, \
         A>S INVITE, S>B INVITE, B>S 486, S>B ACK, S>A 486",
    );
    rig.finish();
}

#[test]
fn flow_3_5_the_description_has_the_origin_of_the_b2bua() {
    let mut rig = Rig::exact(2);
    let (alice, _) = rig.talk(0, 1);
    for (phone, beginning, port, from) in [(1, "INVITE", 4000, 0), (0, "SIP/2.0 200", 5000, 1)] {
        let described = rig.described(phone, beginning);
        assert!(described.contains(" IN IP4 192.0.2.100\r\n"), "{described}");
        assert!(!described.contains(&format!("o=p{from} ")), "{described}");
        let own = session(from, port, "sendrecv");
        assert_eq!(without_origin(described.as_bytes()), without_origin(&own));
    }
    rig.hang_up(0, alice);
    rig.finish();
}

#[test]
fn flow_3_6_a_redirection_and_an_answer_in_the_ack() {
    let mut rig = Rig::exact(3);
    let alice = rig.call(0, 1, b"");
    let first = rig.expect_incoming(1);
    rig.act(1, |phone, now| phone.redirect(now, first, "sip:p2@192.0.2.100"));
    let event = rig.expect_where(0, |event| matches!(event, Event::Redirected { .. }));
    assert_eq!(event, Event::Redirected { call: alice, to: "sip:p2@192.0.2.100".into() });
    let bob = rig.ringing(0, 2);
    let offer = session(2, 5000, "sendrecv");
    rig.act(2, |phone, now| phone.answer(now, bob, &offer));
    let event = rig.expect_where(0, |event| matches!(event, Event::Offer { .. }));
    let Event::Offer { offer: Some(offered), .. } = event else { panic!("{event:?}") };
    assert_eq!(without_origin(&offered), without_origin(&offer));
    let answer = session(0, 4000, "sendrecv");
    rig.act(0, |phone, now| phone.accept(now, alice, &answer));
    rig.expect_where(2, |event| matches!(event, Event::Answer { .. }));
    for message in ["SIP/2.0 180", "INVITE"] {
        let phone = if message == "INVITE" { 2 } else { 0 };
        assert_eq!(rig.described(phone, message), "", "{message}");
    }
    let described = rig.described(2, "ACK");
    assert_eq!(without_origin(described.as_bytes()), without_origin(&answer));
    rig.hang_up(2, bob);
    rig.assert_flow(
        "A>S INVITE, S>B INVITE, B>S 302, S>B ACK, S>A 302, A>S ACK, \
         A>S INVITE, S>C INVITE, C>S 180, S>A 180, C>S 200, S>A 200, A>S ACK, S>C ACK, \
         C>S BYE, S>C 200, S>A BYE, A>S 200",
    );
    rig.finish();
}

#[test]
fn flow_3_7_a_reinvite_with_another_address() {
    let mut rig = Rig::exact(2);
    let (alice, bob) = rig.talk(0, 1);
    let moved = String::from_utf8(session(1, 5002, "sendrecv")).expect("text");
    let moved = moved.replace("c=IN IP4 192.0.2.2", "c=IN IP4 198.51.100.7").into_bytes();
    rig.act(1, |phone, now| phone.offer(now, bob, moved.clone()));
    let event = rig.expect_where(0, |event| matches!(event, Event::Offer { .. }));
    let Event::Offer { offer: Some(offered), .. } = event else { panic!("{event:?}") };
    assert_eq!(without_origin(&offered), without_origin(&moved));
    rig.act(0, |phone, now| phone.accept(now, alice, &session(0, 4000, "sendrecv")));
    rig.pass(SHORT);
    rig.hang_up(0, alice);
    let changed = "B>A INVITE, A>B 200, B>A ACK, A>B BYE, B>A 200";
    rig.assert_relayed(&format!("{TALK}, {changed}"));
    rig.finish();
}

#[test]
fn flow_3_8_an_unanswered_call_is_cancelled() {
    let mut rig = Rig::exact(2);
    let alice = rig.call(0, 1, &session(0, 4000, "sendrecv"));
    rig.ringing(0, 1);
    rig.hang_up(0, alice);
    let ended = rig.expect_where(1, is_end);
    assert!(matches!(ended, Event::Ended { end: End::Cancelled { .. }, .. }), "{ended:?}");
    rig.assert_relayed("A>B INVITE, B>A 180, A>B CANCEL, B>A 200, B>A 487, A>B ACK");
    rig.finish();
}

#[test]
fn flow_3_9_a_busy_callee() {
    let mut rig = Rig::exact(2);
    rig.call(0, 1, &session(0, 4000, "sendrecv"));
    let bob = rig.expect_incoming(1);
    rig.act(1, |phone, now| phone.decline(now, bob, 486));
    assert_eq!(refused(&mut rig), 486);
    rig.pass(SHORT);
    rig.assert_relayed("A>B INVITE, B>A 486, A>B ACK");
    rig.finish();
}

/// The timeout is that of the proxy in front of the callee. Its response passes.
#[test]
fn flow_3_10_a_callee_that_does_not_respond() {
    let mut rig = Rig::exact(2);
    rig.script(0);
    rig.script(1);
    rig.send(0, &rig::flow::invite(0, 1, "", &session(0, 4000, "sendrecv")));
    let invite = rig.mail(1, "INVITE");
    rig.reply(1, &invite, (100, ""), "", b"");
    rig.pass(Duration::from_secs(32));
    rig.reply(1, &invite, (480, "p"), "", b"");
    rig.mail(0, "SIP/2.0 480");
    rig.assert_flow("A>S INVITE, S>B INVITE, B>S 100, B>S 480, S>B ACK, S>A 480");
    rig.finish();
}

#[test]
fn flow_3_11_a_callee_that_is_unavailable_after_it_has_rung() {
    let mut rig = Rig::exact(2);
    rig.call(0, 1, &session(0, 4000, "sendrecv"));
    let bob = rig.ringing(0, 1);
    rig.act(1, |phone, now| phone.decline(now, bob, 480));
    assert_eq!(refused(&mut rig), 480);
    rig.pass(SHORT);
    rig.assert_relayed("A>B INVITE, B>A 180, B>A 480, A>B ACK");
    rig.finish();
}
