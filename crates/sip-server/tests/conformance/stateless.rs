//! Forwarding without transactions (RFC 3261 section 16.11).

use crate::rig::{ALICE, BOB, Draft, Rig, STRANGER, Sent, ack_of, open_config, text, udp};
use barebell_sip_server::Config;
use barebell_sip_server::config::State;
use sip::HeaderName;

fn with_bob() -> Rig {
    let mut rig = Rig::new(Config { state: State::Stateless, ..open_config() });
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
    rig
}

/// The branch of the topmost Via.
fn branch(sent: &Sent) -> String {
    text(sent.message().top_via().unwrap().branch().unwrap())
}

#[test]
fn all_that_belongs_to_one_transaction_has_one_branch() {
    for via in [
        "SIP/2.0/UDP 198.51.100.10:5060;branch=z9hG4bKa",
        "SIP/2.0/UDP 10.0.0.1;rport;branch=z9hG4bKa",
        // As in RFC 2543.
        "SIP/2.0/UDP 198.51.100.10:5060",
        "SIP/2.0/UDP 198.51.100.10:5060;branch=1",
    ] {
        let mut rig = with_bob();
        let invite = Draft::invite("sip:bob@example.com")
            .and("Via", via)
            .and("Route", "<sip:203.0.113.1;lr>");
        let forwarded = rig.send(&udp(ALICE), &invite).forwarded().clone();
        let again = rig.send(&udp(ALICE), &invite).forwarded().clone();
        assert_eq!(branch(&again), branch(&forwarded), "a retransmission: {via}");
        let cancel = invite.clone().with_method("CANCEL");
        let cancel = rig.send(&udp(ALICE), &cancel).forwarded().clone();
        assert_eq!(branch(&cancel), branch(&forwarded), "CANCEL: {via}");
        let refused = rig.receive(&udp(BOB), &forwarded.answer(486, "bob", ""));
        let ack = ack_of(&invite, refused.response());
        let ack = rig.send(&udp(ALICE), &ack).forwarded().clone();
        assert_eq!(branch(&ack), branch(&forwarded), "ACK of a refusal: {via}");
        assert_eq!(ack.request_uri(), forwarded.request_uri());

        let another = invite.next().with("Call-ID", "another");
        let another = rig.send(&udp(ALICE), &another).forwarded().clone();
        assert_ne!(branch(&another), branch(&forwarded), "another call: {via}");
        let next = rig.send(&udp(ALICE), &invite.next()).forwarded().clone();
        assert_ne!(branch(&next), branch(&forwarded), "the next request: {via}");
    }
}

#[test]
fn answers_go_back_as_they_are() {
    let mut rig = with_bob();
    let draft = Draft::invite("sip:bob@example.com")
        .and("Via", &format!("SIP/2.0/UDP {ALICE};branch=z9hG4bKa"))
        .and("Via", "SIP/2.0/TCP lower.example;branch=z9hG4bKb");
    let forwarded = rig.send(&udp(ALICE), &draft).forwarded().clone();
    assert!(rig.send(&udp(ALICE), &draft).responses().next().is_none(), "no 100 is made");
    for status in [100, 180, 183, 200, 302, 401, 407, 486, 503, 603] {
        let back = rig.receive(&udp(BOB), &forwarded.answer(status, "bob", "X-Odd: 1\r\n"));
        let response = back.sent.first().unwrap();
        assert_eq!(response.status(), status);
        assert_eq!(response.flow, udp(ALICE));
        assert_eq!(response.values(HeaderName::Via).len(), 2);
        assert!(text(&response.bytes).contains("X-Odd: 1\r\n"));
    }
    assert_eq!(rig.server.transactions(), 0);
}

#[test]
fn answers_to_what_was_not_forwarded_are_dropped() {
    let mut rig = with_bob();
    let draft = Draft::invite("sip:bob@example.com")
        .and("Via", &format!("SIP/2.0/UDP {ALICE};branch=z9hG4bKa"));
    let forwarded = rig.send(&udp(ALICE), &draft).forwarded().clone();
    let answer = text(&forwarded.answer(200, "bob", ""));
    for (from, to) in [
        // The next hop of the response would be another one.
        (ALICE, "192.0.2.66:5060"),
        ("z9hG4bKa", "z9hG4bKc"),
        ("SIP/2.0/UDP 198", "SIP/2.0/TCP 198"),
        (&branch(&forwarded)[..], "z9hG4bKbs000000000000000000000000"),
    ] {
        let forged = answer.replace(from, to);
        assert_ne!(forged, answer);
        assert!(rig.receive(&udp(STRANGER), forged.as_bytes()).is_silent(), "{from} -> {to}");
    }
    assert_eq!(rig.count("dropped"), 4);
    assert_eq!(rig.receive(&udp(BOB), answer.as_bytes()).status(), 200);
}

#[test]
fn the_best_of_several_contacts_is_taken() {
    let mut rig = with_bob();
    for (host, q) in [("192.0.2.7", "0.3"), ("192.0.2.8", "0.9")] {
        let contact = format!("<sip:bob@{host}>;q={q}");
        let draft = Draft::register("bob").and("Contact", &contact);
        assert_eq!(rig.send(&udp(BOB), &draft).status(), 200);
    }
    let reaction = rig.send(&udp(ALICE), &Draft::invite("sip:bob@example.com"));
    assert_eq!(reaction.forwarded().flow, udp(BOB), "it has the preference 1");
}

#[test]
fn of_those_that_are_as_good_the_newest_is_taken() {
    let mut rig = with_bob();
    let register = |rig: &mut Rig, hosts: &[&str]| {
        for host in hosts {
            let contact = format!("<sip:bob@{host}>");
            assert_eq!(
                rig.send(&udp(BOB), &Draft::register("bob").and("Contact", &contact)).status(),
                200
            );
        }
    };
    register(&mut rig, &["192.0.2.7", "192.0.2.8"]);
    let mut called = |host: &str, registers: &[&str]| {
        register(&mut rig, registers);
        let reaction = rig.send(&udp(ALICE), &Draft::invite("sip:bob@example.com"));
        assert_eq!(reaction.forwarded().request_uri(), format!("sip:bob@{host}"));
    };
    called("192.0.2.8", &[]);
    called("192.0.2.7", &["192.0.2.7"]);
    // Also if there are too many targets to be tried.
    let more: Vec<_> = (20..40).map(|number| format!("192.0.2.{number}")).collect();
    called("192.0.2.39", &more.iter().map(String::as_str).collect::<Vec<_>>());
}
