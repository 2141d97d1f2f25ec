//! The server is no open relay: the permissions of senders and destinations.

use crate::rig::{ALICE, BOB, Draft, Rig, STRANGER, closed_config, tcp, text, udp};
use barebell_sip_server::config::{Mode, Network, State};
use barebell_sip_server::{Config, Event};
use sip::HeaderName;
use sip::digest::Ha1Set;

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Forwarded to bob.
    ToBob,
    /// Forwarded to the address 192.0.2.5 or to foreign.example.
    Abroad,
    /// Rejected with this status.
    Refused(u16),
    /// Dropped.
    Dropped,
}
use Fate::{Abroad, Dropped, Refused, ToBob};

/// A server that authenticates, with bob registered.
fn with_bob(state: State) -> Rig {
    let mut rig = Rig::closed_with(Config { state, ..closed_config() });
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
    rig
}

fn fate(reaction: &crate::rig::Reaction) -> Fate {
    if reaction.events.iter().any(|event| matches!(event, Event::Locate { .. })) {
        reaction.wants_location();
        return Abroad;
    }
    if reaction.is_silent() {
        return Dropped;
    }
    if reaction.requests().next().is_none() {
        return Refused(reaction.status());
    }
    let remote = reaction.forwarded().flow.remote;
    if remote == BOB.parse().unwrap() { ToBob } else { Abroad }
}

const STATES: [State; 2] = [State::Stateful, State::Stateless];

#[test]
fn strangers_reach_our_users_and_nobody_else() {
    for state in STATES {
        for (from, uri, expected) in [
            ("<sip:x@foreign.example>;tag=1", "sip:bob@example.com", ToBob),
            ("<sip:anonymous@anonymous.invalid>;tag=1", "sip:bob@example.com", ToBob),
            ("<tel:+15550123>;tag=1", "sip:bob@example.com", ToBob),
            // A local name that cannot be authenticated.
            ("<sip:example.com>;tag=1", "sip:bob@example.com", Refused(403)),
            ("<im:alice@example.com>;tag=1", "sip:bob@example.com", Refused(403)),
            ("<pres:bob@203.0.113.1>;tag=1", "sip:bob@example.com", Refused(403)),
            ("<im:x@foreign.example>;tag=1", "sip:bob@example.com", ToBob),
            ("<sip:x@foreign.example>;tag=1", "sip:y@foreign.example", Refused(403)),
            ("<sip:x@foreign.example>;tag=1", "sip:y@192.0.2.5", Refused(403)),
            // Another program on the address of the server.
            ("<sip:x@foreign.example>;tag=1", "sip:y@203.0.113.1:22", Refused(403)),
            ("<sip:anonymous@anonymous.invalid>;tag=1", "sip:y@foreign.example", Refused(403)),
            ("<tel:+15550123>;tag=1", "sip:y@foreign.example", Refused(403)),
            ("<sip:example.com>;tag=1", "sip:y@foreign.example", Refused(403)),
        ] {
            for method in ["INVITE", "MESSAGE", "BYE", "SUBSCRIBE", "NEWMETHOD", "PRACK"] {
                let draft = Draft::new(method, uri).with("From", from);
                let reaction = with_bob(state).send(&udp(STRANGER), &draft);
                let expected = match (expected, method) {
                    (ToBob, "INVITE" | "MESSAGE") => ToBob,
                    (ToBob, _) => Refused(405),
                    (expected, _) => expected,
                };
                assert_eq!(fate(&reaction), expected, "{method} {from} {uri} {state:?}");
            }
        }
    }
}

