//! The results of the machines in a run, summed up for the record.

use super::doubts::Limits;
use super::error::MeasureError;
use super::sums::{OfMachine, Sums};
use crate::agents::Share;
use crate::load::links::LinkCounts;
use crate::record::{self, Ceiling, Generator as GeneratorRecord, Load, Operation, Run};
use sip::Duration;
use std::collections::BTreeMap;
use std::fmt;

/// The results of a run.
pub(crate) struct Measured {
    pub(crate) run: Run,
    /// Successful operations of the whole load, as the divisor of costs.
    pub(crate) operations: u64,
    /// The messages on the links.
    pub(crate) traffic: LinkCounts,
    /// True if the server had stopped answering at the end.
    pub(crate) is_silent: bool,
    /// The time of its last message, in seconds from the start of the measured time.
    pub(crate) heard: Option<f64>,
}

/// The parameters of a load that are known beforehand.
pub(crate) struct Base {
    pub(crate) operation: Operation,
    pub(crate) authentication: bool,
    pub(crate) arrivals: String,
    /// Operations per second, the mean and the highest.
    pub(crate) rate: f64,
    pub(crate) peak: f64,
    pub(crate) users: usize,
    pub(crate) workers: usize,
    pub(crate) hold: Duration,
    /// The measured time in seconds.
    pub(crate) seconds: f64,
    /// See [`Run::loaded`].
    pub(crate) loaded: Option<[f64; 2]>,
    /// The start in seconds since the Unix epoch.
    pub(crate) started: u64,
}

/// Returns the run from the results of the machines, for a load that was measured as a whole.
///
/// # Errors
/// [`MeasureError::Stopped`] if there are no results.
pub(crate) fn describe_found(
    shares: Vec<Share>,
    base: Base,
    limits: &Limits,
) -> Result<Measured, MeasureError> {
    let mut sums = Sums::default();
    sums.add(shares);
    describe(sums, base, Duration::ZERO..Duration::from_micros(u64::MAX), limits, &[])
}

/// As [`describe_found`], for a load whose measured part is `measured`.
pub(super) fn describe(
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
    let Some(sums) = sums.together() else {
        return Err(MeasureError::Stopped);
    };
    let heard = sums.heard.map(|heard| from(heard, measured.start));
    let silence = Silence::of(&sums, measured.start);
    doubts.extend(silence.as_ref().map(Silence::to_string));
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
        loaded: base.loaded,
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
        down: None,
        steps: record::Steps::new(),
        dropped: BTreeMap::new(),
        captured: BTreeMap::new(),
        media: None,
    };
    doubts.extend(Limits::doubts(&run));
    run.doubts = doubts;
    let is_silent = silence.is_some();
    Ok(Measured { run, operations: parts.operations, traffic: sums.links, is_silent, heard })
}

/// Returns the time from `start` to `at` in seconds; negative if `at` is earlier.
fn from(at: Duration, start: Duration) -> f64 {
    (at.as_micros() as f64 - start.as_micros() as f64) / 1e6
}

/// Returns the common ceiling of machines with these ceilings and equal shares.
fn together(ceilings: &[Ceiling]) -> Option<Ceiling> {
    let count = ceilings.len() as f64;
    let slowest = ceilings.iter().map(|ceiling| ceiling.rate).reduce(f64::min)?;
    let cpu_us = ceilings.iter().map(|ceiling| ceiling.cpu_us).sum::<f64>() / count;
    Some(Ceiling { rate: slowest * count, cpu_us })
}

/// A silence of the server at the end of a load.
struct Silence {
    /// The time of the last message, in seconds from the start of the measured time; `None` if no
    /// message came.
    since: Option<f64>,
    /// Operations that were started after that.
    operations: u64,
}

impl Silence {
    /// The number of operations and the time from which a silence is no coincidence.
    const OPERATIONS: u64 = 10;
    const TIME: Duration = Duration::from_secs(1);

