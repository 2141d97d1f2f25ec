//! Calls by number: to trunks, and from them. The test acts as the B2BUA and as the trunks.

use crate::joining::{invites, second_leg};
use crate::media::{body, offer, secure, server};
use crate::rig::{ALICE, BOB, Draft, Rig, STRANGER, Sent, ack_of, closed_config, tcp, text, udp};
use barebell_sip_server::config::{Joining, Relaying};
use barebell_sip_server::relay::{Codec, Keying};
use barebell_sip_server::{
    CallServices, Caller, Config, Dialed, DialedRefusal, Event, Flow, Numbers, TrunkAttempt,
    TrunkId, TrunkMedia, TrunkTarget, Trunks,
};
use sip::{Duration, HeaderName, Transport};
use std::sync::Arc;

/// The address of trunk 0, and that of trunk 1, which has no target.
pub(crate) const TRUNK: &str = "192.0.2.50:5060";
const DEAD: &str = "192.0.2.51:5060";

/// The contact of the registration at trunk 0.
const CONTACT: &str = "f3a9c1";

/// Trunk 1 asserts names of callers.
struct TwoTrunks;

impl Trunks for TwoTrunks {
    fn target(&self, trunk: TrunkId) -> Option<TrunkTarget> {
        let Flow { local, remote, .. } = udp(TRUNK);
        let transport = Transport::Udp;
        let target = TrunkTarget { transport, remote, local, name: "trunk.example".into() };
        (trunk == TrunkId(0)).then_some(target)
    }

    fn of_request(&self, flow: &Flow, user: &[u8]) -> Option<TrunkId> {
        match flow.remote {
            _ if user == CONTACT.as_bytes() => Some(TrunkId(0)),
            remote if remote.ip() == udp(TRUNK).remote.ip() => Some(TrunkId(0)),
            remote if remote.ip() == udp(DEAD).remote.ip() => Some(TrunkId(1)),
            _ => None,
        }
    }

    fn is_trusted(&self, trunk: TrunkId) -> bool {
        trunk == TrunkId(1)
    }
}

/// The digits of alice lead to the trunks, 20 to bob, as does +4930123 for a trunk.
struct Plan;

fn refused(words: &str) -> Dialed {
    Dialed::Refused(DialedRefusal { status: 403, words: words.into() })
}

impl Numbers for Plan {
    fn route(&self, dialed: &[u8], caller: Caller<'_>) -> Dialed {
        let attempt = |trunk, number: &str| TrunkAttempt {
            trunk: TrunkId(trunk),
            number: number.into(),
            identity: Some("+4930123".into()),
            is_emergency: false,
            payer: Some("a@b".into()),
            class: None,
            stranger: None,
        };
        match (dialed, caller) {
            (b"20", Caller::User(_) | Caller::Stranger) | (b"+4930123", Caller::Trunk(_)) => {
                Dialed::User(b"bob@example.com".to_vec())
            }
            (b"0900", Caller::User(_)) => refused("Premium Numbers Are Off"),
            (dialed, Caller::User(b"alice@example.com")) if dialed.starts_with(b"0") => {
                let number = text(&dialed[1..]);
                Dialed::Trunks(vec![attempt(1, &number), attempt(0, &format!("+49{number}"))])
            }
            (dialed, _) if dialed.starts_with(b"0") => refused("No Right for National Numbers"),
            _ => Dialed::Name,
        }
    }
}

fn office() -> Rig {
    with_trunks(closed_config())
}

/// A server with the numbers and trunks, where bob is registered.
pub(crate) fn with_trunks(config: Config) -> Rig {
    let config = Config { joining: Joining::Off, ..config };
    let (mut rig, _) = server(config, &format!("<sip:bob@{BOB}>"));
    rig.server.set_numbers(Arc::new(Plan));
    rig.server.set_trunks(Arc::new(TwoTrunks));
    rig.renew_worker();
    rig
}

pub(crate) fn call(uri: &str) -> Draft {
    offer("198.51.100.10").with_uri(uri).with("To", &format!("<{uri}>"))
}

/// The INVITE to the B2BUA for a call of alice to `uri`.
fn first_leg(rig: &mut Rig, uri: &str) -> Sent {
    let first = rig.send_as("alice", &udp(ALICE), &call(uri)).forwarded().clone();
    assert_eq!(first.flow, udp(ALICE).internal());
    first
}

