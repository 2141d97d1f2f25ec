//! The protocol of a controller and its agents: one JSON value per line, over the agent's standard
//! input and output. Both must have the same version of this program.

use crate::cpu::Cpu;
use crate::encode::micros;
use crate::load::arrivals::{Segment, Spacing};
use crate::load::engine::{Settings, Task};
use crate::load::generator::{GeneratorPlan, Part, Stretch};
use crate::load::links::{LinkCounts, Sharing};
use crate::load::tally::{self, Tally};
use crate::load::worker::{self, CyclePlan};
use crate::record::{Ceiling, Headroom, Machine, Operation, Second};
use crate::users::Users;
use crate::voice;
use serde::{Deserialize, Serialize};
use sip::transaction::Timers;
use sip::{Duration, Instant, Transport};
use std::io::{self, BufRead, Read as _};
use std::net::SocketAddr;

/// The limit of agents of a controller.
pub(crate) const MOST: usize = 1000;

/// The version of this protocol, which must match in addition to the version of the program. It
/// changes with the types below.
pub(crate) const PROTOCOL: u32 = 5;

/// The limit of a line in bytes; a longer one is an error.
const LONGEST: u64 = 1 << 30;

/// An order of the controller.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Return the current time; answered at once with [`Reply::Time`].
    Time,
    /// Probe the server and open sockets to it under this number; answered with [`Reply::Opened`].
    Open { id: u32, plan: Box<Plan> },
    /// Close the sockets. No reply.
    Close { id: u32 },
    /// Measure the ceiling of this machine against an ideal peer; answered with [`Reply::Ceiling`].
    /// Target and users of the plan are ignored.
    Ceiling { plan: Box<Plan>, operation: Operation, authentication: bool },
    /// Measure the streams that this machine carries between its own ends; answered with
    /// [`Reply::Headroom`].
    Headroom(Box<voice::Plan>),
    /// Open the ends of this share of calls with media; answered with [`Reply::Opened`] and, after
    /// [`Order::Begin`] and the load, with [`Reply::Media`].
    Media(Box<voice::Plan>),
    /// Begin the calls with media at this time in microseconds of the agent's clock. No reply of
    /// its own.
    Begin(u64),
    /// Run this job from `start` in microseconds of the agent's clock; answered with
    /// [`Reply::Found`], and [`Reply::Glance`] during the job.
    Do { id: u32, start: u64, job: Job },
    /// Start no further operations. No reply other than that of the current job.
    Stop,
    /// The server of these sockets is unreachable: start no further operations, and do not wait. No
    /// reply.
    Gone { id: u32 },
    /// The sender of the calls on these sockets has ended. No reply.
    Enough { id: u32 },
}

/// A reply of an agent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// The first message.
    Hello {
        version: String,
        protocol: u32,
        machine: Box<Machine>,
    },
    /// Its clock in microseconds.
    Time(u64),
    Opened {
        workers: usize,
    },
    Ceiling(Ceiling),
    Headroom(Headroom),
    /// The results of calls with media.
    Media(Box<voice::Found>),
    /// The last second, its histogram of delays, and its number.
    Glance(Second, String, u64),
    /// The results of each worker, and true if the agent was stopped before the end of the job.
    Found {
        found: Vec<Found>,
        is_early: bool,
    },
    /// The order failed, for this reason.
    Failed(String),
}

/// A job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Job {
    ClosedLoop {
        task: Task,
        window: usize,
        bound: Bound,
    },
    Load {
        task: Task,
        segments: Vec<Segment>,
        spacing: Spacing,
        seed: u64,
        #[serde(with = "micros")]
        before: Duration,
        #[serde(with = "micros")]
        measured_from: Duration,
        #[serde(with = "micros")]
        measured_to: Duration,
        #[serde(with = "micros")]
        drain: Duration,
    },
    Cycle {
        task: Task,
        #[serde(with = "micros")]
        spread: Duration,
        #[serde(with = "micros")]
        interval: Duration,
        #[serde(with = "micros")]
        wait: Duration,
        #[serde(with = "micros")]
        length: Duration,
        #[serde(with = "micros")]
        drain: Duration,
    },
    /// Answer the calls of the sender with this salt, at once and until [`Order::Enough`].
    Answer {
        salt: u32,
    },
}

/// The form of [`worker::Bound`].
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Bound {
    EachUser,
    EachCaller,
    EachCallee,
    For(#[serde(with = "micros")] Duration),
}

/// The form of [`GeneratorPlan`], with the name of the server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The target as given, without transport and port.
    pub(crate) host: String,
    target: SocketAddr,
    transport: String,
    salt: u32,
    domain: String,
    #[serde(with = "micros")]
    t1: Duration,
    #[serde(with = "micros")]
    t2: Duration,
    #[serde(with = "micros")]
    t4: Duration,
    #[serde(with = "micros")]
    ring: Duration,
    #[serde(with = "micros")]
    hold: Duration,
    expires: u32,
    register_first: bool,
    reuse_nonces: bool,
    to: Option<String>,
    retransmits: bool,
    hangs_up: bool,
    users: Users,
    rate: f64,
    workers: Option<usize>,
    sharing: Sharing,
    is_segmenting: bool,
    is_resuming: bool,
    tick_us: Option<u64>,
    is_probing: bool,
    part: Part,
}