#[test]
fn strangers_may_send_the_methods_that_the_operator_lets_them() {
    let draft = |method: &str, user: &str| {
        Draft::new(method, &format!("sip:{user}@example.com"))
            .with("From", "<sip:x@foreign.example>;tag=1")
    };
    let mut config = closed_config();
    config.limits.foreign_methods = vec!["MESSAGE".into(), "NOTIFY".into()];
    let mut rig = Rig::closed_with(config.clone());
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
    for method in ["MESSAGE", "NOTIFY"] {
        assert_eq!(fate(&rig.send(&udp(STRANGER), &draft(method, "bob"))), ToBob, "{method}");
    }
    for method in ["INVITE", "notify", "REFER", "SUBSCRIBE", "INFO", "UPDATE", "BYE", "X"] {
        // The same response for all users, existing or not.
        let answers = ["bob", "nobody"].map(|user| {
            let reaction = rig.send(&udp(STRANGER), &draft(method, user));
            let allow = reaction.response().value(HeaderName::Allow);
            (reaction.status(), reaction.response().reason(), allow)
        });
        assert_eq!(answers[0].0, 405, "{method}");
        assert_eq!(answers[0], answers[1]);
        assert_eq!(answers[0].2, "MESSAGE, NOTIFY, ACK, CANCEL");
    }
    assert_eq!(rig.count("foreign-methods"), 16);
    // Users and trusted networks may use any method.
    let own = draft("REFER", "bob").with("From", "<sip:alice@example.com>;tag=1");
    assert_eq!(fate(&rig.send_as("alice", &udp(ALICE), &own)), ToBob);
    config.limits.trusted = vec![Network { address: "192.0.2.99".parse().unwrap(), prefix: 32 }];
    rig.server.configure(config);
    assert_eq!(fate(&rig.send(&udp(STRANGER), &draft("REFER", "bob"))), ToBob);
}

#[test]
fn our_users_names_need_credentials() {
    for from in [
        "<sip:alice@example.com>;tag=1",
        "\"x\" <sip:%61lice@EXAMPLE.com>;tag=1",
        "sip:alice@203.0.113.1;tag=1",
        "<sip:alice@[2001:db8::10]:7000>;tag=1",
        "<sips:alice@example.com>;tag=1",
        // Also if no user has the name.
        "<sip:nobody@example.com>;tag=1",
    ] {
        for uri in ["sip:bob@example.com", "sip:y@foreign.example"] {
            for state in STATES {
                let draft = Draft::invite(uri).with("From", from);
                let reaction = with_bob(state).send(&udp(STRANGER), &draft);
                assert_eq!(fate(&reaction), Refused(407), "{from} {uri} {state:?}");
            }
        }
    }
}

/// From DHCP, or of a virtual router.
#[test]
fn an_address_that_came_after_the_start_is_ours_in_every_header_field() {
    for state in STATES {
        let late = "203.0.113.77:5060".parse().unwrap();
        let mut rig = with_bob(state);
        let from = "<sip:alice@203.0.113.77>;tag=1";
        let before = Draft::invite("sip:bob@example.com").with("From", from);
        assert_eq!(fate(&rig.send(&udp(STRANGER), &before)), ToBob, "nobody knows yet");
        let here = barebell_sip_server::Flow { local: late, ..udp(STRANGER) };
        let call = Draft::invite("sip:bob@203.0.113.77").with("From", from);
        assert_eq!(fate(&rig.send(&here, &call)), Refused(407), "{state:?}");
        let elsewhere = Draft::invite("sip:bob@example.com").with("From", from);
        assert_eq!(fate(&rig.send(&udp(STRANGER), &elsewhere)), Refused(407), "{state:?}");
        let register = Draft::register("alice")
            .with_uri("sip:203.0.113.77")
            .with("To", "<sip:alice@203.0.113.77>")
            .and("Contact", "<sip:alice@a.example>");
        let reaction = rig.send_as(
            "alice",
            &barebell_sip_server::Flow { local: late, ..udp(ALICE) },
            &register,
        );
        assert_eq!(reaction.status(), 200);
    }
}

