//! A token in Record-Route authorizes requests to the other end of one dialog, and to no other
//! destination.

use crate::dialog::{Call, NAT, answer, configs};
use crate::rig::{ALICE, BOB, Draft, Rig, STRANGER, Sent, closed_config, tcp, text, udp};
use barebell_sip_server::config::State;
use barebell_sip_server::{Config, Event, Flow};
use sip::{Duration, HeaderName};

const STATES: [State; 2] = [State::Stateful, State::Stateless];
/// The address at which bob's phone receives requests. It sends from another one.
const PHONE: &str = "sip:bob@198.51.100.21";
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A stranger's call that rings at bob, with the Route that the stranger gets.
struct Ringing {
    rig: Rig,
    invite: Draft,
    forwarded: Sent,
    route: String,
}

impl Ringing {
    fn new(state: State) -> Self {
        let mut rig = Rig::closed_with(Config { state, ..closed_config() });
        rig.register("bob", &udp(BOB), &format!("<{PHONE}>"));
        rig.register("alice", &udp(ALICE), &format!("<sip:alice@{ALICE}>"));
        let invite = Draft::invite("sip:bob@example.com")
            .with("From", "<sip:x@foreign.example>;tag=x-tag")
            .with("Contact", &format!("<sip:x@{STRANGER}>"));
        let forwarded = rig.send(&udp(STRANGER), &invite).forwarded().clone();
        let ringing = answer(&mut rig, &forwarded, 180, PHONE);
        let route = ringing.values(HeaderName::RecordRoute).pop().unwrap();
        Self { rig, invite, forwarded, route }
    }

    /// A request of the stranger within the early dialog.
    fn within(&self, method: &str) -> Draft {
        self.invite
            .next()
            .with_method(method)
            .with("To", "<sip:bob@example.com>;tag=bob-tag")
            .with_uri(PHONE)
            .and("Route", &self.route)
    }

    /// The status of the response to `draft`, if any, and true if the request was forwarded.
    fn fate(&mut self, draft: &Draft) -> (Option<u16>, bool) {
        let reaction = self.rig.send(&udp(STRANGER), draft);
        let status = reaction.responses().next().map(Sent::status);
        let is_notice = |event: &Event| matches!(event, Event::Notice(_));
        let goes_on = reaction.requests().next().is_some();
        (status, goes_on || !reaction.events.iter().all(is_notice))
    }
}

#[test]
fn a_ringing_call_is_no_licence_to_relay() {
    for state in STATES {
        let mut call = Ringing::new(state);
        let to_bob = call.within("UPDATE");
        assert_eq!(call.fate(&to_bob), (None, true), "{state:?}");
        let abroad = "sip:00900123@192.0.2.7";
        let within = |method: &str| call.within(method).next();
        let cases = [
            ("another place", within("INVITE").with_uri(abroad), 403),
            ("another place, a message", within("MESSAGE").with_uri(abroad), 403),
            ("the end of a call abroad", within("BYE").with_uri(abroad), 403),
            ("another user at that place", within("INFO").with_uri("sip:b@198.51.100.21"), 403),
            ("another port", within("INFO").with_uri("sip:bob@198.51.100.21:22"), 403),
            ("a further route", within("OPTIONS").and("Route", "<sip:192.0.2.7;lr>"), 403),
            (
                "outside of a dialog",
                within("INVITE").with_uri(abroad).with("To", "<sip:b@b.b>"),
                403,
            ),
            ("another dialog", within("INFO").with_uri(abroad).with("Call-ID", "other"), 403),
            ("a registrar", within("REGISTER").with_uri("sip:192.0.2.7"), 403),
            (
                "a name of ours",
                within("UPDATE").with("From", "<sip:alice@example.com>;tag=x-tag"),
                407,
            ),
            (
                "the callee's name",
                within("UPDATE").with("From", "<sip:bob@example.com>;tag=x-tag"),
                407,
            ),
            (
                "another tag",
                within("UPDATE").with("To", "<sip:bob@example.com>;tag=carol-tag"),
                403,
            ),
        ];
        for (what, draft, expected) in cases {
            assert_eq!(call.fate(&draft), (Some(expected), false), "{what} {state:?}");
            // An ACK begins nothing, and cannot be challenged.
            let goes_on = expected == 407;
            let ack = draft.with_method("ACK");
            assert_eq!(call.fate(&ack), (None, goes_on), "ACK to {what} {state:?}");
        }
        let publish = call.within("PUBLISH");
        assert_eq!(call.fate(&publish), (Some(403), false), "{state:?}");
    }
}

