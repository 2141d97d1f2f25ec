//! The race conditions of RFC 5407 section 3 through the B2BUA (S): alice (A) has called bob (B).
//! Each race is tried on both legs where both ends can cause it, since the B2BUA is the callee of
//! the one leg and the caller of the other. Section 2 has the states that section 3 names.
//!
//! | flow | omitted | reason |
//! | --- | --- | --- |
//! | 3.2.4 | the BYE before the ACK, sent by S | the B2BUA waits (RFC 3261 section 15) |
//! | appendix E | all | `calls` and `rfc5359` have branches of forked calls |

mod rig;

use rig::flow::{SHORT, invite, of_callee, of_caller};
use rig::{Rig, session};
use sip::{HeaderName, Instant, Method};
use sip_ua::{CallId, Event};
use std::time::Duration;
use test_support::flow::value;

const TALK: &str = "A>B INVITE, B>A 180, B>A 200, A>B ACK";

/// The time in which a message of one phone can cross one of the other on any of the legs.
const CROSSING: std::ops::RangeInclusive<u64> = 0..=12;

fn description(phone: usize, port: u16) -> String {
    String::from_utf8(session(phone, port, "sendrecv")).expect("text")
}

/// Two phones without agents in an established call. Each has sent and received all messages
/// except the ACK of the caller.
struct Raw {
    rig: Rig,
    /// The last response that alice has got.
    answer: Vec<u8>,
    /// The INVITE that bob has got.
    invite: Vec<u8>,
}

/// Alice calls, with an offer or without, and bob rings.
fn ringing(offer: &[u8]) -> Raw {
    let mut rig = Rig::exact(2);
    rig.script(0);
    rig.script(1);
    rig.send(0, &invite(0, 1, "", offer));
    let invite = rig.mail(1, "INVITE");
    rig.reply(1, &invite, (180, "b"), "", b"");
    let answer = rig.mail(0, "SIP/2.0 180");
    Raw { rig, answer, invite }
}

/// Bob answers, too.
fn answered(offer: &[u8]) -> Raw {
    let mut raw = ringing(offer);
    raw.rig.reply(1, &raw.invite, (200, "b"), "", &session(1, 5000, "sendrecv"));
    raw.answer = raw.rig.mail(0, "SIP/2.0 200");
    raw
}

/// Both have talked.
fn talking() -> Raw {
    let mut raw = answered(&session(0, 4000, "sendrecv"));
    raw.rig.mail(1, "ACK");
    raw.rig.send(0, &of_caller(Method::Ack, &raw.answer, 0, 1, "", ""));
    raw.rig.pass(SHORT);
    raw.rig.assert_flow(
        "A>S INVITE, S>B INVITE, B>S 180, S>A 180, B>S 200, S>A 200, S>B ACK, A>S ACK",
    );
    raw
}

impl Raw {
    /// Returns a request of alice, or of bob, within the dialog.
    fn request(&self, phone: usize, method: Method<'_>, cseq: u32, body: &str) -> Vec<u8> {
        match phone {
            0 => of_caller(method, &self.answer, 0, cseq, "", body),
            _ => {
                let to = value(&self.invite, HeaderName::To);
                let request = String::from_utf8(of_callee(method, &self.invite, 1, cseq, "", body));
                // The INVITE has no tag of bob.
                let text = request.expect("text");
                text.replace(&format!("From: {to}\r\n"), &format!("From: {to};tag=b\r\n"))
                    .into_bytes()
            }
        }
    }

    /// One phone has sent a BYE. The other one gets it, and no state is left.
    fn ends(mut self, other: usize) {
        let bye = self.rig.mail(other, "BYE");
        self.rig.reply(other, &bye, (200, ""), "", b"");
        self.rig.finish();
    }
}

/// Two agents in a call. Returns its identifiers at both.
fn agents() -> (Rig, CallId, CallId) {
    let mut rig = Rig::exact(2);
    let (alice, bob) = rig.talk(0, 1);
    rig.assert_relayed(TALK);
    (rig, alice, bob)
}

/// The retransmitted INVITE gets the 200 again, and bob gets no second call.
#[test]
fn flow_3_1_1_an_invite_is_retransmitted_after_the_answer() {
    let offer = session(0, 4000, "sendrecv");
    let mut raw = answered(&offer);
    raw.rig.send(0, &invite(0, 1, "", &offer));
    let again = raw.rig.mail(0, "SIP/2.0 200");
    assert_eq!(again, raw.answer);
    raw.rig.send(0, &of_caller(Method::Ack, &raw.answer, 0, 1, "", ""));
    raw.rig.pass(SHORT);
    raw.rig.assert_flow(
        "A>S INVITE, S>B INVITE, B>S 180, S>A 180, B>S 200, S>A 200, S>B ACK, \
         A>S INVITE, S>A 200, A>S ACK",
    );
    let bye = raw.request(0, Method::Bye, 2, "");
    raw.rig.send(0, &bye);
    raw.ends(1);
}

