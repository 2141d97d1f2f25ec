//! Agents on a network with a virtual clock: every call ends, with any packet loss.

mod rig;

use barebell_sip_ua::{
    Account, AccountError, AccountId, Agent, CallError, CallId, CallState, Config,
    DestinationError, End, Event, Failure, RegistrationState, destination,
};
use rig::{Rig, SESSION};
use sip::Instant;
use std::time::Duration;
use test_support::network::Link;

fn configs() -> [Config; 2] {
    ["alice", "bob"].map(|user| Config { user: user.into(), ..Config::default() })
}

fn rig(link: Link) -> Rig {
    Rig::new(1, link, &configs())
}

fn good() -> Link {
    Link { delay: Duration::from_millis(5), ..Link::default() }
}

/// Alice calls bob, and his agent rings.
fn ringing(rig: &mut Rig) -> (CallId, CallId) {
    let here = rig.call(0, 1);
    let there = match rig.expect(1) {
        Event::Incoming { call, offer, from, .. } => {
            assert_eq!(offer.as_deref(), Some(SESSION));
            assert!(from.contains("sip:alice@"), "{from}");
            call
        }
        other => panic!("{other:?}"),
    };
    rig.act(1, |agent, now| agent.ring(now, there, b""));
    assert!(matches!(rig.expect(0), Event::Ringing { call, status: 180, .. } if call == here));
    (here, there)
}

/// Alice calls bob, who answers.
fn talking(rig: &mut Rig) -> (CallId, CallId) {
    let (here, there) = ringing(rig);
    rig.act(1, |agent, now| agent.answer(now, there, SESSION));
    match rig.expect(0) {
        Event::Answered { call, session } => {
            assert_eq!((call, session.as_deref()), (here, Some(SESSION)));
        }
        other => panic!("{other:?}"),
    }
    (here, there)
}

#[test]
fn a_call_is_answered_and_ends_at_either_side() {
    for side in [0, 1] {
        let mut rig = rig(good());
        let calls = talking(&mut rig);
        let (own, other) = if side == 0 { calls } else { (calls.1, calls.0) };
        assert!(!rig.is_asking(side));
        rig.act(side, |agent, now| agent.hang_up(now, own));
        assert!(rig.is_asking(side), "the BYE is pending");
        assert_eq!(rig.expect(side), Event::Ended { call: own, end: End::HungUp });
        let end = End::HungUpByPeer { reason: String::new() };
        assert_eq!(rig.expect(1 - side), Event::Ended { call: other, end });
        rig.finish();
    }
}

#[test]
fn a_call_is_refused() {
    let mut rig = rig(good());
    let (here, there) = ringing(&mut rig);
    rig.act(1, |agent, now| agent.decline(now, there, 486));
    assert_eq!(rig.expect(1), Event::Ended { call: there, end: End::Declined });
    let failure = Failure::Refused { status: 486, reason: "Busy Here".into() };
    assert_eq!(rig.expect(0), Event::Ended { call: here, end: End::Failed(failure) });
    rig.finish();
}

#[test]
fn a_call_is_taken_back_while_it_rings() {
    let mut rig = rig(good());
    let (here, there) = ringing(&mut rig);
    rig.act(0, |agent, now| agent.hang_up(now, here));
    assert_eq!(rig.expect(0), Event::Ended { call: here, end: End::HungUp });
    let end = End::Cancelled { reason: String::new() };
    assert_eq!(rig.expect(1), Event::Ended { call: there, end });
    rig.finish();
}

#[test]
fn a_call_is_taken_back_while_its_way_is_looked_for() {
    let mut agent = Agent::new(Config::default(), &[1; 32]);
    let now = Instant::from_micros(1);
    let call = agent.call(now, None, "sip:bob@example.com", SESSION.to_vec()).expect("a call");
    let ticket = match agent.poll_event() {
        Some(Event::Locate { ticket, .. }) => ticket,
        other => panic!("{other:?}"),
    };
    agent.hang_up(now, call).expect("a call");
    assert_eq!(agent.poll_event(), Some(Event::Ended { call, end: End::HungUp }));
    assert_eq!((agent.calls(), agent.transactions()), (0, 0));
    agent.located(now, ticket, &[]);
    assert_eq!((agent.poll_event(), agent.poll_transmit()), (None, None));
}

