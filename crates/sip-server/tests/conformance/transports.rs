//! The choice of transports, address families and places from the DNS (RFC 3261 section 18, RFC
//! 3263).

use crate::rig::{
    ALICE, BOB, Draft, Rig, SERVER, SERVER_V6, STRANGER, Sent, open_config, serial, tcp, udp,
};
use barebell_sip_server::config::{Advertised, Listener, Network, State};
use barebell_sip_server::{Config, Flow};
use sip::locate::{Destination, Host};
use sip::{Duration, HeaderName, Location, Transport};
use std::net::SocketAddr;

/// A server with bob registered from his own address with this contact.
fn with_contact(contact: &str, state: State) -> Rig {
    let mut rig = Rig::new(Config { state, ..open_config() });
    rig.register("bob", &udp(BOB), contact);
    rig
}

fn flow(transport: Transport, local: &str, remote: &str) -> Flow {
    let (local, remote) = (local.parse().unwrap(), remote.parse().unwrap());
    Flow { transport, local, remote, connection: None }
}

const STATES: [State; 2] = [State::Stateful, State::Stateless];

#[test]
fn contacts_say_how_they_are_reached() {
    use Transport::{Tcp, Udp};
    for (contact, transport, local, remote) in [
        // The flow of the REGISTER, which works through NATs.
        ("<sip:bob@198.51.100.20>", Udp, SERVER, BOB),
        ("<sip:bob@198.51.100.20:5060;x=y>", Udp, SERVER, BOB),
        ("<sip:bob@192.168.1.9:5062>", Udp, SERVER, BOB),
        ("<sip:bob@198.51.100.21:5062;ob>", Udp, SERVER, BOB),
        // An address other than the source of the REGISTER.
        ("<sip:bob@198.51.100.21>", Udp, SERVER, "198.51.100.21:5060"),
        ("<sip:bob@198.51.100.21:5062;transport=udp>", Udp, SERVER, "198.51.100.21:5062"),
        ("<sip:bob@198.51.100.21;transport=TCP>", Tcp, SERVER, "198.51.100.21:5060"),
        ("<sip:bob@[2001:db8::21]>", Udp, SERVER_V6, "[2001:db8::21]:5060"),
        ("<sip:bob@[2001:db8::21]:7;transport=tcp>", Tcp, SERVER_V6, "[2001:db8::21]:7"),
        ("<sip:bob@[::ffff:198.51.100.21]>", Udp, SERVER, "198.51.100.21:5060"),
    ] {
        for state in STATES {
            let mut rig = with_contact(contact, state);
            let reaction = rig.send(&tcp(ALICE, 8), &Draft::invite("sip:bob@example.com"));
            let forwarded = reaction.forwarded();
            assert_eq!(forwarded.flow, flow(transport, local, remote), "{contact} {state:?}");
            let via = &forwarded.values(HeaderName::Via)[0];
            let expected = format!("SIP/2.0/{} {local};branch=z9hG4bK", transport.via_name());
            assert!(via.starts_with(&expected), "{via}");
        }
    }
}

#[test]
fn a_contact_on_a_stream_is_reached_on_it() {
    let mut rig = Rig::open();
    rig.register("bob", &tcp("198.51.100.20:49152", 3), "<sip:bob@198.51.100.20;transport=tcp>");
    let reaction = rig.send(&udp(ALICE), &Draft::invite("sip:bob@example.com"));
    assert_eq!(reaction.forwarded().flow, tcp("198.51.100.20:49152", 3));
    let back = rig.receive(&reaction.forwarded().flow, &reaction.forwarded().answer(200, "b", ""));
    assert_eq!(back.response().flow, udp(ALICE), "the answer leaves as the request came");
}

#[test]
fn long_requests_leave_on_a_stream_where_the_contact_leaves_the_choice() {
    let body = "x".repeat(1300);
    for (contact, transport) in [
        ("<sip:bob@198.51.100.21>", Transport::Tcp),
        ("<sip:bob@198.51.100.21;transport=udp>", Transport::Udp),
        // It is unknown if the phone accepts connections at the port that it sends datagrams from.
        (&format!("<sip:bob@{BOB}>")[..], Transport::Udp),
    ] {
        for state in STATES {
            let mut rig = with_contact(contact, state);
            let long = Draft::invite("sip:bob@example.com").with_body(&body);
            let reaction = rig.send(&tcp(ALICE, 3), &long);
            assert_eq!(reaction.forwarded().flow.transport, transport, "{contact} {state:?}");
            let short = Draft::invite("sip:bob@example.com");
            let reaction = rig.send(&udp(ALICE), &short);
            assert_eq!(reaction.forwarded().flow.transport, Transport::Udp, "{contact} {state:?}");
        }
    }
}

