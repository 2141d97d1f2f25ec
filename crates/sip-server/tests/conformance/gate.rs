//! Admission of requests: datagrams forged in the name of a source, and guesses of others from it,
//! do not shut out requests with stronger evidence.

use crate::dialog::answer;
use crate::limits::{from_abroad, guess, options, strict_config};
use crate::rig::{ALICE, BOB, Draft, Rig, STRANGER, Sent, closed_config, tcp, udp};
use barebell_sip_server::Flow;
use barebell_sip_server::config::{Listener, Network, Speaker};
use sip::{Duration, HeaderName, Transport};

/// Sends `forged` on `flow` until the allowance for such requests is used up.
fn flood(rig: &mut Rig, flow: &Flow, forged: &Draft) {
    while !rig.send(flow, &forged.next()).is_silent() {}
}

#[test]
fn forged_datagrams_take_nothing_from_a_connection_of_their_source() {
    let mut config = closed_config();
    (config.limits.source_rate, config.limits.source_burst) = (1, 20);
    (config.limits.foreign_rate, config.limits.max_transaction_bytes) = (2, 1 << 20);
    let mut rig = Rig::closed_with(config);
    rig.register("bob", &tcp(BOB, 3), &format!("<sip:bob@{BOB};transport=tcp>"));
    flood(&mut rig, &udp(STRANGER), &from_abroad().with_body(&"x".repeat(10_000)));
    let flow = tcp("192.0.2.99:7000", 8);
    for _ in 0..4 {
        rig.send(&flow, &from_abroad()).forwarded();
    }
    assert_eq!(rig.send(&flow, &from_abroad()).status(), 503, "a rate of its own");
    assert!((0..15).all(|_| rig.send(&flow, &options()).status() == 200));
    assert!(rig.send(&flow, &options()).is_silent());
}

#[test]
fn a_phone_logs_in_and_calls_whatever_is_forged_in_its_name() {
    let mut config = closed_config();
    (config.limits.source_rate, config.limits.source_burst) = (1, 20);
    let mut rig = Rig::closed_with(config);
    rig.register("bob", &tcp(BOB, 3), &format!("<sip:bob@{BOB};transport=tcp>"));
    // The phone has a nonce from before the flood.
    let register = Draft::register("alice").and("Contact", "<sip:alice@a.example>");
    let asked = rig.send(&udp(ALICE), &register).response().clone();
    let forged = options().with("From", "<sip:alice@example.com>;tag=1");
    flood(&mut rig, &udp(ALICE), &forged);
    assert!(rig.send(&udp(ALICE), &register.next()).is_silent(), "nobody is known there");
    let register = register.next().with_credentials(&asked, None, "alice", "alice", 1, |_| {});
    assert_eq!(rig.send(&udp(ALICE), &register).status(), 200);
    // From then on it may also log in without a nonce, from any port of its NAT.
    for port in 40_000..40_010 {
        let flow = udp(&format!("198.51.100.10:{port}"));
        flood(&mut rig, &flow, &forged);
        rig.register("alice", &flow, "<sip:alice@a.example>");
        let call =
            Draft::invite("sip:bob@example.com").with("From", "<sip:alice@example.com>;tag=1");
        rig.send_as("alice", &flow, &call).forwarded();
    }
    let invented = Draft::register("bob").and(
        "Authorization",
        "Digest username=\"bob\", realm=\"example.com\", \
        nonce=\"00000000000000000000000000000000\", uri=\"sip:example.com\", response=\"0\"",
    );
    assert!(rig.send(&udp("198.51.100.10:7"), &invented).is_silent(), "no nonce of ours");
    flood(&mut rig, &udp(STRANGER), &options());
    let elsewhere = Draft::register("alice");
    assert!(rig.send(&udp(STRANGER), &elsewhere).is_silent(), "not where she has logged in");
}

