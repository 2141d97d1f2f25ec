//! The same work on several systems.

use super::{Report, unless_empty};
use crate::analysis::{self, Spread};
use crate::metrics;
use crate::record::{Delay, Kind, Run};
use crate::report::chart::{Axis, Bar, Chart, Scale};
use crate::report::document::{Section, Table};
use crate::report::groups::{Group, percentile};
use crate::report::words;

/// How intervals are to be read.
pub(super) const INTERVALS: &str = "In brackets: the interval in which the true median lies with a confidence of \
     at least 95 % from six repeats on; with fewer it is from the least to the greatest value, which is \
     75 % with three and says nothing with one. A ratio is the median of the ratios of the repeats that \
     were measured beside each other; it differs from 1 only if 1 is not in its interval.";

/// The comparison, if there is one.
pub(super) fn section(report: &Report<'_>) -> Option<Section> {
    let groups = report.groups(&[Kind::Compare]);
    let mut section = Section::new(
        "compare",
        "Systems compared",
        "Shorter bars are better: less CPU time and less delay for the same work, done in turn on each \
         system.",
    );
    section.chart(bars(
        report,
        &groups,
        "CPU time of the system under test for an operation",
        "µs per operation",
        metrics::cpu_per_operation,
    ));
    section.chart(bars(report, &groups, "Response time, median", "ms", |run| response(run, 50.0)));
    section.chart(bars(report, &groups, "Response time, 99th percentile", "ms", |run| {
        response(run, 99.0)
    }));
    section.table(side_by_side(report, &groups));
    if !groups.is_empty() {
        section.text(INTERVALS);
    }
    section.table(outcome(report, &groups));
    unless_empty(section)
}

fn response(run: &Run, percent: f64) -> Option<f64> {
    percentile(run, Delay::Response, percent).map(|us| us / 1000.0)
}

/// The loads that occur, each with the groups that have it, system by system.
fn by_load<'g, 'a>(report: &Report<'a>, groups: &'g [Group<'a>]) -> Vec<(String, Vec<&'g Group<'a>>)> {
    let rates = |operation: &str| {
        let mut rates: Vec<String> = Vec::new();
        for group in groups.iter().filter(|group| group.operation() == operation) {
            if !rates.contains(&report.load(group)) {
                rates.push(report.load(group));
            }
        }
        rates.len()
    };
    let mut loads: Vec<(String, Vec<&Group<'a>>)> = Vec::new();
    for group in groups {
        let operation = group.operation();
        let load = if rates(&operation) > 1 { format!("{operation} at {}", report.load(group)) } else { operation };
        match loads.iter_mut().find(|(name, _)| *name == load) {
            Some((_, same)) => same.push(group),
            None => loads.push((load, vec![group])),
        }
    }
    loads
}

fn bars(
    report: &Report<'_>,
    groups: &[Group<'_>],
    title: &str,
    unit: &str,
    value: fn(&Run) -> Option<f64>,
) -> Chart {
    let mut chart = Chart::new(title, Axis::new(unit, Scale::Linear), Axis::new("", Scale::Linear));
    for (load, groups) in by_load(report, groups) {
        let bars = groups.iter().filter_map(|group| {
            let spread = group.spread(value)?;
            Some(Bar {
                label: report.label(group),
                look: report.look(group),
                value: spread.median,
                interval: (spread.low < spread.high).then_some((spread.low, spread.high)),
                doubtful: group.is_doubtful(),
            })
        });
        chart.group(load, bars.collect());
    }
    chart
}

/// Medians with their intervals, and ratios to the first system.
pub(super) fn side_by_side(report: &Report<'_>, groups: &[Group<'_>]) -> Table {
    let mut table = Table::new(
        "Side by side: median [interval], and ratio to the first system",
        &[
            "Operation", "System", "#Repeats", "#CPU, µs/operation", "#CPU ratio", "#p50, ms", "#p50 ratio",
            "#p99, ms", "#p99 ratio", "#Achieved, 1/s", "#ratio",
        ],
    );
    let measures: [fn(&Run) -> Option<f64>; 4] = [
        metrics::cpu_per_operation,
        |run| response(run, 50.0),
        |run| response(run, 99.0),
        |run| Some(metrics::achieved_rate(run)),
    ];
    for (load, groups) in by_load(report, groups) {
        let first = groups[0];
        for (index, group) in groups.iter().enumerate() {
            let mut cells = vec![load.clone(), report.label(group), group.repeats()];
            for measure in measures {
                cells.push(interval(group.spread(measure)));
                cells.push(match index {
                    0 => "1".to_owned(),
                    _ => interval(paired_ratio(group, first, measure)),
                });
            }
            table.row_doubtful(group.is_doubtful() || first.is_doubtful() && index > 0, cells);
        }
    }
    table
}

/// The ratios of the repeats that both have.
fn paired_ratio(ours: &Group<'_>, theirs: &Group<'_>, value: fn(&Run) -> Option<f64>) -> Option<Spread> {
    let mut pairs = (Vec::new(), Vec::new());
    let theirs = theirs.used();
    for run in ours.used() {
        let beside = theirs.iter().find(|other| other.repeat == run.repeat);
        if let (Some(our), Some(their)) = (value(run), beside.and_then(|run| value(run))) {
            pairs.0.push(our);
            pairs.1.push(their);
        }
    }
    analysis::ratio(&pairs.0, &pairs.1)
}

fn interval(spread: Option<Spread>) -> String {
    match spread {
        None => words::NONE.to_owned(),
        Some(spread) if spread.low >= spread.high => words::figure(spread.median),
        Some(Spread { median, low, high, .. }) => {
            format!("{} [{}–{}]", words::figure(median), words::figure(low), words::figure(high))
        }
    }
}

/// What became of the operations, all repeats together.
pub(super) fn outcome(report: &Report<'_>, groups: &[Group<'_>]) -> Table {
    let mut table = Table::new(
        "What became of the operations (all repeats together)",
        &[
            "System", "Operation", "#Offered at", "#Operations", "#Succeeded", "#Refused", "#Timed out",
            "#Lost", "#Success",
        ],
    );
    for group in groups {
        let sum = |count: fn(&Run) -> u64| {
            group.used().into_iter().map(count).fold(0, u64::saturating_add)
        };
        let (offered, succeeded) = (sum(|run| run.counts.offered), sum(|run| run.counts.succeeded));
        let share = (offered > 0).then(|| 100.0 * succeeded as f64 / offered as f64);
        let mut cells = report.name_cells(group);
        cells.extend(
            [
                offered,
                succeeded,
                sum(|run| run.counts.refused),
                sum(|run| run.counts.timed_out),
                sum(|run| run.counts.lost),
            ]
            .map(words::count),
        );
        cells.push(words::maybe_percent(share));
        table.row_doubtful(group.is_doubtful(), cells);
    }
    table
}
