//! Calls through the owner's B2BUA: its rights, and the two legs of its calls. The test acts as the
//! B2BUA.

use crate::media::{NAT, answer, body, offer, sdp, secure, server, with_handshake};
use crate::rig::{ALICE, BOB, Draft, Reaction, Rig, STRANGER, Sent, closed_config, tcp, text, udp};
use barebell_sip_server::config::{Joining, MediaKeys};
use barebell_sip_server::relay::{Calls, Codec};
use barebell_sip_server::{Config, Flow};
use barebell_sip_server::{Event, JoinedCalls, Party};
use sip::{Duration, HeaderName};
use std::sync::Arc;

/// The second phone of bob.
pub(crate) const OTHER: &str = "198.51.100.21:5060";

pub(crate) fn joining(joining: Joining) -> (Rig, Arc<dyn Calls>) {
    let config = Config { joining, ..closed_config() };
    server(config, &format!("<sip:bob@{BOB}>"))
}

/// The INVITE that the B2BUA sends for `first`, which it has received.
pub(crate) fn second_leg(first: &Sent) -> Draft {
    let text = body(first);
    let from = first.value(HeaderName::From).replace("tag=", "tag=second-");
    let routes = first.values(HeaderName::Route);
    assert_eq!(routes.len(), 1, "{first:?}");
    let draft = Draft::new("INVITE", &first.request_uri())
        .with("Max-Forwards", &first.value(HeaderName::MaxForwards))
        .with("From", &from)
        .with("To", &first.value(HeaderName::To))
        .and("Contact", "<sip:b2bua@203.0.113.1:5060>")
        .and("Route", &routes[0]);
    if text.is_empty() {
        draft
    } else {
        draft.and("Content-Type", "application/sdp").with_body(&text)
    }
}

/// A request within the dialog that the 2xx `answered` confirms, from its caller.
pub(crate) fn within(answered: &Sent, method: &str, uri: &str) -> Draft {
    let mut routes = answered.values(HeaderName::RecordRoute);
    routes.reverse();
    let draft = Draft::new(method, uri)
        .with("From", &answered.value(HeaderName::From))
        .with("To", &answered.value(HeaderName::To))
        .with("Call-ID", &answered.value(HeaderName::CallId))
        .with_cseq(9);
    routes.iter().fold(draft, |draft, route| draft.and("Route", route))
}

/// A request within the dialog of `invite`, from its callee with the tag `tag`.
pub(crate) fn back(invite: &Sent, method: &str, uri: &str, tag: &str) -> Draft {
    let draft = Draft::new(method, uri)
        .with("From", &format!("{};tag={tag}", invite.value(HeaderName::To)))
        .with("To", &invite.value(HeaderName::From))
        .with("Call-ID", &invite.value(HeaderName::CallId))
        .with_cseq(5);
    let routes = invite.values(HeaderName::RecordRoute);
    routes.iter().fold(draft, |draft, route| draft.and("Route", route))
}

/// Answers `invite` with `status`, a session description and its Record-Route.
pub(crate) fn describe(
    rig: &mut Rig,
    invite: &Sent,
    status: u16,
    tag: &str,
    contact: &str,
) -> Reaction {
    let routes: String = invite
        .values(HeaderName::RecordRoute)
        .iter()
        .map(|route| format!("Record-Route: {route}\r\n"))
        .collect();
    let fields = format!("{routes}Contact: <{contact}>\r\nContent-Type: application/sdp\r\n");
    let text = sdp("198.51.100.20");
    let response = String::from_utf8(invite.answer(status, tag, &fields)).unwrap();
    let length = format!("Content-Length: {}\r\n\r\n{text}", text.len());
    let response = response.replace("Content-Length: 0\r\n\r\n", &length);
    rig.receive(&invite.flow, response.as_bytes())
}

fn is_invite(sent: &&Sent) -> bool {
    sent.value(HeaderName::CSeq).ends_with("INVITE") && sent.status() == 0
}

pub(crate) fn invites(reaction: &Reaction) -> Vec<Sent> {
    reaction.requests().filter(is_invite).cloned().collect()
}

