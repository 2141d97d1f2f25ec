//! The proxy without transactions (RFC 3261 section 16.11).

use crate::bench::{ALICE, Bench, config, line, tcp, udp};
use barebell_sip_server::config::State;
use sip::Transport::Udp;

fn bench() -> Bench {
    let mut config = config();
    config.state = State::Stateless;
    Bench::with_config_and_bob(config, &[("bob", "1"), ("second", "0.5")])
}

fn branch(bench: &Bench, method: &str) -> String {
    line(&bench.last("bob", method), "Via").split_once("branch=").unwrap().1.to_owned()
}

#[test]
fn a_request_goes_to_the_best_target_and_its_responses_come_back() {
    let mut bench = bench();
    assert_eq!(bench.call("INVITE"), ["bob INVITE"]);
    for status in [100, 180, 200, 200] {
        assert_eq!(bench.answer("bob", status), [format!("alice {status}")]);
    }
    assert_eq!(bench.server.transactions(), 0);
    assert_eq!(bench.wait(60_000), [""; 0]);
}

#[test]
fn what_belongs_to_one_transaction_has_one_branch() {
    let mut bench = bench();
    bench.call("INVITE");
    let first = branch(&bench, "INVITE");
    let invite = bench.last("from alice", "INVITE");
    assert_eq!(bench.receive("alice", &invite), ["bob INVITE"]);
    assert_eq!(branch(&bench, "INVITE"), first, "the request again");
    assert_eq!(bench.follow("CANCEL"), ["bob CANCEL"]);
    assert_eq!(branch(&bench, "CANCEL"), first);
    assert_eq!(bench.respond("bob", "CANCEL", 200, ""), ["alice 200"]);
    assert_eq!(bench.answer("bob", 487), ["alice 487"]);
    assert_eq!(bench.follow("ACK"), ["bob ACK"]);
    assert_eq!(branch(&bench, "ACK"), first);
    bench.call("INVITE");
    assert_ne!(branch(&bench, "INVITE"), first, "another request");
}

#[test]
fn responses_with_a_forged_via_are_dropped() {
    let mut bench = bench();
    bench.call("INVITE");
    let invite = bench.last("bob", "INVITE");
    let good = crate::bench::response(&invite, 200, "bob", "");
    let branch = branch(&bench, "INVITE");
    for (from, to) in [
        // To another destination.
        (ALICE, "203.0.113.99:5060"),
        ("192.0.2.10:5060", "192.0.2.10:5061"),
        ("z9hG4bK3", "z9hG4bK4"),
        (&branch[10..20], "0123456789"),
        (&branch[..], "z9hG4bKmade-up"),
    ] {
        let forged = good.replace(from, to);
        assert_ne!(forged, good, "{from}");
        assert_eq!(bench.receive("bob", &forged), [""; 0], "{to}");
    }
    let injected = good.replacen("branch=z9hG4bK3", "branch=z9hG4bK3;received=203.0.113.99", 1);
    assert_ne!(injected, good);
    assert_eq!(bench.receive("bob", &injected), [""; 0]);
    assert_eq!(bench.counter("dropped"), 6);
    assert_eq!(bench.receive("bob", &good), ["alice 200"]);
}

#[test]
fn responses_find_their_way_back() {
    for (sent_by, rport, remote, connection) in [
        ("192.0.2.10:5060", "", "192.0.2.10:5060", 0),
        // The port of sent-by is used, unless rport is requested or a NAT has changed the address.
        ("192.0.2.10:5062", "", "192.0.2.10:5060", 0),
        ("192.0.2.10:5060", ";rport", "192.0.2.10:31000", 0),
        ("10.0.0.1:5060", "", "192.0.2.10:31000", 0),
        ("phone.example:5060", "", "192.0.2.10:31000", 0),
        // On a stream the response goes back on it.
        ("192.0.2.10:5060", "", "192.0.2.10:31000", 7),
    ] {
        let mut bench = bench();
        let flow = if connection > 0 { tcp(remote, connection) } else { udp(remote) };
        bench.end("alice", flow);
        let uri = "sip:bob@example.com";
        let message = bench.request("MESSAGE", uri, "alice", "alice", uri);
        let message =
            message.replace(&format!("{remote};branch"), &format!("{sent_by}{rport};branch"));
        assert_eq!(bench.receive("alice", &message), ["bob MESSAGE"]);
        bench.respond("bob", "MESSAGE", 200, "");
        let expected = if sent_by == "192.0.2.10:5062" { udp(sent_by) } else { flow };
        let flow = bench.sent[0].flow;
        assert_eq!(
            (flow.transport, flow.remote),
            (expected.transport, expected.remote),
            "{sent_by}"
        );
    }
}

#[test]
fn a_name_is_located_before_the_request_goes_on() {
    let mut bench = bench();
    bench.register("alice", "alice", &format!("<sip:alice@{ALICE}>"));
    bench.end("first", udp("198.51.100.1:5060"));
    let uri = "sip:carol@elsewhere.example";
    let message = bench.request("MESSAGE", uri, "alice", "alice", uri);
    assert_eq!(bench.receive("alice", &message), ["where is Name(\"elsewhere.example\")"]);
    assert_eq!(bench.located(&[(Udp, "198.51.100.1:5060")]), ["first MESSAGE"]);
    assert_eq!(bench.respond("first", "MESSAGE", 200, ""), ["alice 200"]);
    bench.receive("alice", &message);
    assert_eq!(bench.located(&[]), ["alice 480"]);
    assert_eq!(bench.counter("undeliverable"), 1);
}

#[test]
fn what_the_server_refuses_itself_is_acknowledged_to_it() {
    let mut bench = bench();
    let uri = "sip:nobody@example.com";
    let invite = bench.request("INVITE", uri, "alice", "alice", uri);
    assert_eq!(bench.receive("alice", &invite), ["alice 404"]);
    assert_eq!(bench.follow("ACK"), [""; 0]);
    // It is not handled as another request to an unknown user, even if it is malformed.
    let ack = bench.last("from alice", "ACK");
    assert_eq!(bench.receive("alice", &ack.replace("Max-Forwards: 70", "CSeq: x")), [""; 0]);
    assert_eq!((bench.counter("not-found"), bench.counter("malformed-requests")), (1, 0));
    let other = ack.replace("Call-ID: call", "Call-ID: other");
    assert_eq!(bench.receive("alice", &other), [""; 0]);
    assert_eq!(bench.counter("not-found"), 2, "a tag is good for one call");
}
