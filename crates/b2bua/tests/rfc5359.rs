//! The flows of RFC 5359 section 2 through the B2BUA (S), message by message, without its
//! 100. The phones are alice (A), bob (B), carol (C) and so on; each call between two of them has
//! two legs.
//!
//! | flow | omitted | reason |
//! | --- | --- | --- |
//! | 2.3, 2.15 | REFER to the server, and its NOTIFY | outside of calls: it passes the proxy only |
//! | 2.4 | the NOTIFY after the BYE is refused | the dialog of each leg ends with the BYE |
//! | 2.6 | MESSAGE | it is outside of calls, and passes the proxy only |
//! | 2.7 to 2.9, 2.12 | the decisions of the proxy | behind the B2BUA: its responses are scripted |
//! | 2.11 | all | Join (RFC 3911) is unsupported by the phones |
//! | 2.13, 2.14 | the challenge, the list | they are those of the proxy, whose refusal passes |
//! | 2.15, 2.16 | SUBSCRIBE | dialog events (RFC 4235) pass the proxy only |
//! | 2.17 | all | it consists of dialog events; its calls are those of RFC 3665 |
//! | 2.18 | all | its REFER is outside of calls; its call is that of RFC 3665 |

mod rig;

use rig::flow::{SHORT, replaces};
use rig::{Rig, address, session, without_origin};
use sip::HeaderName;
use sip_ua::{CallId, End, Event, Failure, Transfer};
use test_support::flow::{relayed, value};

const TALK: &str = "A>B INVITE, B>A 180, B>A 200, A>B ACK";

fn is_end(event: &Event) -> bool {
    matches!(event, Event::Ended { .. })
}

/// One end changes the session, and the other one accepts. Each gets the description of the other.
fn change(rig: &mut Rig, own: (usize, CallId), other: (usize, CallId), directions: [&str; 2]) {
    let [offer, answer] = [(own.0, directions[0]), (other.0, directions[1])]
        .map(|(phone, direction)| session(phone, 4000, direction));
    rig.act(own.0, |phone, now| phone.offer(now, own.1, offer.clone()));
    let event = rig.expect_where(other.0, |event| matches!(event, Event::Offer { .. }));
    let Event::Offer { call, offer: Some(offered) } = event else { panic!("{event:?}") };
    assert_eq!((call, without_origin(&offered)), (other.1, without_origin(&offer)));
    rig.act(other.0, |phone, now| phone.accept(now, other.1, &answer));
    let event = rig.expect_where(own.0, |event| matches!(event, Event::Answer { .. }));
    let Event::Answer { call, answer: answered } = event else { panic!("{event:?}") };
    assert_eq!((call, without_origin(&answered)), (own.1, without_origin(&answer)));
    rig.pass(SHORT);
}

/// A phone has got the BYE of the other end.
fn ended(rig: &mut Rig, phone: usize, call: CallId) {
    let event = rig.expect_where(phone, is_end);
    let is_meant = matches!(&event, Event::Ended { call: of, end: End::HungUpByPeer { .. } }
        if *of == call);
    assert!(is_meant, "{event:?}");
}

/// One end hangs up, and the other one gets that.
fn hang_up(rig: &mut Rig, own: (usize, CallId), other: (usize, CallId)) {
    rig.hang_up(own.0, own.1);
    ended(rig, other.0, other.1);
}