#[test]
fn a_number_of_a_user_needs_credentials_however_it_is_written() {
    for (from, expected) in [
        ("<tel:100>;tag=1", Refused(407)),
        ("\"Boss\" <tel:1-0-0>;tag=1", Refused(407)),
        ("<tel:100;phone-context=example.com>;tag=1", Refused(407)),
        ("<tel:101>;tag=1", ToBob),
    ] {
        let mut rig = with_bob(State::Stateful);
        rig.add_user("100");
        let draft = Draft::invite("sip:bob@example.com").with("From", from);
        assert_eq!(fate(&rig.send(&udp(STRANGER), &draft)), expected, "{from}");
        let reaction = rig.send_as("100", &udp(ALICE), &draft.next());
        assert_eq!(fate(&reaction), ToBob, "{from}");
    }
}

#[test]
fn a_number_of_a_user_in_any_domain_needs_that_users_credentials() {
    for (user, domain) in [("100", "example.com"), ("200", "example.org")] {
        for context in ["", ";phone-context=example.com", ";phone-context=EXAMPLE.org"]
            .into_iter()
            .chain([";phone-context=foreign.example", ";phone-context=+49", ";phone-context="])
        {
            let mut rig = with_bob(State::Stateful);
            let ha1 = Ha1Set::new(user.as_bytes(), domain.as_bytes(), user.as_bytes());
            rig.server.add_user(format!("{user}@{domain}").as_bytes(), ha1);
            let from = format!("<tel:{user}{context}>;tag=1");
            let draft = Draft::invite("sip:bob@example.com").with("From", &from);
            let reaction = rig.send(&udp(STRANGER), &draft);
            assert_eq!(fate(&reaction), Refused(407), "{from}");
            let asked = reaction.response();
            assert!(asked.value(HeaderName::ProxyAuthenticate).contains(domain), "{from}");
            assert_eq!(fate(&rig.send_as(user, &udp(ALICE), &draft.next())), ToBob, "{from}");
            let other = draft.with("From", &from.replace("00", "01"));
            assert_eq!(fate(&rig.send(&udp(STRANGER), &other.next())), ToBob, "{from}");
        }
    }
}

/// The header fields that name the sender or change the presentation of the call.
const SAID: [(&str, &str); 11] = [
    ("P-Asserted-Identity", "\"Boss\" <sip:boss@example.com>"),
    ("P-Preferred-Identity", "<sip:boss@example.com>"),
    ("Remote-Party-ID", "<sip:boss@example.com>;party=calling;screen=yes"),
    ("Alert-Info", "<http://x.example>;info=alert-autoanswer"),
    ("Call-Info", "<sip:x>;answer-after=0"),
    ("Answer-Mode", "Auto"),
    ("Priv-Answer-Mode", "Auto"),
    ("Diversion", "<sip:boss@example.com>"),
    ("History-Info", "<sip:boss@example.com>;index=1"),
    ("Referred-By", "<sip:boss@example.com>"),
    ("Privacy", "none"),
];