#[test]
fn who_answers_while_the_call_is_taken_back_is_hung_up() {
    let mut rig = rig(good());
    let (here, there) = ringing(&mut rig);
    rig.act(1, |agent, now| agent.answer(now, there, SESSION));
    rig.act(0, |agent, now| agent.hang_up(now, here));
    assert_eq!(rig.expect(0), Event::Ended { call: here, end: End::HungUp });
    let end = End::HungUpByPeer { reason: String::new() };
    assert_eq!(rig.expect(1), Event::Ended { call: there, end });
    rig.finish();
}

#[test]
fn nobody_who_is_not_there_is_waited_for_longer_than_64_times_t1() {
    let mut rig = rig(Link { loss: 1000, ..good() });
    let call = rig.call(0, 1);
    assert_eq!(rig.expect(0), Event::Ended { call, end: End::Failed(Failure::TimedOut) });
    assert_eq!(rig.now(), Duration::from_secs(32));
    rig.finish();
}

#[test]
fn a_call_that_nobody_answers_ends_at_both_sides() {
    let mut rig = rig(good());
    let (here, there) = ringing(&mut rig);
    let mut ends = [rig.expect_any(), rig.expect_any()];
    ends.sort_by_key(|(side, _)| *side);
    assert_eq!(ends[0].1, Event::Ended { call: here, end: End::NotAnswered });
    assert!(matches!(&ends[1].1, Event::Ended { call, .. } if *call == there));
    rig.finish();
}

#[test]
fn the_session_is_changed_by_either_side_and_a_refusal_changes_nothing() {
    let mut rig = rig(good());
    let (here, there) = talking(&mut rig);
    for (side, own, other) in [(0, here, there), (1, there, here)] {
        rig.act(side, |agent, now| agent.offer(now, own, b"v=0 hold".to_vec()));
        let asked = Event::Offer { call: other, offer: Some(b"v=0 hold".to_vec()) };
        assert_eq!(rig.expect(1 - side), asked);
        rig.act(1 - side, |agent, now| agent.accept(now, other, b"v=0 held"));
        let answer = Event::Answer { call: own, answer: b"v=0 held".to_vec() };
        assert_eq!(rig.expect(side), answer);

        rig.act(side, |agent, now| agent.offer(now, own, b"v=0 video".to_vec()));
        assert!(matches!(rig.expect(1 - side), Event::Offer { .. }));
        rig.act(1 - side, |agent, now| agent.refuse(now, other, 488));
        let failure = Failure::Refused { status: 488, reason: "Not Acceptable Here".into() };
        assert_eq!(rig.expect(side), Event::OfferFailed { call: own, failure });
    }
    rig.act(0, |agent, now| agent.hang_up(now, here));
    rig.finish();
}

#[test]
fn two_offers_that_meet_are_made_again_and_one_after_the_other() {
    let mut rig = rig(good());
    let (here, there) = talking(&mut rig);
    // The ACK has to arrive first.
    rig.pass(Duration::from_secs(1));
    rig.act(0, |agent, now| agent.offer(now, here, b"v=0 one".to_vec()));
    rig.act(1, |agent, now| agent.offer(now, there, b"v=0 two".to_vec()));
    // The callee waits for a shorter time (RFC 3261 section 14.1).
    assert_eq!(rig.expect(0), Event::Offer { call: here, offer: Some(b"v=0 two".to_vec()) });
    assert_eq!((rig.count(0, "SIP/2.0 491"), rig.count(1, "SIP/2.0 491")), (1, 1));
    rig.act(0, |agent, now| agent.accept(now, here, b"v=0 both"));
    // The earlier offer has an older description.
    assert_eq!(rig.expect(0), Event::OfferDue { call: here });
    let answer = Event::Answer { call: there, answer: b"v=0 both".to_vec() };
    assert_eq!(rig.expect(1), answer);
    rig.act(0, |agent, now| agent.hang_up(now, here));
    rig.finish();
}

