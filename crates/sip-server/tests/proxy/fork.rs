//! Several phones of one user (RFC 3261 sections 16.6 to 16.7, RFC 5393, RFC 6026).

use crate::bench::{Bench, config, line, values};
use sip::HeaderName;

#[test]
fn the_first_to_answer_wins_and_the_others_are_cancelled() {
    let mut bench = Bench::with_bob(&[("one", "1"), ("two", "1"), ("three", "1")]);
    assert_eq!(bench.call("INVITE"), ["alice 100", "one INVITE", "two INVITE", "three INVITE"]);
    let branches: Vec<_> = ["one", "two", "three"]
        .map(|end| line(&bench.last(end, "INVITE"), "Via").to_owned())
        .into();
    assert!(branches[0] != branches[1] && branches[1] != branches[2]);
    bench.answer("one", 180);
    bench.answer("two", 180);
    assert_eq!(bench.answer("one", 200), ["alice 200", "two CANCEL"]);
    // This phone had sent no response.
    assert_eq!(bench.answer("three", 180), ["three CANCEL"]);
    for end in ["two", "three"] {
        bench.respond(end, "CANCEL", 200, "");
        assert_eq!(bench.answer(end, 487), [format!("{end} ACK")]);
    }
    assert_eq!(bench.counter("answered"), 1);
    bench.rest();
}

#[test]
fn two_2xx_both_go_back() {
    let mut bench = Bench::with_bob(&[("one", "1"), ("two", "1")]);
    bench.call("INVITE");
    bench.answer("two", 180);
    assert_eq!(bench.answer("one", 200), ["alice 200", "two CANCEL"]);
    assert_eq!(bench.answer("two", 200), ["alice 200"]);
    assert!(line(&bench.last("alice", "response"), "To").ends_with(";tag=two"));
    assert_eq!(bench.answer("one", 200), ["alice 200"], "again");
    assert_eq!(bench.counter("answered"), 1);
    bench.rest();
}

#[test]
fn a_2xx_that_meets_the_cancel_of_a_6xx_goes_back_instead_of_it() {
    let mut bench = Bench::with_bob(&[("one", "1"), ("two", "1")]);
    bench.call("INVITE");
    bench.answer("one", 180);
    assert_eq!(bench.answer("two", 603), ["two ACK", "one CANCEL"]);
    assert_eq!(bench.answer("one", 200), ["alice 200"]);
    bench.rest();
}

#[test]
fn a_6xx_waits_no_longer_than_for_the_cancel_to_work() {
    let mut bench = Bench::with_bob(&[("one", "1"), ("two", "1")]);
    bench.call("INVITE");
    bench.answer("one", 180);
    bench.answer("two", 603);
    assert_eq!(bench.wait(32_000).last().unwrap(), "32000 alice 603");
    bench.follow("ACK");
    assert_eq!(bench.answer("one", 200), [""; 0], "the transaction is gone (section 9.1)");
    bench.rest();
}

#[test]
fn a_2xx_that_comes_long_after_the_first_ends_nothing() {
    let mut bench = Bench::with_bob(&[("one", "1")]);
    bench.call("INVITE");
    bench.answer("one", 200);
    bench.wait(31_000);
    assert_eq!(bench.answer("one", 200), ["alice 200"]);
    bench.wait(2_000);
    // The transaction has ended (timer M).
    assert_eq!(bench.answer("one", 200), [""; 0]);
    assert_eq!(bench.server.transactions(), 0);
}

#[test]
fn a_6xx_ends_the_search() {
    let mut bench = Bench::with_bob(&[("one", "1"), ("two", "1"), ("later", "0.5")]);
    assert_eq!(bench.call("INVITE"), ["alice 100", "one INVITE", "two INVITE"]);
    bench.answer("two", 180);
    assert_eq!(bench.answer("one", 603), ["one ACK", "two CANCEL"]);
    bench.respond("two", "CANCEL", 200, "");
    assert_eq!(bench.answer("two", 487), ["two ACK", "alice 603"]);
    bench.follow("ACK");
    bench.rest();
}

#[test]
fn the_best_targets_are_tried_first_and_the_others_when_they_have_failed() {
    let mut bench = Bench::with_bob(&[
        ("low", "0.2"),
        ("high", "0.9"),
        ("also_high", "0.9"),
        ("middle", "0.5"),
    ]);
    assert_eq!(bench.call("INVITE"), ["alice 100", "high INVITE", "also_high INVITE"]);
    assert_eq!(bench.answer("high", 486), ["high ACK"]);
    assert_eq!(bench.answer("also_high", 480), ["also_high ACK", "middle INVITE"]);
    assert_eq!(bench.answer("middle", 180), ["alice 180"]);
    assert_eq!(bench.answer("middle", 486), ["middle ACK", "low INVITE"]);
    assert_eq!(bench.answer("low", 200), ["alice 200"]);
    bench.rest();
}

#[test]
fn a_silent_target_gives_way_to_the_next() {
    let mut bench = Bench::with_bob(&[("silent", "0.9"), ("second", "0.5")]);
    bench.call("INVITE");
    let sent = bench.wait(32_000);
    assert_eq!(sent.last().unwrap(), "32000 second INVITE");
    assert_eq!(bench.answer("second", 200), ["alice 200"]);
    bench.rest();
}