/// The INVITE of the B2BUA for `first` with the Route `route`, to `uri` from `from`.
fn to_trunk(first: &Sent, route: &str, uri: &str, from: &str) -> Draft {
    Draft::new("INVITE", uri)
        .with("From", &format!("<{from}>;tag=2"))
        .and("Contact", "<sip:call@203.0.113.1:5060>")
        .and("Route", route)
        .and("Content-Type", "application/sdp")
        .with_body(&body(first))
}

#[test]
fn a_number_of_a_trunk_leads_to_the_target_of_the_trunk_and_back() {
    let mut rig = office();
    let first = first_leg(&mut rig, "sip:030456@example.com");
    assert_eq!(first.request_uri(), "sip:030456@example.com");
    let routes = first.values(HeaderName::Route);
    let [dead, live] = &routes[..] else { panic!("{routes:?}") };
    assert!(dead.contains(";to-trunk=1;number=30456;identity=+4930123;payer=a%40b>"), "{dead}");
    assert!(live.contains(";to-trunk=0;number=+4930456;identity=+4930123;payer=a%40b>"), "{live}");
    // Without a target the next trunk is tried.
    let (uri, from) = ("sip:30456@dead.example", "sip:+4930123@dead.example");
    let refused = rig.send(&first.flow, &to_trunk(&first, dead, uri, from));
    assert_eq!(refused.status(), 503);
    let (uri, from) = ("sip:+4930456@trunk.example", "sip:+4930123@trunk.example");
    let second = rig.send(&first.flow, &to_trunk(&first, live, uri, from)).forwarded().clone();
    assert_eq!((second.flow, second.request_uri().as_str()), (udp(TRUNK), uri));
    assert_eq!(second.values(HeaderName::Route), Vec::<String>::new(), "the pass is removed");
    // A challenge of the trunk comes to the B2BUA.
    let challenge = "Proxy-Authenticate: Digest realm=\"trunk.example\",nonce=\"1\"\r\n";
    let challenged = rig.receive(&second.flow, &second.answer(407, "t", challenge));
    let challenged = challenged.responses().next().expect("a response").clone();
    assert_eq!((challenged.flow, challenged.status()), (first.flow, 407));
    assert!(challenged.value(HeaderName::ProxyAuthenticate).contains("trunk.example"));
}

#[test]
fn a_pass_leads_to_its_trunk_and_number_only() {
    let mut rig = office();
    let first = first_leg(&mut rig, "sip:030456@example.com");
    let live = &first.values(HeaderName::Route)[1];
    let (uri, from) = ("sip:+4930456@trunk.example", "sip:+4930123@trunk.example");
    let good = to_trunk(&first, live, uri, from);
    for (what, flow, draft) in [
        ("another number", first.flow, good.next().with_uri("sip:+49900@trunk.example")),
        ("no number", first.flow, good.next().with_uri("sip:trunk.example")),
        ("no pass", first.flow, good.next().without("Route")),
        ("another caller", udp(STRANGER).internal(), good.next()),
        ("another method", first.flow, good.next().with_method("MESSAGE")),
    ] {
        assert_eq!(rig.send(&flow, &draft).status(), 403, "{what}");
    }
    // The host is what the trunk expects. It does not lead elsewhere.
    let elsewhere = good.next().with_uri("sip:+4930456@192.0.2.77");
    assert_eq!(rig.send(&first.flow, &elsewhere).forwarded().flow, udp(TRUNK));
    for flow in [udp(ALICE), udp(STRANGER), tcp(STRANGER, 8), udp(TRUNK)] {
        let outside = good.next();
        let reaction = rig.send(&flow, &outside);
        assert_eq!(reaction.requests().count(), 0, "{flow}");
        assert!(matches!(reaction.status(), 403 | 404), "{flow}");
    }
    rig.wait(Duration::from_secs(120));
    assert_eq!(rig.send(&first.flow, &good.next()).forwarded().flow, udp(TRUNK), "a late attempt");
    rig.wait(Duration::from_secs(600));
    assert_eq!(rig.send(&first.flow, &good.next()).status(), 403, "a pass of the call before");
}

