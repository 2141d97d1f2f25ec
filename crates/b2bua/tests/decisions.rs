//! Decisions of the owner on calls to and from trunks, with the server's proxy in front: phone 0 is
//! the user p0@a.com, the others are the trunks.

mod rig;

use barebell_b2bua::{Decision, DecisionTerms, Event as OwnerEvent, Fallback, Question, Trunk};
use rig::{Rig, session};
use sip_ua::{AccountId, CallId, End, Event};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(2);

fn rig(seed: u64, fallback: Fallback) -> Rig {
    let names = ["alpha", "beta"];
    let trunks = names.map(|name| Trunk::new(name, &format!("{name}.example"))).to_vec();
    let mut rig = Rig::office(seed, trunks);
    let terms = DecisionTerms { patience: PATIENCE.into(), fallback };
    rig.act_b2bua(|b2bua, _| b2bua.set_decisions(Some(terms)));
    rig
}

/// Phone 0 calls `number`.
fn dial(rig: &mut Rig, number: &str) -> CallId {
    let uri = format!("sip:{number}@192.0.2.100");
    let offer = session(0, 4000, "sendrecv");
    rig.act(0, |phone, now| phone.call(now, Some(AccountId(0)), &uri, offer))
}

/// The question that the owner got last.
fn question(rig: &mut Rig) -> Option<Question> {
    rig.pass(Duration::from_millis(500));
    let mut events = std::mem::take(&mut rig.owner.events).into_iter();
    events.find_map(|event| match event {
        OwnerEvent::Question(question) => Some(*question),
        _ => None,
    })
}

fn decide(rig: &mut Rig, call: u64, decision: Option<Decision>) {
    rig.act_b2bua(|b2bua, now| b2bua.decide(now, call, decision));
}

/// The status of the call of `phone` that ends next.
fn failed(rig: &mut Rig, phone: usize) -> u16 {
    let event = rig.expect_where(phone, |event| matches!(event, Event::Ended { .. }));
    let Event::Ended { end: End::Failed(failure), .. } = event else { panic!("{event:?}") };
    failure.status()
}

/// Phone `trunk` answers the call that comes, and phone 0 ends it.
fn talk(rig: &mut Rig, trunk: usize, caller: CallId) {
    let callee = rig.expect_incoming(trunk);
    let answer = session(trunk, 5000, "sendrecv");
    rig.act(trunk, |phone, now| phone.answer(now, callee, &answer));
    rig.expect_where(0, |event| matches!(event, Event::Answered { .. }));
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.expect_where(trunk, |event| matches!(event, Event::Ended { .. }));
}

#[test]
fn a_call_waits_for_its_decision_and_goes_on_through_the_named_trunks() {
    let through = |names: &[&str]| Decision::Through(names.iter().map(|&it| it.into()).collect());
    for (decision, trunk) in
        [(Decision::Allow, 1), (through(&["beta"]), 2), (through(&["unknown", "beta", "alpha"]), 2)]
    {
        let mut rig = rig(1, Fallback::Allow);
        let caller = dial(&mut rig, "0456");
        let asked = question(&mut rig).expect("a question");
        assert_eq!(asked.trunks, ["alpha", "beta"]);
        assert_eq!((asked.payer.as_deref(), asked.is_incoming), (Some("p0@a.com"), false));
        assert_eq!(
            (asked.number.as_deref(), asked.class.as_deref()),
            (Some("456"), Some("national"))
        );
        assert_eq!(rig.b2bua().uses(rig.now()).count(), 0, "a call that waits is not counted");
        decide(&mut rig, asked.call, Some(decision));
        // A second decision has no effect.
        let late = Decision::Refuse { status: 403, words: String::new() };
        decide(&mut rig, asked.call, Some(late));
        talk(&mut rig, trunk, caller);
        rig.finish();
        assert_eq!(rig.b2bua().counters().undecided, 0);
    }
}

