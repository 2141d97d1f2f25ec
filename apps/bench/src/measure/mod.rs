//! One run: users are prepared, a load is put on the server, and what came of it is judged.

mod doubts;
#[cfg(test)]
mod truth;

use crate::agents::{AgentError, Force, Place, Share};
use crate::cpu::Cpu;
use crate::load::arrivals::{Segment, Spacing};
use crate::load::engine::Task;
use crate::load::generator::Stretch;
use crate::load::links::LinkCounts;
use crate::load::tally::Tally;
use crate::load::worker::{Bound, Found};
use crate::record::{self, Ceiling, Generator as GeneratorRecord, Load, Operation, Run};
use sip::Duration;
use std::fmt;
use std::sync::atomic::Ordering;

pub(crate) use doubts::Limits;

/// Operations under way at a time on each worker while users are prepared.
const PREPARING: usize = 100;
/// How often it is tried: a server may still have work to do from an overload before.
const ATTEMPTS: usize = 3;

/// The load of a run, in full.
#[derive(Clone, Debug)]
pub(crate) struct LoadSpec {
    pub(crate) operation: Operation,
    /// Whether the server is expected to ask for credentials.
    pub(crate) authentication: bool,
    /// The rates over the measured time.
    pub(crate) segments: Vec<Segment>,
    pub(crate) spacing: Spacing,
    /// What the shape of the load is called.
    pub(crate) arrivals: String,
    /// Load before what is measured, at its first rate; and after it, at its last.
    pub(crate) warmup: Duration,
    pub(crate) tail: Duration,
    /// How long to wait at the end for what is under way.
    pub(crate) drain: Duration,
    /// How long calls are held.
    pub(crate) hold: Duration,
    /// The seed of what is random.
    pub(crate) seed: u64,
}

impl LoadSpec {
    /// The measured time in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.segments.iter().map(|segment| segment.seconds).sum()
    }

    /// The highest rate.
    pub(crate) fn peak(&self) -> f64 {
        self.segments.iter().map(|segment| segment.from.max(segment.to)).fold(0.0, f64::max)
    }

    /// The mean rate over the measured time.
    pub(crate) fn rate(&self) -> f64 {
        let operations: f64 = self
            .segments
            .iter()
            .map(|segment| segment.seconds * (segment.from + segment.to) / 2.0)
            .sum();
        operations / self.seconds().max(f64::MIN_POSITIVE)
    }
}

/// Why a run could not be made.
#[derive(Debug)]
pub(crate) enum MeasureError {
    /// Not all users could be brought into the state that the operation begins with.
    Prepare {
        /// What was done for it.
        task: Task,
        /// How many failed, and of how many.
        failed: u64,
        users: u64,
        /// What the server said.
        said: String,
    },
    /// An agent failed.
    Agent(AgentError),
    /// The user has stopped it.
    Stopped,
}

impl From<AgentError> for MeasureError {
    fn from(error: AgentError) -> Self {
        match error {
            AgentError::Stopped => Self::Stopped,
            error => Self::Agent(error),
        }
    }
}

impl fmt::Display for MeasureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prepare { task, failed, users, said } => {
                let what = match task {
                    Task::Register => "be registered",
                    _ => "be logged out",
                };
                write!(
                    f,
                    "{failed} of {users} users could not {what} before the run: {said}; do they \
                     exist there, with these passwords, and is the domain right?"
                )
            }
            Self::Agent(error) => error.fmt(f),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

impl std::error::Error for MeasureError {}

/// Where the edges of what is to be accounted for are told, so that somebody can read the meters of
/// the system under test.
pub(crate) trait Meters {
    /// The load begins, or goes on.
    fn begin(&mut self);
    /// It has ended, or pauses.
    fn end(&mut self);
}

/// Nobody reads any meters.
impl Meters for () {
    fn begin(&mut self) {}
    fn end(&mut self) {}
}

