//! Figures of the runs of a record, by system and step.

use crate::analysis::Spread;
use crate::curve::DELAY_LIMIT_US;
use crate::metrics;
use crate::record::{Delay, Record, Run};
use crate::series::{Series, Value};

/// Returns the names of the systems of a record.
pub(super) fn systems(record: &Record) -> impl Iterator<Item = &str> {
    record.systems.iter().map(|system| system.name.as_str())
}

/// Returns the runs of a system that are wanted, by rising place on the axis.
pub(super) fn steps_of<'r>(
    record: &'r Record,
    system: &str,
    x: impl Fn(&Run) -> f64,
    is_wanted: impl Fn(&Run) -> bool,
) -> Vec<(f64, Vec<&'r Run>)> {
    let mut steps: Vec<(f64, Vec<&Run>)> = Vec::new();
    for run in record.runs.iter().filter(|run| run.system == system && is_wanted(run)) {
        let at = x(run);
        match steps.iter_mut().find(|(known, _)| *known == at) {
            Some((_, runs)) => runs.push(run),
            None => steps.push((at, vec![run])),
        }
    }
    steps.sort_by(|one, other| one.0.total_cmp(&other.0));
    steps
}

/// Returns the median of a value over the valid `runs`, or over all if all are doubtful; true for
/// the latter.
pub(super) fn median_of(runs: &[&Run], value: impl Fn(&Run) -> Option<f64>) -> Option<(f64, bool)> {
    let valid: Vec<f64> =
        runs.iter().filter(|run| run.is_valid()).filter_map(|run| value(run)).collect();
    let all = || runs.iter().filter_map(|run| value(run)).collect::<Vec<f64>>();
    let is_doubtful = valid.is_empty();
    let values = if is_doubtful { all() } else { valid };
    Some((Spread::of(&values)?.median, is_doubtful))
}

/// Returns a series of medians for each system.
pub(super) fn over(
    record: &Record,
    x: impl Fn(&Run) -> f64,
    is_wanted: impl Fn(&Run) -> bool,
    y: impl Fn(&Run) -> Option<f64>,
) -> Vec<Series> {
    let of_system = |system: &str| {
        let steps = steps_of(record, system, &x, &is_wanted);
        let values = steps.iter().filter_map(|(x, runs)| {
            let (value, is_doubtful) = median_of(runs, &y)?;
            Some(Value { is_doubtful, ..Value::at(*x, value) })
        });
        Series { name: system.to_owned(), values: values.collect() }
    };
    systems(record).map(of_system).collect()
}

pub(super) fn median_ms(run: &Run, delay: Delay) -> Option<f64> {
    run.delays.get(&delay)?.told(50.0).map(|us| us as f64 / 1e3)
}

/// The share of all processors, in percent.
pub(super) fn cpu(run: &Run) -> Option<f64> {
    metrics::busy(run).map(|share| 100.0 * share)
}

/// Returns RRD and SRD of each system as series of their own.
pub(super) fn delays(
    record: &Record,
    x: impl Fn(&Run) -> f64,
    is_wanted: impl Fn(&Run) -> bool,
) -> Vec<Series> {
    let of = |delay, name: &str| {
        let mut series = over(record, &x, &is_wanted, |run| median_ms(run, delay));
        series.iter_mut().for_each(|series| series.name += &format!(", {name}"));
        series
    };
    [of(Delay::Rrd, "RRD"), of(Delay::Srd, "SRD")].concat()
}

