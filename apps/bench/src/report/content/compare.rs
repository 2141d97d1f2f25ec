//! The comparison of several systems.

use super::basis::{Report, unless_empty};
use crate::analysis::{self, Spread};
use crate::metrics;
use crate::record::{Delay, Kind, Run};
use crate::report::chart::{Axis, Bar, Chart, Scale};
use crate::report::document::{Section, Table};
use crate::report::format;
use crate::report::groups::{Group, percentile};

/// The explanation of intervals.
const INTERVALS: &str = "In brackets: the interval in which the true median lies with a confidence of \
     at least 95 % from six repeats on; with fewer it is from the least to the greatest value, which is \
     75 % with three and says nothing with one. A ratio is the median of the ratios of the repeats that \
     were measured beside each other; it differs from 1 only if 1 is not in its interval.";

/// Returns the section of the comparison, if there is one.
pub(super) fn section(report: &Report<'_>) -> Option<Section> {
    let groups = report.groups(&[Kind::Compare]);
    let mut section = Section::new(
        "compare",
        "Systems compared",
        "Shorter bars are better: less CPU time and less delay for the same work, done in turn on each \
         system.",
    );
    for measure in &MEASURES[..3] {
        section.chart(bars(report, &groups, measure));
    }
    for measures in [&MEASURES[1..2], &MEASURES[3..]] {
        tables(report, &groups, measures, &mut section);
    }
    if !groups.is_empty() {
        section
            .text("The tables of CPU time and of the 99th percentile stand with the conclusions.");
    }
    section.table(outcome(report, &groups));
    unless_empty(section)
}

/// A compared figure.
struct Measure {
    title: &'static str,
    unit: &'static str,
    value: fn(&Run) -> Option<f64>,
}

const MEASURES: [Measure; 4] = [
    Measure {
        title: "CPU time of the system under test for an operation",
        unit: "µs",
        value: metrics::cpu_per_operation,
    },
    Measure { title: "Response time, median", unit: "ms", value: |run| response(run, 50.0) },
    Measure {
        title: "Response time, 99th percentile",
        unit: "ms",
        value: |run| response(run, 99.0),
    },
    Measure {
        title: "Achieved rate",
        unit: "operations per second",
        value: |run| Some(metrics::achieved_rate(run)),
    },
];

/// Adds the summary of a comparison: its costs and its delays.
pub(super) fn summary(report: &Report<'_>, section: &mut Section) {
    let groups = report.groups(&[Kind::Compare]);
    side_by_side(report, &groups, &[&MEASURES[0], &MEASURES[2]].map(|m| Measure { ..*m }), section);
}

fn response(run: &Run, percent: f64) -> Option<f64> {
    percentile(run, Delay::Response, percent).map(|us| us / 1000.0)
}

/// Returns the loads, each with its groups, by system.
fn by_load<'g, 'a>(groups: &'g [Group<'a>]) -> Vec<(String, Vec<&'g Group<'a>>)> {
    let key = |group: &Group<'_>| (group.operation(), group.load.rate, group.load.users);
    let mut loads: Vec<Vec<&Group<'a>>> = Vec::new();
    for group in groups {
        match loads.iter_mut().find(|same| key(same[0]) == key(group)) {
            Some(same) => same.push(group),
            None => loads.push(vec![group]),
        }
    }
    // Parameters that all loads of an operation share are left out.
    let differ = |operation: &str, value: fn(&Group<'_>) -> f64| {
        let mut values = groups.iter().filter(|group| group.operation() == operation).map(value);
        let first = values.next();
        values.any(|value| Some(value) != first)
    };
    let named = loads.iter().map(|same| {
        let mut name = same[0].operation();
        if differ(&same[0].operation(), |group| group.load.rate) {
            name += &format!(" at {} operations/s", format::figure(same[0].load.rate));
        }
        if differ(&same[0].operation(), |group| group.load.users as f64) {
            name += &format!(" of {} users", format::count(same[0].load.users));
        }
        (name, same.clone())
    });
    named.collect()
}

