//! Established calls while the address of an end changes.

mod rig;

use barebell_sip_ua::{CallId, Config, End, Event, Failure};
use rig::{Rig, SESSION};
use std::net::SocketAddr;
use std::time::Duration;
use test_support::network::Link;

const MOVED: &[u8] = b"v=0 moved";

fn elsewhere() -> SocketAddr {
    ([198, 51, 100, 7], 5060).into()
}

fn talking() -> (Rig, CallId, CallId) {
    let configs = ["alice", "bob"].map(|user| Config { user: user.into(), ..Config::default() });
    let link = Link { delay: Duration::from_millis(5), ..Link::default() };
    let mut rig = Rig::new(1, link, &configs);
    let here = rig.call(0, 1);
    let Event::Incoming { call: there, .. } = rig.expect(1) else { panic!("no call") };
    rig.act(1, |agent, now| agent.answer(now, there, SESSION));
    assert!(matches!(rig.expect(0), Event::Answered { .. }));
    rig.pass(Duration::from_secs(1));
    (rig, here, there)
}

#[test]
fn a_call_goes_on_from_the_new_address_of_either_end() {
    for side in [0, 1] {
        let (mut rig, here, there) = talking();
        let (own, other) = if side == 0 { (here, there) } else { (there, here) };
        rig.move_to(side, elsewhere());
        assert_eq!(rig.expect(side), Event::Moved { call: own });
        rig.act(side, |agent, now| agent.offer(now, own, MOVED.to_vec()));
        assert_eq!(rig.expect(1 - side), Event::Offer { call: other, offer: Some(MOVED.to_vec()) });
        rig.act(1 - side, |agent, now| agent.accept(now, other, SESSION));
        assert_eq!(rig.expect(side), Event::Answer { call: own, answer: SESSION.to_vec() });
        // The other end sends its BYE to the new Contact.
        rig.pass(Duration::from_secs(1));
        rig.act(1 - side, |agent, now| agent.hang_up(now, other));
        let begin = rig.now();
        let end = End::HungUpByPeer { reason: String::new() };
        assert_eq!(rig.expect(side), Event::Ended { call: own, end });
        assert_eq!((rig.now() - begin).as_millis(), 5);
        rig.finish();
    }
}

#[test]
fn an_offer_under_way_from_the_old_address_is_given_up_and_the_new_one_made() {
    let (mut rig, here, there) = talking();
    rig.act(0, |agent, now| agent.offer(now, here, b"v=0 hold".to_vec()));
    assert!(matches!(rig.expect(1), Event::Offer { .. }));
    rig.move_to(0, elsewhere());
    let failed = Event::OfferFailed { call: here, failure: Failure::Unreachable };
    assert_eq!(rig.expect(0), failed);
    assert_eq!(rig.expect(0), Event::Moved { call: here });
    rig.act(0, |agent, now| agent.offer(now, here, MOVED.to_vec()));
    // The previous offer still waits for an answer, so this one is repeated.
    rig.pass(Duration::from_millis(50));
    assert_eq!(rig.count(1, "SIP/2.0 500"), 1);
    rig.act(1, |agent, now| agent.refuse(now, there, 488));
    assert_eq!(rig.expect(1), Event::Offer { call: there, offer: Some(MOVED.to_vec()) });
    rig.act(1, |agent, now| agent.accept(now, there, SESSION));
    assert_eq!(rig.expect(0), Event::Answer { call: here, answer: SESSION.to_vec() });
    rig.act(0, |agent, now| agent.hang_up(now, here));
    rig.finish();
}

#[test]
fn what_the_other_end_offers_at_the_same_time_is_answered_before() {
    [false, true].into_iter().for_each(answer_before);
}

fn answer_before(accepts: bool) {
    let (mut rig, here, there) = talking();
    rig.act(1, |agent, now| agent.offer(now, there, b"v=0 hold".to_vec()));
    assert!(matches!(rig.expect(0), Event::Offer { .. }));
    rig.move_to(0, elsewhere());
    assert_eq!(rig.expect(0), Event::Moved { call: here });
    rig.act(0, |agent, now| agent.offer(now, here, MOVED.to_vec()));
    assert_eq!(rig.count(0, "INVITE"), 1);
    if accepts {
        rig.act(0, |agent, now| agent.accept(now, here, SESSION));
        assert!(matches!(rig.expect(1), Event::Answer { .. }));
        // The first offer is older than the answer.
        assert_eq!(rig.expect(0), Event::Moved { call: here });
        rig.act(0, |agent, now| agent.offer(now, here, MOVED.to_vec()));
    } else {
        rig.act(0, |agent, now| agent.refuse(now, here, 488));
        assert!(matches!(rig.expect(1), Event::OfferFailed { .. }));
    }
    assert_eq!(rig.expect(1), Event::Offer { call: there, offer: Some(MOVED.to_vec()) });
    rig.act(1, |agent, now| agent.accept(now, there, SESSION));
    assert!(matches!(rig.expect(0), Event::Answer { .. }));
    rig.act(1, |agent, now| agent.hang_up(now, there));
    rig.finish();
}
