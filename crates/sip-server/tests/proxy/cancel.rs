//! CANCEL (RFC 3261 sections 9 and 16.10).

use crate::bench::{Bench, line, tcp};

#[test]
fn a_cancel_waits_for_the_first_provisional_response() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    bench.call("INVITE");
    assert_eq!(bench.follow("CANCEL"), ["alice 200"]);
    assert_eq!(bench.answer("bob", 100), ["bob CANCEL"]);
    assert_eq!(bench.respond("bob", "CANCEL", 200, ""), [""; 0]);
    assert_eq!(bench.answer("bob", 487), ["bob ACK", "alice 487"]);
    assert_eq!(bench.follow("ACK"), [""; 0]);
    bench.rest();
}

#[test]
fn a_cancel_of_an_invite_that_nobody_heard_ends_with_timer_b() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    bench.call("INVITE");
    bench.follow("CANCEL");
    let sent = bench.wait(32_000);
    assert!(!sent.iter().any(|sent| sent.ends_with("bob CANCEL")), "{sent:?}");
    assert_eq!(sent.last().unwrap(), "32000 alice 408");
    bench.follow("ACK");
    bench.rest();
}

#[test]
fn a_cancel_while_it_rings_goes_on_at_once() {
    let mut bench = Bench::with_bob(&[("bob", "1"), ("desk", "1")]);
    bench.call("INVITE");
    bench.answer("bob", 180);
    bench.answer("desk", 180);
    assert_eq!(bench.follow("CANCEL"), ["alice 200", "bob CANCEL", "desk CANCEL"]);
    let (invite, cancel) = (bench.last("bob", "INVITE"), bench.last("bob", "CANCEL"));
    for name in ["Via", "From", "To", "Call-ID"] {
        assert_eq!(line(&cancel, name), line(&invite, name));
    }
    assert_eq!(
        invite.lines().next().unwrap().replace("INVITE", "CANCEL"),
        cancel.lines().next().unwrap()
    );
    // A retransmitted CANCEL is answered again, without further effect.
    assert_eq!(bench.follow("CANCEL"), ["alice 200"]);
    assert_eq!(bench.wait(600), ["500 bob CANCEL", "500 desk CANCEL"]);
    bench.respond("bob", "CANCEL", 200, "");
    bench.respond("desk", "CANCEL", 481, "");
    assert_eq!(bench.answer("bob", 487), ["bob ACK"]);
    assert_eq!(bench.answer("desk", 487), ["desk ACK", "alice 487"]);
    bench.follow("ACK");
    bench.rest();
}

#[test]
fn a_cancel_after_the_final_response_changes_nothing() {
    for status in [200, 486] {
        let mut bench = Bench::with_bob(&[("bob", "1")]);
        bench.call("INVITE");
        bench.answer("bob", status);
        assert_eq!(bench.follow("CANCEL"), ["alice 200"], "{status}");
        bench.follow("ACK");
        bench.rest();
    }
}

#[test]
fn a_cancel_that_meets_the_2xx_changes_nothing() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    bench.call("INVITE");
    bench.answer("bob", 180);
    assert_eq!(bench.follow("CANCEL"), ["alice 200", "bob CANCEL"]);
    assert_eq!(bench.answer("bob", 200), ["alice 200"]);
    assert_eq!(bench.respond("bob", "CANCEL", 200, ""), [""; 0]);
    assert_eq!(bench.wait(40_000), [""; 0]);
    bench.rest();
}

#[test]
fn a_phone_that_ignores_the_cancel_is_given_up() {
    for answers_cancel in [false, true] {
        let mut bench = Bench::with_bob(&[("bob", "1")]);
        bench.call("INVITE");
        bench.answer("bob", 180);
        bench.follow("CANCEL");
        if answers_cancel {
            bench.respond("bob", "CANCEL", 200, "");
        }
        assert_eq!(bench.wait(32_000).last().unwrap(), "32000 alice 487");
        bench.follow("ACK");
        bench.rest();
    }
}