/// The form of [`worker::Found`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Found {
    tally: tally::Written,
    cpu: Cpu,
    #[serde(with = "micros")]
    elapsed: Duration,
    busy: f64,
    links: LinkCounts,
    sockets: usize,
    heard_us: Option<u64>,
    unheard: u64,
    stopped_us: Option<u64>,
}

impl Plan {
    /// Returns the order to open the sockets of `plan` in its part, to a server with the name
    /// `host`.
    pub(crate) fn new(plan: GeneratorPlan, host: &str) -> Self {
        let GeneratorPlan {
            target,
            settings,
            users,
            rate,
            workers,
            sharing,
            is_segmenting,
            is_resuming,
            tick,
            is_probing,
            // Each machine has addresses of its own.
            local: _,
            part,
        } = plan;
        let Settings {
            salt,
            domain,
            transport,
            timers,
            ring,
            hold,
            expires,
            register_first,
            reuse_nonces,
            target: _,
            to,
            retransmits,
            hangs_up,
        } = settings;
        let Timers { t1, t2, t4 } = timers;
        let host = host.to_owned();
        let transport = transport.uri_name().to_owned();
        Self {
            host,
            target,
            transport,
            salt,
            domain,
            t1,
            t2,
            t4,
            ring,
            hold,
            expires,
            register_first,
            reuse_nonces,
            to,
            retransmits,
            hangs_up,
            users,
            rate,
            workers,
            sharing,
            is_segmenting,
            is_resuming,
            tick_us: tick.map(Duration::as_micros),
            is_probing,
            part,
        }
    }

    /// Returns the plan of the generator.
    ///
    /// # Errors
    /// A message if the part is invalid.
    pub(crate) fn into_plan(self) -> Result<GeneratorPlan, String> {
        let part = self.part;
        if part.index >= part.count || part.count > MOST {
            return Err(format!("machine {} of {} does not exist", part.index + 1, part.count));
        }
        Ok(GeneratorPlan {
            target: self.target,
            settings: Settings {
                salt: self.salt,
                domain: self.domain,
                transport: Transport::parse(self.transport.as_bytes())
                    .ok_or_else(|| format!("{} is no transport", self.transport))?,
                timers: Timers { t1: self.t1, t2: self.t2, t4: self.t4 },
                ring: self.ring,
                hold: self.hold,
                expires: self.expires,
                register_first: self.register_first,
                reuse_nonces: self.reuse_nonces,
                target: self.target,
                to: self.to,
                retransmits: self.retransmits,
                hangs_up: self.hangs_up,
            },
            users: self.users,
            rate: self.rate,
            workers: self.workers,
            sharing: self.sharing,
            is_segmenting: self.is_segmenting,
            is_resuming: self.is_resuming,
            tick: self.tick_us.map(Duration::from_micros),
            is_probing: self.is_probing,
            local: None,
            part,
        })
    }
}

impl From<&Stretch> for Job {
    fn from(stretch: &Stretch) -> Self {
        Self::Load {
            task: stretch.task,
            segments: stretch.segments.clone(),
            spacing: stretch.spacing,
            seed: stretch.seed,
            before: stretch.before,
            measured_from: stretch.measured.start,
            measured_to: stretch.measured.end,
            drain: stretch.drain,
        }
    }
}

impl From<&CyclePlan> for Job {
    fn from(plan: &CyclePlan) -> Self {
        let &CyclePlan { task, start: _, spread, interval, wait, length, drain } = plan;
        Self::Cycle { task, spread, interval, wait, length, drain }
    }
}

impl Job {
    /// Runs the job with `generator` from `start`.
    pub(crate) fn execute(
        self,
        generator: &mut crate::load::generator::Generator,
        start: Instant,
    ) -> Vec<worker::Found> {
        match self {
            Self::ClosedLoop { task, window, bound } => {
                let now = generator.clock().now();
                std::thread::sleep(start.since(now).into());
                generator.closed_loop(task, window, bound.into())
            }
            Self::Load {
                task,
                segments,
                spacing,
                seed,
                before,
                measured_from,
                measured_to,
                drain,
            } => {
                let measured = measured_from..measured_to;
                generator.load(
                    &Stretch { task, segments, spacing, seed, before, measured, drain },
                    start,
                )
            }
            Self::Cycle { task, spread, interval, wait, length, drain } => generator
                .cycle(&CyclePlan { task, start, spread, interval, wait, length, drain }, start),
            Self::Answer { salt } => generator.answer(salt),
        }
    }
}

impl From<worker::Bound> for Bound {
    fn from(bound: worker::Bound) -> Self {
        match bound {
            worker::Bound::EachUser => Self::EachUser,
            worker::Bound::EachCaller => Self::EachCaller,
            worker::Bound::EachCallee => Self::EachCallee,
            worker::Bound::For(span) => Self::For(span),
        }
    }
}

