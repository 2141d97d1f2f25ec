//! The lookup of the next hop, and failover to the next place (RFC 3261 section 18.1.1, RFC 3263
//! section 4.3).

use crate::bench::{ALICE, Bench, config, line, tcp, udp};
use sip::Transport::Udp;

const FIRST: &str = "198.51.100.1:5060";
const SECOND: &str = "198.51.100.2:5060";

/// A server on which alice may call other domains.
fn bench() -> Bench {
    let mut bench = Bench::new(config());
    bench.register("alice", "alice", &format!("<sip:alice@{ALICE}>"));
    bench.end("first", udp(FIRST));
    bench.end("second", udp(SECOND));
    bench.end("first-tcp", tcp(FIRST, 0));
    bench
}

fn call(bench: &mut Bench, uri: &str) -> Vec<String> {
    let invite = bench.request("INVITE", uri, "alice", "alice", "sip:carol@elsewhere.example");
    bench.receive("alice", &invite)
}

/// Alice calls a user of a domain with two places.
fn call_by_name() -> Bench {
    let mut bench = bench();
    let noted = call(&mut bench, "sip:carol@elsewhere.example");
    assert_eq!(noted, ["alice 100", "where is Name(\"elsewhere.example\")"]);
    assert_eq!(bench.located(&[(Udp, FIRST), (Udp, SECOND)]), ["first INVITE"]);
    bench
}

#[test]
fn the_first_place_is_tried_first() {
    let mut bench = call_by_name();
    assert_eq!(bench.answer("first", 200), ["alice 200"]);
    assert_eq!(bench.counter("dns-queries"), 1);
    bench.rest();
}

#[test]
fn a_silent_place_gives_way_to_the_next() {
    let mut bench = call_by_name();
    let sent = bench.wait(32_000);
    assert_eq!(sent.last().unwrap(), "32000 second INVITE");
    let via = |end| line(&bench.last(end, "INVITE"), "Via").to_owned();
    assert_ne!(via("first"), via("second"), "it is a transaction of its own");
    assert_eq!(bench.answer("second", 486), ["second ACK", "alice 486"]);
    bench.follow("ACK");
    bench.rest();
}

#[test]
fn a_place_that_has_no_time_gives_way_to_the_next() {
    let mut bench = call_by_name();
    assert_eq!(bench.answer("first", 503), ["first ACK", "second INVITE"]);
    assert_eq!(bench.answer("second", 200), ["alice 200"]);
    bench.rest();
}

#[test]
fn an_icmp_error_ends_the_branch_whose_datagram_it_quotes() {
    let mut bench = call_by_name();
    let sent = bench.last("first", "INVITE");
    let quoted = &sent.as_bytes()[..sent.find("\r\nFrom").expect("a From") + 2];
    // An error for another address, for another message, or without the Via changes nothing.
    let mut other = quoted.to_vec();
    other[..6].copy_from_slice(b"CANCEL");
    let forged = sent.replace("branch=z9hG4bKbb", "branch=z9hG4bKbb0");
    assert_eq!(bench.unreachable("second", quoted), [""; 0]);
    assert_eq!(bench.unreachable("first", &other), [""; 0]);
    assert_eq!(bench.unreachable("first", forged.as_bytes()), [""; 0]);
    assert_eq!(bench.unreachable("first", &quoted[..30]), [""; 0]);
    assert_eq!(bench.unreachable("first", b""), [""; 0]);
    assert_eq!(bench.unreachable("first", quoted), ["second INVITE"]);
    assert_eq!(bench.unreachable("first", quoted), [""; 0], "the branch has ended");
    let second = bench.last("second", "INVITE");
    assert_eq!(bench.unreachable("second", second.as_bytes()), ["alice 480"]);
    assert_eq!(bench.counter("undeliverable"), 2);
    bench.follow("ACK");
    bench.rest();
}

#[test]
fn a_place_that_cannot_be_reached_gives_way_to_the_next() {
    let mut bench = call_by_name();
    assert_eq!(bench.undeliverable("first", "INVITE"), ["second INVITE"]);
    assert_eq!(bench.undeliverable("second", "INVITE"), ["alice 480"]);
    bench.follow("ACK");
    bench.rest();
}

#[test]
fn a_name_without_a_place_is_answered_480() {
    let mut bench = bench();
    call(&mut bench, "sip:carol@elsewhere.example");
    assert_eq!(bench.located(&[]), ["alice 480"]);
    bench.follow("ACK");
    bench.rest();
}

#[test]
fn other_responses_than_503_are_answers() {
    for status in [404, 486, 500, 603] {
        let mut bench = call_by_name();
        assert_eq!(bench.answer("first", status), ["first ACK".into(), format!("alice {status}")]);
        bench.follow("ACK");
        bench.rest();
    }
}

#[test]
fn a_cancel_while_the_dns_is_asked_ends_the_call() {
    let mut bench = bench();
    call(&mut bench, "sip:carol@elsewhere.example");
    assert_eq!(bench.follow("CANCEL"), ["alice 200", "alice 487"]);
    assert_eq!(bench.located(&[(Udp, FIRST)]), [""; 0]);
    bench.follow("ACK");
    bench.rest();
}

#[test]
fn after_a_cancel_no_other_place_is_tried() {
    let mut bench = call_by_name();
    bench.answer("first", 180);
    bench.follow("CANCEL");
    assert_eq!(bench.answer("first", 503), ["first ACK", "alice 500"]);
    bench.follow("ACK");
    bench.rest();
}

