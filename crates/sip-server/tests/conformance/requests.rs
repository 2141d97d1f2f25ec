//! The checks of every request (RFC 3261 sections 8.2, 16.3 and 18.2), and requests to the server
//! itself.

use crate::rig::{
    ALICE, BOB, Draft, Rig, SERVER, STRANGER, Sent, open_config, serial, tcp, text, udp,
};
use barebell_sip_server::Config;
use barebell_sip_server::config::{Mode, State};
use sip::{Duration, HeaderName, Location, Transport};

/// A server without authentication, with bob registered.
fn with_bob() -> Rig {
    with_bob_in(open_config())
}

fn with_bob_in(config: Config) -> Rig {
    let mut rig = Rig::new(config);
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
    rig
}

#[test]
fn hops_are_counted() {
    for (given, expected) in [
        (Some("70"), Some("69")),
        (Some("1"), Some("0")),
        (Some("255"), Some("254")),
        (None, Some("70")),
        (Some("0"), None),
    ] {
        for state in [State::Stateful, State::Stateless] {
            let mut rig = with_bob_in(Config { state, ..open_config() });
            for method in ["INVITE", "OPTIONS", "MESSAGE"] {
                let draft = Draft::new(method, "sip:bob@example.com").without("Max-Forwards");
                let draft =
                    given.into_iter().fold(draft, |draft, hops| draft.and("Max-Forwards", hops));
                let reaction = rig.send(&udp(ALICE), &draft);
                match expected {
                    Some(left) => {
                        let hops = reaction.forwarded().values(HeaderName::MaxForwards);
                        assert_eq!(hops, [left], "{method} {state:?}");
                    }
                    None => assert_eq!(reaction.status(), 483, "{method} {state:?}"),
                }
            }
        }
    }
}

#[test]
fn a_request_to_the_server_itself_needs_no_further_hop() {
    let options = Draft::new("OPTIONS", "sip:example.com").with("Max-Forwards", "0");
    assert_eq!(Rig::open().send(&udp(ALICE), &options).status(), 200);
}

#[test]
fn extensions_that_a_proxy_must_know_are_refused() {
    let mut rig = with_bob();
    let draft = |method| Draft::new(method, "sip:bob@example.com");
    for method in ["INVITE", "BYE", "OPTIONS"] {
        let requires = draft(method).and("Proxy-Require", "sec-agree, x").and("Proxy-Require", "y");
        let reaction = rig.send(&udp(ALICE), &requires);
        assert_eq!(reaction.status(), 420, "{method}");
        let unsupported = reaction.response().values(HeaderName::Unsupported);
        assert_eq!(unsupported, ["sec-agree", "x", "y"]);
    }
    // An ACK is never rejected (RFC 3261 section 8.2.2.3).
    rig.send(&udp(ALICE), &draft("ACK").and("Proxy-Require", "x")).forwarded();
    // Require concerns only the other end.
    let reaction = rig.send(&udp(ALICE), &draft("INVITE").and("Require", "100rel"));
    assert_eq!(reaction.forwarded().value(HeaderName::Require), "100rel");
}

#[test]
fn schemes_that_lead_nowhere_are_refused() {
    let mut rig = with_bob();
    for uri in [
        "http://www.example.com",
        "mailto:bob@example.com",
        "urn:service:sos",
        "im:bob@example.com",
        "sips:x@192.0.2.5",
        "sips:bob@example.com",
    ] {
        assert_eq!(rig.send(&udp(ALICE), &Draft::new("INVITE", uri)).status(), 416, "{uri}");
    }
}

#[test]
fn transports_that_are_not_ours_are_refused() {
    let mut rig = with_bob();
    for uri in ["sip:x@192.0.2.5;transport=sctp", "sip:x@192.0.2.5;transport=tls"] {
        assert_eq!(rig.send(&udp(ALICE), &Draft::new("INVITE", uri)).status(), 480, "{uri}");
    }
}

