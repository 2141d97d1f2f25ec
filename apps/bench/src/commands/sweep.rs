//! `sweep`: rising rates, and the curve of what was achieved against what was offered.

use super::output::{self, finding};
use super::session::Means;
use super::{CommandError, run, systems};
use crate::analysis;
use crate::cli::SweepArgs;
use crate::metrics;
use crate::record::{Delay, Finding, Kind, Run};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub(crate) fn execute(args: &SweepArgs, ending: &Arc<AtomicBool>) -> Result<bool, CommandError> {
    let load = &args.load;
    let users = load.users.users()?;
    let rates = args.rates.all(args.steps, args.factor).map_err(CommandError::Usage)?;
    let highest = rates.iter().copied().fold(0.0, f64::max);
    let work = [(load.operation, load.users.auth)];
    let means = Means::new(load, args.output.quiet, ending)?;
    let ceilings = run::ceilings(load, &work, highest, &means)?;
    let started = systems::start(load, &users, load.operation, load.users.auth)?;
    let mut sessions = run::open(load, &users, &started, highest, &ceilings, &means)?;
    let mut record = output::record(Kind::Sweep, run::systems_of(&sessions), &means);
    let mut measure = || {
        for repeat in 0..load.detail.repeats {
            for &rate in &rates {
                for session in &mut sessions {
                    let label = format!("{rate:.0}/s");
                    record.runs.push(session.measure(&load.spec(rate), &label, repeat)?);
                }
            }
        }
        Ok(())
    };
    let outcome = measure();
    for system in &record.systems {
        record.findings.extend(conclusions(&system.name, &record.runs));
    }
    output::finish(record, outcome, &args.output)
}

/// What the runs of a system over several rates tell: where its curve leaves the flat part, and the
/// highest rate that it reached. Only valid runs count.
pub(crate) fn conclusions(system: &str, runs: &[Run]) -> Vec<Finding> {
    let mut rates: Vec<f64> = Vec::new();
    let valid: Vec<&Run> =
        runs.iter().filter(|run| run.system == system && run.is_valid()).collect();
    for run in &valid {
        if !rates.contains(&run.load.rate) {
            rates.push(run.load.rate);
        }
    }
    rates.sort_by(f64::total_cmp);
    let median = |rate: f64, of: &dyn Fn(&Run) -> Option<f64>| {
        let values: Vec<f64> =
            valid.iter().filter(|run| run.load.rate == rate).filter_map(|run| of(run)).collect();
        analysis::Spread::of(&values).map(|spread| spread.median)
    };
    let p99 = |run: &Run| {
        run.delays.get(&Delay::Response).map(|response| response.percentile(99.0) as f64 / 1e3)
    };
    // Beyond the first rate with failures, delays are those of the operations that were left.
    let failing = |rate: f64| median(rate, &|run| metrics::success(&run.counts)) < Some(100.0);
    let end = rates.iter().position(|&rate| failing(rate)).map_or(rates.len(), |index| index + 1);
    let curve: Vec<(f64, f64)> = rates[..end]
        .iter()
        .filter_map(|&rate| median(rate, &p99).map(|delay| (rate, delay)))
        .collect();
    let mut findings = Vec::new();
    if let Some(index) = analysis::knee(&curve) {
        findings.push(finding(
            system,
            "delay leaves its flat part".to_owned(),
            curve[index].0,
            "1/s",
            format!("99th percentile {:.1} ms there", curve[index].1),
        ));
    }
    let achieved = rates
        .iter()
        .filter_map(|&rate| median(rate, &|run| Some(metrics::achieved_rate(run))))
        .fold(0.0, f64::max);
    findings.push(finding(
        system,
        "highest rate achieved".to_owned(),
        achieved,
        "1/s",
        String::new(),
    ));
    findings
}
