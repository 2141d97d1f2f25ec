//! Requests within a dialog, along the recorded route in both directions.

use crate::bench::{ALICE, Bench, config, tcp, values, written};
use barebell_sip_server::Flow;
use sip::dialog::Dialog;
use sip::{HeaderName, Message, Method};

/// A call between alice and bob, with the dialog state of each.
struct Call {
    alice: (Flow, Dialog),
    bob: (Flow, Dialog),
}

impl Call {
    /// A call from alice that bob has answered.
    fn new(bench: &mut Bench) -> Self {
        bench.call("INVITE");
        let contact = format!("Contact: <sip:bob@{}>\r\n", bench.flow("bob").remote);
        assert_eq!(bench.respond("bob", "INVITE", 200, &contact), ["alice 200"]);
        let (invite, response) = (bench.last("bob", "INVITE"), bench.last("alice", "response"));
        let [invite, response] =
            [&invite, &response].map(|text| Message::parse(text.as_bytes()).unwrap());
        let call = Self {
            alice: (bench.flow("alice"), Dialog::from_response(&response).unwrap()),
            bob: (bench.flow("bob"), Dialog::from_request(&invite, b"bob").unwrap()),
        };
        assert_eq!(bench.receive("alice", &call.request("alice", "ACK", 1)), ["bob ACK"]);
        call
    }

    fn request(&self, end: &str, method: &str, cseq: u32) -> String {
        let (flow, dialog) = if end == "alice" { &self.alice } else { &self.bob };
        let (transport, remote) = (flow.transport.via_name(), flow.remote);
        let branch = ("z9hG4bK", end, method, cseq);
        let via = ("SIP/2.0/", transport, " ", remote, ";branch=", branch);
        written(|out| {
            dialog
                .request(Method::new(method.as_bytes()), cseq, via, out)
                .field(HeaderName::Contact, ("<sip:", end, "@", remote, ">"))
                .end();
        })
    }
}

fn bob_on_tcp() -> Bench {
    let mut bench = Bench::new(config());
    bench.end("bob", tcp("192.0.2.20:40000", 5));
    bench.register("bob", "bob", "<sip:bob@192.0.2.20:40000;transport=tcp>");
    bench
}

#[test]
fn requests_of_the_dialog_pass_in_both_directions() {
    for mut bench in [Bench::with_bob(&[("bob", "1")]), bob_on_tcp()] {
        let call = Call::new(&mut bench);
        for (cseq, method) in (10..).zip(["PRACK", "UPDATE", "INFO", "REFER", "INVITE", "BYE"]) {
            for (from, to) in [("alice", "bob"), ("bob", "alice")] {
                let request = call.request(from, method, cseq);
                let mut noted = bench.receive(from, &request);
                if method == "INVITE" {
                    assert_eq!(noted.remove(0), format!("{from} 100"));
                }
                assert_eq!(noted, [format!("{to} {method}")]);
                let passed = bench.last(to, method);
                assert_eq!(values(&passed, HeaderName::Route), [""; 0]);
                assert_eq!(values(&passed, HeaderName::RecordRoute), [""; 0]);
                let noted = bench.respond(to, method, 200, "");
                assert_eq!(noted, [format!("{from} 200")]);
            }
        }
        bench.rest();
    }
}

#[test]
fn two_invites_that_cross_both_pass() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    let call = Call::new(&mut bench);
    let (one, other) = (call.request("alice", "INVITE", 20), call.request("bob", "INVITE", 20));
    assert_eq!(bench.receive("alice", &one), ["alice 100", "bob INVITE"]);
    assert_eq!(bench.receive("bob", &other), ["bob 100", "alice INVITE"]);
    assert_eq!(bench.answer("bob", 491), ["bob ACK", "alice 491"]);
    assert_eq!(bench.answer("alice", 491), ["alice ACK", "bob 491"]);
    bench.rest();
}

#[test]
fn a_request_of_the_dialog_needs_no_credentials_and_another_does() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    let call = Call::new(&mut bench);
    let mut config = config();
    config.authentication.required = true;
    bench.server.configure(config);
    let bye = call.request("bob", "BYE", 1);
    assert_eq!(bench.receive("bob", &bye), ["alice BYE"]);
    assert_eq!(bench.respond("alice", "BYE", 200, ""), ["bob 200"]);
    // The token is valid for this call only.
    let other = call.request("bob", "BYE", 2).replace("Call-ID: call", "Call-ID: other");
    assert_eq!(bench.receive("bob", &other), ["bob 407"]);
    bench.rest();
}

