//! The destinations that a party may have the server send to, and the amount of data.

use crate::rig::{ALICE, BOB, Draft, Rig, STRANGER, Sent, closed_config, tcp, text, udp};
use barebell_sip_server::Config;
use barebell_sip_server::config::{Network, State};
use sip::{Duration, HeaderName, Location, Transport};

const STATES: [State; 2] = [State::Stateful, State::Stateless];
/// A phone in the network of the operator.
const INSIDE: &str = "10.0.0.7:5060";

fn rig(state: State) -> Rig {
    Rig::closed_with(Config { state, ..closed_config() })
}

/// The status of the response to a request from alice at `source` to `uri`. 0 if it is forwarded.
fn fate(rig: &mut Rig, source: &str, uri: &str) -> u16 {
    let message = Draft::new("MESSAGE", uri);
    let reaction = rig.send_as("alice", &udp(source), &message);
    reaction.responses().next().map_or(0, Sent::status)
}

#[test]
fn networks_are_open_from_within() {
    for state in STATES {
        for (source, uri, expected) in [
            (ALICE, "sip:x@192.0.2.5", 0),
            (ALICE, "sip:x@10.0.0.9", 480),
            (ALICE, "sip:x@192.168.0.9", 480),
            (ALICE, "sip:x@100.64.0.9", 480),
            (ALICE, "sip:x@[fd00::9]", 480),
            (ALICE, "sip:x@127.0.0.1:6379;transport=tcp", 480),
            (ALICE, "sip:x@127.0.0.1:6380;transport=tcp", 480),
            (ALICE, "sip:x@[::1]", 480),
            (ALICE, "sip:x@[::ffff:127.0.0.1]", 480),
            (ALICE, "sip:x@169.254.169.254:80", 480),
            (ALICE, "sip:x@224.0.1.75", 480),
            (ALICE, "sip:x@255.255.255.255", 480),
            (ALICE, "sip:x@0.0.0.0", 480),
            // Other programs on the machine of the server.
            (ALICE, "sip:x@203.0.113.1:6379;transport=tcp", 480),
            (ALICE, "sip:x@[2001:db8::10]:22;transport=tcp", 480),
            (INSIDE, "sip:x@10.0.0.9", 0),
            (INSIDE, "sip:x@192.0.2.5", 0),
            (INSIDE, "sip:x@127.0.0.1", 480),
            ("127.0.0.1:5070", "sip:x@127.0.0.1:5080", 0),
        ] {
            assert_eq!(fate(&mut rig(state), source, uri), expected, "{source} {uri} {state:?}");
        }
        let mut config = Config { state, ..closed_config() };
        let network = Network { address: "10.0.0.0".parse().unwrap(), prefix: 28 };
        config.limits.reachable = vec![network];
        let mut rig = Rig::closed_with(config);
        assert_eq!(fate(&mut rig, ALICE, "sip:x@10.0.0.9"), 0);
        assert_eq!(fate(&mut rig, ALICE, "sip:x@10.0.0.16"), 480);
    }
}

#[test]
fn a_route_and_a_name_lead_no_further() {
    for state in STATES {
        let mut rig = rig(state);
        let message = Draft::new("MESSAGE", "sip:x@192.0.2.5").and("Route", "<sip:10.0.0.9;lr>");
        let reaction = rig.send_as("alice", &udp(ALICE), &message);
        assert_eq!(reaction.responses().next().map(Sent::status), Some(480), "{state:?}");
        let place = |remote: &str| Location {
            transport: Transport::Tcp,
            remote: remote.parse().unwrap(),
            local: None,
        };
        for (places, expected) in [
            (&["127.0.0.1:6379"][..], None),
            (&["10.0.0.9:5060", "169.254.169.254:80"], None),
            (&["10.0.0.9:5060", "192.0.2.5:5060"], Some("192.0.2.5:5060")),
        ] {
            let message = Draft::new("MESSAGE", "sip:x@inside.example");
            let (_, ticket) = rig.send_as("alice", &udp(ALICE), &message).wants_location();
            let places: Vec<_> = places.iter().map(|remote| place(remote)).collect();
            let reaction = rig.located(ticket, &places);
            let went = reaction.requests().next().map(|sent| sent.flow.remote);
            assert_eq!(went, expected.map(|remote| remote.parse().unwrap()), "{state:?}");
            // The same response as for a name without any address.
            let status = reaction.responses().next().map(Sent::status);
            assert_eq!(status, expected.is_none().then_some(480));
        }
    }
}

