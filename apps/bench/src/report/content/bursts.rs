//! Registrations in bursts, and parallel users (see docs/sources.md).

use super::basis::{Report, delay_name, unless_empty};
use crate::metrics;
use crate::record::{Delay, Kind, Operation, Run};
use crate::report::chart::{Axis, Chart, Line, Look, Place, Scale};
use crate::report::document::{Section, Table};
use crate::report::format;
use crate::report::groups::{Group, Pooled, state};

/// The highest share of timeouts, in percent, for a pass (see docs/sources.md): two of fifteen
/// attempts in as many minutes may fail.
pub(super) const TIMEOUT_LIMIT: f64 = 100.0 * 2.0 / 15.0;

/// Returns the groups of each system and operation (and state of the network), by rising number of
/// users.
pub(super) fn by_users<'a>(report: &Report<'a>, kind: Kind) -> Vec<Vec<Group<'a>>> {
    let mut series: Vec<Vec<Group<'a>>> = Vec::new();
    for group in report.groups(&[kind]) {
        let same = |groups: &&mut Vec<Group<'_>>| {
            let first = &groups[0];
            first.subject == group.subject
                && first.operation() == group.operation()
                && state(first.runs[0]) == state(group.runs[0])
        };
        match series.iter_mut().find(same) {
            Some(groups) => groups.push(group),
            None => series.push(vec![group]),
        }
    }
    for groups in &mut series {
        groups.sort_by_key(|group| group.load.users);
    }
    series
}

/// Returns the system, and the state of the network if it is known.
pub(super) fn series_name(report: &Report<'_>, group: &Group<'_>) -> String {
    match state(group.runs[0]) {
        "" => report.label(group),
        state => format!("{}, {state}", report.label(group)),
    }
}

/// Returns the share of operations that timed out, in percent.
pub(super) fn timeouts(group: &Group<'_>) -> Option<f64> {
    group.median(timeout_share)
}

fn timeout_share(run: &Run) -> Option<f64> {
    (run.counts.offered > 0)
        .then(|| 100.0 * run.counts.timed_out as f64 / run.counts.offered as f64)
}

