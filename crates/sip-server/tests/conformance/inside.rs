//! The address of this server that phones are told where it is translated for those outside.

use crate::rig::{Draft, Rig, open_config, serial};
use barebell_sip_server::config::{Advertised, Listener, State};
use barebell_sip_server::{Config, Flow};
use sip::{HeaderName, Transport};

/// The phones are named by their source and the address in their contact and Via.
#[test]
fn a_phone_inside_is_told_the_inner_address_and_one_outside_the_outer_one() {
    const INNER: &str = "192.168.7.2:5060";
    const OUTER: &str = "203.0.113.77:15060";
    let inside = ("192.168.7.20:5060", "192.168.7.20:5060");
    let outside = ("198.51.100.20:5060", "198.51.100.20:5060");
    // From behind a container's translation, from another network, and with a false address.
    let translated = ("192.168.7.1:40000", "192.168.1.20:5060");
    let elsewhere = ("192.168.1.20:5060", "192.168.1.20:5060");
    let lying = ("198.51.100.21:5060", "192.168.7.20:5060");
    for state in [State::Stateful, State::Stateless] {
        for (caller, callee, called) in [
            (inside, outside, [INNER, OUTER]),
            (outside, inside, [OUTER, INNER]),
            (inside, ("192.168.7.21:5060", "192.168.7.21:5060"), [INNER, INNER]),
            (translated, inside, [OUTER, INNER]),
            (inside, translated, [INNER, OUTER]),
            (elsewhere, lying, [OUTER, OUTER]),
        ] {
            let mut config = Config { state, ..open_config() };
            let address = "0.0.0.0:5060".parse().unwrap();
            let listener = Listener { transport: Transport::Udp, address };
            config.listeners = vec![listener];
            config.advertised = vec![Advertised { listener, address: OUTER.parse().unwrap() }];
            let mut rig = Rig::new(config);
            let on = |(source, _): (&str, &str)| Flow {
                transport: Transport::Udp,
                local: INNER.parse().unwrap(),
                remote: source.parse().unwrap(),
                connection: None,
            };
            let as_said = |draft: Draft, (_, said): (&str, &str)| {
                let via = format!("SIP/2.0/UDP {said};rport;branch=z9hG4bK-{}", serial());
                draft.and("Via", &via)
            };
            let contact = format!("<sip:bob@{}>", callee.1);
            let register = Draft::register("bob").and("Contact", &contact);
            assert_eq!(rig.send(&on(callee), &as_said(register, callee)).status(), 200);
            let invite = Draft::invite("sip:bob@example.com")
                .with("Contact", &format!("<sip:alice@{}>", caller.1));
            let sent = rig.send(&on(caller), &as_said(invite, caller)).forwarded().clone();
            assert_eq!(sent.flow, on(callee));
            let vias = sent.values(HeaderName::Via);
            assert!(vias[0].starts_with(&format!("SIP/2.0/UDP {};", called[1])), "{vias:?}");
            let routes = sent.values(HeaderName::RecordRoute);
            let ends = |at: Option<&String>, end| at.unwrap().ends_with(&format!("@{end};lr>"));
            let is_right = ends(routes.first(), called[1]) && ends(routes.last(), called[0]);
            assert!(is_right, "{caller:?} {callee:?} {routes:?}");
            assert_eq!(routes.len(), 1 + usize::from(called[0] != called[1]));
            // Either address leads through the server.
            let bye = Draft::new("BYE", &format!("sip:alice@{}", caller.1))
                .with("From", &format!("{};tag=b", sent.value(HeaderName::To)))
                .with("To", &sent.value(HeaderName::From))
                .with("Call-ID", &sent.value(HeaderName::CallId))
                .and("Route", &routes.join(", "));
            let back = rig.send(&on(callee), &as_said(bye, callee)).forwarded().clone();
            assert_eq!(back.flow, on(caller));
        }
    }
}