#[test]
fn what_ringing_proves_ends_with_the_invite() {
    let mut call = Ringing::new(State::Stateful);
    let busy = call.forwarded.answer(486, "bob-tag", "");
    call.rig.receive(&call.forwarded.flow.clone(), &busy);
    let update = call.within("UPDATE");
    assert_eq!(call.fate(&update), (Some(403), false));
    // In stateless mode the token is valid for an hour.
    let mut call = Ringing::new(State::Stateless);
    let update = call.within("UPDATE");
    call.rig.wait(Duration::from_secs(3600));
    assert_eq!(call.fate(&update), (None, true));
    call.rig.wait(Duration::from_secs(1));
    assert_eq!(call.fate(&update.next()), (Some(403), false));
}

#[test]
fn what_ringing_proved_holds_on_where_the_call_was_answered() {
    // Some phones keep the route set of the 180.
    for state in STATES {
        let mut call = Ringing::new(state);
        answer(&mut call.rig, &call.forwarded.clone(), 200, PHONE);
        call.rig.wait(Duration::from_secs(7200));
        let update = call.within("UPDATE");
        assert_eq!(call.fate(&update), (None, true), "{state:?}");
    }
}

/// As in Twinkle.
#[test]
fn a_token_is_known_also_where_its_letters_are_escaped() {
    let escaped = |route: &str| {
        let user = route.split(['@', ':']).nth(1).unwrap();
        let letters: String = user.bytes().map(|byte| format!("%{byte:02x}")).collect();
        route.replacen(user, &letters, 1)
    };
    for config in configs() {
        let mut call = Call::new(config, tcp(BOB, 5));
        for routes in [&mut call.alice_routes, &mut call.bob_routes] {
            routes.iter_mut().for_each(|route| *route = escaped(route));
        }
        let (alice, bob) = (call.alice, call.bob);
        for method in ["ACK", "INVITE", "BYE"] {
            let draft = call.by_alice(method);
            assert_eq!(call.rig.send(&alice, &draft).forwarded().flow, bob, "{method}");
            let draft = call.by_bob(method).next();
            assert_eq!(call.rig.send(&bob, &draft).forwarded().flow, alice, "{method}");
        }
    }
    // The same applies to a response of the answerer.
    for state in STATES {
        let mut rig = Rig::closed_with(Config { state, ..closed_config() });
        rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
        let invite = Draft::invite("sip:bob@example.com")
            .with("From", "<sip:x@foreign.example>;tag=x-tag")
            .with("Contact", &format!("<sip:x@{STRANGER}>"));
        let forwarded = rig.send(&udp(STRANGER), &invite).forwarded().clone();
        let route = escaped(&forwarded.values(HeaderName::RecordRoute)[0]);
        let fields = format!("Record-Route: {route}\r\nContact: <sip:bob@{BOB}>\r\n");
        let answered = rig.receive(&udp(BOB), &forwarded.answer(200, "bob-tag", &fields));
        let route = answered.response().values(HeaderName::RecordRoute).pop().unwrap();
        let bye = invite
            .next()
            .with_method("BYE")
            .with("To", "<sip:bob@example.com>;tag=bob-tag")
            .with_uri(&format!("sip:bob@{BOB}"))
            .and("Route", &route);
        assert_eq!(rig.send(&udp(STRANGER), &bye).forwarded().flow, udp(BOB), "{state:?}");
    }
}

/// As behind a session border controller, which sends another Contact in the 2xx.
#[test]
fn what_ringing_proved_leads_to_where_the_answer_says() {
    let mut call = Ringing::new(State::Stateful);
    let moved = "sip:bob@198.51.100.29";
    answer(&mut call.rig, &call.forwarded.clone(), 200, moved);
    for method in ["ACK", "INFO", "BYE"] {
        let draft = call.within(method).next().with_uri(moved);
        assert_eq!(call.fate(&draft), (None, true), "{method}");
    }
    let elsewhere = call.within("INFO").with_uri("sip:bob@198.51.100.30");
    assert_eq!(call.fate(&elsewhere), (Some(403), false));
}

