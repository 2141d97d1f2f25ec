//! Several ringing phones for one call, and unexpected answers (RFC 3261 section 13.2.2).

mod rig;

use barebell_sip_ua::{CallId, Config, End, Event, Failure};
use rig::proxy::Proxy;
use rig::{Rig, SESSION, address};
use sip::HeaderName;
use std::net::SocketAddr;
use std::time::Duration;
use test_support::flow::value;
use test_support::network::Link;

fn stranger() -> SocketAddr {
    ([192, 0, 2, 100], 5060).into()
}

fn rig() -> Rig {
    let users = ["alice", "bob", "carol"];
    let configs = users.map(|user| Config { user: user.into(), ..Config::default() });
    Rig::new(1, Link { delay: Duration::from_millis(5), ..Link::default() }, &configs)
}

/// Alice calls a stranger with several phones.
fn place(rig: &mut Rig) -> (CallId, Vec<u8>) {
    let call = rig.call_uri(0, &format!("sip:{}", stranger()), SESSION);
    (call, rig.mail(stranger(), "INVITE"))
}

fn ring(rig: &mut Rig, invite: &[u8], status: u16, tag: &str, session: &str) {
    rig.reply((stranger(), 0), invite, (status, tag), "", session);
    rig.pass(Duration::from_millis(20));
}

fn ringing(call: CallId, status: u16, branch: u32, session: Option<&str>) -> Event {
    let session = session.map(|session| session.as_bytes().to_vec());
    Event::Ringing { call, status, branch, session, is_settled: false }
}

fn hang_up(rig: &mut Rig, call: CallId, tag: &str) {
    rig.act(0, |agent, now| agent.hang_up(now, call));
    let bye = rig.mail(stranger(), "BYE");
    assert!(value(&bye, HeaderName::To).ends_with(&format!("tag={tag}")));
    rig.reply((stranger(), 0), &bye, (200, tag), "", "");
    rig.finish();
}

#[test]
fn phones_are_told_apart_and_what_rings_after_the_answer_is_not_heard() {
    let mut rig = rig();
    let (call, invite) = place(&mut rig);
    ring(&mut rig, &invite, 180, "one", "");
    ring(&mut rig, &invite, 183, "two", "v=0 two");
    ring(&mut rig, &invite, 183, "one", "v=0 one");
    ring(&mut rig, &invite, 199, "two", "");
    let expected = [
        ringing(call, 180, 0, None),
        ringing(call, 183, 1, Some("v=0 two")),
        ringing(call, 183, 0, Some("v=0 one")),
        ringing(call, 199, 1, None),
    ];
    assert_eq!(rig.events(0), expected);
    // The third phone has not rung.
    ring(&mut rig, &invite, 200, "three", "v=0 three");
    let session = Some(b"v=0 three".to_vec());
    assert_eq!(rig.events(0), [Event::Answered { call, session }]);
    ring(&mut rig, &invite, 180, "one", "");
    ring(&mut rig, &invite, 183, "four", "v=0 four");
    assert_eq!(rig.events(0), []);
    hang_up(&mut rig, call, "three");
}

#[test]
fn of_several_early_sessions_the_last_one_is_changed() {
    let mut rig = rig();
    let (call, invite) = place(&mut rig);
    for (rseq, tag) in [(1, "one"), (2, "two"), (3, "three")] {
        let lines = format!("Require: 100rel\r\nRSeq: {rseq}\r\nAllow: UPDATE, PRACK\r\n");
        rig.reply((stranger(), 0), &invite, (183, tag), &lines, "v=0");
        let prack = rig.mail(stranger(), "PRACK");
        rig.reply((stranger(), 0), &prack, (200, tag), "", "");
    }
    rig.pass(Duration::from_millis(20));
    let lines = "Require: 100rel\r\nRSeq: 4\r\n";
    rig.reply((stranger(), 0), &invite, (199, "three"), lines, "");
    let prack = rig.mail(stranger(), "PRACK");
    rig.reply((stranger(), 0), &prack, (200, "three"), "", "");
    // The last remaining phone.
    rig.act(0, |agent, now| agent.offer(now, call, b"v=0 hold".to_vec()));
    let update = rig.mail(stranger(), "UPDATE");
    assert!(value(&update, HeaderName::To).ends_with("tag=two"));
    rig.reply((stranger(), 0), &update, (200, "two"), "", "v=0 held");
    rig.events(0);
    rig.reply((stranger(), 0), &invite, (200, "one"), "", "");
    rig.pass(Duration::from_millis(20));
    // The answering phone has settled its own session before.
    let events = rig.events(0);
    let answered = Event::Answered { call, session: Some(b"v=0".to_vec()) };
    assert!(events.contains(&answered), "{events:?}");
    hang_up(&mut rig, call, "one");
}