/// What has to be done for each user before an operation, and whether it uses the users up.
const fn preparation(operation: Operation) -> (Option<Task>, bool) {
    match operation {
        Operation::Register => (Some(Task::Clear), true),
        Operation::RegisterLogout => (Some(Task::Register), true),
        Operation::RegisterUpdate | Operation::Invite | Operation::InviteRedirect => {
            (Some(Task::Register), false)
        }
        Operation::InviteNotFound | Operation::Options => (None, false),
    }
}

/// What is done over and over for an operation.
pub(crate) const fn task_of(operation: Operation) -> Task {
    match operation {
        Operation::Register | Operation::RegisterUpdate => Task::Register,
        Operation::RegisterLogout => Task::Logout,
        Operation::Invite => Task::Invite,
        Operation::InviteNotFound => Task::InviteNotFound,
        Operation::InviteRedirect => Task::InviteRedirect,
        Operation::Options => Task::Options,
    }
}

/// What a run found, before it is written down.
pub(crate) struct Measured {
    pub(crate) run: Run,
    /// Operations of the whole load that succeeded, by which what it cost is divided.
    pub(crate) operations: u64,
    /// What went over the links.
    pub(crate) traffic: LinkCounts,
}

/// Runs `spec` with `force`, whose users are `users` in number, and of whose machines each carries what
/// `ceilings` says, if that is known.
///
/// An operation that uses its users up (a register, which makes a binding; a logout, which removes
/// one) is measured in passes over all users; between passes they are put back, unmeasured.
///
/// # Errors
/// [`MeasureError`] where the users cannot be prepared.
pub(crate) fn run(
    force: &mut Force,
    spec: &LoadSpec,
    users: usize,
    limits: &Limits,
    ceilings: &[Ceiling],
    meters: &mut dyn Meters,
) -> Result<Measured, MeasureError> {
    let started = net::wall_clock().as_secs();
    let (before, is_used_up) = preparation(spec.operation);
    let mut sums = Sums::default();
    let total = Duration::from_micros((spec.seconds() * 1e6) as u64);
    let mut measured = Duration::ZERO..total;
    if is_used_up {
        let passes = passes(&spec.segments, force.turns(users) as f64);
        for segments in passes {
            prepare(force, before, users)?;
            let length = Duration::from_micros((seconds_of(&segments) * 1e6) as u64);
            let stretch = Stretch {
                task: task_of(spec.operation),
                segments,
                spacing: spec.spacing,
                seed: spec.seed,
                before: sums.measured,
                measured: Duration::ZERO..Duration::from_micros(u64::MAX / 4),
                drain: spec.drain,
            };
            meters.begin();
            let shares = force.load(&stretch);
            meters.end();
            sums.add(shares?);
            sums.measured = sums.measured + length;
            if force.shared().ending.load(Ordering::Relaxed) {
                break;
            }
        }
    } else {
        prepare(force, before, users)?;
        let mut segments = Vec::new();
        for (span, rate) in [
            (spec.warmup, spec.segments.first().map(|segment| segment.from)),
            (Duration::ZERO, None),
            (spec.tail, spec.segments.last().map(|segment| segment.to)),
        ] {
            match rate {
                None => segments.extend(&spec.segments),
                Some(rate) if span > Duration::ZERO => {
                    segments.push(Segment::constant(rate, span.as_micros() as f64 / 1e6));
                }
                Some(_) => {}
            }
        }
        measured = spec.warmup..spec.warmup + total;
        let stretch = Stretch {
            task: task_of(spec.operation),
            segments,
            spacing: spec.spacing,
            seed: spec.seed,
            before: Duration::ZERO,
            measured: measured.clone(),
            drain: spec.drain,
        };
        meters.begin();
        let shares = force.load(&stretch);
        meters.end();
        sums.add(shares?);
    }
    let base = Base {
        operation: spec.operation,
        authentication: spec.authentication,
        arrivals: spec.arrivals.clone(),
        rate: spec.rate(),
        peak: spec.peak(),
        users,
        workers: force.workers(),
        hold: spec.hold,
        seconds: spec.seconds(),
        started,
    };
    let mut result = describe(sums, base, measured, limits, ceilings)?;
    if force.shared().ending.load(Ordering::Relaxed) {
        result.run.doubts.push("the run was stopped before its end".to_owned());
    }
    Ok(result)
}