#[test]
fn a_long_silent_call_can_be_ended_and_no_more() {
    for config in configs() {
        let is_closed = config.authentication.required;
        let mut call = Call::new(config, tcp(BOB, 5));
        let refused = |rig: &mut Rig, flow: &Flow, draft: &Draft| {
            let reaction = rig.send(flow, draft);
            if is_closed {
                assert!(matches!(reaction.status(), 403 | 407));
            }
        };
        call.rig.wait(DAY);
        let (alice, bob) = (call.alice, call.bob);
        let info = call.by_alice("INFO");
        assert_eq!(call.rig.send(&alice, &info).forwarded().flow, bob);
        call.rig.wait(Duration::from_secs(1));
        for method in ["INVITE", "INFO", "UPDATE"] {
            let draft = call.by_alice(method).next();
            refused(&mut call.rig, &alice, &draft);
            let draft = call.by_bob(method).next();
            refused(&mut call.rig, &bob, &draft);
        }
        let (bye, ack) = (call.by_alice("BYE"), call.by_alice("ACK"));
        assert_eq!(call.rig.send(&alice, &bye).forwarded().flow, bob);
        assert_eq!(call.rig.send(&alice, &ack).forwarded().flow, bob);
        let bye = call.by_bob("BYE");
        assert_eq!(call.rig.send(&bob, &bye).forwarded().flow, alice);
        let over = call.by_bob("NOTIFY").and("Subscription-State", "Terminated;reason=timeout");
        assert_eq!(call.rig.send(&bob, &over).forwarded().flow, alice);
        let active = call.by_bob("NOTIFY").next().and("Subscription-State", "active");
        refused(&mut call.rig, &bob, &active);
        // A request that ends the call does not go to another destination either.
        if is_closed {
            let abroad = call.by_bob("BYE").next().with_uri("sip:y@192.0.2.7");
            refused(&mut call.rig, &bob, &abroad);
        }
    }
}

#[test]
fn a_call_that_is_refreshed_goes_on() {
    for config in configs() {
        let mut call = Call::new(config, tcp(BOB, 5));
        let (alice, bob) = (call.alice, call.bob);
        for cseq in 30..34 {
            call.rig.wait(Duration::from_secs(20 * 3600));
            let contact = "<sip:alice@192.168.1.5:5060>";
            let refresh = call.by_alice("UPDATE").with_cseq(cseq).next().and("Contact", contact);
            let forwarded = call.rig.send(&alice, &refresh).forwarded().clone();
            assert_eq!(forwarded.flow, bob);
            answer(&mut call.rig, &forwarded, 200, &call.bob_contact.clone());
        }
        call.rig.wait(Duration::from_secs(20 * 3600));
        let info = call.by_bob("INFO");
        assert_eq!(call.rig.send(&bob, &info).forwarded().flow, alice);
    }
}

#[test]
fn an_end_that_moves_is_found_where_it_says_it_is_once_the_other_has_agreed() {
    for config in configs() {
        let mut call = Call::new(config, tcp(BOB, 5));
        let bob = call.bob;
        let moved = udp("203.0.113.200:5061");
        let reinvite = call
            .by_alice("INVITE")
            .with("Via", "SIP/2.0/UDP 203.0.113.200:5061;branch=z9hG4bKmoved")
            .and("Contact", "<sip:alice@203.0.113.200:5061>");
        let forwarded = call.rig.send(&moved, &reinvite).forwarded().clone();
        assert_eq!(forwarded.flow, bob);
        // A NOTIFY may come before the response, and goes to the new target.
        let before = call.by_bob("NOTIFY").with_uri("sip:alice@203.0.113.200:5061");
        assert_eq!(call.rig.send(&bob, &before).forwarded().flow.remote, moved.remote);
        answer(&mut call.rig, &forwarded, 200, &call.bob_contact.clone());
        let to_new = call.by_bob("INFO").next().with_uri("sip:alice@203.0.113.200:5061");
        assert_eq!(call.rig.send(&bob, &to_new).forwarded().flow.remote, moved.remote);
    }
}