#[test]
fn what_strangers_say_of_themselves_is_taken_off_and_of_users_what_they_prove_is_said() {
    let said = |draft: Draft| {
        SAID.iter().fold(draft, |draft, (name, value)| draft.and(&name.to_lowercase(), value))
    };
    let kept = |sent: &crate::rig::Sent| {
        let message = sent.message();
        let names = message.fields().map(|field| text(field.raw_name()).to_lowercase());
        let is_said = |name: &String| SAID.iter().any(|(said, _)| said.to_lowercase() == *name);
        names.filter(is_said).count()
    };
    for state in STATES {
        let stranger =
            Draft::invite("sip:bob@example.com").with("From", "<sip:x@foreign.example>;tag=1");
        let mut rig = with_bob(state);
        let forwarded = rig.send(&udp(STRANGER), &said(stranger.clone())).forwarded().clone();
        assert_eq!((kept(&forwarded), forwarded.value(HeaderName::Privacy)), (1, "none".into()));
        let user = said(Draft::invite("sip:bob@example.com"));
        // Bob does not allow automatic answers, by his name and by his contact.
        for draft in [user.next(), user.next().with_uri(&format!("sip:bob@{BOB}"))] {
            let forwarded = rig.send_as("alice", &udp(ALICE), &draft).forwarded().clone();
            assert_eq!(kept(&forwarded), SAID.len() - 2 - 4);
            for name in [HeaderName::AlertInfo, HeaderName::CallInfo, HeaderName::AnswerMode] {
                assert_eq!(forwarded.value(name), "");
            }
        }
        let allowed = Config { auto_answer: vec!["bo*".into()], state, ..closed_config() };
        let mut rig = Rig::closed_with(allowed);
        rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
        let forwarded = rig.send_as("alice", &udp(ALICE), &user).forwarded().clone();
        assert_eq!(kept(&forwarded), SAID.len() - 2);
        let proved = forwarded.values(HeaderName::PAssertedIdentity);
        assert_eq!(proved, ["<sip:alice@example.com>"]);
        let private = user.next().with("privacy", "id;critical");
        let forwarded = rig.send_as("alice", &udp(ALICE), &private).forwarded().clone();
        assert_eq!(forwarded.values(HeaderName::PAssertedIdentity), [""; 0]);
        // A trusted peer may name any sender, and is told the name of a private one.
        let mut config = Config { state, ..closed_config() };
        config.limits.trusted = vec![Network { address: "192.0.2.0".parse().unwrap(), prefix: 24 }];
        let mut rig = Rig::closed_with(config);
        rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
        let forwarded = rig.send(&udp(STRANGER), &said(stranger)).forwarded().clone();
        assert_eq!(kept(&forwarded), SAID.len());
        let abroad = user.next().with_uri("sip:y@192.0.2.5").with("privacy", "id");
        let forwarded = rig.send_as("alice", &udp(ALICE), &abroad).forwarded().clone();
        assert_eq!(forwarded.values(HeaderName::PAssertedIdentity).len(), 1);
    }
}

#[test]
fn a_caller_has_its_display_name_in_the_house() {
    let names = [(b"alice".to_vec(), "Alice Ä.".to_owned())];
    let mut rig = Rig::closed_with(Config { caller_names: names.into(), ..closed_config() });
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
    let named = "\"Alice Ä.\" <sip:alice@example.com>";
    let own = Draft::invite("sip:bob@example.com").and("P-Asserted-Identity", "<sip:boss@a>");
    let private = own.next().and("Privacy", "id");
    let abroad = Draft::invite("sip:y@192.0.2.5");
    for (draft, expected) in [
        (Draft::invite("sip:bob@example.com"), Some(named)),
        (own, Some(named)),
        (private, None),
        (abroad, None),
    ] {
        let forwarded = rig.send_as("alice", &udp(ALICE), &draft).forwarded().clone();
        assert_eq!(forwarded.values(HeaderName::PAssertedIdentity), Vec::from_iter(expected));
    }
    let other = Draft::invite("sip:alice@example.com").with("From", "<sip:bob@example.com>;tag=b");
    rig.register("alice", &udp(ALICE), &format!("<sip:alice@{ALICE}>"));
    let forwarded = rig.send_as("bob", &udp(BOB), &other).forwarded().clone();
    assert_eq!(forwarded.values(HeaderName::PAssertedIdentity), [""; 0]);
}

