//! Rates, bans and other limits on strangers.

use crate::rig::{
    ALICE, BOB, Draft, Reaction, Rig, STRANGER, Sent, closed_config, open_config, tcp, udp,
};
use barebell_sip_server::config::{Network, State};
use barebell_sip_server::{Config, Event, Flow};
use sip::{Duration, HeaderName, Location, Transport};

/// A server that neither authenticates nor trusts any network.
fn open_to_strangers() -> Config {
    let mut config = open_config();
    config.limits.trusted = Vec::new();
    config
}

pub(crate) fn options() -> Draft {
    Draft::new("OPTIONS", "sip:example.com")
}

/// An INVITE for bob from a user of another domain.
pub(crate) fn from_abroad() -> Draft {
    Draft::invite("sip:bob@example.com").with("From", "<sip:x@foreign.example>;tag=1")
}

#[test]
fn a_source_has_a_burst_and_then_a_rate() {
    let mut config = open_to_strangers();
    (config.limits.source_rate, config.limits.source_burst) = (10, 3);
    let mut rig = Rig::new(config);
    let answered = |rig: &mut Rig, source: &str| {
        let reaction = rig.send(&udp(source), &options());
        assert!(reaction.is_silent() || reaction.status() == 200);
        !reaction.is_silent()
    };
    let burst: Vec<_> = (0..5).map(|_| answered(&mut rig, STRANGER)).collect();
    assert_eq!(burst, [true, true, true, false, false]);
    assert_eq!(rig.count("rate-limited"), 2);
    assert!(answered(&mut rig, ALICE), "others are not concerned");
    assert!(!answered(&mut rig, "192.0.2.99:6000"), "a port is no other source");
    rig.wait(Duration::from_millis(100));
    assert!(answered(&mut rig, STRANGER));
    assert!(!answered(&mut rig, STRANGER));
    // An IPv6 source is a /64.
    for (number, expected) in [(1, true), (2, true), (3, true), (4, false)] {
        assert_eq!(answered(&mut rig, &format!("[2001:db8:0:1::{number}]:5060")), expected);
    }
    assert!(answered(&mut rig, "[2001:db8:0:2::1]:5060"));
}

/// The source of a datagram may be forged. Short requests to a domain with a long name do not get
/// long responses.
#[test]
fn responses_to_unproved_sources_are_short() {
    let long = format!("{}.example", ["a"; 3].map(|label| label.repeat(60)).join("."));
    let mut config = closed_config();
    config.domains[0].name = long.clone();
    config.server_name = "x".repeat(90);
    let mut rig = Rig::new(config);
    let request = |method: &str, uri: &str, field: &str| {
        let from = if uri.contains("@h") { "203.0.113.1" } else { "b" };
        format!(
            "{method} {uri} SIP/2.0\r\nv:SIP/2.0/UDP h;rport;branch=z9hG4bK1\r\nf:<sip:a@{from}>;tag=1\r\n\
             t:<sip:a@203.0.113.1>\r\ni:1\r\nCSeq:1 {method}\r\nMax-Forwards:9\r\n{field}\r\n"
        )
    };
    // The address means the first domain.
    let server = "sip:203.0.113.1";
    let requests = [
        ("REGISTER", server, "", 400),
        ("MESSAGE", "sip:y@h", "", 400),
        ("OPTIONS", server, "", 200),
        ("OPTIONS", server, "Require:x\r\n", 420),
        ("FOO", server, "", 501),
        ("REFER", "sip:bob@203.0.113.1", "", 405),
        ("MESSAGE", "sip:bob@203.0.113.1", "", 404),
        ("MESSAGE", "sips:bob@203.0.113.1", "", 416),
    ];
    for remote in [STRANGER, "[2001:db8:1234:5678:9abc:def0:1234:5678]:60606"] {
        let statuses = requests.map(|(method, uri, field, _)| {
            let text = request(method, uri, field);
            let reaction = rig.receive(&udp(remote), text.as_bytes());
            let response = reaction.response();
            assert!(response.bytes.len() <= 3 * text.len(), "{text}{:?}", response.message());
            response.status()
        });
        assert_eq!(statuses, requests.map(|(.., status)| status), "{remote}");
    }
    assert!(rig.count("unasked") > 0);
    let register = request("REGISTER", server, "l:0\r\n").replace("/UDP", "/TCP");
    let reaction = rig.receive(&tcp(STRANGER, 3), register.as_bytes());
    assert_eq!(reaction.status(), 401, "a connection proves the address");
}