#[test]
fn the_answerer_moves_with_its_answer() {
    for state in STATES {
        let mut rig = Rig::closed_with(Config { state, ..closed_config() });
        rig.register("bob", &udp(BOB), "<sip:bob@198.51.100.21>");
        let invite = Draft::invite("sip:bob@example.com");
        let asked = rig.send(&udp(ALICE), &invite).response().clone();
        let invite = invite.next().answering(&asked, "alice", "alice");
        let forwarded = rig.send(&udp(ALICE), &invite).forwarded().clone();
        let answered = answer(&mut rig, &forwarded, 200, "sip:bob@198.51.100.21");
        let route = answered.values(HeaderName::RecordRoute).pop().unwrap();
        let within = |method: &str, uri: &str| {
            invite
                .next()
                .with_method(method)
                .without("Proxy-Authorization")
                .with("To", "<sip:bob@example.com>;tag=bob-tag")
                .with_uri(uri)
                .and("Route", &route)
        };
        let reinvite = within("INVITE", "sip:bob@198.51.100.21");
        let forwarded = rig.send(&udp(ALICE), &reinvite).forwarded().clone();
        answer(&mut rig, &forwarded, 200, "sip:bob@198.51.100.22");
        let bye = within("BYE", "sip:bob@198.51.100.22");
        let forwarded = rig.send(&udp(ALICE), &bye).forwarded().clone();
        assert_eq!(forwarded.flow.remote, "198.51.100.22:5060".parse().unwrap(), "{state:?}");
    }
}

#[test]
fn another_name_than_that_of_the_dialog_needs_credentials() {
    // RFC 4916: the call was transferred, and the phone names the new party.
    let mut call = Call::new(closed_config(), tcp(BOB, 5));
    let (alice, bob) = (call.alice, call.bob);
    let as_carol =
        |draft: Draft, tag: &str| draft.with("From", &format!("<sip:carol@example.com>;tag={tag}"));
    let update = as_carol(call.by_alice("UPDATE"), "alice-tag");
    let asked = call.rig.send(&alice, &update).response().clone();
    assert_eq!(asked.status(), 407);
    let proved = update.next().answering(&asked, "carol", "carol");
    let proved = proved.with("Via", "SIP/2.0/UDP 192.168.1.5:5060;rport;branch=z9hG4bKproved");
    assert_eq!(call.rig.send(&alice, &proved).forwarded().flow, bob);
    let update = as_carol(call.by_bob("UPDATE"), "bob-tag");
    assert_eq!(call.rig.send(&bob, &update).status(), 407);
    let as_himself = call.by_bob("UPDATE").next();
    assert_eq!(call.rig.send(&bob, &as_himself).forwarded().flow, alice);
    // An ACK cannot be challenged.
    let ack = as_carol(call.by_alice("ACK"), "alice-tag");
    assert_eq!(call.rig.send(&alice, &ack).forwarded().flow, bob);
}

#[test]
fn proxies_that_stay_in_the_dialog_stand_in_the_way_there_and_no_others_do() {
    for state in STATES {
        let mut rig = Rig::closed_with(Config { state, ..closed_config() });
        rig.register("bob", &tcp(BOB, 5), &format!("<sip:bob@{BOB};transport=tcp>"));
        // A proxy before this server has recorded its route.
        let edge = udp("192.0.2.50:5060");
        let vias =
            "SIP/2.0/UDP 192.0.2.50;branch=z9hG4bKedge, SIP/2.0/UDP 192.0.2.60;branch=z9hG4bKx";
        let invite = Draft::invite("sip:bob@example.com")
            .with("From", "<sip:x@foreign.example>;tag=x-tag")
            .and("Via", vias)
            .with("Contact", "<sip:x@192.0.2.60>")
            .and("Record-Route", "<sip:edge1@192.0.2.50;lr>, <sip:192.0.2.51;lr>");
        let forwarded = rig.send(&edge, &invite).forwarded().clone();
        let routes = forwarded.values(HeaderName::RecordRoute);
        let bye = |routes: &str| {
            Draft::new("BYE", "sip:x@192.0.2.60")
                .with("From", "<sip:bob@example.com>;tag=bob-tag")
                .with("To", "<sip:x@foreign.example>;tag=x-tag")
                .with("Call-ID", &forwarded.value(HeaderName::CallId))
                .and("Route", routes)
        };
        let own: Vec<_> = routes.iter().take(routes.len() - 2).cloned().collect();
        let own = own.join(", ");
        for (wrong, what) in [
            (own.clone(), "none"),
            (format!("{own}, <sip:edge1@192.0.2.50;lr>"), "one left out"),
            (format!("{own}, <sip:192.0.2.51;lr>, <sip:edge1@192.0.2.50;lr>"), "another order"),
            (format!("{own}, <sip:edge1@192.0.2.99;lr>, <sip:192.0.2.51;lr>"), "another place"),
        ] {
            let reaction = rig.send(&tcp(BOB, 5), &bye(&wrong));
            assert_eq!(reaction.status(), 407, "{what} {state:?}");
        }
        let passed = rig.send(&tcp(BOB, 5), &bye(&routes.join(", ")));
        assert_eq!(passed.forwarded().flow.remote, edge.remote);
        assert_eq!(passed.forwarded().values(HeaderName::Route).len(), 2);
    }
}