#[test]
fn a_phone_inside_is_reached_on_its_flow_and_where_it_says_from_there() {
    for state in STATES {
        let mut rig = rig(state);
        rig.register("bob", &udp(INSIDE), &format!("<sip:bob@{INSIDE}>"));
        let call = Draft::new("MESSAGE", "sip:bob@example.com")
            .with("From", "<sip:x@foreign.example>;tag=1");
        assert_eq!(rig.send(&udp(STRANGER), &call).forwarded().flow, udp(INSIDE));
        // The phone takes calls at another address of its network.
        rig.register("carol", &udp(INSIDE), "<sip:carol@10.0.0.8>");
        let call = call.next().with_uri("sip:carol@example.com");
        let forwarded = rig.send(&udp(STRANGER), &call).forwarded().clone();
        assert_eq!(forwarded.flow.remote, "10.0.0.8:5060".parse().unwrap());
        // A phone elsewhere must not name such an address.
        rig.register("alice", &udp(ALICE), "<sip:alice@127.0.0.1>");
        let call = call.next().with_uri("sip:alice@example.com");
        assert_eq!(rig.send(&udp(STRANGER), &call).responses().next().unwrap().status(), 480);
    }
}

/// In a transfer the call goes to the phone's own contact.
#[test]
fn a_request_for_a_registered_contact_goes_where_the_phone_is() {
    for state in STATES {
        let mut rig = rig(state);
        let (bob, contact) = (udp("198.51.100.20:40000"), "sip:bob-0x55@192.168.1.20:5060");
        rig.register("bob", &bob, &format!("<{contact}>"));
        let invite = Draft::invite(&format!("{contact};x=y"));
        let forwarded = rig.send_as("alice", &udp(ALICE), &invite).forwarded().clone();
        assert_eq!(forwarded.flow, bob, "{state:?}");
        assert_eq!(forwarded.request_uri(), format!("{contact};x=y"));
        // Strangers as well, because it is equivalent to a call to bob.
        let stranger = invite.next().with("From", "<sip:x@foreign.example>;tag=1");
        assert_eq!(rig.send(&udp(STRANGER), &stranger.next()).forwarded().flow, bob);
        // A phone that is not at an address has no claim to requests to it.
        rig.register("carol", &udp(BOB), "<sip:00900123@192.0.2.5>");
        let invite = Draft::invite("sip:00900123@192.0.2.5");
        let forwarded = rig.send_as("alice", &udp(ALICE), &invite).forwarded().clone();
        assert_eq!(forwarded.flow.remote, "192.0.2.5:5060".parse().unwrap());
        // Another user that registers the same contact gets no requests for bob.
        rig.register("carol", &udp(BOB), &format!("<{contact}>"));
        let meant = Draft::invite(contact);
        let both = [("x@foreign.example", &bob), ("carol@example.com", &udp(BOB))];
        for (to, flow) in both {
            let draft = meant.next().with("To", &format!("<sip:{to}>"));
            let forwarded = rig.send_as("alice", &udp(ALICE), &draft).forwarded().clone();
            assert_eq!(forwarded.flow, *flow, "{to} {state:?}");
        }
        rig.register("bob", &bob, &format!("<{contact}>"));
        let forwarded = rig.send_as("alice", &udp(ALICE), &meant.next()).forwarded().clone();
        assert_eq!(forwarded.flow, bob, "also once he has registered again");
        let gone = Draft::register("carol").and("Contact", "*").and("Expires", "0");
        assert_eq!(rig.send_as("carol", &udp(BOB), &gone).status(), 200);
        assert_eq!(fate(&mut rig, ALICE, contact), 0);
        rig.wait(Duration::from_secs(3602));
        assert_eq!(fate(&mut rig, ALICE, contact), 480, "he is gone");
    }
}

