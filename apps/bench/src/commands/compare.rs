//! `compare`: the same load on several systems in turn, interleaved, so that background activity of
//! the machine affects all of them equally.

use super::error::CommandError;
use super::output::{self, finding};
use super::session::Means;
use super::systems::mode_of;
use super::{run, systems};
use crate::analysis;
use crate::bare::{self, Exchange};
use crate::cli::CompareArgs;
use crate::metrics;
use crate::record::{Delay, Finding, Kind, Operation, Run, System};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The CPU time of the bare exchange in each repeat in microseconds, by operation and
/// authentication.
type BareCosts = BTreeMap<(Operation, bool), Vec<f64>>;

/// The default rates in operations per second, of calls and of all others.
const CALL_RATE: f64 = 1000.0;
const RATE: f64 = 10_000.0;

/// A figure of a run that is compared, if it was measured.
type Measure<'f> = &'f dyn Fn(&Run) -> Option<f64>;

pub(crate) fn execute(args: &CompareArgs, ending: &Arc<AtomicBool>) -> Result<bool, CommandError> {
    let users = args.load.users.users()?;
    let means = Means::new(&args.load, &args.output, ending)?;
    let authentications: &[bool] = match (args.load.users.auth, args.both) {
        (_, true) => &[false, true],
        (true, false) => &[true],
        (false, false) => &[false],
    };
    let operations: &[Operation] =
        if args.operations.is_empty() { &Operation::ALL } else { &args.operations };
    let mut record = output::record(Kind::Compare, Vec::new(), &means);
    let mut bare: BareCosts = BTreeMap::new();
    let mut measure = || {
        for &authentication in authentications {
            // Systems are restarted for each configuration.
            for mode in [
                mode_of(Operation::Invite, args.load.detail.stateless),
                mode_of(Operation::InviteRedirect, false),
            ] {
                let group: Vec<Operation> = operations
                    .iter()
                    .copied()
                    .filter(|&operation| {
                        mode_of(operation, args.load.detail.stateless) == mode
                            && !(authentication && operation == Operation::Options)
                    })
                    .collect();
                let Some(&first) = group.first() else { continue };
                let mut load = args.load.clone();
                load.users.auth = authentication;
                let rate_of = |operation| match operation {
                    Operation::Invite => args.call_rate.or(load.rate).unwrap_or(CALL_RATE),
                    _ => load.rate.unwrap_or(RATE),
                };
                let highest = group.iter().map(|&operation| rate_of(operation)).fold(0.0, f64::max);
                let work: Vec<_> =
                    group.iter().map(|&operation| (operation, authentication)).collect();
                let ceilings = run::ceilings(&load, &work, highest, &means)?;
                let started = systems::start(&load, &users, first, authentication)?;
                let mut sessions = run::open(&load, &users, &started, highest, &ceilings, &means)?;
                for session in &sessions {
                    note(&mut record.systems, &session.system);
                }
                for repeat in 0..args.load.detail.repeats {
                    for &operation in &group {
                        load.operation = operation;
                        let spec = load.spec(rate_of(operation));
                        let count = sessions.len();
                        for turn in 0..count {
                            // The order of the systems rotates with each repeat.
                            let session = &mut sessions[(turn + repeat as usize) % count];
                            record.runs.push(session.measure(&spec, "", repeat)?);
                        }
                        if args.bare
                            && let Some(session) = sessions.first()
                        {
                            let (traffic, operations) = &session.traffic;
                            let exchange =
                                Exchange::like(traffic, *operations, &spec, load.detail.clock);
                            let cost = bare::measure(&exchange).map_err(CommandError::Peer)?;
                            bare.entry((operation, authentication))
                                .or_default()
                                .push(cost.responder_us);
                        }
                    }
                }
            }
        }
        Ok(())
    };
    let outcome = measure();
    record.findings = conclusions(&record.systems, &record.runs);
    record.findings.extend(beside_bare(&record.systems, &record.runs, &bare));
    output::finish(record, outcome, &args.output)
}

/// Adds `system`, unless one with its name is present: a restarted system is the same.
fn note(systems: &mut Vec<System>, system: &System) {
    if !systems.iter().any(|known| known.name == system.name) {
        systems.push(system.clone());
    }
}

/// Returns the ratios of each other system to the first, for the main figures.
fn conclusions(systems: &[System], runs: &[Run]) -> Vec<Finding> {
    let Some((first, others)) = systems.split_first() else { return Vec::new() };
    let mut findings = Vec::new();
    for (operation, authentication) in work(runs) {
        let values = |system: &System, of: Measure<'_>| {
            values(runs, system, (operation, authentication), of)
        };
        let with = if authentication { " with authentication" } else { "" };
        for other in others {
            let p99 = |run: &Run| run.delays.get(&Delay::Response)?.told(99.0).map(|us| us as f64);
            let measures: [(_, Measure<'_>); 2] =
                [("CPU", &metrics::cpu_per_operation), ("response p99", &p99)];
            for (name, of) in measures {
                let ratio = analysis::ratio(&values(other, of), &values(first, of));
                let Some(ratio) = ratio else { continue };
                findings.push(finding(
                    &other.name,
                    format!("{name} of {}{with}, {} being 1", operation.name(), first.name),
                    ratio.median,
                    "",
                    format!("{:.3} to {:.3}", ratio.low, ratio.high),
                ));
            }
        }
    }
    findings
}

/// Returns the cost of each system beside the bare exchange of the same datagrams.
fn beside_bare(systems: &[System], runs: &[Run], bare: &BareCosts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (operation, authentication) in work(runs) {
        let Some(costs) = bare.get(&(operation, authentication)) else { continue };
        let with = if authentication { " with authentication" } else { "" };
        for system in systems {
            let work = (operation, authentication);
            let values = values(runs, system, work, &metrics::cpu_per_operation);
            let Some(ratio) = analysis::ratio(&values, costs) else { continue };
            let us = analysis::Spread::of(costs).map_or(0.0, |spread| spread.median);
            findings.push(finding(
                &system.name,
                format!("CPU of {}{with}, the bare exchange being 1", operation.name()),
                ratio.median,
                "",
                format!(
                    "{:.3} to {:.3}; the bare exchange takes {us:.2} µs",
                    ratio.low, ratio.high
                ),
            ));
        }
    }
    findings
}

/// Returns a figure of all runs of `system` with this load.
fn values(
    runs: &[Run],
    system: &System,
    (operation, authentication): (Operation, bool),
    of: Measure<'_>,
) -> Vec<f64> {
    runs.iter()
        .filter(|run| {
            run.system == system.name
                && run.load.operation == operation
                && run.load.authentication == authentication
        })
        .filter_map(of)
        .collect()
}

/// Returns the operations of the runs, in the order of their first occurrence.
fn work(runs: &[Run]) -> Vec<(Operation, bool)> {
    let mut work = Vec::new();
    for run in runs {
        let this = (run.load.operation, run.load.authentication);
        if !work.contains(&this) {
            work.push(this);
        }
    }
    work
}