impl From<Bound> for worker::Bound {
    fn from(bound: Bound) -> Self {
        match bound {
            Bound::EachUser => Self::EachUser,
            Bound::EachCaller => Self::EachCaller,
            Bound::EachCallee => Self::EachCallee,
            Bound::For(span) => Self::For(span),
        }
    }
}

impl TryFrom<&worker::Found> for Found {
    type Error = String;

    fn try_from(found: &worker::Found) -> Result<Self, String> {
        let &worker::Found {
            ref tally,
            cpu,
            elapsed,
            busy,
            links,
            sockets,
            heard,
            unheard,
            stopped,
        } = found;
        Ok(Self {
            tally: tally.try_into()?,
            cpu,
            elapsed,
            busy,
            links,
            sockets,
            heard_us: heard.map(Duration::as_micros),
            unheard,
            stopped_us: stopped.map(Duration::as_micros),
        })
    }
}

impl TryFrom<Found> for worker::Found {
    type Error = String;

    fn try_from(found: Found) -> Result<Self, String> {
        let Found { tally, cpu, elapsed, busy, links, sockets, heard_us, unheard, stopped_us } =
            found;
        Ok(Self {
            tally: Tally::try_from(tally)?,
            cpu,
            elapsed,
            busy,
            links,
            sockets,
            heard: heard_us.map(Duration::from_micros),
            unheard,
            stopped: stopped_us.map(Duration::from_micros),
        })
    }
}

/// Returns the next line of `from` without its end; `None` at the end of the input, also within a
/// line.
///
/// # Errors
/// The input cannot be read, or the line is too long.
pub(super) fn line(from: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    from.take(LONGEST).read_until(b'\n', &mut line)?;
    match line.pop() {
        Some(b'\n') => Ok(Some(line)),
        _ if line.len() as u64 + 1 >= LONGEST => {
            Err(io::Error::new(io::ErrorKind::InvalidData, "a line without an end"))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> GeneratorPlan {
        GeneratorPlan {
            target: "192.0.2.1:5060".parse().unwrap(),
            settings: Settings {
                salt: 7,
                domain: "example.com".to_owned(),
                transport: Transport::Tcp,
                timers: Timers { t1: Duration::from_millis(100), ..Timers::default() },
                ring: Duration::from_millis(3),
                hold: Duration::from_secs(4),
                expires: 5,
                register_first: true,
                reuse_nonces: true,
                target: "192.0.2.1:5060".parse().unwrap(),
                to: Some("sip:x@example.com".to_owned()),
                retransmits: false,
                hangs_up: true,
            },
            users: Users::from_pattern("u{:03}:p{}", 100).unwrap().part(10..20),
            rate: 1234.5,
            workers: Some(3),
            sharing: Sharing::User,
            is_segmenting: false,
            is_resuming: true,
            tick: Some(Duration::from_micros(500)),
            is_probing: false,
            local: None,
            part: Part { index: 1, count: 2 },
        }
    }

    fn round<T: Serialize + for<'de> Deserialize<'de>>(value: &T) -> T {
        let text = serde_json::to_string(value).unwrap();
        assert!(!text.contains('\n'));
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_plan_arrives_as_it_was_sent() {
        let sent = Order::Open { id: 3, plan: Box::new(Plan::new(plan(), "server")) };
        let Order::Open { id: 3, plan: read } = round(&sent) else { panic!("{sent:?}") };
        assert_eq!(read.host, "server");
        let read = read.into_plan().unwrap();
        assert_eq!(format!("{read:?}"), format!("{:?}", plan()));
        assert_eq!(read.users.get(2), ("u012".to_owned(), "p12".to_owned()));
        for (index, count) in [(2, 2), (0, 0), (0, MOST + 1)] {
            let part = Part { index, count };
            assert!(Plan::new(GeneratorPlan { part, ..plan() }, "x").into_plan().is_err());
        }
    }

    #[test]
    fn jobs_arrive_as_they_were_sent() {
        let stretch = Stretch {
            task: Task::Invite,
            segments: vec![Segment { seconds: 0.1, from: 1.5, to: 1e-7 }],
            spacing: Spacing::Poisson,
            seed: u64::MAX,
            before: Duration::from_micros(1),
            measured: Duration::from_micros(2)..Duration::from_micros(u64::MAX / 4),
            drain: Duration::from_micros(3),
        };
        for job in [
            Job::from(&stretch),
            Job::ClosedLoop { task: Task::Clear, window: usize::MAX, bound: Bound::EachCaller },
        ] {
            assert_eq!(format!("{:?}", round(&job)), format!("{job:?}"));
        }
    }

    #[test]
    fn lines_end_with_a_line_feed() {
        let mut text = &b"one\n\ntwo"[..];
        assert_eq!(line(&mut text).unwrap().as_deref(), Some(&b"one"[..]));
        assert_eq!(line(&mut text).unwrap().as_deref(), Some(&b""[..]));
        assert_eq!(line(&mut text).unwrap(), None, "cut off within a line");
    }
}
