//! Regression tests for the findings of `fuzz_bodies::attack`, each reduced to the shortest
//! scenario.

#[path = "conformance/rig.rs"]
#[allow(dead_code, reason = "it is the rig of the conformance tests")]
mod rig;

use barebell_sip_server::config::State;
use barebell_sip_server::{Config, Flow};
use rig::{ALICE, BOB, Draft, Rig, SERVER, STRANGER, Sent, closed_config, udp};
use sip::{Duration, HeaderName, Location, Transport};

/// An uninvolved gateway.
const GATEWAY: &str = "192.0.2.7";

fn rig(state: State) -> Rig {
    let mut rig = Rig::closed_with(Config { state, ..closed_config() });
    rig.register("alice", &udp(ALICE), &format!("<sip:alice@{ALICE}>"));
    rig
}

/// A call of a stranger to bob, with the given Contact.
fn call(contact: &str) -> Draft {
    Draft::new("INVITE", "sip:bob@example.com")
        .with("From", "<sip:x@foreign.example>;tag=x-tag")
        .and("Contact", &format!("<{contact}>"))
}

/// A request of bob within the dialog that `invite`, as received by bob, begins.
fn by_bob(invite: &Sent, method: &str, uri: &str) -> Draft {
    Draft::new(method, uri)
        .with("From", &format!("{};tag=bob-tag", invite.value(HeaderName::To)))
        .with("To", &invite.value(HeaderName::From))
        .with("Call-ID", &invite.value(HeaderName::CallId))
        .and("Route", &invite.values(HeaderName::RecordRoute).join(", "))
}

/// Lets bob's phone ring and returns the Route that the stranger gets.
fn ring(rig: &mut Rig, forwarded: &Sent) -> String {
    let mut lines = format!("Contact: <sip:bob@{BOB}>\r\n");
    for route in forwarded.values(HeaderName::RecordRoute) {
        lines += &format!("Record-Route: {route}\r\n");
    }
    let ringing = rig.receive(&udp(BOB), &forwarded.answer(180, "bob-tag", &lines));
    ringing.response().values(HeaderName::RecordRoute).join(", ")
}

/// The destinations of the requests.
fn places(sent: &[Sent]) -> Vec<String> {
    let requests = sent.iter().filter(|sent| sent.message().status().is_none());
    requests.map(|sent| sent.flow.remote.to_string()).collect()
}

/// The number of bytes sent to the gateway, until no more are sent.
fn bytes_to_gateway(rig: &mut Rig, first: &[Sent]) -> usize {
    let mut sent = first.to_vec();
    for _ in 0..400 {
        sent.extend(rig.wait(Duration::from_millis(100)).sent);
    }
    let is_there = |sent: &&Sent| sent.flow.remote.ip().to_string() == GATEWAY;
    sent.iter().filter(is_there).map(|sent| sent.bytes.len()).sum()
}

/// A stranger calls bob with alice in To. Bob must not get a token that allows the name alice
/// towards the address in the stranger's Contact.
#[test]
fn nobody_gets_a_name_by_being_called_with_it_in_to() {
    for state in [State::Stateful, State::Stateless] {
        let mut rig = rig(state);
        rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
        let gateway = format!("sip:00900123@{GATEWAY}");
        let invite = call(&gateway).with("To", "<sip:alice@example.com>");
        let forwarded = rig.send(&udp(STRANGER), &invite).forwarded().clone();
        let as_alice = by_bob(&forwarded, "INVITE", &gateway);
        let reaction = rig.send(&udp(BOB), &as_alice);
        assert_eq!(places(&reaction.sent), [""; 0], "From alice {state:?}");
    }
}

/// A stranger that has sent one INVITE to a user must not send ACK and CANCEL with its Via to
/// another destination.
#[test]
fn without_transactions_the_ack_of_an_invite_goes_where_that_went() {
    for method in ["ACK", "CANCEL"] {
        let mut rig = rig(State::Stateless);
        rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
        let invite = call(&format!("sip:x@{STRANGER}"));
        rig.send(&udp(STRANGER), &invite).forwarded();
        let gateway = format!("sip:00900123@{GATEWAY}");
        let abroad = invite.with_method(method).with_uri(&gateway).with("Call-ID", "another");
        let reaction = rig.send(&udp(STRANGER), &abroad);
        assert_eq!(places(&reaction.sent), [""; 0], "{method}");
    }
}