/// A criterion of a limit: true for a run within the limit, `None` if that is not known.
pub(super) type Criterion = (&'static str, fn(&Run) -> Option<bool>);

/// True if the median of no delay of a run exceeds the limit.
pub(super) fn is_quick(run: &Run) -> Option<bool> {
    let of = |delay| Some(run.delays.get(&delay)?.told(50.0)? <= DELAY_LIMIT_US);
    [Delay::Rrd, Delay::Srd].into_iter().filter_map(of).reduce(|one, other| one && other)
}

pub(super) fn has_processors_left(run: &Run) -> Option<bool> {
    metrics::busy(run).map(|busy| busy <= metrics::USED_UP)
}

/// Returns true if all runs of a step are within a limit, and true if none of them is valid; `None`
/// if it is not known. Runs that are not valid count only where there is no other.
fn judge(runs: &[&Run], within: fn(&Run) -> Option<bool>) -> Option<(bool, bool)> {
    let is_within = |is_valid: bool| {
        let judged = runs.iter().filter(|run| run.is_valid() == is_valid);
        judged.filter_map(|run| within(run)).reduce(|one, other| one && other)
    };
    is_within(true).map(|it| (it, false)).or_else(|| Some((is_within(false)?, true)))
}

/// Returns the limits of a system by criterion, and in total the lowest of all: by the first one
/// (CPU) the first step beyond it, by the others the last step before one beyond it. If no step is
/// beyond, it is the last step. A criterion that no step has is left out.
pub(super) fn limits(system: &str, steps: &[(f64, Vec<&Run>)], criteria: &[Criterion]) -> Series {
    let limit = |(number, (name, within)): (usize, &Criterion)| {
        let mut limit: Option<Value> = None;
        for (at, runs) in steps {
            let Some((is_within, is_doubtful)) = judge(runs, *within) else { continue };
            let open = || Value { is_open: true, ..Value::of(*name, 0.0) };
            let limit = limit.get_or_insert_with(open);
            limit.is_doubtful |= is_doubtful;
            if is_within || number == 0 {
                limit.value = *at;
            }
            if !is_within {
                limit.is_open = false;
                break;
            }
        }
        limit
    };
    let mut values: Vec<Value> = criteria.iter().enumerate().filter_map(limit).collect();
    let lowest = values.iter().min_by(|one, other| one.value.total_cmp(&other.value));
    if let Some(lowest) = lowest {
        let is_doubtful = values.iter().any(|value| value.is_doubtful);
        // The total is reached if any of the criteria at the lowest one is.
        let mut at_lowest = values.iter().filter(|value| value.value <= lowest.value);
        let is_open = at_lowest.all(|value| value.is_open);
        let total = Value { is_doubtful, is_open, ..Value::of("total", lowest.value) };
        values.push(total);
    }
    Series { name: system.to_owned(), values }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tests::run;

    /// Returns the runs of steps: a rate, and true for one within the limit.
    fn runs(steps: &[(f64, bool)]) -> Vec<(f64, Run)> {
        let step = |&(rate, is_within): &(f64, bool)| {
            let mut run = run();
            run.counts.offered = 10;
            run.counts.succeeded = if is_within { 10 } else { 9 };
            (rate, run)
        };
        steps.iter().map(step).collect()
    }

    #[test]
    fn a_limit_is_the_last_step_before_one_beyond_it_and_of_cpu_that_one() {
        let within = |run: &Run| Some(run.counts.succeeded == 10);
        let criteria: [Criterion; 2] = [("CPU", within), ("errors", within)];
        let limits = |steps: &[(f64, bool)]| {
            let runs = runs(steps);
            let steps: Vec<(f64, Vec<&Run>)> =
                runs.iter().map(|(rate, run)| (*rate, vec![run])).collect();
            let values = limits("a", &steps, &criteria).values;
            let is_open = values.iter().any(|value| value.is_open);
            assert!(values.iter().all(|value| value.is_open == is_open), "{values:?}");
            (values.iter().map(|value| value.value).collect::<Vec<f64>>(), is_open)
        };
        let reached = limits(&[(10.0, true), (20.0, true), (30.0, false)]);
        assert_eq!(reached, (vec![30.0, 20.0, 20.0], false));
        assert_eq!(limits(&[(10.0, true), (20.0, true)]), (vec![20.0, 20.0, 20.0], true));
        assert_eq!(limits(&[(10.0, false)]), (vec![10.0, 0.0, 0.0], false));
    }

    #[test]
    fn limits_of_runs_that_are_not_valid_are_marked() {
        let within = |run: &Run| Some(run.counts.succeeded == 10);
        let criteria: [Criterion; 2] = [("CPU", |_| None), ("errors", within)];
        let mut runs = runs(&[(10.0, true), (20.0, true), (20.0, false)]);
        runs[0].1.doubts.push("late".to_owned());
        runs[2].1.doubts.push("late".to_owned());
        let [(_, one), (_, two), (_, three)] = &runs[..] else { panic!() };
        // Of the second step there is a valid run.
        let limits = limits("a", &[(10.0, vec![one]), (20.0, vec![two, three])], &criteria);
        let values: Vec<_> =
            limits.values.iter().map(|value| (value.value, value.is_doubtful)).collect();
        assert_eq!(values, [(20.0, true), (20.0, true)]);
    }

    #[test]
    fn a_median_is_of_valid_runs_where_there_are_any() {
        let mut all = runs(&[(1.0, true), (1.0, true), (1.0, false)]);
        all[1].1.doubts.push("late".to_owned());
        let of = |runs: &[&Run]| median_of(runs, |run| Some(run.counts.succeeded as f64));
        let [one, two, three] = &all[..] else { panic!() };
        assert_eq!(of(&[&one.1, &two.1, &three.1]), Some((9.5, false)));
        assert_eq!(of(&[&two.1]), Some((10.0, true)));
        assert_eq!(of(&[]), None);
    }
}