/// Each timer of the CANCEL is run after the end of its branch, too. One that is due and not run
/// would keep a worker busy for ever.
#[test]
fn the_timers_of_a_cancel_outlive_its_branch() {
    // The phone answers the CANCEL late, and the INVITE never.
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    bench.call("INVITE");
    bench.answer("bob", 180);
    bench.follow("CANCEL");
    bench.wait(30_000);
    bench.respond("bob", "CANCEL", 200, "");
    assert_eq!(bench.wait(2_000).last().unwrap(), "2000 alice 487");
    bench.follow("ACK");
    bench.rest();

    // The connection ends after the CANCEL.
    let mut bench = Bench::with_bob(&[]);
    bench.end("bob", tcp("192.0.2.20:5060", 5));
    bench.register("bob", "bob", "<sip:bob@192.0.2.20:5060;transport=tcp>");
    bench.call("INVITE");
    bench.answer("bob", 180);
    assert_eq!(bench.follow("CANCEL"), ["alice 200", "bob CANCEL"]);
    assert_eq!(bench.disconnect("bob"), ["alice 487"]);
    bench.follow("ACK");
    bench.rest();
}

#[test]
fn a_cancel_that_fits_nothing_is_answered_481() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    assert_eq!(bench.call("CANCEL"), ["alice 481"]);
    // A CANCEL of another transaction: the branch is not that of the INVITE.
    bench.call("INVITE");
    assert_eq!(bench.call("CANCEL"), ["alice 481"]);
    bench.answer("bob", 486);
    bench.follow("ACK");
    bench.rest();
}

#[test]
fn another_request_cannot_be_cancelled() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    bench.call("MESSAGE");
    let cancel = bench.last("from alice", "MESSAGE").replace("MESSAGE", "CANCEL");
    assert_eq!(bench.receive("alice", &cancel), ["alice 481"]);
    assert_eq!(bench.respond("bob", "MESSAGE", 200, ""), ["alice 200"]);
    bench.rest();
}

#[test]
fn a_cancel_stops_the_search() {
    let mut bench = Bench::with_bob(&[("first", "0.9"), ("second", "0.1")]);
    assert_eq!(bench.call("INVITE"), ["alice 100", "first INVITE"]);
    bench.answer("first", 180);
    bench.follow("CANCEL");
    assert_eq!(bench.answer("first", 486), ["first ACK", "alice 486"]);
    bench.follow("ACK");
    bench.rest();
}

/// The Reason lines of the CANCEL to `end`.
fn reasons(bench: &Bench, end: &str) -> Vec<String> {
    let cancel = bench.last(end, "CANCEL");
    cancel.lines().filter(|line| line.starts_with("Reason")).map(str::to_owned).collect()
}

#[test]
fn who_did_not_win_hears_why() {
    for (status, reason) in [
        (200, "Reason: SIP;cause=200;text=\"Call completed elsewhere\""),
        (603, "Reason: SIP;cause=603;text=\"Decline\""),
    ] {
        let mut bench = Bench::with_bob(&[("bob", "1"), ("desk", "1"), ("slow", "1")]);
        bench.call("INVITE");
        bench.answer("bob", 180);
        bench.answer("desk", 180);
        bench.answer("bob", status);
        assert_eq!(reasons(&bench, "desk"), [reason]);
        // A phone that responds later gets the same reason.
        assert!(bench.answer("slow", 180).contains(&"slow CANCEL".to_owned()));
        assert_eq!(reasons(&bench, "slow"), [reason]);
    }
}

#[test]
fn the_callers_reason_goes_on() {
    let elsewhere = "Reason: SIP;cause=200;text=\"Call completed elsewhere\"";
    let long = format!("Reason: X;text=\"{}\"", "x".repeat(2000));
    for (said, passed) in [
        (vec![], vec![]),
        (vec![elsewhere, "Reason: Q.850;cause=26"], vec![elsewhere, "Reason: Q.850;cause=26"]),
        (vec![&long[..], "Reason: Q.850;cause=16"], vec!["Reason: Q.850;cause=16"]),
    ] {
        let mut bench = Bench::with_bob(&[("bob", "1")]);
        bench.call("INVITE");
        bench.answer("bob", 180);
        let lines: String = said.iter().map(|line| format!("{line}\r\n")).collect();
        let cancel = bench.last("from alice", "INVITE").replace("INVITE", "CANCEL");
        let cancel = cancel.replace("Max-Forwards", &format!("{lines}Max-Forwards"));
        assert_eq!(bench.receive("alice", &cancel), ["alice 200", "bob CANCEL"]);
        assert_eq!(reasons(&bench, "bob"), passed);
    }
}

#[test]
fn whom_timer_c_cancels_hears_so() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    bench.call("INVITE");
    bench.answer("bob", 180);
    bench.wait(190_000);
    assert_eq!(reasons(&bench, "bob"), ["Reason: SIP;cause=408;text=\"Request Timeout\""]);
}
