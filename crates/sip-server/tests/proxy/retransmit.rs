//! Retransmissions and their timing, absorbed messages, and requests without a response.

use crate::bench::{Bench, response};

/// The note `what` at each of `times`.
fn at(times: &[u64], what: &str) -> Vec<String> {
    times.iter().map(|time| format!("{time} {what}")).collect()
}

#[test]
fn an_invite_is_answered_100_at_once_and_other_requests_are_not() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    assert_eq!(bench.call("INVITE"), ["alice 100", "bob INVITE"]);
    assert!(!bench.last("alice", "response").contains(";tag=callee"));
    assert_eq!(bench.call("MESSAGE"), ["bob MESSAGE"]);
}

#[test]
fn an_invite_that_comes_again_is_answered_as_before() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    bench.call("INVITE");
    let invite = bench.last("from alice", "INVITE");
    assert_eq!(bench.receive("alice", &invite), ["alice 100"]);
    bench.answer("bob", 180);
    assert_eq!(bench.receive("alice", &invite), ["alice 180"]);
    assert_eq!(bench.answer("bob", 486), ["bob ACK", "alice 486"]);
    let first = bench.last("alice", "response");
    assert_eq!(bench.receive("alice", &invite), ["alice 486"]);
    assert_eq!(bench.last("alice", "response"), first);
    assert_eq!(bench.follow("ACK"), [""; 0]);
    assert_eq!(bench.receive("alice", &invite), [""; 0]);
    assert_eq!(bench.counter("retransmissions-received"), 4);
    assert_eq!(bench.counter("invites"), 1);
    bench.rest();
}

#[test]
fn an_invite_that_comes_again_after_its_2xx_is_absorbed() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    bench.call("INVITE");
    assert_eq!(bench.answer("bob", 200), ["alice 200"]);
    let invite = bench.last("from alice", "INVITE");
    assert_eq!(bench.receive("alice", &invite), [""; 0]);
    // The callee retransmits its 2xx, and each is forwarded.
    assert_eq!(bench.answer("bob", 200), ["alice 200"]);
    bench.rest();
}

#[test]
fn another_request_that_comes_again_is_absorbed_and_then_answered_as_before() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    bench.call("MESSAGE");
    let message = bench.last("from alice", "MESSAGE");
    assert_eq!(bench.receive("alice", &message), [""; 0]);
    assert_eq!(bench.respond("bob", "MESSAGE", 200, ""), ["alice 200"]);
    assert_eq!(bench.receive("alice", &message), ["alice 200"]);
    // A retransmitted response is not forwarded.
    assert_eq!(bench.respond("bob", "MESSAGE", 200, ""), [""; 0]);
    bench.rest();
}

#[test]
fn the_client_transaction_ends_with_timer_k_and_the_server_transaction_with_timer_j() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    bench.call("MESSAGE");
    bench.respond("bob", "MESSAGE", 200, "");
    assert_eq!(bench.wait(600), [""; 0]);
    // Timer K takes 5 s, timer J 32 s.
    assert_eq!(bench.next_timer(), Some(4_400));
    bench.wait(10_000);
    assert_eq!(bench.next_timer(), Some(21_400));
    assert_eq!(bench.respond("bob", "MESSAGE", 200, ""), [""; 0]);
    let message = bench.last("from alice", "MESSAGE");
    assert_eq!(bench.receive("alice", &message), ["alice 200"]);
    bench.rest();
}

#[test]
fn a_forwarded_invite_is_sent_again_until_timer_b_and_then_answered_408() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    bench.call("INVITE");
    let mut expected = at(&[500, 1500, 3500, 7500, 15_500, 31_500], "bob INVITE");
    expected.push("32000 alice 408".into());
    // The 408 is retransmitted until the ACK arrives.
    expected.push("32500 alice 408".into());
    assert_eq!(bench.wait(33_000), expected);
    bench.follow("ACK");
    assert_eq!(bench.counter("timeouts"), 1);
    bench.rest();
}

#[test]
fn a_provisional_response_stops_the_invite() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    bench.call("INVITE");
    assert_eq!(bench.wait(600), ["500 bob INVITE"]);
    assert_eq!(bench.answer("bob", 100), [""; 0], "100 goes no further");
    assert_eq!(bench.wait(100_000), [""; 0]);
    assert_eq!(bench.answer("bob", 183), ["alice 183"]);
    bench.answer("bob", 404);
    bench.follow("ACK");
    bench.rest();
}

#[test]
fn another_request_is_sent_again_until_timer_f_and_then_not_answered() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    bench.call("MESSAGE");
    let times = [500, 1500, 3500, 7500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500];
    // RFC 4320 section 4.2: a 408 would come too late.
    assert_eq!(bench.wait(40_000), at(&times, "bob MESSAGE"));
    assert_eq!(bench.server.transactions(), 0);
    assert_eq!(bench.counter("timeouts"), 1);
}