#[test]
fn a_phone_at_the_uri_of_a_number_does_not_get_the_calls_to_it() {
    let mut rig = office();
    rig.register("carol", &udp("198.51.100.30:5060"), "<sip:+4930456@trunk.example>");
    let first = first_leg(&mut rig, "sip:030456@example.com");
    let live = &first.values(HeaderName::Route)[1];
    let uri = "sip:+4930456@trunk.example";
    let second = to_trunk(&first, live, uri, "sip:+4930123@trunk.example");
    assert_eq!(rig.send(&first.flow, &second).forwarded().flow, udp(TRUNK));
}

#[test]
fn a_refusal_names_its_rule_to_the_caller_and_in_the_log() {
    let mut rig = office();
    let reaction = rig.send_as("alice", &udp(ALICE), &call("sip:0900@example.com"));
    let response = reaction.response();
    assert_eq!((response.status(), response.reason().as_str()), (403, "Premium Numbers Are Off"));
    let is_notice = |event: &&Event| matches!(event, Event::Notice(_));
    let Some(Event::Notice(notice)) = reaction.events.iter().find(is_notice) else {
        panic!("{reaction:?}")
    };
    let expected = "a call of sip:alice@example.com at udp:198.51.100.10:5060 to 0900 is refused: \
                    Premium Numbers Are Off";
    assert_eq!((notice.to_string().as_str(), notice.kind()), (expected, "number"));
    assert_eq!(rig.count("numbers-refused"), 1);
    let by_bob = call("sip:030@example.com").with("From", "<sip:bob@example.com>;tag=1");
    assert_eq!(rig.send_as("bob", &udp(BOB), &by_bob).status(), 403);
    // Only calls go to trunks.
    let message = Draft::new("MESSAGE", "sip:030456@example.com");
    assert_eq!(rig.send_as("alice", &udp(ALICE), &message).status(), 404);
}

#[test]
fn a_refusal_names_its_rule_to_users_and_in_the_record_and_not_to_callers_outside() {
    let config = Config { relaying: Relaying::All, joining: Joining::Off, ..closed_config() };
    let (mut rig, _) = server(config, &format!("<sip:bob@{BOB}>"));
    rig.server.set_numbers(Arc::new(Plan));
    rig.server.set_trunks(Arc::new(TwoTrunks));
    rig.renew_worker();
    let to = call("sip:030456@example.com");
    let rule = "No Right for National Numbers";
    for (user, flow, from, phrase) in [
        (Some("bob"), udp(BOB), "sip:bob@example.com", rule),
        (None, udp(TRUNK), "sip:+49151@trunk.example", "Forbidden"),
        (None, udp(STRANGER), "sip:x@foreign.example", "Forbidden"),
    ] {
        let draft = to.next().with("From", &format!("<{from}>;tag=1"));
        let reaction = match user {
            Some(user) => rig.send_as(user, &flow, &draft),
            None => rig.send(&flow, &draft),
        };
        let response = reaction.response();
        assert_eq!((response.status(), response.reason().as_str()), (403, phrase), "{from}");
        assert!(!text(&response.bytes).contains("National") || user.is_some(), "{from}");
        let record = reaction.events.iter().find_map(|event| match event {
            Event::CallEnded(record) => record.reason.clone(),
            _ => None,
        });
        let expected = format!("SIP;cause=403;text=\"{rule}\"");
        assert_eq!(record.map(|reason| text(&reason)), Some(expected), "{from}");
    }
}

#[test]
fn a_number_of_a_user_leads_to_the_user() {
    for (joining, is_joined) in [(Joining::Off, false), (Joining::All, true)] {
        let config = Config { joining, ..closed_config() };
        let (mut rig, _) = server(config, &format!("<sip:bob@{BOB}>"));
        rig.server.set_numbers(Arc::new(Plan));
        rig.renew_worker();
        let uri = "sip:20@example.com";
        let mut last = rig.send_as("alice", &udp(ALICE), &call(uri)).forwarded().clone();
        if is_joined {
            assert_eq!(last.request_uri(), "sip:bob@example.com");
            last = rig.send(&last.flow, &second_leg(&last)).forwarded().clone();
        }
        assert_eq!((last.flow, last.request_uri()), (udp(BOB), format!("sip:bob@{BOB}")));
        let stranger = call(uri).with("From", "<sip:x@foreign.example>;tag=1");
        assert_eq!(rig.send(&udp(STRANGER), &stranger).requests().count(), 1);
        let phone = call("tel:20;phone-context=example.com")
            .with("To", "<tel:20;phone-context=example.com>");
        assert_eq!(rig.send_as("alice", &udp(ALICE), &phone).requests().count(), 1);
    }
}