#[test]
fn malformed_requests_are_refused_with_what_is_wrong() {
    for (from, to, status, reason) in [
        ("SIP/2.0\r\nVia", "SIP/3.0\r\nVia", 505, "Version Not Supported"),
        ("INVITE sip", "INVITE  sip", 400, "Bad White Space in Request Line"),
        ("CSeq: 1 INVITE\r\n", "", 400, "Missing CSeq"),
        ("Call-ID:", "X-Call-ID:", 400, "Missing Call-ID"),
        ("To: <", "To: \"<", 400, "Bad To"),
        ("CSeq: 1 INVITE", "CSeq: 1 BYE", 400, "CSeq Method Does Not Match"),
        ("INVITE sip", "WHAT sip", 501, "CSeq Method Does Not Match"),
        ("Max-Forwards: 70", "Max-Forwards: many", 400, "Bad Max-Forwards"),
        ("Content-Length: 0", "Content-Length: 1", 400, "Bad Content-Length"),
        (
            "Content-Length: 0\r\n",
            "Content-Length: 0\r\nno field\r\n",
            400,
            "Bad Header Field Line",
        ),
    ] {
        let mut rig = with_bob();
        let good = text(&Draft::new("INVITE", "sip:bob@example.com").bytes(&udp(ALICE)));
        let bad = good.replacen(from, to, 1);
        assert_ne!(good, bad, "{from}");
        let reaction = rig.receive(&udp(ALICE), bad.as_bytes());
        assert_eq!((reaction.status(), &reaction.response().reason()[..]), (status, reason));
        assert_eq!(rig.count("malformed-requests"), 1);
        if let Some(rest) = bad.strip_prefix("INVITE") {
            let ack = format!("ACK{}", rest.replace("1 INVITE", "1 ACK"));
            assert!(rig.receive(&udp(ALICE), ack.as_bytes()).is_silent(), "no answer: {ack}");
        }
    }
}