#[test]
fn who_proves_to_be_a_user_is_not_charged() {
    let mut config = closed_config();
    (config.limits.source_rate, config.limits.source_burst) = (1, 3);
    let mut rig = Rig::closed_with(config);
    let register = Draft::register("alice").and("Contact", "<sip:alice@a.example>");
    let asked = rig.send(&udp(ALICE), &register).response().clone();
    for count in 1..20 {
        let draft = register.next().with_credentials(&asked, None, "alice", "alice", count, |_| {});
        let draft = draft.with("Call-ID", &format!("call-{count}"));
        assert_eq!(rig.send(&udp(ALICE), &draft).status(), 200, "{count}");
    }
    let neighbour = udp("198.51.100.10:40000");
    for _ in 0..2 {
        assert_eq!(rig.send(&neighbour, &Draft::register("bob")).status(), 401);
    }
    assert!(rig.send(&neighbour, &Draft::register("bob")).is_silent());
}

#[test]
fn a_registered_phone_is_served_whatever_others_do_behind_its_address() {
    let mut config = strict_config();
    (config.limits.source_rate, config.limits.source_burst) = (1, 20);
    let mut rig = Rig::closed_with(config);
    let phone = tcp(ALICE, 7);
    rig.register("alice", &phone, &format!("<sip:alice@{ALICE};transport=tcp>"));
    let neighbour = "198.51.100.10:40000";
    for _ in 0..3 {
        assert_eq!(guess(&mut rig, neighbour).responses().last().unwrap().status(), 401);
    }
    assert_eq!(rig.count("bans"), 1);
    assert!(rig.send(&udp(neighbour), &Draft::register("bob")).is_silent());
    assert!(rig.send(&phone, &Draft::register("bob")).is_silent(), "another user");
    assert!(rig.send(&tcp(ALICE, 8), &options()).is_silent(), "another connection");
    rig.register("alice", &phone, &format!("<sip:alice@{ALICE};transport=tcp>"));
    // It does not bypass the ban either.
    let tries = (0..200).filter(|_| !rig.send(&phone, &Draft::register("alice")).is_silent());
    assert!(tries.count() < 50);
}

#[test]
fn users_have_a_rate() {
    let mut config = closed_config();
    config.limits.user_rate = 2;
    let mut rig = Rig::closed_with(config);
    let register = Draft::register("alice").and("Contact", "<sip:alice@a.example>");
    let asked = rig.send(&udp(ALICE), &register).response().clone();
    let mut count = 0;
    let mut again = |rig: &mut Rig| {
        count += 1;
        let draft = register.next().with_credentials(&asked, None, "alice", "alice", count, |_| {});
        rig.send(&udp(ALICE), &draft.with("Call-ID", &format!("call-{count}"))).status()
    };
    assert!((0..8).all(|_| again(&mut rig) == 200));
    assert_eq!(again(&mut rig), 500);
    assert_eq!(rig.count("user-limited"), 1);
    rig.register("bob", &udp(ALICE), "<sip:bob@b.example>");
    rig.wait(Duration::from_millis(500));
    assert_eq!(again(&mut rig), 200);
}

#[test]
fn strangers_have_a_rate_towards_our_users() {
    let mut config = closed_config();
    config.limits.foreign_rate = 2;
    let mut rig = Rig::closed_with(config);
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
    for _ in 0..4 {
        rig.send(&udp(STRANGER), &from_abroad()).forwarded();
    }
    let reaction = rig.send(&udp(STRANGER), &from_abroad());
    assert_eq!(reaction.status(), 503);
    assert_eq!(reaction.response().value(HeaderName::RetryAfter), "10");
    assert_eq!(rig.count("foreign-limited"), 1);
    rig.send(&udp("192.0.2.98:5060"), &from_abroad()).forwarded();
    rig.wait(Duration::from_millis(500));
    rig.send(&udp(STRANGER), &from_abroad()).forwarded();
}

/// A server that bans after three failures within ten seconds.
pub(crate) fn strict_config() -> Config {
    let mut config = closed_config();
    config.limits.ban_failures = 3;
    config.limits.ban_window = Duration::from_secs(10);
    config.limits.ban_time = Duration::from_secs(60);
    config
}

/// A REGISTER with a wrong password, after the challenge.
pub(crate) fn guess(rig: &mut Rig, source: &str) -> Reaction {
    let register = Draft::register("alice").and("Contact", "<sip:alice@a.example>");
    let reaction = rig.send(&udp(source), &register);
    let Some(asked) = reaction.sent.first().cloned() else { return reaction };
    rig.send(&udp(source), &register.next().answering(&asked, "alice", "guess"))
}