#[test]
fn a_long_request_is_sent_as_datagrams_where_no_stream_can_be_opened() {
    let mut rig = with_contact("<sip:bob@198.51.100.21>", State::Stateful);
    let long = Draft::invite("sip:bob@example.com").with_body(&"x".repeat(1300));
    let by_tcp = rig.send(&udp(ALICE), &long).forwarded().clone();
    assert_eq!(by_tcp.flow.transport, Transport::Tcp);
    let reaction = rig.undeliverable(&by_tcp.flow, &by_tcp.bytes);
    let by_udp = reaction.forwarded();
    assert_eq!(by_udp.flow, flow(Transport::Udp, SERVER, "198.51.100.21:5060"));
    assert!(by_udp.values(HeaderName::Via)[0].starts_with("SIP/2.0/UDP "));
}

#[test]
fn names_are_located_and_tried_in_turn() {
    let mut rig = Rig::open();
    let invite = Draft::invite("sip:y@foreign.example");
    let (destination, ticket) = rig.send(&udp(ALICE), &invite).wants_location();
    let expected = Destination {
        host: Host::parse(b"foreign.example").unwrap(),
        port: None,
        transport: None,
        sips: false,
    };
    assert_eq!(destination, expected);
    let location = |transport, remote: &str| Location {
        transport,
        remote: remote.parse().unwrap(),
        local: None,
    };
    let places = [
        location(Transport::Tcp, "192.0.2.5:5060"),
        location(Transport::Udp, "[2001:db8::5]:5070"),
        location(Transport::Udp, "192.0.2.6:5060"),
    ];
    let first = rig.located(ticket, &places).forwarded().clone();
    assert_eq!(first.flow, flow(Transport::Tcp, SERVER, "192.0.2.5:5060"));
    let second = rig.undeliverable(&first.flow, &first.bytes).forwarded().clone();
    assert_eq!(second.flow, flow(Transport::Udp, SERVER_V6, "[2001:db8::5]:5070"));
    assert_ne!(second.values(HeaderName::Via)[0], first.values(HeaderName::Via)[0]);
    let overloaded = rig.receive(&second.flow, &second.answer(503, "y", ""));
    let third = overloaded
        .requests()
        .find(|sent| {
            sent.request_uri() == second.request_uri()
                && sent.message().method() == Some(sip::Method::Invite)
        })
        .unwrap()
        .clone();
    assert_eq!(third.flow, flow(Transport::Udp, SERVER, "192.0.2.6:5060"));
    let answered = rig.receive(&third.flow, &third.answer(200, "y", ""));
    assert_eq!(answered.status(), 200);
}

#[test]
fn a_destination_says_what_is_looked_up() {
    for (uri, port, transport) in [
        ("sip:y@foreign.example:5070", Some(5070), None),
        ("sip:y@foreign.example;transport=tcp", None, Some(Transport::Tcp)),
        ("sip:foreign.example", None, None),
    ] {
        for state in STATES {
            let mut rig = Rig::new(Config { state, ..open_config() });
            let (destination, _) = rig.send(&udp(ALICE), &Draft::invite(uri)).wants_location();
            assert_eq!((destination.port, destination.transport), (port, transport), "{uri}");
        }
    }
}

#[test]
fn what_the_dns_does_not_know_is_unavailable() {
    let mut rig = Rig::open();
    let (_, ticket) =
        rig.send(&udp(ALICE), &Draft::invite("sip:y@foreign.example")).wants_location();
    assert_eq!(rig.located(ticket, &[]).status(), 480);
    let mut stateless = Rig::new(Config { state: State::Stateless, ..open_config() });
    let draft = Draft::invite("sip:y@foreign.example");
    let (_, ticket) = stateless.send(&udp(ALICE), &draft).wants_location();
    let refusal = stateless.located(ticket, &[]).response().clone();
    assert_eq!((refusal.status(), refusal.flow), (480, udp(ALICE)));
    assert_eq!(refusal.values(HeaderName::Via).len(), 1);
    assert_eq!(stateless.count("undeliverable"), 1);
}

