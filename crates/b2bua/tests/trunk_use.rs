//! The limits of the use of trunks, with the server's proxy in front: phone 0 is the user
//! p0@a.com, the others are the trunks.

mod rig;

use barebell_b2bua::{Event as OwnerEvent, Trunk};
use numbers::usage::{Account, Limit};
use numbers::{LimitConfig, Plan, PlanConfig};
use rig::{Rig, session};
use sip_ua::{AccountId, CallId, End, Event};
use std::time::Duration;

fn rig(seed: u64, account: Account, calls: Option<u32>, minutes: Option<u32>) -> Rig {
    limited(seed, account, Limit { calls, minutes, duration: None })
}

fn limited(seed: u64, account: Account, limit: Limit) -> Rig {
    let names = ["alpha", "beta"];
    let config = PlanConfig {
        trunks: names.map(str::to_owned).to_vec(),
        limits: vec![LimitConfig { account, limit }],
        ..PlanConfig::default()
    };
    let limits = Plan::new(&config).unwrap().limits().clone();
    let trunks = names.map(|name| Trunk::new(name, &format!("{name}.example"))).to_vec();
    let mut rig = Rig::office(seed, trunks);
    rig.act_b2bua(|b2bua, _| b2bua.set_use_limits(limits));
    rig
}

fn user() -> Account {
    Account::User("p0@a.com".into())
}

/// Phone 0 calls `number`.
fn dial(rig: &mut Rig, number: &str) -> CallId {
    let uri = format!("sip:{number}@192.0.2.100");
    let offer = session(0, 4000, "sendrecv");
    rig.act(0, |phone, now| phone.call(now, Some(AccountId(0)), &uri, offer))
}

/// Phone 0 calls `number`, and trunk 1 answers.
fn talk(rig: &mut Rig, number: &str) -> CallId {
    let caller = dial(rig, number);
    let callee = rig.expect_incoming(1);
    rig.act(1, |phone, now| phone.answer(now, callee, &session(1, 5000, "sendrecv")));
    rig.expect_where(0, |event| matches!(event, Event::Answered { .. }));
    caller
}

/// The status of the call of phone 0 that ends next.
fn failed(rig: &mut Rig) -> u16 {
    let event = rig.expect_where(0, |event| matches!(event, Event::Ended { .. }));
    let Event::Ended { end: End::Failed(failure), .. } = event else { panic!("{event:?}") };
    failure.status()
}

/// The calls and the minutes of an account.
fn used(rig: &Rig, account: &Account) -> (u32, u32) {
    let uses: Vec<_> = rig.b2bua().uses(rig.now()).collect();
    let found = uses.into_iter().find(|used| used.account == *account);
    found.map_or((0, 0), |used| (used.calls, used.minutes))
}

/// The minutes that the owner has stored last.
fn stored(rig: &Rig) -> String {
    let mut minutes = rig.owner.events.iter().filter_map(|event| match event {
        OwnerEvent::Use { minutes } => Some(minutes.to_string()),
        _ => None,
    });
    minutes.next_back().expect("minutes")
}

#[test]
fn a_call_over_a_limit_is_refused_and_the_log_names_it() {
    let accounts = [user(), Account::Class("national".into())];
    for (seed, account) in (1..).zip(accounts) {
        let mut rig = rig(seed, account.clone(), Some(1), None);
        let caller = talk(&mut rig, "0456");
        assert_eq!(used(&rig, &account), (1, 1));
        dial(&mut rig, "0457");
        assert_eq!(failed(&mut rig), 403);
        let words = rig.owner.events.iter().find_map(|event| match event {
            OwnerEvent::Trunk { words, has_failed: false, .. } => Some(words.to_string()),
            _ => None,
        });
        let expected = format!(
            "a call to 457 failed: the limit is reached: {account}: 1 of at most 1 calls at once; \
             trunk beta is next"
        );
        assert_eq!(words.as_deref(), Some(&*expected));
        let is_alarm = |event: &&OwnerEvent| matches!(event, OwnerEvent::Alarm { .. });
        assert_eq!(rig.owner.events.iter().filter(is_alarm).count(), 1);
        // An emergency call is not refused.
        dial(&mut rig, "112");
        let emergency = rig.expect_incoming(1);
        rig.act(1, |phone, now| phone.decline(now, emergency, 486));
        assert_eq!(failed(&mut rig), 486);
        rig.act(0, |phone, now| phone.hang_up(now, caller));
        rig.expect_where(1, |event| matches!(event, Event::Ended { .. }));
        rig.pass(Duration::from_secs(2));
        assert_eq!(used(&rig, &account).0, 0);
        talk(&mut rig, "0458");
    }
}

