//! SIPS URIs: requests to them use TLS on all hops (RFC 5630).

use crate::dialog::answer;
use crate::rig::{ALICE, BOB, Draft, Rig, open_config, tcp, text};
use barebell_sip_server::config::{Listener, Mode, State};
use barebell_sip_server::{Config, Flow};
use sip::{HeaderName, Transport};

/// A TLS connection to the server.
fn tls(remote: &str, number: u64) -> Flow {
    Flow {
        transport: Transport::Tls,
        local: "203.0.113.1:5061".parse().unwrap(),
        ..tcp(remote, number)
    }
}

fn config(state: State, mode: Mode) -> Config {
    let mut config = open_config();
    let listener =
        Listener { transport: Transport::Tls, address: "203.0.113.1:5061".parse().unwrap() };
    config.listeners.push(listener);
    Config { state, mode, ..config }
}

fn register(rig: &mut Rig, flow: &Flow, uri: &str, contact: &str) -> (u16, String) {
    let draft = Draft::register("bob").with_uri(uri).with("Contact", contact);
    let reaction = rig.send(flow, &draft);
    (reaction.status(), reaction.response().reason())
}

const STATES: [State; 2] = [State::Stateful, State::Stateless];

#[test]
fn a_secure_contact_is_registered_over_tls_alone() {
    let (secured, clear) = (tls(BOB, 3), tcp(BOB, 4));
    let contact = "<sips:bob@198.51.100.20:7>";
    for (flow, uri, contact, status) in [
        (&secured, "sips:example.com", contact, 200),
        // Some phones use a SIPS Contact whenever they are on TLS.
        (&secured, "sip:example.com", contact, 200),
        (&clear, "sip:example.com", contact, 400),
        (&clear, "sips:example.com", contact, 400),
        (&secured, "sips:example.com", "<sip:bob@198.51.100.20;transport=tls>", 200),
        (&secured, "sip:example.com", "<sip:bob@198.51.100.20;transport=tls>", 200),
    ] {
        let mut rig = Rig::new(config(State::Stateful, Mode::Proxy));
        let found = register(&mut rig, flow, uri, contact);
        assert_eq!(found.0, status, "{uri} {contact} {}: {}", flow.transport.via_name(), found.1);
        let bound = rig.contacts("bob@example.com");
        assert_eq!(bound.len(), usize::from(status == 200), "{bound:?}");
    }
}

#[test]
fn a_call_to_a_secure_uri_is_secure_all_the_way() {
    for state in STATES {
        let mut rig = Rig::new(config(state, Mode::Proxy));
        let bob = tls(BOB, 3);
        assert_eq!(
            register(&mut rig, &bob, "sips:example.com", "<sips:bob@198.51.100.20:7>").0,
            200
        );
        let invite =
            Draft::invite("sips:bob@example.com").with("Contact", "<sips:alice@198.51.100.10>");
        let alice = tls(ALICE, 8);
        let forwarded = rig.send(&alice, &invite).forwarded().clone();
        assert_eq!(
            (forwarded.flow, &forwarded.request_uri()[..]),
            (bob, "sips:bob@198.51.100.20:7")
        );
        assert!(forwarded.values(HeaderName::Via)[0].starts_with("SIP/2.0/TLS 203.0.113.1:5061;"));
        let route = forwarded.value(HeaderName::RecordRoute);
        assert!(route.starts_with("<sips:") && route.ends_with("@203.0.113.1:5061;lr>"), "{route}");
        let answered = answer(&mut rig, &forwarded, 200, "sips:bob@198.51.100.20:7");
        assert_eq!(answered.flow.remote, alice.remote);
        let route = answered.value(HeaderName::RecordRoute);
        let ack = Draft::new("ACK", "sips:bob@198.51.100.20:7")
            .with("Route", &route)
            .with("Call-ID", &forwarded.value(HeaderName::CallId))
            .with("From", &forwarded.value(HeaderName::From))
            .with("To", &answered.value(HeaderName::To))
            .with("CSeq", "1 ACK");
        assert_eq!(rig.send(&alice, &ack).forwarded().flow, bob, "{state:?}");
    }
}

#[test]
fn what_is_secure_goes_nowhere_in_clear() {
    for state in STATES {
        let mut rig = Rig::new(config(state, Mode::Proxy));
        let contact = "<sip:bob@198.51.100.20;transport=tls>";
        assert_eq!(register(&mut rig, &tls(BOB, 3), "sip:example.com", contact).0, 200);
        let invite = || Draft::invite("sips:bob@example.com");
        let reaction = rig.send(&tls(ALICE, 8), &invite());
        assert_eq!(reaction.status(), 480);
        let response = text(&reaction.response().bytes);
        assert!(
            response.contains("\r\nWarning: 380 barebell \"SIPS Not Allowed\"\r\n"),
            "{response}"
        );
        let reaction = rig.send(&tcp(ALICE, 9), &invite());
        assert_eq!(reaction.status(), 400);
        assert!(reaction.response().reason().contains("Unsecured"));
    }
}

#[test]
fn who_is_called_in_clear_by_a_secure_contact_hears_a_uri_that_is_not() {
    for mode in [Mode::Proxy, Mode::Redirect] {
        let mut rig = Rig::new(config(State::Stateful, mode));
        let bob = tls(BOB, 3);
        assert_eq!(
            register(&mut rig, &bob, "sips:example.com", "<sips:bob@198.51.100.20:7>").0,
            200
        );
        let reaction = rig.send(&tcp(ALICE, 8), &Draft::invite("sip:bob@example.com"));
        if mode == Mode::Redirect {
            let contact = reaction.response().value(HeaderName::Contact);
            assert_eq!(contact.split(';').next(), Some("<sip:bob@198.51.100.20:7>"));
            continue;
        }
        let forwarded = reaction.forwarded();
        assert_eq!(
            (forwarded.flow, &forwarded.request_uri()[..]),
            (bob, "sip:bob@198.51.100.20:7")
        );
        let routes = forwarded.values(HeaderName::RecordRoute);
        assert!(routes.iter().all(|route| route.starts_with("<sip:")), "{routes:?}");
        assert!(routes[0].ends_with("@203.0.113.1:5061;transport=tls;lr>"), "{routes:?}");
    }
}

#[test]
fn elsewhere_a_secure_uri_is_looked_for_by_tls() {
    let mut rig = Rig::new(config(State::Stateful, Mode::Proxy));
    let reaction = rig.send(&tls(ALICE, 8), &Draft::invite("sips:y@foreign.example"));
    assert!(reaction.wants_location().0.sips);
    let reaction = rig.send(&tls(ALICE, 8), &Draft::invite("sips:y@192.0.2.5"));
    let flow = reaction.forwarded().flow;
    assert_eq!((flow.transport, flow.remote), (Transport::Tls, "192.0.2.5:5061".parse().unwrap()));
}
