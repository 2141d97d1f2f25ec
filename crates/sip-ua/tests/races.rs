//! Races of RFC 5407 that end a dialog or begin a change of its session.

mod rig;

use barebell_sip_ua::{CallId, Config, Event};
use rig::{Rig, SESSION};
use sip::HeaderName;
use std::net::SocketAddr;
use std::time::Duration;
use test_support::flow::value;
use test_support::network::Link;

/// Two agents in a call, on a network where each message takes 5 ms.
fn talking() -> (Rig, [CallId; 2]) {
    let link = Link { delay: Duration::from_millis(5), ..Link::default() };
    let mut rig = Rig::new(1, link, &[Config::default(), Config::default()]);
    let here = rig.call(0, 1);
    let Event::Incoming { call: there, .. } = rig.expect(1) else { panic!("no call") };
    rig.act(1, |agent, now| agent.answer(now, there, SESSION));
    assert!(matches!(rig.expect(0), Event::Answered { .. }));
    rig.pass(Duration::from_millis(100));
    (rig, [here, there])
}

/// Section 3.2.1: both get a 200.
#[test]
fn a_bye_that_crosses_the_own_one_is_accepted() {
    let (mut rig, calls) = talking();
    for (side, call) in calls.into_iter().enumerate() {
        rig.act(side, |agent, now| agent.hang_up(now, call));
    }
    rig.finish();
    rig.assert_flow(&[], "A>B INVITE, B>A 200, A>B ACK, A>B BYE, B>A BYE, B>A 200, A>B 200");
}

/// Section 3.2.3: the 200 is acknowledged, and no second BYE is sent for it, also if the response
/// to the first one has arrived before.
#[test]
fn the_answer_to_a_reinvite_is_only_acknowledged_after_a_bye() {
    let (mut rig, calls) = talking();
    rig.act(0, |agent, now| agent.offer(now, calls[0], b"v=0 new".to_vec()));
    assert!(matches!(rig.expect(1), Event::Offer { .. }));
    rig.act(1, |agent, now| agent.accept(now, calls[1], SESSION));
    rig.act(0, |agent, now| agent.hang_up(now, calls[0]));
    rig.finish();
    rig.assert_flow(
        &[],
        "A>B INVITE, B>A 200, A>B ACK, A>B INVITE, B>A 200, A>B BYE, A>B ACK, B>A 200",
    );
}

/// Section 3.1.4: a re-INVITE proves that the 200 has arrived whose ACK is lost.
#[test]
fn a_reinvite_before_the_ack_is_a_change_of_the_session() {
    let (mut rig, calls) = talking();
    for (offer, loss) in [(&b"v=0 one"[..], 1000), (b"v=0 two", 0)] {
        rig.act(0, |agent, now| agent.offer(now, calls[0], offer.to_vec()));
        let asked = Event::Offer { call: calls[1], offer: Some(offer.to_vec()) };
        assert_eq!(rig.expect(1), asked);
        rig.act(1, |agent, now| agent.accept(now, calls[1], SESSION));
        rig.pass(Duration::from_millis(4));
        // The ACK leaves when the 200 arrives.
        rig.set_link(Link { loss, delay: Duration::from_millis(5), ..Link::default() });
        assert!(matches!(rig.expect(0), Event::Answer { .. }));
        rig.set_link(Link { delay: Duration::from_millis(5), ..Link::default() });
    }
    assert_eq!(rig.count(1, "SIP/2.0 500"), 0);
    rig.act(0, |agent, now| agent.hang_up(now, calls[0]));
    rig.finish();
}

/// RFC 3261 section 13.2.2.4: each retransmission of a 2xx is acknowledged, also one to an earlier
/// INVITE.
#[test]
fn a_repeated_answer_is_acknowledged_after_a_reinvite() {
    let stranger: SocketAddr = ([192, 0, 2, 100], 5060).into();
    let mut rig = Rig::new(1, Link::default(), &[Config::default()]);
    let call = rig.call_uri(0, &format!("sip:{stranger}"), SESSION);
    let mut invites = Vec::new();
    for number in 1..=4 {
        let invite = rig.mail(stranger, "INVITE");
        rig.reply((stranger, 0), &invite, (200, "s"), "", "v=0\r\n");
        invites.push(invite);
        match (number, rig.expect(0)) {
            (1, Event::Answered { .. }) | (2, Event::Answer { .. }) => {
                rig.act(0, |agent, now| agent.offer(now, call, b"v=0 new".to_vec()));
            }
            (3, Event::Answer { .. }) => {
                rig.act(0, |agent, now| agent.ask_once(now, call, None, b""));
            }
            // The ACK has the answer.
            (_, Event::Offer { .. }) => {
                rig.act(0, |agent, now| agent.accept(now, call, b"v=0 answer"));
            }
            (_, other) => panic!("{other:?}"),
        }
    }
    rig.pass(Duration::from_secs(1));
    for _ in 0..2 {
        for (invite, cseq) in invites.iter().zip(1..) {
            rig.all_mail(stranger, "ACK");
            rig.reply((stranger, 0), invite, (200, "s"), "", "v=0\r\n");
            let ack = rig.mail(stranger, "ACK");
            assert_eq!(value(&ack, HeaderName::CSeq), format!("{cseq} ACK"));
            assert_eq!(ack.ends_with(b"v=0 answer"), cseq == 4);
        }
    }
    rig.act(0, |agent, now| agent.hang_up(now, call));
    let bye = rig.mail(stranger, "BYE");
    rig.reply((stranger, 0), &bye, (200, "s"), "", "");
    rig.finish();
}