#[test]
fn what_the_owner_wants_by_then_is_offered_again() {
    let mut rig = rig(good());
    let (here, there) = talking(&mut rig);
    rig.pass(Duration::from_secs(1));
    rig.act(0, |agent, now| agent.offer(now, here, b"v=0 one".to_vec()));
    rig.act(1, |agent, now| agent.offer(now, there, b"v=0 two".to_vec()));
    rig.pass(Duration::from_millis(11));
    rig.act(1, |agent, now| agent.offer(now, there, b"v=0 three".to_vec()));
    assert_eq!(rig.expect(0), Event::Offer { call: here, offer: Some(b"v=0 three".to_vec()) });
    rig.act(0, |agent, now| agent.hang_up(now, here));
    assert_eq!(rig.count(0, "SIP/2.0 487"), 1, "the offer is answered, too");
    rig.finish();
}

#[test]
fn more_calls_than_may_ring_are_refused() {
    let mut rig = rig(good());
    let calls: Vec<_> = (0..6).map(|_| rig.call(0, 1)).collect();
    rig.pass(Duration::from_secs(1));
    let events = rig.events(0);
    let busy = events.iter().filter(|event| {
        matches!(event, Event::Ended { end: End::Failed(Failure::Refused { status: 486, .. }), .. })
    });
    assert_eq!((busy.count(), calls.len()), (2, 6));
    for call in calls {
        let _ = rig.try_act(0, |agent, now| agent.hang_up(now, call));
    }
    rig.finish();
}

/// Plays a call of the first agent: it rings, is answered or not, and is ended by one of both, as
/// `seed` decides, until both agents have reported the end.
fn live(rig: &mut Rig, call: CallId, seed: u64) {
    let mut over = false;
    while !over {
        let (side, event) = rig.expect_any();
        match (side, event) {
            (1, Event::Incoming { call, .. }) => {
                let _ = rig.try_act(1, |agent, now| agent.ring(now, call, b""));
                match seed % 5 {
                    0 => rig.act(1, |agent, now| agent.decline(now, call, 603)),
                    1 => {}
                    _ => rig.act(1, |agent, now| agent.answer(now, call, SESSION)),
                }
            }
            (0, Event::Ringing { .. }) if seed % 5 == 1 => {
                let _ = rig.try_act(0, |agent, now| agent.hang_up(now, call));
            }
            (0, Event::Answered { .. }) if seed % 5 == 2 => {
                let _ = rig.try_act(0, |agent, now| agent.hang_up(now, call));
            }
            (0, Event::Answered { .. }) if seed % 5 == 3 => {
                let hold = b"v=0 hold".to_vec();
                let _ = rig.try_act(0, |agent, now| agent.offer(now, call, hold));
            }
            (0, Event::Answered { .. } | Event::Answer { .. } | Event::OfferFailed { .. }) => {
                let _ = rig.try_act(0, |agent, now| agent.hang_up(now, call));
            }
            (side, Event::Offer { call, .. }) => {
                let _ = rig.try_act(side, |agent, now| agent.accept(now, call, SESSION));
            }
            (0, Event::Ended { .. }) => over = true,
            _ => {}
        }
    }
}

#[test]
fn every_call_ends_whatever_is_lost_doubled_and_late() {
    for seed in 0..200 {
        let link = Link {
            loss: [0, 100, 300][seed as usize % 3],
            duplication: 200,
            delay: Duration::from_millis(10),
            jitter: Duration::from_millis(300),
        };
        let mut rig = Rig::new(seed, link, &configs());
        let call = rig.call(0, 1);
        live(&mut rig, call, seed);
        rig.finish();
    }
}

#[test]
fn an_account_that_comes_later_registers_until_it_is_forgotten() {
    let mut rig = rig(good());
    let account = rig.act(0, |agent, now| {
        assert_eq!(agent.add_account(Account::new("tel:1")), Err(AccountError::Uri));
        let account = agent.add_account(Account::new("sip:alice@192.0.2.2")).expect("a SIP URI");
        agent.register(now, account);
        Ok(account)
    });
    assert_eq!(account, AccountId(0));
    let is_refused = |event: &Event| match event {
        Event::Registration { account: AccountId(0), state } => matches!(
            state,
            RegistrationState::Failed {
                failure: Failure::Refused { status: 405, .. },
                retry: Some(_)
            }
        ),
        _ => false,
    };
    // The other agent is not a registrar, and receives a request after each failure.
    assert!(is_refused(&rig.expect(0)) && is_refused(&rig.expect(0)));
    rig.act(0, |agent, _| {
        agent.forget_account(account);
        Ok(())
    });
    rig.pass(Duration::from_secs(86_400));
    assert_eq!(rig.events(0), []);
}