#[test]
fn both_legs_of_a_call_pass_the_proxy_and_the_second_one_is_relayed() {
    let (mut rig, relay) = joining(Joining::All);
    let draft = offer("198.51.100.10");
    let first = rig.send_as("alice", &udp(ALICE), &draft).forwarded().clone();
    let internal = udp(ALICE).internal();
    assert_eq!(first.flow, internal);
    assert_eq!(first.request_uri(), "sip:bob@example.com");
    assert_eq!((body(&first), relay.count()), (sdp("198.51.100.10"), 0));
    assert_eq!(first.value(HeaderName::ProxyAuthorization), "");

    let reaction = rig.send(&internal, &second_leg(&first));
    let second = reaction.forwarded().clone();
    assert_eq!(second.flow, udp(BOB));
    assert_eq!(second.values(HeaderName::Route), Vec::<String>::new(), "the pass is removed");
    assert_eq!(relay.count(), 1);
    assert!(body(&second).contains("c=IN IP4 203.0.113.1\r\n"), "{}", body(&second));

    let ringing = rig.receive(&second.flow, &second.answer(180, "bob", ""));
    assert_eq!(ringing.response().flow, internal);
    let answered = describe(&mut rig, &second, 200, "bob", &format!("sip:bob@{BOB}"));
    let answered = answered.response().clone();
    assert_eq!(answered.flow, internal);
    assert!(body(&answered).contains("m=audio 20000 "), "{}", body(&answered));
    let joined = describe(&mut rig, &first, 200, "b2bua", "sip:b2bua@203.0.113.1:5060");
    let joined = joined.response().clone();
    assert_eq!((joined.flow, body(&joined)), (udp(ALICE), sdp("198.51.100.20")));

    // Requests within the dialogs go both ways.
    let ack = within(&joined, "ACK", "sip:b2bua@203.0.113.1:5060");
    assert_eq!(rig.send(&udp(ALICE), &ack).forwarded().flow, internal);
    let ack = within(&answered, "ACK", &format!("sip:bob@{BOB}"));
    assert_eq!(rig.send(&internal, &ack).forwarded().flow, udp(BOB));
    let again = within(&joined, "INVITE", "sip:b2bua@203.0.113.1:5060")
        .and("Contact", &format!("<sip:alice@{ALICE}>"))
        .and("Content-Type", "application/sdp")
        .with_body(&sdp("198.51.100.10"));
    let again = rig.send(&udp(ALICE), &again).forwarded().clone();
    assert_eq!((again.flow, body(&again)), (internal, sdp("198.51.100.10")));
    let again = within(&answered, "INVITE", &format!("sip:bob@{BOB}"))
        .and("Contact", "<sip:b2bua@203.0.113.1:5060>")
        .and("Content-Type", "application/sdp")
        .with_body(&sdp("198.51.100.10"));
    let again = rig.send(&internal, &again).forwarded().clone();
    assert!(again.flow == udp(BOB) && body(&again).contains("m=audio 20002 "));
    let info = back(&second, "INFO", "sip:b2bua@203.0.113.1:5060", "bob");
    assert_eq!(rig.send(&udp(BOB), &info).forwarded().flow, internal);
    let info = back(&first, "INFO", &format!("sip:alice@{ALICE}"), "b2bua");
    assert_eq!(rig.send(&internal, &info).forwarded().flow, udp(ALICE));

    let bye = back(&second, "BYE", "sip:b2bua@203.0.113.1:5060", "bob");
    let bye = rig.send(&udp(BOB), &bye).forwarded().clone();
    let ended = rig.receive(&internal, &bye.answer(200, "", ""));
    ended.response();
    let is_record = |event: &Event| matches!(event, Event::CallEnded(it) if it.is_joined);
    assert_eq!(ended.events.iter().filter(|event| is_record(event)).count(), 1);
    assert_eq!(relay.count(), 0);
    let bye = back(&first, "BYE", &format!("sip:alice@{ALICE}"), "b2bua");
    assert_eq!(rig.send(&internal, &bye).forwarded().flow, udp(ALICE));
    assert_eq!(rig.count("invites"), 2, "the call and the offer of alice, of one leg each");
}