#[test]
fn a_ticket_is_good_once() {
    let mut bench = bench();
    call(&mut bench, "sip:carol@elsewhere.example");
    bench.tickets.push(bench.tickets[0].clone());
    assert_eq!(bench.located(&[(Udp, FIRST)]), ["first INVITE"]);
    assert_eq!(bench.located(&[(Udp, SECOND)]), [""; 0]);
    bench.answer("first", 486);
    bench.follow("ACK");
    bench.rest();
}

#[test]
fn a_request_that_is_too_large_for_a_datagram_goes_over_tcp() {
    for (length, uri, expected) in [
        (100, "sip:carol@198.51.100.1", "first INVITE"),
        (1400, "sip:carol@198.51.100.1", "first-tcp INVITE"),
        (1400, "sip:carol@198.51.100.1;transport=udp", "first INVITE"),
        (100, "sip:carol@198.51.100.1;transport=tcp", "first-tcp INVITE"),
    ] {
        let mut bench = bench();
        let invite = bench.request("INVITE", uri, "alice", "alice", "sip:carol@elsewhere.example");
        let body = "x".repeat(length);
        let invite =
            invite.replace("Content-Length: 0", &format!("Content-Length: {length}")) + &body;
        assert_eq!(bench.receive("alice", &invite), ["alice 100", expected], "{uri}");
        let end = expected.split_once(' ').unwrap().0;
        let via = line(&bench.last(end, "INVITE"), "Via").to_owned();
        assert_eq!(via.contains("SIP/2.0/TCP"), end == "first-tcp");
        if length > 1300 && end == "first-tcp" {
            // RFC 3261 section 18.1.1: if TCP is refused, UDP is used.
            assert_eq!(bench.undeliverable("first-tcp", "INVITE"), ["first INVITE"]);
        }
        let end = if length > 1300 { "first" } else { end };
        bench.answer(end, 486);
        bench.follow("ACK");
        bench.rest();
    }
}

#[test]
fn a_large_request_to_places_from_the_dns_goes_over_tcp_at_each() {
    let large_call = || {
        let mut bench = bench();
        bench.end("second-tcp", tcp(SECOND, 0));
        let uri = "sip:carol@elsewhere.example";
        let invite = bench.request("INVITE", uri, "alice", "alice", uri);
        let large = invite.replace("Content-Length: 0", "Content-Length: 1400");
        bench.receive("alice", &(large + &"x".repeat(1400)));
        assert_eq!(bench.located(&[(Udp, FIRST), (Udp, SECOND)]), ["first-tcp INVITE"]);
        bench
    };
    let mut bench = large_call();
    assert_eq!(bench.undeliverable("first-tcp", "INVITE"), ["first INVITE"]);
    assert_eq!(bench.answer("first", 503), ["first ACK", "second-tcp INVITE"]);
    assert_eq!(bench.answer("second-tcp", 200), ["alice 200"]);
    bench.rest();
    // A place that is overloaded over TCP is not tried over UDP.
    let mut bench = large_call();
    assert_eq!(bench.answer("first-tcp", 503), ["first-tcp ACK", "second-tcp INVITE"]);
    assert_eq!(bench.answer("second-tcp", 200), ["alice 200"]);
    bench.rest();
}

#[test]
fn a_registered_phone_is_reached_on_its_flow_whatever_the_size() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    let uri = "sip:bob@example.com";
    let invite = bench.request("INVITE", uri, "alice", "alice", uri);
    let invite = invite.replace("Content-Length: 0", "Content-Length: 3000") + &"x".repeat(3000);
    assert_eq!(bench.receive("alice", &invite), ["alice 100", "bob INVITE"]);
    assert!(bench.last("bob", "INVITE").len() > 3000);
}

#[test]
fn a_phone_whose_connection_is_gone_is_answered_for() {
    let mut bench = Bench::new(config());
    bench.end("bob", tcp("192.0.2.20:40000", 5));
    bench.register("bob", "bob", "<sip:bob@192.0.2.20:40000;transport=tcp>");
    assert_eq!(bench.call("INVITE"), ["alice 100", "bob INVITE"]);
    assert_eq!(bench.undeliverable("bob", "INVITE"), ["alice 480"]);
    assert_eq!(bench.counter("undeliverable"), 1);
    bench.follow("ACK");
    // With another phone, the response of that phone is forwarded.
    bench.end("desk", udp("192.0.2.21:5060"));
    bench.register("desk", "bob", "<sip:desk@192.0.2.21:5060>");
    assert_eq!(bench.call("INVITE"), ["alice 100", "desk INVITE", "bob INVITE"]);
    assert_eq!(bench.undeliverable("bob", "INVITE"), [""; 0]);
    assert_eq!(bench.answer("desk", 486), ["desk ACK", "alice 486"]);
    bench.follow("ACK");
    // The phone has registered again on a new connection.
    bench.end("bob", tcp("192.0.2.20:40000", 6));
    bench.register("bob", "bob", "<sip:bob@192.0.2.20:40000;transport=tcp>");
    assert_eq!(bench.call("INVITE"), ["alice 100", "bob INVITE", "desk INVITE"]);
    assert_eq!(bench.sent[1].flow, tcp("192.0.2.20:40000", 6));
    bench.rest();
}
