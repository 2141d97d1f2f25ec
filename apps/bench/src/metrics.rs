//! Figures that are derived from counts: the metrics of RFC 6076, latency bands, and costs (see
//! docs/sources.md).
//!
//! Shares are in percent, and `None` without any attempt. [`DEFINITIONS`] has the formula of each
//! figure, for the reports.

use crate::record::{Counts, Delay, Histogram, Run};

/// The status in [`Counts::finals`] of requests without a final response.
const NO_RESPONSE: u16 = 0;

/// The highest maximum packet delay of an observed call (row D2 of docs/sources.md).
pub(crate) const MAX_PACKET_DELAY_US: u64 = 90_000;
/// The share of the processors of its machine from which a server has used them up.
pub(crate) const USED_UP: f64 = 0.95;

/// Returns a share of `whole` in percent.
fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}

/// Returns the number of requests of `method` that ended with a status that `belongs`.
fn ended(counts: &Counts, method: &str, belongs: impl Fn(u16) -> bool) -> u64 {
    let statuses = counts.finals.get(method).into_iter().flatten();
    let counts = statuses.filter(|&(&status, _)| belongs(status)).map(|(_, &count)| count);
    counts.fold(0, u64::saturating_add)
}

const fn is_redirection(status: u16) -> bool {
    matches!(status, 300..=399)
}

/// Returns the number of attempted sessions without redirected ones.
fn sessions_without_redirections(counts: &Counts) -> u64 {
    ended(counts, "INVITE", |status| !is_redirection(status))
}

/// Returns the number of offered calls without an answer. The BYE does not count, as in the
/// published measurement of `qos`.
pub(crate) fn calls_not_set_up(run: &Run) -> u64 {
    let set_up = run.delays.get(&Delay::Setup).map_or(0, Histogram::count);
    run.counts.offered.saturating_sub(set_up)
}

/// Returns the share of scheduled operations that succeeded; any other end of an operation, even
/// before its start, counts against it.
pub(crate) fn success(counts: &Counts) -> Option<f64> {
    percent(counts.succeeded, counts.offered)
}

/// Ineffective registration attempts (RFC 6076 section 4.2): the share of REGISTER requests that
/// ended with a failure response or without a response. Challenges (401, 402, 407) are no failures;
/// they are in the total only if they ended the operation.
pub(crate) fn ira(counts: &Counts) -> Option<f64> {
    let is_failure = |status| {
        status == NO_RESPONSE || matches!(status, 400..=699) && !matches!(status, 401 | 402 | 407)
    };
    percent(ended(counts, "REGISTER", is_failure), ended(counts, "REGISTER", |_| true))
}

/// Session establishment ratio (RFC 6076 section 4.6): the share of INVITE requests with a 200, of
/// all that were not redirected.
pub(crate) fn ser(counts: &Counts) -> Option<f64> {
    percent(ended(counts, "INVITE", |status| status == 200), sessions_without_redirections(counts))
}

/// Session establishment effectiveness ratio (RFC 6076 section 4.7): as [`ser`], but the decisions
/// of the called person (480, 486, 600, 603) count as effective too.
pub(crate) fn seer(counts: &Counts) -> Option<f64> {
    let is_effective = |status| matches!(status, 200 | 480 | 486 | 600 | 603);
    percent(ended(counts, "INVITE", is_effective), sessions_without_redirections(counts))
}

/// Ineffective session attempts (RFC 6076 section 4.8): the share of INVITE requests that ended
/// with 408, 500, 503 or 504. No response counts as 408 (RFC 3261 section 8.1.3.1).
pub(crate) fn isa(counts: &Counts) -> Option<f64> {
    let is_ineffective = |status| matches!(status, NO_RESPONSE | 408 | 500 | 503 | 504);
    percent(ended(counts, "INVITE", is_ineffective), ended(counts, "INVITE", |_| true))
}