/// The INVITE to the B2BUA for a call of alice, or of a stranger, to `uri`.
fn first_leg(rig: &mut Rig, from: &str, uri: &str) -> Sent {
    let draft = offer("198.51.100.10").with_uri(uri).with("To", &format!("<{uri}>"));
    let reaction = match from {
        "alice" => rig.send_as("alice", &udp(ALICE), &draft),
        from => {
            let from = format!("<{from}>;tag=x");
            rig.send(&udp(STRANGER), &draft.with("From", &from))
        }
    };
    let first = reaction.forwarded().clone();
    assert!(first.flow.is_internal());
    first
}

#[test]
fn the_second_leg_has_the_rights_of_its_caller_and_no_others() {
    const STRANGE: &str = "sip:x@foreign.example";
    let abroad = "sip:y@192.0.2.5";
    let (alice, stranger) = (udp(ALICE).internal(), udp(STRANGER).internal());
    let (mut rig, _) = joining(Joining::All);
    let of_alice = second_leg(&first_leg(&mut rig, "alice", abroad));
    assert_eq!(rig.send(&alice, &of_alice).forwarded().flow.remote.to_string(), "192.0.2.5:5060");
    let of_stranger = second_leg(&first_leg(&mut rig, STRANGE, "sip:bob@example.com"));
    assert_eq!(rig.send(&stranger, &of_stranger).forwarded().flow, udp(BOB));
    for (what, flow, draft) in [
        ("another URI", alice, of_alice.next().with_uri("sip:y@192.0.2.6")),
        ("one of our users", alice, of_alice.next().with_uri("sip:bob@example.com")),
        ("another user", alice, of_alice.next().with("From", "<sip:carol@example.com>;tag=1")),
        ("another domain", alice, of_alice.next().with("From", "<sip:x@foreign.example>;tag=1")),
        ("another caller", stranger, of_alice.next()),
        ("no pass", alice, of_alice.next().without("Route")),
        ("another method", alice, of_alice.next().with_method("MESSAGE")),
        ("the URI of a stranger", stranger, of_stranger.next().with_uri(abroad)),
        (
            "the name of a user for a stranger",
            stranger,
            of_stranger.next().with("From", "<sip:alice@example.com>;tag=1"),
        ),
    ] {
        assert_eq!(rig.send(&flow, &draft).status(), 403, "{what}");
    }
    let dialog = of_alice.next().with("To", "<sip:y@192.0.2.5>;tag=9");
    assert_eq!(rig.send(&alice, &dialog).status(), 481, "a dialog without a token");
    let register = Draft::register("alice").and("Contact", "<sip:a@192.0.2.66>");
    assert_ne!(rig.send(&alice, &register).status(), 200);
    rig.wait(Duration::from_secs(61));
    assert_eq!(rig.send(&alice, &of_alice.next()).status(), 403, "a pass of the last minute");
}

#[test]
fn a_pass_is_worthless_outside() {
    let abroad = "sip:y@192.0.2.5";
    let (mut rig, _) = joining(Joining::All);
    let pass = second_leg(&first_leg(&mut rig, "alice", abroad));
    for flow in [udp(STRANGER), udp(ALICE), tcp(ALICE, 7), tcp(STRANGER, 8)] {
        assert_eq!(rig.send(&flow, &pass.next()).status(), 407);
        let foreign = pass.next().with("From", "<sip:x@foreign.example>;tag=1");
        assert_eq!(rig.send(&flow, &foreign).status(), 403, "{flow}");
    }
    // A call with a further Route does not go through the B2BUA.
    let route = pass.next().with("Route", "<sip:192.0.2.7;lr>");
    let passed = rig.send_as("alice", &udp(ALICE), &route).forwarded().clone();
    assert_eq!(passed.flow.remote.to_string(), "192.0.2.7:5060");
}

#[test]
fn a_call_that_nobody_could_answer_does_not_reach_the_b2bua() {
    let (mut rig, _) = joining(Joining::All);
    for (uri, expected) in [("sip:nobody@example.com", 404), ("sip:carol@example.com", 480)] {
        let draft = Draft::invite(uri).with("From", "<sip:x@foreign.example>;tag=1");
        assert_eq!(rig.send(&udp(STRANGER), &draft).status(), expected);
    }
    let abroad = Draft::invite("sip:y@192.0.2.5").with("From", "<sip:x@foreign.example>;tag=1");
    assert_eq!(rig.send(&udp(STRANGER), &abroad).status(), 403);
    let other = Draft::new("MESSAGE", "sip:bob@example.com");
    assert_eq!(rig.send_as("alice", &udp(ALICE), &other).forwarded().flow, udp(BOB));
}

