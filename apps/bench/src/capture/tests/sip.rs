//! Message times, delays, retransmissions and losses.

use super::build::{Capture, Fields, START, message};
use crate::capture::calls::CallOutcome;
use crate::capture::registrations::RegistrationOutcome;
use crate::capture::transactions::{MethodCounts, ResponseCounts};
use crate::record::Histogram;

const ALICE: &str = "10.0.0.1:5060";
const SERVER: &str = "10.0.0.9:5060";
const BOB: &str = "10.0.0.2:5060";
/// [`START`] in microseconds.
const T0: u64 = START / 1_000;

/// Asserts delays exactly: with three digits, a histogram is exact below 2048 us.
fn assert_delays(histogram: &Histogram, delays: &[u64]) {
    let (min, max) = (delays.iter().min().unwrap(), delays.iter().max().unwrap());
    let mean = delays.iter().sum::<u64>() as f64 / delays.len() as f64;
    assert_eq!(histogram.count(), delays.len() as u64);
    assert_eq!((histogram.min(), histogram.max()), (*min, *max));
    assert!((histogram.mean() - mean).abs() < 0.001, "{} is not {mean}", histogram.mean());
}

fn fields<'a>(call_id: &'a str, branches: &'a [&'a str], cseq: &'a str) -> Fields<'a> {
    Fields { call_id, branches, cseq, to_tag: "" }
}

/// Adds a call through a proxy, `at` microseconds after the start. `see` selects the hops of a
/// capture at the caller, at the server or at the callee.
fn proxied_call(capture: &mut Capture, at: u64, call_id: &str, see: impl Fn(&str, &str) -> bool) {
    let one = format!("a{call_id}");
    let two = format!("b{call_id}");
    let near: &[&str] = &[&one];
    let far: &[&str] = &[&two, &one];
    let ack = format!("c{call_id}");
    let ack_far = format!("d{call_id}");
    let bye = format!("e{call_id}");
    let invite = |branches| fields(call_id, branches, "1 INVITE");
    let tagged = |branches| Fields { to_tag: "2", ..invite(branches) };
    let dialog = |branches, cseq| Fields { call_id, branches, cseq, to_tag: "2" };
    for (micros, source, destination, bytes) in [
        (0, ALICE, SERVER, message("INVITE sip:bob@b", invite(near), "v=0\r\n")),
        (100, SERVER, ALICE, message("100", invite(near), "")),
        (150, SERVER, BOB, message("INVITE sip:bob@b", invite(far), "v=0\r\n")),
        (300, BOB, SERVER, message("180", tagged(far), "")),
        (350, SERVER, ALICE, message("180", tagged(near), "")),
        (800, BOB, SERVER, message("200", tagged(far), "v=0\r\n")),
        (850, SERVER, ALICE, message("200", tagged(near), "v=0\r\n")),
        (900, ALICE, SERVER, message("ACK sip:bob@b", dialog(&[&ack], "1 ACK"), "")),
        (950, SERVER, BOB, message("ACK sip:bob@b", dialog(&[&ack_far, &ack], "1 ACK"), "")),
        (1900, ALICE, BOB, message("BYE sip:bob@b", dialog(&[&bye], "2 BYE"), "")),
        (1960, BOB, ALICE, message("200", dialog(&[&bye], "2 BYE"), "")),
    ] {
        if see(source, destination) {
            capture.udp(at + micros, source, destination, &bytes);
        }
    }
}

#[test]
fn a_call_through_a_proxy_has_all_its_times() {
    let mut capture = Capture::default();
    proxied_call(&mut capture, 0, "x", |_, _| true);
    let calls = capture.analyse().calls;
    let [call] = &calls.list[..] else { panic!("{:?}", calls.list) };
    let times = &call.times;
    assert_eq!(times.inv1_us, Some(T0));
    assert_eq!(times.inv2_us, Some(T0 + 150));
    assert_eq!(times.rng_us, Some(T0 + 300));
    assert_eq!(times.sdp_ok1_us, Some(T0 + 800));
    assert_eq!(times.sdp_ok2_us, Some(T0 + 850));
    assert_eq!(times.ack_us, Some(T0 + 900));
    assert_eq!(times.authorised_us, None);
    assert_eq!(call.outcome, CallOutcome::Established);
    assert_eq!((call.from.as_str(), call.to.as_str()), ("alice@a.example", "bob@b.example"));
    assert_eq!((call.hops.len(), call.flow.len()), (2, 11));
    assert_delays(&calls.invite_delay, &[150]);
    assert_delays(&calls.setup_delay, &[850]);
    assert_delays(&calls.srd, &[350]);
    assert_delays(&calls.sdd, &[60]);
    assert_delays(&calls.sdt, &[1050]);
    assert_eq!((calls.attempts, calls.established, calls.lost), (1, 1, 0));
}

