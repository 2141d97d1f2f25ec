//! `limit`: searches the highest rate without a failure and confirms it by repeats (RFC 7502
//! section 4.10, the session establishment rate; likewise for the other operations).

use super::error::CommandError;
use super::output::{self, finding};
use super::run;
use super::session::{Ceilings, Means, Session};
use super::systems::{self, Started};
use crate::cli::LimitArgs;
use crate::cli::load::LoadArgs;
use crate::measure::{LoadSpec, MeasureError};
use crate::record::{Down, Finding, Kind, Record, Run};
use crate::sut::probe;
use crate::users::Users;
use sip::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The default time for operations under way at the end of a run; those that take longer count as
/// failed.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time within which a server that was not started here must answer again after an overload.
const RECOVERY: std::time::Duration = std::time::Duration::from_secs(60);
/// The pause after an overload if the server must not be probed.
const PAUSE: std::time::Duration = std::time::Duration::from_secs(5);

/// The maximum number of runs at a rate, while other programs disturb them.
const ATTEMPTS: u32 = 3;

/// The state of a search for the highest rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Search {
    /// The highest rate that passed, and the lowest that failed.
    passed: Option<f64>,
    failed: Option<f64>,
    /// The required precision, as a share of the rate.
    precision: f64,
    lowest: f64,
}

impl Search {
    /// Returns a search that gives up below `lowest`.
    pub(crate) const fn new(precision: f64, lowest: f64) -> Self {
        Self { passed: None, failed: None, precision, lowest }
    }

    /// Returns the rate to try after `rate`, with the result of that; `None` when the search has
    /// ended.
    pub(crate) fn next(&mut self, rate: f64, has_passed: bool) -> Option<f64> {
        if has_passed {
            self.passed = Some(self.passed.map_or(rate, |passed| passed.max(rate)));
        } else {
            self.failed = Some(self.failed.map_or(rate, |failed| failed.min(rate)));
            // A repeated rate that fails no longer counts as passed.
            self.passed = self.passed.filter(|&passed| passed < rate);
        }
        let next = match (self.passed, self.failed) {
            (Some(passed), None) => passed * 2.0,
            (None, Some(failed)) => failed / 2.0,
            (Some(passed), Some(failed)) if failed - passed <= passed * self.precision => {
                return None;
            }
            (Some(passed), Some(failed)) => f64::midpoint(passed, failed),
            (None, None) => return None,
        };
        (next >= self.lowest).then_some(next)
    }

    /// Returns the highest rate that has passed.
    pub(crate) const fn passed(&self) -> Option<f64> {
        self.passed
    }
}

/// The result for a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    /// The server failed.
    Failed,
    /// The generator was the limit.
    Doubtful,
}

/// The end of a search for one system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The limit of the server was found and confirmed.
    Found,
    /// The highest rate of the generator was confirmed: the limit of the server is higher.
    Ceiling,
    /// No rate was confirmed.
    None,
}

pub(crate) fn execute(args: &LimitArgs, ending: &Arc<AtomicBool>) -> Result<bool, CommandError> {
    let load = &args.load;
    let users = load.users.users()?;
    let rate = load.rate();
    let work = [(load.operation, load.users.auth)];
    // The search may reach any rate, so it uses as many workers as there are processors.
    let means = Means::new(load, &args.output, ending)?;
    let ceilings = run::ceilings(load, &work, f64::MAX, &means)?;
    let started = systems::start(load, &users, load.operation, load.users.auth)?;
    let mut candidates = Vec::new();
    for started in started {
        let before = Before { load, users: &users, ceilings: &ceilings, means: &means };
        candidates.push(before.open(started)?);
    }
    let systems = candidates.iter().map(|candidate| candidate.session.system.clone()).collect();
    let mut record = output::record(Kind::Limit, systems, &means);
    let mut all_found = true;
    let mut at_ceiling = Vec::new();
    for candidate in candidates {
        let system = candidate.session.system.name.clone();
        match search(args, candidate, rate, &mut record) {
            Ok(End::Found) => {}
            Ok(End::Ceiling) => at_ceiling.push(system),
            Ok(End::None) => all_found = false,
            Err(error) if record.runs.is_empty() => return Err(error),
            // Earlier results, and those of other systems, are kept.
            Err(error) => {
                all_found = false;
                record.findings.push(finding(
                    &system,
                    name(load),
                    0.0,
                    "1/s",
                    format!("the search was given up: {error}"),
                ));
            }
        }
    }
    // Failed or doubtful runs are part of the search. The result depends on a limit and its valid
    // confirmations.
    output::finish_search(record, Ok(()), &args.output)?;
    match (all_found, at_ceiling.is_empty()) {
        (true, false) => Err(CommandError::Ceiling(at_ceiling)),
        (all_found, _) => Ok(all_found),
    }
}

/// Returns the name of the finding.
fn name(load: &LoadArgs) -> String {
    format!("sustainable rate of {}", load.operation.name())
}

