//! What a measurement found: the one form that all commands write, and the reports read.
//!
//! A [`Record`] is what one command measured. It holds [`Run`]s, each a load put on one system for
//! one stretch of time. Only what was observed is stored; what follows from it (ratios, RFC 6076
//! figures) is worked out by [`crate::metrics`] when somebody asks.

mod histogram;

pub(crate) use histogram::{Histogram, PERCENTILES, decode_into, encode, growing, tells};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The version of the JSON form.
pub(crate) const FORMAT: u32 = 1;

/// What one command measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    /// [`FORMAT`] of the program that wrote it.
    pub(crate) format: u32,
    /// Name and version of the program that wrote it.
    pub(crate) tool: String,
    /// Which command it was.
    pub(crate) kind: Kind,
    /// The command line that repeats it.
    pub(crate) command: Vec<String>,
    /// When it began, in seconds since the Unix epoch.
    pub(crate) started: u64,
    /// Where the load came from or, if it came from others, was directed from.
    pub(crate) machine: Machine,
    /// The machines that the load came from, if not from that one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) agents: Vec<Agent>,
    /// What was measured, in the order of the command line.
    pub(crate) systems: Vec<System>,
    /// The runs, in the order of time.
    pub(crate) runs: Vec<Run>,
    /// What the command concludes from the runs, such as a limit that it searched for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) findings: Vec<Finding>,
    /// Why not all of it was measured, in words; empty if all was.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) trouble: String,
    /// What the user required, and whether it held.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) criteria: Vec<Criterion>,
}

impl Record {
    /// Why `run`, which is one of this record, is no success, in words: nothing succeeded or, where
    /// nothing else is required of a single load, not everything.
    pub(crate) fn failure(&self, run: &Run) -> Option<String> {
        let Counts { offered, succeeded, .. } = run.counts;
        let is_judged = self.kind == Kind::Run && self.criteria.is_empty();
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
    /// One load.
    Run,
    /// Rising rates, for a curve.
    Sweep,
    /// The search for the highest rate without a failure (RFC 7502).
    Limit,
    /// Registrations in bursts (row D3 of docs/sources.md).
    Burst,
    /// Parallel users with a port each (rows C1 to C5).
    Qos,
    /// Steps of rising call rate through a proxy (row D1).
    Proxy,
    /// The same work on several systems, interleaved.
    Compare,
}

/// A machine and what it runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// Its name.
    pub(crate) host: String,
    /// The processor's name.
    pub(crate) cpu: String,
    /// How many processors there are.
    pub(crate) cores: usize,
    /// Memory in bytes.
    pub(crate) memory: u64,
    /// Operating system and kernel.
    pub(crate) system: String,
}

/// A machine that puts a share of the load on (row D4).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Agent {
    /// As it was named on the command line, such as `ssh:HOST`.
    pub(crate) name: String,
    /// What it is.
    pub(crate) machine: Machine,
}

/// A system under test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct System {
    /// What the reports call it; unique in a record.
    pub(crate) name: String,
    /// Its version as it tells it, if known.
    pub(crate) version: Option<String>,
    /// Where it was reached, such as `udp:127.0.0.1:5060`.
    pub(crate) target: String,
    /// How it was started, if this program did that.
    pub(crate) command: Option<Vec<String>>,
    /// Seconds from its start to its first answer, if this program started it.
    #[serde(default)]
    pub(crate) ready: Option<f64>,
    /// What is to be known of its configuration, a sentence each.
    #[serde(default)]
    pub(crate) remarks: Vec<String>,
}