#[test]
fn messages_missing_in_the_capture_give_no_figures() {
    let at = |place: &'static str| {
        let mut capture = Capture::default();
        proxied_call(&mut capture, 0, "x", |from, to| from == place || to == place);
        capture.analyse().calls
    };
    let caller = at(ALICE);
    let times = &caller.list[0].times;
    assert_eq!((times.inv1_us, times.inv2_us), (Some(T0), None));
    assert_eq!((times.sdp_ok1_us, times.sdp_ok2_us), (None, Some(T0 + 850)));
    assert_eq!(times.rng_us, Some(T0 + 350));
    assert!(caller.invite_delay.is_empty());
    assert_delays(&caller.setup_delay, &[850]);

    let callee = at(BOB);
    let times = &callee.list[0].times;
    assert_eq!((times.inv1_us, times.inv2_us), (None, Some(T0 + 150)));
    assert_eq!((times.sdp_ok1_us, times.sdp_ok2_us), (Some(T0 + 800), None));
    assert_eq!(times.ack_us, Some(T0 + 950));
    assert!(callee.setup_delay.is_empty());
    assert_delays(&callee.srd, &[150]);

    let server = at(SERVER);
    assert_eq!(server.list[0].times.bye_us, None);
    assert_delays(&server.invite_delay, &[150]);
    assert!(server.sdd.is_empty());
}

#[test]
fn figures_are_over_all_calls() {
    let mut capture = Capture::default();
    for (index, call_id) in ["x", "y", "z"].iter().enumerate() {
        proxied_call(&mut capture, 10_000 * index as u64, call_id, |_, _| true);
    }
    // The third call's INVITE reaches the callee later.
    let late = |(time, _): &&mut (u64, Vec<u8>)| *time == START + 20_150_000;
    capture.packets.iter_mut().find(late).unwrap().0 += 90_000;
    let calls = capture.analyse().calls;
    assert_delays(&calls.invite_delay, &[150, 150, 240]);
    assert_delays(&calls.setup_delay, &[850, 850, 850]);
}

#[test]
fn retransmissions_are_counted_by_method_and_status() {
    let mut capture = Capture::default();
    let invite = fields("x", &["1"], "1 INVITE");
    let request = message("INVITE sip:bob@b", invite, "");
    let ok = message("200", Fields { to_tag: "2", ..invite }, "");
    let other_branch = message("200", Fields { to_tag: "3", ..invite }, "");
    for (micros, source, destination, bytes) in [
        (0, ALICE, SERVER, &request),
        (500_000, ALICE, SERVER, &request),
        (1_500_000, ALICE, SERVER, &request),
        (1_600_000, SERVER, ALICE, &message("100", invite, "")),
        (1_700_000, SERVER, ALICE, &ok),
        (1_800_000, SERVER, ALICE, &other_branch),
        (2_200_000, SERVER, ALICE, &ok),
    ] {
        capture.udp(micros, source, destination, bytes);
    }
    let analysis = capture.analyse();
    let requests = MethodCounts {
        requests: 1,
        retransmissions: 2,
        answered: 1,
        concluded: 1,
        ..MethodCounts::default()
    };
    assert_eq!(analysis.methods["INVITE"], requests);
    // Two callees answered the forked INVITE: the second 200 is no retransmission.
    let responses = ResponseCounts { responses: 2, retransmissions: 1 };
    assert_eq!(analysis.responses["200 INVITE"], responses);
    assert_eq!(analysis.calls.list[0].hops[0].retransmissions, 2);
    assert_eq!(analysis.calls.answered, 1);
    assert_eq!(analysis.calls.list[0].times.inv1_us, Some(T0));
}