#[test]
fn the_second_leg_forks_and_is_cancelled_as_a_whole() {
    let (mut rig, relay) = joining(Joining::All);
    rig.register("bob", &udp(OTHER), &format!("<sip:bob@{OTHER}>"));
    let first = first_leg(&mut rig, "alice", "sip:bob@example.com");
    let draft = second_leg(&first);
    let branches = invites(&rig.send(&first.flow, &draft));
    assert_eq!((branches.len(), relay.count()), (2, 2));
    for branch in &branches {
        rig.receive(&branch.flow, &branch.answer(180, "t", "")).response();
    }
    // The caller cancels its leg.
    rig.receive(&first.flow, &first.answer(180, "b2bua", "")).response();
    let cancelled = rig.end_of(&first);
    assert_eq!(cancelled.flow, first.flow);
    assert!(cancelled.bytes.starts_with(b"CANCEL sip:bob@example.com "));
    let reaction = rig.send(&first.flow, &draft.clone().without("Route").with_method("CANCEL"));
    assert_eq!(reaction.responses().map(Sent::status).collect::<Vec<_>>(), [200]);
    let to: Vec<Flow> = reaction.requests().map(|sent| sent.flow).collect();
    assert_eq!(to, [branches[0].flow, branches[1].flow]);
    for branch in &branches {
        rig.receive(&branch.flow, &branch.answer(487, "t", ""));
    }
    assert_eq!(relay.count(), 0);
}

#[test]
fn the_caller_is_not_limited_twice() {
    let mut config = Config { joining: Joining::All, ..closed_config() };
    config.limits.foreign_rate = 1;
    config.limits.source_rate = 1;
    config.limits.source_burst = 2;
    let (mut rig, _) = server(config, &format!("<sip:bob@{BOB}>"));
    let first = first_leg(&mut rig, "sip:x@foreign.example", "sip:bob@example.com");
    rig.server.drain();
    let second = rig.send(&first.flow, &second_leg(&first));
    assert_eq!(second.forwarded().flow, udp(BOB), "the call has begun before the server drains");
    let payers = [&first, second.forwarded()].map(|sent| sent.payers);
    assert_eq!(payers[0], payers[1]);
    let more = offer("x").with("From", "<sip:x@foreign.example>;tag=x");
    let refused = rig.send(&udp(STRANGER), &more);
    assert!(refused.is_silent() || refused.status() == 503);
}

#[test]
fn the_response_to_a_refused_offer_is_another_call_to_that_phone() {
    for (text, expected) in
        [(sdp("198.51.100.10"), " RTP/SAVP 0\r\n"), (secure("198.51.100.10"), " RTP/AVP 0\r\n")]
    {
        let (mut rig, relay) = joining(Joining::Needed);
        rig.register("bob", &udp(OTHER), &format!("<sip:bob@{OTHER}>"));
        let draft = offer("198.51.100.10").with_body(&text);
        let branches = invites(&rig.send_as("alice", &udp(ALICE), &draft));
        let [refusing, other] = &branches[..] else { panic!("{branches:?}") };
        assert_eq!([refusing.flow, other.flow], [udp(OTHER), udp(BOB)]);
        assert_eq!((body(refusing), relay.count()), (text.clone(), 0));
        rig.receive(&other.flow, &other.answer(180, "other", ""));
        let reaction = rig.receive(&refusing.flow, &refusing.answer(488, "one", ""));
        assert_eq!(reaction.responses().count(), 0);
        let [first] = &invites(&reaction)[..] else { panic!("{reaction:?}") };
        assert_eq!((first.flow, body(first)), (udp(ALICE).internal(), text));
        assert!(first.value(HeaderName::Route).contains(";keys=other"));
        let second = rig.send(&first.flow, &second_leg(first)).forwarded().clone();
        assert_eq!(second.flow, refusing.flow, "the other phone rings once");
        assert!(body(&second).contains(expected), "{}", body(&second));
        let refused = rig.receive(&second.flow, &second.answer(488, "one", ""));
        assert_eq!(refused.responses().next().map(Sent::status), Some(488));
        assert_eq!(invites(&refused).len(), 0, "no further offer in the same dialog");
        assert_eq!(relay.count(), 0);
        let reaction = rig.receive(&first.flow, &first.answer(488, "b2bua", ""));
        assert_eq!((reaction.responses().count(), invites(&reaction).len()), (0, 0));
        let answered = answer(&mut rig, other, 200);
        assert_eq!((answered.flow, answered.status()), (udp(ALICE), 200));
    }
}

