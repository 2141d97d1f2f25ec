//! `proxy`: steps of rising call rate through a proxy, each with a measured middle (see
//! docs/sources.md).

use super::error::CommandError;
use super::output::{self, finding};
use super::session::Means;
use super::sweep;
use super::{run, systems};
use crate::cli::ProxyArgs;
use crate::curve::carries_calls;
use crate::record::{Finding, Kind, Operation, Run};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub(crate) fn execute(args: &ProxyArgs, ending: &Arc<AtomicBool>) -> Result<bool, CommandError> {
    let mut load = args.load.clone();
    load.operation = Operation::Invite;
    load.detail.register_first = true;
    load.detail.hold = args.call;
    load.duration = args.middle;
    let users = load.users.users()?;
    let rates = args.rates.all(args.steps, args.factor).map_err(CommandError::Usage)?;
    let highest = rates.iter().copied().fold(0.0, f64::max);
    let work = [(load.operation, load.users.auth)];
    let means = Means::new(&load, &args.output, ending)?;
    let ceilings = run::ceilings(&load, &work, highest, &means)?;
    let started = systems::start(&load, &users, load.operation, load.users.auth)?;
    let mut sessions = run::open(&load, &users, &started, highest, &ceilings, &means)?;
    let mut record = output::record(Kind::Proxy, run::systems_of(&sessions), &means);
    let mut measure = || {
        for session in &mut sessions {
            for &rate in &rates {
                let label = format!("{rate:.0} calls/s");
                let run = session.measure(&load.spec(rate), &label, 0)?;
                let is_over = !carries_calls(&run) && run.is_valid();
                record.runs.push(run);
                if is_over && !args.all_steps {
                    break;
                }
            }
        }
        Ok(())
    };
    let outcome = measure();
    for system in &record.systems {
        record.findings.push(limit(&system.name, &record.runs));
        record.findings.extend(sweep::conclusions(&system.name, &record.runs));
    }
    output::finish(record, outcome, &args.output)
}

fn limit(system: &str, runs: &[Run]) -> Finding {
    // The limit may or may not lie in an invalid step, so it tells nothing.
    let valid = || runs.iter().filter(|run| run.system == system && run.is_valid());
    let passed = valid().take_while(|run| carries_calls(run));
    let rate = passed.map(|run| run.load.rate).reduce(f64::max);
    let is_limit = valid().any(|run| !carries_calls(run));
    let remark = match (rate, is_limit) {
        (Some(_), true) => "the highest step without a failed call, RRD and SRD below 300 ms",
        (Some(_), false) => "the highest step that was tried and valid: the limit is higher",
        (None, true) => "the first valid step failed: the limit is lower",
        (None, false) => "no step was valid",
    };
    let doubtful = runs.iter().filter(|run| run.system == system && !run.is_valid()).count();
    let left_out = match (rate.is_some() || is_limit, doubtful) {
        (false, _) | (_, 0) => String::new(),
        (_, 1) => "; one step was not valid".to_owned(),
        (_, count) => format!("; {count} steps were not valid"),
    };
    let remark = format!("{remark}{left_out}");
    finding(system, "calls a second".to_owned(), rate.unwrap_or_default(), "1/s", remark)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tests::run;

    #[test]
    fn the_limit_is_that_of_the_steps_that_are_valid() {
        // Each step has its rate, its validity, and true if all calls succeeded.
        let limit = |steps: &[(f64, bool, bool)]| {
            let steps = steps.iter().map(|&(rate, is_valid, succeeds)| {
                let mut step = run();
                step.load.rate = rate;
                step.doubts = if is_valid { Vec::new() } else { vec!["late".to_owned()] };
                step.counts.offered = 10;
                step.counts.succeeded = if succeeds { 10 } else { 9 };
                step
            });
            let finding = limit("barebell", &steps.collect::<Vec<_>>());
            (finding.value, finding.remark)
        };
        let (rate, remark) = limit(&[(10.0, false, true), (20.0, true, true), (30.0, true, true)]);
        assert!(
            rate == 30.0 && remark.contains("the limit is higher; one step was not"),
            "{remark}"
        );
        let (rate, remark) =
            limit(&[(10.0, true, true), (20.0, false, false), (30.0, true, false)]);
        assert!(rate == 10.0 && remark.starts_with("the highest step without"), "{remark}");
        let (rate, remark) = limit(&[(10.0, true, false), (20.0, true, true)]);
        assert!(rate == 0.0 && remark.contains("the limit is lower"), "{remark}");
        assert_eq!(limit(&[(10.0, false, true)]), (0.0, "no step was valid".to_owned()));
    }
}