#[test]
fn counters_fall_however_a_call_ends() {
    let mut rig = rig(3, user(), Some(1), None);
    // The callee is busy.
    dial(&mut rig, "0456");
    let callee = rig.expect_incoming(1);
    rig.act(1, |phone, now| phone.decline(now, callee, 486));
    assert_eq!(failed(&mut rig), 486);
    // The caller cancels.
    let caller = dial(&mut rig, "0456");
    let callee = rig.expect_incoming(1);
    rig.act(1, |phone, now| phone.ring(now, callee, b""));
    rig.expect_where(0, |event| matches!(event, Event::Ringing { .. }));
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.expect_where(1, |event| matches!(event, Event::Ended { .. }));
    rig.pass(Duration::from_secs(1));
    // A trunk fails, and the next one takes the call.
    dial(&mut rig, "0456");
    let callee = rig.expect_incoming(1);
    rig.act(1, |phone, now| phone.decline(now, callee, 503));
    let callee = rig.expect_incoming(2);
    assert_eq!(used(&rig, &Account::Trunk("alpha".into())), (0, 0));
    assert_eq!(used(&rig, &Account::Trunk("beta".into())), (1, 0));
    rig.act(2, |phone, now| phone.answer(now, callee, &session(2, 5000, "sendrecv")));
    rig.expect_where(0, |event| matches!(event, Event::Answered { .. }));
    // The operator ends it.
    rig.act_b2bua(|b2bua, now| b2bua.hang_up_all(now, "SIP;cause=503"));
    rig.finish();
    assert_eq!(used(&rig, &user()), (0, 1));
}

#[test]
fn a_call_ends_with_the_minutes_of_the_day_which_a_restart_does_not_reset() {
    let mut first = rig(4, user(), None, Some(2));
    talk(&mut first, "0456");
    let crash = stored(&first);
    first.expect_where(0, |event| matches!(event, Event::Ended { .. }));
    let bye = first.last(0, "BYE ");
    assert!(bye.contains("No Minutes Left Today"), "{bye}");
    let ends = "through trunk alpha ends: no minutes are left today";
    let is_end =
        |event: &OwnerEvent| matches!(event, OwnerEvent::Alarm { words } if words.ends_with(ends));
    assert!(first.owner.events.iter().any(is_end), "{:?}", first.owner.events);
    first.pass(Duration::from_secs(2));
    assert_eq!(used(&first, &user()), (0, 3), "the third minute has begun");
    dial(&mut first, "0456");
    assert_eq!(failed(&mut first), 403);
    let end = stored(&first);
    for (minutes, stored) in [(1, crash), (3, end)] {
        let mut second = rig(5, user(), None, Some(2));
        second.act_b2bua(|b2bua, now| b2bua.restore_use(now, &stored).unwrap());
        assert_eq!(used(&second, &user()), (0, minutes));
        if minutes > 2 {
            dial(&mut second, "0456");
            assert_eq!(failed(&mut second), 403);
        }
    }
}

#[test]
fn a_call_ends_at_its_maximum_duration_and_an_emergency_call_does_not() {
    let limit = Limit { duration: Some(90), ..Limit::default() };
    let mut rig = limited(9, Account::Trunk("alpha".into()), limit);
    talk(&mut rig, "0456");
    rig.pass(Duration::from_secs(85));
    assert_eq!(used(&rig, &user()).0, 1);
    rig.expect_where(0, |event| matches!(event, Event::Ended { .. }));
    let bye = rig.last(0, "BYE ");
    assert!(bye.contains("Maximum Duration Reached"), "{bye}");
    talk(&mut rig, "112");
    rig.pass(Duration::from_secs(120));
    assert_eq!(rig.b2bua().calls_on_trunk(0), 1);
    assert_eq!(used(&rig, &user()).0, 0, "it counts for the trunk alone");
}