#[test]
fn an_account_with_an_invalid_uri_does_not_shift_the_others() {
    let accounts = ["alice", "sip:bob@192.0.2.9"].map(Account::new).to_vec();
    let mut agent = Agent::new(Config { accounts, ..Config::default() }, &[7; 32]);
    let now = Instant::from_micros(1_000_000);
    agent.register(now, AccountId(0));
    assert_eq!(agent.poll_event(), None);
    agent.register(now, AccountId(1));
    assert!(matches!(agent.poll_event(), Some(Event::Locate { .. })));
}

#[test]
fn a_command_is_rejected_with_its_reason() {
    let mut rig = rig(good());
    let account = Some(AccountId(7));
    for (account, uri, reason) in [
        (account, "sip:bob@192.0.2.2", CallError::Account),
        (None, "tel:1", CallError::Uri),
        (None, "bob", CallError::Uri),
    ] {
        let call = rig.try_act(0, |agent, now| agent.call(now, account, uri, SESSION.to_vec()));
        assert_eq!(call, Err(reason));
        let message = rig.try_act(0, |agent, now| agent.message(now, account, uri, "text"));
        assert_eq!(message, Err(reason));
    }
    let (here, _) = talking(&mut rig);
    let transfer = |agent: &mut Agent, now| agent.transfer(now, here, "sip:carol@192.0.2.9");
    rig.act(0, transfer);
    assert_eq!(rig.try_act(0, transfer), Err(CallError::TransferPending));
    let accept = rig.try_act(0, |agent, now| agent.accept(now, here, SESSION));
    assert_eq!(accept, Err(CallError::State(CallState::OfferReceived)));
}

#[test]
fn a_uri_without_a_destination_is_rejected_with_its_reason() {
    let long = format!("sip:bob@{}.com", "a".repeat(250));
    for (uri, reason) in [
        ("tel:1", DestinationError::Uri),
        ("sip:bob@example.com;transport=sctp", DestinationError::Transport),
        (&long, DestinationError::Host),
    ] {
        assert_eq!(destination(uri.as_bytes()), Err(reason));
    }
}

/// A BYE that overtakes the 2xx would find no dialog (RFC 3261 section 15).
#[test]
fn the_bye_of_the_callee_waits_for_the_ack() {
    let mut rig = Rig::new(1, Link::default(), &[Config::default(), Config::default()]);
    rig.call(0, 1);
    let Event::Incoming { call, .. } = rig.expect(1) else { panic!("a call") };
    rig.act(1, |agent, now| agent.answer(now, call, SESSION));
    rig.act(1, |agent, now| agent.hang_up(now, call));
    assert!(matches!(rig.expect(1), Event::Ended { .. }));
    assert!(rig.is_asking(1), "the phone must not stop yet");
    assert_eq!((rig.calls(1), rig.count(1, "BYE")), (0, 0));
    rig.finish();
    assert_eq!((rig.count(0, "ACK"), rig.count(1, "BYE")), (1, 1));
}

#[test]
fn the_bye_of_the_callee_is_sent_without_an_ack_in_the_end() {
    let mut rig = Rig::new(2, Link::default(), &[Config::default(), Config::default()]);
    rig.call(0, 1);
    let Event::Incoming { call, .. } = rig.expect(1) else { panic!("a call") };
    rig.set_link(Link { loss: 1000, ..Link::default() });
    rig.act(1, |agent, now| agent.answer(now, call, SESSION));
    rig.act(1, |agent, now| agent.hang_up(now, call));
    rig.pass(Duration::from_secs(40));
    assert!(rig.count(1, "SIP/2.0 200") > 5, "the 2xx is retransmitted");
    assert!(rig.count(1, "BYE") > 0);
}
