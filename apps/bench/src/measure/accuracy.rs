//! Tests of the instrument against a peer with known behaviour. Counts are compared exactly. Delays
//! have tolerances for a busy machine.

use super::{Force, Limits, LoadSpec, Meters, run};
use crate::load::arrivals::{Segment, Spacing};
use crate::load::engine::Settings;
use crate::load::generator::{Generator, GeneratorPlan, Part};
use crate::load::links::Sharing;
use crate::metrics;
use crate::peer::script::{What, When, Which};
use crate::peer::{Authentication, Peer, PeerCounts, Rule, Script};
use crate::record::{Ceiling, Delay, Histogram, Operation, Run};
use crate::users::Users;
use sip::transaction::Timers;
use sip::{Duration, Method, Transport};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

/// The tolerance of a median delay above the delay of the peer.
const SLACK: u64 = 5_000;

/// Returns the number of delays of at least `micros`.
fn beyond(histogram: &Histogram, micros: u64) -> u64 {
    histogram.values().filter(|&(value, _)| value >= micros).map(|(_, count)| count).sum()
}

/// The reported edges of the measured times.
#[derive(Default)]
struct Edges(Vec<(Instant, std::time::Duration)>);

impl Meters for Edges {
    fn begin(&mut self) {}
    fn measured(&mut self, _: Duration, start: Instant, length: Duration) {
        self.0.push((start, length.into()));
    }
    fn end(&mut self) {}
}

/// The runs of a case on a busy machine. The last one counts in any case.
const ATTEMPTS: usize = 8;

/// The longest stall of a thread in a run that counts.
const ALLOWED_STALL: std::time::Duration = std::time::Duration::from_millis(25);

/// A thread that sleeps for a millisecond at a time, and measures how late it wakes.
struct StallMeter {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<std::time::Duration>,
}

impl StallMeter {
    fn start() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let mut longest = std::time::Duration::ZERO;
            while !ends.load(Ordering::Relaxed) {
                let asleep = Instant::now();
                std::thread::sleep(std::time::Duration::from_millis(1));
                longest = longest.max(asleep.elapsed());
            }
            longest
        });
        Self { is_over, thread }
    }

    /// Ends the thread, and returns its longest sleep.
    fn longest(self) -> std::time::Duration {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("the thread only sleeps")
    }
}

/// A load, by default 200 operations in one second.
struct Case {
    operation: Operation,
    rate: f64,
    seconds: f64,
    warmup: u64,
    users: usize,
    t1: u64,
    drain: u64,
    transport: Transport,
    sharing: Sharing,
    tick: u64,
    authentication: bool,
    ceiling: Option<Ceiling>,
}

const CASE: Case = Case {
    operation: Operation::Options,
    rate: 200.0,
    seconds: 1.0,
    warmup: 0,
    users: 20,
    t1: 5_000,
    drain: 20_000,
    transport: Transport::Udp,
    sharing: Sharing::Thread,
    tick: 0,
    authentication: false,
    ceiling: None,
};

impl Case {
    /// Returns the run, and all counts of the peer. A run is repeated if the machine held up its
    /// threads: its counts are those of the machine.
    fn measure(&self, script: &Script) -> (Run, PeerCounts) {
        for _ in 1..ATTEMPTS {
            let stalls = StallMeter::start();
            let measured = self.measure_once(script);
            if stalls.longest() < ALLOWED_STALL {
                return measured;
            }
        }
        self.measure_once(script)
    }