#[test]
fn the_route_is_recorded_once_for_each_side_that_differs() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    bench.call("INVITE");
    let routes = values(&bench.last("bob", "INVITE"), HeaderName::RecordRoute);
    assert_eq!(routes.len(), 1);
    assert!(routes[0].ends_with("@192.0.2.1:5060;lr>"), "{routes:?}");

    let mut bench = bob_on_tcp();
    bench.call("INVITE");
    let routes = values(&bench.last("bob", "INVITE"), HeaderName::RecordRoute);
    assert_eq!(routes.len(), 2);
    assert!(routes[0].ends_with("@192.0.2.1:5060;transport=tcp;lr>"), "{routes:?}");
    assert!(routes[1].ends_with("@192.0.2.1:5060;lr>"), "{routes:?}");
}

#[test]
fn the_route_is_recorded_for_requests_that_begin_a_dialog() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    for (method, is_recorded) in [
        ("INVITE", true),
        ("SUBSCRIBE", true),
        ("REFER", true),
        ("MESSAGE", false),
        ("INFO", false),
    ] {
        bench.call(method);
        let routes = values(&bench.last("bob", method), HeaderName::RecordRoute);
        assert_eq!(!routes.is_empty(), is_recorded, "{method}");
    }
    let mut config = config();
    config.record_route = false;
    bench.server.configure(config);
    bench.call("INVITE");
    assert_eq!(values(&bench.last("bob", "INVITE"), HeaderName::RecordRoute), [""; 0]);
}

#[test]
fn a_phone_behind_a_nat_is_reached_where_its_requests_came_from() {
    let mut bench = Bench::new(config());
    bench.end("bob", crate::bench::udp("203.0.113.9:31000"));
    let private = |text: String| text.replace("203.0.113.9:31000", "192.168.0.2:5060");
    let register =
        bench.request("REGISTER", "sip:example.com", "bob", "bob", "sip:bob@example.com");
    assert_eq!(bench.receive("bob", &private(register)), ["bob 200"]);
    let call = Call::new(&mut bench);
    let bye = private(call.request("alice", "BYE", 5));
    assert!(bye.starts_with("BYE sip:bob@192.168.0.2:5060"));
    assert_eq!(bench.receive("alice", &bye), ["bob BYE"]);
    let bye = private(call.request("bob", "BYE", 5));
    assert_eq!(bench.receive("bob", &bye), ["alice BYE"]);
    assert_eq!(bench.respond("alice", "BYE", 200, ""), ["bob 200"]);
    bench.respond("bob", "BYE", 200, "");
    bench.rest();
}

#[test]
fn a_strict_router_before_us_is_understood() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    let call = Call::new(&mut bench);
    let bye = call.request("alice", "BYE", 30);
    let own = values(&bye, HeaderName::Route)[0].clone();
    let uri = own.trim_matches(['<', '>']);
    let strict = bye
        .replace("BYE sip:bob@192.0.2.20:5060", &format!("BYE {uri}"))
        .replace(&format!("Route: {own}"), "Route: <sip:bob@192.0.2.20:5060>");
    assert_ne!(strict, bye);
    assert_eq!(bench.receive("alice", &strict), ["bob BYE"]);
    let passed = bench.last("bob", "BYE");
    assert!(passed.starts_with("BYE sip:bob@192.0.2.20:5060 SIP/2.0"), "{passed}");
    assert_eq!(values(&passed, HeaderName::Route), [""; 0]);
    bench.respond("bob", "BYE", 200, "");
    bench.rest();
}

#[test]
fn a_request_for_a_connection_that_is_gone_is_answered_480() {
    let mut bench = bob_on_tcp();
    let call = Call::new(&mut bench);
    let bye = call.request("alice", "BYE", 30);
    assert_eq!(bench.receive("alice", &bye), ["bob BYE"]);
    assert_eq!(bench.undeliverable("bob", "BYE"), ["alice 480"]);
    assert_eq!(bench.counter("undeliverable"), 1);
    bench.rest();
}

#[test]
fn a_response_whose_connection_is_gone_goes_to_the_address_in_its_via_once() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    bench.end("alice", tcp(ALICE, 9));
    bench.call("MESSAGE");
    assert_eq!(bench.respond("bob", "MESSAGE", 200, ""), ["alice 200"]);
    assert_eq!(bench.undeliverable("alice", "response"), ["alice 200"]);
    assert_eq!(bench.sent[0].flow.connection, None);
    bench.end("alice", bench.sent[0].flow);
    assert_eq!(bench.undeliverable("alice", "response"), [""; 0]);
    bench.rest();
}
