//! The curve of delay over rate: the common rules of the commands' conclusions and the reports.

use crate::analysis::{self, Spread};
use crate::metrics;
use crate::record::{Delay, Operation, Run};

/// The minimum of points for a knee.
const FEWEST_FOR_KNEE: usize = 5;
/// The longest unnoticed delay (see docs/sources.md), in microseconds.
pub(crate) const DELAY_LIMIT_US: u64 = 300_000;

/// Returns the RFC 6076 delay of the operation of these runs, if it occurred, else that of the
/// response.
pub(crate) fn request_delay<'r>(mut runs: impl Iterator<Item = &'r Run> + Clone) -> Delay {
    let own = match runs.clone().next().map(|run| run.load.operation) {
        Some(Operation::Register | Operation::RegisterUpdate | Operation::RegisterLogout) => {
            Delay::Rrd
        }
        Some(Operation::Invite) => Delay::Srd,
        Some(Operation::InviteNotFound | Operation::InviteRedirect) => Delay::SrdFailed,
        Some(Operation::Options) | None => Delay::Response,
    };
    let is_seen = runs.any(|run| run.delays.get(&own).is_some_and(|delays| !delays.is_empty()));
    if is_seen { own } else { Delay::Response }
}

/// Returns the knee of the median delay of these runs of one system and operation: the rate, and
/// the delay there in microseconds. Invalid runs do not count, nor do rates beyond the first one
/// with failures, since only successful operations have delays.
pub(crate) fn flat_end<'r>(runs: impl Iterator<Item = &'r Run> + Clone) -> Option<(f64, f64)> {
    let delay = request_delay(runs.clone());
    let mut points = medians(runs, |run| {
        let us = run.delays.get(&delay)?.told(50.0)?;
        Some((us as f64, is_whole(run)))
    });
    if let Some(end) = points.iter().position(|&(_, _, is_whole)| !is_whole) {
        points.truncate((end + 1).max(FEWEST_FOR_KNEE));
    }
    let curve: Vec<(f64, f64)> = points.iter().map(|&(rate, us, _)| (rate, us)).collect();
    analysis::knee(&curve).map(|index| curve[index])
}

/// Returns, by rising rate, the medians of a value over the valid repeats, and true if all were
/// good.
fn medians<'r>(
    runs: impl Iterator<Item = &'r Run>,
    value: impl Fn(&Run) -> Option<(f64, bool)>,
) -> Vec<(f64, f64, bool)> {
    let mut rates: Vec<(f64, Vec<f64>, bool)> = Vec::new();
    for run in runs.filter(|run| run.is_valid()) {
        let Some((value, is_good)) = value(run) else { continue };
        match rates.iter_mut().find(|(rate, ..)| *rate == run.load.rate) {
            Some((_, values, all_good)) => {
                values.push(value);
                *all_good &= is_good;
            }
            None => rates.push((run.load.rate, vec![value], is_good)),
        }
    }
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    let median = |(rate, values, is_good): (f64, Vec<f64>, bool)| {
        Some((rate, Spread::of(&values)?.median, is_good))
    };
    rates.into_iter().filter_map(median).collect()
}

/// Returns true if all operations of a run succeeded.
pub(crate) fn is_whole(run: &Run) -> bool {
    run.counts.offered > 0 && run.counts.succeeded >= run.counts.offered
}

/// Returns true if a proxy carried the calls of a run: all succeeded, and RRD and SRD stayed below
/// the noticeable delay (see docs/sources.md).
pub(crate) fn carries_calls(run: &Run) -> bool {
    let is_quick = |delay| {
        run.delays.get(&delay).is_none_or(|delays| delays.percentile(95.0) < DELAY_LIMIT_US)
    };
    metrics::success(&run.counts) == Some(100.0) && is_quick(Delay::Rrd) && is_quick(Delay::Srd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tests::run;
    use crate::record::Histogram;
    use sip::Duration;

    /// Returns runs of these rates and median delays in milliseconds; false makes some operations
    /// fail.
    fn runs(steps: &[(f64, u64, bool)]) -> Vec<Run> {
        let of = |&(rate, ms, is_whole): &(f64, u64, bool)| {
            let mut step = run();
            step.load.rate = rate;
            step.counts.offered = 10;
            step.counts.succeeded = if is_whole { 10 } else { 9 };
            let mut delays = Histogram::default();
            (0..200).for_each(|_| delays.record(Duration::from_millis(ms)));
            step.delays = [(Delay::Srd, delays)].into();
            step
        };
        steps.iter().map(of).collect()
    }

    #[test]
    fn the_flat_part_ends_where_the_median_of_the_repeats_rises() {
        let steps: Vec<_> = [1, 1, 1, 1, 1, 9, 40, 90].into_iter().enumerate().collect();
        let mut all: Vec<(f64, u64, bool)> = Vec::new();
        for (index, ms) in steps {
            let rate = (index as f64 + 1.0) * 100.0;
            // One of three repeats is slow, which the median ignores.
            all.extend([(rate, ms, true), (rate, ms, true), (rate, ms * 50, true)]);
        }
        let all = runs(&all);
        assert_eq!(flat_end(all.iter()).map(|(rate, _)| rate), Some(600.0));
        let flat = runs(&[(1.0, 2, true), (2.0, 2, true), (3.0, 2, true), (4.0, 2, true)]);
        assert_eq!(flat_end(flat.iter()), None);
    }

    #[test]
    fn a_proxy_carries_calls_that_all_succeed_quickly() {
        for (ms, is_whole, carries) in [(1, true, true), (1, false, false), (301, true, false)] {
            let all = runs(&[(100.0, ms, is_whole)]);
            assert_eq!(carries_calls(&all[0]), carries, "{ms} ms, {is_whole}");
        }
    }
}