#[test]
fn a_callee_without_the_codecs_of_the_caller_gets_others() {
    let transcode = vec![Codec::Pcma];
    for (text, asks_for_keys) in [(sdp("198.51.100.10"), false), (secure("198.51.100.10"), true)] {
        let config =
            Config { joining: Joining::Needed, transcode: transcode.clone(), ..closed_config() };
        let (mut rig, _) = server(config, &format!("<sip:bob@{BOB}>"));
        let draft = offer("198.51.100.10").with_body(&text);
        let direct = rig.send_as("alice", &udp(ALICE), &draft).forwarded().clone();
        assert_eq!((direct.flow, body(&direct)), (udp(BOB), text));
        let reaction = rig.receive(&direct.flow, &direct.answer(488, "bob", ""));
        let [first] = &invites(&reaction)[..] else { panic!("{reaction:?}") };
        let route = first.value(HeaderName::Route);
        assert_eq!(route.contains(";keys=other"), asks_for_keys, "{route}");
        let second = rig.send(&first.flow, &second_leg(first)).forwarded().clone();
        assert!(body(&second).contains(" RTP/AVP 0 8"), "{}", body(&second));
    }
}

#[test]
fn the_caller_gets_the_response_to_the_second_call() {
    for (status, expected) in [(486, 486), (603, 603), (500, 488), (503, 488)] {
        let (mut rig, _) = joining(Joining::Needed);
        let direct = rig.send_as("alice", &udp(NAT), &offer("192.168.1.5")).forwarded().clone();
        assert_eq!(direct.flow, udp(BOB));
        let reaction = rig.receive(&direct.flow, &direct.answer(488, "bob", ""));
        let [first] = &invites(&reaction)[..] else { panic!("{reaction:?}") };
        let reaction = rig.receive(&first.flow, &first.answer(status, "b2bua", ""));
        assert_eq!(reaction.responses().next().map(Sent::status), Some(expected), "{status}");
    }
}

#[test]
fn the_b2bua_may_ask_for_an_offer_with_other_keys() {
    let (mut rig, relay) = joining(Joining::All);
    let first = first_leg(&mut rig, "alice", "sip:bob@example.com");
    let draft = second_leg(&first);
    let second = rig.send(&first.flow, &draft).forwarded().clone();
    assert!(body(&second).contains(" RTP/AVP 0\r\n"), "{}", body(&second));
    rig.receive(&second.flow, &second.answer(488, "bob", ""));
    let route = first.value(HeaderName::Route).replace('>', ";keys=other>");
    let again = draft.next().with("Call-ID", "another").with("Route", &route);
    let second = rig.send(&first.flow, &again).forwarded().clone();
    assert!(body(&second).contains(" RTP/SAVP 0\r\n"), "{}", body(&second));
    assert_eq!(relay.count(), 1);
    let reaction = rig.receive(&first.flow, &first.answer(488, "b2bua", ""));
    assert_eq!(invites(&reaction).len(), 0, "the B2BUA has tried both");
    assert_eq!(reaction.responses().next().map(Sent::status), Some(488));
}