#[test]
fn what_is_no_message_is_dropped() {
    let mut rig = with_bob();
    for (bytes, dropped) in [
        (&b"\r\n\r\n"[..], 0),
        (b"\0\0\0\0", 1),
        (b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n", 1),
        (b"SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 203.0.113.1;branch=z9hG4bKnone\r\n\r\n", 1),
        (b"SIP/2.0 2000 OK\r\n\r\n", 1),
        (b"", 0),
    ] {
        let before = rig.count("dropped");
        assert!(rig.receive(&udp(ALICE), bytes).is_silent(), "{}", bytes.escape_ascii());
        assert_eq!(rig.count("dropped") - before, dropped, "{}", bytes.escape_ascii());
    }
}

#[test]
fn the_server_answers_for_itself() {
    for (method, expected) in [
        ("OPTIONS", 200),
        ("INVITE", 404),
        ("MESSAGE", 404),
        ("SUBSCRIBE", 404),
        ("BYE", 405),
        ("INFO", 405),
        ("NEWMETHOD", 501),
        ("CANCEL", 481),
    ] {
        for uri in ["sip:example.com", "sip:203.0.113.1:5060", "sip:[2001:db8::10]"] {
            let reaction = Rig::open().send(&udp(ALICE), &Draft::new(method, uri));
            assert_eq!(reaction.status(), expected, "{method} {uri}");
            let response = reaction.response();
            let has_allow = !response.values(HeaderName::Allow).is_empty();
            assert_eq!(has_allow, matches!(expected, 200 | 405 | 501), "{method} {uri}");
            assert!(response.value(HeaderName::To).contains(";tag="));
        }
    }
    assert!(Rig::open().send(&udp(ALICE), &Draft::new("ACK", "sip:example.com")).is_silent());
}

#[test]
fn options_tell_what_the_server_can_do() {
    let options = Draft::new("OPTIONS", "sip:example.com");
    let reaction = Rig::open().send(&udp(STRANGER), &options);
    let response = reaction.response();
    assert!(response.values(HeaderName::Allow).contains(&"INVITE".into()));
    assert_eq!(response.values(HeaderName::Supported), ["path", "outbound"]);
    let requires = options.next().and("Require", "x");
    assert_eq!(Rig::open().send(&udp(STRANGER), &requires).status(), 420);
    let mut registrar = Rig::new(Config { mode: Mode::Registrar, ..open_config() });
    let reaction = registrar.send(&udp(STRANGER), &options.next());
    assert_eq!(reaction.response().values(HeaderName::Allow), ["REGISTER", "OPTIONS"]);
}

#[test]
fn a_registrar_alone_forwards_nothing() {
    let mut rig = with_bob_in(Config { mode: Mode::Registrar, ..open_config() });
    for method in ["INVITE", "OPTIONS", "BYE", "MESSAGE", "NEWMETHOD"] {
        for uri in ["sip:bob@example.com", "sip:x@foreign.example"] {
            let reaction = rig.send(&udp(ALICE), &Draft::new(method, uri));
            assert_eq!(reaction.status(), 405, "{method} {uri}");
            assert_eq!(reaction.response().values(HeaderName::Allow), ["REGISTER", "OPTIONS"]);
        }
    }
    let ack = Draft::new("ACK", "sip:bob@example.com");
    assert!(rig.send(&udp(ALICE), &ack).is_silent());
}

#[test]
fn users_are_not_found_or_not_there() {
    for authentication in [false, true] {
        let mut config = open_config();
        config.authentication.required = authentication;
        let mut rig = Rig::closed_with(config);
        rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
        for (uri, expected) in [
            ("sip:carol@example.com", 480),
            ("sip:nobody@example.com", 404),
            ("sip:BOB@example.com", 404),
            ("sip:bob@example.org", 404),
        ] {
            let invite = Draft::invite(uri).with("From", "<sip:x@foreign.example>;tag=1");
            assert_eq!(rig.send(&udp(STRANGER), &invite).status(), expected, "{uri}");
        }
        for uri in [
            "sip:bob@example.com",
            "sip:%62ob@Example.Com.",
            "sip:bob@203.0.113.1",
            "sip:bob:secret@example.com;x=y",
        ] {
            let invite = Draft::invite(uri).with("From", "<sip:x@foreign.example>;tag=1");
            let reaction = rig.send(&udp(STRANGER), &invite);
            assert_eq!(reaction.forwarded().request_uri(), format!("sip:bob@{BOB}"), "{uri}");
        }
        assert_eq!((rig.count("not-found"), rig.count("unavailable")), (3, 1));
    }
}

#[test]
fn event_state_is_not_kept_here() {
    let publish = Draft::new("PUBLISH", "sip:bob@example.com").and("Event", "presence");
    assert_eq!(with_bob().send(&udp(ALICE), &publish).status(), 489);
}

#[test]
fn a_cancel_without_its_request_is_refused() {
    let mut rig = with_bob();
    for uri in ["sip:bob@example.com", "sip:x@foreign.example", "sip:example.com"] {
        assert_eq!(rig.send(&udp(ALICE), &Draft::new("CANCEL", uri)).status(), 481, "{uri}");
    }
}

#[test]
fn contacts_that_are_users_of_ours_lead_to_their_phones_and_not_back_here() {
    let mut rig = Rig::open();
    rig.register("alice", &udp(ALICE), &format!("<sip:bob@{SERVER}>, <sip:alice@example.com>"));
    rig.register("bob", &udp(BOB), &format!("<sip:alice@{SERVER}>, <sip:carol@example.com>"));
    let call = Draft::invite("sip:alice@example.com");
    let reaction = rig.send(&udp(STRANGER), &call);
    assert_eq!(reaction.responses().next().map(Sent::status), Some(480), "nobody is there");
    rig.register("carol", &udp(BOB), &format!("<sip:carol@{BOB}>"));
    let reaction = rig.send(&udp(STRANGER), &call.next());
    assert_eq!(reaction.forwarded().request_uri(), format!("sip:carol@{BOB}"));
}

#[test]
fn nothing_is_sent_to_this_server_itself() {
    for state in [State::Stateful, State::Stateless] {
        let mut rig = Rig::new(Config { state, ..open_config() });
        let abroad = |uri: &str| Draft::invite("sip:y@foreign.example").and("Route", uri);
        let (_, ticket) = rig.send(&udp(ALICE), &abroad("<sip:y.example;lr>")).wants_location();
        let here = |address: &str| Location {
            transport: Transport::Udp,
            remote: address.parse().unwrap(),
            local: None,
        };
        let reaction = rig.located(ticket, &[here(SERVER)]);
        assert_eq!(reaction.responses().next().map(Sent::status), Some(480));
        let (_, ticket) = rig.send(&udp(ALICE), &abroad("<sip:y.example;lr>")).wants_location();
        let reaction = rig.located(ticket, &[here(SERVER), here("192.0.2.5:5060")]);
        assert_eq!(reaction.forwarded().flow.remote, "192.0.2.5:5060".parse().unwrap());
        assert_eq!(rig.count("unreachable"), 2);
    }
}

/// Another server returns the request each time with another URI.
#[test]
fn a_request_that_comes_back_again_and_again_is_a_loop() {
    let mut rig = Rig::open();
    let there = udp("192.0.2.5:5060");
    let contacts: Vec<_> = (0..10).map(|at| format!("<sip:m@192.0.2.5;a={at}>")).collect();
    rig.register("alice", &there, &contacts.join(", "));
    let mut waiting = vec![Draft::invite("sip:alice@example.com").bytes(&there)];
    let mut sent = 0;
    while let Some(request) = waiting.pop() {
        let reaction = rig.receive(&there, &request);
        for forwarded in reaction.requests() {
            sent += 1;
            assert!(sent < 1000, "it goes on and on");
            let back =
                text(&forwarded.bytes).replacen("sip:m@192.0.2.5", "sip:alice@example.com", 1);
            let via = format!("Via: SIP/2.0/UDP 192.0.2.5;branch=z9hG4bKback{sent}\r\nVia:");
            waiting.push(back.replacen("Via:", &via, 1).into_bytes());
        }
    }
    assert!(rig.count("loops") > 0);
}

#[test]
fn max_breadth_is_no_more_than_this_server_gives() {
    let mut rig = Rig::open();
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
    let asked = |breadth: &str| Draft::invite("sip:bob@example.com").and("Max-Breadth", breadth);
    for (breadth, expected) in [("7", "7"), ("60", "60"), ("4294967295", "60")] {
        let reaction = rig.send(&udp(ALICE), &asked(breadth));
        assert_eq!(reaction.forwarded().value(HeaderName::MaxBreadth), expected);
    }
}

#[test]
fn a_request_may_come_by_again_on_another_way() {
    let mut rig = Rig::open();
    rig.register("alice", &udp(ALICE), "<sip:bob@192.0.2.5>");
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
    let reaction = rig.send(&udp(STRANGER), &Draft::invite("sip:alice@example.com"));
    assert_eq!(reaction.forwarded().request_uri(), "sip:bob@192.0.2.5");
    let back =
        text(&reaction.forwarded().bytes).replace("sip:bob@192.0.2.5", "sip:bob@example.com");
    let spiral = rig.receive(&udp("192.0.2.5:5060"), back.as_bytes());
    assert_eq!(spiral.forwarded().request_uri(), format!("sip:bob@{BOB}"));
}

#[test]
fn what_comes_by_again_goes_to_the_newest_where_it_may_not_go_to_all() {
    let mut rig = Rig::open();
    rig.register("alice", &udp(ALICE), "<sip:bob@192.0.2.5>");
    rig.register("bob", &udp(BOB), "<sip:bob@192.0.2.6>");
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
    let draft = Draft::invite("sip:alice@example.com").and("Max-Breadth", "1");
    let reaction = rig.send(&udp(STRANGER), &draft);
    let back =
        text(&reaction.forwarded().bytes).replace("sip:bob@192.0.2.5", "sip:bob@example.com");
    let spiral = rig.receive(&udp("192.0.2.5:5060"), back.as_bytes());
    assert_eq!(spiral.forwarded().request_uri(), format!("sip:bob@{BOB}"));
}

#[test]
fn responses_go_where_the_via_and_the_source_say() {
    const SOURCE: &str = "198.51.100.10:4000";
    for (via, expected, written) in [
        (
            "198.51.100.10:5070;branch=z9hG4bKa",
            "198.51.100.10:5070",
            "198.51.100.10:5070;branch=z9hG4bKa",
        ),
        ("198.51.100.10;branch=z9hG4bKa", "198.51.100.10:5060", "198.51.100.10;branch=z9hG4bKa"),
        (
            "198.51.100.10:5070;rport;branch=z9hG4bKa",
            SOURCE,
            "198.51.100.10:5070;received=198.51.100.10;rport=4000;branch=z9hG4bKa",
        ),
        (
            "10.0.0.1:5070;branch=z9hG4bKa",
            SOURCE,
            "10.0.0.1:5070;received=198.51.100.10;rport=4000;branch=z9hG4bKa",
        ),
        (
            "phone.example;branch=z9hG4bKa;received=192.0.2.66",
            SOURCE,
            "phone.example;received=198.51.100.10;rport=4000;branch=z9hG4bKa",
        ),
    ] {
        let options = Draft::new("OPTIONS", "sip:example.com")
            .and("Via", &format!("SIP/2.0/UDP {via}"))
            .and("Via", "SIP/2.0/TCP lower.example;branch=z9hG4bKb");
        let reaction = Rig::open().send(&udp(SOURCE), &options);
        let response = reaction.response();
        assert_eq!(response.flow.remote, expected.parse().unwrap(), "{via}");
        let vias = response.values(HeaderName::Via);
        let lower = "SIP/2.0/TCP lower.example;branch=z9hG4bKb";
        assert_eq!(vias, [format!("SIP/2.0/UDP {written}"), lower.into()]);
    }
    let flow = tcp(SOURCE, 9);
    let options = Draft::new("OPTIONS", "sip:example.com")
        .and("Via", "SIP/2.0/TCP 198.51.100.10:5070;branch=z9hG4bKa");
    assert_eq!(Rig::open().send(&flow, &options).response().flow, flow, "on the connection");
}

#[test]
fn the_answer_to_a_repeated_request_is_the_same() {
    let invite = Draft::invite("sip:nobody@example.com");
    let mut rig = Rig::open();
    let first = rig.send(&udp(ALICE), &invite);
    let second = rig.send(&udp(ALICE), &invite);
    assert_eq!(first.response().bytes, second.response().bytes, "with the same tag for To");
}

#[test]
fn a_server_that_shuts_down_takes_no_new_calls() {
    let mut rig = with_bob();
    let invite = Draft::invite("sip:bob@example.com");
    let forwarded = rig.send(&udp(ALICE), &invite).forwarded().clone();
    rig.server.drain();
    let reaction = rig.send(&udp(ALICE), &Draft::invite("sip:bob@example.com"));
    assert_eq!(reaction.status(), 503);
    let seconds = reaction.response().value(HeaderName::RetryAfter);
    assert!(seconds.parse::<u32>().unwrap() > 0);
    let answered = rig.receive(&udp(BOB), &forwarded.answer(200, "bob", ""));
    assert_eq!(answered.status(), 200, "the call that was there goes on");
}

#[test]
fn a_timeout_is_told_of_invites_alone() {
    for (method, expected) in [("INVITE", 1), ("MESSAGE", 0), ("OPTIONS", 0)] {
        let mut rig = with_bob();
        let reaction = rig.send(&udp(ALICE), &Draft::new(method, "sip:bob@example.com"));
        let answer = reaction.forwarded().answer(408, "bob", "");
        let back = rig.receive(&udp(BOB), &answer);
        assert_eq!(back.responses().count(), expected, "{method}");
        // The client has timed out (RFC 4320 section 4.2).
        let mut rig = with_bob();
        rig.send(&udp(ALICE), &Draft::new(method, "sip:bob@example.com")).forwarded();
        let later = rig.wait(Duration::from_secs(33));
        let statuses: Vec<_> = later.responses().map(|sent| sent.status()).collect();
        assert_eq!(statuses, vec![408; expected], "{method}");
    }
}

#[test]
fn a_semicolon_too_many_and_an_empty_rport_are_read() {
    let mut rig = Rig::open();
    let via = format!("SIP/2.0/UDP {ALICE};rport=;branch=z9hG4bK{};", serial());
    let draft = Draft::register("alice")
        .with("Via", &via)
        .with("To", "<sip:alice@example.com>;")
        .and("Contact", "<sip:alice@198.51.100.10:5060;transport=udp;>;");
    let reaction = rig.send(&udp(ALICE), &draft);
    assert_eq!(reaction.status(), 200);
    let answer = reaction.response();
    let vias = answer.values(HeaderName::Via);
    assert!(vias[0].contains(";rport=5060") && !vias[0].contains(";;"), "{vias:?}");
    let to = answer.value(HeaderName::To);
    assert!(to.starts_with("<sip:alice@example.com>;tag="), "{to}");
    let uri = "sip:alice@198.51.100.10:5060;transport=udp;";
    assert_eq!(answer.values(HeaderName::Contact), [format!("<{uri}>;expires=3600")]);
    let invite = rig.send(&udp(BOB), &Draft::invite("sip:alice@example.com")).forwarded().clone();
    assert_eq!(invite.request_uri(), uri);
    let without = Draft::register("alice").and("Contact", &format!("<{}>", &uri[..uri.len() - 1]));
    assert_eq!(rig.send(&udp(ALICE), &without).status(), 200);
    assert_eq!(rig.contacts("alice@example.com").len(), 1, "it is the same contact");
}