/// Session completion ratio (RFC 6076 section 4.9): the share of INVITE requests whose call was
/// answered and ended by a BYE that was answered.
pub(crate) fn scr(counts: &Counts) -> Option<f64> {
    percent(counts.completed_calls, ended(counts, "INVITE", |_| true))
}

/// The shares (of 1) of responses that took 0-30, 31-60, 61-90, 91-120, 121-150 and more than 150
/// milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bands {
    /// The shares, in the order of the bands.
    pub(crate) shares: [f64; 6],
}

impl Bands {
    /// The weights of the first five bands in the [`Bands::coefficient`].
    pub(crate) const WEIGHTS: [f64; 5] = [0.55, 0.445, 0.004, 0.0007, 0.0003];

    /// Returns the shares of the delays in `histogram`, if there are any. Delays are truncated to
    /// milliseconds, as by the clock of the published measurement: 30.9 ms belong to the first
    /// band.
    pub(crate) fn of(histogram: &Histogram) -> Option<Self> {
        if histogram.is_empty() {
            return None;
        }
        let mut counts = [0; 6];
        for (micros, count) in histogram.values() {
            let band = match micros / 1000 {
                0..=30 => 0,
                31..=60 => 1,
                61..=90 => 2,
                91..=120 => 3,
                121..=150 => 4,
                _ => 5,
            };
            counts[band] += count;
        }
        let whole = histogram.count() as f64;
        Some(Self { shares: counts.map(|count| count as f64 / whole) })
    }

    /// Returns the bands of a run, from [`Delay::Latency`]. (For calls of older records without it,
    /// they are those of `Response`, which excludes the BYE.)
    pub(crate) fn of_run(run: &Run) -> Option<Self> {
        let delay = |delay| run.delays.get(&delay);
        Self::of(delay(Delay::Latency).or_else(|| delay(Delay::Response))?)
    }

    /// Returns the latency coefficient, from 0.55 (all responses at once) to -1 (all too late).
    pub(crate) fn coefficient(&self) -> f64 {
        let [timely @ .., late] = self.shares;
        let weighted = timely.iter().zip(Self::WEIGHTS).map(|(share, weight)| share * weight);
        weighted.sum::<f64>() - late
    }
}

/// Returns successful operations per second of the measured time.
pub(crate) fn achieved_rate(run: &Run) -> f64 {
    if run.seconds > 0.0 { run.counts.succeeded as f64 / run.seconds } else { 0.0 }
}

/// Returns the CPU time of the system under test per successful operation, in microseconds; `None`
/// if the system was not watched, or no operation succeeded.
pub(crate) fn cpu_per_operation(run: &Run) -> Option<f64> {
    let watch = run.watch.as_ref()?;
    per_operation(
        watch.total.cpu_user_us.saturating_add(watch.total.cpu_system_us),
        watch.operations,
    )
}

/// Returns the CPU time of the generator per successful operation, in microseconds, with both ends
/// of a call; `None` if no operation succeeded.
pub(crate) fn generator_cpu_per_operation(run: &Run) -> Option<f64> {
    let generator = &run.generator;
    per_operation(
        generator.cpu_user_us.saturating_add(generator.cpu_system_us),
        generator.operations,
    )
}

/// Returns the mean number of busy processors of the system under test in the measured time.
pub(crate) fn processors(run: &Run) -> Option<f64> {
    let (mut used, mut seconds) = (0.0, 0.0);
    for (from, to, sample) in run.watch.as_ref()?.spans() {
        // Samples are taken once per second, not at the start and end of the measured time.
        let inside = to.min(run.seconds) - from.max(0.0);
        if inside > 0.0 {
            let cpu = sample.usage.cpu_user_us as f64 + sample.usage.cpu_system_us as f64;
            used += cpu * inside / (to - from);
            seconds += inside;
        }
    }
    (seconds > 0.0).then(|| used / seconds / 1e6)
}

