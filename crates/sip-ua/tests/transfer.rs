//! Transfer, messages and keys, between agents on a network with a virtual clock.

mod rig;

use barebell_sip_ua::{CallId, Config, End, Event, Failure, Transfer};
use rig::{Rig, SESSION, address};
use sip::HeaderName;
use std::time::Duration;
use test_support::flow::value;
use test_support::network::Link;

/// Alice, bob and carol.
fn rig(seed: u64, loss: u64) -> Rig {
    let configs =
        ["alice", "bob", "carol"].map(|user| Config { user: user.into(), ..Config::default() });
    let link = Link { delay: Duration::from_millis(5), loss, ..Link::default() };
    Rig::new(seed, link, &configs)
}

/// One calls the other one, which answers. Returns the identifiers at both.
fn talking(rig: &mut Rig, from: usize, to: usize) -> (CallId, CallId) {
    let here = rig.call(from, to);
    let there = incoming(rig, to);
    rig.act(to, |agent, now| agent.answer(now, there, SESSION));
    assert!(matches!(rig.expect(from), Event::Answered { call, .. } if call == here));
    rig.pass(Duration::from_secs(1));
    (here, there)
}

fn incoming(rig: &mut Rig, side: usize) -> CallId {
    match rig.expect(side) {
        Event::Incoming { call, .. } => call,
        other => panic!("{other:?}"),
    }
}

fn transfer(rig: &mut Rig, side: usize) -> Transfer {
    match rig.expect(side) {
        Event::Transfer { transfer, .. } => transfer,
        other => panic!("{other:?}"),
    }
}

/// Alice asks bob to call carol, and he does.
fn followed(rig: &mut Rig) -> (CallId, CallId, CallId) {
    let (alice, bob) = talking(rig, 0, 1);
    let uri = format!("sip:carol@{}", address(2));
    rig.act(0, |agent, now| agent.transfer(now, alice, &uri));
    let asked = Event::TransferAsked { call: bob, to: uri, replaces: false };
    assert_eq!(rig.expect(1), asked);
    let new = rig.act(1, |agent, now| agent.follow(now, bob, SESSION.to_vec()));
    assert_eq!(transfer(rig, 0), Transfer::Accepted);
    (alice, bob, new)
}

#[test]
fn a_call_is_transferred_blindly() {
    let mut rig = rig(1, 0);
    let (alice, bob, new) = followed(&mut rig);
    let carol = incoming(&mut rig, 2);
    assert_eq!(transfer(&mut rig, 0), Transfer::Progress { status: 100 });
    rig.act(2, |agent, now| agent.ring(now, carol, b""));
    assert_eq!(transfer(&mut rig, 0), Transfer::Progress { status: 180 });
    rig.act(2, |agent, now| agent.answer(now, carol, SESSION));
    assert_eq!(transfer(&mut rig, 0), Transfer::Done);
    rig.act(0, |agent, now| agent.hang_up(now, alice));
    let events = rig.events(1);
    assert!(
        events.iter().any(|event| matches!(event, Event::Answered { call, .. } if *call == new))
    );
    rig.pass(Duration::from_secs(1));
    let end = End::HungUpByPeer { reason: String::new() };
    assert!(rig.events(1).contains(&Event::Ended { call: bob, end }));
    rig.act(2, |agent, now| agent.hang_up(now, carol));
    rig.finish();
}

#[test]
fn a_transfer_that_comes_to_nothing_is_told_and_the_call_stands() {
    let mut rig = rig(1, 0);
    let (alice, bob, _) = followed(&mut rig);
    let carol = incoming(&mut rig, 2);
    rig.act(2, |agent, now| agent.decline(now, carol, 486));
    assert_eq!(transfer(&mut rig, 0), Transfer::Progress { status: 100 });
    let failure = Failure::Refused { status: 486, reason: "Busy Here".into() };
    assert_eq!(transfer(&mut rig, 0), Transfer::Failed(failure));
    // Either end can request it again.
    let uri = format!("sip:carol@{}", address(2));
    rig.act(1, |agent, now| agent.transfer(now, bob, &uri));
    assert!(matches!(rig.expect(0), Event::TransferAsked { .. }));
    rig.act(0, |agent, now| agent.refuse_transfer(now, alice, 603));
    rig.events(1);
    rig.pass(Duration::from_secs(1));
    let failure = Failure::Refused { status: 603, reason: "Decline".into() };
    let told = Event::Transfer { call: bob, transfer: Transfer::Failed(failure) };
    assert!(rig.events(1).contains(&told));
    rig.act(0, |agent, now| agent.hang_up(now, alice));
    rig.finish();
}