#[test]
fn a_call_from_a_trunk_reaches_its_number_and_nothing_else() {
    let mut rig = office();
    let from = "<sip:+49151@trunk.example>;tag=1";
    let number = call("sip:+4930123@203.0.113.1").with("From", from);
    let first = rig.send(&udp(TRUNK), &number).forwarded().clone();
    assert_eq!(first.flow, udp(TRUNK).internal());
    assert_eq!(first.request_uri(), "sip:bob@example.com");
    assert!(first.value(HeaderName::Route).contains(";from-trunk=0"));
    let second = rig.send(&first.flow, &second_leg(&first)).forwarded().clone();
    assert_eq!((second.flow, second.request_uri()), (udp(BOB), format!("sip:bob@{BOB}")));
    for (uri, method, expected) in [
        ("sip:bob@example.com", "INVITE", 404),
        ("sip:030456@example.com", "INVITE", 403),
        ("sip:x@192.0.2.5", "INVITE", 404),
        ("sip:x@192.0.2.5", "MESSAGE", 403),
        ("sip:call@203.0.113.1", "INVITE", 404),
    ] {
        let draft = call(uri).with_method(method).with("From", from);
        assert_eq!(rig.send(&udp(TRUNK), &draft).status(), expected, "{method} {uri}");
    }
    let route = number.next().with("Route", "<sip:192.0.2.7;lr>");
    assert_eq!(rig.send(&udp(TRUNK), &route).status(), 404, "a Route of a trunk");
    // Another source is a stranger, for which that is no number.
    assert_eq!(rig.send(&udp(STRANGER), &number.next()).status(), 404);
}

#[test]
fn the_contact_of_the_registration_stands_for_the_number_in_to() {
    let mut rig = office();
    let from = "<sip:+49151@trunk.example>;tag=1";
    let contact = call(&format!("sip:{CONTACT}@203.0.113.1"));
    let named = contact.with("From", from).with("To", "<sip:+4930123@trunk.example>");
    let first = rig.send(&udp("192.0.2.200:5060"), &named).forwarded().clone();
    assert_eq!(first.request_uri(), "sip:bob@example.com");
    let other = named.next().with("To", "<sip:+49309@trunk.example>");
    assert_eq!(rig.send(&udp("192.0.2.200:5060"), &other).status(), 404);
}

#[test]
fn a_trunk_gives_no_name_of_a_user() {
    let mut rig = office();
    let number = call("sip:+4930123@203.0.113.1");
    for (from, expected) in [
        ("<sip:alice@example.com>;tag=1", 407),
        ("<sip:alice@203.0.113.1>;tag=1", 407),
        ("<im:alice@example.com>;tag=1", 403),
    ] {
        let draft = number.next().with("From", from);
        assert_eq!(rig.send(&udp(TRUNK), &draft).status(), expected, "{from}");
    }
    // Providers append the domain of the registrar to the number of the caller.
    let ours = number.next().with("From", "<sip:+49151@example.com>;tag=1");
    let first = rig.send(&udp(TRUNK), &ours).forwarded().clone();
    assert_eq!(rig.send(&first.flow, &second_leg(&first)).forwarded().flow, udp(BOB));
    // A phone at the address of a trunk logs in.
    let phone = number.next().with_uri("sip:20@example.com");
    assert_eq!(rig.send_as("alice", &udp(TRUNK), &phone).forwarded().flow, udp(BOB));
}

#[test]
fn a_trusted_trunk_names_the_caller_and_another_does_not() {
    let named = "<sip:+49152@trunk.example>";
    for (trunk, expected) in [(TRUNK, ""), (DEAD, named)] {
        let mut rig = office();
        let draft = call("sip:+4930123@203.0.113.1")
            .with("From", "<sip:+49151@trunk.example>;tag=1")
            .and("P-Asserted-Identity", named)
            .and("Diversion", "<sip:+49153@trunk.example>");
        let first = rig.send(&udp(trunk), &draft).forwarded().clone();
        assert_eq!(first.value(HeaderName::PAssertedIdentity), expected);
        assert_eq!(first.value(HeaderName::Diversion).is_empty(), expected.is_empty());
    }
}

