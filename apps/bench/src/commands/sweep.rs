//! `sweep`: rising rates, and the curve of the achieved rate against the offered rate.

use super::error::CommandError;
use super::output::{self, finding};
use super::session::Means;
use super::{run, systems};
use crate::analysis;
use crate::cli::SweepArgs;
use crate::curve;
use crate::metrics;
use crate::record::{Finding, Kind, Run};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub(crate) fn execute(args: &SweepArgs, ending: &Arc<AtomicBool>) -> Result<bool, CommandError> {
    let load = &args.load;
    let users = load.users.users()?;
    let rates = args.rates.all(args.steps, args.factor).map_err(CommandError::Usage)?;
    let highest = rates.iter().copied().fold(0.0, f64::max);
    let work = [(load.operation, load.users.auth)];
    let means = Means::new(load, &args.output, ending)?;
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

/// Returns the conclusions from the runs of a system over several rates: the knee of its delay
/// curve, and the highest rate that it reached. Only valid runs count.
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
    let failing = |rate: f64| median(rate, &|run| metrics::success(&run.counts)) < Some(100.0);
    let mut findings = Vec::new();
    if let Some((rate, us)) = curve::flat_end(valid.iter().copied()) {
        findings.push(finding(
            system,
            "delay leaves its flat part".to_owned(),
            rate,
            "1/s",
            format!("the median is {:.1} ms there", us / 1e3),
        ));
    }
    let achieved = rates
        .iter()
        .filter_map(|&rate| median(rate, &|run| Some(metrics::achieved_rate(run))))
        .fold(0.0, f64::max);
    // If all operations succeeded, the highest rate is that of the command line, and not a limit.
    let (name, remark) = match rates.iter().any(|&rate| failing(rate)) {
        true => ("highest rate achieved", ""),
        false if rates.is_empty() => ("highest rate tried", "no run was valid"),
        false => ("highest rate tried", "all of it succeeded: the limit was not reached"),
    };
    findings.push(finding(system, name.to_owned(), achieved, "1/s", remark.to_owned()));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tests::run;

    #[test]
    fn a_rate_is_the_highest_only_where_one_failed() {
        let last = |steps: &[(f64, u64)]| {
            let steps = steps.iter().map(|&(rate, succeeded)| {
                let mut step = run();
                step.load.rate = rate;
                (step.counts.offered, step.counts.succeeded) = (rate as u64, succeeded);
                step
            });
            conclusions("barebell", &steps.collect::<Vec<_>>()).pop().unwrap()
        };
        let reached = last(&[(10.0, 10), (20.0, 20), (30.0, 25)]);
        assert_eq!((&reached.name[..], reached.value), ("highest rate achieved", 25.0));
        let collapsed = last(&[(10.0, 10), (20.0, 9), (30.0, 30)]);
        assert_eq!(&collapsed.name[..], "highest rate achieved");
        let open = last(&[(10.0, 10), (20.0, 20)]);
        assert_eq!((&open.name[..], open.value), ("highest rate tried", 20.0));
        assert!(open.remark.contains("not reached"), "{}", open.remark);
        assert_eq!(last(&[]).remark, "no run was valid");
    }
}