#[test]
fn without_an_address_of_that_kind_there_is_no_way() {
    let mut config = open_config();
    config.listeners.retain(|listener| listener.address.is_ipv4());
    let mut rig = Rig::new(config);
    let reaction = rig.send(&udp(ALICE), &Draft::invite("sip:y@[2001:db8::77]"));
    assert_eq!(reaction.responses().next().map(|sent| sent.status()), Some(480));
}

#[test]
fn nothing_is_sent_where_nobody_is() {
    for address in ["255.255.255.255", "0.0.0.0", "224.0.1.75", "[ff02::1]", "[::]", "192.0.2.5:0"]
    {
        for state in STATES {
            let mut rig = Rig::new(Config { state, ..open_config() });
            let draft = Draft::new("MESSAGE", &format!("sip:y@{address}"));
            let reaction = rig.send(&udp(STRANGER), &draft);
            assert_eq!(reaction.requests().count(), 0, "{address} {state:?}");
            let later = rig.wait(Duration::from_secs(40));
            assert_eq!(later.requests().count(), 0, "{address} {state:?}");
            assert_eq!(rig.server.transactions(), 0);
        }
    }
}

#[test]
fn a_stateless_proxy_passes_answers_back_by_the_via() {
    let mut rig = with_contact(&format!("<sip:bob@{BOB}>"), State::Stateless);
    for (via, expected) in [
        ("198.51.100.10:5070;branch=z9hG4bKa", "198.51.100.10:5070"),
        ("10.0.0.1:5070;rport;branch=z9hG4bKb", "198.51.100.10:4000"),
        ("phone.example;branch=z9hG4bKc", "198.51.100.10:4000"),
    ] {
        let draft = Draft::invite("sip:bob@example.com").and("Via", &format!("SIP/2.0/UDP {via}"));
        let forwarded = rig.send(&udp("198.51.100.10:4000"), &draft).forwarded().clone();
        let back = rig.receive(&udp(BOB), &forwarded.answer(180, "b", ""));
        assert_eq!(back.response().flow.remote, expected.parse().unwrap(), "{via}");
        assert_eq!(back.response().values(HeaderName::Via).len(), 1);
        assert_eq!(rig.server.transactions(), 0);
    }
}

/// The destination of a call to alice, after a REGISTER with this Via and Contact on `flow`.
fn called_at(rig: &mut Rig, flow: &Flow, via: &str, contact: &str) -> SocketAddr {
    let register = Draft::register("alice")
        .with("Via", &format!("{via};branch=z9hG4bKr{}", serial()))
        .and("Contact", &format!("<{contact}>"));
    assert_eq!(rig.send(flow, &register).status(), 200);
    rig.send(&udp(BOB), &Draft::invite("sip:alice@example.com")).forwarded().flow.remote
}

#[test]
fn who_sends_from_one_port_and_listens_on_another_is_reached_where_it_listens() {
    const SOURCE: &str = "198.51.100.10:40000";
    const LISTENS: &str = "198.51.100.10:5060";
    let split = "SIP/2.0/UDP 198.51.100.10:5060";
    for (via, contact, expected) in [
        (split, "sip:alice@198.51.100.10", LISTENS),
        (split, "sip:alice@198.51.100.10:5060;transport=udp", LISTENS),
        // A phone that asks for rport, or has another address, is behind a NAT.
        ("SIP/2.0/UDP 198.51.100.10:5060;rport", "sip:alice@198.51.100.10", SOURCE),
        ("SIP/2.0/UDP 192.168.0.5:5060", "sip:alice@198.51.100.10", SOURCE),
        ("SIP/2.0/UDP phone.example:5060", "sip:alice@198.51.100.10", SOURCE),
        (split, "sip:alice@192.168.0.5", SOURCE),
        (split, "sip:alice@198.51.100.10;ob", SOURCE),
        (split, "sip:alice@198.51.100.10:40000", SOURCE),
    ] {
        let found = called_at(&mut Rig::open(), &udp(SOURCE), via, contact);
        assert_eq!(found, expected.parse().unwrap(), "{via} {contact}");
    }
}