/// With the contact of a phone that is no longer registered, or never was on a flow.
#[test]
fn a_contact_that_names_another_user_is_no_claim() {
    for state in STATES {
        let mut rig = rig(state);
        for contact in ["sip:bob@192.168.1.20:5060", "sip:b%6fb@192.168.1.20:5060"] {
            rig.register("carol", &udp(BOB), &format!("<{contact}>"));
            assert_eq!(fate(&mut rig, ALICE, contact), 480, "{contact} {state:?}");
        }
        let free = "sip:phone-7@192.168.1.20:5060";
        rig.register("carol", &udp(BOB), &format!("<{free}>"));
        assert_eq!(fate(&mut rig, ALICE, free), 0);
        rig.register("bob", &udp("198.51.100.20:40000"), "<sip:bob@192.168.1.20:5060>");
        assert_eq!(fate(&mut rig, ALICE, "sip:bob@192.168.1.20:5060"), 0);
    }
}

/// The same private address may belong to another host in another network.
#[test]
fn a_contact_claims_no_address_that_the_sender_can_reach() {
    for state in STATES {
        let mut rig = rig(state);
        rig.register("carol", &udp(BOB), "<sip:112@10.0.0.9>");
        let call = Draft::invite("sip:112@10.0.0.9");
        let forwarded = rig.send_as("alice", &udp(INSIDE), &call).forwarded().clone();
        assert_eq!(forwarded.flow.remote, "10.0.0.9:5060".parse().unwrap(), "{state:?}");
        // A phone that was seen at the address is reached there.
        rig.register("bob", &udp("10.0.0.9:40000"), "<sip:bob@10.0.0.9:40000>");
        let call = Draft::invite("sip:bob@10.0.0.9:40000");
        let forwarded = rig.send_as("alice", &udp(INSIDE), &call).forwarded().clone();
        assert_eq!(forwarded.flow, udp("10.0.0.9:40000"));
    }
}

/// An office behind one address. Its phones have answered nothing since the restart.
#[test]
fn all_phones_behind_one_address_ring_after_a_restart() {
    let mut rig = rig(State::Stateful);
    let mut journal = Vec::new();
    for port in 40_000..40_006 {
        let flow = udp(&format!("198.51.100.20:{port}"));
        let contact = format!("<sip:bob@198.51.100.20:{port}>");
        let draft = Draft::register("bob").and("Contact", &contact);
        journal.extend(rig.send_as("bob", &flow, &draft).journal);
    }
    let mut restarted = self::rig(State::Stateful);
    for record in barebell_sip_server::journal_record::read(&journal) {
        restarted.restore(&record.unwrap());
    }
    let call = Draft::invite("sip:bob@example.com").with("From", "<sip:x@foreign.example>;tag=1");
    let reaction = restarted.send(&udp(STRANGER), &call);
    assert_eq!(reaction.requests().count(), 6);
    assert_eq!(bytes_to(&mut restarted, &reaction.sent, "198.51.100.20").0, 6 * 7, "timer A");
}

/// The number of messages and bytes sent to `host`, until no more are sent.
fn bytes_to(rig: &mut Rig, first: &[Sent], host: &str) -> (usize, usize) {
    let is_there = |sent: &&Sent| {
        sent.flow.transport == Transport::Udp && sent.flow.remote.ip().to_string().starts_with(host)
    };
    let mut sent: Vec<Sent> = first.iter().filter(is_there).cloned().collect();
    for _ in 0..400 {
        let reaction = rig.wait(Duration::from_millis(100));
        sent.extend(reaction.sent.iter().filter(is_there).cloned());
    }
    (sent.len(), sent.iter().map(|sent| sent.bytes.len()).sum())
}