/// What is known of a load beforehand.
pub(crate) struct Base {
    pub(crate) operation: Operation,
    pub(crate) authentication: bool,
    pub(crate) arrivals: String,
    /// Operations a second, in the mean and at most.
    pub(crate) rate: f64,
    pub(crate) peak: f64,
    pub(crate) users: usize,
    pub(crate) workers: usize,
    pub(crate) hold: Duration,
    /// The measured time.
    pub(crate) seconds: f64,
    /// When it began, in seconds since the Unix epoch.
    pub(crate) started: u64,
}

/// The run that the machines have found, where all of it was measured.
///
/// # Errors
/// [`MeasureError::Stopped`] if there is nothing.
pub(crate) fn describe_found(
    shares: Vec<Share>,
    base: Base,
    limits: &Limits,
) -> Result<Measured, MeasureError> {
    let mut sums = Sums::default();
    sums.add(shares);
    describe(sums, base, Duration::ZERO..Duration::from_micros(u64::MAX), limits, &[])
}

fn describe(
    sums: Sums,
    base: Base,
    measured: std::ops::Range<Duration>,
    limits: &Limits,
    ceilings: &[Ceiling],
) -> Result<Measured, MeasureError> {
    let rate = base.peak / sums.machines.len().max(1) as f64;
    let mut doubts = Vec::new();
    let mut shares = Vec::new();
    for (index, machine) in sums.machines.iter().enumerate() {
        let ceiling = ceilings.get(index).copied();
        let of_machine = limits.doubts_of_machine(machine, rate, ceiling).into_iter();
        match &machine.agent {
            None => doubts.extend(of_machine),
            Some(agent) => {
                doubts.extend(of_machine.map(|doubt| format!("agent {agent}: {doubt}")));
                shares.push(machine.share(agent, ceiling));
            }
        }
    }
    let Some(sums) = sums.machines.into_iter().reduce(OfMachine::merge) else {
        return Err(MeasureError::Stopped);
    };
    let parts = sums.tally.into_parts(measured);
    let mut run = Run {
        system: String::new(),
        label: String::new(),
        repeat: 0,
        started: base.started,
        load: Load {
            operation: base.operation,
            authentication: base.authentication,
            transport: String::new(),
            arrivals: base.arrivals,
            rate: base.rate,
            users: base.users as u64,
            sockets: sums.sockets as u64,
            workers: base.workers,
            hold: base.hold.as_micros() as f64 / 1e6,
        },
        seconds: base.seconds,
        doubts: Vec::new(),
        counts: parts.counts,
        delays: parts.delays,
        series: parts.series,
        generator: GeneratorRecord {
            cpu_user_us: sums.cpu.user_us,
            cpu_system_us: sums.cpu.system_us,
            operations: parts.operations,
            lag: parts.lag,
            drops: sums.links.drops,
            unsent: sums.links.unsent,
            ceiling: together(ceilings),
            shares,
        },
        watch: None,
        steps: crate::record::Steps::new(),
    };
    doubts.extend(Limits::doubts(&run));
    run.doubts = doubts;
    Ok(Measured { run, operations: parts.operations, traffic: sums.links })
}

/// What machines with these ceilings and equal shares carry together.
fn together(ceilings: &[Ceiling]) -> Option<Ceiling> {
    let count = ceilings.len() as f64;
    let slowest = ceilings.iter().map(|ceiling| ceiling.rate).reduce(f64::min)?;
    let cpu_us = ceilings.iter().map(|ceiling| ceiling.cpu_us).sum::<f64>() / count;
    Some(Ceiling { rate: slowest * count, cpu_us })
}

/// Sums over passes.
#[derive(Default)]
struct Sums {
    machines: Vec<OfMachine>,
    measured: Duration,
}

