//! Several flows to one phone, with one in use at a time (RFC 5626), and their keep-alives.

use crate::rig::{
    ALICE, BOB, Draft, Reaction, Rig, STRANGER, Sent, closed_config, open_config, tcp, text, udp,
};
use barebell_sip_server::Flow;
use barebell_sip_server::config::Network;
use sip::Duration;

const PHONE: &str = "urn:uuid:00000000-0000-1000-8000-000a95a0e128";

/// A REGISTER of bob's phone for its flow number `flow`.
fn registers(flow: u32) -> Draft {
    let contact = format!("<sip:bob@192.168.1.2;ob>;reg-id={flow};+sip.instance=\"<{PHONE}>\"");
    Draft::register("bob").with("Contact", &contact).with("Supported", "path, outbound")
}

/// Two flows of bob's phone, the second one newer.
fn two_flows(rig: &mut Rig) -> [Flow; 2] {
    let flows = [tcp(BOB, 1), tcp("198.51.100.20:6000", 2)];
    for (number, flow) in (1..).zip(&flows) {
        assert_eq!(rig.send(flow, &registers(number)).status(), 200);
    }
    flows
}

fn calls(rig: &mut Rig) -> Reaction {
    rig.send(&udp(ALICE), &Draft::invite("sip:bob@example.com"))
}

fn answers(rig: &mut Rig, forwarded: &Sent, status: u16) -> Reaction {
    rig.receive(&forwarded.flow, &forwarded.answer(status, "bob", ""))
}

#[test]
fn a_phone_with_flows_is_told_so_and_how_often_to_show_itself() {
    let mut rig = Rig::open();
    let lines = |sent: &Sent, name: &str| {
        text(&sent.bytes).lines().filter(|line| line.starts_with(name)).count()
    };
    for (flow, draft, required, timers) in [
        (tcp(BOB, 1), registers(1), 1, 1),
        (udp(BOB), registers(1), 1, 0),
        (tcp(BOB, 1), registers(1).with("Supported", "path"), 0, 0),
        (tcp(BOB, 1), registers(1).with("Require", "outbound"), 1, 1),
        (tcp(BOB, 1), registers(0), 0, 0),
        (tcp(BOB, 1), registers(1).with("Contact", "<sip:bob@h>;reg-id=1"), 0, 0),
    ] {
        let reaction = rig.send(&flow, &draft);
        let sent = reaction.response();
        assert_eq!(sent.status(), 200, "{draft:?}");
        let found = (lines(sent, "Require: outbound"), lines(sent, "Flow-Timer: 120"));
        assert_eq!(found, (required, timers), "{draft:?} {}", text(&sent.bytes));
    }
}

#[test]
fn one_flow_of_a_phone_rings_at_a_time() {
    let mut rig = Rig::open();
    let flows = two_flows(&mut rig);
    let other = tcp("198.51.100.21:5060", 3);
    rig.register("bob", &other, "<sip:bob@desk.example>");
    let called = calls(&mut rig);
    let mut rang: Vec<_> = called.requests().map(|sent| sent.flow).collect();
    rang.sort_by_key(|flow| flow.connection);
    assert_eq!(rang, [flows[1], other], "the newer flow, and the other phone");
}

#[test]
fn where_a_flow_has_failed_the_next_is_tried() {
    for fails_by in ["430", "connection", "silence", "408"] {
        let mut rig = Rig::open();
        let flows = two_flows(&mut rig);
        let first = calls(&mut rig).forwarded().clone();
        assert_eq!(first.flow, flows[1]);
        let second = match fails_by {
            "430" => answers(&mut rig, &first, 430),
            "408" => answers(&mut rig, &first, 408),
            "connection" => rig.undeliverable(&first.flow, &first.bytes),
            _ => rig.wait(Duration::from_secs(33)),
        };
        let second: Vec<_> = second.requests().filter(|sent| sent.flow == flows[0]).collect();
        let [second] = second[..] else { panic!("{fails_by}: {second:?}") };
        assert_eq!(second.request_uri(), "sip:bob@192.168.1.2;ob");
        let answered = answers(&mut rig, &second.clone(), 200);
        assert_eq!(answered.responses().map(Sent::status).collect::<Vec<_>>(), [200]);
    }
}