#[test]
fn two_calls_become_one() {
    let mut rig = rig(1, 0);
    let (to_bob, bob) = talking(&mut rig, 0, 1);
    let (to_carol, carol) = talking(&mut rig, 0, 2);
    rig.act(0, |agent, now| agent.transfer_to(now, to_bob, to_carol));
    match rig.expect(1) {
        Event::TransferAsked { call, replaces: true, .. } => assert_eq!(call, bob),
        other => panic!("{other:?}"),
    }
    rig.act(1, |agent, now| agent.follow(now, bob, SESSION.to_vec()));
    let new = match rig.expect(2) {
        Event::Incoming { call, replaces, .. } => {
            assert_eq!(replaces, Some(carol));
            call
        }
        other => panic!("{other:?}"),
    };
    rig.act(2, |agent, now| agent.answer(now, new, SESSION));
    assert_eq!(rig.expect(2), Event::Ended { call: carol, end: End::Replaced { by: new } });
    rig.pass(Duration::from_secs(1));
    let events = rig.events(0);
    let done = Event::Transfer { call: to_bob, transfer: Transfer::Done };
    assert!(events.contains(&done), "{events:?}");
    let is_over = |event: &Event| matches!(event, Event::Ended { call, .. } if *call == to_carol);
    assert!(events.iter().any(is_over), "{events:?}");
    rig.act(0, |agent, now| agent.hang_up(now, to_bob));
    rig.act(2, |agent, now| agent.hang_up(now, new));
    rig.finish();
}

#[test]
fn nobody_replaces_a_call_that_he_does_not_know() {
    let mut rig = rig(1, 0);
    let (to_bob, bob) = talking(&mut rig, 0, 1);
    let uri = format!("sip:carol@{}?Replaces=x%3Bto-tag%3D1%3Bfrom-tag%3D2", address(2));
    assert!(rig.try_act(0, |agent, now| agent.transfer(now, to_bob, &uri)).is_err());
    // Carol's call is over when bob calls.
    let (to_carol, _) = talking(&mut rig, 0, 2);
    rig.act(0, |agent, now| agent.transfer_to(now, to_bob, to_carol));
    assert!(matches!(rig.expect(1), Event::TransferAsked { .. }));
    rig.act(0, |agent, now| agent.hang_up(now, to_carol));
    rig.pass(Duration::from_secs(1));
    rig.events(0);
    rig.act(1, |agent, now| agent.follow(now, bob, SESSION.to_vec()));
    rig.pass(Duration::from_secs(1));
    let failed = |event: &Event| {
        matches!(
            event,
            Event::Transfer {
                transfer: Transfer::Failed(Failure::Refused { status: 481, .. }),
                ..
            }
        )
    };
    let events = rig.events(0);
    assert!(events.iter().any(failed), "{events:?}");
    rig.act(0, |agent, now| agent.hang_up(now, to_bob));
    rig.finish();
}