#[test]
fn a_refusal_reaches_the_caller_with_its_words_only_in_the_house() {
    let refuse = |status, words: &str| Decision::Refuse { status, words: words.into() };
    for (status, expected) in [(486, 486), (200, 403), (799, 403)] {
        let mut rig = rig(2, Fallback::Allow);
        dial(&mut rig, "0456");
        let asked = question(&mut rig).expect("a question");
        decide(&mut rig, asked.call, Some(refuse(status, "no \"credit\"\r\nX: y")));
        assert_eq!(failed(&mut rig, 0), expected);
        let response = rig.last(0, &format!("SIP/2.0 {expected}"));
        let reason = format!("\r\nReason: SIP;cause={expected};text=\"no creditX: y\"\r\n");
        assert!(response.contains(&reason), "{response}");
        let is_told = |event: &OwnerEvent| matches!(event, OwnerEvent::Decided { words } if words.contains("no credit"));
        assert!(rig.owner.events.iter().any(is_told), "{:?}", rig.owner.events);
        rig.finish();
    }
    let mut rig = rig(3, Fallback::Allow);
    let offer = session(1, 5000, "sendrecv");
    rig.act(1, |phone, now| phone.call(now, None, "sip:+4930123@192.0.2.100", offer));
    let asked = question(&mut rig).expect("a question");
    assert_eq!((asked.is_incoming, asked.number), (true, None));
    assert_eq!(asked.trunks, ["alpha"]);
    decide(&mut rig, asked.call, Some(refuse(603, "a list of the house")));
    assert_eq!(failed(&mut rig, 1), 603);
    let response = rig.last(1, "SIP/2.0 603");
    assert!(!response.contains("house"), "{response}");
    rig.finish();
}

#[test]
fn without_a_decision_in_time_the_fallback_holds() {
    let mut allowing = rig(4, Fallback::Allow);
    let caller = dial(&mut allowing, "0456");
    let asked = question(&mut allowing).expect("a question");
    allowing.pass(PATIENCE);
    decide(&mut allowing, asked.call, Some(Decision::Refuse { status: 403, words: "late".into() }));
    talk(&mut allowing, 1, caller);
    allowing.finish();
    assert_eq!(allowing.b2bua().counters().undecided, 1);
    let mut refusing = rig(5, Fallback::Refuse);
    for decision in [None, Some(None), Some(Some(Decision::Through(vec!["other".into()])))] {
        dial(&mut refusing, "0456");
        let asked = question(&mut refusing).expect("a question");
        if let Some(decision) = decision {
            decide(&mut refusing, asked.call, decision);
        }
        assert_eq!(failed(&mut refusing, 0), 480);
    }
    refusing.finish();
    assert_eq!(refusing.b2bua().counters().undecided, 3);
}

#[test]
fn a_caller_that_hangs_up_during_the_wait_is_not_called_through() {
    let mut rig = rig(7, Fallback::Allow);
    let caller = dial(&mut rig, "0456");
    let asked = question(&mut rig).expect("a question");
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.expect_where(0, |event| matches!(event, Event::Ended { .. }));
    rig.pass(Duration::from_millis(500));
    assert_eq!(rig.b2bua().calls(), 0, "the wait ends with the call");
    assert!(!rig.b2bua().is_undecided(asked.call));
    decide(&mut rig, asked.call, Some(Decision::Allow));
    rig.finish();
    assert_eq!(rig.count(1, "INVITE "), 0, "no trunk is called");
    assert_eq!(rig.b2bua().counters().undecided, 0);
}

#[test]
fn a_caller_that_hangs_up_is_heard_while_a_trunk_is_silent() {
    let mut rig = rig(8, Fallback::Allow);
    rig.silence(1);
    let caller = dial(&mut rig, "112");
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.b2bua().calls(), 1);
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.pass(Duration::from_millis(500));
    let answer = rig.last(0, "SIP/2.0 487 ");
    assert!(answer.contains("CSeq: ") && answer.contains(" INVITE"), "{answer}");
    rig.finish();
    assert_eq!(rig.count(2, "INVITE "), 0, "the next trunk is not called");
}

#[test]
fn an_emergency_call_never_waits() {
    let mut rig = rig(6, Fallback::Refuse);
    let caller = dial(&mut rig, "112");
    talk(&mut rig, 1, caller);
    assert_eq!(question(&mut rig), None);
    rig.finish();
    assert_eq!(rig.b2bua().counters().undecided, 0);
}
