//! The record of a measurement: the one form that all commands write and the reports read.
//!
//! A [`Record`] is the result of one command. It holds [`Run`]s, each of which is one load on one
//! system over one period. Only observations are stored. Derived figures (ratios, RFC 6076 metrics)
//! are computed by [`crate::metrics`] on demand.

mod course;
mod histogram;
mod media;
mod resources;

pub(crate) use course::{Course, End, Moment, PresentLoad, PresentUsage};
pub(crate) use histogram::{Histogram, PERCENTILES, decode_into, encode, growing, tells};
pub(crate) use media::{Headroom, Media, MediaFigures, Observed, Streams};
pub(crate) use resources::{Ceiling, Generator, Sample, Share, Usage, Watch};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The version of the JSON form.
pub(crate) const FORMAT: u32 = 1;

/// The result of one command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The [`FORMAT`] of the program that wrote the record.
    pub(crate) format: u32,
    /// Name and version of the program that wrote the record.
    pub(crate) tool: String,
    /// The command that made the record.
    pub(crate) kind: Kind,
    /// The command line that repeats the measurement.
    pub(crate) command: Vec<String>,
    /// The start of the measurement, in seconds since the Unix epoch.
    pub(crate) started: u64,
    /// The machine that generated the load, or that controlled the agents.
    pub(crate) machine: Machine,
    /// The load agents; empty if the load came from `machine`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) agents: Vec<Agent>,
    /// The systems under test, in the order of the command line.
    pub(crate) systems: Vec<System>,
    /// The runs in chronological order.
    pub(crate) runs: Vec<Run>,
    /// The conclusions of the command from the runs, such as the limit that it searched for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) findings: Vec<Finding>,
    /// The reason why the measurement is incomplete; empty if it is complete.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) trouble: String,
    /// The criteria of the user, with their results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) criteria: Vec<Criterion>,
}

impl Record {
    /// Returns the reason why `run`, a run of this record, failed: no operation succeeded or, for a
    /// single load without criteria, not every operation succeeded.
    pub(crate) fn failure(&self, run: &Run) -> Option<String> {
        let Counts { offered, succeeded, .. } = run.counts;
        let is_judged = matches!(self.kind, Kind::Run | Kind::Media) && self.criteria.is_empty();
        match offered.saturating_sub(succeeded) {
            0 => None,
            _ if succeeded == 0 => Some("no operation succeeded".to_owned()),
            failed if is_judged => Some(format!(
                "{failed} of {offered} operations failed; --require says how many may"
            )),
            _ => None,
        }
    }
}

/// The command that made a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// A single load.
    Run,
    /// A load at rising rates, for a curve.
    Sweep,
    /// A search for the highest rate without a failure (RFC 7502).
    Limit,
    /// Registrations in bursts (see docs/sources.md).
    Burst,
    /// Parallel users with a port each.
    Qos,
    /// Steps of rising call rate through a proxy.
    Proxy,
    /// The same load on several systems, interleaved.
    Compare,
    /// Simultaneous calls with media.
    Media,
}

/// A machine and its operating system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// The host name.
    pub(crate) host: String,
    /// The model name of the processor.
    pub(crate) cpu: String,
    /// The number of processors.
    pub(crate) cores: usize,
    /// The memory in bytes.
    pub(crate) memory: u64,
    /// The operating system and its kernel.
    pub(crate) system: String,
}

/// A machine that generates a share of the load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Agent {
    /// The name on the command line, such as `ssh:HOST`.
    pub(crate) name: String,
    /// The hardware and operating system.
    pub(crate) machine: Machine,
}

/// A system under test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct System {
    /// The name in the reports; unique in a record.
    pub(crate) name: String,
    /// The version that the system reports, if known.
    pub(crate) version: Option<String>,
    /// The address of the system, such as `udp:127.0.0.1:5060`.
    pub(crate) target: String,
    /// The command that started the system, if this program started it.
    pub(crate) command: Option<Vec<String>>,
    /// The time from the start to the first answer in seconds, if this program started the system.
    #[serde(default)]
    pub(crate) ready: Option<f64>,
    /// Remarks on the configuration, one sentence each.
    #[serde(default)]
    pub(crate) remarks: Vec<String>,
}

