//! Large descriptions and storms of requests in calls through the B2BUA. One end of a call costs
//! the server and the other end no more than a bounded number of messages and bytes, and other
//! calls go on.

use crate::b2bua::{call, is_unharmed, server, soon};
use peers::call::{End, establish_described};
use peers::process::wait_until;
use peers::server::TRUSTS_NOBODY;
use peers::test_server::TestServer;
use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;
use test_support::agent::SESSION;

/// A session description of about 60 KB: as many media, or as many attributes of one.
fn large(number: usize, line: &str) -> String {
    let more = line.repeat(52_000 / line.len());
    SESSION.replace("40000", &(30_000 + number).to_string()) + &more
}

/// A server whose sources have a high rate: all agents of a test are one.
fn server_with_high_rates() -> TestServer {
    let limits = format!("{TRUSTS_NOBODY}source_rate = 10_000\n");
    TestServer::with(&format!("{limits}[calls]\nmode = \"b2bua\"\n"), &[])
}

/// A second call, of carol and a second phone of bob, has its own requests.
fn another_call_goes_on(exchange: &TestServer) {
    let (carol, second) = (exchange.agent("carol"), exchange.agent("bob"));
    let uri = second.contact();
    let (mut carol, mut second, _) = establish_described(carol, second, &uri, [SESSION; 2]);
    for method in ["INFO", "MESSAGE", "BYE"] {
        carol.pass(&mut second, method, "");
    }
}

/// The number of different requests with this method that reach `end`, which answers none.
fn count(end: &mut End, method: &str) -> usize {
    let mut numbers = BTreeSet::new();
    while let Some(request) = soon(|| end.agent.request_if_any(method)) {
        numbers.insert(request.cseq().number);
    }
    numbers.len()
}

/// Alice offers ever other descriptions of the maximum length. Each is refused by bob, or has to
/// wait. The server keeps none that was refused, although its transactions last for a while.
#[test]
fn refused_large_descriptions_within_a_call_are_not_kept() {
    // A relayed call without packets would end. The messages of the last minutes are bounded, too.
    let exchange = server("[media]\nrelay = \"off\"\n[trace]\nmemory = 0\n");
    let mut ends = call(&exchange);
    let lines = ["m=audio 9 RTP/AVP 0\r\na=x\r\n", "a=x\r\n", "a=rtpmap:0 PCMU/8000\r\n"];
    let mut before = 0;
    for number in 0..100 {
        // The rate that an end of a dialog may get.
        thread::sleep(Duration::from_millis(50));
        let [alice, bob] = &mut ends;
        let offer = large(number, lines[number % lines.len()]);
        alice.agent.send(&mut alice.dialog, "INVITE", "", &offer);
        wait_until("the final response", || {
            if let Some(invite) = bob.agent.request_if_any("INVITE") {
                bob.agent.answer(&invite, &bob.dialog, 488, "", "");
            }
            alice.agent.final_response_if_any("INVITE")
        });
        if number == 25 {
            before = exchange.server.process().memory();
        }
    }
    let grown = exchange.server.process().memory().saturating_sub(before);
    assert!(grown < 3 << 20, "{grown} bytes of 75 descriptions");
    is_unharmed(&mut ends);
}

/// Alice sends requests that bob does not answer. Carol's call has room for its own.
#[test]
fn a_storm_of_requests_in_one_call_leaves_room_for_those_of_another() {
    let exchange = server_with_high_rates();
    let [mut alice, mut bob] = call(&exchange);
    let methods = ["INFO", "MESSAGE", "REFER"];
    let (storm, refer_to) = (900, "Refer-To: <sip:x@example.org>\r\n");
    for number in 0..storm {
        let method = methods[number % methods.len()];
        let fields = if method == "REFER" { refer_to } else { "" };
        alice.agent.send(&mut alice.dialog, method, fields, "");
    }
    let reached: usize = methods.iter().map(|method| count(&mut bob, method)).sum();
    assert!((1..storm / 4).contains(&reached), "{reached} of {storm} requests reach bob");
    another_call_goes_on(&exchange);
    alice.pass(&mut bob, "BYE", "");
}

/// Alice changes the session again and again, while bob answers no change: one is offered to bob at
/// a time.
#[test]
fn a_storm_of_changes_of_the_session_reaches_the_other_end_one_at_a_time() {
    let exchange = server_with_high_rates();
    let [mut alice, mut bob] = call(&exchange);
    for number in 0..300 {
        let offer = SESSION.replace("40000", &(30_000 + number).to_string());
        let method = if number % 2 == 0 { "INVITE" } else { "UPDATE" };
        alice.agent.send(&mut alice.dialog, method, "", &offer);
    }
    let reached = count(&mut bob, "INVITE") + count(&mut bob, "UPDATE");
    assert!((1..=2).contains(&reached), "{reached} of 300 changes reach bob");
    another_call_goes_on(&exchange);
    // Agents send each request once: its response needs room in a socket full of rejections.
    alice.agent.read_all();
    alice.pass(&mut bob, "BYE", "");
}