/// One load on one system for one stretch of time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    /// The name of the [`System`].
    pub(crate) system: String,
    /// What distinguishes it from others in words, such as "step 3" or "confirmation".
    #[serde(default)]
    pub(crate) label: String,
    /// Which repeat of the same load it is, from 0.
    pub(crate) repeat: u32,
    /// When it began, in seconds since the Unix epoch.
    pub(crate) started: u64,
    /// The load.
    pub(crate) load: Load,
    /// The time that is measured, in seconds: without ramp, tail and what puts users back.
    pub(crate) seconds: f64,
    /// From when to when the load was on, in seconds from the beginning of the measured time;
    /// `None` where it was all at once or by turns, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) loaded: Option<[f64; 2]>,
    /// Why the figures do not show the system under test, in words. A run is valid if there are
    /// none.
    #[serde(default)]
    pub(crate) doubts: Vec<String>,
    /// How the server went down in it, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) down: Option<Down>,
    /// What happened, counted.
    pub(crate) counts: Counts,
    /// How long things took; only what occurred is there.
    pub(crate) delays: BTreeMap<Delay, Histogram>,
    /// Second by second.
    pub(crate) series: Vec<Second>,
    /// What the load cost on this side.
    pub(crate) generator: Generator,
    /// What it cost on the other, if it was watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) watch: Option<Watch>,
    /// How long the steps of its work took by its own account, if it gave one (row A11).
    #[serde(default, skip_serializing_if = "Steps::is_empty")]
    pub(crate) steps: Steps,
}

/// Steps of a system's work, by its own names for them.
pub(crate) type Steps = BTreeMap<String, Step>;

/// What a step took, in those of the messages that were looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Step {
    /// In how many messages it was taken.
    pub(crate) count: u64,
    /// How long it took in all of them.
    pub(crate) nanoseconds: u64,
}

impl Step {
    /// What came to it since it was `before`.
    pub(crate) const fn since(self, before: Self) -> Self {
        Self {
            count: self.count.saturating_sub(before.count),
            nanoseconds: self.nanoseconds.saturating_sub(before.nanoseconds),
        }
    }

    /// How long it takes in the mean, in microseconds, if it was taken at all.
    pub(crate) fn mean_us(self) -> Option<f64> {
        (self.count > 0).then(|| self.nanoseconds as f64 / self.count as f64 / 1000.0)
    }
}

impl Run {
    /// Whether the figures show the system under test and not the generator.
    pub(crate) fn is_valid(&self) -> bool {
        self.doubts.is_empty()
    }
}

/// The end of a server during a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Down {
    /// When its last message came, in seconds from the beginning of the measured time; `None` if
    /// none came.
    pub(crate) at: Option<f64>,
    /// Whether its process has ended; otherwise it may answer again.
    pub(crate) has_ended: bool,
    /// What is known of it, such as "process 4711 has ended".
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
    /// What is done over and over.
    pub(crate) operation: Operation,
    /// Whether the system asks for credentials.
    pub(crate) authentication: bool,
    /// `udp` or `tcp`.
    pub(crate) transport: String,
    /// How the arrivals are spread: `fixed`, `poisson`, `ramp`, `steps`, `burst`.
    pub(crate) arrivals: String,
    /// Operations offered a second, in the mean.
    pub(crate) rate: f64,
    /// Users that take part.
    pub(crate) users: u64,
    /// Sockets on this side.
    pub(crate) sockets: u64,
    /// Threads on this side.
    pub(crate) workers: usize,
    /// How long calls are held, in seconds.
    pub(crate) hold: f64,
}

/// The operations of row A2, each with or without authentication, and OPTIONS.
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
    /// All of them.
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

/// What happened in the measured time. An operation belongs to the time when it was scheduled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// Operations that were scheduled.
    pub(crate) offered: u64,
    /// Operations of which at least one message was sent.
    pub(crate) started: u64,
    /// Operations that ended as they should.
    pub(crate) succeeded: u64,
    /// Operations that got a final response other than the one that belongs to them.
    pub(crate) refused: u64,
    /// Operations that ended by timer B, F or H: no final response, or no ACK.
    pub(crate) timed_out: u64,
    /// Operations without an end when the generator stopped waiting.
    pub(crate) lost: u64,
    /// Messages sent, retransmissions included.
    pub(crate) sent: u64,
    /// Messages received.
    pub(crate) received: u64,
    /// Messages sent again because nothing had come back (timers A, E, G).
    pub(crate) retransmitted: u64,
    /// Responses and requests that came again.
    pub(crate) repeated: u64,
    /// Messages that do not fit into the operation that they belong to.
    pub(crate) unexpected: u64,
    /// Messages that came when their operation was over.
    pub(crate) late: u64,
    /// What came and was no SIP message, or belonged to nothing.
    pub(crate) malformed: u64,
    /// 401 and 407 responses that were answered with credentials.
    pub(crate) challenged: u64,
    /// Requests sent with the nonce of an earlier challenge.
    #[serde(default)]
    pub(crate) reused: u64,
    /// Registrations refreshed because they would have ended during the load: no operations.
    #[serde(default)]
    pub(crate) refreshed: u64,
    /// Connections opened, where the transport has them.
    pub(crate) connections: u64,
    /// Final responses by method and status, without challenges that were answered; a 423 to which
    /// the registration was sent again is one. 408 with no response having come counts under
    /// status 0.
    pub(crate) finals: BTreeMap<String, BTreeMap<u16, u64>>,
    /// Calls that were answered and ended by a BYE that was answered with 200.
    pub(crate) completed_calls: u64,
}