#[test]
fn other_requests_fork_too_and_the_first_final_response_is_the_last() {
    let mut bench = Bench::with_bob(&[("one", "1"), ("two", "1")]);
    assert_eq!(bench.call("MESSAGE"), ["one MESSAGE", "two MESSAGE"]);
    assert_eq!(bench.respond("one", "MESSAGE", 200, ""), ["alice 200"]);
    assert_eq!(bench.respond("two", "MESSAGE", 200, ""), [""; 0]);
    bench.rest();
}

#[test]
fn the_ack_of_a_2xx_goes_to_the_one_who_answered() {
    let mut bench = Bench::with_bob(&[("one", "1"), ("two", "1")]);
    bench.call("INVITE");
    bench.answer("one", 200);
    let success = bench.last("alice", "response");
    let request =
        bench.request("ACK", "sip:one@192.0.2.20:5060", "alice", "alice", "sip:bob@example.com");
    let routes: String = values(&success, HeaderName::RecordRoute)
        .iter()
        .rev()
        .map(|route| format!("Route: {route}\r\n"))
        .collect();
    let ack = request
        .replace(line(&request, "To"), line(&success, "To"))
        .replace("Max-Forwards", &format!("{routes}Max-Forwards"));
    assert_eq!(bench.receive("alice", &ack), ["one ACK"]);
    assert_eq!(bench.receive("alice", &ack), ["one ACK"], "each time that it comes");
    let forwarded = bench.last("one", "ACK");
    assert_eq!(values(&forwarded, HeaderName::Route), [""; 0]);
    // Some phones use the branch of the INVITE.
    let invite_branch = line(&bench.last("from alice", "INVITE"), "Via").to_owned();
    let same_branch = ack.replace(line(&ack, "Via"), &invite_branch);
    assert_eq!(bench.receive("alice", &same_branch), ["one ACK"]);
    bench.rest();
}

#[test]
fn max_breadth_is_shared_out() {
    for (breadth, expected) in [
        (None, vec!["one 20", "two 20", "three 20"]),
        (Some(7), vec!["one 3", "two 2", "three 2"]),
        (Some(3), vec!["one 1", "two 1", "three 1"]),
        (Some(2), vec!["one 1", "two 1"]),
        (Some(1), vec!["one 1"]),
    ] {
        let mut bench = Bench::with_bob(&[("one", "1"), ("two", "1"), ("three", "1")]);
        let uri = "sip:bob@example.com";
        let mut invite = bench.request("INVITE", uri, "alice", "alice", uri);
        if let Some(breadth) = breadth {
            invite =
                invite.replace("Max-Forwards", &format!("Max-Breadth: {breadth}\r\nMax-Forwards"));
        }
        bench.receive("alice", &invite);
        let shares: Vec<_> = bench
            .sent
            .iter()
            .skip(1)
            .map(|sent| {
                let breadths = values(&sent.text, HeaderName::MaxBreadth);
                assert_eq!(breadths.len(), 1, "{}", sent.text);
                format!("{} {}", sent.to, breadths[0])
            })
            .collect();
        assert_eq!(shares, expected, "{breadth:?}");
    }
}

#[test]
fn what_is_too_narrow_is_tried_one_after_the_other() {
    let mut bench = Bench::with_bob(&[("one", "1"), ("two", "1")]);
    let uri = "sip:bob@example.com";
    let invite = bench.request("INVITE", uri, "alice", "alice", uri);
    let narrow = invite.replace("Max-Forwards", "Max-Breadth: 1\r\nMax-Forwards");
    assert_eq!(bench.receive("alice", &narrow), ["alice 100", "one INVITE"]);
    assert_eq!(bench.answer("one", 486), ["one ACK", "two INVITE"]);
    assert_eq!(bench.answer("two", 486), ["two ACK", "alice 486"]);
    let too_narrow = bench
        .request("INVITE", uri, "alice", "alice", uri)
        .replace("Max-Forwards", "Max-Breadth: 0\r\nMax-Forwards");
    assert_eq!(bench.receive("alice", &too_narrow), ["alice 100", "alice 440"]);
    bench.rest();
}

#[test]
fn no_more_targets_are_tried_than_may_be_and_those_are_the_best() {
    let mut config = config();
    config.limits.max_forks = 2;
    let ends = [("worst", "0.1"), ("one", "1"), ("two", "0.9"), ("third", "0.8")];
    let mut bench = Bench::with_config_and_bob(config, &ends);
    assert_eq!(bench.call("INVITE"), ["alice 100", "one INVITE"]);
    assert_eq!(bench.answer("one", 486), ["one ACK", "two INVITE"]);
    assert_eq!(bench.answer("two", 486), ["two ACK", "alice 486"]);
    assert_eq!(bench.counter("fork-limit"), 2);
    bench.follow("ACK");
    bench.rest();
}

#[test]
fn of_those_that_are_as_good_the_newest_are_tried() {
    let mut config = config();
    config.limits.max_forks = 2;
    let ends = [("newest", "1"), ("one", "1"), ("oldest", "1")];
    let mut bench = Bench::with_config_and_bob(config, &ends);
    assert_eq!(bench.call("INVITE"), ["alice 100", "newest INVITE", "one INVITE"]);
}