/// Phone `by` calls alice with the header `header` in the URI, to replace her call `old`, and she
/// answers. Returns the identifiers of the call at her phone and at the other one.
fn take_over(rig: &mut Rig, by: usize, header: &str, old: CallId) -> (CallId, CallId) {
    let uri = format!("sip:p0@192.0.2.100?{header}");
    let theirs =
        rig.act(by, |phone, now| phone.call(now, None, &uri, session(by, 6000, "sendrecv")));
    let event = rig.expect_where(0, |event| matches!(event, Event::Incoming { .. }));
    let Event::Incoming { call: new, replaces, .. } = event else { panic!("{event:?}") };
    assert_eq!(replaces, Some(old));
    let invite = rig.last(0, "INVITE");
    assert_eq!(value(invite.as_bytes(), HeaderName::Require), "replaces");
    rig.act(0, |phone, now| phone.answer(now, new, &session(0, 4000, "sendrecv")));
    let event = rig.expect_where(0, is_end);
    assert_eq!(event, Event::Ended { call: old, end: End::Replaced { by: new } });
    rig.expect_where(by, |event| matches!(event, Event::Answered { .. }));
    rig.pass(SHORT);
    (new, theirs)
}

/// Returns the URI header that replaces bob in his answered call from alice.
fn instead_of_bob(rig: &Rig) -> String {
    replaces(rig.last(1, "ACK").as_bytes(), HeaderName::To)
}

fn transfer(rig: &mut Rig, phone: usize) -> Transfer {
    match rig.expect_where(phone, |event| matches!(event, Event::Transfer { .. })) {
        Event::Transfer { transfer, .. } => transfer,
        other => panic!("{other:?}"),
    }
}

#[test]
fn flow_2_1_call_hold() {
    let mut rig = Rig::exact(2);
    let (alice, bob) = rig.talk(0, 1);
    for directions in [["sendonly", "recvonly"], ["sendrecv", "sendrecv"]] {
        change(&mut rig, (1, bob), (0, alice), directions);
    }
    hang_up(&mut rig, (0, alice), (1, bob));
    rig.assert_relayed(&format!(
        "{TALK}, B>A INVITE, A>B 200, B>A ACK, B>A INVITE, A>B 200, B>A ACK, A>B BYE, B>A 200"
    ));
    rig.finish();
}

#[test]
fn flow_2_2_consultation_hold() {
    let mut rig = Rig::exact(3);
    let (alice, bob) = rig.talk(0, 1);
    change(&mut rig, (1, bob), (0, alice), ["sendonly", "recvonly"]);
    let (second, carol) = rig.talk(1, 2);
    hang_up(&mut rig, (1, second), (2, carol));
    change(&mut rig, (1, bob), (0, alice), ["sendrecv", "sendrecv"]);
    hang_up(&mut rig, (0, alice), (1, bob));
    rig.assert_relayed(&format!(
        "{TALK}, B>A INVITE, A>B 200, B>A ACK, \
         B>C INVITE, C>B 180, C>B 200, B>C ACK, B>C BYE, C>B 200, \
         B>A INVITE, A>B 200, B>A ACK, A>B BYE, B>A 200"
    ));
    rig.finish();
}

/// A server (C) replaces bob while he has alice on hold, and he replaces the server again.
#[test]
fn flow_2_3_music_on_hold() {
    let mut rig = Rig::exact(3);
    let (alice, bob) = rig.talk(0, 1);
    change(&mut rig, (1, bob), (0, alice), ["sendonly", "recvonly"]);
    let header = instead_of_bob(&rig);
    let (music, server) = take_over(&mut rig, 2, &header, alice);
    ended(&mut rig, 1, bob);
    let header = replaces(rig.last(2, "SIP/2.0 200").as_bytes(), HeaderName::From);
    let (alice, bob) = take_over(&mut rig, 1, &header, music);
    ended(&mut rig, 2, server);
    let taken = |by: char, from: char| {
        relayed("S", &format!("{by}>A INVITE, A>{by} 200, A>{from} BYE, {by}>A ACK, {from}>A 200"))
    };
    let hold = relayed("S", &format!("{TALK}, B>A INVITE, A>B 200, B>A ACK"));
    rig.assert_flow(&format!("{hold}, {}, {}", taken('C', 'B'), taken('B', 'C')));
    hang_up(&mut rig, (0, alice), (1, bob));
    rig.finish();
}