/// One load on one system over one period.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    /// The name of the [`System`].
    pub(crate) system: String,
    /// A label that distinguishes the run from others, such as "step 3" or "confirmation".
    #[serde(default)]
    pub(crate) label: String,
    /// The index of this repeat of the same load, from 0.
    pub(crate) repeat: u32,
    /// The start of the run, in seconds since the Unix epoch.
    pub(crate) started: u64,
    /// The load.
    pub(crate) load: Load,
    /// The length of the measured time in seconds: without ramp, tail and the operations that
    /// restore the users' state.
    pub(crate) seconds: f64,
    /// The start and end of the load in seconds from the beginning of the measured time. `None` if
    /// all operations started at once or users took turns, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) loaded: Option<[f64; 2]>,
    /// The reasons why the figures may not show the system under test. A run without doubts is
    /// valid.
    #[serde(default)]
    pub(crate) doubts: Vec<String>,
    /// The failure of the server during the run, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) down: Option<Down>,
    /// The counts of events.
    pub(crate) counts: Counts,
    /// The delays, by kind; kinds that did not occur are absent.
    pub(crate) delays: BTreeMap<Delay, Histogram>,
    /// The time series, by second.
    pub(crate) series: Vec<Second>,
    /// The resource use of the generator.
    pub(crate) generator: Generator,
    /// The resource use of the system under test, if it was watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) watch: Option<Watch>,
    /// The time for each processing step as the system reports it; empty if it reports nothing.
    #[serde(default, skip_serializing_if = "Steps::is_empty")]
    pub(crate) steps: Steps,
    /// Datagrams that were dropped on the way, by the place; only places with any.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) dropped: BTreeMap<String, u64>,
    /// The delays in a capture beside the run, by kind; empty without a capture.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) captured: BTreeMap<Delay, Histogram>,
    /// The media of the calls, if they had media.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) media: Option<Box<Media>>,
}

/// The processing steps of a system, by the system's own names.
pub(crate) type Steps = BTreeMap<String, Step>;

/// The time for a processing step, over the messages that were sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Step {
    /// The number of sampled messages with this step.
    pub(crate) count: u64,
    /// The total time of the step in these messages, in nanoseconds.
    pub(crate) nanoseconds: u64,
}

impl Step {
    /// Returns the difference to the earlier reading `before`.
    pub(crate) const fn since(self, before: Self) -> Self {
        Self {
            count: self.count.saturating_sub(before.count),
            nanoseconds: self.nanoseconds.saturating_sub(before.nanoseconds),
        }
    }

    /// Returns the sum with the reading of another time.
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self { count: self.count + other.count, nanoseconds: self.nanoseconds + other.nanoseconds }
    }

    /// Returns the mean time of the step in microseconds, or `None` if the step did not occur.
    pub(crate) fn mean_us(self) -> Option<f64> {
        (self.count > 0).then(|| self.nanoseconds as f64 / self.count as f64 / 1000.0)
    }
}

impl Run {
    /// Returns true if the figures show the system under test and not the generator.
    pub(crate) fn is_valid(&self) -> bool {
        self.doubts.is_empty()
    }
}

/// The failure of a server during a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Down {
    /// The time of its last message, in seconds from the beginning of the measured time; `None` if
    /// no message came.
    pub(crate) at: Option<f64>,
    /// True if its process has ended; otherwise it may answer again.
    pub(crate) has_ended: bool,
    /// The reason, such as "process 4711 has ended".
    pub(crate) reason: String,
}

impl fmt::Display for Down {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.has_ended { "died" } else { "went down" };
        match self.at {
            None => write!(f, "the server {verb} before it answered anything")?,
            Some(at) if at < 0.0 => {
                write!(f, "the server {verb} at {:.1} s before the measured time", -at)?;
            }
            Some(at) => write!(f, "the server {verb} at {at:.1} s of the measured time")?,
        }
        write!(f, ": {}", self.reason)
    }
}

/// The load of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Load {
    /// The operation that is repeated.
    pub(crate) operation: Operation,
    /// True if the system asks for credentials.
    pub(crate) authentication: bool,
    /// The transport, such as `udp`.
    pub(crate) transport: String,
    /// The distribution of the arrivals: `fixed`, `poisson`, `ramp`, `steps`, `burst`.
    pub(crate) arrivals: String,
    /// The mean rate of offered operations per second.
    pub(crate) rate: f64,
    /// The number of users.
    pub(crate) users: u64,
    /// The number of sockets of the generator.
    pub(crate) sockets: u64,
    /// The number of threads of the generator.
    pub(crate) workers: usize,
    /// The holding time of calls in seconds.
    pub(crate) hold: f64,
}