/// A trunk may accept all calls from the address of this server.
#[test]
fn nothing_but_the_b2bua_reaches_a_trunk() {
    let mut rig = office();
    let at_trunk = format!("sip:0900@{TRUNK}");
    let direct = rig.send_as("alice", &udp(ALICE), &call(&at_trunk));
    assert_eq!(direct.responses().next().map(Sent::status), Some(480));
    assert_eq!(direct.requests().count(), 0);
    let routed = call("sip:0900@trunk.example").with("Route", &format!("<sip:{TRUNK};lr>"));
    assert_eq!(rig.send_as("alice", &udp(ALICE), &routed).requests().count(), 0);
    rig.register("carol", &udp("198.51.100.30:5060"), &format!("<{at_trunk}>"));
    let by_contact = rig.send_as("alice", &udp(ALICE), &call("sip:carol@example.com"));
    assert_eq!(by_contact.requests().count(), 0);
    let by_name = rig.send_as("alice", &udp(ALICE), &call("sip:0900@trunk.example"));
    let (_, ticket) = by_name.wants_location();
    let place =
        sip::Location { transport: Transport::Udp, remote: TRUNK.parse().unwrap(), local: None };
    assert_eq!(rig.located(ticket, &[place]).requests().count(), 0);
    assert_eq!(rig.count("unreachable"), 4);
}

#[test]
fn a_silent_trunk_is_given_up_after_eight_seconds_and_one_that_tries_is_not() {
    for (tries, expected) in [(false, 1), (true, 0)] {
        let mut rig = office();
        let first = first_leg(&mut rig, "sip:030456@example.com");
        let live = &first.values(HeaderName::Route)[1];
        let uri = "sip:+4930456@trunk.example";
        let draft = to_trunk(&first, live, uri, "sip:+4930123@trunk.example");
        let second = rig.send(&first.flow, &draft).forwarded().clone();
        if tries {
            rig.receive(&second.flow, &second.answer(100, "t", ""));
        }
        // The last repetition of the INVITE in that time is due.
        rig.wait(Duration::from_millis(7600));
        let after = rig.wait(Duration::from_millis(401));
        let silent = after.responses().filter(|sent| sent.status() == 408);
        assert_eq!(silent.count(), expected);
        assert_eq!(invites(&after).len(), 0);
    }
}

/// The responses of the trunk are late, and the next trunk has been tried.
#[test]
fn a_trunk_that_was_given_up_gets_a_cancel_after_its_first_response() {
    for (status, is_refused) in [(100, true), (180, true), (180, false)] {
        let mut rig = office();
        let first = first_leg(&mut rig, "sip:030456@example.com");
        let live = &first.values(HeaderName::Route)[1];
        let uri = "sip:+4930456@trunk.example";
        let draft = to_trunk(&first, live, uri, "sip:+4930123@trunk.example");
        let second = rig.send(&first.flow, &draft).forwarded().clone();
        let given_up = rig.wait(Duration::from_millis(8001));
        let timeout = given_up.responses().next().expect("a response").clone();
        assert_eq!(timeout.status(), 408);
        assert!(given_up.requests().all(|sent| sent.value(HeaderName::CSeq).ends_with("INVITE")));
        rig.send(&first.flow, &ack_of(&draft, &timeout));
        let late = rig.receive(&second.flow, &second.answer(status, "t", ""));
        assert_eq!(late.responses().count(), 0);
        let cancel = late.forwarded().clone();
        assert_eq!(cancel.flow, second.flow);
        assert!(cancel.value(HeaderName::CSeq).ends_with("CANCEL"), "{cancel:?}");
        assert_eq!(cancel.value(HeaderName::Via), second.value(HeaderName::Via));
        assert_eq!(cancel.value(HeaderName::Reason), "SIP;cause=408;text=\"Request Timeout\"");
        rig.receive(&cancel.flow, &cancel.answer(200, "t", ""));
        if is_refused {
            let ended = rig.receive(&second.flow, &second.answer(487, "t", ""));
            assert_eq!((ended.responses().count(), ended.requests().count()), (0, 1));
            assert!(ended.forwarded().value(HeaderName::CSeq).ends_with("ACK"));
        }
        rig.wait(Duration::from_secs(33));
        assert!(rig.wait(Duration::from_secs(33)).is_silent());
        assert_eq!(rig.server.transactions(), 0, "after {status}");
    }
}