/// Alice asks bob to call carol, and hangs up at once.
#[test]
fn flow_2_4_transfer_unattended() {
    let mut rig = Rig::exact(3);
    let (bob, alice) = rig.talk(1, 0);
    rig.act(0, |phone, now| phone.transfer(now, alice, "sip:p2@192.0.2.100"));
    let event = rig.expect_where(1, |event| matches!(event, Event::TransferAsked { .. }));
    let to = "sip:p2@192.0.2.100".to_owned();
    assert_eq!(event, Event::TransferAsked { call: bob, to, replaces: false });
    let new = rig.act(1, |phone, now| phone.follow(now, bob, session(1, 6000, "sendrecv")));
    assert_eq!(transfer(&mut rig, 0), Transfer::Accepted);
    assert_eq!(transfer(&mut rig, 0), Transfer::Progress { status: 100 });
    hang_up(&mut rig, (0, alice), (1, bob));
    let carol = rig.ringing(1, 2);
    rig.act(2, |phone, now| phone.answer(now, carol, &session(2, 7000, "sendrecv")));
    rig.expect_where(1, |event| matches!(event, Event::Answered { .. }));
    rig.pass(SHORT);
    let referred =
        |beginning, phone| value(rig.last(phone, beginning).as_bytes(), HeaderName::ReferredBy);
    assert_eq!(referred("INVITE", 2), referred("REFER", 1));
    let before = relayed(
        "S",
        "B>A INVITE, A>B 180, A>B 200, B>A ACK, A>B REFER, B>A 202, B>C INVITE, B>A NOTIFY, \
         A>B 200, A>B BYE, B>A 200, C>B 180",
    );
    let after = relayed("S", "C>B 200, B>C ACK");
    let refused = "B>S NOTIFY, S>B 481";
    rig.assert_flow(&format!("{before}, {refused}, {after}, {refused}"));
    hang_up(&mut rig, (1, new), (2, carol));
    rig.finish();
}

/// Bob asks carol to accept alice's call, and alice then replaces him.
#[test]
fn flow_2_5_transfer_attended() {
    let mut rig = Rig::exact(3);
    let (alice, bob) = rig.talk(0, 1);
    change(&mut rig, (1, bob), (0, alice), ["sendonly", "recvonly"]);
    let (second, carol) = rig.talk(1, 2);
    change(&mut rig, (1, second), (2, carol), ["sendonly", "recvonly"]);
    rig.act(1, |phone, now| phone.transfer_to(now, bob, second));
    let event = rig.expect_where(0, |event| matches!(event, Event::TransferAsked { .. }));
    assert!(matches!(event, Event::TransferAsked { replaces: true, .. }), "{event:?}");
    let here = rig.act(0, |phone, now| phone.follow(now, alice, session(0, 4000, "sendrecv")));
    let event = rig.expect_where(2, |event| matches!(event, Event::Incoming { .. }));
    let Event::Incoming { call: there, replaces: Some(replaced), .. } = event else {
        panic!("{event:?}")
    };
    assert_eq!(replaced, carol);
    rig.act(2, |phone, now| phone.answer(now, there, &session(2, 7000, "sendrecv")));
    let event = rig.expect_where(2, is_end);
    assert_eq!(event, Event::Ended { call: carol, end: End::Replaced { by: there } });
    rig.expect_where(0, |event| matches!(event, Event::Answered { .. }));
    assert_eq!(transfer(&mut rig, 1), Transfer::Accepted);
    assert_eq!(transfer(&mut rig, 1), Transfer::Progress { status: 100 });
    assert_eq!(transfer(&mut rig, 1), Transfer::Done);
    rig.pass(SHORT);
    hang_up(&mut rig, (1, bob), (0, alice));
    rig.assert_relayed(&format!(
        "{TALK}, B>A INVITE, A>B 200, B>A ACK, \
         B>C INVITE, C>B 180, C>B 200, B>C ACK, B>C INVITE, C>B 200, B>C ACK, \
         B>A REFER, A>B 202, A>C INVITE, A>B NOTIFY, B>A 200, C>A 200, C>B BYE, \
         A>C ACK, B>C 200, A>B NOTIFY, B>A 200, B>A BYE, A>B 200"
    ));
    hang_up(&mut rig, (0, here), (2, there));
    rig.finish();
}