#[test]
fn where_all_flows_have_failed_whoever_called_is_told_480() {
    for via in [None, Some("SIP/2.0/UDP p.example;branch=z9hG4bKp")] {
        let mut rig = Rig::open();
        two_flows(&mut rig);
        let mut invite = Draft::invite("sip:bob@example.com");
        if let Some(via) = via {
            invite = invite.and("Via", &format!("{via}, SIP/2.0/UDP h.example;branch=z9hG4bKq"));
        }
        let first = rig.send(&udp(ALICE), &invite).forwarded().clone();
        let second = answers(&mut rig, &first, 430);
        let is_ack = |sent: &&Sent| sent.message().method() == Some(sip::Method::Ack);
        let second = second.requests().find(|sent| !is_ack(sent)).expect("the other flow").clone();
        let refused = rig.undeliverable(&second.flow, &second.bytes);
        assert_eq!(refused.responses().map(Sent::status).collect::<Vec<_>>(), [480]);
    }
}

/// A rejection by the phone itself is not repeated on another flow.
#[test]
fn a_phone_that_refuses_rings_no_more() {
    for status in [486, 480, 503, 603] {
        let mut rig = Rig::open();
        two_flows(&mut rig);
        let first = calls(&mut rig).forwarded().clone();
        let refused = answers(&mut rig, &first, status);
        let is_invite = |sent: &&Sent| sent.message().method() == Some(sip::Method::Invite);
        assert!(!refused.requests().any(|sent| is_invite(&sent)), "{status}");
        assert_eq!(refused.responses().count(), 1, "{status}");
    }
}

/// The newest flow goes through a proxy with a name that cannot be resolved.
#[test]
fn where_no_way_leads_to_a_flow_the_next_is_tried() {
    let mut rig = Rig::open();
    let by = |edge: &str, number: u32| {
        let path = format!("<sip:x@{edge};lr;ob>");
        let vias = "SIP/2.0/UDP e.example;branch=z9hG4bKe, SIP/2.0/UDP h;branch=z9hG4bKf";
        registers(number).and("Path", &path).and("Via", vias)
    };
    for (edge, number) in [("198.51.100.31", 1), ("edge2.example", 2)] {
        assert_eq!(rig.send(&udp(ALICE), &by(edge, number)).status(), 200);
    }
    let (_, ticket) = calls(&mut rig).wants_location();
    let forwarded = rig.located(ticket, &[]).forwarded().clone();
    assert_eq!(forwarded.flow.remote, "198.51.100.31:5060".parse().unwrap());
}

/// A user that registers the instance of another user gets no calls of that user.
#[test]
fn flows_are_of_one_user() {
    let mut rig = Rig::open();
    let of = |user: &str, contact: &str| {
        let contact = format!("<{contact}>;reg-id=1;+sip.instance=\"<{PHONE}>\"");
        Draft::register(user).with("Contact", &contact).with("Supported", "outbound")
    };
    for (number, user) in (1..).zip(["bob", "mallory"]) {
        let flow = tcp(&format!("198.51.100.{number}:5060"), number);
        assert_eq!(rig.send(&flow, &of(user, "sip:x@192.168.1.2;ob")).status(), 200);
    }
    let group = ["<sip:bob@example.com>", "<sip:mallory@example.com>"];
    let draft = Draft::register("group").and("Contact", group[0]).and("Contact", group[1]);
    assert_eq!(rig.send(&udp(ALICE), &draft).status(), 200);
    let called = rig.send(&udp(ALICE), &Draft::invite("sip:group@example.com"));
    assert_eq!(called.requests().count(), 2, "each of them");
}

