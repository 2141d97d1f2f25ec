//! The redirect server (RFC 3261 section 8.3).

use crate::rig::{ALICE, BOB, Draft, Rig, STRANGER, ack_of, closed_config, open_config, tcp, udp};
use barebell_sip_server::Config;
use barebell_sip_server::config::{Mode, State};
use sip::HeaderName;

fn rig() -> Rig {
    Rig::new(Config { mode: Mode::Redirect, ..open_config() })
}

#[test]
fn callers_are_told_where_the_user_is() {
    for state in [State::Stateful, State::Stateless] {
        let mut rig = Rig::new(Config { mode: Mode::Redirect, state, ..open_config() });
        let register = Draft::register("bob")
            .and("Contact", "<sip:bob@low.example>;q=0.2, <sip:bob@high.example;transport=tcp>")
            .and("Contact", "<sip:bob@middle.example?Subject=x>;q=0.25");
        assert_eq!(rig.send(&udp(BOB), &register).status(), 200);
        for method in ["INVITE", "MESSAGE", "OPTIONS", "SUBSCRIBE"] {
            let reaction = rig.send(&udp(ALICE), &Draft::new(method, "sip:bob@example.com"));
            assert_eq!(reaction.status(), 302, "{method}");
            let contacts = reaction.response().values(HeaderName::Contact);
            let expected = [
                "<sip:bob@high.example;transport=tcp>",
                "<sip:bob@middle.example?Subject=x>;q=0.25",
                "<sip:bob@low.example>;q=0.2",
            ];
            assert_eq!(contacts, expected, "the preferred one first");
        }
        assert_eq!(rig.count("redirects"), 4);
    }
}

#[test]
fn nothing_is_kept_of_a_redirected_call() {
    let mut rig = rig();
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
    let invite = Draft::invite("sip:bob@example.com");
    let first = rig.send(&udp(ALICE), &invite);
    let second = rig.send(&udp(ALICE), &invite);
    assert_eq!(first.response().bytes, second.response().bytes);
    let ack = ack_of(&invite, first.response());
    assert!(rig.send(&udp(ALICE), &ack).is_silent());
    assert_eq!(rig.server.transactions(), 0);
}

#[test]
fn users_who_are_not_there_are_not_redirected_to() {
    let mut rig = Rig::closed_with(Config { mode: Mode::Redirect, ..closed_config() });
    rig.register("bob", &tcp(BOB, 3), &format!("<sip:bob@{BOB}>"));
    for (uri, expected) in [
        ("sip:bob@example.com", 302),
        ("sip:carol@example.com", 480),
        ("sip:nobody@example.com", 404),
        ("sip:example.com", 404),
    ] {
        let invite = Draft::invite(uri).with("From", "<sip:x@foreign.example>;tag=1");
        assert_eq!(rig.send(&udp(STRANGER), &invite).status(), expected, "{uri}");
    }
    let abroad = Draft::invite("sip:y@foreign.example");
    assert_eq!(
        rig.send_as("alice", &udp(ALICE), &abroad).status(),
        404,
        "of others nothing is known"
    );
    let from_alice = Draft::invite("sip:bob@example.com");
    assert_eq!(rig.send(&udp(ALICE), &from_alice).status(), 407);
    assert_eq!(rig.send_as("alice", &udp(ALICE), &from_alice.next()).status(), 302);
}

#[test]
fn a_cancel_comes_too_late() {
    let mut rig = rig();
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
    let invite = Draft::invite("sip:bob@example.com");
    rig.send(&udp(ALICE), &invite);
    let cancel = invite.with_method("CANCEL");
    let status = rig.send(&udp(ALICE), &cancel).status();
    // The call is over, and its state has been dropped (RFC 3261 section 9.2).
    assert_eq!(status, 481);
}
