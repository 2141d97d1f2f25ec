//! `media`: simultaneous calls with audio that the callees send back (row D2 of docs/sources.md).

mod search;

use super::beside::{self, Beside, BesideLoad};
use super::error::CommandError;
use super::output;
use super::session::Means;
use super::systems::{self, Started};
use super::voice::{self, Judge, Wanted};
use crate::cli::media::MediaArgs;
use crate::measure::MeasureError;
use crate::metrics;
use crate::record::{Kind, Operation, Record, Run, System};
use crate::sut::probe;
use crate::voice::{Callees, Pair, Plan, Protection, VoiceError};
use search::CallSearch;
use sip::{Duration, Transport};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most users that register beside calls.
const MOST_REGISTERING: usize = 10_000;

/// The name of the generator's own callees as a system.
const DIRECT: &str = "no server";

pub(crate) fn execute(args: &MediaArgs, ending: &Arc<AtomicBool>) -> Result<bool, CommandError> {
    let load = &args.load;
    let means = Means::new(load, &args.output, ending)?;
    let agents = means.fleet.as_ref().map_or(0, |fleet| fleet.count());
    if args.calls.iter().any(|&calls| (calls as usize) < agents) {
        return Err(CommandError::Usage("--calls: each agent needs a call at least".to_owned()));
    }
    let has_server = load.target.is_some() || !load.sut.is_empty();
    let mut systems = match has_server {
        true => {
            let users = load.users.users()?;
            systems::start(load, &users, Operation::Invite, load.users.auth)?
                .into_iter()
                .map(Some)
                .collect()
        }
        false => vec![None],
    };
    let mut record = output::record(Kind::Media, Vec::new(), &means);
    for system in &mut systems {
        record.systems.push(describe(args, system.as_mut())?);
    }
    let steps: Vec<Step<'_>> = systems
        .iter()
        .zip(&record.systems)
        .map(|(started, system)| {
            let (started, name) = (started.as_ref(), system.name.clone());
            Step { args, started, name, means: &means }
        })
        .collect();
    let outcome = measure_pairs(&steps, args, &mut record);
    match args.limit {
        true => output::finish_search(record, outcome, &args.output),
        false => output::finish(record, outcome, &args.output),
    }
}

/// A system under measurement.
struct Step<'a> {
    args: &'a MediaArgs,
    started: Option<&'a Started>,
    name: String,
    means: &'a Means<'a>,
}

/// The first error of a system that does not carry its load, which does not end the measurement of
/// the others.
#[derive(Default)]
struct Trouble(Option<CommandError>);

impl Trouble {
    /// Keeps such an error in `result`.
    ///
    /// # Errors
    /// Other errors.
    fn note(&mut self, result: Result<(), CommandError>) -> Result<(), CommandError> {
        match result {
            Err(error @ CommandError::Voice(_)) => {
                self.0.get_or_insert(error);
                Ok(())
            }
            other => other,
        }
    }

    fn result(self) -> Result<(), CommandError> {
        self.0.map_or(Ok(()), Err)
    }
}