/// A callee has refused two offers. The last one has the keys that neither had.
#[test]
fn the_b2bua_may_ask_for_a_last_offer() {
    let alone = " UDP/TLS/RTP/SAVP 0\r\n";
    for (text, profile, has_crypto) in [
        (sdp("198.51.100.10"), alone, false),
        (secure("198.51.100.10"), alone, false),
        (with_handshake("198.51.100.10"), " RTP/SAVP 0\r\n", true),
    ] {
        let (mut rig, relay) = joining(Joining::All);
        let draft = offer("198.51.100.10").with_body(&text);
        let reaction = rig.send_as("alice", &udp(ALICE), &draft);
        let [first] = &invites(&reaction)[..] else { panic!("{reaction:?}") };
        let route = first.value(HeaderName::Route).replace('>', ";offer=last>");
        let last = second_leg(first).with("Route", &route);
        let offered = body(rig.send(&first.flow, &last).forwarded());
        assert!(offered.contains(profile) && !offered.contains("ice-"), "{offered}");
        assert_eq!(offered.contains("a=crypto:"), has_crypto, "{offered}");
        assert!(offered.contains("a=fingerprint:sha-256 FE:FE:"), "{offered}");
        assert_eq!(relay.count(), 1);
    }
}

/// The callee gets no offer for the third time that it has refused twice.
#[test]
fn there_is_no_last_offer_if_keys_pass() {
    let config = Config { joining: Joining::All, media_keys: MediaKeys::Passed, ..closed_config() };
    let (mut rig, relay) = server(config, &format!("<sip:bob@{BOB}>"));
    let first = first_leg(&mut rig, "alice", "sip:bob@example.com");
    let route = first.value(HeaderName::Route).replace('>', ";offer=last>");
    let reaction = rig.send(&first.flow, &second_leg(&first).with("Route", &route));
    assert_eq!(reaction.responses().next().map(Sent::status), Some(488));
    assert_eq!((invites(&reaction).len(), relay.count()), (0, 0));
}

#[test]
fn without_the_b2bua_its_dialogs_are_unknown_and_nothing_leaves_the_process() {
    let (mut rig, _) = joining(Joining::All);
    let first = first_leg(&mut rig, "alice", "sip:bob@example.com");
    let joined = describe(&mut rig, &first, 200, "b2bua", "sip:b2bua@203.0.113.1:5060");
    let joined = joined.response().clone();
    let info = within(&joined, "INFO", "sip:b2bua@203.0.113.1:5060");
    let info = rig.send(&udp(ALICE), &info).forwarded().clone();
    let reaction = rig.undeliverable(&info.flow, &info.bytes);
    assert_eq!((reaction.response().flow, reaction.status()), (udp(ALICE), 481));
    // A response to the B2BUA is not sent to the address of the caller.
    let second = rig.send(&first.flow, &second_leg(&first)).forwarded().clone();
    let ringing = rig.receive(&second.flow, &second.answer(180, "bob", ""));
    let ringing = ringing.response().clone();
    assert!(rig.undeliverable(&ringing.flow, &ringing.bytes).is_silent());
}

#[test]
fn a_call_that_the_relay_ends_ends_both_legs() {
    let (mut rig, relay) = joining(Joining::All);
    let first = first_leg(&mut rig, "alice", "sip:bob@example.com");
    let second = rig.send(&first.flow, &second_leg(&first)).forwarded().clone();
    describe(&mut rig, &second, 200, "bob", &format!("sip:bob@{BOB}")).response();
    let call_id = second.value(HeaderName::CallId);
    let tags: [&[u8]; 2] = [b"bob", b"second-alice-tag"];
    let now = std::time::Duration::ZERO;
    let ended = relay.end_dialog(call_id.as_bytes(), tags, now).expect("a call");
    let reaction = rig.hang_up(&ended, "SIP;cause=408;text=\"No media\"");
    let to: Vec<Flow> = reaction.requests().map(|sent| sent.flow).collect();
    assert_eq!(to, [udp(BOB), first.flow], "the B2BUA ends the first leg");
    assert!(reaction.requests().all(|sent| sent.bytes.starts_with(b"BYE ")));
}