#[test]
fn after_a_provisional_response_another_request_is_sent_every_t2() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    bench.call("MESSAGE");
    assert_eq!(bench.respond("bob", "MESSAGE", 100, ""), [""; 0]);
    let times = [500, 4500, 8500, 12_500, 16_500, 20_500, 24_500, 28_500];
    assert_eq!(bench.wait(40_000), at(&times, "bob MESSAGE"));
    assert_eq!(bench.server.transactions(), 0);
}

#[test]
fn a_final_response_to_an_invite_is_sent_again_until_timer_h() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    bench.call("INVITE");
    bench.answer("bob", 486);
    let times = [500, 1500, 3500, 7500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500];
    assert_eq!(bench.wait(40_000), at(&times, "alice 486"));
    assert_eq!(bench.server.transactions(), 0);
}

#[test]
fn an_ack_ends_the_answer_of_the_server_itself() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    bench.call("INVITE");
    assert_eq!(bench.wait(32_000).last().unwrap(), "32000 alice 408");
    assert_eq!(bench.wait(600), ["500 alice 408"]);
    assert_eq!(bench.follow("ACK"), [""; 0]);
    assert_eq!(bench.wait(10_000), [""; 0]);
    bench.rest();
}

#[test]
fn an_ack_without_the_magic_cookie_finds_its_invite() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    let uri = "sip:bob@example.com";
    let invite = bench.request("INVITE", uri, "alice", "alice", uri).replace("z9hG4bK", "");
    assert_eq!(bench.receive("alice", &invite), ["alice 100", "bob INVITE"]);
    assert_eq!(bench.answer("bob", 486), ["bob ACK", "alice 486"]);
    assert_eq!(bench.wait(600), ["500 alice 486"]);
    assert_eq!(bench.follow("ACK"), [""; 0]);
    assert_eq!(bench.wait(10_000), [""; 0]);
    bench.rest();
}

#[test]
fn each_final_response_is_acknowledged_also_when_it_comes_again() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    bench.call("INVITE");
    bench.answer("bob", 486);
    let ack = bench.last("bob", "ACK");
    assert_eq!(bench.answer("bob", 486), ["bob ACK"]);
    assert_eq!(bench.last("bob", "ACK"), ack);
    let via = |text: &str| crate::bench::line(text, "Via").to_owned();
    assert_eq!(via(&ack), via(&bench.last("bob", "INVITE")));
    assert!(crate::bench::line(&ack, "To").ends_with(";tag=bob"), "{ack}");
    bench.follow("ACK");
    bench.rest();
}

#[test]
fn timer_c_cancels_a_phone_that_rings_too_long() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    bench.call("INVITE");
    bench.answer("bob", 180);
    assert_eq!(bench.wait(100_000), [""; 0]);
    // Each provisional response except 100 restarts timer C.
    bench.answer("bob", 180);
    bench.wait(100_000);
    bench.answer("bob", 100);
    assert_eq!(bench.wait(85_000), ["85000 bob CANCEL"]);
    bench.respond("bob", "CANCEL", 200, "");
    assert_eq!(bench.answer("bob", 487), ["bob ACK", "alice 487"]);
    bench.follow("ACK");
    bench.rest();
}

#[test]
fn a_phone_that_does_not_even_answer_the_cancel_of_timer_c_is_given_up() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    bench.call("INVITE");
    bench.answer("bob", 180);
    bench.wait(185_000);
    let sent = bench.wait(32_000);
    assert_eq!(sent.last().unwrap(), "32000 alice 408");
    assert_eq!(sent.iter().filter(|sent| sent.ends_with("bob CANCEL")).count(), 10);
    bench.follow("ACK");
    bench.rest();
}

#[test]
fn a_response_that_fits_nothing_is_dropped() {
    let mut bench = Bench::with_bob(&[("bob", "1"), ("carol", "1")]);
    bench.call("INVITE");
    let invite = bench.last("bob", "INVITE");
    let good = response(&invite, 200, "bob", "");
    let branch = crate::bench::line(&invite, "Via").split("branch=").nth(1).unwrap().to_owned();
    for (from, to) in [
        (&branch[..], "z9hG4bKother"),
        // Digits of the seal, which makes the branch unpredictable.
        (&branch[20..30], "0123456789"),
        ("INVITE", "MESSAGE"),
        ("CSeq: 3 INVITE", "CSeq: 3 CANCEL"),
    ] {
        let forged = good.replace(from, to);
        assert_ne!(forged, good);
        let dropped = bench.counter("dropped");
        assert_eq!(bench.receive("bob", &forged), [""; 0], "{to}");
        assert_eq!(bench.counter("dropped"), dropped + 1, "{to}");
    }
    assert_eq!(bench.receive("bob", &good), ["alice 200"]);
}

#[test]
fn a_response_from_before_a_restart_fits_no_new_transaction() {
    let life = |millis| {
        let mut bench = Bench::with_bob(&[("bob", "1")]);
        bench.wait(millis);
        bench.call("INVITE");
        bench
    };
    let late = response(&life(0).last("bob", "INVITE"), 200, "bob", "");
    assert_eq!(life(0).receive("bob", &late), ["alice 200"], "all but the time is alike");
    assert_eq!(life(1000).receive("bob", &late), [""; 0]);
}
