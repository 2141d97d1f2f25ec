//! Calls on a connection that ends, and the connection on which a dialog was created (RFC 5923).

use crate::rig::{ALICE, Draft, Rig, STRANGER, Sent, closed_config, tcp, text, udp};
use barebell_sip_server::config::State;
use barebell_sip_server::{Config, Flow};
use sip::{Duration, HeaderName, Location, Transport};

const TRUNK: &str = "192.0.2.50:5060";
const BOB_1: &str = "198.51.100.20:50001";
const BOB_2: &str = "198.51.100.20:50002";

fn contact(flow: &Flow) -> String {
    format!("<sip:bob@{};transport=tcp>", flow.remote)
}

fn call(uri: &str) -> Draft {
    Draft::invite(uri).with("From", "<sip:x@foreign.example>;tag=x-tag")
}

/// The requests with this method that were sent, by destination.
fn sent<'r>(reaction: &'r crate::rig::Reaction, method: &str) -> Vec<&'r Sent> {
    let is_it = |sent: &&Sent| sent.bytes.starts_with(format!("{method} ").as_bytes());
    reaction.requests().filter(is_it).collect()
}

#[test]
fn the_caller_hears_at_once_that_the_connection_of_the_phone_that_rings_has_ended() {
    let mut rig = Rig::closed();
    let (page, desk) = (tcp(BOB_1, 5), tcp(BOB_2, 6));
    rig.register("bob", &page, &contact(&page));
    for with_cancel in [false, true] {
        let invite = call("sip:bob@example.com");
        let ringing = rig.send(&udp(STRANGER), &invite);
        let there = sent(&ringing, "INVITE")[0].clone();
        rig.receive(&page, &there.answer(180, "b", ""));
        if with_cancel {
            let cancel = invite.clone().with_method("CANCEL");
            assert_eq!(sent(&rig.send(&udp(STRANGER), &cancel), "CANCEL").len(), 1);
        }
        let ended = rig.end(&page);
        let expected = if with_cancel { 487 } else { 480 };
        assert_eq!(ended.response().status(), expected);
        assert_eq!(ended.response().flow.remote, STRANGER.parse().unwrap());
        rig.wait(Duration::from_secs(40));
        assert_eq!(rig.server.transactions(), 0);
        let again = Flow { connection: tcp(BOB_1, 7).connection, ..page };
        rig.register("bob", &again, &contact(&again));
        if !with_cancel {
            // The second call rings on the new connection, which is the one that ends.
            let invite = call("sip:bob@example.com");
            let ringing = rig.send(&udp(STRANGER), &invite);
            let there = sent(&ringing, "INVITE")[0].clone();
            rig.receive(&again, &there.answer(180, "b", ""));
            assert!(rig.end(&page).sent.is_empty(), "another connection is none of its business");
            assert_eq!(rig.end(&again).response().status(), 480);
            rig.wait(Duration::from_secs(40));
            rig.register("bob", &page_anew(&page), &contact(&page));
            return_other_phone(&mut rig, &page_anew(&page), &desk);
            return;
        }
    }
}

fn page_anew(page: &Flow) -> Flow {
    Flow { connection: tcp(BOB_1, 9).connection, ..*page }
}

/// Another ringing phone continues to ring.
fn return_other_phone(rig: &mut Rig, page: &Flow, desk: &Flow) {
    rig.register("bob", desk, &contact(desk));
    let ringing = rig.send(&udp(STRANGER), &call("sip:bob@example.com"));
    let forks: Vec<Sent> = sent(&ringing, "INVITE").into_iter().cloned().collect();
    assert_eq!(forks.len(), 2);
    for fork in &forks {
        rig.receive(&fork.flow, &fork.answer(180, "b", ""));
    }
    assert!(rig.end(page).sent.is_empty());
    let other = forks.iter().find(|fork| fork.flow == *desk).expect("it rings");
    let answered = rig.receive(desk, &other.answer(200, "b", ""));
    assert_eq!(answered.response().status(), 200);
}