#[test]
fn guessing_passwords_ends_in_a_ban() {
    let mut rig = Rig::closed_with(strict_config());
    assert_eq!(guess(&mut rig, STRANGER).status(), 401);
    assert_eq!(guess(&mut rig, STRANGER).status(), 401);
    let last = guess(&mut rig, STRANGER);
    assert!(last.sent.iter().all(|sent| sent.status() == 401));
    let notices = last.events.iter().map(|event| match event {
        Event::Notice(notice) => notice.to_string(),
        _ => String::new(),
    });
    let failure = "sip:alice@example.com at udp:192.0.2.99:5060 did not log in: wrong user or \
                   password";
    let ban =
        "192.0.2.99 is banned for 60 s: 3 failed authentications or unknown users within 10 s";
    assert_eq!(notices.collect::<Vec<_>>(), [failure, ban]);
    assert!(rig.send(&udp(STRANGER), &options()).is_silent());
    assert!(rig.send(&tcp(STRANGER, 3), &options()).is_silent());
    assert_eq!(rig.send(&udp(ALICE), &options()).status(), 200, "others are not concerned");
    rig.wait(Duration::from_secs(59));
    assert!(rig.send(&udp(STRANGER), &options()).is_silent());
    rig.wait(Duration::from_secs(1));
    assert_eq!(rig.send(&udp(STRANGER), &options()).status(), 200);
    assert_eq!((rig.count("bans"), rig.count("banned-requests")), (1, 3));
    assert_eq!(rig.count("authentication-failures"), 3);
}

#[test]
fn asking_for_users_who_do_not_exist_ends_in_a_ban_where_the_source_is_certain() {
    let scan = |rig: &mut Rig, flow: &Flow, count: usize| {
        let mut statuses = Vec::new();
        for number in 0..count {
            let scan = from_abroad().with_uri(&format!("sip:{number}@example.com"));
            statuses.extend(rig.send(flow, &scan).responses().map(Sent::status));
        }
        statuses
    };
    let mut rig = Rig::closed_with(strict_config());
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
    assert_eq!(scan(&mut rig, &tcp(STRANGER, 3), 4), [404, 404, 404]);
    assert_eq!((rig.count("bans"), rig.count("banned-requests")), (1, 1));
    // A proxy is not banned for the numbers that its clients dial.
    let mut rig = Rig::closed_with(strict_config());
    let vias = "SIP/2.0/TCP 192.0.2.99;branch=z9hG4bKp, SIP/2.0/UDP 192.0.2.7;branch=z9hG4bKx";
    for number in 0..5 {
        let proxied = from_abroad()
            .with_uri(&format!("sip:{number}@example.com"))
            .with("Via", &vias.replace("z9hG4bKp", &format!("z9hG4bKp{number}")));
        assert_eq!(rig.send(&tcp(STRANGER, 3), &proxied).responses().last().unwrap().status(), 404);
    }
    assert_eq!(rig.count("bans"), 0);
    // The source of a datagram may be forged, so the guesses are limited but not banned.
    let mut rig = Rig::closed_with(strict_config());
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
    let statuses = scan(&mut rig, &udp(STRANGER), 30);
    assert_eq!(statuses.iter().filter(|&&status| status == 404).count(), 10);
    assert_eq!(statuses.iter().filter(|&&status| status == 503).count(), 20);
    // The guesses do not block calls either.
    rig.send(&udp(STRANGER), &from_abroad()).forwarded();
    assert_eq!(rig.count("bans"), 0);
    let register = Draft::register("alice").and("Contact", "<sip:alice@a.example>");
    assert_eq!(rig.send_as("alice", &udp(STRANGER), &register).status(), 200);
}

#[test]
fn a_flood_of_sources_makes_no_ban_be_forgotten() {
    let mut config = strict_config();
    config.limits.max_sources = 64;
    let mut rig = Rig::closed_with(config);
    for _ in 0..3 {
        guess(&mut rig, STRANGER);
    }
    for number in 0..2000 {
        let forged = format!("10.0.{}.{}:5060", number / 250, number % 250);
        rig.send(&udp(&forged), &options());
    }
    assert!(rig.send(&udp(STRANGER), &options()).is_silent());
}

#[test]
fn a_ban_takes_failures_that_come_together() {
    let mut rig = Rig::closed_with(strict_config());
    for _ in 0..6 {
        assert_eq!(guess(&mut rig, STRANGER).status(), 401);
        rig.wait(Duration::from_secs(6));
    }
    assert_eq!(rig.count("bans"), 0);
}