impl Rig {
    /// Has alice cancel the call of `first`, which goes to the B2BUA. Returns the CANCEL to it.
    fn end_of(&mut self, first: &Sent) -> Sent {
        let message = first.message();
        let via = message.elements(HeaderName::Via).nth(1).expect("the Via of alice");
        let via = String::from_utf8(via.to_vec()).unwrap();
        let cseq = first.value(HeaderName::CSeq).replace("INVITE", "CANCEL");
        let cancel = Draft::new("CANCEL", "sip:bob@example.com")
            .with("Via", &via)
            .with("CSeq", &cseq)
            .with("Call-ID", &first.value(HeaderName::CallId));
        let reaction = self.send(&udp(ALICE), &cancel);
        reaction.requests().next().expect("a CANCEL to the B2BUA").clone()
    }
}

#[test]
fn the_record_of_a_call_has_the_call_id_of_the_callers_leg() {
    let (mut rig, _) = joining(Joining::All);
    let first = rig.send_as("alice", &udp(ALICE), &offer("198.51.100.10")).forwarded().clone();
    let pass = first.value(HeaderName::Route);
    let told = pass.replace('>', ";caller=one%40%22h%22>");
    let draft = second_leg(&first).without("Route").and("Route", &told);
    let second = rig.send(&udp(ALICE).internal(), &draft).forwarded().clone();
    assert!(!text(&second.bytes).contains("caller="), "{second:?}");
    let refused = rig.receive(&second.flow, &second.answer(486, "bob", ""));
    let record = refused.events.iter().find_map(|event| match event {
        Event::CallEnded(record) => Some(record),
        _ => None,
    });
    let record = record.expect("the call is recorded");
    assert_eq!(record.caller_call_id.as_deref(), Some("one@\"h\""));
    assert!(record.is_joined);
}

#[test]
fn a_limit_of_the_b2bua_is_one_of_this_server() {
    let (mut rig, _) = joining(Joining::All);
    let first = rig.send_as("alice", &udp(ALICE), &offer("198.51.100.10")).forwarded().clone();
    let full = first.answer(503, "b2bua", "Retry-After: 5\r\n");
    let reaction = rig.receive(&first.flow, &full);
    let refused = reaction.responses().next().expect("a response").clone();
    assert_eq!((refused.status(), refused.flow), (503, udp(ALICE)));
    assert_eq!(refused.value(HeaderName::RetryAfter), "5");
}

/// The B2BUA ends the second leg of a call after the loss of its callee, or of its caller.
#[test]
fn the_record_of_a_call_that_the_b2bua_ends_names_the_party_that_is_gone_or_the_limit() {
    for (reason, by) in [
        (Some("SIP;cause=408;text=\"No response\""), Party::Callee),
        (Some("SIP;cause=403;text=\"No Minutes Left Today\""), Party::Limit),
        (Some("SIP;cause=403;text=\"Maximum Duration Reached\""), Party::Limit),
        (Some("SIP;cause=403;text=\"No Minutes\""), Party::Caller),
        (Some("SIP;cause=408"), Party::Caller),
        (None, Party::Caller),
    ] {
        let (mut rig, _) = joining(Joining::All);
        let first = first_leg(&mut rig, "alice", "sip:bob@example.com");
        let second = rig.send(&first.flow, &second_leg(&first)).forwarded().clone();
        let answered = describe(&mut rig, &second, 200, "bob", &format!("sip:bob@{BOB}"));
        let bye = within(answered.response(), "BYE", &format!("sip:bob@{BOB}"));
        let bye = reason.into_iter().fold(bye, |bye, reason| bye.and("Reason", reason));
        let bye = rig.send(&first.flow, &bye).forwarded().clone();
        let ended = rig.receive(&bye.flow, &bye.answer(200, "", ""));
        let is_record = |event: &Event| matches!(event, Event::CallEnded(it) if it.ended_by == by);
        assert!(ended.events.iter().any(is_record), "{reason:?}: {:?}", ended.events);
    }
}

/// A B2BUA with a leg that Replaces names as `leg`, with bob at the other end, and one that is
/// named `abroad`.
struct Legs;

impl JoinedCalls for Legs {
    fn replacing(&self, uri: &[u8], replaces: &[u8]) -> Option<Vec<u8>> {
        let party = match replaces {
            b"leg;to-tag=1;from-tag=2" => "sip:bob@example.com",
            b"abroad;to-tag=1;from-tag=2" => ABROAD,
            _ => return None,
        };
        Some(if uri == CONTACT.as_bytes() { party.into() } else { uri.to_vec() })
    }