#[test]
fn a_call_goes_on_whatever_is_forged_in_the_name_of_its_ends() {
    let mut config = closed_config();
    (config.limits.source_rate, config.limits.source_burst) = (1, 20);
    let mut rig = Rig::closed_with(config);
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
    let call = from_abroad().with("Contact", &format!("<sip:x@{STRANGER}>"));
    let forwarded = rig.send(&udp(STRANGER), &call).forwarded().clone();
    let phone = format!("sip:bob@{BOB}");
    let answered = answer(&mut rig, &forwarded, 200, &phone);
    flood(&mut rig, &udp(STRANGER), &options());
    let bye = call
        .next()
        .with_method("BYE")
        .with("To", &answered.value(HeaderName::To))
        .with_uri(&phone)
        .and("Route", &answered.values(HeaderName::RecordRoute).pop().unwrap());
    rig.send(&udp(STRANGER), &bye).forwarded();
    let forged = bye.with("Call-ID", "another");
    assert!(rig.send(&udp(STRANGER), &forged).is_silent(), "the token is for another dialog");
}

#[test]
fn a_user_comes_back_to_an_address_that_is_banned() {
    let mut config = strict_config();
    (config.limits.source_rate, config.limits.source_burst) = (1, 100);
    let mut rig = Rig::closed_with(config);
    let contact = format!("<sip:alice@{ALICE};transport=tcp>");
    rig.register("alice", &tcp(ALICE, 1), &contact);
    rig.end(&tcp(ALICE, 1));
    let tls = |number| Flow { transport: Transport::Tls, ..tcp(ALICE, number) };
    for _ in 0..3 {
        guess(&mut rig, "198.51.100.10:40000");
    }
    assert_eq!(rig.count("bans"), 1);
    assert!(rig.server.admits_handshake(&tls(2), rig.now));
    rig.register("alice", &tls(2), &contact);
    assert_eq!(
        rig.send(&tls(2), &options().with("From", "<sip:alice@example.com>;tag=1")).status(),
        200
    );
    // Other users there may not, other requests may not, and logins are rare.
    assert!(rig.send(&tcp(ALICE, 3), &Draft::register("bob")).is_silent());
    assert!(rig.send(&tcp(ALICE, 3), &Draft::invite("sip:bob@example.com")).is_silent());
    let register = || Draft::register("alice");
    let tries = (0..200).filter(|_| !rig.send(&tcp(ALICE, 3), &register()).is_silent());
    assert!(tries.count() <= 10);
    let handshakes = (0..200).filter(|_| rig.server.admits_handshake(&tls(9), rig.now));
    assert!(handshakes.count() <= 10);
    rig.wait(Duration::from_secs(5));
    // One wrong password ends the exception.
    let asked = rig.send(&tcp(ALICE, 3), &register()).response().clone();
    let wrong = register().answering(&asked, "alice", "wrong");
    assert_eq!(rig.send(&tcp(ALICE, 3), &wrong).responses().last().unwrap().status(), 401);
    assert!(rig.send(&tcp(ALICE, 3), &register()).is_silent());
}

/// A server that also listens for WebSocket, and trusts this machine, as by default.
fn with_web() -> Rig {
    let mut config = closed_config();
    let address = "203.0.113.1:80".parse().unwrap();
    config.listeners.push(Listener { transport: Transport::Ws, address });
    config.limits.proxies = vec![Network { address: "127.0.0.9".parse().unwrap(), prefix: 32 }];
    (config.limits.ban_failures, config.limits.foreign_rate) = (3, 1000);
    let mut rig = Rig::closed_with(config);
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
    rig
}

