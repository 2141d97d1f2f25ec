//! RFC 2543 routers before and after the server (RFC 3261 sections 16.4, 16.6 and 16.12).

use crate::rig::{ALICE, BOB, Draft, Rig, open_config, tcp, udp};
use barebell_sip_server::Config;
use barebell_sip_server::config::State;
use sip::HeaderName;

const NEXT: &str = "192.0.2.5:5060";

fn rigs() -> [Rig; 2] {
    [State::Stateful, State::Stateless].map(|state| Rig::new(Config { state, ..open_config() }))
}

#[test]
fn the_way_that_a_route_names_is_gone() {
    for (routes, uri, next_uri, left) in [
        (
            &["<sip:192.0.2.5;lr>"][..],
            "sip:y@foreign.example",
            "sip:y@foreign.example",
            &["<sip:192.0.2.5;lr>"][..],
        ),
        (
            &["<sip:203.0.113.1;lr>, <sip:192.0.2.5;lr>", "<sip:third.example;lr>"],
            "sip:y@foreign.example",
            "sip:y@foreign.example",
            &["<sip:192.0.2.5;lr>", "<sip:third.example;lr>"],
        ),
        (
            &[
                "<sip:example.com:5060;lr>",
                "<sip:203.0.113.1;transport=tcp;lr>",
                "\"x\" <sip:192.0.2.5;lr=on;y>;z",
            ],
            "sip:y@foreign.example;a=b",
            "sip:y@foreign.example;a=b",
            &["\"x\" <sip:192.0.2.5;lr=on;y>;z"],
        ),
        // The next element is a strict router.
        (
            &["<sip:192.0.2.5>"],
            "sip:y@foreign.example",
            "sip:192.0.2.5",
            &["<sip:y@foreign.example>"],
        ),
        (
            &["<sip:203.0.113.1;lr>, <sip:x@192.0.2.5;a=b>, <sip:third.example;lr>"],
            "sip:y@foreign.example;c=d",
            "sip:x@192.0.2.5;a=b",
            &["<sip:third.example;lr>", "<sip:y@foreign.example;c=d>"],
        ),
        (&["<sip:203.0.113.1;lr>"], "sip:y@192.0.2.5", "sip:y@192.0.2.5", &[]),
        // The server is a strict router to a previous element that does not know `lr`.
        (&["<sip:203.0.113.1>"], "sip:y@192.0.2.5", "sip:y@192.0.2.5", &[]),
    ] {
        for mut rig in rigs() {
            for method in ["INVITE", "BYE", "MESSAGE", "ACK"] {
                let draft = routes
                    .iter()
                    .fold(Draft::new(method, uri), |draft, route| draft.and("Route", route));
                let reaction = rig.send(&udp(ALICE), &draft);
                let forwarded = reaction.forwarded();
                assert_eq!(forwarded.flow.remote, NEXT.parse().unwrap(), "{method} {routes:?}");
                assert_eq!(forwarded.request_uri(), next_uri, "{method} {routes:?}");
                assert_eq!(forwarded.values(HeaderName::Route), left, "{method} {routes:?}");
            }
        }
    }
}

#[test]
fn routes_to_us_lead_to_our_users() {
    for mut rig in rigs() {
        rig.register("bob", &tcp(BOB, 3), &format!("<sip:bob@{BOB}>"));
        let draft = Draft::invite("sip:bob@example.com").and("Route", "<sip:example.com;lr>");
        let reaction = rig.send(&udp(ALICE), &draft);
        assert_eq!(reaction.forwarded().flow, tcp(BOB, 3));
        assert_eq!(reaction.forwarded().values(HeaderName::Route), [""; 0]);
    }
}

#[test]
fn what_a_strict_router_did_is_undone() {
    for mut rig in rigs() {
        rig.register("bob", &tcp(BOB, 3), &format!("<sip:bob@{BOB}>"));
        let forwarded =
            rig.send(&udp(ALICE), &Draft::invite("sip:bob@example.com")).forwarded().clone();
        // Bob is behind a proxy that stays in the dialog.
        let routes: String = forwarded
            .values(HeaderName::RecordRoute)
            .iter()
            .map(|route| format!("Record-Route: {route}\r\n"))
            .collect();
        let answer = |third: &str| {
            let contact = format!("Contact: <sip:bob@{BOB}>\r\n");
            forwarded.answer(200, "bob-tag", &format!("{third}{routes}{contact}"))
        };
        let mut token_of = |third: &str| {
            let answered = rig.receive(&forwarded.flow, &answer(third)).response().clone();
            let routes = answered.values(HeaderName::RecordRoute);
            let [.., callee_side, caller_side] = &routes[..] else {
                panic!("two Record-Routes: {answered:?}")
            };
            (callee_side.clone(), caller_side.trim_matches(['<', '>']).to_owned())
        };
        let third = "Record-Route: <sip:third.example;lr>\r\n";
        let ((callee_side, own_uri), (callee_side_third, own_uri_third)) =
            (token_of(""), token_of(third));
        // The previous element has put the server's own URI in the request line, and the request
        // URI at the end of the routes.
        for (own_uri, routes, left) in [
            (&own_uri, vec![format!("<sip:bob@{BOB};x=y>")], &[][..]),
            (&own_uri, vec![callee_side, format!("<sip:bob@{BOB};x=y>")], &[]),
            (
                &own_uri_third,
                vec![
                    callee_side_third,
                    "<sip:third.example;lr>".into(),
                    format!("<sip:bob@{BOB};x=y>"),
                ],
                &["<sip:third.example;lr>"],
            ),
        ] {
            let bye = Draft::new("BYE", own_uri)
                .with("To", "<sip:bob@example.com>;tag=bob-tag")
                .with("Call-ID", &forwarded.value(HeaderName::CallId))
                .and("Route", &routes.join(", "));
            let reaction = rig.send(&udp(ALICE), &bye);
            assert_eq!(reaction.forwarded().flow, tcp(BOB, 3));
            assert_eq!(reaction.forwarded().request_uri(), format!("sip:bob@{BOB};x=y"));
            assert_eq!(reaction.forwarded().values(HeaderName::Route), left);
        }
    }
}

#[test]
fn a_route_that_leads_nowhere_is_refused() {
    for (route, expected) in [
        ("<tel:+123>", 416),
        ("<http://example.com>", 416),
        ("not a route", 416),
        ("<sips:192.0.2.5;lr>", 480),
        ("<sip:192.0.2.5;transport=sctp;lr>", 480),
    ] {
        for mut rig in rigs() {
            let draft = Draft::invite("sip:y@foreign.example").and("Route", route);
            assert_eq!(rig.send(&udp(ALICE), &draft).status(), expected, "{route}");
        }
    }
}