/// Returns the load with `rate`. Beyond the limit many operations get no response, so waiting for
/// all timers is useless.
fn spec(load: &LoadArgs, rate: f64) -> LoadSpec {
    let spec = load.spec(rate);
    match load.detail.drain {
        Some(_) => spec,
        None => LoadSpec { drain: PATIENCE + spec.hold + load.detail.ring, ..spec },
    }
}

/// The context of a search for one system.
#[derive(Clone, Copy)]
struct Before<'a> {
    load: &'a LoadArgs,
    users: &'a Users,
    ceilings: &'a Ceilings,
    means: &'a Means<'a>,
}

impl<'a> Before<'a> {
    fn open(self, started: Started) -> Result<Candidate<'a>, CommandError> {
        let Self { load, users, ceilings, means } = self;
        let session = run::open_one(load, users, &started, f64::MAX, ceilings, means)?;
        Ok(Candidate { before: self, started, session })
    }
}

/// A system whose limit is searched.
struct Candidate<'a> {
    before: Before<'a>,
    started: Started,
    session: Session,
}

impl Candidate<'_> {
    /// Recovers from an overload, so that it does not affect the next rate: restarts the server or,
    /// if it was not started here, waits for it.
    fn recover(self) -> Result<Self, CommandError> {
        let Self { before, started, session } = self;
        let Some(spec) = started.spec.clone() else {
            if before.load.detail.no_probe {
                std::thread::sleep(PAUSE);
                return Ok(Self { before, started, session });
            }
            let begun = Instant::now();
            let has_ended = session.down().is_some_and(|down| down.has_ended);
            while let Err(error) = probe(&started.target, &started.domain) {
                if before.means.ending.load(Ordering::Relaxed) {
                    return Err(MeasureError::Stopped.into());
                }
                if has_ended || begun.elapsed() > RECOVERY {
                    return Err(error.into());
                }
            }
            return Ok(Self { before, started, session });
        };
        // The old server ends first, so that it takes no CPU time from the new one.
        drop((started, session));
        let Before { load, users, .. } = before;
        before.open(systems::start_one(&spec, load, users, load.operation, load.users.auth)?)
    }
}

/// Measures `rate`. A run without a failure that other programs disturbed tells nothing about the
/// rate, and is repeated.
fn measure(
    args: &LimitArgs,
    session: &mut Session,
    rate: f64,
    (label, repeat): (&str, u32),
    record: &mut Record,
) -> Result<Verdict, CommandError> {
    let mut attempt = 1;
    loop {
        let run = session.measure(&spec(&args.load, rate), label, repeat)?;
        let verdict = judge(args, &run);
        let is_final =
            verdict != Verdict::Doubtful || !session.was_disturbed(&run) || attempt == ATTEMPTS;
        record.runs.push(run);
        if is_final {
            return Ok(verdict);
        }
        attempt += 1;
    }
}

fn search(
    args: &LimitArgs,
    mut candidate: Candidate<'_>,
    first: f64,
    record: &mut Record,
) -> Result<End, CommandError> {
    let load = &args.load;
    let mut search = Search::new(args.precision / 100.0, 1.0);
    let mut rate = first;
    // The lowest rate that did not pass, and true if the generator failed there.
    let mut bound: Option<(f64, bool)> = None;
    let mut fall = Fall::default();
    let system = candidate.session.system.name.clone();
    loop {
        let verdict = measure(args, &mut candidate.session, rate, ("search", 0), record)?;
        note_bound(&mut bound, rate, verdict);
        if verdict == Verdict::Failed {
            fall.note(&candidate.session, rate);
            candidate = match candidate.recover() {
                Ok(recovered) => recovered,
                Err(error) => return fall.end(&system, load, search.passed(), error, record),
            };
        }
        let next = search.next(rate, verdict == Verdict::Passed);
        if let Some(next) = next {
            rate = next;
            continue;
        }
        let Some(best) = search.passed() else {
            record.findings.push(finding(
                &system,
                name(load),
                0.0,
                "1/s",
                "no rate passed".to_owned(),
            ));
            record.findings.extend(fall.finding(&system));
            return Ok(End::None);
        };
        let mut held = 0;
        for repeat in 1..=args.confirmations {
            let label = ("confirmation", repeat);
            let verdict = measure(args, &mut candidate.session, best, label, record)?;
            note_bound(&mut bound, best, verdict);
            if verdict != Verdict::Passed {
                fall.note(&candidate.session, best);
                candidate = match candidate.recover() {
                    Ok(recovered) => recovered,
                    Err(error) => return fall.end(&system, load, None, error, record),
                };
                break;
            }
            held += 1;
        }
        if held == args.confirmations {
            let is_ceiling = bound.is_some_and(|(_, is_ours)| is_ours);
            let (name, remark, end) = if is_ceiling {
                let name = format!("ceiling of the generator with {}", load.operation.name());
                let remark = "the server carried this rate, and its limit is higher";
                (name, format!("{held} of {held} confirmations; {remark}"), End::Ceiling)
            } else {
                (name(load), format!("{held} of {held} confirmations"), End::Found)
            };
            record.findings.push(finding(&system, name, best, "1/s", remark));
            record.findings.extend(fall.finding(&system));
            return Ok(end);
        }
        // The best rate has failed now, so the search continues below.
        rate = best;
        match search.next(rate, false) {
            Some(next) => rate = next,
            None => rate *= 1.0 - args.precision / 100.0,
        }
    }
}