#[test]
fn no_address_makes_a_web_socket_trusted_nor_a_proxy_that_names_no_client() {
    let ws = |remote: &str, number| Flow { transport: Transport::Ws, ..tcp(remote, number) };
    for (flow, is_trusted) in [
        (udp("127.0.0.1:7000"), true),
        (tcp("127.0.0.1:7000", 7), true),
        (ws("127.0.0.1:7000", 8), false),
        (tcp("127.0.0.9:7000", 9), false),
        (udp("127.0.0.9:7000"), true),
    ] {
        let mut rig = with_web();
        let call = from_abroad().and("P-Asserted-Identity", "<sip:boss@example.com>");
        let forwarded = rig.send(&flow, &call).forwarded().clone();
        let is_believed = !forwarded.value(HeaderName::PAssertedIdentity).is_empty();
        assert_eq!(is_believed, is_trusted, "{flow}");
        // A place on this machine, or in its network.
        for place in ["127.0.0.1:6379", "10.0.0.7:5060"] {
            let out = Draft::new("MESSAGE", &format!("sip:x@{place}"));
            let status =
                rig.send_as("alice", &flow, &out).responses().next().map(|sent| sent.status());
            assert_eq!(status, (!is_trusted).then_some(480), "{flow} to {place}");
        }
        let path = Draft::register("carol").and("Contact", "<sip:carol@c.example>");
        let reaction = rig.send_as("carol", &flow, &path.and("Path", "<sip:192.0.2.7;lr>"));
        assert_eq!(reaction.status(), if is_trusted { 200 } else { 403 }, "{flow}");
        for _ in 0..5 {
            let register = Draft::register("carol");
            let reaction = rig.send(&flow, &register);
            if let Some(asked) = reaction.sent.first() {
                rig.send(&flow, &register.next().answering(asked, "carol", "guess"));
            }
        }
        assert_eq!(rig.count("bans"), u64::from(!is_trusted), "{flow}");
    }
}

#[test]
fn a_trusted_network_speaks_for_names_that_nobody_can_prove_and_for_those_it_is_given() {
    let trusted = Network { address: "192.0.2.0".parse().unwrap(), prefix: 24 };
    let mut config = closed_config();
    config.limits.trusted = vec![trusted];
    config.limits.speakers =
        vec![Speaker { network: trusted, names: vec!["car*".into(), "dave".into()] }];
    let mut rig = Rig::closed_with(config);
    rig.add_user("dave");
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
    let status = |rig: &mut Rig, source: &str, uri: &str, from: &str| {
        let call = Draft::invite(uri).with("From", &format!("<{from}>;tag=1"));
        rig.send(&udp(source), &call).responses().next().map_or(0, Sent::status)
    };
    let bob = "sip:bob@example.com";
    let outside = "198.51.100.77:5060";
    for (from, of_gateway, of_stranger) in [
        ("sip:+4930123456@example.com", 0, 407),
        ("sip:+4930123456@203.0.113.1", 0, 407),
        ("sip:anonymous@example.com", 0, 407),
        ("sip:example.com", 0, 403),
        ("sip:carol@example.com", 0, 407),
        ("sip:dave@example.com", 0, 407),
        ("sip:alice@example.com", 407, 407),
    ] {
        assert_eq!(status(&mut rig, STRANGER, bob, from), of_gateway, "{from}");
        assert_eq!(status(&mut rig, outside, bob, from), of_stranger, "{from}");
    }
    // The trust applies to calls to local users, not to calls elsewhere.
    let elsewhere = "sip:00900123@198.51.100.9";
    assert_eq!(status(&mut rig, STRANGER, elsewhere, "sip:carol@example.com"), 403);
    assert_eq!(status(&mut rig, STRANGER, elsewhere, "sip:+493@example.com"), 403);
    // The name is valid within the dialog.
    let call = Draft::invite(bob)
        .with("From", "<sip:+4930123456@example.com>;tag=1")
        .with("Contact", &format!("<sip:+4930123456@{STRANGER}>"));
    let forwarded = rig.send(&udp(STRANGER), &call).forwarded().clone();
    let phone = format!("sip:bob@{BOB}");
    let answered = answer(&mut rig, &forwarded, 200, &phone);
    let bye = call
        .next()
        .with_method("BYE")
        .with("To", &answered.value(HeaderName::To))
        .with_uri(&phone)
        .and("Route", &answered.values(HeaderName::RecordRoute).pop().unwrap());
    rig.send(&udp(STRANGER), &bye).forwarded();
}