/// If one end of a dialog uses the address of the server, a flow to the server must not be
/// followed.
#[test]
fn a_flow_that_leads_to_the_server_itself_is_not_followed() {
    for state in [State::Stateful, State::Stateless] {
        let mut rig = rig(state);
        rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
        let own = format!("sip:x@{SERVER}");
        let reaction = rig.send(&udp(SERVER), &call(&own));
        let forwarded = reaction.requests().next().cloned();
        let Some(forwarded) = forwarded else { continue };
        let reaction = rig.send(&udp(BOB), &by_bob(&forwarded, "BYE", &own));
        assert_eq!(places(&reaction.sent), [""; 0], "{state:?}");
    }
}

/// Bob is called at his phone and at the gateway. The branch parameter of the one must not allow a
/// response for the other.
#[test]
fn nobody_answers_for_a_host_that_he_is_not() {
    let mut rig = rig(State::Stateful);
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>, <sip:bob@{GATEWAY}>"));
    let invite = call(&format!("sip:x@{STRANGER}"));
    let reaction = rig.send(&udp(STRANGER), &invite);
    let forwarded: Vec<&Sent> = reaction.requests().collect();
    let branch = |sent: &Sent| {
        let via = sent.value(HeaderName::Via);
        via.split("branch=").nth(1).expect("a branch").to_owned()
    };
    let (at_bob, at_gateway) = match &forwarded[..] {
        [one, other] if one.flow == udp(BOB) => (*one, *other),
        [one, other] => (*other, *one),
        _ => panic!("two branches are expected"),
    };
    // The index of the branch follows the cookie, the slot and the shard.
    let own = branch(at_bob);
    let guess = |number: u8| format!("{}{number:02x}{}", &own[..19], &own[21..]);
    let guessed = (0..2).map(guess).find(|guess| *guess != own).expect("another one");
    assert_ne!(guessed, branch(at_gateway));
    let answer = rig::text(&at_bob.answer(180, "bob-tag", "")).replace(&own, &guessed);
    let first = reaction.sent.clone();
    rig.receive(&udp(BOB), answer.as_bytes());
    rig.wait(Duration::from_secs(200));
    let again = invite.next().with("Call-ID", "again");
    let reaction = rig.send(&udp(STRANGER), &again);
    let bytes = bytes_to_gateway(&mut rig, &reaction.sent);
    let received = again.bytes(&udp(STRANGER)).len();
    assert!(first.len() > 1 && bytes <= 3 * received, "{bytes} for {received}");
}

/// A request with a valid token and the source address of the gateway must not mark the gateway as
/// a host that has answered.
#[test]
fn a_forged_source_within_a_dialog_proves_nothing() {
    let mut rig = rig(State::Stateful);
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
    let invite = call(&format!("sip:x@{STRANGER}"));
    let forwarded = rig.send(&udp(STRANGER), &invite).forwarded().clone();
    let route = ring(&mut rig, &forwarded);
    let forged: Flow = udp(&format!("{GATEWAY}:5060"));
    let within = invite
        .next()
        .with_method("INFO")
        .with("To", "<sip:bob@example.com>;tag=bob-tag")
        .with_uri(&format!("sip:bob@{BOB}"))
        .and("Route", &route);
    rig.send(&forged, &within);
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>;expires=0, <sip:bob@{GATEWAY}:7000>"));
    let again = invite.next().with("Call-ID", "again");
    let reaction = rig.send(&udp(STRANGER), &again);
    let bytes = bytes_to_gateway(&mut rig, &reaction.sent);
    let received = again.bytes(&udp(STRANGER)).len();
    assert!(bytes <= 3 * received, "{bytes} for {received}");
}

/// A contact may have 2048 bytes, and is part of each request to it.
#[test]
fn without_transactions_a_host_that_never_answered_is_sent_no_more_than_three_times_what_came() {
    let mut rig = rig(State::Stateless);
    rig.register("bob", &udp(BOB), &format!("<sip:{}@{GATEWAY}>", "9".repeat(2000)));
    let invite = call(&format!("sip:x@{STRANGER}"));
    let reaction = rig.send(&udp(STRANGER), &invite);
    let bytes = bytes_to_gateway(&mut rig, &reaction.sent);
    let received = invite.bytes(&udp(STRANGER)).len();
    assert!(bytes <= 3 * received, "{bytes} for {received}");
}