#[test]
fn a_notifier_is_found_by_the_subscriber_that_hears_of_it_first() {
    for state in STATES {
        let mut config = Config { state, ..closed_config() };
        config.limits.foreign_methods.push("SUBSCRIBE".into());
        let mut rig = Rig::closed_with(config);
        rig.register("bob", &tcp(BOB, 5), &format!("<sip:bob@{BOB};transport=tcp>"));
        let subscribe = Draft::new("SUBSCRIBE", "sip:bob@example.com")
            .with("From", "<sip:x@foreign.example>;tag=x-tag")
            .and("Contact", &format!("<sip:x@{STRANGER}>"));
        let forwarded = rig.send(&udp(STRANGER), &subscribe).forwarded().clone();
        let notify = Draft::new("NOTIFY", &format!("sip:x@{STRANGER}"))
            .with("From", "<sip:bob@example.com>;tag=bob-tag")
            .with("To", "<sip:x@foreign.example>;tag=x-tag")
            .with("Call-ID", &forwarded.value(HeaderName::CallId))
            .and("Contact", &format!("<sip:bob@{BOB};transport=tcp>"))
            .and("Subscription-State", "active")
            .and("Route", &forwarded.values(HeaderName::RecordRoute).join(", "));
        let notified = rig.send(&tcp(BOB, 5), &notify).forwarded().clone();
        assert_eq!(notified.flow.remote, STRANGER.parse().unwrap());
        let refresh = subscribe
            .next()
            .with_uri(&format!("sip:bob@{BOB};transport=tcp"))
            .with("To", "<sip:bob@example.com>;tag=bob-tag")
            .and("Route", &notified.values(HeaderName::RecordRoute).join(", "));
        assert_eq!(rig.send(&udp(STRANGER), &refresh).forwarded().flow, tcp(BOB, 5), "{state:?}");
        // With a followed flow, only the user part of the target counts.
        let elsewhere = refresh.next().with_uri("sip:bob@192.0.2.7");
        assert_eq!(rig.send(&udp(STRANGER), &elsewhere).forwarded().flow, tcp(BOB, 5));
        let elsewhere = refresh.next().with_uri("sip:00900123@192.0.2.7");
        assert_eq!(rig.send(&udp(STRANGER), &elsewhere).status(), 403, "{state:?}");
    }
}

/// The NOTIFY may come before the 200. In that case the subscriber gets the token from it.
#[test]
fn a_subscriber_of_ours_needs_no_password_to_go_on() {
    for state in STATES {
        let mut rig = Rig::closed_with(Config { state, ..closed_config() });
        rig.register("bob", &tcp(BOB, 5), &format!("<sip:bob@{BOB};transport=tcp>"));
        let subscribe = Draft::new("SUBSCRIBE", "sip:bob@example.com")
            .and("Contact", &format!("<sip:alice@{ALICE}>"));
        let forwarded = rig.send_as("alice", &udp(ALICE), &subscribe).forwarded().clone();
        let notify = Draft::new("NOTIFY", &format!("sip:alice@{ALICE}"))
            .with("From", "<sip:bob@example.com>;tag=bob-tag")
            .with("To", "<sip:alice@example.com>;tag=alice-tag")
            .with("Call-ID", &forwarded.value(HeaderName::CallId))
            .and("Contact", &format!("<sip:bob@{BOB};transport=tcp>"))
            .and("Route", &forwarded.values(HeaderName::RecordRoute).join(", "));
        let notified = rig.send(&tcp(BOB, 5), &notify).forwarded().clone();
        let refresh = Draft::new("SUBSCRIBE", &format!("sip:bob@{BOB};transport=tcp"))
            .with("To", "<sip:bob@example.com>;tag=bob-tag")
            .with("Call-ID", &forwarded.value(HeaderName::CallId))
            .with_cseq(9)
            .and("Route", &notified.values(HeaderName::RecordRoute).join(", "));
        assert_eq!(rig.send(&udp(ALICE), &refresh).forwarded().flow, tcp(BOB, 5), "{state:?}");
    }
}