#[test]
fn who_listens_on_another_port_is_found_there_within_a_dialog() {
    const SOURCE: &str = "198.51.100.10:40000";
    let mut rig = Rig::closed();
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
    let draft = Draft::invite("sip:bob@example.com")
        .with("From", "<sip:alice@example.com>;tag=a")
        .with("Via", &format!("SIP/2.0/UDP {ALICE};branch=z9hG4bK{}", serial()))
        .and("Contact", &format!("<sip:alice@{ALICE}>"));
    let challenged = rig.send(&udp(SOURCE), &draft);
    assert_eq!(challenged.response().flow.remote, ALICE.parse().unwrap(), "by Via");
    let invite = draft
        .next()
        .with("Via", &format!("SIP/2.0/UDP {ALICE};branch=z9hG4bK{}", serial()))
        .answering(challenged.response(), "alice", "alice");
    let forwarded = rig.send(&udp(SOURCE), &invite).forwarded().clone();
    let bye = Draft::new("BYE", &format!("sip:alice@{ALICE}"))
        .with("From", &format!("{};tag=b", forwarded.value(HeaderName::To)))
        .with("To", &forwarded.value(HeaderName::From))
        .with("Call-ID", &forwarded.value(HeaderName::CallId))
        .and("Route", &forwarded.values(HeaderName::RecordRoute).join(", "));
    let reaction = rig.send(&udp(BOB), &bye);
    assert_eq!(reaction.forwarded().flow.remote, ALICE.parse().unwrap());
}

#[test]
fn where_guessing_cannot_be_right_the_operator_says_how_phones_are_reached() {
    const SOURCE: &str = "198.51.100.10:40000";
    let network = |address: &str| vec![Network { address: address.parse().unwrap(), prefix: 24 }];
    let mut config = open_config();
    config.registrar.by_flow = network("198.51.100.0");
    let plain = ("SIP/2.0/UDP 198.51.100.10:5060", "sip:alice@198.51.100.10:5060");
    let found = called_at(&mut Rig::new(config.clone()), &udp(SOURCE), plain.0, plain.1);
    assert_eq!(
        found,
        SOURCE.parse().unwrap(),
        "its NAT rewrites what phones say, but for the port"
    );

    config.registrar.by_contact = network("198.51.100.0");
    let contact = "sip:alice@198.51.100.10:5070";
    for flow in [udp(SOURCE), tcp(SOURCE, 1)] {
        let via = "SIP/2.0/UDP 198.51.100.10:5070;rport";
        let found = called_at(&mut Rig::new(config.clone()), &flow, via, contact);
        assert_eq!(found, "198.51.100.10:5070".parse().unwrap(), "{flow}");
    }
    config.registrar.by_contact = network("192.0.2.0");
    config.registrar.by_flow.clear();
    let asks = "SIP/2.0/UDP 198.51.100.10:5070;rport";
    let found = called_at(&mut Rig::new(config), &udp(SOURCE), asks, contact);
    assert_eq!(found, SOURCE.parse().unwrap(), "of other networks it is guessed");
}

/// A server with a second port, at which bob registered, either directly or through an edge proxy.
fn with_two_ports(state: State, behind_edge: bool) -> (Rig, Flow) {
    let mut config = Config { state, ..open_config() };
    let address = "203.0.113.1:5070".parse().unwrap();
    config.listeners.push(Listener { transport: Transport::Udp, address });
    let mut rig = Rig::new(config);
    let there = Flow { local: address, ..udp(BOB) };
    let mut draft = Draft::register("bob").and("Contact", &format!("<sip:bob@{BOB}>"));
    if behind_edge {
        draft = draft.and("Via", "SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKedge");
    }
    assert_eq!(rig.send(&there, &draft).status(), 200);
    (rig, there)
}

#[test]
fn everything_leaves_from_the_port_that_the_peer_knows() {
    for state in [State::Stateful, State::Stateless] {
        for behind_edge in [false, true] {
            let (mut rig, there) = with_two_ports(state, behind_edge);
            let reaction = rig.send(&udp(ALICE), &Draft::invite("sip:bob@example.com"));
            let invite = reaction.forwarded().clone();
            assert_eq!(invite.flow, there, "{state:?} {behind_edge}");
            assert!(invite.values(HeaderName::Via)[0].contains("203.0.113.1:5070"));
            let routes = invite.values(HeaderName::RecordRoute);
            let ends = routes.iter().map(|route| route.rsplit('@').next().unwrap());
            let ends: Vec<_> = ends.collect();
            assert_eq!(ends, ["203.0.113.1:5070;lr>", "203.0.113.1:5060;lr>"]);
            let ringing = rig.receive(&there, &invite.answer(180, "b", ""));
            assert_eq!(ringing.response().flow, udp(ALICE), "{state:?}");
        }
    }
}