#[test]
fn phones_stop_ringing_when_the_connection_of_the_caller_ends() {
    let mut rig = Rig::closed();
    let bob = tcp(BOB_1, 5);
    rig.register("bob", &bob, &contact(&bob));
    let caller = tcp(STRANGER, 8);
    let ringing = rig.send(&caller, &call("sip:bob@example.com"));
    let there = sent(&ringing, "INVITE")[0].clone();
    rig.receive(&bob, &there.answer(180, "b", ""));
    let ended = rig.end(&caller);
    assert_eq!(sent(&ended, "CANCEL").len(), 1, "{ended:#?}");
    assert_eq!(sent(&ended, "CANCEL")[0].flow, bob);
    rig.receive(&bob, &there.answer(487, "b", ""));
    rig.wait(Duration::from_secs(40));
    assert_eq!(rig.server.transactions(), 0);

    // An answered call continues, and so does a call through another proxy.
    for through in [false, true] {
        let mut invite = call("sip:bob@example.com");
        if through {
            let via = format!("SIP/2.0/TCP {STRANGER};branch=z9hG4bK-p{through}");
            invite = invite.and("Via", &via).and("Via", "SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK-c");
        }
        let caller = tcp(STRANGER, 10 + u64::from(through));
        let ringing = rig.send(&caller, &invite);
        let there = sent(&ringing, "INVITE")[0].clone();
        rig.receive(&bob, &there.answer(180, "b", ""));
        if !through {
            rig.receive(&bob, &there.answer(200, "b", ""));
        }
        assert!(sent(&rig.end(&caller), "CANCEL").is_empty());
    }
}

/// A call of alice to a trunk by its name. Returns the request that the trunk receives.
fn to_trunk(rig: &mut Rig) -> Sent {
    let draft = Draft::invite("sip:123@trunk.example;transport=tcp");
    let reaction = rig.send_as("alice", &udp(ALICE), &draft);
    let (_, ticket) = reaction.wants_location();
    let place = Location { transport: Transport::Tcp, remote: TRUNK.parse().unwrap(), local: None };
    let located = rig.located(ticket, &[place]);
    let there = sent(&located, "INVITE")[0].clone();
    assert_eq!(there.flow.connection, None, "the owner opens it");
    there
}

/// A request of alice within the dialog that `answer` created.
pub(crate) fn within(answer: &Sent, method: &str, contact: &str) -> Draft {
    let mut routes = answer.values(HeaderName::RecordRoute);
    routes.reverse();
    Draft::new(method, contact)
        .with("From", "<sip:alice@example.com>;tag=alice-tag")
        .with("To", &answer.value(HeaderName::To))
        .with("Call-ID", &answer.value(HeaderName::CallId))
        .and("Route", &routes.join(", "))
        .with_cseq(20)
}

/// The response that alice gets when `there` is answered on the flow `on`, from `contact`.
pub(crate) fn answered(rig: &mut Rig, there: &Sent, status: u16, on: &Flow, contact: &str) -> Sent {
    let routes: String = there
        .message()
        .values(HeaderName::RecordRoute)
        .map(|value| format!("Record-Route: {}\r\n", text(value)))
        .collect();
    let fields = format!("{routes}Contact: <{contact}>\r\n");
    rig.receive(on, &there.answer(status, "t", &fields)).response().clone()
}

#[test]
fn a_dialog_goes_on_on_the_connection_that_was_opened_for_it() {
    for state in [State::Stateful, State::Stateless] {
        for contact in ["sip:123@192.0.2.50:5060;transport=tcp", "sip:123@192.0.2.50"] {
            let mut rig = Rig::closed_with(Config { state, ..closed_config() });
            let there = to_trunk(&mut rig);
            let opened = tcp(TRUNK, 77);
            let answer = answered(&mut rig, &there, 200, &opened, contact);
            for method in ["ACK", "INFO", "INVITE"] {
                let draft = within(&answer, method, contact);
                let forwarded = rig.send_as("alice", &udp(ALICE), &draft);
                assert_eq!(
                    sent(&forwarded, method)[0].flow,
                    opened,
                    "{method} {contact} {state:?}"
                );
            }
            // Another transport in the Contact is respected.
            let bye = within(&answer, "BYE", contact);
            let forwarded = rig.send_as("alice", &udp(ALICE), &bye).forwarded().clone();
            assert_eq!(forwarded.flow, opened);
            if state == State::Stateful {
                // The connection ends at this moment.
                let again = rig.undeliverable(&forwarded.flow, &forwarded.bytes);
                let retried = sent(&again, "BYE")[0];
                assert_eq!(
                    (retried.flow.connection, retried.flow.remote),
                    (None, TRUNK.parse().unwrap())
                );
            }
            rig.end(&opened);
            let bye = within(&answer, "BYE", contact);
            let forwarded = rig.send_as("alice", &udp(ALICE), &bye.next()).forwarded().clone();
            assert_eq!(forwarded.flow.connection, None, "where the URI leads");
            assert_eq!(forwarded.flow.remote, TRUNK.parse().unwrap());
        }
    }
}

