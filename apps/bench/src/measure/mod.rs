//! One run: users are prepared, a load is put on the server, and what came of it is judged.

mod doubts;
mod error;
mod found;
mod sums;
#[cfg(test)]
mod truth;

use crate::agents::{Force, Share};
use crate::load::arrivals::{Segment, Spacing};
use crate::load::engine::Task;
use crate::load::generator::Stretch;
use crate::load::worker::Bound;
use crate::record::{Ceiling, Operation};
use sip::Duration;
use std::sync::atomic::Ordering;
use std::time::Instant;

pub(crate) use doubts::Limits;
pub(crate) use error::MeasureError;
pub(crate) use found::{Base, Measured, describe_found};

use found::describe;
use sums::Sums;

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
    /// Whether users are registered before what needs it; a user agent that is called has none.
    pub(crate) has_registrar: bool,
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

/// Where the edges of what is to be accounted for are told, so that somebody can read the meters of
/// the system under test.
pub(crate) trait Meters {
    /// The load begins, or goes on.
    fn begin(&mut self);
    /// What was measured for `length` from `start` on stands in the series from `at` on.
    fn measured(&mut self, at: Duration, start: Instant, length: Duration);
    /// It has ended, or pauses.
    fn end(&mut self);
}

/// Nobody reads any meters.
impl Meters for () {
    fn begin(&mut self) {}
    fn measured(&mut self, _: Duration, _: Instant, _: Duration) {}
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

/// Runs `spec` with `force`, whose users are `users` in number, and of whose machines each carries
/// what `ceilings` says, if that is known.
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
    let (before, is_used_up) = match spec.has_registrar {
        true => preparation(spec.operation),
        false => (None, false),
    };
    let mut sums = Sums::default();
    let mut broken = None;
    let mut is_unanswered = false;
    let mut loaded = [0.0, 0.0];
    let total = Duration::from_micros((spec.seconds() * 1e6) as u64);
    let mut measured = Duration::ZERO..total;
    if is_used_up {
        let passes = passes(&spec.segments, force.turns(users) as f64);
        for segments in passes {
            if let Err(error) = prepare(force, before, users) {
                // What was measured before is not lost.
                if sums.measured == Duration::ZERO {
                    return Err(error);
                }
                is_unanswered = matches!(error, MeasureError::Unanswered { .. });
                if !matches!(error, MeasureError::Stopped) {
                    let measured = seconds(sums.measured);
                    broken = Some(format!("the run ended after {measured:.1} s: {error}"));
                }
                break;
            }
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
            let result = force.load(&stretch);
            meters.end();
            let (shares, start) = result?;
            let length = stopped(&shares).unwrap_or(length).min(length);
            sums.before = sums.measured;
            meters.measured(sums.measured, start, length);
            sums.measured = sums.measured + length;
            loaded[1] = seconds(sums.measured);
            sums.add(shares);
            if force.shared().is_over() {
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
        // So that a second of the series begins with the measured time.
        let lead = spec.warmup.as_micros().next_multiple_of(1_000_000) - spec.warmup.as_micros();
        let lead = Duration::from_micros(lead);
        let stretch = Stretch {
            task: task_of(spec.operation),
            segments,
            spacing: spec.spacing,
            seed: spec.seed,
            before: lead,
            measured: measured.clone(),
            drain: spec.drain,
        };
        meters.begin();
        let result = force.load(&stretch);
        meters.end();
        let (shares, start) = result?;
        let mut end = measured.end + spec.tail;
        if let Some(stopped) = stopped(&shares) {
            end = stopped.min(end);
            measured.end = stopped.clamp(measured.start, measured.end);
        }
        let micros = measured.end.as_micros() - measured.start.as_micros();
        sums.measured = Duration::from_micros(micros);
        let warmup = std::time::Duration::from_micros(measured.start.as_micros());
        meters.measured(Duration::ZERO, start + warmup, sums.measured);
        loaded = [-seconds(measured.start), seconds(end) - seconds(measured.start)];
        sums.before = lead;
        measured = lead + measured.start..lead + measured.end;
        sums.add(shares);
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
        seconds: seconds(sums.measured),
        loaded: Some(loaded),
        started,
    };
    let mut result = describe(sums, base, measured, limits, ceilings)?;
    result.run.doubts.extend(broken);
    result.is_silent |= is_unanswered || force.shared().gone.load(Ordering::Relaxed);
    if force.shared().ending.load(Ordering::Relaxed) {
        result.run.doubts.push("the run was stopped before its end".to_owned());
    }
    Ok(result)
}

/// When the machines were told to end before their time, from the beginning of the load.
pub(crate) fn stopped(shares: &[Share]) -> Option<Duration> {
    shares.iter().flat_map(|share| &share.found).filter_map(|found| found.stopped).max()
}

fn seconds(span: Duration) -> f64 {
    span.as_micros() as f64 / 1e6
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

/// Removes all bindings of all users, those of earlier measurements too: calls would ring there,
/// and a server keeps so many for a user and no more. What fails here fails again when it matters.
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
        let Some(all) = sums.together() else { return Ok(()) };
        if force.shared().is_over() || (all.heard.is_none() && all.unheard > 0) {
            return Err(MeasureError::Unanswered { requests: all.unheard });
        }
        let (succeeded, said) = all.tally.verdict();
        let failed = (users as u64).saturating_sub(succeeded);
        result = match failed {
            0 => return Ok(()),
            _ => Err(MeasureError::Prepare { task, failed, users: users as u64, said }),
        };
    }
    result
}
