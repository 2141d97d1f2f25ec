//! Delays and losses of parallel users.

use crate::metrics;
use crate::record::{Delay, Histogram, Operation, Record, Run};
use crate::seeds::runs::{steps_of, systems};
use crate::series::{Series, Value};

/// Returns true if a run of `qos` was beside other traffic.
pub(super) fn is_beside_traffic(run: &Run) -> bool {
    run.label.ends_with("busy link")
}

/// The callers of a run of `qos`: each has a callee.
pub(super) fn callers(run: &Run) -> f64 {
    run.load.users as f64 / 2.0
}

/// Returns a delay of a run: from its capture, or else as the generator measured it.
fn delay_of(run: &Run, delay: Delay) -> Option<&Histogram> {
    let captured = run.captured.get(&delay).filter(|it| !it.is_empty());
    captured.or_else(|| run.delays.get(&delay).filter(|it| !it.is_empty()))
}

/// Returns mean, minimum and maximum of a delay over all repeats, in seconds.
pub(super) fn moment(record: &Record, delay: Delay, is_busy: bool) -> Vec<Series> {
    let is_wanted = |run: &Run| is_beside_traffic(run) == is_busy && delay_of(run, delay).is_some();
    let of_system = |system: &str| {
        let steps = steps_of(record, system, callers, is_wanted);
        let values = steps.iter().map(|(users, runs)| {
            let mut all = Histogram::default();
            runs.iter().filter_map(|run| delay_of(run, delay)).for_each(|one| all.merge(one));
            Value {
                range: Some((all.min() as f64 / 1e6, all.max() as f64 / 1e6)),
                is_doubtful: runs.iter().any(|run| !run.is_valid()),
                ..Value::at(*users, all.mean() / 1e6)
            }
        });
        Series { name: system.to_owned(), values: values.collect() }
    };
    systems(record).map(of_system).collect()
}

/// A kind of loss.
#[derive(Clone, Copy)]
pub(super) enum Loss {
    Registrations,
    Invites,
    Calls,
}

impl Loss {
    /// Returns the number in a run; `None` for a run of the other operation.
    fn of(self, run: &Run) -> Option<f64> {
        let registers = run.load.operation == Operation::Register;
        let lost = match self {
            Self::Registrations if registers => {
                run.counts.offered.saturating_sub(run.counts.succeeded)
            }
            Self::Invites if !registers => {
                let arrived = run.delays.get(&Delay::Invite).map_or(0, Histogram::count);
                run.counts.offered.saturating_sub(arrived)
            }
            Self::Calls if !registers => metrics::calls_not_set_up(run),
            _ => return None,
        };
        Some(lost as f64)
    }
}

/// Returns the means of losses over the repeats.
pub(super) fn lost(record: &Record, loss: Loss, is_busy: bool) -> Vec<Series> {
    let is_wanted = |run: &Run| is_beside_traffic(run) == is_busy && loss.of(run).is_some();
    let of_system = |system: &str| {
        let steps = steps_of(record, system, callers, is_wanted);
        let values = steps.iter().map(|(users, runs)| {
            let sum: f64 = runs.iter().filter_map(|run| loss.of(run)).sum();
            let is_doubtful = runs.iter().any(|run| !run.is_valid());
            Value { is_doubtful, ..Value::at(*users, sum / runs.len() as f64) }
        });
        Series { name: system.to_owned(), values: values.collect() }
    };
    systems(record).map(of_system).collect()
}

/// Returns the sums of the losses over all numbers of users.
pub(super) fn totals(record: &Record) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for (is_busy, state) in [(false, "idle"), (true, "busy")] {
        for (loss, name) in [
            (Loss::Registrations, "registrations"),
            (Loss::Invites, "INVITEs"),
            (Loss::Calls, "calls"),
        ] {
            let all_lost = lost(record, loss, is_busy);
            for series in all_lost.into_iter().filter(|series| !series.values.is_empty()) {
                let sum = series.values.iter().map(|value| value.value).sum();
                let value = Value {
                    is_doubtful: series.values.iter().any(|value| value.is_doubtful),
                    ..Value::of(format!("{name}, {state} network"), sum)
                };
                match all.iter_mut().find(|known| known.name == series.name) {
                    Some(known) => known.values.push(value),
                    None => all.push(Series { name: series.name, values: vec![value] }),
                }
            }
        }
    }
    all
}
