//! Routing of requests within a dialog by their route set, on the recorded flows (RFC 3261 section
//! 16.6 step 4, RFC 5626, RFC 5658).

use crate::rig::{
    ALICE, BOB, Draft, Rig, Sent, closed_config, open_config, serial, tcp, text, udp,
};
use barebell_sip_server::config::State;
use barebell_sip_server::{Config, Flow};
use sip::{Duration, HeaderName, Location};

/// The external address of alice behind a NAT.
pub(crate) const NAT: &str = "198.51.100.200:40123";
const ALICE_CONTACT: &str = "<sip:alice@192.168.1.5:5060>";

/// A call from alice behind a NAT to bob, with the state of both after the answer.
pub(crate) struct Call {
    pub(crate) rig: Rig,
    call_id: String,
    pub(crate) alice: Flow,
    pub(crate) bob: Flow,
    /// The Record-Route values of the request, in their order.
    pub(crate) bob_routes: Vec<String>,
    /// The Record-Route values of the response, in their order.
    pub(crate) alice_routes: Vec<String>,
    pub(crate) bob_contact: String,
}

pub(crate) fn invite() -> Draft {
    Draft::invite("sip:bob@example.com")
        .with("Contact", ALICE_CONTACT)
        .and("Via", "SIP/2.0/UDP 192.168.1.5:5060;rport;branch=z9hG4bKnat")
}

/// Sends bob's response to `forwarded`, and returns the response that alice receives.
pub(crate) fn answer(rig: &mut Rig, forwarded: &Sent, status: u16, contact: &str) -> Sent {
    let routes: String = forwarded
        .message()
        .values(HeaderName::RecordRoute)
        .map(|value| format!("Record-Route: {}\r\n", text(value)))
        .collect();
    let fields = format!("{routes}Contact: <{contact}>\r\n");
    let answered = rig.receive(&forwarded.flow, &forwarded.answer(status, "bob-tag", &fields));
    answered.response().clone()
}

impl Call {
    /// Bob registers on `bob` and answers the call.
    pub(crate) fn new(config: Config, bob: Flow) -> Self {
        let mut rig = Rig::closed_with(config);
        let bob_contact = format!("sip:bob@{}", bob.remote);
        rig.register("bob", &bob, &format!("<{bob_contact}>"));
        Self::answered_on(rig, bob, bob_contact)
    }

    /// Calls bob. His phone on `bob`, with the contact `bob_contact`, answers.
    fn answered_on(mut rig: Rig, bob: Flow, bob_contact: String) -> Self {
        let alice = udp(NAT);
        let draft = invite();
        let mut reaction = rig.send(&alice, &draft);
        let asked = reaction.sent.iter().find(|sent| sent.status() == 407).cloned();
        if let Some(asked) = asked {
            let again =
                draft.next().with("Via", "SIP/2.0/UDP 192.168.1.5:5060;rport;branch=z9hG4bKn2");
            reaction = rig.send(&alice, &again.answering(&asked, "alice", "alice"));
        }
        let forwarded = reaction.requests().find(|sent| sent.flow == bob).cloned();
        let forwarded = forwarded.expect("it rings there");
        let bob_routes = forwarded.values(HeaderName::RecordRoute);
        let answered = answer(&mut rig, &forwarded, 200, &bob_contact);
        assert_eq!(answered.flow.remote, NAT.parse().unwrap(), "rport");
        let alice_routes = answered.values(HeaderName::RecordRoute);
        let place = |route: &String| route.split('@').nth(1).unwrap().to_owned();
        assert!(alice_routes.iter().map(place).eq(bob_routes.iter().map(place)));
        let call_id = answered.value(HeaderName::CallId);
        Self { rig, call_id, alice, bob, bob_routes, alice_routes, bob_contact }
    }

    /// A request of alice within the call.
    pub(crate) fn by_alice(&self, method: &str) -> Draft {
        let mut routes = self.alice_routes.clone();
        routes.reverse();
        self.within(method, &self.bob_contact.clone())
            .with("From", "<sip:alice@example.com>;tag=alice-tag")
            .with("To", "<sip:bob@example.com>;tag=bob-tag")
            .and("Route", &routes.join(", "))
            .and("Via", &format!("SIP/2.0/UDP 192.168.1.5:5060;rport;branch=z9hG4bKa{}", serial()))
    }

    /// A request of bob within the call.
    pub(crate) fn by_bob(&self, method: &str) -> Draft {
        self.within(method, "sip:alice@192.168.1.5:5060")
            .with("From", "<sip:bob@example.com>;tag=bob-tag")
            .with("To", "<sip:alice@example.com>;tag=alice-tag")
            .and("Route", &self.bob_routes.join(", "))
    }