/// Measures all pairs of codecs with all protections.
fn measure_pairs(
    steps: &[Step<'_>],
    args: &MediaArgs,
    record: &mut Record,
) -> Result<(), CommandError> {
    let mut trouble = Trouble::default();
    for pair in args.pairs() {
        for &protection in &args.srtp {
            if !args.limit {
                trouble.note(measure_all(steps, pair, protection, record))?;
                continue;
            }
            for step in steps {
                step.search(pair, protection, record)?;
            }
        }
    }
    trouble.result()
}

/// Measures all numbers of calls, each with the systems in turn.
fn measure_all(
    steps: &[Step<'_>],
    pair: Pair,
    protection: Protection,
    record: &mut Record,
) -> Result<(), CommandError> {
    let Some(Step { args, .. }) = steps.first() else { return Ok(()) };
    let mut trouble = Trouble::default();
    for &calls in &args.calls {
        for repeat in 0..args.load.detail.repeats {
            for step in steps {
                let runs = step.measure(pair, protection, calls.into(), repeat);
                trouble.note(runs.map(|runs| record.runs.extend(runs)))?;
            }
        }
    }
    trouble.result()
}

impl Step<'_> {
    fn measure(
        &self,
        pair: Pair,
        protection: Protection,
        calls: u64,
        repeat: u32,
    ) -> Result<Vec<Run>, CommandError> {
        let Self { args, started, name, means } = self;
        if means.ending.load(Ordering::Relaxed) {
            return Err(MeasureError::Stopped.into());
        }
        let label = format!("{pair}, SRTP {}, {calls} calls", protection.name());
        let title = format!("{name}: {label}");
        means.progress.note(&title);
        let plan = plan(args, *started, pair, protection, calls)?;
        let measured = measure(args, *started, &plan, means, &title);
        let (mut run, beside) = measured.map_err(|error| error.of_step(&title))?;
        let beside = beside.map(|mut run| {
            run.label = beside::label("registrations", &label, plan.warmup + plan.duration);
            run
        });
        run.label = label;
        let mut runs: Vec<Run> = [run].into_iter().chain(beside).collect();
        for run in &mut runs {
            (run.system, run.repeat) = (name.clone(), repeat);
        }
        Ok(runs)
    }

    /// Searches for the highest number of simultaneous calls.
    fn search(
        &self,
        pair: Pair,
        protection: Protection,
        record: &mut Record,
    ) -> Result<(), CommandError> {
        let mut search = CallSearch::new(self.args.confirmations);
        let mut next = self.args.calls.first().copied().map(f64::from);
        let (mut reason, mut lowest) = (String::new(), f64::MAX);
        while let Some(calls) = next {
            let failure = match self.measure(pair, protection, calls as u64, search.confirmed) {
                Ok(runs) => {
                    let failure = runs.iter().find_map(failure);
                    record.runs.extend(runs);
                    failure
                }
                // The system registers no callees: it is over its limit.
                Err(CommandError::Voice(error)) => Some(error.to_string()),
                Err(error) => return Err(error),
            };
            next = search.next(calls, failure.is_none());
            if let Some(failure) = failure.filter(|_| calls <= lowest) {
                (reason, lowest) = (failure, calls);
            }
        }
        let confirmed = search.confirmed;
        let media = format!("{pair}, SRTP {}", protection.name());
        let name = format!("simultaneous calls with {media}");
        let remark = match reason.is_empty() {
            true => format!("the highest number that was tried, confirmed {confirmed} times"),
            false => format!("confirmed {confirmed} times; at {lowest:.0}: {reason}"),
        };
        let passed = search.passed().unwrap_or_default();
        record.findings.push(output::finding(&self.name, name, passed, "calls", remark));
        Ok(())
    }
}

/// Returns the reason why a number of calls is above the limit, if it is.
fn failure(run: &Run) -> Option<String> {
    let failed = run.counts.offered - run.counts.succeeded;
    let delta = metrics::max_packet_delay(run).unwrap_or_default();
    if let Some(doubt) = run.doubts.first() {
        return Some(format!("the generator may be the limit: {doubt}"));
    }
    if failed > 0 {
        let operations = if run.media.is_some() { "calls" } else { "registrations" };
        return Some(format!("{failed} of {} {operations} failed", run.counts.offered));
    }
    if metrics::is_too_late(run) {
        return Some(format!(
            "the maximum packet delay of the observed call was {:.1} ms, above 90 ms",
            delta as f64 / 1000.0
        ));
    }
    metrics::busy(run)
        .filter(|busy| *busy > metrics::USED_UP)
        .map(|busy| format!("the server used {:.0} % of its processors", busy * 100.0))
}

/// Returns the system in the record, after a probe.
fn describe(args: &MediaArgs, started: Option<&mut Started>) -> Result<System, CommandError> {
    let Some(started) = started else {
        return Ok(System { name: DIRECT.to_owned(), ..System::default() });
    };
    let mut system = started.system.clone();
    if !args.load.detail.no_probe {
        let banner = probe(&started.target, &started.domain)?;
        system.version = system.version.or(banner);
    }
    Ok(system)
}

/// Returns the plan of a step.
fn plan(
    args: &MediaArgs,
    started: Option<&Started>,
    codecs: Pair,
    protection: Protection,
    calls: u64,
) -> Result<Plan, CommandError> {
    let detail = &args.load.detail;
    let wanted = Wanted {
        codecs,
        protection,
        calls,
        rate: calls as f64 * 1e6 / args.audio.as_micros() as f64,
        audio: args.audio,
        warmup: detail.warmup.unwrap_or(args.audio + Duration::from_secs(1)),
        duration: args.load.duration,
        faults: args.fault.unwrap_or_default(),
        echo_faults: args.echo_fault.unwrap_or_default(),
        from: detail.from,
        workers: detail.workers,
        seed: detail.seed,
        transport: started.map_or(Transport::Udp, |started| started.target.transport),
    };
    let callees = match (started, &args.load.to) {
        (None, _) => Callees::Direct,
        (Some(started), Some(uri)) => {
            Callees::Uri { uri: uri.clone(), server: started.target.address }
        }
        (Some(started), None) => {
            let server = started.target.address;
            let domain = started.domain.clone();
            Callees::Registered { server, domain, callers_register: true }
        }
    };
    voice::plan(&wanted, callees, &args.load.users.users()?)
}

/// Starts the registrations beside the calls, if the command line asks for them.
fn register_beside(
    args: &MediaArgs,
    started: Option<&Started>,
    plan: &Plan,
) -> Result<Option<Beside>, CommandError> {
    let Some(rate) = args.registrations else { return Ok(None) };
    let Some(started) = started.filter(|_| args.load.to.is_none()) else {
        let text = "--registrations needs a server (--target or --sut)";
        return Err(CommandError::Usage(text.to_owned()));
    };
    let load = BesideLoad {
        operation: Operation::RegisterUpdate,
        rate,
        shape: args.registrations_shape.as_ref(),
        from: args.registrations_from,
        length: plan.warmup + plan.duration,
        taken: plan.users.len() * 2,
        most: MOST_REGISTERING,
    };
    Beside::start(&args.load, &args.load.users.users()?, started, load).map(Some)
}

impl CommandError {
    /// Names the step in the error of a system that does not carry its load.
    fn of_step(self, title: &str) -> Self {
        match self {
            Self::Voice(VoiceError::Worker(reason)) => {
                Self::Voice(VoiceError::Worker(format!("{title}: {reason}")))
            }
            other => other,
        }
    }
}

/// Measures a step: the calls, and the registrations beside them.
fn measure(
    args: &MediaArgs,
    started: Option<&Started>,
    plan: &Plan,
    means: &Means<'_>,
    title: &str,
) -> Result<(Run, Option<Run>), CommandError> {
    let detail = &args.load.detail;
    let judge = Judge {
        subject: started.and_then(|started| started.subject.as_ref()),
        settle: detail.settle,
        limits: detail.limits(),
        authentication: args.load.users.auth,
    };
    let (fleet, ending) = (means.fleet.as_deref(), means.ending);
    let proof = voice::prove(plan, detail.no_headroom, fleet, ending)?;
    let beside = register_beside(args, started, plan)?;
    let shown = |readings| means.progress.show_usage(title, readings);
    let run = voice::measure(plan, judge, proof, fleet, ending, shown)?;
    Ok((run, beside.map(Beside::finish).transpose()?))
}
