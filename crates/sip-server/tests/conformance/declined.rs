//! Offers that a phone has refused before it answered the owner's B2BUA: later calls go there at
//! once.

use crate::joining::{CONTACT, OTHER, describe, invites, joining, second_leg};
use crate::media::{answer, body, offer, sdp, secure};
use crate::rig::{ALICE, BOB, Draft, Reaction, Rig, STRANGER, Sent, udp};
use barebell_sip_server::Flow;
use barebell_sip_server::config::Joining;
use sip::{Duration, HeaderName};

/// Alice calls bob. His first phone refuses her offer, and answers that of the B2BUA. Returns the
/// INVITE to the B2BUA.
fn answered_after_refusal(rig: &mut Rig, draft: &Draft) -> Sent {
    let branches = invites(&rig.send_as("alice", &udp(ALICE), draft));
    let direct = branches.iter().find(|sent| sent.flow == udp(BOB)).expect("an INVITE to bob");
    let reaction = rig.receive(&direct.flow, &direct.answer(488, "bob", ""));
    let [first] = &invites(&reaction)[..] else { panic!("{reaction:?}") };
    describe(rig, first, 200, "b2bua", CONTACT);
    first.clone()
}

/// The flows of the INVITEs for a call.
fn flows(reaction: &Reaction) -> Vec<Flow> {
    invites(reaction).iter().map(|sent| sent.flow).collect()
}

#[test]
fn a_call_that_was_refused_before_goes_through_the_b2bua_at_once() {
    let (mut rig, _) = joining(Joining::Needed);
    rig.register("bob", &udp(OTHER), &format!("<sip:bob@{OTHER}>"));
    let draft = offer("198.51.100.10");
    let route = answered_after_refusal(&mut rig, &draft).value(HeaderName::Route);
    assert!(route.contains(";keys=other"), "{route}");
    assert_eq!(rig.count("b2bua-at-once"), 0);
    // The offer differs in its port.
    let again = draft.next().with("Call-ID", "again");
    let again = again.with_body(&sdp("198.51.100.10").replace("m=audio 4", "m=audio 5"));
    let reaction = rig.send_as("alice", &udp(ALICE), &again);
    let internal = udp(ALICE).internal();
    assert_eq!(flows(&reaction), [udp(OTHER), internal], "the other phone gets the offer");
    assert_eq!(rig.count("b2bua-at-once"), 1);
    let first = invites(&reaction).remove(1);
    let second = rig.send(&first.flow, &second_leg(&first)).forwarded().clone();
    assert_eq!(second.flow, udp(BOB));
    assert!(body(&second).contains(" RTP/SAVP 0\r\n"), "{}", body(&second));
    // The phone may have changed since: it refuses the offer of the B2BUA.
    let reaction = rig.receive(&first.flow, &first.answer(488, "b2bua", ""));
    assert_eq!(flows(&reaction), [udp(BOB)]);
    let direct = invites(&reaction).remove(0);
    assert_eq!(answer(&mut rig, &direct, 200).status(), 200);
    let third = draft.next().with("Call-ID", "third");
    assert_eq!(flows(&rig.send_as("alice", &udp(ALICE), &third)), [udp(OTHER), udp(BOB)]);
}