#[test]
fn nobody_is_banned_for_what_another_sent_in_his_name() {
    // Datagrams with a forged source: their sender never received a challenge of this server.
    let mut rig = Rig::closed_with(strict_config());
    let mut other = Rig::closed();
    let asked = other.send(&udp(ALICE), &Draft::register("alice")).response().clone();
    rig.wait(Duration::from_secs(1));
    for _ in 0..10 {
        let forged = Draft::register("alice").with_credentials(
            &asked,
            None,
            "alice",
            "guess",
            1,
            |credentials| {
                credentials.nonce = b"00000000000000000000000000000000";
            },
        );
        assert_eq!(rig.send(&udp(ALICE), &forged).status(), 401);
    }
    assert_eq!(rig.count("bans"), 0);
}

#[test]
fn those_who_are_trusted_are_neither_limited_nor_banned() {
    let mut config = strict_config();
    (config.limits.source_rate, config.limits.source_burst) = (1, 1);
    config.limits.foreign_rate = 1;
    config.limits.trusted = vec![Network { address: "192.0.2.0".parse().unwrap(), prefix: 24 }];
    let mut rig = Rig::closed_with(config);
    rig.register("bob", &udp(STRANGER), &format!("<sip:bob@{BOB}>"));
    for _ in 0..10 {
        assert_eq!(guess(&mut rig, STRANGER).status(), 401);
        rig.send(&udp(STRANGER), &from_abroad()).forwarded();
    }
    assert_eq!((rig.count("bans"), rig.count("rate-limited")), (0, 0));
}

#[test]
fn limits_of_zero_are_none() {
    let mut config = closed_config();
    config.limits.ban_failures = 0;
    config.limits.source_rate = 0;
    config.limits.foreign_rate = 0;
    let mut rig = Rig::closed_with(config);
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
    for _ in 0..3000 {
        assert_eq!(rig.send(&udp(STRANGER), &options()).status(), 200);
    }
    for _ in 0..200 {
        assert_eq!(guess(&mut rig, STRANGER).status(), 401);
        rig.send(&udp(STRANGER), &from_abroad()).forwarded();
    }
}

#[test]
fn no_more_transactions_are_begun_than_may_be() {
    let mut config = open_config();
    config.limits.max_transactions = 2;
    let mut rig = Rig::new(config);
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
    let first = Draft::invite("sip:bob@example.com");
    let forwarded = rig.send(&udp(ALICE), &first).forwarded().clone();
    rig.send(&udp(ALICE), &Draft::invite("sip:bob@example.com")).forwarded();
    let reaction = rig.send(&udp(ALICE), &Draft::invite("sip:bob@example.com"));
    assert_eq!(reaction.status(), 503);
    assert_eq!(reaction.response().value(HeaderName::RetryAfter), "5");
    assert_eq!(rig.count("transaction-limit"), 1);
    rig.receive(&udp(BOB), &forwarded.answer(200, "bob", ""));
    rig.wait(Duration::from_secs(33));
    assert_eq!(rig.server.transactions(), 1, "the answered one is over");
    rig.send(&udp(ALICE), &Draft::invite("sip:bob@example.com")).forwarded();
}

#[test]
fn calls_that_ring_are_bounded_in_bytes_each_source_and_user_and_all() {
    let mut config = closed_config();
    config.limits.max_transaction_bytes = 1 << 20;
    (config.limits.foreign_rate, config.limits.user_rate) = (0, 0);
    let mut rig = Rig::closed_with(config);
    rig.register("bob", &tcp(BOB, 3), &format!("<sip:bob@{BOB};transport=tcp>"));
    let ring = |rig: &mut Rig, source: &str, from: &str, user: Option<&str>| {
        let call = Draft::invite("sip:bob@example.com")
            .with("From", &format!("<sip:{from}>;tag=1"))
            .with_body(&"x".repeat(10_000));
        let reaction = match user {
            Some(user) => rig.send_as(user, &udp(source), &call),
            None => rig.send(&udp(source), &call),
        };
        reaction.responses().next().map_or(0, Sent::status)
    };
    let strangers = |rig: &mut Rig, source: &str| {
        (0..20).map(|_| ring(rig, source, "x@foreign.example", None)).collect::<Vec<_>>()
    };
    let first = strangers(&mut rig, STRANGER);
    assert_eq!((first[0], first[19]), (0, 500));
    let rang = first.iter().filter(|&&status| status == 0).count();
    assert!((4..8).contains(&rang), "an eighth of it: {rang}");
    assert_eq!(ring(&mut rig, "192.0.2.98:5060", "x@foreign.example", None), 0, "another source");
    // A user has an eighth as well, independently of the sources of the calls.
    let alice = (0..20).map(|number| {
        let source = format!("198.51.100.{}:5060", 100 + number);
        ring(&mut rig, &source, "alice@example.com", Some("alice"))
    });
    assert!((4..8).contains(&alice.filter(|&status| status == 0).count()));
    assert_eq!(ring(&mut rig, ALICE, "carol@example.com", Some("carol")), 0, "another user");
    let all: Vec<_> = (0..20).flat_map(|n| strangers(&mut rig, &format!("10.0.0.{n}:1"))).collect();
    assert!(all.contains(&503));
    assert!(rig.server.transaction_bytes() <= 1 << 20);
    assert!(rig.count("share-limit") > 0 && rig.count("transaction-limit") > 0);
    rig.wait(Duration::from_secs(400));
    rig.wait(Duration::from_secs(100));
    rig.wait(Duration::from_secs(100));
    assert_eq!(rig.server.transaction_bytes(), 0);
}