/// Bob rejects the call and then accepts it. The 2xx is not forwarded, so it must not confirm the
/// dialog.
#[test]
fn a_2xx_that_goes_nowhere_makes_no_dialog_stand() {
    let mut rig = rig(State::Stateful);
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
    let invite = call(&format!("sip:x@{STRANGER}"));
    let forwarded = rig.send(&udp(STRANGER), &invite).forwarded().clone();
    let route = ring(&mut rig, &forwarded);
    rig.receive(&udp(BOB), &forwarded.answer(486, "bob-tag", ""));
    let contact = format!("Contact: <sip:bob@{BOB}>\r\n");
    let late = rig.receive(&udp(BOB), &forwarded.answer(200, "bob-tag", &contact));
    assert!(late.responses().next().is_none(), "it goes nowhere");
    let update = invite
        .next()
        .with_method("UPDATE")
        .with("To", "<sip:bob@example.com>;tag=bob-tag")
        .with_uri(&format!("sip:bob@{BOB}"))
        .and("Route", &route);
    // Strangers may call bob's registered contact, so his phone registers elsewhere.
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>;expires=0, <sip:bob@198.51.100.22>"));
    assert_eq!(places(&rig.send(&udp(STRANGER), &update).sent), [""; 0]);
}

/// A phone inside calls a name. The callee found by it is outside, and names an address inside as
/// its Contact.
#[test]
fn who_is_found_by_a_name_is_where_he_is_found() {
    for state in [State::Stateful, State::Stateless] {
        let mut rig = rig(state);
        let inside = udp("10.0.0.7:5060");
        let invite =
            Draft::new("INVITE", "sip:x@foreign.example").and("Contact", "<sip:alice@10.0.0.7>");
        let (_, ticket) = rig.send_as("alice", &inside, &invite).wants_location();
        let remote = STRANGER.parse().expect("an address");
        let place = Location { transport: Transport::Udp, remote, local: None };
        let located = rig.located(ticket, &[place]);
        let forwarded = located.requests().next().expect("it goes there").clone();
        let mut lines = String::from("Contact: <sip:x@10.0.0.9>\r\n");
        for route in forwarded.values(HeaderName::RecordRoute) {
            lines += &format!("Record-Route: {route}\r\n");
        }
        let answered = rig.receive(&udp(STRANGER), &forwarded.answer(200, "x-tag", &lines));
        let info = Draft::new("INFO", "sip:x@10.0.0.9")
            .with("From", &forwarded.value(HeaderName::From))
            .with("To", &answered.response().value(HeaderName::To))
            .with("Call-ID", &forwarded.value(HeaderName::CallId))
            .and("Route", &answered.response().values(HeaderName::RecordRoute).join(", "));
        assert_eq!(places(&rig.send(&inside, &info).sent), [""; 0], "{state:?}");
    }
}

#[test]
fn the_ack_of_a_refusal_after_a_look_up_ends_here() {
    let mut rig = rig(State::Stateless);
    let invite =
        Draft::invite("sip:x@gw.example.net").with("From", "<sip:alice@example.com>;tag=a");
    let challenged = rig.send(&udp(ALICE), &invite);
    let invite = invite.next().answering(challenged.response(), "alice", "alice");
    let (_, ticket) = rig.send(&udp(ALICE), &invite).wants_location();
    let refusal = rig.located(ticket, &[]);
    assert_eq!(refusal.status(), 480);
    let ack = rig::ack_of(&invite, refusal.response());
    assert!(rig.send(&udp(ALICE), &ack).is_silent());
}

#[test]
fn nobody_speaks_in_the_name_of_the_server_itself() {
    for state in [State::Stateful, State::Stateless] {
        let mut rig = rig(state);
        let invite = Draft::new("INVITE", "sip:alice@example.com")
            .with("From", "<sip:x@foreign.example>;tag=x-tag")
            .and("Contact", "<sip:x@127.0.0.1:5070>");
        assert!(rig.send(&udp(SERVER), &invite).is_silent(), "{state:?}");
        assert_eq!(rig.count("dropped"), 1);
    }
}