#[test]
fn what_no_listener_can_carry_is_answered_and_counted() {
    for state in [State::Stateful, State::Stateless] {
        let mut config = Config { state, ..open_config() };
        config.listeners.retain(|listener| listener.address.is_ipv4());
        let mut rig = Rig::new(config);
        let answer = rig.send(&udp(ALICE), &Draft::invite("sip:x@[2001:db8::5]"));
        assert_eq!(answer.responses().last().unwrap().status(), 480, "{state:?}");
        assert_eq!(rig.count("undeliverable"), 1, "{state:?}");

        let invite = Draft::invite("sip:x@far.example");
        let (_, ticket) = rig.send(&udp(ALICE), &invite).wants_location();
        let remote = "[2001:db8::5]:5060".parse().unwrap();
        let place = Location { transport: Transport::Udp, remote, local: None };
        assert_eq!(rig.located(ticket, &[place]).status(), 480, "{state:?}");
        assert_eq!(rig.count("undeliverable"), 2, "{state:?}");
    }
}

#[test]
fn a_long_request_goes_by_tcp_with_and_without_a_transaction() {
    for state in [State::Stateful, State::Stateless] {
        let mut rig = Rig::new(Config { state, ..open_config() });
        let long = Draft::new("MESSAGE", "sip:x@192.0.2.50").with_body(&"x".repeat(1200));
        let sent = rig.send(&udp(ALICE), &long).forwarded().clone();
        assert_eq!(sent.flow.transport, Transport::Tcp, "{state:?}");
        let (_, ticket) =
            rig.send(&udp(ALICE), &long.next().with_uri("sip:x@far.example")).wants_location();
        let remote = "192.0.2.50:5060".parse().unwrap();
        let place = Location { transport: Transport::Udp, remote, local: None };
        let sent = rig.located(ticket, &[place]).forwarded().clone();
        assert_eq!(sent.flow.transport, Transport::Tcp, "{state:?} by name");
    }
}

#[test]
fn without_a_transaction_a_long_request_is_sent_as_a_datagram_where_no_stream_can_be_opened() {
    let long = "x".repeat(1300);
    let by_udp = flow(Transport::Udp, SERVER, "198.51.100.21:5060");
    // Also for a request with a Route to a proxy, or to a name.
    for (uri, route) in [
        ("sip:bob@example.com", ""),
        ("sip:x@192.0.2.50", "<sip:198.51.100.21;lr>"),
        ("sip:x@far.example", ""),
    ] {
        let mut rig = with_contact("<sip:bob@198.51.100.21>", State::Stateless);
        let mut invite = Draft::invite(uri).with_body(&long);
        if !route.is_empty() {
            invite = invite.and("Route", route);
        }
        let mut reaction = rig.send(&udp(ALICE), &invite);
        if !reaction.events.is_empty() {
            let (_, ticket) = reaction.wants_location();
            let remote = by_udp.remote;
            let place = Location { transport: Transport::Udp, remote, local: None };
            reaction = rig.located(ticket, &[place]);
        }
        let by_tcp = reaction.forwarded().clone();
        assert_eq!(by_tcp.flow, Flow { transport: Transport::Tcp, ..by_udp }, "{uri}");
        let reaction = rig.undeliverable(&by_tcp.flow, &by_tcp.bytes);
        let again = reaction.forwarded().clone();
        assert_eq!(again.flow, by_udp, "{uri}");
        let via = |sent: &Sent| sent.values(HeaderName::Via)[0].clone();
        assert_eq!(via(&again), via(&by_tcp).replace("/TCP", "/UDP"), "{uri}");
        for route in again.values(HeaderName::RecordRoute) {
            assert!(route.ends_with("@203.0.113.1:5060;lr>"), "who has no TCP gets here: {route}");
        }
        let below = |sent: &Sent| {
            let text = crate::rig::text(&sent.bytes);
            text[text.rfind("\r\nVia").unwrap()..].to_owned()
        };
        assert_eq!(below(&again), below(&by_tcp), "{uri}");
        assert!(rig.undeliverable(&again.flow, &again.bytes).is_silent(), "once");
        let answer = rig.receive(&by_udp, &again.answer(200, "b", ""));
        assert_eq!(answer.response().flow, udp(ALICE), "{uri}");
    }
}