/// Sums over the workers of a machine, or of several.
struct OfMachine {
    agent: Option<Place>,
    tally: Tally,
    cpu: Cpu,
    links: LinkCounts,
    sockets: usize,
    /// The highest share of its time that a worker was on the processor.
    busiest: f64,
    clock_error_us: u64,
}

impl Sums {
    /// Adds what each machine found in a pass.
    fn add(&mut self, shares: Vec<Share>) {
        for (index, share) in shares.into_iter().enumerate() {
            let Some(of_pass) = OfMachine::of(share) else { continue };
            if index < self.machines.len() {
                let before = self.machines.remove(index);
                let sockets = of_pass.sockets;
                let merged = before.merge(of_pass);
                // They are the same in each pass.
                self.machines.insert(index, OfMachine { sockets, ..merged });
            } else {
                self.machines.push(of_pass);
            }
        }
    }
}

impl OfMachine {
    fn of(share: Share) -> Option<Self> {
        let Share { agent, clock_error_us, found } = share;
        let of_worker = |found: Found| Self {
            agent: agent.clone(),
            cpu: found.cpu,
            links: found.links,
            sockets: found.sockets,
            busiest: found.busy,
            tally: found.tally,
            clock_error_us,
        };
        found.into_iter().map(of_worker).reduce(Self::merge)
    }

    fn merge(mut self, other: Self) -> Self {
        self.tally.merge(&other.tally);
        self.cpu.user_us += other.cpu.user_us;
        self.cpu.system_us += other.cpu.system_us;
        self.links = self.links.plus(other.links);
        self.sockets += other.sockets;
        self.busiest = self.busiest.max(other.busiest);
        self.clock_error_us = self.clock_error_us.max(other.clock_error_us);
        self
    }

    /// What the record says of it.
    fn share(&self, agent: &Place, ceiling: Option<Ceiling>) -> record::Share {
        let (offered, lag) = self.tally.offered_and_lag();
        record::Share {
            agent: agent.to_string(),
            offered,
            operations: self.tally.operations,
            cpu_user_us: self.cpu.user_us,
            cpu_system_us: self.cpu.system_us,
            lag_p99_us: lag.percentile(99.0),
            drops: self.links.drops,
            unsent: self.links.unsent,
            clock_error_us: self.clock_error_us,
            ceiling,
        }
    }
}

fn seconds_of(segments: &[Segment]) -> f64 {
    segments.iter().map(|segment| segment.seconds).sum()
}

/// Cuts a load into stretches with at most `users` operations each.
fn passes(segments: &[Segment], users: f64) -> Vec<Vec<Segment>> {
    let mut passes = Vec::new();
    let mut pass = Vec::new();
    let mut room = users;
    for &segment in segments {
        let mut rest = segment;
        loop {
            let operations = rest.seconds * (rest.from + rest.to) / 2.0;
            if operations <= room {
                room -= operations;
                pass.push(rest);
                break;
            }
            let (head, tail) = rest.split(room);
            pass.push(head);
            passes.push(std::mem::take(&mut pass));
            room = users;
            rest = tail;
        }
    }
    if !pass.is_empty() {
        passes.push(pass);
    }
    passes
}

/// Removes all bindings of all users, those of earlier measurements too: calls would ring there, and a
/// server keeps so many for a user and no more. What fails here fails again when it matters.
///
/// # Errors
/// [`MeasureError`] where an agent fails.
pub(crate) fn clear(force: &mut Force) -> Result<(), MeasureError> {
    force.closed_loop(Task::Clear, PREPARING, Bound::EachUser)?;
    Ok(())
}