/// Records the lowest rate that did not pass, and true if the generator was the reason.
fn note_bound(bound: &mut Option<(f64, bool)>, rate: f64, verdict: Verdict) {
    if verdict != Verdict::Passed && bound.is_none_or(|(lowest, _)| rate <= lowest) {
        *bound = Some((rate, verdict == Verdict::Doubtful));
    }
}

/// The lowest rate at which the server went down, with the details.
#[derive(Debug, Default)]
struct Fall(Option<(f64, Down)>);

impl Fall {
    /// Records a failure of the server in the last measurement, at `rate`.
    fn note(&mut self, session: &Session, rate: f64) {
        if let Some(down) = session.down()
            && self.0.as_ref().is_none_or(|(before, _)| rate < *before)
        {
            self.0 = Some((rate, down.clone()));
        }
    }

    /// Returns the finding about the failure.
    fn finding(&self, system: &str) -> Option<Finding> {
        let (rate, down) = self.0.as_ref()?;
        let name = match down.has_ended {
            true => "rate at which the server went down",
            false => "rate at which the server fell silent",
        };
        Some(finding(system, name.to_owned(), *rate, "1/s", down.reason.clone()))
    }

    /// Ends the search for a server that does not recover; `passed` is its highest rate so far.
    fn end(
        &self,
        system: &str,
        load: &LoadArgs,
        passed: Option<f64>,
        error: CommandError,
        record: &mut Record,
    ) -> Result<End, CommandError> {
        let Some(fall) = self.finding(system) else { return Err(error) };
        let remark =
            format!("the highest that passed, not confirmed; the search has ended: {error}");
        let rate = passed.unwrap_or_default();
        record.findings.push(finding(system, name(load), rate, "1/s", remark));
        record.findings.push(fall);
        Ok(End::None)
    }
}

fn judge(args: &LimitArgs, run: &Run) -> Verdict {
    let counts = &run.counts;
    let failures = counts.refused + counts.timed_out + counts.lost;
    let retransmissions = if args.no_retransmissions { counts.retransmitted } else { 0 };
    let required = args.output.criteria(std::slice::from_ref(run));
    if failures + retransmissions > 0 || required.iter().any(|criterion| !criterion.held) {
        Verdict::Failed
    } else if !run.is_valid() {
        Verdict::Doubtful
    } else {
        Verdict::Passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit_of(real: f64, first: f64) -> (f64, usize) {
        let mut search = Search::new(0.02, 1.0);
        let mut rate = first;
        for step in 1.. {
            match search.next(rate, rate <= real) {
                Some(next) => rate = next,
                None => return (search.passed().unwrap_or_default(), step),
            }
        }
        unreachable!()
    }

    #[test]
    fn the_search_closes_in_on_the_limit_from_wherever_it_begins() {
        for real in [3.0, 777.0, 40_000.0] {
            for first in [10.0, 1000.0, 100_000.0] {
                let (found, steps) = limit_of(real, first);
                assert!(found <= real && found >= real * 0.97, "{found} of {real}");
                assert!(steps < 40, "{steps}");
            }
        }
        assert_eq!(limit_of(0.5, 100.0).0, 0.0, "no rate passes");
    }

    #[test]
    fn the_lowest_failed_rate_decides_the_kind_of_the_limit() {
        let bound = |steps: &[(f64, Verdict)]| {
            let mut bound = None;
            for &(rate, verdict) in steps {
                note_bound(&mut bound, rate, verdict);
            }
            bound.map(|(_, is_ours)| is_ours)
        };
        let (passed, failed, doubtful) = (Verdict::Passed, Verdict::Failed, Verdict::Doubtful);
        assert_eq!(bound(&[(1.0, passed)]), None);
        assert_eq!(bound(&[(4.0, doubtful), (2.0, passed), (3.0, doubtful)]), Some(true));
        // A lower rate at which the server failed makes it the limit of the server.
        assert_eq!(bound(&[(4.0, doubtful), (2.0, failed), (1.0, passed)]), Some(false));
        assert_eq!(bound(&[(4.0, failed), (2.0, passed), (2.0, doubtful)]), Some(true));
    }

    #[test]
    fn a_pass_is_forgotten_when_a_lower_rate_fails() {
        let mut search = Search::new(0.05, 1.0);
        assert_eq!(search.next(1000.0, true), Some(2000.0));
        assert_eq!(search.next(800.0, false), Some(400.0));
        assert_eq!(search.passed(), None);
    }
}