#[test]
fn the_ack_of_a_2xx_is_sent_as_a_datagram_where_no_stream_can_be_opened() {
    let mut rig = with_contact("<sip:bob@198.51.100.21>", State::Stateful);
    let invite = Draft::invite("sip:bob@example.com");
    let forwarded = rig.send(&udp(ALICE), &invite).forwarded().clone();
    let routes = format!("Record-Route: {}\r\n", forwarded.value(HeaderName::RecordRoute));
    let fields = format!("{routes}Contact: <sip:bob@198.51.100.21>\r\n");
    let answer = rig.receive(&forwarded.flow, &forwarded.answer(200, "b", &fields));
    let ack = invite
        .with_method("ACK")
        .with_uri("sip:bob@198.51.100.21")
        .with("To", &answer.response().value(HeaderName::To))
        .and("Route", &answer.response().value(HeaderName::RecordRoute))
        .with_body(&"x".repeat(1300));
    let by_tcp = rig.send(&udp(ALICE), &ack).forwarded().clone();
    assert_eq!(by_tcp.flow.transport, Transport::Tcp);
    let again = rig.undeliverable(&by_tcp.flow, &by_tcp.bytes).forwarded().clone();
    assert_eq!(again.flow, flow(Transport::Udp, SERVER, "198.51.100.21:5060"));
    assert!(again.bytes.ends_with(&[b'x'; 1300]));
}

#[test]
fn what_is_to_go_by_tcp_is_not_sent_as_a_datagram() {
    for (contact, remote) in [
        // The contact specifies TCP, or the connection was opened by the phone.
        ("<sip:bob@198.51.100.21;transport=tcp>", udp(BOB)),
        ("<sip:bob@198.51.100.20>", tcp("198.51.100.20:49152", 3)),
    ] {
        let mut rig = Rig::new(Config { state: State::Stateless, ..open_config() });
        rig.register("bob", &remote, contact);
        let long = Draft::invite("sip:bob@example.com").with_body(&"x".repeat(1300));
        let sent = rig.send(&udp(ALICE), &long).forwarded().clone();
        assert_eq!(sent.flow.transport, Transport::Tcp, "{contact}");
        assert!(rig.undeliverable(&sent.flow, &sent.bytes).is_silent(), "{contact}");
    }
    // A host that has never answered gets little more than the bytes received.
    let mut rig = Rig::new(Config { state: State::Stateless, ..open_config() });
    rig.register("bob", &udp(BOB), &format!("<sip:{}@198.51.100.21>", "b".repeat(2000)));
    let mut config = open_config();
    (config.state, config.limits.trusted) = (State::Stateless, Vec::new());
    rig.server.configure(config);
    for (length, expected) in [(500, 0), (1300, 1)] {
        let invite = Draft::invite("sip:bob@example.com").with_body(&"x".repeat(length));
        let reaction = rig.send(&udp(STRANGER), &invite);
        let sent = reaction.requests().next().cloned();
        let again = sent.map(|sent| rig.undeliverable(&sent.flow, &sent.bytes).requests().count());
        assert_eq!(again.unwrap_or(0), expected, "{length}");
    }
}

#[test]
fn who_sends_from_a_port_of_ours_on_another_transport_is_not_us() {
    const PHONE: &str = "203.0.113.1:5070";
    for state in STATES {
        let mut config = Config { state, ..open_config() };
        let address = PHONE.parse().unwrap();
        config.listeners.push(Listener { transport: Transport::Tcp, address });
        let mut rig = Rig::new(config);
        // The phone is on this machine, where another program may use such a port.
        rig.register("bob", &udp(PHONE), &format!("<sip:bob@{PHONE}>"));
        let invite = Draft::invite("sip:bob@example.com");
        assert_eq!(rig.send(&udp(ALICE), &invite).forwarded().flow, udp(PHONE), "{state:?}");
        rig.register("carol", &udp(PHONE), &format!("<sip:carol@{PHONE}>"));
        // The source address is one of the server's own, so it is forged.
        let options = Draft::new("OPTIONS", "sip:example.com");
        assert!(rig.send(&udp(SERVER), &options).is_silent(), "{state:?}");
    }
}