/// The CANCEL gets a 200 and has no effect. The call is ended by a BYE after the ACK.
#[test]
fn flow_3_1_2_a_cancel_crosses_the_answer() {
    for (wait, here) in [
        (3, "A>S CANCEL, S>A 200, S>A 200, A>S ACK, A>S BYE, S>A 200"),
        (7, "S>A 200, A>S CANCEL, A>S ACK, A>S BYE, S>A 200, S>A 200"),
        // The caller knows of the answer.
        (12, "S>A 200, A>S ACK, A>S BYE, S>A 200"),
    ] {
        let mut rig = Rig::exact(2);
        let alice = rig.call(0, 1, &session(0, 4000, "sendrecv"));
        let bob = rig.ringing(0, 1);
        rig.act(1, |phone, now| phone.answer(now, bob, &session(1, 5000, "sendrecv")));
        rig.pass(Duration::from_millis(wait));
        rig.hang_up(0, alice);
        rig.expect_where(1, |event| matches!(event, Event::Ended { .. }));
        rig.pass(SHORT);
        rig.assert_flow(&format!(
            "A>S INVITE, S>A 180, {here}, \
             S>B INVITE, B>S 180, B>S 200, S>B ACK, S>B BYE, B>S 200"
        ));
        rig.finish();
    }
}

/// A BYE in the early dialog crosses the answer, on the leg of bob or on that of alice. The call
/// ends at both ends.
#[test]
fn flow_3_1_3_a_bye_of_the_early_dialog_crosses_the_answer() {
    for (wait, flow) in [
        (2, "A>S BYE, S>A 200, S>A 487, A>S ACK, B>S 200, S>B CANCEL, S>B ACK, S>B BYE, B>S 200"),
        (7, "B>S 200, S>B ACK, S>A 200, A>S BYE, A>S ACK, S>A 200, S>B BYE, B>S 200"),
    ] {
        let mut raw = ringing(&session(0, 4000, "sendrecv"));
        raw.rig.assert_flow("A>S INVITE, S>B INVITE, B>S 180, S>A 180");
        let bye = raw.request(0, Method::Bye, 2, "");
        if wait == 2 {
            raw.rig.send(0, &bye);
            raw.rig.pass(Duration::from_millis(wait));
        }
        raw.rig.reply(1, &raw.invite, (200, "b"), "", &session(1, 5000, "sendrecv"));
        raw.rig.pass(Duration::from_millis(wait));
        if wait == 7 {
            raw.rig.send(0, &bye);
            raw.answer = raw.rig.mail(0, "SIP/2.0 200");
            raw.rig.send(0, &of_caller(Method::Ack, &raw.answer, 0, 1, "", ""));
        } else {
            let refusal = raw.rig.mail(0, "SIP/2.0 487");
            raw.rig.send(0, &reinvite_ack(&invite(0, 1, "", b""), &refusal));
        }
        let bye = raw.rig.mail(1, "BYE");
        raw.rig.reply(1, &bye, (200, ""), "", b"");
        raw.rig.pass(Duration::from_secs(40));
        raw.rig.assert_flow(flow);
        raw.rig.finish();
    }
}

/// The ACK is lost, and the next request is a re-INVITE: it proves that the 200 has arrived.
#[test]
fn flow_3_1_4_a_reinvite_arrives_before_the_ack_of_an_answer() {
    let mut raw = answered(&session(0, 4000, "sendrecv"));
    raw.rig.mail(1, "ACK");
    raw.rig.lose(0, "ACK");
    raw.rig.send(0, &of_caller(Method::Ack, &raw.answer, 0, 1, "", ""));
    let reinvite = raw.request(0, Method::Invite, 2, &description(0, 4002));
    raw.rig.send(0, &reinvite);
    let passed = raw.rig.mail(1, "INVITE");
    assert_eq!(raw.rig.described(1, "INVITE").matches("m=audio 4002 ").count(), 1);
    raw.rig.reply(1, &passed, (200, "b"), "", &session(1, 5000, "sendrecv"));
    let answer = raw.rig.mail(0, "SIP/2.0 200");
    assert_eq!(value(&answer, HeaderName::CSeq), "2 INVITE");
    raw.rig.mail(1, "ACK");
    raw.rig.send(0, &of_caller(Method::Ack, &answer, 0, 2, "", ""));
    raw.rig.pass(Duration::from_secs(40));
    assert_eq!(raw.rig.b2bua().calls(), 1);
    let bye = raw.request(0, Method::Bye, 3, "");
    raw.rig.send(0, &bye);
    raw.ends(1);
}