#[test]
fn a_trunk_that_stays_silent_leaves_no_transaction() {
    let mut rig = office();
    let first = first_leg(&mut rig, "sip:030456@example.com");
    let live = &first.values(HeaderName::Route)[1];
    let uri = "sip:+4930456@trunk.example";
    let draft = to_trunk(&first, live, uri, "sip:+4930123@trunk.example");
    let second = rig.send(&first.flow, &draft).forwarded().clone();
    rig.wait(Duration::from_millis(8001));
    rig.wait(Duration::from_secs(25));
    assert!(rig.wait(Duration::from_secs(33)).is_silent());
    assert_eq!(rig.server.transactions(), 0);
    let late = rig.receive(&second.flow, &second.answer(180, "t", ""));
    assert_eq!(late.requests().count(), 0);
}

#[test]
fn the_record_names_the_trunk_and_the_user() {
    let mut rig = office();
    let first = first_leg(&mut rig, "sip:030456@example.com");
    let told = first.values(HeaderName::Route)[1]
        .replace('>', ";caller=one;trunk=uplink;user-of-caller=sip:alice%40example.com>");
    let uri = "sip:+4930456@trunk.example";
    let draft = to_trunk(&first, &told, uri, "sip:+4930123@trunk.example");
    let second = rig.send(&first.flow, &draft).forwarded().clone();
    let refused = rig.receive(&second.flow, &second.answer(486, "t", ""));
    let record = refused.events.iter().find_map(|event| match event {
        Event::CallEnded(record) => Some(record),
        _ => None,
    });
    let record = record.expect("the call is recorded");
    assert_eq!((record.trunk.as_deref(), record.is_joined), (Some("uplink"), true));
    assert_eq!(record.caller_call_id.as_deref(), Some("one"));
    assert_eq!(text(&record.report.parties[0]), "sip:alice@example.com");
}

/// Forwards all calls of `user` to the number `number`.
fn forward(rig: &Rig, user: &str, number: &str) {
    let always = Some(format!("{number}@example.com"));
    let services = CallServices { always, ..CallServices::default() };
    rig.server.set_call_services(format!("{user}@example.com").as_bytes(), services);
}

/// The INVITE to the B2BUA among the messages of `reaction`.
fn to_b2bua(reaction: &crate::rig::Reaction) -> Sent {
    let found = reaction.requests().find(|sent| sent.flow.endpoint().is_some());
    found.unwrap_or_else(|| panic!("{reaction:?}")).clone()
}