/// Returns an empty chart over the number of users.
fn users_chart(
    title: impl Into<String>,
    unit: &str,
    scale: Scale,
    series: &[Vec<Group<'_>>],
) -> Chart {
    let users = series.iter().flatten().map(|group| group.load.users);
    let wide = users.clone().max().unwrap_or(0) / 20 > users.min().unwrap_or(0).max(1);
    let axis = if wide {
        Axis::new("users (logarithmic)", Scale::Log)
    } else {
        Axis::new("users", Scale::Linear)
    };
    Chart::new(title, axis, Axis::new(unit, scale))
}

/// Returns the line of a value over the number of users.
fn line(
    label: String,
    look: Look,
    groups: &[Group<'_>],
    value: impl Fn(&Group<'_>) -> Option<f64>,
) -> Line {
    let point = |group: &Group<'_>| Some((group.load.users as f64, value(group)?));
    let good = groups.iter().filter(|group| !group.is_doubtful()).filter_map(point);
    let doubtful = groups.iter().filter(|group| group.is_doubtful()).filter_map(point);
    let mut line = Line::marked(label, look, good.collect());
    line.doubtful = doubtful.collect();
    line
}

/// Returns the section of bursts, if there are any.
pub(super) fn bursts(report: &Report<'_>) -> Option<Section> {
    let mut section = Section::new(
        "bursts",
        "Registrations in bursts",
        "All users register at once; a server that holds answers them all and lets at most 2 of 15 attempts \
         time out, and few are sent again.",
    );
    let series = by_users(report, Kind::Burst);
    let percent = "% of the attempts";
    let mut success = users_chart("Attempts that succeeded", percent, Scale::Linear, &series);
    let mut lost = users_chart("Attempts that timed out", percent, Scale::Linear, &series);
    let mut resent =
        users_chart("Retransmissions", "messages sent again per attempt", Scale::Linear, &series);
    let rrd = delay_name(Delay::Rrd);
    let mut delay = users_chart(format!("{rrd}, median"), "ms (logarithmic)", Scale::Log, &series);
    let mut tail =
        users_chart(format!("{rrd}, 99th percentile"), "ms (logarithmic)", Scale::Log, &series);
    let mut table = Table::new(
        "Bursts (all repeats together)",
        &[
            "System",
            "Operation",
            "#Users",
            "#Attempts",
            "#Success",
            "#Timed out",
            "#Sent again",
            "#RRD min, ms",
            "#mean",
            "#p50",
            "#p99",
            "#max",
            "Holds",
        ],
    );
    for groups in &series {
        let look = report.look(&groups[0]);
        let label = || series_label(report, &series, &groups[0]);
        success.line(line(label(), look, groups, |group| {
            group.median(|run| metrics::success(&run.counts))
        }));
        lost.line(line(label(), look, groups, timeouts));
        resent.line(line(label(), look, groups, |group| {
            group.median(|run| Some(run.counts.retransmitted as f64 / run.counts.offered as f64))
        }));
        for (chart, percent) in [(&mut delay, 50.0), (&mut tail, 99.0)] {
            chart.line(line(label(), look, groups, |group| {
                group.pooled(Delay::Rrd).percentile(percent).map(|us| us as f64 / 1000.0)
            }));
        }
        for group in groups {
            table.row_doubtful(group.is_doubtful(), burst_row(report, group));
        }
    }
    lost.mark(Place::Y(TIMEOUT_LIMIT), "limit, 2 of 15");
    for chart in [success, lost, resent, delay, tail] {
        section.chart(chart);
    }
    section.table(table);
    unless_empty(section)
}

/// Returns the system, and the operation if there are several.
fn series_label(report: &Report<'_>, series: &[Vec<Group<'_>>], group: &Group<'_>) -> String {
    let operation = group.operation();
    if series.iter().all(|groups| groups[0].operation() == operation) {
        report.label(group)
    } else {
        format!("{}, {operation}", report.label(group))
    }
}

fn burst_row(report: &Report<'_>, group: &Group<'_>) -> Vec<String> {
    let sum = |count: fn(&Run) -> u64| format::count(total(group, count));
    let pooled = group.pooled(Delay::Rrd);
    let held = match timeouts(group).filter(|_| !group.is_doubtful()) {
        Some(share) if share <= TIMEOUT_LIMIT => "✓ yes",
        Some(_) => "✗ NO",
        None => format::NONE,
    };
    let mut cells = vec![
        report.label(group),
        group.operation(),
        format::count(group.load.users),
        sum(|run| run.counts.offered),
        format::maybe_percent(group.median(|run| metrics::success(&run.counts))),
        format::maybe_percent(timeouts(group)),
        sum(|run| run.counts.retransmitted),
    ];
    cells.extend(delay_cells(&pooled));
    cells.push(held.to_owned());
    cells
}

/// Returns the sum of a count over the runs that the figures are computed from.
fn total(group: &Group<'_>, count: impl Fn(&Run) -> u64) -> u64 {
    group.used().into_iter().map(count).fold(0, u64::saturating_add)
}

/// Returns minimum, mean, median, 99th percentile and maximum in milliseconds.
fn delay_cells(pooled: &Pooled) -> [String; 5] {
    let millis = |us: Option<u64>| format::maybe(us.map(|us| us as f64 / 1000.0));
    let mean = format::maybe(pooled.mean().map(|us| us / 1000.0));
    let percentile = |percent| millis(pooled.percentile(percent));
    [millis(pooled.min()), mean, percentile(50.0), percentile(99.0), millis(pooled.max())]
}

/// Returns the section of parallel users, if they were measured.
pub(super) fn users(report: &Report<'_>) -> Option<Section> {
    let mut section = Section::new(
        "users",
        "Parallel users",
        "Each user has a port of its own and works at the same time as all others; delays should stay flat \
         and nothing should be lost as users are added.",
    );
    let series = by_users(report, Kind::Qos);
    for delay in [Delay::Rrd, Delay::Invite, Delay::Setup] {
        delay_of_users(report, &series, delay, &mut section);
    }
    let mut losses = users_chart("Losses", "in the mean of the repeats", Scale::Linear, &series);
    let mut table = Table::new(
        "Lost by number of users (all repeats together)",
        &[
            "System",
            "Operation",
            "#Users",
            "#Attempts",
            "#Registrations lost",
            "#INVITEs lost",
            "#Calls lost",
            "#Repeats",
        ],
    );
    let mut number = 0;
    for groups in &series {
        for (kind, (name, lost)) in LOSSES.into_iter().enumerate() {
            if groups.iter().all(|group| lost_of(group, lost).is_none()) {
                continue;
            }
            let label = format!("{}: {name}", series_name(report, &groups[0]));
            let look = Look::Number(number);
            number += usize::from(kind < LOSSES.len());
            losses.line(line(label, look, groups, |group| {
                Some(lost_of(group, lost)? as f64 / group.used().len() as f64)
            }));
        }
        for group in groups {
            let mut cells = vec![
                series_name(report, group),
                group.operation(),
                format::count(group.load.users),
                format::count(total(group, |run| run.counts.offered)),
            ];
            cells.extend(LOSSES.map(|(_, lost)| {
                lost_of(group, lost).map_or_else(|| format::NONE.to_owned(), format::count)
            }));
            cells.push(group.repeats());
            table.row_doubtful(group.is_doubtful(), cells);
        }
    }
    section.chart(losses);
    section.table(table);
    unless_empty(section)
}

/// The losses of a kind in a run; `None` if the run has no such operations.
type Lost = fn(&Run) -> Option<u64>;

const LOSSES: [(&str, Lost); 3] = [
    ("registrations", |run| match run.load.operation {
        Operation::Register | Operation::RegisterUpdate | Operation::RegisterLogout => {
            Some(run.counts.offered.saturating_sub(run.counts.succeeded))
        }
        _ => run.counts.finals.get("REGISTER").map(|finals| finals.get(&0).copied().unwrap_or(0)),
    }),
    ("INVITEs", |run| {
        let arrived = run.delays.get(&Delay::Invite).map_or(0, |delays| delays.count());
        (run.load.operation == Operation::Invite)
            .then(|| run.counts.offered.saturating_sub(arrived))
    }),
    ("calls", |run| {
        (run.load.operation == Operation::Invite).then(|| metrics::calls_not_set_up(run))
    }),
];

fn lost_of(group: &Group<'_>, lost: Lost) -> Option<u64> {
    group.used().into_iter().filter_map(lost).reduce(u64::saturating_add)
}

/// Adds the chart and the table of one delay over the number of users.
fn delay_of_users(
    report: &Report<'_>,
    series: &[Vec<Group<'_>>],
    delay: Delay,
    section: &mut Section,
) {
    let name = delay_name(delay);
    let mut chart =
        users_chart(format!("{name} by number of users"), "ms (logarithmic)", Scale::Log, series);
    let mut table = Table::new(
        format!("{name} by number of users"),
        &[
            "System",
            "Operation",
            "#Users",
            "#min, ms",
            "#mean, ms",
            "#p50, ms",
            "#p99, ms",
            "#max, ms",
            "#Repeats",
        ],
    );
    let seen: Vec<&Vec<Group<'_>>> = series
        .iter()
        .filter(|groups| groups.iter().any(|group| group.pooled(delay).count() > 0))
        .collect();
    // For a single system, the chart shows the extremes too.
    type Value = fn(&Pooled) -> Option<f64>;
    let values: &[(&str, Value)] = match seen.len() {
        1 => &[
            ("minimum", |pooled| pooled.min().map(|us| us as f64)),
            ("mean", Pooled::mean),
            ("maximum", |pooled| pooled.max().map(|us| us as f64)),
        ],
        _ => &[("mean", Pooled::mean)],
    };
    for (index, groups) in seen.iter().enumerate() {
        for (place, (value_name, value)) in values.iter().enumerate() {
            let label = series_name(report, &groups[0]);
            let label = if seen.len() == 1 { format!("{label}: {value_name}") } else { label };
            let mut line = line(label, Look::Number(index + place), groups, |group| {
                value(&group.pooled(delay)).map(|us| us / 1000.0)
            });
            if seen.len() > 1 {
                let extremes = |group: &Group<'_>| {
                    let pooled = group.pooled(delay);
                    let [min, max] = [pooled.min()?, pooled.max()?].map(|us| us as f64 / 1000.0);
                    Some((group.load.users as f64, min, max))
                };
                line.intervals = groups.iter().filter_map(extremes).collect();
            }
            chart.line(line);
        }
        for group in *groups {
            let mut cells = vec![
                series_name(report, group),
                group.operation(),
                format::count(group.load.users),
            ];
            cells.extend(delay_cells(&group.pooled(delay)));
            cells.push(group.repeats());
            table.row_doubtful(group.is_doubtful(), cells);
        }
    }
    if seen.len() > 1 {
        chart.title += " (mean, with the shortest and the longest)";
    }
    section.chart(chart);
    section.table(table);
}