/// Returns the share of the processors of its machine that the server used, from 0 to 1.
pub(crate) fn busy(run: &Run) -> Option<f64> {
    Some(processors(run)? / run.watch.as_ref()?.cores.max(1) as f64)
}

/// Returns true if a media load reached the limit of maximum packet delay on its observed call.
pub(crate) fn is_too_late(run: &Run) -> bool {
    max_packet_delay(run).is_some_and(|us| us > MAX_PACKET_DELAY_US)
}

/// Returns the maximum packet delay of the observed call in microseconds.
pub(crate) fn max_packet_delay(run: &Run) -> Option<u64> {
    Some(run.media.as_ref()?.figures.observed.as_ref()?.max_delta_us)
}

/// Returns the share of audio packets that did not come back to the callers, in percent; `None`
/// without media, as of the figures below.
pub(crate) fn media_loss(run: &Run) -> Option<f64> {
    Some(100.0 * run.media.as_ref()?.figures.echo.loss())
}

/// Returns the mean jitter of the streams that came back, in microseconds.
pub(crate) fn media_jitter(run: &Run) -> Option<f64> {
    let jitter = &run.media.as_ref()?.figures.echo.jitter;
    (!jitter.is_empty()).then(|| jitter.mean())
}

/// Returns the longest time between two packets of a stream that came back, in microseconds.
pub(crate) fn media_delta(run: &Run) -> Option<f64> {
    let delta = &run.media.as_ref()?.figures.echo.max_delta;
    (!delta.is_empty()).then(|| delta.max() as f64)
}

/// Returns the number of DTLS handshakes a second; `None` without ends that have one.
pub(crate) fn handshake_rate(run: &Run) -> Option<f64> {
    let figures = &run.media.as_ref()?.figures;
    let has_any = !figures.handshakes.is_empty() || figures.handshakes_failed > 0;
    has_any.then(|| figures.handshakes.count() as f64 / run.seconds.max(f64::MIN_POSITIVE))
}

/// Returns the 99th percentile of the round trip of packets, in microseconds.
pub(crate) fn media_delay(run: &Run) -> Option<f64> {
    run.media.as_ref()?.figures.echo.delay.told(99.0).map(|us| us as f64)
}

/// Returns the lowest mean opinion score of a stream that came back.
pub(crate) fn media_mos(run: &Run) -> Option<f64> {
    let echo = &run.media.as_ref()?.figures.echo;
    echo.mos().map(|_| echo.mos_min)
}

fn per_operation(micros: u64, operations: u64) -> Option<f64> {
    (operations > 0).then(|| micros as f64 / operations as f64)
}

/// The definition of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    /// The name in criteria; for delays, that of [`crate::record::Delay::name`].
    pub(crate) name: &'static str,
    /// The full name.
    pub(crate) title: &'static str,
    /// The formula.
    pub(crate) formula: &'static str,
    /// The source.
    pub(crate) source: &'static str,
}