/// Brings all users into the state that an operation begins with.
fn prepare(force: &mut Force, task: Option<Task>, users: usize) -> Result<(), MeasureError> {
    let Some(task) = task else { return Ok(()) };
    let mut result = Ok(());
    for _ in 0..ATTEMPTS {
        let mut sums = Sums::default();
        sums.add(force.closed_loop(task, PREPARING, Bound::EachUser)?);
        if force.shared().ending.load(Ordering::Relaxed) {
            return Err(MeasureError::Stopped);
        }
        let Some(all) = sums.machines.into_iter().reduce(OfMachine::merge) else { return Ok(()) };
        let (succeeded, said) = all.tally.verdict();
        let failed = (users as u64).saturating_sub(succeeded);
        result = match failed {
            0 => return Ok(()),
            _ => Err(MeasureError::Prepare { task, failed, users: users as u64, said }),
        };
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::tally::Outcome;
    use sip::Instant;

    /// What a worker found that started `count` operations `lag` late, and spent `busy` of a second.
    fn found(count: u64, lag: Duration, busy: u64) -> Found {
        let origin = Instant::from_micros(1_000_000);
        let mut tally = Tally::new(origin, origin..Instant::MAX);
        for _ in 0..count {
            tally.offered(origin);
            tally.started(origin, origin + lag);
            tally.ended(Outcome::Succeeded, true, origin + lag);
        }
        Found {
            tally,
            cpu: Cpu { user_us: busy, system_us: 0 },
            elapsed: Duration::from_secs(1),
            busy: busy as f64 / 1e6,
            links: LinkCounts { drops: u64::from(busy > 900_000), ..LinkCounts::default() },
            sockets: 1,
        }
    }

    fn base() -> Base {
        Base {
            operation: Operation::Options,
            authentication: false,
            arrivals: "fixed".to_owned(),
            rate: 100.0,
            peak: 100.0,
            users: 10,
            workers: 3,
            hold: Duration::ZERO,
            seconds: 1.0,
            started: 0,
        }
    }

    #[test]
    fn what_agents_found_is_added_up_and_their_doubts_are_named() {
        let late = Duration::from_millis(20);
        let agent = |name: &str, found| Share {
            agent: Some(name.parse().unwrap()),
            clock_error_us: 7,
            found,
        };
        let shares = || {
            vec![
                agent("ssh:a", vec![found(30, Duration::ZERO, 100), found(20, Duration::ZERO, 50)]),
                agent("ssh:b", vec![found(50, late, 950_000)]),
            ]
        };
        let mut sums = Sums::default();
        sums.add(shares());
        sums.add(shares());
        let ceiling = |rate| Ceiling { rate, cpu_us: rate / 10.0 };
        let ceilings = [ceiling(60.0), ceiling(1000.0)];
        let all = Duration::ZERO..Duration::from_secs(9);
        let measured = describe(sums, base(), all, &Limits::default(), &ceilings).unwrap();
        let run = measured.run;
        assert_eq!((run.counts.offered, run.counts.succeeded), (200, 200));
        assert_eq!(measured.operations, 200);
        assert_eq!((run.load.sockets, run.generator.drops), (3, 2));
        assert_eq!(run.generator.cpu_user_us, 2 * 950_150);
        assert_eq!(run.generator.ceiling, Some(Ceiling { rate: 120.0, cpu_us: 53.0 }));
        let shares: Vec<_> =
            run.generator.shares.iter().map(|it| (&it.agent[..], it.offered, it.drops)).collect();
        assert_eq!(shares, [("ssh:a", 100, 0), ("ssh:b", 100, 2)]);
        // 50 of 60 are more than 80 %; the other was late, busy, and dropped something.
        let named = |name: &str| run.doubts.iter().filter(|it| it.starts_with(name)).count();
        assert_eq!((named("agent ssh:a: "), named("agent ssh:b: ")), (1, 3), "{:?}", run.doubts);
        assert_eq!(run.doubts.len(), 4);
    }

    #[test]
    fn of_one_machine_nothing_is_named() {
        let shares = vec![Share {
            agent: None,
            clock_error_us: 0,
            found: vec![found(9, Duration::ZERO, 9)],
        }];
        let run = describe_found(shares, base(), &Limits::default()).unwrap().run;
        assert_eq!(run.doubts, Vec::<String>::new());
        assert!(run.generator.shares.is_empty() && run.generator.ceiling.is_none());
        assert_eq!(run.counts.offered, 9);
        assert!(matches!(
            describe_found(Vec::new(), base(), &Limits::default()),
            Err(MeasureError::Stopped)
        ));
    }
}