#[test]
fn no_more_targets_are_called_than_may_be() {
    let mut config = open_config();
    config.limits.max_forks = 2;
    let mut rig = Rig::new(config);
    for (host, q) in
        [("192.0.2.1", "0.1"), ("192.0.2.2", "1"), ("192.0.2.3", "0.5"), ("192.0.2.4", "1")]
    {
        let contact = format!("<sip:bob@{host}>;q={q}");
        let draft = Draft::register("bob").and("Contact", &contact);
        assert_eq!(rig.send(&udp(BOB), &draft).status(), 200);
    }
    let reaction = rig.send(&udp(ALICE), &Draft::invite("sip:bob@example.com"));
    let mut called: Vec<_> =
        reaction.requests().map(|sent| sent.flow.remote.ip().to_string()).collect();
    called.sort();
    assert_eq!(called, ["192.0.2.2", "192.0.2.4"], "the preferred ones");
    assert_eq!(rig.count("fork-limit"), 2);
}

#[test]
fn handshakes_are_charged_like_requests() {
    let mut config = closed_config();
    (config.limits.source_rate, config.limits.source_burst) = (5, 10);
    let mut rig = Rig::new(config);
    let flow = |transport, remote: &str| Flow { transport, ..tcp(remote, 9) };
    let admitted = |rig: &Rig, flow: Flow| {
        (0..100).filter(|_| rig.server.admits_handshake(&flow, rig.now)).count()
    };
    assert!((5..=15).contains(&admitted(&rig, flow(Transport::Tls, STRANGER))));
    assert!(rig.send(&tcp(STRANGER, 1), &options()).is_silent());
    assert_eq!(rig.send(&udp(STRANGER), &options()).status(), 200, "a datagram is no connection");
    assert_eq!(admitted(&rig, flow(Transport::Tls, ALICE)), 10, "others are let in");
    assert_eq!(admitted(&rig, flow(Transport::Tls, "127.0.0.1:9")), 100, "a trusted network");
    assert!(admitted(&rig, flow(Transport::Wss, "127.0.0.2:9")) <= 15, "no WebSocket is trusted");
}

#[test]
fn what_is_sent_for_a_request_names_its_source_and_user_to_charge() {
    for state in [State::Stateful, State::Stateless] {
        let mut rig = Rig::closed_with(Config { state, ..closed_config() });
        let mut payers = |user: &str, from: &str, uri: &str| {
            let reaction = rig.send_as(
                user,
                &udp(from),
                &Draft::invite(uri)
                    .with("From", &format!("<sip:{user}@example.com>;tag=alice-tag")),
            );
            if reaction.events.is_empty() {
                return reaction.requests().next().expect("a request").payers;
            }
            let (_, ticket) = reaction.wants_location();
            let remote = "192.0.2.50:5061".parse().unwrap();
            let place = Location { transport: Transport::Tcp, remote, local: None };
            rig.located(ticket, &[place]).requests().next().expect("a request").payers
        };
        let address = "sip:x@192.0.2.50;transport=tcp";
        let by_name = payers("alice", ALICE, "sip:x@trunk.example;transport=tcp");
        let alice = payers("alice", ALICE, address);
        assert!(alice.source.is_some() && alice.user.is_some(), "{alice:?}");
        assert_eq!(by_name, alice, "{state:?}");
        let elsewhere = payers("alice", STRANGER, address);
        assert_eq!(elsewhere.user, alice.user);
        assert_ne!(elsewhere.source, alice.source);
        assert_ne!(payers("bob", ALICE, address).user, alice.user);
    }
}
