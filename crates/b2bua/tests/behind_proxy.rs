//! Calls through the B2BUA with the server's proxy in front of both legs, on a network that loses,
//! duplicates and reorders datagrams.

mod rig;

use rig::{Rig, address, session, without_origin};
use sip::{Flow, Transport};
use sip_ua::{CallId, End, Event, Failure, Placement};
use std::time::Duration;
use test_support::network::Link;

/// The proxy knows by them the party that has vanished, or that a limit has ended the call.
#[test]
fn the_reasons_of_the_b2bua_are_those_of_the_records() {
    assert_eq!(sip_ua::LOST_REASON, sip_server::LOST_REASON);
    assert_eq!(barebell_b2bua::NO_MINUTES_REASON, sip_server::NO_MINUTES_REASON);
    assert_eq!(barebell_b2bua::TOO_LONG_REASON, sip_server::TOO_LONG_REASON);
}

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
        assert_eq!(rig.b2bua().calls(), 1, "seed {seed}");
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

/// Phone 0 transfers phone 1, with which it has the first one of `own` calls, to phone 2, with
/// which it has the second one. The other ends of these are `second` and `third`. Returns the new
/// call at phone 1.
fn transfer(rig: &mut Rig, own: [CallId; 2], second: CallId, third: CallId) -> CallId {
    let [first, consultation] = own;
    rig.pass(Duration::from_secs(5));
    rig.act(0, |phone, now| phone.transfer_to(now, first, consultation));
    rig.expect_where(1, |event| matches!(event, Event::TransferAsked { .. }));
    let offer = session(1, 6000, "sendrecv");
    let moved = rig.act(1, |phone, now| phone.follow(now, second, offer));
    let event = rig.expect_where(2, |event| matches!(event, Event::Incoming { .. }));
    let Event::Incoming { call, replaces, .. } = event else { panic!("{event:?}") };
    assert_eq!(replaces, Some(third), "the dialog is translated");
    rig.act(2, |phone, now| phone.answer(now, call, &session(2, 7000, "sendrecv")));
    rig.expect_where(1, |event| matches!(event, Event::Answered { .. }));
    rig.expect_where(
        0,
        |event| matches!(event, Event::Ended { call, .. } if *call == consultation),
    );
    rig.act(0, |phone, now| phone.hang_up(now, first));
    rig.pass(Duration::from_secs(10));
    moved
}

#[test]
fn a_transfer_after_consultation_joins_both_parties() {
    for seed in 0..40 {
        let mut rig = Rig::behind_proxy(seed, 3, link(50));
        let (first, second) = rig.establish(0, 1);
        let (consultation, third) = rig.establish(0, 2);
        let moved = transfer(&mut rig, [first, consultation], second, third);
        rig.act(1, |phone, now| phone.hang_up(now, moved));
        rig.finish();
    }
}

/// Phone 0 transfers phone 1 to phone 2, which it has consulted. One of both calls is joined, and
/// phone 0 has placed it or not.
#[test]
fn a_transfer_joins_the_parties_of_a_joined_call_and_of_a_proxied_one() {
    for seed in 0..32 {
        let (is_first_joined, places) = (seed & 1 != 0, seed & 2 != 0);
        let mut rig = Rig::behind_proxy(seed, 3, link(50));
        let establish = |rig: &mut Rig, other| match places {
            true => rig.establish(0, other),
            false => {
                let (there, here) = rig.establish(other, 0);
                (here, there)
            }
        };
        let joined = establish(&mut rig, if is_first_joined { 1 } else { 2 });
        rig.join_if_needed();
        let proxied = establish(&mut rig, if is_first_joined { 2 } else { 1 });
        assert_eq!(rig.b2bua().calls(), 1, "seed {seed}");
        let [(first, second), (consultation, third)] =
            if is_first_joined { [joined, proxied] } else { [proxied, joined] };
        let moved = transfer(&mut rig, [first, consultation], second, third);
        // The new call needs the B2BUA only if it replaces one of its calls.
        assert_eq!(rig.b2bua().calls(), usize::from(!is_first_joined), "seed {seed}");
        rig.act(1, |phone, now| phone.hang_up(now, moved));
        rig.finish();
    }
}