    fn referral_of_trunk(&self, _: &[u8], _: &[u8], _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

/// A contact of the B2BUA.
pub(crate) const CONTACT: &str = "sip:call@203.0.113.1:5060";
const ABROAD: &str = "sip:y@192.0.2.5";

/// A server that sends calls through its B2BUA only if that is needed, and a call of alice to `uri`
/// that replaces `name`.
fn replacing(uri: &str, name: &str) -> (Rig, Draft) {
    let (mut rig, _) = joining(Joining::Needed);
    rig.join(Arc::new(Legs));
    let replaces = format!("{name};to-tag=1;from-tag=2");
    let draft = offer("198.51.100.10").with_uri(uri).with("To", &format!("<{uri}>"));
    (rig, draft.and("Replaces", &replaces))
}

#[test]
fn a_call_that_replaces_a_joined_one_goes_to_the_b2bua() {
    for (uri, name, target) in [
        (CONTACT, "leg", "sip:bob@example.com"),
        ("sip:bob@example.com", "leg", "sip:bob@example.com"),
        (CONTACT, "abroad", ABROAD),
    ] {
        let (mut rig, draft) = replacing(uri, name);
        let first = rig.send_as("alice", &udp(ALICE), &draft).forwarded().clone();
        assert_eq!(first.flow, udp(ALICE).internal(), "{uri} {name}");
        assert_eq!(first.request_uri(), target);
        assert!(first.value(HeaderName::Replaces).starts_with(name));
        // The second leg has the rights of alice for the new URI.
        let second = rig.send(&first.flow, &second_leg(&first)).forwarded().clone();
        assert!(!second.flow.is_internal());
        let other = second_leg(&first).with_uri("sip:carol@example.com");
        assert_eq!(rig.send(&first.flow, &other).status(), 403);
    }
}

#[test]
fn a_call_that_replaces_no_joined_one_passes_the_proxy() {
    let (mut rig, draft) = replacing("sip:bob@example.com", "other");
    assert_eq!(rig.send_as("alice", &udp(ALICE), &draft).forwarded().flow, udp(BOB));
    let (mut rig, draft) = replacing("sip:bob@example.com", "leg");
    let two = draft.and("Replaces", "leg;to-tag=1;from-tag=2");
    assert_eq!(rig.send_as("alice", &udp(ALICE), &two).forwarded().flow, udp(BOB));
    // A further Route leads elsewhere.
    let (mut rig, draft) = replacing(CONTACT, "leg");
    let route = draft.and("Route", "<sip:192.0.2.7;lr>");
    let passed = rig.send_as("alice", &udp(ALICE), &route).forwarded().clone();
    assert_eq!((passed.request_uri().as_str(), passed.flow.is_internal()), (CONTACT, false));
    let (mut rig, _) = replacing(CONTACT, "leg");
    let message = Draft::new("MESSAGE", CONTACT).and("Replaces", "leg;to-tag=1;from-tag=2");
    assert_eq!(rig.send_as("alice", &udp(ALICE), &message).status(), 404);
}

/// The name of a dialog gives no right to call.
#[test]
fn a_stranger_replaces_no_call_that_it_may_not_make() {
    let strange = "<sip:x@foreign.example>;tag=1";
    for (from, name, expected) in [
        ("<sip:alice@example.com>;tag=1", "leg", 407),
        ("<sip:alice@example.com>;tag=1", "abroad", 407),
        (strange, "abroad", 403),
        (strange, "other", 404),
    ] {
        let (mut rig, draft) = replacing(CONTACT, name);
        let draft = draft.with("From", from);
        assert_eq!(rig.send(&udp(STRANGER), &draft).status(), expected, "{from} {name}");
    }
    // A stranger may call our users, and has no more rights on the second leg.
    let (mut rig, draft) = replacing(CONTACT, "leg");
    let draft = draft.with("From", strange);
    let first = rig.send(&udp(STRANGER), &draft).forwarded().clone();
    assert_eq!(first.request_uri(), "sip:bob@example.com");
    let abroad = second_leg(&first).with_uri(ABROAD);
    assert_eq!(rig.send(&first.flow, &abroad).status(), 403);
}
