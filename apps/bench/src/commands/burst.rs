//! `burst`: registrations in five one-second bursts, with periodic re-registration of each user and
//! a wait after an error (see docs/sources.md). Further users may exist, and call meanwhile.

use super::beside::{self, Beside, BesideLoad};
use super::error::CommandError;
use super::output::{self, finding};
use super::progress::time;
use super::session::{Ceilings, Means, Session};
use super::systems::Started;
use super::{run, systems};
use crate::cli::BurstArgs;
use crate::load::engine::Task;
use crate::load::worker::CyclePlan;
use crate::measure::{self, Base};
use crate::record::{Delay, Kind, Operation, Record, Run};
use sip::{Duration, Instant};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The most users that call beside the bursts.
const MOST_CALLERS: u32 = 200;

/// The highest share of timed-out requests: twice the share that leaves a user unregistered for 45
/// seconds.
const ALLOWED: f64 = 2.0 / 15.0;

pub(crate) fn execute(args: &BurstArgs, ending: &Arc<AtomicBool>) -> Result<bool, CommandError> {
    let mut load = args.load.clone();
    load.operation = Operation::Register;
    let means = Means::new(&load, &args.output, ending)?;
    let mut record = output::record(Kind::Burst, Vec::new(), &means);
    let scaled =
        |span: Duration| Duration::from_micros((span.as_micros() as f64 * args.scale) as u64);
    let most = args.registrations.iter().copied().max().unwrap_or(1);
    let callers = if args.calls.is_some() { MOST_CALLERS } else { 0 };
    load.users.users = args.existing.unwrap_or(most + callers).max(most);
    let all = load.users.users()?;
    let started = systems::start(&load, &all, load.operation, load.users.auth)?;
    let mut measure = || {
        for &registrations in &args.registrations {
            load.users.users = registrations;
            let users = load.users.users()?;
            let spread = scaled(args.rise);
            let seconds = spread.as_micros().max(1) as f64 / 1e6;
            let rate = f64::from(registrations) / seconds;
            let none = Ceilings::new();
            let mut sessions = run::open(&load, &users, &started, rate, &none, &means)?;
            for session in &mut sessions {
                if record.systems.iter().all(|known| known.name != session.system.name) {
                    record.systems.push(session.system.clone());
                }
                session.clear()?;
                let plan = CyclePlan {
                    task: Task::Register,
                    start: Instant::ZERO,
                    spread,
                    interval: scaled(args.interval),
                    wait: scaled(args.wait),
                    length: scaled(args.length),
                    drain: load.detail.drain(),
                };
                let users = users.len();
                let label = format!("{users} registrations");
                let of_session = |it: &&Started| it.system.name == session.system.name;
                let calls = args.calls.zip(started.iter().find(of_session));
                let calls = calls.map(|(rate, started)| {
                    let beside = BesideLoad {
                        operation: Operation::Invite,
                        rate,
                        shape: None,
                        from: args.calls_from,
                        length: plan.length,
                        taken: users,
                        most: MOST_CALLERS as usize,
                    };
                    Beside::start(&load, &all, started, beside)
                });
                let calls = calls.transpose()?;
                record.runs.push(burst(session, &label, &plan, users, load.users.auth)?);
                if let Some(calls) = calls {
                    let mut run = calls.finish()?;
                    run.system.clone_from(&session.system.name);
                    run.label = beside::label("calls", &label, plan.length);
                    record.runs.push(run);
                }
            }
        }
        Ok(())
    };
    let outcome = measure();
    conclude(&mut record);
    output::finish(record, outcome, &args.output)
}

fn burst(
    session: &mut Session,
    label: &str,
    plan: &CyclePlan,
    users: usize,
    authentication: bool,
) -> Result<Run, CommandError> {
    session.measure_other(label, 0, |force, limits| {
        let started = net::wall_clock().as_secs();
        let found = force.cycle(plan)?;
        let length = measure::stopped(&found).map_or(plan.length, |at| at.min(plan.length));
        let seconds = length.as_micros() as f64 / 1e6;
        let base = Base {
            operation: Operation::Register,
            authentication,
            arrivals: format!(
                "first registrations within {} ms, again every {} ms, {} ms after an error",
                plan.spread.as_millis(),
                plan.interval.as_millis(),
                plan.wait.as_millis()
            ),
            rate: 0.0,
            peak: 0.0,
            users,
            workers: force.workers(),
            hold: Duration::ZERO,
            seconds,
            loaded: None,
            started,
        };
        let mut measured = measure::describe_found(found, base, limits)?;
        measured.run.load.rate =
            measured.run.counts.offered as f64 / seconds.max(f64::MIN_POSITIVE);
        Ok(measured)
    })
}

fn conclude(record: &mut Record) {
    for system in &record.systems {
        let mut highest = 0;
        let mut has_failed = false;
        let all = record.runs.iter().filter(|run| run.system == system.name);
        let (registrations, calls): (Vec<&Run>, Vec<&Run>) =
            all.partition(|run| run.load.operation == Operation::Register);
        for run in calls {
            record.findings.push(finding(
                &system.name,
                run.label.clone(),
                run.counts.succeeded as f64,
                "",
                format!("of {} succeeded", run.counts.offered),
            ));
        }
        for run in registrations {
            let counts = &run.counts;
            let share = counts.timed_out as f64 / counts.offered.max(1) as f64;
            let rrd = run.delays.get(&Delay::Rrd).and_then(|rrd| rrd.told(50.0));
            let rrd = rrd.map_or_else(|| "unknown".to_owned(), time);
            record.findings.push(finding(
                &system.name,
                format!("timeouts with {}", run.label),
                share * 100.0,
                "%",
                format!(
                    "{:.1} % are allowed; {} of {} registrations succeeded, {} retransmissions, median \
                     RRD {}",
                    ALLOWED * 100.0,
                    counts.succeeded,
                    counts.offered,
                    counts.retransmitted,
                    rrd
                ),
            ));
            has_failed |= share > ALLOWED;
            if !has_failed && run.is_valid() {
                highest = highest.max(run.load.users);
            }
        }
        let remark = match has_failed {
            true => "more than 2 in 15 requests timed out beyond",
            false => "as many as were tried",
        };
        record.findings.push(finding(
            &system.name,
            "simultaneous registrations held".to_owned(),
            highest as f64,
            "",
            remark.to_owned(),
        ));
    }
}