/// Otherwise a phone would not list the call as missed, because the caller says that it was
/// answered.
#[test]
fn a_strangers_reason_does_not_hide_that_he_has_called() {
    const REASON: &str = "SIP;cause=200;text=\"Call completed elsewhere\"";
    let network = Network { address: "192.0.2.0".parse().unwrap(), prefix: 24 };
    for state in STATES {
        // A CANCEL has no credentials. Its sender is known only while the INVITE is.
        let of_user = state == State::Stateful;
        for (from, source, trusted, passed) in [
            ("x@foreign.example", STRANGER, None, false),
            ("x@foreign.example", STRANGER, Some(network), true),
            ("alice@example.com", ALICE, None, of_user),
        ] {
            let mut config = Config { state, ..closed_config() };
            config.limits.trusted = trusted.into_iter().collect();
            let mut rig = Rig::closed_with(config);
            rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
            let draft = Draft::invite("sip:bob@example.com")
                .with("From", &format!("<sip:{from}>;tag=1"))
                .and("Reason", REASON);
            let mut reaction = rig.send(&udp(source), &draft);
            let asked = reaction.responses().next().cloned();
            let mut invite = draft.clone();
            if let Some(asked) = asked {
                invite = draft.next().answering(&asked, "alice", "alice");
                reaction = rig.send(&udp(source), &invite);
            }
            let forwarded = reaction.forwarded().clone();
            assert_eq!(
                forwarded.values(HeaderName::Reason),
                [REASON],
                "of other requests it stays"
            );
            rig.receive(&forwarded.flow, &forwarded.answer(180, "b", ""));
            let cancel = invite.with_method("CANCEL").without("Proxy-Authorization");
            let reaction = rig.send(&udp(source), &cancel);
            let cancel = reaction.requests().next().unwrap();
            let reasons = cancel.values(HeaderName::Reason);
            let expected: &[&str] = if passed { &[REASON] } else { &[] };
            assert_eq!(reasons, expected, "{state:?} {from} {trusted:?}");
        }
    }
}

#[test]
fn who_answers_says_nothing_of_himself_that_is_not_known() {
    for (state, trusted) in
        [(State::Stateful, false), (State::Stateless, false), (State::Stateful, true)]
    {
        let mut config = Config { state, ..closed_config() };
        if trusted {
            let network = Network { address: "198.51.100.20".parse().unwrap(), prefix: 32 };
            config.limits.trusted = vec![network];
        }
        let mut rig = Rig::closed_with(config);
        rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
        let call = Draft::invite("sip:bob@example.com");
        let forwarded = rig.send_as("alice", &udp(ALICE), &call).forwarded().clone();
        let fields = "P-Asserted-Identity: <sip:boss@example.com>\r\n";
        for status in [180, 200] {
            let reaction = rig.receive(&udp(BOB), &forwarded.answer(status, "bob", fields));
            let named = reaction.response().values(HeaderName::PAssertedIdentity).len();
            assert_eq!(named, usize::from(trusted), "{status} {state:?}");
        }
    }
}

#[test]
fn users_call_everybody_in_their_own_name() {
    for (user, from, uri, expected) in [
        ("alice", "alice@example.com", "sip:bob@example.com", ToBob),
        ("alice", "alice@203.0.113.1", "sip:bob@example.com", ToBob),
        ("alice", "alice@example.com", "sip:y@foreign.example", Abroad),
        ("alice", "alice@example.com", "sip:y@192.0.2.5", Abroad),
        ("alice", "carol@example.com", "sip:bob@example.com", Refused(403)),
        ("alice", "carol@example.com", "sip:y@foreign.example", Refused(403)),
        ("alice", "nobody@example.com", "sip:bob@example.com", Refused(403)),
        ("nobody", "nobody@example.com", "sip:bob@example.com", Refused(407)),
    ] {
        for state in STATES {
            let mut rig = with_bob(state);
            let draft = Draft::invite(uri).with("From", &format!("<sip:{from}>;tag=1"));
            let reaction = rig.send_as(user, &udp(ALICE), &draft);
            assert_eq!(fate(&reaction), expected, "{user} as {from} to {uri} {state:?}");
        }
    }
}

