//! Call services of the proxy in front of the B2BUA: forwards, groups, redirections.

mod rig;

use rig::{Rig, session};
use sip_server::{CallServices, Group, Strategy};
use sip_ua::{CallId, End, Event, Failure};
use std::time::Duration;
use test_support::network::Link;

/// Four phones, on a network that loses a datagram of twenty. All calls go through the B2BUA, or
/// those that need it with each second `seed`.
fn phones(seed: u64) -> Rig {
    let link = Link {
        loss: 50,
        duplication: 50,
        delay: Duration::from_millis(5),
        jitter: Duration::from_millis(60),
    };
    let mut rig = Rig::behind_proxy(seed, 4, link);
    if seed % 2 == 1 {
        rig.join_if_needed();
    }
    rig
}

/// The name of phone `phone`, as the server knows it.
fn name(phone: usize) -> String {
    format!("p{phone}@{}", rig::server().ip())
}

/// The callee of the call of phone 0, which phone 2 answers, and that of the caller. Both end it.
fn is_answered(rig: &mut Rig, caller: CallId) {
    let callee = rig.expect_incoming(2);
    rig.act(2, |phone, now| phone.answer(now, callee, &session(2, 5000, "sendrecv")));
    rig.expect_where(0, |event| matches!(event, Event::Answered { .. }));
    rig.pass(Duration::from_secs(2));
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.expect_where(2, |event| matches!(event, Event::Ended { .. }));
    rig.finish();
}

/// The status with which the call of phone 0 has failed.
fn failure(rig: &mut Rig) -> u16 {
    let event = rig.expect_where(0, |event| matches!(event, Event::Ended { .. }));
    let Event::Ended { end: End::Failed(Failure::Refused { status, .. }), .. } = event else {
        panic!("{event:?}")
    };
    status
}

#[test]
fn a_busy_phone_is_forwarded() {
    for seed in 0..20 {
        let mut rig = phones(seed);
        let to = Some(name(2));
        rig.set_services(1, CallServices { busy: to, ..CallServices::default() });
        let caller = rig.call(0, 1, &session(0, 4000, "sendrecv"));
        let callee = rig.expect_incoming(1);
        rig.act(1, |phone, now| phone.decline(now, callee, 486));
        if seed % 4 < 2 {
            is_answered(&mut rig, caller);
            continue;
        }
        let callee = rig.expect_incoming(2);
        rig.act(2, |phone, now| phone.decline(now, callee, 480));
        assert_eq!(failure(&mut rig), 486, "seed {seed}");
        rig.finish();
    }
}

#[test]
fn a_call_without_an_answer_goes_on_or_is_cancelled() {
    for seed in 0..20 {
        let mut rig = phones(seed);
        let services = CallServices {
            no_answer: Some(name(2)),
            no_answer_after: sip::Duration::from_secs(4),
            ..CallServices::default()
        };
        rig.set_services(1, services);
        let caller = rig.call(0, 1, &session(0, 4000, "sendrecv"));
        let callee = rig.expect_incoming(1);
        rig.act(1, |phone, now| phone.ring(now, callee, b""));
        rig.expect_where(1, |event| matches!(event, Event::Ended { .. }));
        if seed % 4 < 2 {
            is_answered(&mut rig, caller);
            continue;
        }
        let callee = rig.expect_incoming(2);
        rig.act(2, |phone, now| phone.ring(now, callee, b""));
        rig.pass(Duration::from_secs(3));
        rig.act(0, |phone, now| phone.hang_up(now, caller));
        rig.expect_where(2, |event| matches!(event, Event::Ended { .. }));
        rig.finish();
    }
}

#[test]
fn a_phone_redirects_a_call() {
    for seed in 0..20 {
        let mut rig = phones(seed);
        let caller = rig.call(0, 1, &session(0, 4000, "sendrecv"));
        let callee = rig.expect_incoming(1);
        let uri = format!("sip:{}", name(2));
        rig.act(1, |phone, now| phone.redirect(now, callee, &uri));
        is_answered(&mut rig, caller);
    }
}

#[test]
fn the_phones_of_a_group_ring_in_turn() {
    for seed in 0..20 {
        let mut rig = phones(seed);
        let group = Group {
            name: name(9),
            members: vec![name(1), name(2)],
            strategy: Strategy::InTurn,
            timeout: sip::Duration::from_secs(4),
            fallback: None,
            forwards: false,
        };
        rig.set_groups(vec![group]);
        let caller = rig.call(0, 9, &session(0, 4000, "sendrecv"));
        let callee = rig.expect_incoming(1);
        // A member that does not want the call does not speak for the group.
        match seed % 4 < 2 {
            true => rig.act(1, |phone, now| phone.decline(now, callee, 603)),
            false => rig.act(1, |phone, now| phone.ring(now, callee, b"")),
        }
        is_answered(&mut rig, caller);
    }
}

/// The proxy would give up the call at its timer B, before the last phone rings.
#[test]
fn two_silent_phones_of_a_group_do_not_end_the_call() {
    let mut rig = phones(2);
    let group = Group {
        name: name(9),
        members: vec![name(1), name(3), name(2)],
        strategy: Strategy::InTurn,
        timeout: sip::Duration::from_secs(20),
        fallback: None,
        forwards: false,
    };
    rig.set_groups(vec![group]);
    rig.silence(1);
    rig.silence(3);
    let caller = rig.call(0, 9, &session(0, 4000, "sendrecv"));
    is_answered(&mut rig, caller);
}

#[test]
fn a_call_to_a_silent_phone_is_cancelled_at_once() {
    let mut rig = phones(0);
    rig.silence(1);
    let caller = rig.call(0, 1, &session(0, 4000, "sendrecv"));
    rig.pass(Duration::from_secs(5));
    let begun = rig.now();
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.expect_where(0, |event| matches!(event, Event::Ended { .. }));
    assert!(rig.now() < begun + sip::Duration::from_secs(4), "the B2BUA has the CANCEL");
    rig.finish();
}