/// The phone is reachable on its flow, whatever its contact says.
#[test]
fn a_flow_is_followed_where_it_was_promised() {
    let contact = "<sip:bob@203.0.113.200:7>;reg-id=1;+sip.instance=\"<urn:x:1>\"";
    for (by_contact, follows) in [(false, true), (true, false)] {
        let mut config = open_config();
        if by_contact {
            config.registrar.by_contact =
                vec![Network { address: "198.51.100.0".parse().unwrap(), prefix: 24 }];
        }
        let mut rig = Rig::new(config);
        let answer = rig.send(&udp(BOB), &registers(1).with("Contact", contact));
        let requires = text(&answer.response().bytes).contains("Require: outbound");
        assert_eq!(requires, follows);
        assert_eq!(calls(&mut rig).forwarded().flow.remote == udp(BOB).remote, follows);
    }
}

#[test]
fn a_call_that_was_given_up_tries_no_further_flow() {
    let mut rig = Rig::open();
    two_flows(&mut rig);
    let invite = Draft::invite("sip:bob@example.com");
    let first = rig.send(&udp(ALICE), &invite).forwarded().clone();
    answers(&mut rig, &first, 180);
    rig.send(&udp(ALICE), &invite.with_method("CANCEL").without("Contact"));
    let ended = rig.undeliverable(&first.flow, &first.bytes);
    assert_eq!(ended.requests().count(), 0, "{ended:?}");
    let ended = rig.wait(Duration::from_secs(33));
    assert_eq!(ended.responses().map(Sent::status).collect::<Vec<_>>(), [487]);
}

#[test]
fn a_flow_that_ends_takes_its_binding_with_it() {
    let mut rig = Rig::open();
    let flows = two_flows(&mut rig);
    rig.end(&flows[1]);
    assert_eq!(calls(&mut rig).forwarded().flow, flows[0]);
}

#[test]
fn flows_by_a_proxy_need_one_that_keeps_them() {
    let edge = |path: Option<&str>| {
        let draft = registers(1).and(
            "Via",
            "SIP/2.0/UDP edge.example;branch=z9hG4bKe, SIP/2.0/UDP h.example;branch=z9hG4bKf",
        );
        match path {
            Some(path) => draft.and("Path", path),
            None => draft,
        }
    };
    for (path, status) in [
        (None, 439),
        (Some("<sip:edge.example;lr>"), 439),
        (Some("<sip:x@edge.example;lr;ob>"), 200),
        (Some("<sip:core.example;lr>, <sip:x@edge.example;lr;ob>"), 200),
        (Some("<sip:x@core.example;lr;ob>, <sip:edge.example;lr>"), 439),
    ] {
        let mut rig = Rig::open();
        assert_eq!(rig.send(&udp(ALICE), &edge(path)).status(), status, "{path:?}");
        let plain = edge(path).with("Supported", "path");
        assert_eq!(rig.send(&udp(ALICE), &plain).status(), 200, "without asking for it");
    }
}

/// A binding request (RFC 8489) with this transaction ID.
fn binding_request(id: u8) -> Vec<u8> {
    [&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], &[id; 12]].concat()
}

#[test]
fn whoever_asks_by_stun_where_it_is_seen_is_told() {
    let mut rig = Rig::new(closed_config());
    let reaction = rig.receive(&udp(BOB), &binding_request(7));
    let [sent] = &reaction.sent[..] else { panic!("{reaction:?}") };
    assert_eq!(sent.flow, udp(BOB));
    let response = stun::Message::parse(&sent.bytes).expect("an answer");
    assert_eq!(response.mapped_address(), Some(BOB.parse().unwrap()));
    assert_eq!(rig.count("stun-requests"), 1);
    assert!(rig.receive(&tcp(BOB, 9), &binding_request(7)).is_silent(), "not on a stream");
    assert!(rig.receive(&udp(BOB), &sent.bytes.clone()).is_silent(), "an answer is not answered");
}

#[test]
fn stun_is_bounded_for_each_source() {
    let mut config = closed_config();
    (config.limits.source_rate, config.limits.source_burst) = (5, 10);
    let mut rig = Rig::new(config);
    let answered = (0..100)
        .filter(|&id| !rig.receive(&udp(STRANGER), &binding_request(id)).is_silent())
        .count();
    assert!((5..=15).contains(&answered), "{answered}");
    assert!(!rig.receive(&udp(BOB), &binding_request(1)).is_silent(), "others are answered");
}