#[test]
fn who_never_answered_is_sent_no_more_than_three_times_what_came() {
    for body in ["", "x"] {
        let mut rig = rig(State::Stateful);
        let contacts: Vec<_> = (0..10).map(|at| format!("<sip:{at}@192.0.2.55:7000>")).collect();
        rig.register("bob", &udp(BOB), &contacts.join(", "));
        // Longer requests go by TCP, which needs the consent of the host.
        let call = Draft::invite("sip:bob@example.com")
            .with("From", "<sip:x@foreign.example>;tag=1")
            .with_body(&body.repeat(600));
        let reaction = rig.send(&udp(STRANGER), &call);
        let received = call.bytes(&udp(STRANGER)).len();
        let (count, bytes) = bytes_to(&mut rig, &reaction.sent, "192.0.2.55");
        assert!(count > 0 && bytes <= 3 * received, "{count} of {bytes} for {received}");
        assert!(rig.count("unasked") > 0);
    }
}

#[test]
fn who_has_answered_once_is_called_as_often_as_it_takes() {
    for (contact, later) in [
        ("192.0.2.55", "192.0.2.55"),
        // A host may change its address within a /64.
        ("[2001:db8:5::1]", "[2001:db8:5::ffff]"),
    ] {
        let mut rig = rig(State::Stateful);
        rig.register("bob", &udp(BOB), &format!("<sip:bob@{contact}:7000>"));
        let call =
            || Draft::invite("sip:bob@example.com").with("From", "<sip:x@foreign.example>;tag=1");
        let forwarded = rig.send(&udp(STRANGER), &call()).forwarded().clone();
        rig.receive(&forwarded.flow, &forwarded.answer(486, "bob", ""));
        rig.register("bob", &udp(BOB), &format!("<sip:bob@{contact}:7000>;expires=0"));
        rig.register("bob", &udp(BOB), &format!("<sip:bob@{later}:7000>"));
        let reaction = rig.send(&udp(STRANGER), &call());
        let host = later.trim_matches(['[', ']']);
        assert_eq!(bytes_to(&mut rig, &reaction.sent, host).0, 7, "timer A");
    }
}

/// The addresses of an IPv6 /64 are one source, which has one allowance.
#[test]
fn the_addresses_of_one_source_share_what_they_may_be_sent() {
    let mut rig = rig(State::Stateful);
    let contacts = (0..10).map(|host| format!("<sip:bob@[2001:db8:5::{host}]:7000>"));
    rig.register("bob", &udp(BOB), &contacts.collect::<Vec<_>>().join(", "));
    let call = Draft::invite("sip:bob@example.com").with("From", "<sip:x@foreign.example>;tag=1");
    let received = call.bytes(&udp(STRANGER)).len();
    let reaction = rig.send(&udp(STRANGER), &call);
    let (count, bytes) = bytes_to(&mut rig, &reaction.sent, "2001:db8:5::");
    assert!(count > 0 && bytes <= 3 * received, "{count} of {bytes} for {received}");
}

#[test]
fn a_forged_sender_is_not_flooded_with_answers() {
    let mut rig = rig(State::Stateful);
    rig.register("bob", &tcp(BOB, 3), &format!("<sip:bob@{BOB};transport=tcp>"));
    let call = Draft::invite("sip:bob@example.com").with("From", "<sip:x@foreign.example>;tag=1");
    let received = call.bytes(&udp(STRANGER)).len();
    let reaction = rig.send(&udp(STRANGER), &call);
    let forwarded = reaction.forwarded().clone();
    let mut bytes: usize = reaction.responses().map(|sent| sent.bytes.len()).sum();
    let success = forwarded.answer(200, "bob", &format!("Contact: <sip:bob@{BOB}>\r\n"));
    let repeat = |rig: &mut Rig| {
        let answers = (0..11).map(|_| rig.receive(&forwarded.flow, &success));
        answers.flat_map(|reaction| reaction.sent).map(|sent| sent.bytes.len()).sum::<usize>()
    };
    bytes += repeat(&mut rig);
    assert!(bytes > 0 && bytes <= 3 * received, "{bytes} for {received}");
}