#[test]
fn a_message_on_two_hops_is_no_retransmission() {
    let mut capture = Capture::default();
    let options = message("OPTIONS sip:b", fields("x", &["1"], "1 OPTIONS"), "");
    capture.udp(0, ALICE, SERVER, &options);
    capture.udp(10, SERVER, BOB, &options);
    let counts = capture.analyse().methods["OPTIONS"];
    assert_eq!((counts.requests, counts.retransmissions), (2, 0));
}

#[test]
fn lost_calls_and_invites_are_told_from_refused_and_pending_ones() {
    let mut capture = Capture::default();
    let invite = |call_id| message("INVITE sip:b", fields(call_id, &[call_id], "1 INVITE"), "");
    let answer = |call_id, status| message(status, fields(call_id, &[call_id], "1 INVITE"), "");
    for (micros, call_id, status) in [
        (0, "lost", None),
        (1000, "ringing", Some("180")),
        (2000, "busy", Some("486")),
        (3000, "cancelled", Some("487")),
        (10_000_000, "late", None),
    ] {
        capture.udp(micros, ALICE, SERVER, &invite(call_id));
        if let Some(status) = status {
            capture.udp(micros + 700, SERVER, ALICE, &answer(call_id, status));
        }
    }
    let analysis = capture.analyse();
    let outcomes: Vec<_> = analysis.calls.list.iter().map(|call| call.outcome).collect();
    use CallOutcome::{Cancelled, Lost, Pending, Refused, Unfinished};
    assert_eq!(outcomes, [Lost, Unfinished, Refused, Cancelled, Pending]);
    let calls = &analysis.calls;
    assert_eq!((calls.attempts, calls.lost_invites, calls.lost, calls.pending), (5, 1, 2, 1));
    assert_eq!(calls.failures, [(486, 1), (487, 1)].into());
    assert_delays(&calls.srd_failed, &[700]);
    let requests = analysis.methods["INVITE"];
    assert_eq!((requests.answered, requests.concluded), (3, 2));
    assert_eq!((requests.lost, requests.pending), (1, 1));
}

#[test]
fn a_challenged_call_counts_from_its_first_invite() {
    let mut capture = Capture::default();
    let first = fields("x", &["1"], "1 INVITE");
    let second = fields("x", &["2"], "2 INVITE");
    let onward = fields("x", &["3", "2"], "2 INVITE");
    let tagged = |fields| Fields { to_tag: "2", ..fields };
    for (micros, source, destination, bytes) in [
        (0, ALICE, SERVER, message("INVITE sip:b", first, "")),
        (80, SERVER, ALICE, message("407", tagged(first), "")),
        (90, ALICE, SERVER, message("ACK sip:b", tagged(fields("x", &["1"], "1 ACK")), "")),
        (400, ALICE, SERVER, message("INVITE sip:b", second, "")),
        (450, SERVER, BOB, message("INVITE sip:b", onward, "")),
        (700, BOB, SERVER, message("200", tagged(onward), "")),
        (720, SERVER, ALICE, message("200", tagged(second), "")),
        (730, ALICE, SERVER, message("ACK sip:b", tagged(fields("x", &["4"], "2 ACK")), "")),
    ] {
        capture.udp(micros, source, destination, &bytes);
    }
    let calls = capture.analyse().calls;
    let times = &calls.list[0].times;
    assert_eq!((times.inv1_us, times.authorised_us), (Some(T0), Some(T0 + 400)));
    assert_eq!(times.ack_us, Some(T0 + 730));
    assert_eq!(calls.challenged, 1);
    assert_delays(&calls.challenge_delay, &[80]);
    assert_delays(&calls.invite_delay, &[50]);
    assert_delays(&calls.setup_delay, &[720]);
    assert_delays(&calls.srd, &[720]);
}