/// What took time. All delays are net of the time that a message spent in this program: what is
/// counted is from the moment of sending to the kernel's time of receipt, without the callee's own
/// time and without the time between a challenge and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Delay {
    /// The operation's request to its final response, challenge included; of operations that
    /// succeeded.
    Response,
    /// As `Response`, but from the time when the operation was scheduled to be sent: a server (or
    /// generator) that stalls cannot hide the operations that it keeps from being sent.
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
    /// INVITE at the caller to INVITE at the callee (row C2).
    Invite,
    /// Call setup (row C2): the caller's INVITE sent (TInv1) to its 200 received (TSDP_OK2). The
    /// ACK follows at once, and its time would be that of the caller.
    Setup,
    /// Of calls that succeeded, the sum of what their requests took, as row A10 has it: INVITE to
    /// the challenge, if there was one, INVITE to 200, and BYE to 200. Of other operations
    /// `Response` is that sum.
    Latency,
}

impl Delay {
    /// All of them.
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

/// One second of a run. Operations count in the second in which they were scheduled, successes and
/// failures in the second in which they ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Second {
    /// Seconds since the measured time began; negative in the ramp before it.
    pub(crate) at: i64,
    /// Whether it lies in the measured time.
    pub(crate) measured: bool,
    /// Operations scheduled.
    pub(crate) offered: u64,
    /// Operations that succeeded.
    pub(crate) succeeded: u64,
    /// Operations that ended otherwise.
    pub(crate) failed: u64,
    /// Messages sent again.
    pub(crate) retransmitted: u64,
    /// Operations under way at the end of the second.
    pub(crate) in_flight: u64,
    /// Median of [`Delay::Response`], in microseconds; none where nothing succeeded.
    pub(crate) p50_us: Option<u64>,
    /// 99th percentile; none of too few to tell it.
    pub(crate) p99_us: Option<u64>,
    /// Maximum.
    pub(crate) max_us: u64,
}

/// What the generator knows of itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Generator {
    /// CPU time of its threads from the beginning of the load to its end, in user mode, in
    /// microseconds.
    pub(crate) cpu_user_us: u64,
    /// The same in system mode.
    pub(crate) cpu_system_us: u64,
    /// The operations that succeeded meanwhile: those before and after the measured time as well.
    #[serde(default)]
    pub(crate) operations: u64,
    /// Scheduled to actual sending.
    pub(crate) lag: Histogram,
    /// Datagrams that the kernel dropped on the generator's sockets.
    pub(crate) drops: u64,
    /// Messages that the kernel refused to send.
    pub(crate) unsent: u64,
    /// What the generator reached against an ideal peer, just before. Of several machines with
    /// equal shares, the rate is that of the slowest, so many times as there are machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ceiling: Option<Ceiling>,
    /// The shares of the machines, if there were several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) shares: Vec<Share>,
}