/// The lost ACK has the answer to bob's offer. The re-INVITE has to wait for it.
#[test]
fn flow_3_1_5_a_reinvite_arrives_before_the_answer_in_the_ack() {
    let mut raw = answered(b"");
    let ack = of_caller(Method::Ack, &raw.answer, 0, 1, "", &description(0, 4000));
    raw.rig.lose(0, "ACK");
    raw.rig.send(0, &ack);
    let reinvite = raw.request(0, Method::Invite, 2, &description(0, 4002));
    raw.rig.send(0, &reinvite);
    let refusal = raw.rig.mail(0, "SIP/2.0 491");
    assert_eq!(value(&refusal, HeaderName::CSeq), "2 INVITE");
    raw.rig.send(0, &reinvite_ack(&reinvite, &refusal));
    assert_eq!(raw.rig.count(1, "ACK"), 0);
    let again = raw.rig.mail(0, "SIP/2.0 200");
    assert_eq!(again, raw.answer);
    raw.rig.send(0, &ack);
    raw.rig.mail(1, "ACK");
    assert!(raw.rig.described(1, "ACK").contains("m=audio 4000 "));
    let reinvite = raw.request(0, Method::Invite, 3, &description(0, 4002));
    raw.rig.send(0, &reinvite);
    let passed = raw.rig.mail(1, "INVITE");
    raw.rig.reply(1, &passed, (200, "b"), "", &session(1, 5000, "sendrecv"));
    let answer = raw.rig.mail(0, "SIP/2.0 200");
    raw.rig.send(0, &of_caller(Method::Ack, &answer, 0, 3, "", ""));
    raw.rig.pass(SHORT);
    let bye = raw.request(0, Method::Bye, 4, "");
    raw.rig.send(0, &bye);
    raw.ends(1);
}

/// Returns the ACK of a refused request.
fn reinvite_ack(request: &[u8], refusal: &[u8]) -> Vec<u8> {
    let request = sip::Message::parse(request).expect("a request");
    let mut ack = Vec::new();
    request.write_ack(&sip::Message::parse(refusal).expect("a response"), &mut ack);
    ack
}

/// The ACK is lost. The BYE ends the retransmissions of the 200.
#[test]
fn flow_3_1_6_a_bye_arrives_before_the_ack() {
    let mut raw = answered(&session(0, 4000, "sendrecv"));
    raw.rig.lose(0, "ACK");
    raw.rig.send(0, &of_caller(Method::Ack, &raw.answer, 0, 1, "", ""));
    let bye = raw.request(0, Method::Bye, 2, "");
    raw.rig.send(0, &bye);
    let bye = raw.rig.mail(1, "BYE");
    raw.rig.reply(1, &bye, (200, ""), "", b"");
    raw.rig.pass(Duration::from_secs(40));
    raw.rig.assert_flow(
        "A>S INVITE, S>B INVITE, B>S 180, S>A 180, B>S 200, S>A 200, S>B ACK, A>S ACK, \
         A>S BYE, S>A 200, S>B BYE, B>S 200",
    );
    raw.rig.finish();
}

/// The first phone hangs up, and the second one acts while the BYE is on the way to it. `crossing`
/// are the messages between the second phone (y) and the B2BUA.
fn mortal(crossing: &str, act: impl Fn(&mut sip_ua::Agent, Instant, CallId)) {
    for first in 0..2 {
        let (mut rig, alice, bob) = agents();
        let (calls, second) = ([alice, bob], 1 - first);
        rig.act(first, |phone, now| phone.hang_up(now, calls[first]));
        rig.pass(Duration::from_millis(7));
        rig.act(second, |phone, now| {
            act(phone, now, calls[second]);
            Ok(())
        });
        rig.pass(SHORT);
        let flow = format!("x>S BYE, S>x 200, {crossing}");
        let name = |phone: usize| ["A", "B"][phone];
        rig.assert_flow(&flow.replace('x', name(first)).replace('y', name(second)));
        rig.finish();
    }
}

/// Both hang up: each BYE gets a 200.
#[test]
fn flow_3_2_1_two_byes_cross() {
    mortal("S>y BYE, y>S BYE, y>S 200, S>y 200", |phone, now, call| {
        phone.hang_up(now, call).expect("the call stands");
    });
}