/// A phone sends an INVITE to `uri` that replaces the dialog `replaces`.
fn replace(rig: &mut Rig, phone: usize, uri: &str, replaces: &str) -> CallId {
    let flow = Flow {
        transport: Transport::Udp,
        local: address(phone),
        remote: ([192, 0, 2, 100], 5060).into(),
        connection: None,
    };
    let name = format!("<sip:p{phone}@192.0.2.100>");
    let (call, _) = rig.act(phone, |phone, now| {
        Ok(phone.place_for(
            now,
            Placement {
                uri: uri.as_bytes(),
                from: name.as_bytes(),
                to: format!("<{uri}>").as_bytes(),
                routes: &[],
                flow,
                max_forwards: 70,
                lines: format!("Replaces: {replaces}\r\nRequire: replaces\r\n").into_bytes(),
                session: session(2, 6000, "sendrecv"),
                envelope: None,
                is_reliable: true,
                account: None,
            },
        ))
    });
    call
}

/// Phone 2 names the leg of phone 0 in a call with phone 1, which is joined, by the contact of the
/// B2BUA and by other addresses.
#[test]
fn a_joined_call_is_replaced_by_its_full_name_only() {
    const CONTACT: &str = "sip:call@192.0.2.100:5060";
    for (uri, is_right) in [
        (CONTACT, true),
        (CONTACT, false),
        ("sip:p1@192.0.2.100", true),
        ("sip:p1@192.0.2.100", false),
        ("sip:p0@192.0.2.100", true),
        ("sip:nobody@192.0.2.100", true),
    ] {
        let mut rig = Rig::behind_proxy(7, 3, link(0));
        let (first, second) = rig.establish(0, 1);
        rig.join_if_needed();
        let dialog = rig.phones[0].dialog(first).expect("a dialog").id();
        let [call_id, theirs, own] = [dialog.call_id, dialog.remote_tag, dialog.local_tag]
            .map(|text| String::from_utf8_lossy(text).into_owned());
        let more = if is_right { "" } else { "x" };
        let replaces = format!("{call_id};to-tag={theirs};from-tag={own}{more}");
        let third = replace(&mut rig, 2, uri, &replaces);
        if is_right && matches!(uri, CONTACT | "sip:p1@192.0.2.100") {
            let event = rig.expect_where(1, |event| matches!(event, Event::Incoming { .. }));
            let Event::Incoming { call, replaces, .. } = event else { panic!("{event:?}") };
            assert_eq!(replaces, Some(second), "{uri}");
            // The callee has its own name in the dialog.
            let invite = rig.last(1, "INVITE");
            assert!(invite.contains("\r\nTo: <sip:p1@192.0.2.100"), "{invite}");
            rig.act(1, |phone, now| phone.answer(now, call, &session(1, 7000, "sendrecv")));
            rig.expect_where(2, |event| matches!(event, Event::Answered { .. }));
            rig.expect_where(0, |event| matches!(event, Event::Ended { .. }));
            rig.act(2, |phone, now| phone.hang_up(now, third));
            rig.finish();
            continue;
        }
        let event = rig.expect_where(2, |event| matches!(event, Event::Ended { .. }));
        let Event::Ended { end: End::Failed(Failure::Refused { status, .. }), .. } = event else {
            panic!("{event:?}")
        };
        // Without the full name the contact of the B2BUA stands for no user.
        let expected = match uri {
            CONTACT | "sip:nobody@192.0.2.100" => 404,
            _ => 481,
        };
        assert_eq!((status, rig.b2bua().calls()), (expected, 1), "{uri}");
        assert_eq!(rig.count(1, "INVITE"), 1, "{uri}");
        rig.act(0, |phone, now| phone.hang_up(now, first));
        rig.finish();
    }
}

#[test]
fn a_call_that_replaces_several_dialogs_or_none_is_malformed() {
    for replaces in ["a", "a;to-tag=1;from-tag=2, b;to-tag=1;from-tag=2"] {
        let mut rig = Rig::behind_proxy(8, 3, link(0));
        replace(&mut rig, 2, "sip:p1@192.0.2.100", replaces);
        let event = rig.expect_where(2, |event| matches!(event, Event::Ended { .. }));
        let Event::Ended { end: End::Failed(failure), .. } = event else { panic!("{event:?}") };
        assert_eq!((failure.status(), rig.count(1, "INVITE")), (400, 0), "{replaces}");
        rig.finish();
    }
}