#[test]
fn a_connection_of_another_place_or_for_another_transport_is_not_taken() {
    let contact = "sip:123@192.0.2.50:5060;transport=tcp";
    let mut rig = Rig::closed();
    let there = to_trunk(&mut rig);
    // The trunk answers on a connection that it has opened itself.
    let answer = answered(&mut rig, &there, 200, &tcp("192.0.2.50:40000", 78), contact);
    let forwarded = rig.send(&udp(ALICE), &within(&answer, "BYE", contact)).forwarded().clone();
    assert_eq!(forwarded.flow.connection, None);
    let contact = "sip:123@192.0.2.50:5060;transport=udp";
    let there = to_trunk(&mut rig);
    let answer = answered(&mut rig, &there, 200, &tcp(TRUNK, 79), contact);
    let forwarded = rig.send(&udp(ALICE), &within(&answer, "BYE", contact)).forwarded().clone();
    assert_eq!(forwarded.flow.transport, Transport::Udp);
    // Another dialog with the same place does not use the connection either.
    let there = to_trunk(&mut rig);
    let contact = "sip:123@192.0.2.50:5060;transport=tcp";
    let answer = answered(&mut rig, &there, 200, &tcp("192.0.2.50:40000", 80), contact);
    let forwarded = rig.send(&udp(ALICE), &within(&answer, "BYE", contact)).forwarded().clone();
    assert_eq!(forwarded.flow.connection, None);
}

#[test]
fn an_early_dialog_goes_on_on_the_connection_that_was_opened_for_it() {
    let contact = "sip:123@192.0.2.50:5060;transport=tcp";
    let mut rig = Rig::closed();
    let there = to_trunk(&mut rig);
    let opened = tcp(TRUNK, 77);
    let ringing = answered(&mut rig, &there, 183, &opened, contact);
    let prack = rig.send(&udp(ALICE), &within(&ringing, "PRACK", contact)).forwarded().clone();
    assert_eq!(prack.flow, opened);
}

/// A party that knows the Call-ID and the tags, for example from a transfer, creates a dialog with
/// the same identifiers.
#[test]
fn another_dialog_with_the_same_tags_draws_no_requests_to_its_connection() {
    let contact = "sip:123@192.0.2.50:5060;transport=tcp";
    let mut rig = Rig::closed();
    let there = to_trunk(&mut rig);
    let opened = tcp(TRUNK, 77);
    let answer = answered(&mut rig, &there, 200, &opened, contact);
    // Carol calls her own destination with the same identifiers, and that one answers like the
    // trunk.
    let draft = Draft::invite("sip:123@trunk.example;transport=tcp")
        .with("From", "<sip:carol@example.com>;tag=alice-tag")
        .with("Call-ID", &answer.value(HeaderName::CallId));
    let (_, ticket) = rig.send_as("carol", &udp(STRANGER), &draft).wants_location();
    let remote = "192.0.2.66:5060".parse().unwrap();
    let place = Location { transport: Transport::Tcp, remote, local: None };
    let located = rig.located(ticket, &[place]);
    let other = sent(&located, "INVITE")[0].clone();
    answered(&mut rig, &other, 200, &tcp("192.0.2.66:5060", 90), contact);
    let bye = within(&answer, "BYE", contact);
    assert_eq!(rig.send(&udp(ALICE), &bye).forwarded().flow, opened);
}

/// A REGISTER of bob's phone that is reached on `flow` only, with the Call-ID and instance.
fn returns(flow: &Flow, call_id: &str, instance: Option<&str>, cseq: u32) -> Draft {
    let instance = instance.map(|name| format!(";reg-id=1;+sip.instance=\"<urn:uuid:{name}>\""));
    let contact = format!("{}{}", contact(flow), instance.unwrap_or_default());
    Draft::register("bob")
        .with("Contact", &contact)
        .with("Supported", "path, outbound")
        .with("Call-ID", call_id)
        .with_cseq(cseq)
}

/// A call of alice to bob's phone on `flow`: its answer.
fn to_phone(rig: &mut Rig, flow: &Flow) -> Sent {
    let ringing = rig.send_as("alice", &udp(ALICE), &Draft::invite("sip:bob@example.com"));
    let there = sent(&ringing, "INVITE").into_iter().find(|sent| sent.flow == *flow).unwrap();
    let contact = contact(flow);
    answered(rig, &there.clone(), 200, flow, contact.trim_matches(['<', '>']))
}

/// The flow on which a BYE of alice goes on, none where it does not.
fn bye_goes(rig: &mut Rig, answer: &Sent, to: &Flow) -> Option<Flow> {
    let contact = contact(to);
    let bye = within(answer, "BYE", contact.trim_matches(['<', '>']));
    let reaction = rig.send_as("alice", &udp(ALICE), &bye.next());
    sent(&reaction, "BYE").first().map(|bye| bye.flow)
}