/// The re-INVITE gets a 481, and the other phone does not get it.
#[test]
fn flow_3_2_2_a_reinvite_crosses_a_bye() {
    mortal("S>y BYE, y>S INVITE, y>S 200, S>y 481, y>S ACK", |phone, now, call| {
        phone.offer(now, call, session(0, 4002, "sendrecv")).expect("the call stands");
    });
}

/// A phone hangs up while the 200 to its re-INVITE is on the way. It is acknowledged by each
/// sender of the re-INVITE, and ends nothing twice.
#[test]
fn flow_3_2_3_the_answer_to_a_reinvite_crosses_a_bye() {
    for first in 0..2 {
        let (mut rig, alice, bob) = agents();
        let (calls, second) = ([alice, bob], 1 - first);
        let offer = session(first, 4002, "sendrecv");
        rig.act(first, |phone, now| phone.offer(now, calls[first], offer));
        rig.expect_where(second, |event| matches!(event, Event::Offer { .. }));
        let answer = session(second, 5002, "sendrecv");
        rig.act(second, |phone, now| phone.accept(now, calls[second], &answer));
        rig.pass(Duration::from_millis(7));
        // The 200 is between the B2BUA and the first phone.
        rig.act(first, |phone, now| phone.hang_up(now, calls[first]));
        rig.pass(SHORT);
        let flow = "x>S INVITE, S>x 200, x>S BYE, x>S ACK, S>x 200, \
                    S>y INVITE, y>S 200, S>y ACK, S>y BYE, y>S 200";
        let name = |phone: usize| ["A", "B"][phone];
        rig.assert_flow(&flow.replace('x', name(first)).replace('y', name(second)));
        rig.finish();
    }
}

/// The same before the other phone has answered: the 200 crosses the BYE on its leg.
#[test]
fn flow_3_2_3_the_answer_to_a_reinvite_crosses_a_bye_on_the_other_leg() {
    for first in 0..2 {
        let (mut rig, alice, bob) = agents();
        let (calls, second) = ([alice, bob], 1 - first);
        let offer = session(first, 4002, "sendrecv");
        rig.act(first, |phone, now| phone.offer(now, calls[first], offer));
        rig.expect_where(second, |event| matches!(event, Event::Offer { .. }));
        rig.act(first, |phone, now| phone.hang_up(now, calls[first]));
        rig.pass(Duration::from_millis(7));
        let answer = session(second, 5002, "sendrecv");
        rig.act(second, |phone, now| phone.accept(now, calls[second], &answer));
        rig.pass(SHORT);
        let flow = "x>S INVITE, x>S BYE, S>x 200, S>x 487, x>S ACK, \
                    S>y INVITE, S>y BYE, y>S 200, y>S 200, S>y ACK";
        let name = |phone: usize| ["A", "B"][phone];
        rig.assert_flow(&flow.replace('x', name(first)).replace('y', name(second)));
        rig.finish();
    }
}

/// Bob sends the BYE before it gets the ACK. The ACK of a dialog that has ended is ignored.
#[test]
fn flow_3_2_4_an_ack_crosses_a_bye() {
    let mut raw = answered(&session(0, 4000, "sendrecv"));
    let bye = raw.request(1, Method::Bye, 1, "");
    raw.rig.send(1, &bye);
    let ended = raw.rig.mail(1, "SIP/2.0 200");
    assert_eq!(value(&ended, HeaderName::CSeq), "1 BYE");
    // The B2BUA waits for the ACK of alice.
    raw.rig.pass(SHORT);
    assert_eq!(raw.rig.count(0, "BYE"), 0);
    raw.rig.send(0, &of_caller(Method::Ack, &raw.answer, 0, 1, "", ""));
    let bye = raw.rig.mail(0, "BYE");
    raw.rig.send(0, &of_caller(Method::Ack, &raw.answer, 0, 1, "", ""));
    raw.rig.reply(0, &bye, (200, ""), "", b"");
    raw.rig.pass(SHORT);
    raw.rig.assert_flow(
        "A>S INVITE, S>A 180, S>A 200, A>S ACK, S>A BYE, A>S ACK, A>S 200, \
         S>B INVITE, B>S 180, B>S 200, S>B ACK, B>S BYE, S>B 200",
    );
    raw.rig.finish();
}

