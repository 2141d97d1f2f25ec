//! `qos`: parallel users with a port each, which all register and then all call at the same time,
//! on an idle link and, optionally, on a busy one (see docs/sources.md). The callees may be on
//! another machine.

use super::error::CommandError;
use super::output::{self, finding};
use super::qos_capture::{captured, delays_of};
use super::session::{Ceilings, Means, Session};
use super::{run, systems};
use crate::cli::QosArgs;
use crate::link::Link;
use crate::load::engine::Task;
use crate::load::links::Sharing;
use crate::load::worker::Bound;
use crate::measure::{self, Base};
use crate::metrics;
use crate::record::{Delay, Finding, Histogram, Kind, Operation, Record, Run};
use crate::traffic::Traffic;
use sip::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The default holding time of calls: all calls of a step exist at the same time.
const HOLD: Duration = Duration::from_secs(5);
/// The default rate of the link with background traffic, in bits per second.
const LINK: u64 = 100_000_000;

pub(crate) fn execute(args: &QosArgs, ending: &Arc<AtomicBool>) -> Result<bool, CommandError> {
    let mut load = args.load.clone();
    load.operation = Operation::Invite;
    load.detail.sockets = Sharing::User;
    load.detail.workers = load.detail.workers.or(Some(1));
    // A lost message counts as a lost registration or call, so there are no retransmissions (see
    // docs/sources.md).
    load.detail.retransmits = false;
    load.detail.hangs_up = !args.no_bye;
    if load.detail.hold == Duration::ZERO {
        load.detail.hold = HOLD;
    }
    let link = link(args)?;
    if let Some(link) = &link {
        load.detail.sut_address = link.far.into();
        load.detail.sut_namespace = Some(link.name.clone());
    }
    let busy = busy(args.busy, link.as_ref())?;
    let mut means = Means::new(&load, &args.output, ending)?;
    if let Some(place) = &args.receiver {
        // The calls of one worker here have one receiving worker there.
        if load.detail.workers != Some(1) {
            let text = "--receiver is for one worker: leave --workers out";
            return Err(CommandError::Usage(text.to_owned()));
        }
        means.start_receiver(place)?;
    }
    let mut record = output::record(Kind::Qos, Vec::new(), &means);
    let callers = &args.callers.0;
    let most = callers.iter().copied().max().unwrap_or(1);
    // Each caller needs a callee.
    load.users.users = most * 2;
    let all = load.users.users()?;
    let started = systems::start(&load, &all, load.operation, load.users.auth)?;
    let states: &[bool] = if busy.is_some() { &[false, true] } else { &[false] };
    let interface = args.capture.as_ref().map(|name| match (name, &link) {
        (Some(name), _) => name.clone(),
        (None, Some(link)) => link.interface(),
        (None, None) => "lo".to_owned(),
    });
    let mut arrived = Vec::new();
    let mut measure = || {
        for &is_busy in states {
            let traffic = match (busy, &link) {
                (Some(bits), Some(link)) if is_busy => {
                    Traffic::both_ways(link, bits).map_err(CommandError::Traffic)?.into()
                }
                (Some(bits), None) if is_busy => {
                    let to = args.busy_target.or_else(|| {
                        // The discard port, with or without a listener.
                        started.first().map(|system| (system.target.address.ip(), 9).into())
                    });
                    let traffic = to.map(|to| Traffic::start(to, bits)).transpose();
                    traffic.map_err(CommandError::Traffic)?.into_iter().collect()
                }
                _ => Vec::new(),
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
                            let before = lost_on(link.as_ref())?;
                            let server = session.target_address();
                            let (mut run, captured) = captured(interface.as_deref(), || {
                                at_once(
                                    session,
                                    &label,
                                    repeat,
                                    (operation, task, bound),
                                    (users.len(), authentication, hold),
                                )
                            })?;
                            let places = ["link, to the server", "link, from the server"];
                            let after = lost_on(link.as_ref())?;
                            for (place, (after, before)) in
                                places.iter().zip(after.iter().zip(before))
                            {
                                if *after > before {
                                    run.dropped.insert((*place).to_owned(), after - before);
                                }
                            }
                            if let Some(analysis) = captured {
                                run.captured = delays_of(&analysis, server);
                                if analysis.facts.dropped > 0 {
                                    let count = analysis.facts.dropped;
                                    let doubt = format!("the capture has lost {count} packets");
                                    run.doubts.push(doubt);
                                }
                            }
                            record.runs.push(run);
                        }
                    }
                }
            }
            if let ([there, back], Some(link)) = (&traffic[..], &link) {
                for (name, way) in [("to the server", there), ("from the server", back)] {
                    let remark = format!("of {:.0} Mbit/s", link.bits as f64 / 1e6);
                    let name = format!("other traffic {name}");
                    arrived.push((name, way.arrived() / 1e6, remark));
                }
            }
        }
        Ok(())
    };
    let outcome = measure();
    conclude(&mut record);
    for (name, value, remark) in arrived {
        let system = record.systems.first().map_or("", |system| &system.name);
        record.findings.push(finding(system, name, value, "Mbit/s", remark));
    }
    output::finish(record, outcome, &args.output)
}