    fn within(&self, method: &str, uri: &str) -> Draft {
        Draft::new(method, uri).with("Call-ID", &self.call_id).with_cseq(20)
    }
}

pub(crate) fn configs() -> Vec<Config> {
    let mut configs = Vec::new();
    for state in [State::Stateful, State::Stateless] {
        configs.push(Config { state, ..open_config() });
        configs.push(Config { state, ..closed_config() });
    }
    configs
}

fn bobs() -> [Flow; 3] {
    [udp(BOB), tcp(BOB, 5), tcp("[2001:db8::20]:5060", 6)]
}

#[test]
fn both_sides_reach_each_other_on_their_flows() {
    for config in configs() {
        for bob in bobs() {
            let mut call = Call::new(config.clone(), bob);
            for method in ["ACK", "INVITE", "BYE", "UPDATE", "INFO", "REFER"] {
                let reaction = call.rig.send(&call.alice, &call.by_alice(method));
                let forwarded = reaction.forwarded();
                assert_eq!(forwarded.flow, call.bob, "{method} {bob}");
                assert_eq!(forwarded.request_uri(), call.bob_contact, "{method}");
                assert_eq!(forwarded.values(HeaderName::Route), [""; 0], "{method}");
                assert_eq!(forwarded.values(HeaderName::RecordRoute), [""; 0], "{method}");
            }
            for method in ["BYE", "INVITE", "NOTIFY", "ACK"] {
                let reaction = call.rig.send(&call.bob.clone(), &call.by_bob(method));
                let forwarded = reaction.forwarded();
                let routes = usize::from(method == "NOTIFY") * call.bob_routes.len();
                assert_eq!(forwarded.values(HeaderName::RecordRoute).len(), routes, "{method}");
                assert_eq!(forwarded.flow, call.alice, "{method} {bob}");
                assert_eq!(forwarded.request_uri(), "sip:alice@192.168.1.5:5060", "{method}");
                assert_eq!(forwarded.values(HeaderName::Route), [""; 0], "{method}");
            }
        }
    }
}

#[test]
fn each_side_is_given_an_address_that_it_can_reach() {
    for (bob, expected) in [
        (udp(BOB), &["203.0.113.1:5060;lr"][..]),
        (tcp(BOB, 5), &["203.0.113.1:5060;transport=tcp;lr", "203.0.113.1:5060;lr"]),
        (udp("[2001:db8::20]:5060"), &["[2001:db8::10]:5060;lr", "203.0.113.1:5060;lr"]),
    ] {
        let call = Call::new(open_config(), bob);
        let hosts: Vec<_> = call
            .bob_routes
            .iter()
            .map(|route| route.split('@').nth(1).unwrap().trim_end_matches('>'))
            .collect();
        assert_eq!(hosts, expected, "the callee's side first");
    }
}

#[test]
fn the_flows_outlast_registrations_and_restarts() {
    let call = Call::new(closed_config(), tcp(BOB, 5));
    let mut restarted = Rig::closed_with(closed_config());
    let reaction = restarted.send(&call.alice, &call.by_alice("BYE"));
    assert_eq!(reaction.forwarded().flow, call.bob);
    let mut call = Call::new(closed_config(), tcp(BOB, 5));
    call.rig.wait(Duration::from_secs(10_000));
    assert_eq!(call.rig.server.bindings(), 0);
    let reaction = call.rig.send(&call.bob.clone(), &call.by_bob("BYE"));
    assert_eq!(reaction.forwarded().flow, call.alice);
}

#[test]
fn a_phone_that_connects_anew_during_a_call_is_reached_there() {
    let mut call = Call::new(open_config(), tcp(BOB, 5));
    let anew = tcp("192.0.2.20:40000", 9);
    let contact = format!("<{}>", call.bob_contact);
    call.rig.register("bob", &anew, &contact);
    let reaction = call.rig.send(&call.alice, &call.by_alice("BYE"));
    assert_eq!(reaction.forwarded().flow, anew);
}

/// Phones of bob behind two NATs with the same private address.
const SAME: &str = "sip:bob@192.168.1.10:5060";
const HOME: &str = "198.51.100.20:40001";
const OFFICE: &str = "192.0.2.20:40002";

fn register_at_same(rig: &mut Rig, flow: &Flow, number: u32) {
    rig.register("bob", flow, &format!("<{SAME}>;+sip.instance=\"<urn:uuid:{number}>\""));
}