/// Bob sends carol the URI that replaces him.
#[test]
fn flow_2_6_transfer_by_a_message() {
    let mut rig = Rig::exact(3);
    let (alice, bob) = rig.talk(0, 1);
    let header = instead_of_bob(&rig);
    let (alice, carol) = take_over(&mut rig, 2, &header, alice);
    ended(&mut rig, 1, bob);
    rig.assert_relayed(&format!("{TALK}, C>A INVITE, A>C 200, A>B BYE, C>A ACK, B>A 200"));
    hang_up(&mut rig, (0, alice), (2, carol));
    rig.finish();
}

/// Alice calls a proxy, which has no agent (B). It sends these provisional responses of different
/// phones, then an answer. Alice sees the same dialog all the time.
fn hunted(provisional: &[(u16, &str)], answer: &str) {
    let mut rig = Rig::exact(2);
    rig.script(1);
    let alice = rig.call(0, 1, &session(0, 4000, "sendrecv"));
    let invite = rig.mail(1, "INVITE");
    let mut dialogs = Vec::new();
    let mut flow = "A>S INVITE, S>B INVITE".to_owned();
    let dialog = |rig: &Rig| {
        let message = rig.last(0, "SIP/2.0 ");
        [HeaderName::CallId, HeaderName::To].map(|name| value(message.as_bytes(), name))
    };
    for (status, tag) in provisional {
        rig.reply(1, &invite, (*status, tag), "", b"");
        rig.pass(SHORT);
        flow += &format!(", B>S {status}, S>A {status}");
        dialogs.push(dialog(&rig));
    }
    rig.reply(1, &invite, (200, answer), "", &session(1, 5000, "sendrecv"));
    rig.expect_where(0, |event| matches!(event, Event::Answered { .. }));
    rig.pass(SHORT);
    dialogs.push(dialog(&rig));
    dialogs.dedup();
    assert_eq!(dialogs.len(), 1, "{dialogs:?}");
    let ack = rig.last(1, "ACK");
    assert!(value(ack.as_bytes(), HeaderName::To).ends_with(&format!(";tag={answer}")), "{ack}");
    rig.act(0, |phone, now| phone.hang_up(now, alice));
    let bye = rig.mail(1, "BYE");
    assert!(value(&bye, HeaderName::To).ends_with(&format!(";tag={answer}")));
    rig.reply(1, &bye, (200, ""), "", b"");
    rig.pass(SHORT);
    rig.assert_flow(&format!(
        "{flow}, B>S 200, S>B ACK, S>A 200, A>S ACK, A>S BYE, S>A 200, S>B BYE, B>S 200"
    ));
    rig.finish();
}

#[test]
fn flow_2_7_forwarding_unconditional() {
    hunted(&[(181, "p"), (180, "g")], "g");
}

#[test]
fn flow_2_8_forwarding_where_it_is_busy() {
    hunted(&[(181, "p"), (180, "second")], "second");
}

#[test]
fn flow_2_9_forwarding_without_an_answer() {
    hunted(&[(180, "first"), (181, "p"), (180, "second")], "second");
}

/// Bob, the mixer, changes the session with alice and calls carol.
#[test]
fn flow_2_10_conference_to_which_a_third_is_called() {
    let mut rig = Rig::exact(3);
    let (alice, bob) = rig.talk(0, 1);
    change(&mut rig, (1, bob), (0, alice), ["sendrecv", "sendrecv"]);
    let (second, carol) = rig.talk(1, 2);
    assert_eq!(rig.b2bua().calls(), 2);
    rig.assert_relayed(&format!(
        "{TALK}, B>A INVITE, A>B 200, B>A ACK, B>C INVITE, C>B 180, C>B 200, B>C ACK"
    ));
    hang_up(&mut rig, (0, alice), (1, bob));
    hang_up(&mut rig, (2, carol), (1, second));
    rig.finish();
}