#[test]
fn a_route_of_the_sender_s_own_leads_strangers_nowhere() {
    for (route, uri) in [
        ("<sip:192.0.2.5;lr>", "sip:bob@example.com"),
        ("<sip:192.0.2.5>", "sip:bob@example.com"),
        ("<sip:foreign.example;lr>", "sip:bob@example.com"),
        ("<sip:203.0.113.1;lr>, <sip:192.0.2.5;lr>", "sip:bob@example.com"),
        ("<sip:203.0.113.1;lr>", "sip:y@192.0.2.5"),
        ("<sip:Zm9yZ2VkIHRva2Vu@203.0.113.1;lr>", "sip:y@192.0.2.5"),
        ("<sip:203.0.113.1;lr>, <sip:example.com;lr>", "sip:y@192.0.2.5"),
        ("<sip:y@192.0.2.5>", "sip:Zm9yZ2VkIHRva2Vu@203.0.113.1;lr"),
    ] {
        for state in STATES {
            let draft = Draft::invite(uri)
                .with("From", "<sip:x@foreign.example>;tag=1")
                .and("Route", route);
            let reaction = with_bob(state).send(&udp(STRANGER), &draft);
            let allowed = [Refused(403), Refused(404)];
            assert!(allowed.contains(&fate(&reaction)), "{route} {uri}: {reaction:#?}");
        }
    }
    let draft = Draft::invite("sip:y@foreign.example").and("Route", "<sip:192.0.2.5;lr>");
    let reaction = with_bob(State::Stateful).send_as("alice", &udp(ALICE), &draft);
    assert_eq!(fate(&reaction), Abroad, "users choose their way");
    assert_eq!(reaction.forwarded().flow.remote, "192.0.2.5:5060".parse().unwrap());
}

#[test]
fn acks_without_a_transaction_go_to_our_users() {
    for state in STATES {
        let mut rig = with_bob(state);
        let ack = |uri: &str, from: &str| {
            Draft::new("ACK", uri).with("From", &format!("<sip:{from}>;tag=1"))
        };
        let to_bob = ack("sip:bob@example.com", "x@foreign.example");
        assert_eq!(fate(&rig.send(&udp(STRANGER), &to_bob)), ToBob);
        let from_bob = ack("sip:y@192.0.2.5", "bob@example.com");
        assert_eq!(fate(&rig.send(&udp(BOB), &from_bob)), Dropped, "the address proves nothing");
        assert_eq!(fate(&rig.send(&udp(STRANGER), &from_bob.next())), Dropped);
        let from_stranger = ack("sip:y@192.0.2.5", "x@foreign.example");
        assert_eq!(fate(&rig.send(&udp(STRANGER), &from_stranger)), Dropped);
        assert_eq!(rig.count("relay-denied"), 3);
    }
}

#[test]
fn acks_of_strangers_have_the_rate_of_strangers() {
    for state in STATES {
        let mut rig = with_bob(state);
        let ack = || {
            let ack = Draft::new("ACK", "sip:bob@example.com");
            ack.with("From", "<sip:x@foreign.example>;tag=1")
        };
        let passed = (0..100).filter(|_| fate(&rig.send(&udp(STRANGER), &ack())) == ToBob).count();
        assert_eq!(passed, 40);
        assert_eq!(rig.count("foreign-limited"), 60);
    }
}

#[test]
fn ack_and_cancel_follow_an_invite_that_went_abroad_without_a_transaction() {
    let mut rig = with_bob(State::Stateless);
    let invite = Draft::invite("sip:y@192.0.2.5");
    let asked = rig.send(&udp(ALICE), &invite).response().clone();
    let invite = invite.next().answering(&asked, "alice", "alice");
    let forwarded = rig.send(&udp(ALICE), &invite).forwarded().clone();
    for method in ["CANCEL", "ACK"] {
        let follows = invite.clone().with_method(method).without("Proxy-Authorization");
        assert_eq!(fate(&rig.send(&udp(ALICE), &follows)), Abroad, "{method}");
        let other = follows.next();
        let expected = if method == "ACK" { Dropped } else { Refused(481) };
        assert_eq!(fate(&rig.send(&udp(ALICE), &other)), expected, "{method}");
    }
    let refused = rig.receive(&forwarded.flow, &forwarded.answer(486, "y-tag", ""));
    assert_eq!(refused.status(), 486);
}