/// What one machine of several did in a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Share {
    /// The name of the [`Agent`].
    pub(crate) agent: String,
    /// Operations that it was to start in the measured time.
    pub(crate) offered: u64,
    /// Operations that succeeded, those before and after the measured time as well.
    pub(crate) operations: u64,
    /// CPU time of its threads in user mode, in microseconds.
    pub(crate) cpu_user_us: u64,
    /// The same in system mode.
    pub(crate) cpu_system_us: u64,
    /// 99th percentile of the time from scheduled to actual sending, in microseconds; none of too
    /// few operations to tell it.
    pub(crate) lag_p99_us: Option<u64>,
    /// Datagrams that its kernel dropped on its sockets.
    pub(crate) drops: u64,
    /// Messages that its kernel refused to send.
    pub(crate) unsent: u64,
    /// How far its clock may have been from that of the others when it began, in microseconds.
    pub(crate) clock_error_us: u64,
    /// What it reached against an ideal peer of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ceiling: Option<Ceiling>,
}

/// What the generator reaches against an ideal peer in the same process.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ceiling {
    /// Operations a second.
    pub(crate) rate: f64,
    /// CPU time of the generator for one operation, in microseconds.
    pub(crate) cpu_us: f64,
}

/// What was seen of the system under test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Watch {
    /// What was watched, such as `pid 4711` or `ssh:host pid 4711`.
    pub(crate) source: String,
    /// Use from the beginning of the load until it was over and, for work put off, some time after.
    pub(crate) total: Usage,
    /// The operations that succeeded meanwhile: those before and after the measured time as well.
    #[serde(default)]
    pub(crate) operations: u64,
    /// Memory at the end, in bytes (PSS), of all processes.
    pub(crate) memory: u64,
    /// The highest memory seen.
    pub(crate) memory_max: u64,
    /// Memory before the load.
    pub(crate) memory_before: u64,
    /// How many processors the watched machine has.
    pub(crate) cores: usize,
    /// Samples, about one a second.
    pub(crate) samples: Vec<Sample>,
}

impl Watch {
    /// The samples, each with the beginning and the end of what it is about, on the time axis of
    /// the run.
    pub(crate) fn spans(&self) -> impl Iterator<Item = (f64, f64, &Sample)> {
        let before = std::iter::once(None).chain(self.samples.iter().map(Some));
        self.samples.iter().zip(before).filter_map(|(sample, before)| {
            let length = sample.seconds.or(before.map(|before| sample.at - before.at))?;
            (length > 0.0).then_some((sample.at - length, sample.at, sample))
        })
    }
}

/// What processes used in a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// CPU time in user mode, in microseconds.
    pub(crate) cpu_user_us: u64,
    /// CPU time in system mode, in microseconds.
    pub(crate) cpu_system_us: u64,
    /// Times that a thread gave up the processor, or lost it.
    pub(crate) context_switches: u64,
    /// Datagrams dropped on the UDP sockets of the processes.
    pub(crate) udp_drops: u64,
    /// Bytes received by the machine's network interfaces.
    pub(crate) received_bytes: u64,
    /// Bytes sent by them.
    pub(crate) sent_bytes: u64,
}

/// A look at the system under test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// Seconds since the measured time began; negative before it.
    pub(crate) at: f64,
    /// How many seconds it is about, which end there; in older records, those since the sample
    /// before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) seconds: Option<f64>,
    /// Use in that time.
    pub(crate) usage: Usage,
    /// Memory in bytes (PSS).
    pub(crate) memory: u64,
}

/// A conclusion, for one system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Finding {
    /// The name of the [`System`].
    pub(crate) system: String,
    /// What it is about, such as `sustainable rate of register`.
    pub(crate) name: String,
    /// The figure.
    pub(crate) value: f64,
    /// Its unit, such as `1/s`.
    pub(crate) unit: String,
    /// How sure it is, in words, such as `3 of 3 repeats`.
    #[serde(default)]
    pub(crate) remark: String,
}

impl Finding {
    /// The finding as a sentence about `system`, with the figure as it is to be written.
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

    /// The unit with the noun that it is about.
    pub(crate) fn unit_in_words(&self) -> &str {
        match &self.unit[..] {
            "1/s" => "operations a second",
            unit => unit,
        }
    }
}

/// Something required by the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Criterion {
    /// As it was written, such as `srd.p99<50ms`.
    pub(crate) text: String,
    /// Whether it held in all runs.
    pub(crate) held: bool,
    /// The worst value seen, in words.
    pub(crate) seen: String,
}