#[test]
fn requests_within_a_dialog_are_limited() {
    let mut call = Call::new(closed_config(), tcp(BOB, 5));
    let alice = call.alice;
    let mut passed = 0;
    for cseq in 0..500 {
        let info = call.by_alice("INFO").with_cseq(cseq);
        passed += usize::from(call.rig.send(&alice, &info).requests().next().is_some());
    }
    assert_eq!(passed, 100);
    assert_eq!(call.rig.count("rate-limited"), 400);
    // The other direction is not blocked, and other tags give no further allowance.
    let (bob, info) = (call.bob, call.by_bob("INFO"));
    assert_eq!(call.rig.send(&bob, &info).forwarded().flow, alice);
    let bye = call.by_alice("BYE");
    assert_eq!(call.rig.send(&alice, &bye).forwarded().flow, bob);
    let others = (0..500).map(|tag| {
        let from = format!("<sip:bob@example.com>;tag=other-{tag}");
        call.by_bob("INFO").with("From", &from).next()
    });
    let others: Vec<_> = others.collect();
    let passed = others
        .iter()
        .filter(|draft| call.rig.send(&bob, draft).requests().next().is_some())
        .count();
    assert!(passed <= 100, "{passed}");
}

/// The sender chooses To, so it is no evidence for the name of the callee.
#[test]
fn nobody_gets_a_name_by_being_called_with_it() {
    for state in STATES {
        for (uri, expected) in [("sip:bob@example.com", 407), ("sip:mallory@192.0.2.7", 407)] {
            let mut rig = Rig::closed_with(Config { state, ..closed_config() });
            rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
            let call = Draft::invite(uri).with("To", "<sip:carol@example.com>");
            let forwarded = rig.send_as("alice", &udp(ALICE), &call).forwarded().clone();
            let update = Draft::new("UPDATE", &format!("sip:alice@{ALICE}"))
                .with("From", "<sip:carol@example.com>;tag=bob-tag")
                .with("To", "<sip:alice@example.com>;tag=alice-tag")
                .with("Call-ID", &forwarded.value(HeaderName::CallId))
                .and("Route", &forwarded.values(HeaderName::RecordRoute).join(", "));
            let reaction = rig.send(&forwarded.flow, &update);
            assert_eq!(reaction.status(), expected, "{uri} {state:?}");
        }
    }
}

/// Some phones copy Record-Route into every response.
#[test]
fn the_answerer_s_token_is_for_nobody_else() {
    for state in STATES {
        for (status, tag) in [(486, "bob-tag"), (302, "bob-tag"), (481, "bob-tag"), (180, "")] {
            let mut rig = Rig::closed_with(Config { state, ..closed_config() });
            rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
            let call = Draft::invite("sip:bob@example.com")
                .with("From", "<sip:x@foreign.example>;tag=x-tag");
            let forwarded = rig.send(&udp(STRANGER), &call).forwarded().clone();
            let routes = forwarded.values(HeaderName::RecordRoute).join(", ");
            let fields = format!("Record-Route: {routes}\r\n");
            let mut answer = String::from_utf8(forwarded.answer(status, "TAG", &fields)).unwrap();
            let written = if tag.is_empty() { String::new() } else { format!(";tag={tag}") };
            answer = answer.replace(";tag=TAG", &written);
            let reaction = rig.receive(&udp(BOB), answer.as_bytes());
            let response = reaction.responses().next().unwrap();
            assert_eq!(response.status(), status);
            assert_eq!(response.values(HeaderName::RecordRoute), [""; 0], "{status} {state:?}");
        }
    }
}