#[test]
fn without_credentials_only_those_who_are_trusted_call_others() {
    let to =
        |uri: &str, from: &str| Draft::invite(uri).with("From", &format!("<sip:{from}>;tag=1"));
    let (alice, stranger) = ("alice@example.com", "x@foreign.example");
    for state in STATES {
        let mut config = Config { state, ..closed_config() };
        config.authentication.required = false;
        let network = Network { address: "192.0.2.0".parse().unwrap(), prefix: 24 };
        for (trusted, expected) in [(Vec::new(), Refused(403)), (vec![network], Abroad)] {
            config.limits.trusted = trusted;
            let mut rig = Rig::new(config.clone());
            rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
            rig.register("alice", &tcp(ALICE, 3), "<sip:alice@a.example>");
            for (source, draft, expected) in [
                (STRANGER, to("sip:bob@example.com", stranger), ToBob),
                (STRANGER, to("sip:bob@example.com", alice), ToBob),
                (STRANGER, to("sip:y@foreign.example", stranger), expected),
                (STRANGER, to("sip:y@foreign.example", alice), expected),
                // An address can be forged, so it is no evidence.
                (ALICE, to("sip:y@foreign.example", alice), Refused(403)),
                (ALICE, to("sip:bob@example.com", stranger), ToBob),
            ] {
                let reaction = rig.send(&udp(source), &draft);
                assert_eq!(fate(&reaction), expected, "{source} {draft:?} {state:?}");
            }
        }
    }
}

#[test]
fn a_registrar_and_a_redirect_server_forward_nothing() {
    for mode in [Mode::Registrar, Mode::Redirect] {
        let mut rig = Rig::closed_with(Config { mode, ..closed_config() });
        rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
        for uri in ["sip:bob@example.com", "sip:y@192.0.2.5", "sip:y@foreign.example"] {
            for method in ["INVITE", "MESSAGE", "ACK", "BYE", "CANCEL"] {
                let draft = Draft::new(method, uri).and("Route", "<sip:192.0.2.5;lr>");
                let reaction = rig.send_as("alice", &tcp(ALICE, 4), &draft);
                assert_eq!(reaction.requests().count(), 0, "{mode:?} {method} {uri}");
                assert!(reaction.events.is_empty(), "{mode:?} {method} {uri}");
            }
        }
    }
}

#[test]
fn refusals_say_why() {
    let mut rig = with_bob(State::Stateful);
    let abroad =
        Draft::invite("sip:y@foreign.example").with("From", "<sip:x@foreign.example>;tag=1");
    let reaction = rig.send(&udp(STRANGER), &abroad);
    assert_eq!(reaction.response().reason(), "Relaying Denied");
    assert!(reaction.events.is_empty(), "a log line for each INVITE would be noise");
    let login =
        Draft::new("REGISTER", "sip:foreign.example").with("From", "<sip:x@foreign.example>;tag=1");
    let reaction = rig.send(&udp(STRANGER), &login);
    assert_eq!(reaction.response().reason(), "Domain Not Served");
    let [Event::Notice(notice)] = &reaction.events[..] else { panic!("{:?}", reaction.events) };
    assert_eq!(notice.kind(), "unserved");
    let text_of_notice = notice.to_string();
    assert!(text_of_notice.contains("sip:foreign.example"), "{text_of_notice}");
    assert!(text_of_notice.contains("default domain is example.com"), "{text_of_notice}");
    let as_carol =
        Draft::invite("sip:bob@example.com").with("From", "<sip:carol@example.com>;tag=1");
    let reaction = rig.send_as("alice", &udp(ALICE), &as_carol);
    assert_eq!(reaction.response().reason(), "From Is Not the Authenticated User");
    assert_eq!((rig.count("relay-denied"), rig.count("identity-mismatches")), (2, 1));
    assert!(text(&reaction.response().bytes).contains("Server: Barebell\r\n"));
    assert_eq!(reaction.response().values(HeaderName::ProxyAuthenticate), [""; 0]);
}