#[test]
fn a_phone_that_has_connected_anew_gets_the_requests_of_its_dialogs() {
    for state in [State::Stateful, State::Stateless] {
        for (call_id, instance, ends_first) in
            [("other", Some("1"), true), ("other", Some("1"), false), ("same", None, true)]
        {
            let mut rig = Rig::closed_with(Config { state, ..closed_config() });
            let flows = [tcp(BOB_1, 5), tcp(BOB_2, 6), tcp("203.0.113.7:50003", 7)];
            rig.send_as("bob", &flows[0], &returns(&flows[0], "same", instance, 1));
            let answer = to_phone(&mut rig, &flows[0]);
            assert_eq!(bye_goes(&mut rig, &answer, &flows[0]), Some(flows[0]));
            for (number, pair) in (1..).zip(flows.windows(2)) {
                if ends_first {
                    rig.end(&pair[0]);
                }
                let draft = returns(&pair[1], call_id, instance, 10 * number);
                rig.send_as("bob", &pair[1], &draft);
                if !ends_first {
                    rig.end(&pair[0]);
                }
                let gone = bye_goes(&mut rig, &answer, &flows[0]);
                assert_eq!(gone, Some(pair[1]), "{call_id} {instance:?} {state:?} {number}");
            }
        }
    }
}

#[test]
fn a_dialog_of_a_connection_that_has_ended_goes_to_no_other_phone() {
    let (lost, other) = (tcp(BOB_1, 5), tcp(BOB_2, 6));
    for (user, other_instance) in [("bob", Some("2")), ("bob", None), ("carol", Some("1"))] {
        let mut rig = Rig::closed();
        rig.send_as("bob", &lost, &returns(&lost, "a", Some("1"), 1));
        let answer = to_phone(&mut rig, &lost);
        let address = format!("<sip:{user}@example.com>");
        let draft = returns(&other, "b", other_instance, 1);
        let draft = draft.with("To", &address).with("From", &format!("{address};tag=r"));
        assert!(rig.send_as(user, &other, &draft).responses().any(|sent| sent.status() == 200));
        rig.end(&lost);
        assert_ne!(bye_goes(&mut rig, &answer, &lost), Some(other), "{user} {other_instance:?}");
    }
    // Another instance at the same contact.
    let mut rig = Rig::closed();
    rig.send_as("bob", &lost, &returns(&lost, "a", Some("1"), 1));
    let answer = to_phone(&mut rig, &lost);
    rig.end(&lost);
    let draft = returns(&other, "b", Some("2"), 1);
    let taken = format!("{};+sip.instance=\"<urn:uuid:2>\"", contact(&lost));
    rig.send_as("bob", &other, &draft.with("Contact", &taken));
    assert_ne!(bye_goes(&mut rig, &answer, &lost), Some(other));
}

/// A phone sends what is too large for a datagram on a connection of its own (RFC 3261 section
/// 18.1.1), and closes that when it likes.
#[test]
fn a_phone_that_called_by_tcp_is_reached_by_its_udp_binding_afterwards() {
    let place = "198.51.100.10:5060";
    for (registered, called, is_it) in [
        ("sip:alice@198.51.100.10:5060", "sip:alice@198.51.100.10:5060;transport=tcp", true),
        ("sip:alice@198.51.100.10:5060;ob", "sip:alice@198.51.100.10:5060;transport=TCP", true),
        ("sip:alice@198.51.100.10:5060", "sip:alice@198.51.100.10:5062;transport=tcp", false),
        ("sip:other@198.51.100.10:5060", "sip:alice@198.51.100.10:5060;transport=tcp", false),
    ] {
        let mut rig = Rig::closed();
        rig.register("alice", &udp(place), &format!("<{registered}>"));
        let bob = tcp(BOB_1, 5);
        rig.register("bob", &bob, &contact(&bob));
        let own = tcp("198.51.100.10:40000", 8);
        let invite = Draft::invite("sip:bob@example.com").with("Contact", &format!("<{called}>"));
        let there = sent(&rig.send_as("alice", &own, &invite), "INVITE")[0].clone();
        answered(&mut rig, &there, 200, &bob, contact(&bob).trim_matches(['<', '>']));
        let bye = |number| {
            Draft::new("BYE", called)
                .with("From", "<sip:bob@example.com>;tag=t")
                .with("To", &there.value(HeaderName::From))
                .with("Call-ID", &there.value(HeaderName::CallId))
                .and("Route", &there.values(HeaderName::RecordRoute).join(", "))
                .with_cseq(number)
        };
        let goes = |rig: &mut Rig, number| {
            let reaction = rig.send_as("bob", &bob, &bye(number));
            sent(&reaction, "BYE").first().map(|bye| bye.flow)
        };
        assert_eq!(goes(&mut rig, 1), Some(own), "while the connection is open");
        rig.end(&own);
        assert_eq!(goes(&mut rig, 2) == Some(udp(place)), is_it, "{registered} {called}");
    }
}