    fn measure_once(&self, script: &Script) -> (Run, PeerCounts) {
        let peer = Peer::start(script).unwrap();
        let t1 = Duration::from_millis(self.t1);
        let plan = GeneratorPlan {
            target: peer.address(),
            settings: Settings {
                salt: getrandom::u32().unwrap(),
                domain: "accuracy.invalid".to_owned(),
                transport: self.transport,
                timers: Timers { t1, ..Timers::default() },
                ring: Duration::ZERO,
                hold: Duration::ZERO,
                expires: 600,
                target: peer.address(),
                to: None,
                retransmits: true,
                hangs_up: true,
                register_first: false,
                reuse_nonces: false,
            },
            users: Users::from_pattern(Users::DEFAULT_PATTERN, self.users).unwrap(),
            rate: self.rate,
            workers: Some(1),
            is_probing: false,
            local: None,
            part: Part::WHOLE,
            sharing: self.sharing,
            is_segmenting: true,
            is_resuming: true,
            tick: Some(Duration::from_millis(self.tick)),
        };
        let mut force = Force::Local(Generator::open(&plan, &Arc::default()).unwrap());
        let spec = LoadSpec {
            operation: self.operation,
            authentication: self.authentication,
            segments: vec![Segment::constant(self.rate, self.seconds)],
            spacing: Spacing::Fixed,
            arrivals: "fixed".to_owned(),
            warmup: Duration::from_millis(self.warmup),
            tail: Duration::ZERO,
            drain: Duration::from_millis(self.drain),
            hold: Duration::ZERO,
            has_registrar: true,
            seed: 1,
        };
        // A busy machine must not make these runs invalid.
        let limits = Limits { lag: Duration::from_secs(60), busy: 9.0, ..Limits::default() };
        let ceilings: Vec<Ceiling> = self.ceiling.into_iter().collect();
        let mut edges = Edges::default();
        let begun = Instant::now();
        let run = run(&mut force, &spec, self.users, &limits, &ceilings, &mut edges);
        let warmup = std::time::Duration::from_millis(self.warmup);
        let (start, length) = edges.0[0];
        assert!(start > begun + warmup && start < Instant::now());
        assert_eq!(length.as_secs_f64(), self.seconds);
        let run = run.unwrap_or_else(|error| panic!("{error}")).run;
        // With ticks, the last operations come up after the measured time.
        assert!(self.tick > 0 || run.counts.offered == self.offered(), "{:?}", run.counts);
        assert_eq!(run.counts.started, run.counts.offered);
        let counts = &run.counts;
        let ended = counts.succeeded + counts.refused + counts.timed_out + counts.lost;
        assert_eq!(ended, counts.offered, "every operation ends in one way");
        (run, settled(&peer))
    }

    fn offered(&self) -> u64 {
        (self.rate * self.seconds) as u64
    }
}

#[test]
fn the_series_begins_a_second_with_the_measured_time() {
    let (run, _) = Case { warmup: 300, ..CASE }.measure(&Script::default());
    let of = |second: &crate::record::Second| (second.at, second.measured, second.offered);
    let series: Vec<_> = run.series.iter().take(2).map(of).collect();
    assert_eq!(series, [(-1, false, 60), (0, true, 200)]);
    assert_eq!(run.loaded, Some([-0.3, 1.0]));
}

/// Returns the counts of `peer` after it has processed the last messages.
fn settled(peer: &Peer) -> PeerCounts {
    let mut before = peer.counts();
    loop {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let now = peer.counts();
        if now == before {
            return now;
        }
        before = now;
    }
}

fn script(rules: Vec<Rule>) -> Script {
    Script { rules, ..Script::default() }
}

/// Returns the rule that relayed requests of a method take so many milliseconds.
fn relay(method: Method<'static>, millis: u64) -> Rule {
    let which = Which { is_request: Some(true), method: Some(method), status: None };
    let delay = std::time::Duration::from_millis(millis);
    Rule { which, when: When::Always, what: What::Delay(delay) }
}

#[track_caller]
fn assert_median(run: &Run, delay: Delay, count: u64, millis: u64) {
    let histogram = run.delays.get(&delay).unwrap_or_else(|| panic!("no {delay:?}"));
    assert_eq!(histogram.count(), count, "{delay:?}");
    let (median, true_one) = (histogram.percentile(50.0), millis * 1000);
    // A histogram has a resolution of 0.1 %.
    let bounds = true_one - millis..=true_one + SLACK;
    assert!(bounds.contains(&median), "{delay:?} is {median} us, not {true_one} us");
    assert!(histogram.min() >= true_one - millis, "{delay:?}: {} us", histogram.min());
}

#[test]
fn a_request_takes_the_time_of_the_server() {
    for (operation, delay) in
        [(Operation::Options, None), (Operation::RegisterUpdate, Some(Delay::Rrd))]
    {
        let case = Case { operation, ..CASE };
        let (run, peer) = case.measure(&script(vec![Rule::delay("20ms").unwrap()]));
        assert!(run.is_valid(), "{:?}", run.doubts);
        assert_median(&run, Delay::Response, 200, 20);
        // Half of all operations were late by less than the tolerance.
        assert_median(&run, Delay::FromSchedule, 200, 20);
        if let Some(delay) = delay {
            assert_median(&run, delay, 200, 20);
        }
        let counts = &run.counts;
        assert_eq!(metrics::success(counts), Some(100.0));
        assert_eq!((counts.sent, counts.received, counts.retransmitted), (200, 200, 0));
        assert_eq!(peer.delayed, peer.sent);
        match operation {
            Operation::Options => assert_eq!((peer.options, peer.registers), (200, 0)),
            // The users are registered before.
            _ => assert_eq!((peer.options, peer.registers), (0, 220)),
        }
        assert_eq!(metrics::achieved_rate(&run), 200.0);
    }
}