/// The definitions of all figures.
pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        name: "success",
        title: "Success",
        formula: "operations that ended as they should / operations scheduled x 100 %",
        source: "RFC 7501, RFC 7502",
    },
    Definition {
        name: "achieved",
        title: "Achieved rate",
        formula: "operations that ended as they should / seconds measured",
        source: "RFC 7501, RFC 7502",
    },
    Definition {
        name: "media_loss",
        title: "Lost audio packets",
        formula: "packets that did not come back to the callers / packets expected x 100 %",
        source: "RFC 3550 appendix A.3",
    },
    Definition {
        name: "media_jitter",
        title: "Mean jitter",
        formula: "mean over the streams of the mean interarrival jitter at the callers",
        source: "RFC 3550 section 6.4.1",
    },
    Definition {
        name: "media_delta",
        title: "Maximum packet delay",
        formula: "longest time between two packets of a stream at a caller",
        source: "row D2 of docs/sources.md",
    },
    Definition {
        name: "media_delay",
        title: "Round trip of audio, p99",
        formula: "arrival at the caller - due time of the frame - time in the callee",
        source: "row D2 of docs/sources.md",
    },
    Definition {
        name: "media_mos",
        title: "Lowest mean opinion score",
        formula: "E-model from loss, jitter and half of the round trip of a stream at a caller",
        source: "ITU-T G.107",
    },
    Definition {
        name: "rrd",
        title: "Registration request delay (RRD)",
        formula: "time of the 200 received - time of the REGISTER sent, without the time between a \
                  challenge and its answer",
        source: "RFC 6076 section 4.1",
    },
    Definition {
        name: "ira",
        title: "Ineffective registration attempts (IRA)",
        formula: "REGISTERs ended by 4xx (but 401, 402, 407), 5xx, 6xx or timer F / all REGISTERs x 100 %",
        source: "RFC 6076 section 4.2",
    },
    Definition {
        name: "srd",
        title: "Successful session request delay (SRD)",
        formula: "time of the first 180 (or of the 200, if there was none) received - time of the \
                  INVITE sent; of calls that were answered",
        source: "RFC 6076 section 4.3.1",
    },
    Definition {
        name: "srd_failed",
        title: "Failed session request delay (SRD)",
        formula: "time of the final response received - time of the INVITE sent; of calls that were \
                  not answered",
        source: "RFC 6076 section 4.3.2",
    },
    Definition {
        name: "sdd",
        title: "Session disconnect delay (SDD)",
        formula: "time of the 2xx received - time of the BYE sent",
        source: "RFC 6076 section 4.4",
    },
    Definition {
        name: "sdt",
        title: "Session duration (SDT)",
        formula: "time of the BYE sent - time of the 200 to the INVITE received",
        source: "RFC 6076 section 4.5",
    },
    Definition {
        name: "ser",
        title: "Session establishment ratio (SER)",
        formula: "INVITEs answered with 200 / (all INVITEs - INVITEs answered with 3xx) x 100 %",
        source: "RFC 6076 section 4.6",
    },
    Definition {
        name: "seer",
        title: "Session establishment effectiveness ratio (SEER)",
        formula: "INVITEs answered with 200, 480, 486, 600 or 603 / (all INVITEs - INVITEs answered \
                  with 3xx) x 100 %",
        source: "RFC 6076 section 4.7",
    },
    Definition {
        name: "isa",
        title: "Ineffective session attempts (ISA)",
        formula: "INVITEs ended by 408, 500, 503, 504 or timer B / all INVITEs x 100 %",
        source: "RFC 6076 section 4.8",
    },
    Definition {
        name: "scr",
        title: "Session completion ratio (SCR)",
        formula: "calls answered, and ended by a BYE that was answered with 200 / all INVITEs x 100 %",
        source: "RFC 6076 section 4.9",
    },
    Definition {
        name: "response",
        title: "Response delay",
        formula: "time of the final response received - time of the request sent, without the time \
                  between a challenge and its answer; of operations that succeeded, of a call without its \
                  BYE",
        source: "own",
    },
    Definition {
        name: "from_schedule",
        title: "Response delay from the schedule",
        formula: "time of the final response received - time when the request was to be sent: what a \
                  stall kept from being sent in time is not hidden",
        source: "own (coordinated omission)",
    },
    Definition {
        name: "invite",
        title: "Invite delay",
        formula: "time of the INVITE received at the callee - time of the INVITE sent by the caller",
        source: "N. S. Awan, KTH",
    },
    Definition {
        name: "setup",
        title: "Call setup delay",
        formula: "time of the 200 received by the caller (TSDP_OK2) - time of its INVITE sent (TInv1); the \
                  ACK follows at once",
        source: "N. S. Awan, KTH",
    },
    Definition {
        name: "latency",
        title: "Latency of a call",
        formula: "INVITE to its 200 + BYE to its 200; with authentication also INVITE to 407; of calls that \
                  succeeded. Of other operations it is the response delay",
        source: "A. L. Alexander, 2010",
    },
    Definition {
        name: "coefficient",
        title: "Latency coefficient",
        formula: "0.55 p1 + 0.445 p2 + 0.004 p3 + 0.0007 p4 + 0.0003 p5 - p6, with p1 to p6 the shares \
                  of latencies within 0-30, 31-60, 61-90, 91-120, 121-150 and more than 150 ms",
        source: "A. L. Alexander, 2010",
    },
    Definition {
        name: "cpu",
        title: "CPU time an operation",
        formula: "CPU time of the system under test, user and system / operations that ended as they \
                  should",
        source: "M. Voznak, 2011",
    },
    Definition {
        name: "generator_cpu",
        title: "CPU time of the generator an operation",
        formula: "CPU time of the generator's threads, user and system / operations that ended as they \
                  should",
        source: "own",
    },
    Definition {
        name: "retransmitted",
        title: "Retransmissions",
        formula: "messages sent again because nothing had come back (timers A, E, G)",
        source: "RFC 3261 section 17",
    },
    Definition {
        name: "timed_out",
        title: "Timeouts",
        formula: "operations that ended by timer B, F or H",
        source: "RFC 3261 section 17",
    },
    Definition {
        name: "lost",
        title: "Lost operations",
        formula: "operations without an end when the generator stopped waiting",
        source: "own",
    },
    Definition {
        name: "unexpected",
        title: "Unexpected messages",
        formula: "messages that do not fit into the operation that they belong to",
        source: "own",
    },
    Definition {
        name: "late",
        title: "Late messages",
        formula: "messages that came when their operation was over",
        source: "own",
    },
];

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::{Delay, Generator, Load, Operation, Usage, Watch};
    use sip::Duration;
    use std::collections::BTreeMap;

    /// Returns a run without events.
    pub(crate) fn run() -> Run {
        Run {
            system: "barebell".to_owned(),
            label: String::new(),
            repeat: 0,
            started: 0,
            load: Load {
                operation: Operation::Invite,
                authentication: false,
                transport: "udp".to_owned(),
                arrivals: "fixed".to_owned(),
                rate: 10.0,
                users: 10,
                sockets: 1,
                workers: 1,
                hold: 0.0,
            },
            seconds: 1.0,
            loaded: None,
            doubts: Vec::new(),
            counts: Counts::default(),
            delays: BTreeMap::new(),
            series: Vec::new(),
            generator: Generator::default(),
            down: None,
            watch: None,
            steps: crate::record::Steps::new(),
            dropped: BTreeMap::new(),
            captured: BTreeMap::new(),
            media: None,
        }
    }

    fn counts(method: &str, finals: &[(u16, u64)]) -> Counts {
        let finals = [(method.to_owned(), finals.iter().copied().collect())];
        Counts { finals: finals.into_iter().collect(), ..Counts::default() }
    }

    #[test]
    fn no_attempts_have_no_shares() {
        let none = Counts::default();
        for share in [success, ira, ser, seer, isa, scr] {
            assert_eq!(share(&none), None);
        }
        let redirected = counts("INVITE", &[(302, 7)]);
        assert_eq!(ser(&redirected), None);
        assert_eq!(seer(&redirected), None);
        assert_eq!(isa(&redirected), Some(0.0));
        assert_eq!(Bands::of(&Histogram::default()), None);
    }

    #[test]
    fn registrations_that_fail_are_ineffective_but_challenges_do_not_fail() {
        let finals =
            [(0, 1), (200, 10), (401, 2), (402, 1), (407, 1), (403, 2), (500, 2), (603, 1)];
        assert_eq!(ira(&counts("REGISTER", &finals)), Some(100.0 * 6.0 / 20.0));
        assert_eq!(ira(&counts("INVITE", &finals)), None);
    }

    #[test]
    fn sessions_count_by_how_they_ended() {
        let finals = [
            (0, 1),
            (200, 40),
            (302, 20),
            (404, 2),
            (408, 3),
            (480, 4),
            (486, 5),
            (500, 6),
            (502, 1),
            (503, 7),
            (504, 8),
            (600, 1),
            (603, 2),
        ];
        let mut counts = counts("INVITE", &finals);
        counts.completed_calls = 38;
        assert_eq!(ser(&counts), Some(50.0));
        assert_eq!(seer(&counts), Some(65.0));
        assert_eq!(isa(&counts), Some(25.0));
        assert_eq!(scr(&counts), Some(38.0));
    }

    #[test]
    fn unsent_operations_did_not_succeed() {
        let counts = Counts { offered: 8, started: 2, succeeded: 2, ..Counts::default() };
        assert_eq!(success(&counts), Some(25.0));
    }

    #[test]
    fn replies_fall_into_bands_of_whole_milliseconds() {
        let mut histogram = Histogram::default();
        for micros in [0, 30_900, 31_000, 60_000, 89_000, 120_000, 150_900, 152_000, 5_000_000] {
            histogram.record(Duration::from_micros(micros));
        }
        histogram.record(Duration::from_millis(20));
        let bands = Bands::of(&histogram).unwrap();
        assert_eq!(bands.shares, [0.3, 0.2, 0.1, 0.1, 0.1, 0.2]);
        let by_hand = 0.3 * 0.55 + 0.2 * 0.445 + 0.1 * 0.004 + 0.1 * 0.0007 + 0.1 * 0.0003 - 0.2;
        assert!((bands.coefficient() - by_hand).abs() < 1e-12);
        assert_eq!(Bands { shares: [0.0, 0.0, 0.0, 0.0, 0.0, 1.0] }.coefficient(), -1.0);
    }

    #[test]
    fn cost_and_rate_are_those_of_successful_operations() {
        let mut run = run();
        run.seconds = 2.0;
        run.counts = Counts { offered: 10, succeeded: 4, ..Counts::default() };
        run.generator.cpu_user_us = 30;
        run.generator.cpu_system_us = 10;
        run.generator.operations = 4;
        assert_eq!(achieved_rate(&run), 2.0);
        assert_eq!(cpu_per_operation(&run), None);
        assert_eq!(generator_cpu_per_operation(&run), Some(10.0));
        let total = Usage { cpu_user_us: 60, cpu_system_us: 20, ..Usage::default() };
        run.watch = Some(Watch { total, operations: 4, ..Watch::default() });
        assert_eq!(cpu_per_operation(&run), Some(20.0));
        run.watch = Some(Watch { total, ..Watch::default() });
        run.generator.operations = 0;
        assert_eq!(cpu_per_operation(&run), None);
        assert_eq!(generator_cpu_per_operation(&run), None);
        run.seconds = 0.0;
        assert_eq!(achieved_rate(&run), 0.0);
    }

    #[test]
    fn every_delay_is_defined_once() {
        for delay in Delay::ALL {
            let named = DEFINITIONS.iter().filter(|definition| definition.name == delay.name());
            assert_eq!(named.count(), 1, "{}", delay.name());
        }
    }

    #[test]
    fn the_bands_of_a_call_are_those_of_its_latency_with_the_bye() {
        let histogram = |millis| {
            let mut histogram = Histogram::default();
            histogram.record(Duration::from_millis(millis));
            histogram
        };
        let mut run = run();
        assert_eq!(Bands::of_run(&run), None);
        run.delays.insert(Delay::Response, histogram(20));
        assert_eq!(Bands::of_run(&run).unwrap().shares[0], 1.0, "of a record without latencies");
        run.delays.insert(Delay::Latency, histogram(40));
        assert_eq!(Bands::of_run(&run).unwrap().shares[1], 1.0);
        assert_eq!(Bands::of_run(&run).unwrap().coefficient(), 0.445);
    }
}