    /// Returns the silence at the end of a load, if there is one; `measured` is the start of the
    /// measured time.
    fn of(all: &OfMachine, measured: Duration) -> Option<Self> {
        let operations = all.unheard;
        let Some(heard) = all.heard else {
            return (operations > 0).then_some(Self { since: None, operations });
        };
        let is_long = all.elapsed >= heard + Self::TIME && operations >= Self::OPERATIONS;
        let is_refused = all.links.refused > 0 && operations > 0;
        let since = Some(from(heard, measured));
        (is_long || is_refused).then_some(Self { since, operations })
    }
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.since {
            None => f.write_str("the server answered nothing at all")?,
            Some(since) => write!(
                f,
                "the server stopped answering: nothing came from it any more {} measured time",
                match since {
                    ..0.0 => "from before the".to_owned(),
                    since => format!("after {since:.1} s of the"),
                }
            )?,
        }
        write!(f, ", and {} operations were started after that", self.operations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Cpu;
    use crate::load::tally::Outcome;
    use crate::load::tally::Tally;
    use crate::load::worker::Found;
    use sip::Instant;

    /// Returns the result of a worker with `count` operations, each `lag` late, at `busy` CPU time
    /// of a second.
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
            heard: Some(Duration::from_secs(1)),
            unheard: 0,
            stopped: None,
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
            loaded: None,
            started: 0,
        }
    }

    #[test]
    fn results_of_agents_are_added_and_their_doubts_named() {
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
        // 50 of 60 are more than 80 %; the other machine was late, busy, and dropped datagrams.
        let named = |name: &str| run.doubts.iter().filter(|it| it.starts_with(name)).count();
        assert_eq!((named("agent ssh:a: "), named("agent ssh:b: ")), (1, 3), "{:?}", run.doubts);
        assert_eq!(run.doubts.len(), 4);
    }

    #[test]
    fn a_server_that_is_silent_to_the_end_is_named() {
        let secs = Duration::from_secs;
        let ms = Duration::from_millis;
        let doubts = |heard: Option<Duration>, unheard, refused, elapsed| {
            let links = LinkCounts { refused, ..LinkCounts::default() };
            let one = Found { heard, unheard, links, elapsed, ..found(99, Duration::ZERO, 9) };
            let mut sums = Sums::default();
            sums.add(vec![Share { agent: None, clock_error_us: 0, found: vec![one] }]);
            let measured = secs(1)..secs(9);
            let measured = describe(sums, base(), measured, &Limits::default(), &[]).unwrap();
            assert_eq!(measured.is_silent, !measured.run.doubts.is_empty());
            measured.run.doubts.join("; ")
        };
        let silent = doubts(Some(secs(3)), 10, 0, secs(4));
        assert!(silent.contains("stopped answering: nothing came from it any more after 2.0 s"));
        assert!(silent.contains("and 10 operations were started after that"), "{silent}");
        assert!(doubts(Some(ms(500)), 10, 0, secs(4)).contains("from before the measured time"));
        assert!(doubts(None, 1, 0, secs(4)).contains("answered nothing at all"));
        // With an ICMP report one operation is enough; the other doubt is about the refusal itself.
        let refused = doubts(Some(ms(3500)), 1, 1, secs(4));
        assert!(refused.contains("stopped answering") && refused.contains("connection refused"));
        // Too few to distinguish from losses, or under way when the waiting ended.
        assert_eq!(doubts(Some(secs(3)), 9, 0, secs(4)), "");
        assert_eq!(doubts(Some(ms(3001)), 500, 0, secs(4)), "");
        assert_eq!(doubts(Some(secs(4)), 0, 0, secs(4)), "");
    }

    #[test]
    fn the_last_message_may_have_come_in_a_pass_before_the_last() {
        let secs = Duration::from_secs;
        let mut sums = Sums::default();
        for (number, heard, unheard) in [(0, Some(secs(1)), 2), (1, None, 20)] {
            sums.before = secs(number);
            let one = Found { heard, unheard, ..found(20, Duration::ZERO, 9) };
            sums.add(vec![Share { agent: None, clock_error_us: 0, found: vec![one] }]);
        }
        let measured = Duration::ZERO..secs(9);
        let measured = describe(sums, base(), measured, &Limits::default(), &[]).unwrap();
        assert_eq!(measured.heard, Some(1.0));
        let doubts = measured.run.doubts.join("; ");
        assert!(measured.is_silent && doubts.contains("after 1.0 s of the"), "{doubts}");
        assert!(doubts.contains("and 22 operations were started after that"), "{doubts}");
    }

    #[test]
    fn a_single_machine_is_not_named() {
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