#[test]
fn a_call_takes_the_time_of_its_messages() {
    let rules = vec![
        relay(Method::Invite, 8),
        Rule::delay("invite/180=10ms").unwrap(),
        Rule::delay("invite/200=30ms").unwrap(),
        relay(Method::Bye, 4),
        Rule::delay("bye/200=6ms").unwrap(),
    ];
    for (transport, sharing) in [
        (Transport::Udp, Sharing::Thread),
        (Transport::Udp, Sharing::User),
        (Transport::Tcp, Sharing::User),
    ] {
        let case = Case { operation: Operation::Invite, rate: 50.0, transport, sharing, ..CASE };
        let (run, peer) = case.measure(&script(rules.clone()));
        for (delay, millis) in [
            (Delay::Invite, 8),
            (Delay::Srd, 18),
            (Delay::Setup, 38),
            (Delay::Response, 38),
            (Delay::Latency, 48),
            (Delay::FromSchedule, 38),
            (Delay::Sdd, 10),
        ] {
            assert_median(&run, delay, 50, millis);
        }
        assert!(!run.delays.contains_key(&Delay::SrdFailed));
        let counts = &run.counts;
        assert_eq!((counts.succeeded, counts.completed_calls), (50, 50));
        assert_eq!((counts.sent, counts.received), (300, 300), "six messages, played at both ends");
        assert_eq!((peer.invites, peer.acks, peer.byes, peer.responses), (50, 50, 50, 150));
        for share in [metrics::ser, metrics::seer, metrics::scr] {
            assert_eq!(share(counts), Some(100.0));
        }
        assert_eq!(metrics::isa(counts), Some(0.0));
    }
}

#[test]
fn a_connection_for_each_operation_is_counted() {
    let case = Case { transport: Transport::Tcp, sharing: Sharing::Operation, ..CASE };
    let (run, peer) = case.measure(&script(Vec::new()));
    assert_eq!((run.counts.succeeded, run.counts.connections), (200, 200));
    // One connection for the probe, and one for the worker.
    assert_eq!((peer.options, peer.connections), (200, 202));
}

#[test]
fn lost_messages_are_retransmitted_and_take_longer() {
    for rule in ["requests:4", "responses:4"] {
        let case = Case { t1: 100, ..CASE };
        let (run, peer) = case.measure(&script(vec![Rule::lose(rule).unwrap()]));
        let counts = &run.counts;
        assert_eq!(counts.succeeded, 200, "{rule}");
        assert_eq!(counts.sent, peer.options, "what was lost came there, too");
        assert_eq!(counts.sent, 200 + counts.retransmitted);
        // Each loss has a retransmission; a busy machine may cause more of them.
        assert!(counts.retransmitted >= peer.lost && peer.lost >= 50, "{peer:?}");
        assert_eq!((counts.received, counts.repeated), (peer.sent, peer.sent - 200), "{rule}");
        let response = &run.delays[&Delay::Response];
        let slow = beyond(response, 99_900);
        assert!((1..=counts.retransmitted).contains(&slow), "{slow} of {}", counts.retransmitted);
        assert!(
            slow >= 40,
            "a fourth, but for those whose retransmission was lost as well: {slow}"
        );
        assert!(response.percentile(50.0) < 100_000);
        assert_eq!(run.delays[&Delay::FromSchedule].count(), 200);
    }
}

#[test]
fn silence_is_a_timeout_with_no_response() {
    for (operation, method) in
        [(Operation::Options, "OPTIONS"), (Operation::InviteNotFound, "INVITE")]
    {
        let case = Case { operation, t1: 10, ..CASE };
        let (run, peer) = case.measure(&script(vec![Rule::lose("requests").unwrap()]));
        let counts = &run.counts;
        assert_eq!((counts.timed_out, counts.succeeded, counts.received), (200, 0, 0));
        assert_eq!(counts.finals[method], [(0, 200)].into());
        assert_eq!(counts.sent, peer.options + peer.invites);
        assert_eq!(counts.retransmitted, counts.sent - 200);
        assert_eq!(metrics::success(counts), Some(0.0));
        assert!(run.delays.is_empty());
        if method == "INVITE" {
            assert_eq!((metrics::isa(counts), metrics::ser(counts)), (Some(100.0), Some(0.0)));
        }
    }
}