/// The operations of a load: those of the published benchmark (see docs/sources.md), each with or
/// without authentication, and OPTIONS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[derive(clap::ValueEnum)]
pub(crate) enum Operation {
    /// A user who has no binding registers
    Register,
    /// A user refreshes a binding
    RegisterUpdate,
    /// A user removes a binding
    RegisterLogout,
    /// A whole call through the proxy: INVITE, 180, 200, ACK, BYE, 200
    Invite,
    /// A call to a user who does not exist: 404
    InviteNotFound,
    /// A call that the server redirects: 302
    InviteRedirect,
    /// An OPTIONS request to the server itself
    Options,
}

impl Operation {
    /// All operations.
    pub(crate) const ALL: [Self; 7] = [
        Self::Register,
        Self::RegisterUpdate,
        Self::RegisterLogout,
        Self::Invite,
        Self::InviteNotFound,
        Self::InviteRedirect,
        Self::Options,
    ];

    /// The name on the command line and in records.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Register => "register",
            Self::RegisterUpdate => "register-update",
            Self::RegisterLogout => "register-logout",
            Self::Invite => "invite",
            Self::InviteNotFound => "invite-not-found",
            Self::InviteRedirect => "invite-redirect",
            Self::Options => "options",
        }
    }
}

/// The counts of the measured time. An operation belongs to the time for which it was scheduled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// Scheduled operations.
    pub(crate) offered: u64,
    /// Operations with at least one message sent.
    pub(crate) started: u64,
    /// Operations with the expected result.
    pub(crate) succeeded: u64,
    /// Operations with an unexpected final response.
    pub(crate) refused: u64,
    /// Operations that ended by timer B, F or H: no final response, or no ACK.
    pub(crate) timed_out: u64,
    /// Operations that were still under way when the generator stopped waiting.
    pub(crate) lost: u64,
    /// Messages sent, retransmissions included.
    pub(crate) sent: u64,
    /// Messages received.
    pub(crate) received: u64,
    /// Retransmissions by the generator (timers A, E, G).
    pub(crate) retransmitted: u64,
    /// Retransmitted responses and requests that were received.
    pub(crate) repeated: u64,
    /// Messages that do not fit the state of their operation.
    pub(crate) unexpected: u64,
    /// Messages that came after the end of their operation.
    pub(crate) late: u64,
    /// Received data that is not a SIP message, or belongs to no operation.
    pub(crate) malformed: u64,
    /// 401 and 407 responses that were answered with credentials.
    pub(crate) challenged: u64,
    /// Requests sent with the nonce of an earlier challenge.
    #[serde(default)]
    pub(crate) reused: u64,
    /// Registrations that were refreshed because they would have expired during the load. They are
    /// not operations.
    #[serde(default)]
    pub(crate) refreshed: u64,
    /// Connections opened, for a transport with connections.
    pub(crate) connections: u64,
    /// Final responses by method and status. Challenges that were answered do not count; a 423
    /// after which the registration was sent again does. A timeout without any response counts
    /// under status 0.
    pub(crate) finals: BTreeMap<String, BTreeMap<u16, u64>>,
    /// Calls that were answered and ended by a BYE with a 200.
    pub(crate) completed_calls: u64,
}

/// The kinds of delays. All delays exclude the time that a message spent in this program. They run
/// from the sending to the kernel's time of receipt, without the processing time of the callee and
/// without the time between a challenge and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Delay {
    /// The operation's request to its final response, including a challenge; of operations that
    /// succeeded.
    Response,
    /// As `Response`, but from the scheduled start of the operation. A server (or generator) that
    /// stalls cannot hide the operations whose start it delays.
    FromSchedule,
    /// Registration request delay (RFC 6076 section 4.1).
    Rrd,
    /// Successful session request delay (section 4.3.1): INVITE to the first 180 or final 200.
    Srd,
    /// Failed session request delay (section 4.3.2): INVITE to the final response.
    SrdFailed,
    /// Session disconnect delay (section 4.4): BYE to its 2xx.
    Sdd,
    /// Session duration (section 4.5): 200 to INVITE, to BYE.
    Sdt,
    /// INVITE at the caller to INVITE at the callee.
    Invite,
    /// Call setup: the caller's INVITE sent (TInv1) to its 200 received (TSDP_OK2). The ACK follows
    /// at once; its delay would be that of the caller.
    Setup,
    /// The total of the request delays of a successful call: INVITE to the challenge, if there was
    /// one, INVITE to 200, and BYE to 200. For other operations `Response` is that total.
    Latency,
}

impl Delay {
    /// All kinds.
    pub(crate) const ALL: [Self; 10] = [
        Self::Response,
        Self::FromSchedule,
        Self::Rrd,
        Self::Srd,
        Self::SrdFailed,
        Self::Sdd,
        Self::Sdt,
        Self::Invite,
        Self::Setup,
        Self::Latency,
    ];

