//! A single run: prepares the users, runs a load, and judges the result.

#[cfg(test)]
mod accuracy;
mod doubts;
mod error;
mod found;
mod sums;

use crate::agents::{Force, Share};
use crate::load::arrivals::{Segment, Spacing};
use crate::load::engine::Task;
use crate::load::generator::Stretch;
use crate::load::worker::Bound;
use crate::meters::Meters;
use crate::record::{Ceiling, Operation};
use sip::Duration;
use std::sync::atomic::Ordering;

pub(crate) use doubts::Limits;
pub(crate) use error::MeasureError;
pub(crate) use found::{Base, Measured, describe_found};

use found::describe;
use sums::Sums;

/// The operations under way on each worker during the preparation of users.
const PREPARING: usize = 100;
/// The number of attempts: a server may still have work from an overload before.
const ATTEMPTS: usize = 3;

/// The complete load of a run.
#[derive(Clone, Debug)]
pub(crate) struct LoadSpec {
    pub(crate) operation: Operation,
    /// True if the server is expected to challenge requests.
    pub(crate) authentication: bool,
    /// The rates over the measured time.
    pub(crate) segments: Vec<Segment>,
    pub(crate) spacing: Spacing,
    /// The name of the shape of the load.
    pub(crate) arrivals: String,
    /// Load before the measured time, at its first rate; and after it, at its last.
    pub(crate) warmup: Duration,
    pub(crate) tail: Duration,
    /// The time to wait at the end for operations under way.
    pub(crate) drain: Duration,
    /// The holding time of calls.
    pub(crate) hold: Duration,
    /// True if users are registered where the operation needs it; false for a user agent as the
    /// target.
    pub(crate) has_registrar: bool,
    /// The seed of random numbers.
    pub(crate) seed: u64,
}

impl LoadSpec {
    /// Returns the measured time in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.segments.iter().map(|segment| segment.seconds).sum()
    }

    /// Returns the highest rate.
    pub(crate) fn peak(&self) -> f64 {
        self.segments.iter().map(|segment| segment.from.max(segment.to)).fold(0.0, f64::max)
    }

    /// Returns the mean rate over the measured time.
    pub(crate) fn rate(&self) -> f64 {
        let operations: f64 = self
            .segments
            .iter()
            .map(|segment| segment.seconds * (segment.from + segment.to) / 2.0)
            .sum();
        operations / self.seconds().max(f64::MIN_POSITIVE)
    }
}

/// Returns the task that prepares each user for an operation, and true if the operation consumes
/// that state.
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

/// Runs `spec` with `force`, which has `users` users. `ceilings` has the ceiling of each machine,
/// if known.
///
/// An operation that changes the state of its users (a register, which makes a binding; a logout,
/// which removes one) is measured in passes over all users. Between passes the state is restored,
/// unmeasured.
///
/// # Errors
/// [`MeasureError`] if the users cannot be prepared.
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
                // Earlier measurements are kept.
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
                task: Task::of(spec.operation),
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
        // This lead makes a second of the series begin with the measured time.
        let lead = spec.warmup.as_micros().next_multiple_of(1_000_000) - spec.warmup.as_micros();
        let lead = Duration::from_micros(lead);
        let stretch = Stretch {
            task: Task::of(spec.operation),
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
        let warmup = std::time::Duration::from(measured.start);
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

/// Returns the time at which the machines were stopped early, from the start of the load.
pub(crate) fn stopped(shares: &[Share]) -> Option<Duration> {
    shares.iter().flat_map(|share| &share.found).filter_map(|found| found.stopped).max()
}

fn seconds(span: Duration) -> f64 {
    span.as_micros() as f64 / 1e6
}

fn seconds_of(segments: &[Segment]) -> f64 {
    segments.iter().map(|segment| segment.seconds).sum()
}

/// Splits a load into passes with at most `users` operations each.
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

/// Removes all bindings of all users, including those of earlier measurements: calls would be
/// forked to them, and a server limits the bindings of a user. A failure is ignored here, since it
/// occurs again in the load.
///
/// # Errors
/// [`MeasureError`] if an agent fails.
pub(crate) fn clear(force: &mut Force) -> Result<(), MeasureError> {
    force.closed_loop(Task::Clear, PREPARING, Bound::EachUser)?;
    Ok(())
}

/// Brings all users into the initial state of an operation.
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
