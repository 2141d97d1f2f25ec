//! `proxy`: steps of rising call rate through a proxy, each with a measured middle (seed D1).

use super::output::{self, finding};
use super::session::Means;
use super::sweep;
use super::{CommandError, run, systems};
use crate::cli::ProxyArgs;
use crate::metrics;
use crate::record::{Delay, Finding, Kind, Operation, Run};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The delay at which a call is no longer set up quickly enough not to be noticed, in microseconds
/// (seed D1: about 300 ms).
const NOTICED: u64 = 300_000;

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
    let means = Means::new(&load, args.output.quiet, ending)?;
    let ceilings = run::ceilings(&load, &work, highest, &means)?;
    let started = systems::start(&load, &users, load.operation, load.users.auth)?;
    let mut sessions = run::open(&load, &users, &started, highest, &ceilings, &means)?;
    let mut record = output::record(Kind::Proxy, run::systems_of(&sessions), &means);
    let mut measure = || {
        for session in &mut sessions {
            for &rate in &rates {
                let label = format!("{rate:.0} calls/s");
                let run = session.measure(&load.spec(rate), &label, 0)?;
                let is_over = !has_passed(&run) && run.is_valid();
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

/// Whether the proxy carried the step: all calls succeeded, and RRD and SRD stayed below what one
/// notices.
fn has_passed(run: &Run) -> bool {
    let is_quick =
        |delay| run.delays.get(&delay).is_none_or(|histogram| histogram.percentile(95.0) < NOTICED);
    metrics::success(&run.counts) == Some(100.0) && is_quick(Delay::Rrd) && is_quick(Delay::Srd)
}

fn limit(system: &str, runs: &[Run]) -> Finding {
    let of_system = || runs.iter().filter(|run| run.system == system);
    let rate = of_system()
        .take_while(|run| has_passed(run) && run.is_valid())
        .map(|run| run.load.rate)
        .fold(0.0, f64::max);
    let is_limit = of_system().any(|run| !has_passed(run) && run.is_valid());
    let remark = match (rate > 0.0, is_limit) {
        (_, true) => "the highest step without a failed call, RRD and SRD below 300 ms",
        (true, false) => "the highest step that was tried and valid: the limit is higher",
        (false, false) => "no step was valid",
    };
    finding(system, "calls a second".to_owned(), rate, "1/s", remark.to_owned())
}