/// The request of one phone crosses the one of the other on the leg of the second phone. Both get a
/// 491. Then bob makes his offer again, and alice accepts it.
fn crosses(methods: [Method<'_>; 2]) {
    for first in 0..2 {
        let (mut raw, second) = (talking(), 1 - first);
        let request = |raw: &Raw, phone: usize, cseq| {
            raw.request(phone, methods[phone], cseq, &description(phone, 4002))
        };
        let requests = [0, 1].map(|phone| request(&raw, phone, 2));
        raw.rig.send(first, &requests[first]);
        raw.rig.pass(Duration::from_millis(7));
        raw.rig.send(second, &requests[second]);
        let passed = raw.rig.mail(second, "INVITE");
        raw.rig.reply(second, &passed, (491, ""), "", b"");
        let refusals = [0, 1].map(|phone| raw.rig.mail(phone, "SIP/2.0 491"));
        for phone in [0, 1].into_iter().filter(|phone| methods[*phone] == Method::Invite) {
            raw.rig.send(phone, &reinvite_ack(&requests[phone], &refusals[phone]));
        }
        raw.rig.pass(SHORT);
        let name = |phone: usize| ["A", "B"][phone];
        let ack = |phone: usize| match methods[phone] {
            Method::Invite => format!(", {}>S ACK", name(phone)),
            _ => String::new(),
        };
        let flow = format!(
            "x>S {}, S>x 491{}, S>y INVITE, y>S {}, y>S 491, S>y 491, S>y ACK{}",
            String::from_utf8_lossy(methods[first].as_bytes()),
            ack(first),
            String::from_utf8_lossy(methods[second].as_bytes()),
            ack(second),
        );
        raw.rig.assert_flow(&flow.replace('x', name(first)).replace('y', name(second)));

        let again = request(&raw, 1, 3);
        raw.rig.send(1, &again);
        let passed = raw.rig.mail(0, "INVITE");
        assert!(raw.rig.described(0, "INVITE").contains("m=audio 4002 "));
        raw.rig.reply(0, &passed, (200, "f0"), "", &session(0, 4000, "recvonly"));
        raw.rig.mail(0, "ACK");
        let answer = raw.rig.mail(1, "SIP/2.0 200");
        assert!(raw.rig.described(1, "SIP/2.0 200").ends_with("a=recvonly\r\n"));
        assert!(value(&answer, HeaderName::CSeq).starts_with("3 "));
        if methods[1] == Method::Invite {
            let ack = raw.request(1, Method::Ack, 3, "");
            raw.rig.send(1, &ack);
        }
        raw.rig.pass(SHORT);
        let bye = raw.request(0, Method::Bye, 3, "");
        raw.rig.send(0, &bye);
        raw.ends(1);
    }
}

#[test]
fn flow_3_3_1_two_reinvites_cross() {
    crosses([Method::Invite, Method::Invite]);
}

#[test]
fn flow_3_3_2_an_update_and_a_reinvite_cross() {
    crosses([Method::Update, Method::Invite]);
    crosses([Method::Invite, Method::Update]);
}

/// The agents of both phones offer again after a 491: in the end one offer is accepted, and both
/// have the same session.
#[test]
fn flow_3_3_1_one_of_two_crossing_offers_is_made_again() {
    for wait in CROSSING {
        let (mut rig, alice, bob) = agents();
        let calls = [alice, bob];
        let offers = [0, 1].map(|phone| session(phone, 4002, "sendrecv"));
        rig.act(0, |phone, now| phone.offer(now, alice, offers[0].clone()));
        rig.pass(Duration::from_millis(wait));
        let crosses = rig.phones[1].may_offer(bob);
        if crosses {
            rig.act(1, |phone, now| phone.offer(now, bob, offers[1].clone()));
        }
        let mut answered = 0;
        for _ in 0..100 {
            rig.pass(Duration::from_millis(100));
            for (phone, call) in calls.into_iter().enumerate() {
                for event in rig.events(phone) {
                    if let Event::Offer { .. } = event {
                        let answer = session(phone, 4002, "recvonly");
                        rig.act(phone, |it, now| it.accept(now, call, &answer));
                    }
                    answered += usize::from(matches!(event, Event::Answer { .. }));
                }
            }
        }
        assert!(answered >= 1, "{wait} ms");
        rig.hang_up(0, alice);
        rig.finish();
    }
}

/// The REFER gets a 481, and the other phone does not get it.
#[test]
fn flow_3_3_3_a_refer_crosses_a_bye() {
    mortal("S>y BYE, y>S REFER, y>S 200, S>y 481", |phone, now, call| {
        phone.transfer(now, call, "sip:p2@192.0.2.100").expect("the call stands");
    });
}