#[test]
fn of_two_phones_with_one_contact_the_one_that_answered_is_reached() {
    let (home, office) = (udp(HOME), udp(OFFICE));
    for config in configs() {
        for is_home in [true, false] {
            let mut rig = Rig::closed_with(config.clone());
            let (answers, other) = if is_home { (home, office) } else { (office, home) };
            register_at_same(&mut rig, &other, 1);
            // A stateless proxy calls the newest binding.
            register_at_same(&mut rig, &answers, 2);
            let mut call = Call::answered_on(rig, answers, SAME.into());
            let said = format!("{:?} {is_home}", config.state);
            for _ in 0..2 {
                for method in ["ACK", "INFO"] {
                    let reaction = call.rig.send(&call.alice, &call.by_alice(method));
                    assert_eq!(reaction.forwarded().flow, answers, "{said} {method}");
                }
                // The other binding is newer now.
                register_at_same(&mut call.rig, &other, 1);
            }
            // The NAT has assigned another port.
            let moved = Flow { remote: (answers.remote.ip(), 50_000).into(), ..answers };
            register_at_same(&mut call.rig, &moved, 2);
            register_at_same(&mut call.rig, &other, 1);
            let reaction = call.rig.send(&call.alice, &call.by_alice("BYE"));
            assert_eq!(reaction.forwarded().flow, moved, "{said}");
        }
    }
}

#[test]
fn a_transfer_to_the_contact_of_two_phones_rings_at_both() {
    let mut rig = Rig::closed();
    register_at_same(&mut rig, &udp(HOME), 1);
    register_at_same(&mut rig, &udp(OFFICE), 2);
    let reaction = rig.send_as("alice", &udp(ALICE), &Draft::invite(SAME));
    let flows: Vec<_> = reaction.requests().map(|sent| sent.flow).collect();
    assert_eq!(flows, [udp(OFFICE), udp(HOME)]);
    let mut rig = Rig::closed_with(Config { state: State::Stateless, ..closed_config() });
    register_at_same(&mut rig, &udp(HOME), 1);
    register_at_same(&mut rig, &udp(OFFICE), 2);
    let reaction = rig.send_as("alice", &udp(ALICE), &Draft::invite(SAME));
    assert_eq!(reaction.forwarded().flow, udp(OFFICE), "the newest");
}

#[test]
fn credentials_go_no_further_also_where_nobody_asked_for_them() {
    let value = |realm: &str| {
        format!(
            "Digest username=\"alice\",realm=\"{realm}\",nonce=\"n\",uri=\"sip:x\",\
             response=\"0123456789abcdef0123456789abcdef\""
        )
    };
    for (config, expected) in [
        (closed_config(), vec![value("foreign.example")]),
        // Without authentication on this server, the credentials are for an element behind it.
        (open_config(), vec![value("example.com"), value("example.org"), value("foreign.example")]),
    ] {
        let mut call = Call::new(config, tcp(BOB, 5));
        for method in ["ACK", "INVITE", "BYE"] {
            for name in ["Proxy-Authorization", "Authorization"] {
                let draft = call
                    .by_alice(method)
                    .and(name, &value("example.com"))
                    .and(name, &value("example.org"))
                    .and(name, &value("foreign.example"));
                let reaction = call.rig.send(&call.alice, &draft);
                let kept: Vec<_> = reaction
                    .forwarded()
                    .message()
                    .fields()
                    .filter(|field| field.raw_name() == name.as_bytes())
                    .map(|field| text(field.value))
                    .collect();
                assert_eq!(kept, expected, "{method}");
            }
        }
    }
}

#[test]
fn a_server_may_stay_out_of_dialogs() {
    let mut rig = Rig::new(Config { record_route: false, ..open_config() });
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
    let reaction = rig.send(&udp(ALICE), &Draft::invite("sip:bob@example.com"));
    assert_eq!(reaction.forwarded().values(HeaderName::RecordRoute), [""; 0]);
}

#[test]
fn only_requests_that_start_dialogs_are_record_routed() {
    let mut rig = Rig::open();
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
    for (method, expected) in
        [("INVITE", 1), ("SUBSCRIBE", 1), ("REFER", 1), ("MESSAGE", 0), ("OPTIONS", 0), ("BYE", 0)]
    {
        let reaction = rig.send(&udp(ALICE), &Draft::new(method, "sip:bob@example.com"));
        let routes = reaction.forwarded().values(HeaderName::RecordRoute);
        assert_eq!(routes.len(), expected, "{method}");
    }
    // It is not always known if they create a dialog (RFC 6665 section 4.3).
    for (method, expected) in [("INVITE", 0), ("REFER", 0), ("SUBSCRIBE", 1), ("NOTIFY", 1)] {
        let within =
            Draft::new(method, "sip:bob@example.com").with("To", "<sip:bob@example.com>;tag=1");
        let reaction = rig.send(&udp(ALICE), &within);
        let routes = reaction.forwarded().values(HeaderName::RecordRoute);
        assert_eq!(routes.len(), expected, "{method}");
    }
}