/// The text of the notice in the log.
fn notice(reaction: &crate::rig::Reaction) -> String {
    let found = reaction.events.iter().find_map(|event| match event {
        Event::Notice(notice) => Some(notice.to_string()),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("{reaction:?}"))
}

#[test]
fn a_forward_to_a_trunk_has_the_rights_of_the_user_that_forwards() {
    let mut rig = office();
    forward(&rig, "alice", "030456");
    let from_bob = call("sip:alice@example.com").with("From", "<sip:bob@example.com>;tag=1");
    let first = to_b2bua(&rig.send_as("bob", &udp(BOB), &from_bob));
    assert_eq!(first.flow, udp(BOB).internal());
    for route in first.values(HeaderName::Route) {
        assert!(route.contains(";payer=a%40b>"), "no stranger: {route}");
    }
    // The other way there is no right, whichever right the caller has.
    forward(&rig, "bob", "030456");
    let refused = rig.send_as("alice", &udp(ALICE), &call("sip:bob@example.com"));
    let last = refused.responses().last().map(Sent::status);
    assert_eq!((last, refused.requests().count()), (Some(404), 0));
    assert_eq!(
        notice(&refused),
        "a call of sip:alice@example.com at udp:198.51.100.10:5060 to 030456 is refused: No Right \
         for National Numbers, for bob@example.com, which forwards"
    );
    forward(&rig, "alice", "0900");
    let premium = rig.send_as("bob", &udp(BOB), &from_bob.next());
    assert_eq!(premium.requests().count(), 0);
    assert!(notice(&premium).contains("to 0900 is refused: Premium Numbers Are Off"));
    assert_eq!(rig.count("numbers-refused"), 2);
}

#[test]
fn the_call_of_a_stranger_that_a_user_forwards_names_its_source_and_that_of_a_trunk_does_not() {
    let mut rig = office();
    forward(&rig, "alice", "030456");
    let stranger = call("sip:alice@example.com").with("From", "<sip:x@foreign.example>;tag=1");
    let first = to_b2bua(&rig.send(&udp(STRANGER), &stranger));
    let source = udp(STRANGER).remote.ip();
    for route in first.values(HeaderName::Route) {
        assert!(route.ends_with(&format!(";payer=a%40b;stranger={source}>")), "{route}");
    }
    // Bob, the user of the number, deflects the call of the trunk to alice.
    let number = call("sip:+4930123@203.0.113.1").with("From", "<sip:+49151@trunk.example>;tag=1");
    let first = rig.send(&udp(TRUNK), &number).forwarded().clone();
    let second = rig.send(&first.flow, &second_leg(&first)).forwarded().clone();
    let deflection = "Contact: <sip:alice@example.com>\r\n";
    let left = rig.receive(&second.flow, &second.answer(302, "b", deflection));
    for route in to_b2bua(&left).values(HeaderName::Route) {
        assert!(route.ends_with(";payer=a%40b>"), "{route}");
    }
}

/// The trunks of [`TwoTrunks`], with rules for their media.
struct WithMedia(TrunkMedia);

impl Trunks for WithMedia {
    fn target(&self, trunk: TrunkId) -> Option<TrunkTarget> {
        TwoTrunks.target(trunk)
    }

    fn of_request(&self, flow: &Flow, user: &[u8]) -> Option<TrunkId> {
        TwoTrunks.of_request(flow, user)
    }

    fn media(&self, _: TrunkId) -> Option<Arc<TrunkMedia>> {
        Some(Arc::new(self.0.clone()))
    }
}

/// The description that trunk 0 gets for a call of alice with PCMU.
fn offered_to_trunk(media: TrunkMedia) -> String {
    let mut rig = office();
    rig.server.set_trunks(Arc::new(WithMedia(media)));
    rig.renew_worker();
    let first = first_leg(&mut rig, "sip:030456@example.com");
    let live = first.values(HeaderName::Route)[1].clone();
    let uri = "sip:+4930456@trunk.example";
    let second = to_trunk(&first, &live, uri, "sip:+4930123@trunk.example");
    body(rig.send(&first.flow, &second).forwarded())
}

#[test]
fn a_trunk_is_offered_its_keys_and_codecs() {
    let keys = |keying| TrunkMedia { keying: Some(keying), codecs: Vec::new() };
    let required = offered_to_trunk(keys(Keying::Required));
    assert!(required.contains(" RTP/SAVP 0\r\n") && required.contains("a=crypto:"), "{required}");
    let offered = offered_to_trunk(keys(Keying::Optional));
    assert!(offered.contains(" RTP/AVP 0\r\n") && offered.contains("a=crypto:"), "{offered}");
    let clear = offered_to_trunk(keys(Keying::Clear));
    assert!(clear.contains(" RTP/AVP 0\r\n") && !clear.contains("a=crypto:"), "{clear}");
    for (codecs, types) in [
        (vec![Codec::Pcma], " 8\r\n"),
        (vec![Codec::Pcmu], " 0\r\n"),
        (vec![Codec::Pcma, Codec::Pcmu], " 0 8\r\n"),
    ] {
        let offered = offered_to_trunk(TrunkMedia { keying: None, codecs });
        assert!(offered.contains(&format!(" RTP/AVP{types}")), "{types:?}: {offered}");
    }
}

#[test]
fn an_offer_of_a_trunk_has_its_keys_and_codecs_only() {
    let media = TrunkMedia { keying: Some(Keying::Required), codecs: vec![Codec::Pcma] };
    let mut rig = office();
    rig.server.set_trunks(Arc::new(WithMedia(media)));
    rig.renew_worker();
    let number = call("sip:+4930123@203.0.113.1").with("From", "<sip:+49151@trunk.example>;tag=1");
    let first = rig.send(&udp(TRUNK), &number).forwarded().clone();
    let refused = rig.send(&first.flow, &second_leg(&first));
    let is_refusal = |response: &Sent| response.status() == 488;
    assert!(refused.responses().any(is_refusal), "it has no keys: {refused:?}");
    assert_eq!(refused.requests().count(), 0);
    let both = secure("198.51.100.10").replace("SAVP 0", "SAVP 0 8");
    let first = rig.send(&udp(TRUNK), &number.next().with_body(&both)).forwarded().clone();
    let second = rig.send(&first.flow, &second_leg(&first)).forwarded().clone();
    assert_eq!(second.flow, udp(BOB));
    assert!(body(&second).contains("RTP/AVP 8\r\n"), "{}", body(&second));
}