fn bars(report: &Report<'_>, groups: &[Group<'_>], measure: &Measure) -> Chart {
    let (title, unit, value) = (measure.title, measure.unit, measure.value);
    let mut chart = Chart::new(title, Axis::new("", Scale::Linear), Axis::new(unit, Scale::Linear));
    for (load, groups) in by_load(groups) {
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

/// Adds a table for each figure, and the explanation.
fn side_by_side(
    report: &Report<'_>,
    groups: &[Group<'_>],
    measures: &[Measure],
    section: &mut Section,
) {
    tables(report, groups, measures, section);
    if !groups.is_empty() {
        section.text(INTERVALS);
    }
}

/// Adds a table for each figure: medians with their intervals, and ratios to the first system.
fn tables(report: &Report<'_>, groups: &[Group<'_>], measures: &[Measure], section: &mut Section) {
    let loads = by_load(groups);
    let mut subjects: Vec<usize> = groups.iter().map(|group| group.subject).collect();
    subjects.dedup();
    for measure in measures {
        let mut columns = vec!["Operation".to_owned()];
        for (index, &subject) in subjects.iter().enumerate() {
            columns.push(format!("#{}", report.subjects[subject].label));
            if index > 0 {
                let first = &report.subjects[subjects[0]].label;
                columns.push(format!("#ratio to {first}"));
            }
        }
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let caption = format!("{}, {}: median [interval]", measure.title, measure.unit);
        let mut table = Table::new(caption, &columns);
        for (load, groups) in &loads {
            let of = |subject: usize| groups.iter().copied().find(|group| group.subject == subject);
            let first = of(subjects[0]);
            let mut cells = vec![load.clone()];
            for (index, &subject) in subjects.iter().enumerate() {
                let group = of(subject);
                cells.push(checked(group, group.and_then(|group| group.spread(measure.value))));
                if index > 0 {
                    let ratio = group
                        .zip(first)
                        .and_then(|(group, first)| paired_ratio(group, first, measure.value));
                    cells.push(checked(group.or(first), ratio));
                }
            }
            if cells[1..].iter().any(|cell| cell != format::NONE) {
                let doubtful = groups.iter().all(|group| group.is_doubtful());
                table.row_doubtful(doubtful, cells);
            }
        }
        section.table(table);
    }
}

/// Returns the figure, with a warning if no run of it is valid.
fn checked(group: Option<&Group<'_>>, spread: Option<Spread>) -> String {
    match group.is_some_and(Group::is_doubtful) {
        true if spread.is_some() => format!("✗ not valid: {}", interval(spread)),
        _ => interval(spread),
    }
}

/// Returns the ratios of paired repeats.
fn paired_ratio(
    ours: &Group<'_>,
    theirs: &Group<'_>,
    value: fn(&Run) -> Option<f64>,
) -> Option<Spread> {
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
        None => format::NONE.to_owned(),
        Some(spread) if spread.low >= spread.high => format::figure(spread.median),
        Some(Spread { median, low, high, .. }) => {
            format!("{} [{}–{}]", format::figure(median), format::figure(low), format::figure(high))
        }
    }
}

/// Adds medians and ratios of all figures.
pub(super) fn loads_side_by_side(report: &Report<'_>, groups: &[Group<'_>], section: &mut Section) {
    side_by_side(report, groups, &MEASURES, section);
}

/// Returns the table of results of the operations, over all repeats.
pub(super) fn outcome(report: &Report<'_>, groups: &[Group<'_>]) -> Table {
    let mut table = Table::new(
        "Outcomes of the operations (all repeats together)",
        &[
            "System",
            "Operation",
            "#Offered at",
            "#Operations",
            "#Succeeded",
            "#Refused",
            "#Timed out",
            "#Lost",
            "#Success",
            "#Repeats",
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
            .map(format::count),
        );
        cells.extend([format::maybe_percent(share), group.repeats()]);
        table.row_doubtful(group.is_doubtful(), cells);
    }
    table
}