#[test]
fn the_two_legs_of_a_back_to_back_user_agent_are_one_call() {
    let mut capture = Capture::default();
    let (one, two) = (fields("one", &["1"], "1 INVITE"), fields("two", &["2"], "9 INVITE"));
    let tagged = |fields| Fields { to_tag: "2", ..fields };
    let ack = |call_id, cseq| tagged(fields(call_id, &["3"], cseq));
    for (micros, source, destination, bytes) in [
        (0, ALICE, SERVER, message("INVITE sip:b", one, "")),
        (70, SERVER, BOB, message("INVITE sip:b", two, "")),
        (300, BOB, SERVER, message("180", tagged(two), "")),
        (350, SERVER, ALICE, message("180", tagged(one), "")),
        (800, BOB, SERVER, message("200", tagged(two), "")),
        (820, SERVER, BOB, message("ACK sip:b", ack("two", "9 ACK"), "")),
        (850, SERVER, ALICE, message("200", tagged(one), "")),
        (900, ALICE, SERVER, message("ACK sip:b", ack("one", "1 ACK"), "")),
        // Another call of the same users, after the first was answered: not a leg of it.
        (5_000, SERVER, BOB, message("INVITE sip:b", fields("new", &["8"], "1 INVITE"), "")),
    ] {
        capture.udp(micros, source, destination, &bytes);
    }
    let calls = capture.analyse().calls;
    assert_eq!(calls.list[1].leg_of.as_deref(), Some("one"));
    assert_eq!(calls.list[2].leg_of, None);
    assert_eq!((calls.attempts, calls.established), (2, 1));
    let times = &calls.list[0].times;
    assert_eq!((times.inv2_us, times.rng_us), (Some(T0 + 70), Some(T0 + 300)));
    assert_eq!((times.sdp_ok1_us, times.sdp_ok2_us), (Some(T0 + 800), Some(T0 + 850)));
    assert_delays(&calls.invite_delay, &[70]);
    assert_delays(&calls.setup_delay, &[850]);
}

#[test]
fn registrations_have_their_challenge_apart() {
    let mut capture = Capture::default();
    let register =
        |call_id, branches, cseq| message("REGISTER sip:b", fields(call_id, branches, cseq), "");
    let answer =
        |status, call_id, branches, cseq| message(status, fields(call_id, branches, cseq), "");
    for (micros, source, destination, bytes) in [
        (0, ALICE, SERVER, register("x", &["1"], "1 REGISTER")),
        (120, SERVER, ALICE, answer("401", "x", &["1"], "1 REGISTER")),
        (150, ALICE, SERVER, register("x", &["2"], "2 REGISTER")),
        // The same on the hop from a proxy to the registrar.
        (160, SERVER, BOB, register("x", &["9", "2"], "2 REGISTER")),
        (170, BOB, SERVER, answer("200", "x", &["9", "2"], "2 REGISTER")),
        (350, SERVER, ALICE, answer("200", "x", &["2"], "2 REGISTER")),
        // A refresh without a challenge, and its retransmission.
        (2000, ALICE, SERVER, register("x", &["3"], "3 REGISTER")),
        (2100, ALICE, SERVER, register("x", &["3"], "3 REGISTER")),
        (2250, SERVER, ALICE, answer("200", "x", &["3"], "3 REGISTER")),
        // Wrong credentials, no credentials, and no response.
        (3000, ALICE, SERVER, register("y", &["4"], "1 REGISTER")),
        (3100, SERVER, ALICE, answer("403", "y", &["4"], "1 REGISTER")),
        (4000, ALICE, SERVER, register("z", &["5"], "1 REGISTER")),
        (4100, SERVER, ALICE, answer("401", "z", &["5"], "1 REGISTER")),
        (5000, ALICE, SERVER, register("w", &["6"], "1 REGISTER")),
        (9_000_000, ALICE, SERVER, register("v", &["7"], "1 REGISTER")),
    ] {
        capture.udp(micros, source, destination, &bytes);
    }
    let registrations = capture.analyse().registrations;
    use RegistrationOutcome::{Failed, Lost, Pending, Succeeded};
    let outcomes: Vec<_> = registrations.list.iter().map(|one| one.outcome).collect();
    assert_eq!(outcomes, [Succeeded, Succeeded, Succeeded, Failed, Failed, Lost, Pending]);
    let first = &registrations.list[0];
    assert_eq!((first.register_us, first.challenge_us), (T0, Some(T0 + 120)));
    assert_eq!((first.authorised_us, first.final_us), (Some(T0 + 150), Some(T0 + 350)));
    assert_eq!((first.status, first.user.as_str()), (Some(200), "bob@b.example"));
    assert_eq!(registrations.list[1].vias, 2);
    assert_eq!((registrations.attempts, registrations.succeeded), (6, 2));
    let Counted { failed, lost, pending, challenged } = Counted::of(&registrations);
    assert_eq!((failed, lost, pending, challenged), (2, 1, 1, 2));
    assert_delays(&registrations.delay, &[350, 250]);
    assert_delays(&registrations.challenge_delay, &[120, 100]);
    assert_delays(&registrations.client_delay, &[30]);
    assert_delays(&registrations.authorised_delay, &[200]);
}

