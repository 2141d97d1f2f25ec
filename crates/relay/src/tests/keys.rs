//! SRTP keys that end at the relay.

use super::*;
use srtp::plus::{Placement, Scheme, SrtpPlus};

#[test]
fn keys_end_at_the_relay_on_either_side_and_last_over_a_new_offer() {
    for (caller, callee, keying) in [
        (Security::Off, Security::Off, Keying::Passed),
        (Security::Required, Security::Required, Keying::Passed),
        (Security::Required, Security::Off, Keying::Clear),
        (Security::Required, Security::Off, Keying::Optional),
        (Security::Off, Security::Required, Keying::Required),
        (Security::Off, Security::Off, Keying::Optional),
        (Security::Required, Security::Required, Keying::Required),
    ] {
        let mut rig = Rig::new(Limits::default());
        rig.keying = keying;
        let (mut here, mut there) = (Phone::new(CALLER, caller), Phone::new(CALLEE, callee));
        let offer = rig.first_offer(&here.offer());
        let case = std::format!("{caller:?} {callee:?} {keying:?}");
        let answer = there.answer(&offer).unwrap_or_else(|| panic!("{case}: {offer}"));
        here.accept(&rig.first_answer(&answer).expect(&case));
        here.talk(&rig, Side::Caller, &mut there);
        there.talk(&rig, Side::Callee, &mut here);
        // The callee offers again, and the rollover counters go on. The signalling asks for keys
        // only in the first offer.
        rig.keying = Keying::Passed;
        let [offer, _] = rig.renew(&mut there, &mut here);
        here.talk(&rig, Side::Caller, &mut there);
        there.talk(&rig, Side::Callee, &mut here);
        assert_eq!(offer.contains("a=crypto"), caller == Security::Required, "{case}: {offer}");
    }
}

/// The controller that asks for keys in the first offer may leave them out in later ones.
#[test]
fn a_leg_in_clear_stays_in_clear() {
    let mut rig = Rig::new(Limits::default());
    rig.keying = Keying::Required;
    let (mut here, mut there) =
        (Phone::new(CALLER, Security::Off), Phone::new(CALLEE, Security::Required));
    let answer = there.answer(&rig.first_offer(&here.offer())).unwrap();
    here.accept(&rig.first_answer(&answer).unwrap());
    let role = Role::Offer { exchange: 9 };
    let offer = rig.pass(Side::Callee, role, &there.offer(), |_| {}).unwrap().unwrap();
    assert!(offer.contains(" RTP/AVP ") && !offer.contains("a=crypto"), "{offer}");
}

#[test]
fn a_phone_with_srtp_plus_has_it_on_its_leg() {
    for placement in [Placement::Trailer, Placement::Extension(5)] {
        let mut rig = Rig::new(Limits::default());
        rig.keying = Keying::Clear;
        let plus = Some(SrtpPlus { scheme: Scheme::Header, placement });
        let config = MediaConfig { security: Security::Required, plus, ..MediaConfig::default() };
        let (mut here, mut there) =
            (Phone::with(CALLER, config), Phone::new(CALLEE, Security::Off));
        let answer = there.answer(&rig.first_offer(&here.offer())).unwrap();
        let answer = rig.first_answer(&answer).unwrap();
        assert!(answer.contains(" -SRTP-PLUS=4/"), "{answer}");
        here.accept(&answer);
        // A receiver refuses packets without a tag.
        here.talk(&rig, Side::Caller, &mut there);
        there.talk(&rig, Side::Callee, &mut here);
        rig.renew(&mut there, &mut here);
        here.talk(&rig, Side::Caller, &mut there);
        there.talk(&rig, Side::Callee, &mut here);
    }
}