#[test]
fn flow_2_12_find_me() {
    hunted(&[(180, "first"), (180, "second"), (180, "third")], "fourth");
}

/// A refusal passes with the address of its announcement.
#[test]
fn flow_2_13_call_screening() {
    let mut rig = Rig::exact(2);
    rig.script(1);
    let call = rig.call(0, 1, &session(0, 4000, "sendrecv"));
    let invite = rig.mail(1, "INVITE");
    let announcement = "Error-Info: <sip:screened@192.0.2.200>\r\n";
    rig.reply(1, &invite, (403, "p"), announcement, b"");
    let failure = Failure::Refused { status: 403, reason: "Forbidden".into() };
    let event = rig.expect_where(0, is_end);
    assert_eq!(event, Event::Ended { call, end: End::Failed(failure) });
    let refusal = rig.last(0, "SIP/2.0 403");
    assert!(refusal.contains(announcement), "{refusal}");
    assert!(!refusal.contains(&address(1).to_string()), "{refusal}");
    rig.pass(SHORT);
    rig.assert_relayed("A>B INVITE, B>A 403, A>B ACK");
    rig.finish();
}

/// A park server (C) replaces bob, and carol (D) replaces the server.
#[test]
fn flow_2_15_call_park() {
    let mut rig = Rig::exact(4);
    let (alice, bob) = rig.talk(0, 1);
    let header = instead_of_bob(&rig);
    let (parked, server) = take_over(&mut rig, 2, &header, alice);
    ended(&mut rig, 1, bob);
    let header = replaces(rig.last(2, "SIP/2.0 200").as_bytes(), HeaderName::From);
    let (alice, carol) = take_over(&mut rig, 3, &header, parked);
    ended(&mut rig, 2, server);
    rig.assert_relayed(&format!(
        "{TALK}, C>A INVITE, A>C 200, A>B BYE, C>A ACK, B>A 200, \
         D>A INVITE, A>D 200, A>C BYE, D>A ACK, C>A 200"
    ));
    hang_up(&mut rig, (0, alice), (3, carol));
    rig.finish();
}

/// Bill (C) replaces bob while bob's phone rings, and not after bob has answered.
#[test]
fn flow_2_16_call_pickup() {
    let mut rig = Rig::exact(3);
    let here = rig.call(0, 1, &session(0, 4000, "sendrecv"));
    let bob = rig.ringing(0, 1);
    let header = replaces(&rig.sent(1, "SIP/2.0 180"), HeaderName::To) + "%3Bearly-only";
    let (alice, bill) = take_over(&mut rig, 2, &header, here);
    let event = rig.expect_where(1, is_end);
    assert!(matches!(event, Event::Ended { call, end: End::Cancelled { .. } } if call == bob));
    hang_up(&mut rig, (0, alice), (2, bill));
    rig.assert_relayed(
        "A>B INVITE, B>A 180, C>A INVITE, A>C 200, A>B CANCEL, C>A ACK, B>A 200, B>A 487, \
         A>B ACK, A>C BYE, C>A 200",
    );
    let (alice, bob) = rig.talk(0, 1);
    let uri = format!("sip:p0@192.0.2.100?{}%3Bearly-only", instead_of_bob(&rig));
    rig.act(2, |phone, now| phone.call(now, None, &uri, session(2, 6000, "sendrecv")));
    let event = rig.expect_where(2, is_end);
    let Event::Ended { end: End::Failed(failure), .. } = event else { panic!("{event:?}") };
    assert_eq!(failure.status(), 486);
    hang_up(&mut rig, (0, alice), (1, bob));
    rig.finish();
}