#[test]
fn error_responses_have_their_share() {
    let case = Case { operation: Operation::Invite, rate: 100.0, ..CASE };
    let rules = vec![Rule::fail("invite:4=503").unwrap(), Rule::fail("invite:10=486").unwrap()];
    let (run, peer) = case.measure(&script(rules));
    let counts = &run.counts;
    assert_eq!((counts.succeeded, counts.refused), (100 - peer.failed, peer.failed));
    let finals = &counts.finals["INVITE"];
    assert_eq!(finals.values().sum::<u64>(), 100);
    assert_eq!(finals[&200], counts.succeeded);
    let (busy, unavailable) = (finals[&486], finals[&503]);
    assert_eq!(busy + unavailable, peer.failed);
    assert!(unavailable >= 20 && busy >= 5, "{finals:?}");
    assert_eq!(metrics::ser(counts), Some(counts.succeeded as f64));
    assert_eq!(metrics::seer(counts), Some((counts.succeeded + busy) as f64));
    assert_eq!(metrics::isa(counts), Some(unavailable as f64));
    assert_eq!(metrics::scr(counts), Some(counts.succeeded as f64));
    assert_eq!(run.delays[&Delay::SrdFailed].count(), peer.failed);
    assert_eq!(run.delays[&Delay::Srd].count(), counts.succeeded);
    // Each rejection is acknowledged, to the peer itself; and each 200 to the callee.
    assert_eq!(peer.acks, 100);
}

#[test]
fn wrong_responses_are_no_success() {
    let (run, peer) = CASE.measure(&script(vec![Rule::fail("options:5=404").unwrap()]));
    assert_eq!((run.counts.refused, run.counts.succeeded), (40, 160));
    assert_eq!(peer.failed, 40);
    assert_eq!(run.delays[&Delay::Response].count(), 160);

    // The user exists although it should not.
    let case = Case { operation: Operation::InviteNotFound, ..CASE };
    let (run, _) = case.measure(&script(vec![Rule::fail("invite:5=200").unwrap()]));
    let counts = &run.counts;
    assert_eq!((counts.refused, counts.unexpected, counts.succeeded), (40, 40, 160));
    assert_eq!(counts.finals["INVITE"], [(200, 40), (404, 160)].into());
}

#[test]
fn repeated_and_malformed_messages_are_counted() {
    // Garbage belongs to no operation, so it counts by its time of receipt: the last one has a
    // tenth of a second to the end of the measured time.
    let rules = vec![Rule::repeat("responses:7").unwrap(), Rule::garbage("responses:60").unwrap()];
    let (run, peer) = CASE.measure(&script(rules));
    let counts = &run.counts;
    assert_eq!((counts.succeeded, counts.repeated), (200, peer.repeated));
    assert_eq!(peer.repeated, 28);
    assert_eq!((counts.malformed, peer.garbage), (3, 3));
    assert_eq!(counts.received, peer.sent + peer.garbage);

    // A retransmitted 200 to an INVITE is acknowledged again, so there is a second ACK.
    let case = Case { operation: Operation::Invite, rate: 100.0, ..CASE };
    let (run, peer) = case.measure(&script(vec![Rule::repeat("invite/200:7").unwrap()]));
    assert_eq!((run.counts.succeeded, peer.repeated, peer.acks), (100, 14, 114));
    assert_eq!(run.counts.repeated, 28);
    assert_eq!(run.counts.unexpected, 0);
}

#[test]
fn responses_after_the_timeout_are_late() {
    // 64 times T1 are 320 ms.
    let case = Case { t1: 5, seconds: 0.5, ..CASE };
    let (run, peer) = case.measure(&script(vec![Rule::delay("600ms").unwrap()]));
    let counts = &run.counts;
    assert_eq!((counts.timed_out, counts.succeeded), (100, 0));
    assert!(counts.late > 0 && counts.late <= peer.sent, "{counts:?}");
    assert_eq!((counts.received, counts.repeated), (counts.late, 0));
    assert_eq!(counts.finals["OPTIONS"], [(0, 100)].into());
    assert!(run.delays.is_empty());
}

#[test]
fn operations_without_a_response_at_the_end_are_lost() {
    let case = Case { drain: 300, ..CASE };
    let (run, _) = case.measure(&script(vec![Rule::delay("600ms").unwrap()]));
    let counts = &run.counts;
    // Operations of the last 300 ms; fewer if the machine is slow to give up.
    assert!((1..=80).contains(&counts.lost), "{}", counts.lost);
    assert_eq!(counts.timed_out, 0);
    assert!(counts.finals["OPTIONS"][&200] == counts.succeeded);
}