/// A refusal that one caller gets tells nothing about the calls of another one, about another offer
/// or about later.
#[test]
fn a_refusal_counts_for_the_same_caller_and_offer_only_and_ends() {
    let (mut rig, _) = joining(Joining::Needed);
    let draft = offer("198.51.100.10");
    answered_after_refusal(&mut rig, &draft);
    let new = |id: &str| draft.next().with("Call-ID", id);
    let internal = udp(ALICE).internal();
    assert_eq!(flows(&rig.send_as("alice", &udp(ALICE), &new("a"))), [internal]);
    // Another user at the same host, the same user elsewhere, a stranger.
    let carol = new("b").with("From", "<sip:carol@example.com>;tag=c");
    assert_eq!(flows(&rig.send_as("carol", &udp(ALICE), &carol)), [udp(BOB)]);
    assert_eq!(flows(&rig.send_as("alice", &udp(STRANGER), &new("c"))), [udp(BOB)]);
    let strange = new("d").with("From", "<sip:x@foreign.example>;tag=x");
    assert_eq!(flows(&rig.send(&udp(ALICE), &strange)), [udp(BOB)]);
    let gsm = new("e").with_body(&sdp("198.51.100.10").replace("RTP/AVP 0", "RTP/AVP 3"));
    assert_eq!(flows(&rig.send_as("alice", &udp(ALICE), &gsm)), [udp(BOB)]);
    rig.wait(Duration::from_secs(600));
    assert_eq!(flows(&rig.send_as("alice", &udp(ALICE), &new("f"))), [udp(BOB)]);
}

/// Only a callee that takes the offer of the B2BUA needs it.
#[test]
fn a_refusal_of_both_offers_is_not_remembered() {
    let (mut rig, _) = joining(Joining::Needed);
    let draft = offer("198.51.100.10");
    let direct = rig.send_as("alice", &udp(ALICE), &draft).forwarded().clone();
    let reaction = rig.receive(&direct.flow, &direct.answer(488, "bob", ""));
    let first = invites(&reaction).remove(0);
    rig.receive(&first.flow, &first.answer(488, "b2bua", ""));
    let again = draft.next().with("Call-ID", "again");
    assert_eq!(flows(&rig.send_as("alice", &udp(ALICE), &again)), [udp(BOB)]);
}

/// The callee gets the offer of the caller again ten minutes after its refusal, even if many calls
/// have gone through the B2BUA at once since.
#[test]
fn a_refusal_is_not_renewed_by_the_calls_that_it_leads_to_the_b2bua() {
    let (mut rig, _) = joining(Joining::Needed);
    let draft = offer("198.51.100.10");
    answered_after_refusal(&mut rig, &draft);
    rig.wait(Duration::from_secs(400));
    let again = draft.next().with("Call-ID", "again");
    let reaction = rig.send_as("alice", &udp(ALICE), &again);
    assert_eq!(flows(&reaction), [udp(ALICE).internal()]);
    describe(&mut rig, &invites(&reaction)[0], 200, "b2bua", CONTACT);
    rig.wait(Duration::from_secs(200));
    let later = draft.next().with("Call-ID", "later");
    assert_eq!(flows(&rig.send_as("alice", &udp(ALICE), &later)), [udp(BOB)]);
}

/// A refused offer with keys leads to one in clear, so it is remembered for proved callers only:
/// others may send an offer with malformed keys in the name of a caller behind the same proxy.
#[test]
fn a_refusal_of_encrypted_media_is_remembered_for_proved_callers_only() {
    let (mut rig, _) = joining(Joining::Needed);
    let text = secure("198.51.100.10");
    let call = |id: &str| offer("198.51.100.10").with("Call-ID", id).with_body(&text);
    let refused = |rig: &mut Rig, reaction: &Reaction| {
        let [direct] = &invites(reaction)[..] else { panic!("{reaction:?}") };
        assert_eq!(direct.flow, udp(BOB));
        let reaction = rig.receive(&direct.flow, &direct.answer(488, "bob", ""));
        let [first] = &invites(&reaction)[..] else { panic!("{reaction:?}") };
        describe(rig, first, 200, "b2bua", CONTACT);
    };
    let from = "<sip:x@foreign.example>;tag=x";
    for id in ["a", "b"] {
        let reaction = rig.send(&udp(STRANGER), &call(id).with("From", from));
        refused(&mut rig, &reaction);
    }
    let reaction = rig.send_as("alice", &udp(ALICE), &call("c"));
    refused(&mut rig, &reaction);
    assert_eq!(flows(&rig.send_as("alice", &udp(ALICE), &call("d"))), [udp(ALICE).internal()]);
}
