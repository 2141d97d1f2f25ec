//! Calls through the B2BUA with the server's proxy in front of both legs, on a network that loses,
//! duplicates and reorders datagrams.

mod rig;

use rig::{Rig, session, without_origin};
use sip_ua::Event;
use std::time::Duration;
use test_support::network::Link;

/// A network with this loss per thousand.
fn link(loss: u64) -> Link {
    Link {
        loss,
        duplication: 50,
        delay: Duration::from_millis(5),
        jitter: Duration::from_millis(60),
    }
}

#[test]
fn a_call_is_held_and_ended_over_a_network_with_losses() {
    for seed in 0..60 {
        let mut rig = Rig::behind_proxy(seed, 2, link(100));
        let (caller, callee) = rig.establish(0, 1);
        rig.pass(Duration::from_secs(5));
        assert_eq!(rig.b2bua.calls(), 1, "seed {seed}");
        let offer = session(1, 5002, "sendonly");
        rig.act(1, |phone, now| phone.offer(now, callee, offer.clone()));
        let event = rig.expect_where(0, |event| matches!(event, Event::Offer { .. }));
        let Event::Offer { offer: Some(offered), .. } = event else { panic!("{event:?}") };
        assert_eq!(without_origin(&offered), without_origin(&offer));
        rig.act(0, |phone, now| phone.accept(now, caller, &session(0, 4002, "recvonly")));
        rig.expect_where(1, |event| matches!(event, Event::Answer { .. }));
        rig.pass(Duration::from_secs(40));
        rig.act(0, |phone, now| phone.hang_up(now, caller));
        rig.expect_where(1, |event| matches!(event, Event::Ended { .. }));
        rig.finish();
    }
}

#[test]
fn a_cancelled_call_stops_ringing() {
    for seed in 0..60 {
        let mut rig = Rig::behind_proxy(seed, 2, link(100));
        let caller = rig.call(0, 1, &session(0, 4000, "sendrecv"));
        let callee = rig.expect_incoming(1);
        rig.act(1, |phone, now| phone.ring(now, callee, b""));
        // The response that it rings may be lost.
        rig.pass(Duration::from_secs(3));
        rig.act(0, |phone, now| phone.hang_up(now, caller));
        rig.expect_where(1, |event| matches!(event, Event::Ended { .. }));
        rig.finish();
    }
}

#[test]
fn a_transfer_after_consultation_joins_both_parties() {
    for seed in 0..40 {
        let mut rig = Rig::behind_proxy(seed, 3, link(50));
        let (first, second) = rig.establish(0, 1);
        let (consultation, third) = rig.establish(0, 2);
        rig.pass(Duration::from_secs(5));
        rig.act(0, |phone, now| phone.transfer_to(now, first, consultation));
        rig.expect_where(1, |event| matches!(event, Event::TransferAsked { .. }));
        let offer = session(1, 6000, "sendrecv");
        let moved = rig.act(1, |phone, now| phone.follow(now, second, offer));
        let event = rig.expect_where(2, |event| matches!(event, Event::Incoming { .. }));
        let Event::Incoming { call, replaces, .. } = event else { panic!("{event:?}") };
        assert_eq!(replaces, Some(third), "the dialog is translated, seed {seed}");
        rig.act(2, |phone, now| phone.answer(now, call, &session(2, 7000, "sendrecv")));
        rig.expect_where(1, |event| matches!(event, Event::Answered { .. }));
        rig.expect_where(
            0,
            |event| matches!(event, Event::Ended { call, .. } if *call == consultation),
        );
        rig.act(0, |phone, now| phone.hang_up(now, first));
        rig.pass(Duration::from_secs(10));
        rig.act(1, |phone, now| phone.hang_up(now, moved));
        rig.finish();
    }
}