#[test]
fn a_stall_is_seen_in_all_that_it_held_up() {
    let case = Case { rate: 400.0, seconds: 2.0, ..CASE };
    let stall = (std::time::Duration::from_millis(500), std::time::Duration::from_millis(1000));
    let (run, peer) = case.measure(&Script { stalls: vec![stall], ..Script::default() });
    assert_eq!((run.counts.succeeded, run.counts.retransmitted, peer.options), (800, 0, 800));
    for delay in [Delay::Response, Delay::FromSchedule] {
        let histogram = &run.delays[&delay];
        // A closed loop would show one slow operation. Here the arrivals of 400 ms waited for more
        // than 100 ms: a fifth. Sent up to 10 ms late, or answered 50 ms late, the number is no
        // smaller.
        let slow = beyond(histogram, 100_000);
        assert!((150..=200).contains(&slow), "{slow} of 800 took more than 100 ms: {delay:?}");
        // The longest hundredth: 480 ms and more.
        let p99 = histogram.percentile(99.0);
        assert!((450_000..=600_000).contains(&p99), "{p99} us: {delay:?}");
        assert!(histogram.percentile(50.0) < 100_000);
    }
    // The weighted coefficient (see docs/sources.md): a fifth of all responses is too late for any
    // weight.
    let bands = metrics::Bands::of(&run.delays[&Delay::Response]).unwrap();
    assert!((0.15..=0.25).contains(&bands.shares[5]), "{bands:?}");
    assert!(bands.coefficient() < 0.4, "{bands:?}");
}

#[test]
fn challenges_are_answered_and_counted_and_two_trips_take_twice_as_long() {
    let users = Users::from_pattern(Users::DEFAULT_PATTERN, 20).unwrap();
    let passwords = users.iter().map(|(name, password)| (name.into_bytes(), password)).collect();
    let script = Script {
        authentication: Authentication::Passwords(passwords),
        rules: vec![Rule::delay("10ms").unwrap()],
        ..Script::default()
    };
    let case = Case { operation: Operation::RegisterUpdate, authentication: true, ..CASE };
    let (run, peer) = case.measure(&script);
    assert!(run.is_valid(), "{:?}", run.doubts);
    assert_median(&run, Delay::Rrd, 200, 20);
    assert_median(&run, Delay::Response, 200, 20);
    let counts = &run.counts;
    assert_eq!((counts.succeeded, counts.challenged, counts.sent), (200, 200, 400));
    // Including the registrations of the preparation.
    assert_eq!((peer.registers, peer.challenged, peer.denied), (440, 220, 0));
    assert_eq!(metrics::ira(counts), Some(0.0));
    assert_eq!(counts.finals["REGISTER"], [(200, 200)].into());
}

#[track_caller]
fn assert_doubt(run: &Run, words: &str) {
    assert!(!run.is_valid());
    assert!(run.doubts.iter().any(|doubt| doubt.contains(words)), "{:?}", run.doubts);
}

#[test]
fn authentication_that_was_not_asked_for_spoils_a_run() {
    let case = Case { operation: Operation::RegisterUpdate, authentication: true, ..CASE };
    let (run, _) = case.measure(&script(Vec::new()));
    assert_eq!(run.counts.succeeded, 200);
    assert_doubt(&run, "sent no challenge");
}

#[test]
fn authentication_that_was_not_expected_spoils_a_run() {
    let case = Case { operation: Operation::RegisterUpdate, ..CASE };
    let script = Script { authentication: Authentication::Nonce, ..Script::default() };
    let (run, _) = case.measure(&script);
    assert_eq!(run.counts.succeeded, 200);
    assert_doubt(&run, "--auth");
}

#[test]
fn a_run_near_the_ceiling_of_the_generator_is_not_valid() {
    for (rate, is_valid) in [(260.0, true), (240.0, false)] {
        let case = Case { ceiling: Some(Ceiling { rate, cpu_us: 5.0 }), ..CASE };
        let (run, _) = case.measure(&script(Vec::new()));
        if is_valid {
            assert!(run.is_valid(), "{:?}", run.doubts);
        } else {
            assert_doubt(&run, "more than 80 % of that");
        }
    }
}

#[test]
fn datagrams_that_the_kernel_dropped_on_our_side_spoil_a_run() {
    // The sockets are read twice per second, after 1600 datagrams; the buffer of a user's socket is
    // smaller.
    let case =
        Case { rate: 400.0, users: 4, tick: 500, drain: 1000, sharing: Sharing::User, ..CASE };
    let flood = Rule { what: What::Repeat(31), ..Rule::repeat("responses").unwrap() };
    let (run, peer) = case.measure(&script(vec![flood]));
    assert!(run.generator.drops > 0);
    assert!(run.counts.received + run.generator.drops <= peer.sent, "{:?}", run.counts);
    assert_doubt(&run, "the kernel dropped");
}