#[test]
fn everybody_who_answers_after_the_first_is_hung_up_and_after_the_call_too() {
    let mut rig = rig();
    let (call, invite) = place(&mut rig);
    ring(&mut rig, &invite, 200, "one", "v=0");
    assert!(matches!(rig.expect(0), Event::Answered { .. }));
    for is_over in [false, true] {
        let tag = if is_over { "three" } else { "two" };
        if is_over {
            rig.act(0, |agent, now| agent.hang_up(now, call));
            let bye = rig.mail(stranger(), "BYE");
            rig.reply((stranger(), 0), &bye, (200, "one"), "", "");
            rig.pass(Duration::from_millis(20));
        }
        rig.all_mail(stranger(), "");
        ring(&mut rig, &invite, 200, tag, "v=0");
        for method in ["ACK", "BYE"] {
            let found = rig.mail(stranger(), method);
            assert!(value(&found, HeaderName::To).ends_with(&format!("tag={tag}")));
            if method == "BYE" {
                rig.reply((stranger(), 0), &found, (200, tag), "", "");
            }
        }
    }
    rig.finish();
}

#[test]
fn an_answer_that_crosses_the_cancel_is_hung_up() {
    let mut rig = rig();
    let (call, invite) = place(&mut rig);
    ring(&mut rig, &invite, 180, "one", "");
    rig.act(0, |agent, now| agent.hang_up(now, call));
    ring(&mut rig, &invite, 200, "one", "v=0");
    rig.mail(stranger(), "ACK");
    let bye = rig.mail(stranger(), "BYE");
    rig.reply((stranger(), 0), &bye, (200, "one"), "", "");
    assert!(matches!(rig.expect(0), Event::Ringing { .. }));
    assert_eq!(rig.events(0), [Event::Ended { call, end: End::HungUp }]);
    rig.finish();
}

#[test]
fn an_answer_after_64_times_t1_is_acknowledged_and_hung_up() {
    for rings in [false, true] {
        let mut rig = rig();
        let (call, invite) = place(&mut rig);
        if rings {
            // A CANCEL without a response ends the wait, too.
            ring(&mut rig, &invite, 180, "one", "");
            rig.act(0, |agent, now| agent.hang_up(now, call));
        } else {
            let end = End::Failed(Failure::TimedOut);
            assert_eq!(rig.expect(0), Event::Ended { call, end });
        }
        rig.pass(Duration::from_secs(if rings { 40 } else { 20 }));
        rig.all_mail(stranger(), "");
        ring(&mut rig, &invite, 200, "one", "v=0");
        rig.mail(stranger(), "ACK");
        let bye = rig.mail(stranger(), "BYE");
        rig.reply((stranger(), 0), &bye, (200, "one"), "", "");
        rig.finish();
    }
}

#[test]
fn two_agents_ring_behind_a_proxy_and_both_answer() {
    let mut rig = rig();
    let address_of_proxy = ([192, 0, 2, 50], 5060).into();
    rig.add_proxy(Proxy::new(address_of_proxy, vec![address(1), address(2)]));
    let call = rig.call_uri(0, &format!("sip:all@{address_of_proxy}"), SESSION);
    let mut theirs = Vec::new();
    for side in [1, 2] {
        let Event::Incoming { call, .. } = rig.expect(side) else { panic!("no call") };
        let session = format!("v=0 {side}");
        rig.act(side, |agent, now| agent.ring(now, call, session.as_bytes()));
        theirs.push(call);
    }
    rig.pass(Duration::from_secs(1));
    let branches = rig.events(0).into_iter().map(|event| match event {
        Event::Ringing { branch, session, is_settled: true, .. } => (branch, session),
        other => panic!("{other:?}"),
    });
    let branches: Vec<_> = branches.collect();
    let session = |side: usize| Some(format!("v=0 {side}").into_bytes());
    assert_eq!(branches, [(0, session(1)), (1, session(2))]);
    for (side, call) in [(2, theirs[1]), (1, theirs[0])] {
        rig.act(side, |agent, now| agent.answer(now, call, b""));
        rig.pass(Duration::from_millis(1));
    }
    assert_eq!(rig.expect(0), Event::Answered { call, session: session(2) });
    let end = End::HungUpByPeer { reason: String::new() };
    assert_eq!(rig.expect(1), Event::Ended { call: theirs[0], end });
    rig.act(0, |agent, now| agent.hang_up(now, call));
    rig.finish();
}