/// The answering phone changes the Via of the caller.
#[test]
fn a_response_whose_connection_is_gone_goes_to_where_the_request_came_from() {
    for state in STATES {
        let caller = tcp("192.0.2.99:40000", 7);
        let mut rig = rig(state);
        rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
        let call = Draft::invite("sip:bob@example.com")
            .with("From", "<sip:x@foreign.example>;tag=1")
            .with("Via", "SIP/2.0/TCP 192.0.2.99:5070;branch=z9hG4bKcall");
        let forwarded = rig.send(&caller, &call).forwarded().clone();
        let answer = text(&forwarded.answer(200, "bob", ""));
        for changed in ["192.0.2.99:22", "198.51.100.7:5070;received=198.51.100.7"] {
            let changed = answer.replace("192.0.2.99:5070", changed);
            let reaction = rig.receive(&udp(BOB), changed.as_bytes());
            for sent in &reaction.sent {
                let retry = rig.undeliverable(&sent.flow, &sent.bytes);
                for sent in retry.sent {
                    assert_eq!(sent.flow.remote, "192.0.2.99:5070".parse().unwrap(), "{state:?}");
                }
            }
        }
        let sent = rig.receive(&udp(BOB), answer.as_bytes()).response().clone();
        if state == State::Stateful {
            let retry = rig.undeliverable(&sent.flow, &sent.bytes);
            assert_eq!(retry.response().flow.remote, "192.0.2.99:5070".parse().unwrap());
        }
    }
}

#[test]
fn what_nothing_can_be_sent_to_is_not_registered() {
    for (contact, path, expected) in [
        ("<sip:alice@255.255.255.255>", None, 400),
        ("<sip:alice@224.0.0.1>", None, 400),
        ("<sip:alice@198.51.100.10:0>", None, 400),
        ("<sips:alice@a.example>", None, 400),
        ("<sip:alice@a.example;transport=tls>", None, 400),
        ("<sip:alice@a.example;transport=sctp>", None, 400),
        ("<sip:alice@a.example>", Some("garbage"), 400),
        ("<sip:alice@a.example>", Some("<sip:edge.example;lr>, <tel:1>"), 400),
        ("<sip:alice@a.example>", Some("<sip:edge.example;lr>"), 403),
        ("<sip:alice@a.example>", None, 200),
    ] {
        let mut draft = Draft::register("alice").and("Contact", contact);
        if let Some(path) = path {
            draft = draft.and("Path", path).and("Supported", "path");
        }
        let reaction = rig(State::Stateful).send_as("alice", &udp(ALICE), &draft);
        assert_eq!(reaction.status(), expected, "{contact} {path:?}");
    }
    // With phones reached by their contact, or else on their flow.
    for (by_contact, expected) in [(true, 400), (false, 200)] {
        let mut config = closed_config();
        let network = Network { address: "198.51.100.10".parse().unwrap(), prefix: 32 };
        config.registrar.by_contact = by_contact.then_some(network).into_iter().collect();
        let mut rig = Rig::closed_with(config);
        let draft = Draft::register("alice").and("Contact", "<sip:alice@0.0.0.0:5060>");
        assert_eq!(rig.send_as("alice", &udp(ALICE), &draft).status(), expected);
        if expected == 200 {
            let call = Draft::new("MESSAGE", "sip:alice@example.com")
                .with("From", "<sip:x@foreign.example>;tag=1");
            assert_eq!(rig.send(&udp(STRANGER), &call).forwarded().flow, udp(ALICE));
        }
    }
    // On its flow, whatever the contact says.
    let mut rig = rig(State::Stateful);
    rig.register("alice", &tcp(ALICE, 3), "<sip:alice@a.example;transport=tls>");
    let mut config = closed_config();
    let network = Network { address: "198.51.100.10".parse().unwrap(), prefix: 32 };
    config.limits.trusted = vec![network];
    let mut rig = Rig::closed_with(config);
    let draft = Draft::register("alice")
        .and("Contact", "<sip:alice@a.example>")
        .and("Path", "<sip:edge.example;lr>");
    let reaction = rig.send_as("alice", &udp(ALICE), &draft);
    assert_eq!(reaction.status(), 200, "{}", text(&reaction.response().bytes));
    assert!(!reaction.response().values(HeaderName::Contact).is_empty());
}