#[test]
fn messages_arrive_or_it_is_told_why_not() {
    let mut rig = rig(1, 0);
    let uri = format!("sip:bob@{}", address(1));
    let message = rig.act(0, |agent, now| agent.message(now, None, &uri, "Grüße"));
    match rig.expect(1) {
        Event::Message { text, from, .. } => {
            assert_eq!(text, "Grüße");
            assert!(from.contains("sip:alice@"), "{from}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(rig.expect(0), Event::MessageSent { message, result: Ok(()) });
    let nobody = format!("sip:dave@{}", address(7));
    let message = rig.act(0, |agent, now| agent.message(now, None, &nobody, "x"));
    let result = Err(Failure::TimedOut);
    assert_eq!(rig.expect(0), Event::MessageSent { message, result });
    rig.finish();
}

#[test]
fn keys_are_told_by_info() {
    let mut rig = rig(1, 0);
    let (alice, bob) = talking(&mut rig, 0, 1);
    for key in ['5', '#', 'D'] {
        rig.act(0, |agent, now| agent.press(now, alice, key));
        assert_eq!(rig.expect(1), Event::Key { call: bob, key });
    }
    rig.act(0, |agent, now| agent.hang_up(now, alice));
    rig.finish();
}

#[test]
fn transfers_end_whatever_is_lost() {
    for seed in 0..100 {
        let mut rig = rig(seed, 150);
        let to_bob = rig.call(0, 1);
        let mut calls = vec![(0, to_bob)];
        let mut end = false;
        while !end {
            match rig.expect_any() {
                (side @ 1.., Event::Incoming { call, .. }) => {
                    calls.push((side, call));
                    let _ = rig.try_act(side, |agent, now| agent.answer(now, call, SESSION));
                }
                (0, Event::Answered { .. }) => {
                    let uri = format!("sip:carol@{}", address(2));
                    let _ = rig.try_act(0, |agent, now| agent.transfer(now, to_bob, &uri));
                }
                (1, Event::TransferAsked { call, .. }) => {
                    let session = SESSION.to_vec();
                    let new = rig.try_act(1, |agent, now| agent.follow(now, call, session));
                    calls.extend(new.map(|new| (1, new)));
                }
                (
                    0,
                    Event::Transfer { transfer: Transfer::Done | Transfer::Failed(_), .. }
                    | Event::Ended { .. },
                ) => end = true,
                _ => {}
            }
        }
        rig.pass(Duration::from_secs(100));
        for (side, call) in calls {
            let _ = rig.try_act(side, |agent, now| agent.hang_up(now, call));
        }
        rig.finish();
    }
}

#[test]
fn who_hangs_up_before_his_wish_is_answered_hears_no_more_of_it() {
    let mut rig = rig(1, 0);
    let (alice, bob) = talking(&mut rig, 0, 1);
    let uri = format!("sip:carol@{}", address(2));
    rig.act(0, |agent, now| agent.transfer(now, alice, &uri));
    assert!(matches!(rig.expect(1), Event::TransferAsked { .. }));
    rig.act(0, |agent, now| agent.hang_up(now, alice));
    assert_eq!(rig.expect(0), Event::Ended { call: alice, end: End::HungUp });
    assert!(matches!(rig.expect(1), Event::Ended { call, .. } if call == bob));
    assert!(rig.try_act(0, |agent, now| agent.hang_up(now, alice)).is_err());
    rig.finish();
    assert_eq!(rig.events(0), []);
    rig.assert_flow(&[], "A>B INVITE, B>A 200, A>B ACK, A>B REFER, A>B BYE, B>A 200, B>A 487");
}

#[test]
fn nobody_is_told_of_a_transfer_for_more_than_three_minutes() {
    let configs = ["alice", "bob", "carol"].map(|user| Config {
        user: user.into(),
        ringing: sip::Duration::from_secs(400),
        ..Config::default()
    });
    let link = Link { delay: Duration::from_millis(5), ..Link::default() };
    let mut rig = Rig::new(1, link, &configs);
    let (alice, _, new) = followed(&mut rig);
    let carol = incoming(&mut rig, 2);
    rig.act(0, |agent, now| agent.hang_up(now, alice));
    rig.act(2, |agent, now| agent.ring(now, carol, b""));
    rig.pass(Duration::from_secs(200));
    rig.act(2, |agent, now| agent.answer(now, carol, SESSION));
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.count(1, "NOTIFY"), 2);
    rig.act(1, |agent, now| agent.hang_up(now, new));
    rig.finish();
}

#[test]
fn a_uri_sets_replaces_and_subject_and_no_other_header_fields() {
    let mut rig = rig(1, 0);
    let uri =
        format!("sip:bob?x@{}?Subject=x&Warning=y&Replaces=a%3Bto-tag=1%3Bfrom-tag=2", address(1));
    let call = rig.call_uri(0, &uri, SESSION);
    let failure =
        Failure::Refused { status: 481, reason: "Call/Transaction Does Not Exist".into() };
    assert_eq!(rig.expect(0), Event::Ended { call, end: End::Failed(failure) });
    let invite = rig.last(address(0), address(1), "INVITE");
    assert!(invite.starts_with(format!("INVITE sip:bob?x@{} SIP/2.0\r\n", address(1)).as_bytes()));
    assert_eq!(value(invite, HeaderName::To), format!("<sip:bob?x@{}>", address(1)));
    assert_eq!(value(invite, HeaderName::Replaces), "a;to-tag=1;from-tag=2");
    assert_eq!(value(invite, HeaderName::Subject), "x");
    assert_eq!(value(invite, HeaderName::Warning), "");
    rig.finish();
}