#[test]
fn a_callee_with_the_caller_s_tag_has_no_dialog() {
    for state in STATES {
        let mut rig = Rig::closed_with(Config { state, ..closed_config() });
        let call = Draft::invite("sip:y@192.0.2.5");
        let forwarded = rig.send_as("alice", &udp(ALICE), &call).forwarded().clone();
        let mine = Draft::new("UPDATE", &format!("sip:alice@{ALICE}"))
            .with("From", "<sip:y@foreign.example>;tag=alice-tag")
            .with("To", "<sip:alice@example.com>;tag=alice-tag")
            .with("Call-ID", &forwarded.value(HeaderName::CallId))
            .and("Route", &forwarded.values(HeaderName::RecordRoute).join(", "))
            .and("Contact", "<sip:00900123@192.0.2.7>");
        assert_eq!(rig.send(&udp("192.0.2.5:5060"), &mine).status(), 403, "{state:?}");
    }
}

/// A callee answers a request with the Call-ID and tags of another dialog, or with another CSeq.
#[test]
fn a_response_speaks_of_its_own_request_alone() {
    for state in STATES {
        let mut rig = Rig::closed_with(Config { state, ..closed_config() });
        rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
        let call = Draft::invite("sip:bob@example.com")
            .with("From", "<sip:x@foreign.example>;tag=x-tag")
            .with("Call-ID", "this-call");
        let forwarded = rig.send(&udp(STRANGER), &call).forwarded().clone();
        let answer = text(&forwarded.answer(200, "bob-tag", ""));
        for (what, other) in
            [("this-call", "that-call"), ("x-tag", "y-tag"), ("CSeq: 1 ", "CSeq: 2 ")]
        {
            assert!(answer.contains(what));
            let other = answer.replace(what, other);
            assert!(rig.receive(&udp(BOB), other.as_bytes()).is_silent(), "{what} {state:?}");
        }
        assert_eq!(rig.count("dropped"), 3);
        assert_eq!(rig.receive(&udp(BOB), answer.as_bytes()).status(), 200);
    }
}

#[test]
fn who_is_called_answers_for_nobody_else() {
    let mut rig = Rig::open();
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>, <sip:bob@198.51.100.30>"));
    let reaction = rig.send(&udp(ALICE), &Draft::invite("sip:bob@example.com"));
    let [one, other] = &reaction.requests().cloned().collect::<Vec<_>>()[..] else {
        panic!("{reaction:#?}")
    };
    // The cookie is followed by the slot, the shard and the index of the branch.
    let branch = one.value(HeaderName::Via);
    let at = branch.find("z9hG4bKbb").unwrap() + 9 + 10;
    let others = other.value(HeaderName::Via);
    let mut forged = branch.clone();
    forged.replace_range(at..at + 2, &others[at..at + 2]);
    assert_ne!(forged, branch);
    let answer = text(&one.answer(486, "one", "")).replacen(&branch, &forged, 1);
    assert!(rig.receive(&udp(BOB), answer.as_bytes()).is_silent());
    assert_eq!(rig.count("dropped"), 1);
}

#[test]
fn tokens_outlast_a_restart_and_cannot_be_made_up() {
    let call = Call::new(closed_config(), udp(BOB));
    let (alice, bye) = (call.alice, call.by_alice("BYE"));
    let mut rig = Rig::closed_with(closed_config());
    assert_eq!(rig.send(&alice, &bye).forwarded().flow, call.bob);
    let route = &call.alice_routes[0];
    let user = route.split(['@', ':']).nth(1).unwrap();
    for at in 0..user.len() {
        let mut changed = user.as_bytes().to_vec();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = route.replacen(user, std::str::from_utf8(&changed).unwrap(), 1);
        let forged = bye
            .next()
            .with("Route", &changed)
            .with("Via", &format!("SIP/2.0/UDP {NAT};branch=z9hG4bK{at}"))
            .with("From", "<sip:x@foreign.example>;tag=alice-tag");
        assert_eq!(rig.send(&udp(STRANGER), &forged).status(), 403, "{at}");
    }
}