/// Returns the link between the load and the servers that are started, if it is needed.
fn link(args: &QosArgs) -> Result<Option<Link>, CommandError> {
    let load = &args.load;
    // A running system is named by its address.
    let starts_all = load.target.is_none()
        && !load.sut.is_empty()
        && load.sut.iter().all(|it| !it.contains(':'));
    let bits = match (args.link, args.busy) {
        (Some(_), _) if !starts_all || !load.agents.is_empty() => {
            let text = "--link is for servers that are started (--sut), and for no other machines";
            return Err(CommandError::Usage(text.to_owned()));
        }
        (Some(bits), _) => bits,
        (None, Some(_)) if starts_all && load.agents.is_empty() && args.receiver.is_none() => LINK,
        (None, _) => return Ok(None),
    };
    Link::start(bits).map(Some).map_err(CommandError::Traffic)
}

/// Returns the background traffic in bits per second in each direction: half of the link, unless
/// the command line sets it.
fn busy(bits: Option<Option<u64>>, link: Option<&Link>) -> Result<Option<u64>, CommandError> {
    match (bits, link) {
        (Some(None), Some(link)) => Ok(Some(link.bits / 2)),
        (Some(None), None) => Err(CommandError::Usage(
            "--busy needs a value BITS: the rate of the link to the target is not known".to_owned(),
        )),
        (bits, _) => Ok(bits.flatten()),
    }
}

/// Returns the packets that the link has dropped so far, in each direction.
fn lost_on(link: Option<&Link>) -> Result<[u64; 2], CommandError> {
    link.map_or(Ok([0; 2]), |link| link.dropped().map_err(CommandError::Traffic))
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
        // All operations start at once, so busy threads of the generator are expected and no doubt.
        let mut measured = measure::describe_found(shares, base, &limits.of_a_moment())?;
        measured.run.load.rate =
            measured.run.counts.offered as f64 / seconds.max(f64::MIN_POSITIVE);
        Ok(measured)
    })
}

/// Adds the figures of the published measurement (see docs/sources.md): mean delays and losses, by
/// the number of users.
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
                let all: Vec<&Histogram> =
                    runs().filter_map(|run| run.delays.get(&delay)).collect();
                record.findings.extend(moments(&system.name, &format!("{name}, {label}"), &all));
                let all: Vec<&Histogram> =
                    runs().filter_map(|run| run.captured.get(&delay)).collect();
                let name = format!("{name} by captures, {label}");
                record.findings.extend(moments(&system.name, &name, &all));
            }
            for (operation, name) in
                [(Operation::Register, "registrations lost"), (Operation::Invite, "calls lost")]
            {
                let of = || runs().filter(|run| run.load.operation == operation);
                let lost = |run: &Run| match operation {
                    Operation::Invite => metrics::calls_not_set_up(run),
                    _ => run.counts.offered.saturating_sub(run.counts.succeeded),
                };
                let lost: u64 = of().map(lost).sum();
                let offered: u64 = of().map(|run| run.counts.offered).sum();
                record.findings.push(finding(
                    &system.name,
                    format!("{name}, {label}"),
                    lost as f64,
                    "",
                    format!("of {offered}"),
                ));
            }
            let mut causes: BTreeMap<&str, u64> = BTreeMap::new();
            for (place, count) in runs().flat_map(|run| &run.dropped) {
                *causes.entry(place).or_default() += count;
            }
            for (place, count) in causes {
                let name = format!("datagrams dropped: {place}, {label}");
                record.findings.push(finding(&system.name, name, count as f64, "", String::new()));
            }
        }
    }
}

/// Returns the finding of delays of all repeats: mean, minimum and maximum, and the means of single
/// repeats; none without delays.
fn moments(system: &str, name: &str, repeats: &[&Histogram]) -> Option<Finding> {
    let mut all = Histogram::default();
    repeats.iter().for_each(|one| all.merge(one));
    if all.is_empty() {
        return None;
    }
    let ms = |us: u64| us as f64 / 1e3;
    let mut remark =
        format!("mean; minimum {:.3} ms, maximum {:.3} ms", ms(all.min()), ms(all.max()));
    let means = || repeats.iter().filter(|one| !one.is_empty()).map(|one| one.mean() / 1e3);
    if means().count() > 1 {
        let (low, high) = (means().fold(f64::MAX, f64::min), means().fold(0.0, f64::max));
        remark += &format!("; means of the repeats {low:.3} to {high:.3} ms");
    }
    Some(finding(system, name.to_owned(), all.mean() / 1e3, "ms", remark))
}