    /// The name in criteria and records.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Response => "response",
            Self::FromSchedule => "from_schedule",
            Self::Rrd => "rrd",
            Self::Srd => "srd",
            Self::SrdFailed => "srd_failed",
            Self::Sdd => "sdd",
            Self::Sdt => "sdt",
            Self::Invite => "invite",
            Self::Setup => "setup",
            Self::Latency => "latency",
        }
    }
}

/// One second of a run. Operations count in the second of their scheduled start; successes and
/// failures count in the second of their end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Second {
    /// Seconds since the start of the measured time; negative in the ramp before it.
    pub(crate) at: i64,
    /// True if the second lies in the measured time.
    pub(crate) measured: bool,
    /// Scheduled operations.
    pub(crate) offered: u64,
    /// Operations that succeeded.
    pub(crate) succeeded: u64,
    /// Operations that failed.
    pub(crate) failed: u64,
    /// Retransmitted messages.
    pub(crate) retransmitted: u64,
    /// Operations under way at the end of the second.
    pub(crate) in_flight: u64,
    /// Median of [`Delay::Response`] in microseconds; `None` if no operation succeeded.
    pub(crate) p50_us: Option<u64>,
    /// The 99th percentile; `None` if there are too few operations for it.
    pub(crate) p99_us: Option<u64>,
    /// The maximum.
    pub(crate) max_us: u64,
}

/// A conclusion about one system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Finding {
    /// The name of the [`System`].
    pub(crate) system: String,
    /// The subject, such as `sustainable rate of register`.
    pub(crate) name: String,
    /// The value.
    pub(crate) value: f64,
    /// The unit, such as `1/s`.
    pub(crate) unit: String,
    /// The confidence in words, such as `3 of 3 repeats`.
    #[serde(default)]
    pub(crate) remark: String,
}

impl Finding {
    /// Returns the finding as a sentence about `system`; `figure` is the formatted value.
    pub(crate) fn sentence(&self, system: &str, figure: &str) -> String {
        let name = &self.name[..];
        let after = |prefix: &str| name.strip_prefix(prefix);
        let ratio = |prefix: &str| {
            let (of, first) = after(prefix)?.split_once(", ")?;
            Some((of, first.strip_suffix(" being 1")?))
        };
        let text = if let Some(operation) = after("sustainable rate of ") {
            format!("{system} carried {figure} {operation} operations a second without a failure")
        } else if let Some(operation) = after("ceiling of the generator with ") {
            format!(
                "{system} carried {figure} {operation} operations a second, the most that the \
                 generator could offer"
            )
        } else if let Some((operation, first)) = ratio("CPU of ") {
            format!("{system} used {figure} times the CPU of {first} for {operation}")
        } else if let Some((operation, first)) = ratio("response p99 of ") {
            format!(
                "{system} took {figure} times as long as {first} for {operation} in the 99th \
                 percentile"
            )
        } else if let Some(load) = after("timeouts with ") {
            format!("{figure} % of the requests to {system} timed out with {load}")
        } else {
            match name {
                "delay leaves its flat part" => {
                    format!(
                        "The delay of {system} leaves its flat part at {figure} operations a second"
                    )
                }
                "highest rate achieved" => {
                    format!("{system} completed {figure} operations a second at most")
                }
                "highest rate tried" => format!(
                    "{system} completed {figure} operations a second at the highest rate that was \
                     tried"
                ),
                "calls a second" => format!("{system} carried {figure} calls a second"),
                "rate at which the server went down" => {
                    format!("{system} went down at {figure} operations a second")
                }
                "rate at which the server fell silent" => {
                    format!("{system} fell silent at {figure} operations a second")
                }
                "simultaneous registrations held" => {
                    format!("{system} held {figure} simultaneous registrations")
                }
                _ => {
                    let unit = self.unit_in_words();
                    let space = if unit.is_empty() { "" } else { " " };
                    format!("{system}: {name} {figure}{space}{unit}")
                }
            }
        };
        match &self.remark[..] {
            "" => text,
            remark => format!("{text} ({remark})"),
        }
    }

    /// Returns the unit with its noun.
    pub(crate) fn unit_in_words(&self) -> &str {
        match &self.unit[..] {
            "1/s" => "operations a second",
            unit => unit,
        }
    }
}

/// A criterion of the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Criterion {
    /// The text of the criterion, such as `srd.p99<50ms`.
    pub(crate) text: String,
    /// True if it held in all runs.
    pub(crate) held: bool,
    /// The worst value of the runs, in words.
    pub(crate) seen: String,
}