struct Counted {
    failed: u64,
    lost: u64,
    pending: u64,
    challenged: u64,
}

impl Counted {
    fn of(registrations: &crate::capture::registrations::Registrations) -> Self {
        let crate::capture::registrations::Registrations {
            failed, lost, pending, challenged, ..
        } = *registrations;
        Self { failed, lost, pending, challenged }
    }
}

#[test]
fn datagrams_without_sip_are_skipped_and_counted() {
    let mut capture = Capture::default();
    capture.udp(0, ALICE, SERVER, b"\r\n\r\n");
    capture.udp(1, ALICE, SERVER, b"GET / HTTP/1.1\r\n\r\n");
    capture.udp(2, ALICE, SERVER, &[0, 1, 2, 3]);
    capture.udp(3, ALICE, SERVER, b"OPTIONS sip:b SIP/2.0\r\nVia: SIP/2.0/UDP h\r\n\r\n");
    capture.udp(4, ALICE, SERVER, b"OPTIONS sip:b SIP/2.0\r\nVia: SIP/2");
    capture.udp(
        5,
        "10.0.0.1:9",
        "10.0.0.2:33000",
        &message("OPTIONS sip:b", fields("x", &["1"], "1 OPTIONS"), ""),
    );
    capture.udp(6, SERVER, ALICE, &message("200", fields("y", &["2"], "1 OPTIONS"), ""));
    let sip = capture.analyse().sip;
    assert_eq!((sip.keep_alives, sip.other_datagrams), (1, 2));
    assert_eq!((sip.udp, sip.malformed, sip.stray_responses), (3, 2, 1));
}

#[test]
fn the_text_shows_the_flow_of_a_call() {
    let mut capture = Capture::default();
    proxied_call(&mut capture, 0, "x", |_, _| true);
    let analysis = capture.analyse();
    let text = crate::capture::tables::Tables { analysis: &analysis, calls: true }.to_string();
    for line in [
        "Call x: alice@a.example to bob@b.example, established",
        "  TInv2                 0.000150 s",
        "       0.000000 |INVITE SDP------------>",
        "       0.000300                         <------------180 INVITE|",
        "       0.001900 |BYE------------------------------------------->",
        "invite delay                      1       0.150       0.150       0.150                               0.150",
    ] {
        assert!(text.lines().any(|one| one.trim_end() == line), "{line:?} is not in\n{text}");
    }
}

#[test]
fn several_messages_that_were_handed_over_in_one_piece_are_told_apart() {
    let mut capture = Capture::default();
    let register = |call_id, branch| {
        let branches = [branch];
        message("REGISTER sip:b", fields(call_id, &branches, "1 REGISTER"), "")
    };
    let both = [register("1", "one"), register("2", "two")].concat();
    capture.udp(0, ALICE, SERVER, &both);
    // Other data after a message is ignored (RFC 3261 section 18.3).
    let padded = [register("3", "three"), b"padding".to_vec()].concat();
    capture.udp(50, ALICE, SERVER, &padded);
    let analysis = capture.analyse();
    assert_eq!((analysis.sip.udp, analysis.sip.malformed), (3, 0));
    assert_eq!(analysis.methods["REGISTER"].requests, 3);
    assert_eq!(analysis.registrations.attempts, 3);
}