#[test]
fn phones_that_can_be_reached_are_reached_at_their_contact() {
    // Neither end is behind a NAT, so no flow is followed.
    let mut rig = Rig::open();
    rig.register("bob", &udp(BOB), "<sip:bob@198.51.100.21>");
    let forwarded = rig.send(
        &udp(ALICE),
        &Draft::invite("sip:bob@example.com").with("Contact", "<sip:alice@198.51.100.11>"),
    );
    let forwarded = forwarded.forwarded().clone();
    assert_eq!(forwarded.flow.remote, "198.51.100.21:5060".parse().unwrap());
    let route = forwarded.values(HeaderName::RecordRoute).pop().unwrap();
    let bye = Draft::new("BYE", "sip:alice@198.51.100.11")
        .with("From", "<sip:bob@example.com>;tag=bob-tag")
        .with("To", "<sip:alice@example.com>;tag=alice-tag")
        .with("Call-ID", &forwarded.value(HeaderName::CallId))
        .and("Route", &route);
    let reaction = rig.send(&udp("198.51.100.21:5060"), &bye);
    assert_eq!(reaction.forwarded().flow.remote, "198.51.100.11:5060".parse().unwrap());
}

#[test]
fn those_abroad_send_within_the_calls_they_were_called_in() {
    let mut rig = Rig::closed_with(closed_config());
    let draft = invite().with_uri("sip:y@foreign.example");
    let asked = rig.send(&udp(NAT), &draft).response().clone();
    let again = draft.next().with("Via", "SIP/2.0/UDP 192.168.1.5:5060;rport;branch=z9hG4bKn2");
    let (_, ticket) =
        rig.send(&udp(NAT), &again.answering(&asked, "alice", "alice")).wants_location();
    let remote = "192.0.2.5:5060".parse().unwrap();
    let location = Location { transport: sip::Transport::Udp, remote, local: None };
    let forwarded = rig.located(ticket, &[location]).forwarded().clone();
    let route = forwarded.values(HeaderName::RecordRoute).pop().unwrap();
    let bye = Draft::new("BYE", "sip:alice@192.168.1.5:5060")
        .with("From", "<sip:y@foreign.example>;tag=y-tag")
        .with("To", "<sip:alice@example.com>;tag=alice-tag")
        .with("Call-ID", &forwarded.value(HeaderName::CallId))
        .and("Route", &route);
    let reaction = rig.send(&udp("192.0.2.5:5060"), &bye);
    assert_eq!(reaction.forwarded().flow, udp(NAT));
}

/// A phone appends its tag after the value that it received.
#[test]
fn a_semicolon_too_many_in_to_loses_no_call() {
    for state in [State::Stateful, State::Stateless] {
        for (to, forwarded_to) in [
            ("<sip:bob@example.com>;", "<sip:bob@example.com>"),
            ("\"Bob\" <sip:bob@example.com> ;", "\"Bob\" <sip:bob@example.com>"),
            ("sip:bob@example.com;x=y;", "sip:bob@example.com;x=y"),
            ("<sip:bob@example.com;x=y>;z", "<sip:bob@example.com;x=y>;z"),
        ] {
            let mut rig = Rig::new(Config { state, ..open_config() });
            rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
            let draft = Draft::invite("sip:bob@example.com")
                .with("To", to)
                .with("From", "<sip:alice@example.com>;tag=a;");
            let forwarded = rig.send(&udp(ALICE), &draft).forwarded().clone();
            assert_eq!(forwarded.value(HeaderName::To), forwarded_to, "{state:?}");
            let answer = text(&forwarded.answer(200, "b", ""));
            let tagged = format!("To: {forwarded_to};tag=b\r\n");
            assert!(answer.contains(&tagged), "as phones write it");
            let back = rig.receive(&forwarded.flow, answer.as_bytes());
            assert_eq!(back.status(), 200, "{state:?} {to}");
            let ack = draft
                .with_method("ACK")
                .with_uri(&format!("sip:bob@{BOB}"))
                .with("To", &back.response().value(HeaderName::To));
            assert_eq!(rig.send(&udp(ALICE), &ack).forwarded().flow, udp(BOB), "{state:?} {to}");
        }
    }
}
