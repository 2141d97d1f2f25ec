//! `qos`: parallel users with a port each, who all register and then all call at the same moment,
//! on an idle link and, if wanted, on a busy one (rows C1 to C5 of docs/sources.md).

use super::error::CommandError;
use super::output::{self, finding};
use super::session::{Ceilings, Means, Session};
use super::{run, systems};
use crate::cli::QosArgs;
use crate::load::engine::Task;
use crate::load::links::Sharing;
use crate::load::worker::Bound;
use crate::measure::{self, Base};
use crate::record::{Delay, Kind, Operation, Record, Run};
use crate::traffic::Traffic;
use sip::Duration;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub(crate) fn execute(args: &QosArgs, ending: &Arc<AtomicBool>) -> Result<bool, CommandError> {
    let mut load = args.load.clone();
    load.operation = Operation::Invite;
    load.detail.sockets = Sharing::User;
    load.detail.workers = load.detail.workers.or(Some(1));
    let means = Means::new(&load, args.output.quiet, ending)?;
    let mut record = output::record(Kind::Qos, Vec::new(), &means);
    let callers = &args.callers.0;
    let most = callers.iter().copied().max().unwrap_or(1);
    // Each caller has somebody to call.
    load.users.users = most * 2;
    let all = load.users.users()?;
    let started = systems::start(&load, &all, load.operation, load.users.auth)?;
    let states: &[bool] = if args.busy.is_some() { &[false, true] } else { &[false] };
    let mut measure = || {
        for &is_busy in states {
            let traffic = match args.busy {
                Some(bits) if is_busy => {
                    let to = args.busy_target.or_else(|| {
                        // The discard service, whether somebody is there or not.
                        started.first().map(|system| (system.target.address.ip(), 9).into())
                    });
                    to.map(|to| Traffic::start(to, bits))
                        .transpose()
                        .map_err(CommandError::Traffic)?
                }
                _ => None,
            };
            for &count in callers {
                load.users.users = count * 2;
                let users = load.users.users()?;
                let none = Ceilings::new();
                let mut sessions =
                    run::open(&load, &users, &started, f64::from(count), &none, &means)?;
                for session in &mut sessions {
                    if record.systems.iter().all(|known| known.name != session.system.name) {
                        record.systems.push(session.system.clone());
                    }
                    let label =
                        format!("{count} users{}", if is_busy { ", busy link" } else { "" });
                    for repeat in 0..args.repeats_of_step {
                        session.clear()?;
                        for (operation, task, bound) in [
                            (Operation::Register, Task::Register, Bound::EachUser),
                            (Operation::Invite, Task::Invite, Bound::EachCaller),
                        ] {
                            let authentication = load.users.auth;
                            let hold = load.detail.hold;
                            record.runs.push(at_once(
                                session,
                                &label,
                                repeat,
                                (operation, task, bound),
                                (users.len(), authentication, hold),
                            )?);
                        }
                    }
                }
            }
            drop(traffic);
        }
        Ok(())
    };
    let outcome = measure();
    conclude(&mut record);
    output::finish(record, outcome, &args.output)
}

fn at_once(
    session: &mut Session,
    label: &str,
    repeat: u32,
    (operation, task, bound): (Operation, Task, Bound),
    (users, authentication, hold): (usize, bool, Duration),
) -> Result<Run, CommandError> {
    session.measure_other(label, repeat, |force, limits| {
        let started = net::wall_clock().as_secs();
        let shares = force.closed_loop(task, usize::MAX, bound)?;
        let found = shares.iter().flat_map(|share| &share.found);
        let longest = found.map(|found| found.elapsed).max().unwrap_or_default();
        let seconds = longest.as_micros() as f64 / 1e6;
        let base = Base {
            operation,
            authentication,
            arrivals: "all at once".to_owned(),
            rate: 0.0,
            peak: 0.0,
            users,
            workers: force.workers(),
            hold,
            seconds,
            loaded: None,
            started,
        };
        // All at once, the generator's own threads are busy for that moment: no doubt about that.
        let mut measured = measure::describe_found(shares, base, &limits.of_a_moment())?;
        measured.run.load.rate =
            measured.run.counts.offered as f64 / seconds.max(f64::MIN_POSITIVE);
        Ok(measured)
    })
}

/// What the source tells: mean delays, and what was lost, by the number of users.
fn conclude(record: &mut Record) {
    for system in &record.systems {
        let mut labels: Vec<&str> = Vec::new();
        for run in record.runs.iter().filter(|run| run.system == system.name) {
            if !labels.contains(&&run.label[..]) {
                labels.push(&run.label);
            }
        }
        for label in labels {
            let runs =
                || record.runs.iter().filter(|run| run.system == system.name && run.label == label);
            for (delay, name) in [
                (Delay::Rrd, "registration delay"),
                (Delay::Invite, "invite delay"),
                (Delay::Setup, "call setup delay (INVITE to 200)"),
            ] {
                let mut all = crate::record::Histogram::default();
                runs().filter_map(|run| run.delays.get(&delay)).for_each(|one| all.merge(one));
                if !all.is_empty() {
                    record.findings.push(finding(
                        &system.name,
                        format!("{name}, {label}"),
                        all.mean() / 1e3,
                        "ms",
                        format!(
                            "mean; minimum {:.3} ms, maximum {:.3} ms",
                            all.min() as f64 / 1e3,
                            all.max() as f64 / 1e3
                        ),
                    ));
                }
            }
            for (operation, name) in
                [(Operation::Register, "registrations lost"), (Operation::Invite, "calls lost")]
            {
                let of = || runs().filter(|run| run.load.operation == operation);
                let lost: u64 =
                    of().map(|run| run.counts.offered.saturating_sub(run.counts.succeeded)).sum();
                let offered: u64 = of().map(|run| run.counts.offered).sum();
                record.findings.push(finding(
                    &system.name,
                    format!("{name}, {label}"),
                    lost as f64,
                    "",
                    format!("of {offered}"),
                ));
            }
        }
    }
}