#[test]
fn who_is_on_this_side_of_a_translated_port_answers_to_where_the_request_came_from() {
    for outer in ["192.0.2.77:15060", "192.0.2.77:5060", SERVER] {
        for state in STATES {
            let mut config = Config { state, ..open_config() };
            let listener = config.listeners[0];
            config.advertised.push(Advertised { listener, address: outer.parse().unwrap() });
            let mut rig = Rig::new(config);
            rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
            rig.register("carol", &tcp(BOB, 3), &format!("<sip:carol@{BOB};transport=tcp>"));
            for (user, asks) in [("bob", outer != SERVER), ("carol", false)] {
                let invite = Draft::invite(&format!("sip:{user}@example.com"));
                let forwarded = rig.send(&udp(ALICE), &invite).forwarded().clone();
                let via = forwarded.values(HeaderName::Via)[0].clone();
                assert_eq!(via.contains(";rport;"), asks, "{via}");
                // The response of a phone.
                let filled = ";received=203.0.113.1;rport=5060;branch";
                let answer = crate::rig::text(&forwarded.answer(200, "b", ""));
                let answer = answer.replacen(";rport;branch", filled, 1);
                let back = rig.receive(&forwarded.flow, answer.as_bytes());
                assert_eq!(back.response().flow, udp(ALICE), "{outer} {user} {state:?}");
            }
        }
    }
}

#[test]
fn a_server_behind_a_translated_port_is_called_as_outside() {
    const OUTER: &str = "192.0.2.77:15060";
    let mut config = open_config();
    config.limits.trusted.clear();
    config.authentication.required = true;
    let listener = config.listeners[0];
    config.advertised.push(Advertised { listener, address: OUTER.parse().unwrap() });
    let mut rig = Rig::closed_with(config);
    for host in ["example.com", "192.0.2.77", "203.0.113.1"] {
        let register = Draft::new("REGISTER", &format!("sip:{host}:15060"))
            .with("From", &format!("<sip:bob@{host}:15060>;tag=r"))
            .with("To", &format!("<sip:bob@{host}:15060>"))
            .and("Contact", &format!("<sip:bob@{BOB}>"));
        assert_eq!(rig.send_as("bob", &udp(BOB), &register).status(), 200, "{host}");
    }
    for host in ["example.com:15060", OUTER] {
        let invite = Draft::invite(&format!("sip:bob@{host}"))
            .with("From", &format!("<sip:alice@{host}>;tag=a"))
            .and("Route", &format!("<sip:{OUTER};lr>"))
            .and("Contact", &format!("<sip:alice@{ALICE}>"));
        let forwarded = rig.send_as("alice", &udp(ALICE), &invite).forwarded().clone();
        assert!(forwarded.values(HeaderName::Via)[0].starts_with(&format!("SIP/2.0/UDP {OUTER};")));
        let routes = forwarded.values(HeaderName::RecordRoute);
        assert!(matches!(&routes[..], [route] if route.ends_with(&format!("@{OUTER};lr>"))));
        assert_eq!(forwarded.flow, udp(BOB), "it leaves from where it listens");
        let bye = Draft::new("BYE", &format!("sip:alice@{ALICE}"))
            .with("From", &format!("{};tag=b", forwarded.value(HeaderName::To)))
            .with("To", &forwarded.value(HeaderName::From))
            .with("Call-ID", &forwarded.value(HeaderName::CallId))
            .and("Route", &routes[0]);
        assert_eq!(rig.send(&udp(BOB), &bye).forwarded().flow, udp(ALICE), "{host}");
    }
    // Other hosts behind the same NAT have its address, and are not this machine.
    let neighbour =
        Draft::invite("sip:x@127.0.0.1:6379").with("From", "<sip:alice@example.com>;tag=a");
    let refused = rig.send_as("alice", &udp("192.0.2.77:4000"), &neighbour);
    assert_eq!(refused.responses().last().unwrap().status(), 480);
    let back =
        Draft::invite("sip:x@192.0.2.77:15061").with("From", "<sip:alice@example.com>;tag=a");
    assert_eq!(rig.send_as("alice", &udp(ALICE), &back).forwarded().request_uri(), back.uri);
}
