//! The distribution of delays, and the course of runs by second.

use super::basis::{Report, delay_name, unless_empty};
use crate::record::PERCENTILES;
use crate::record::{Delay, Kind, Run, Second, Watch};
use crate::report::chart::{Axis, Chart, Line, Look, Place, Scale};
use crate::report::document::{Section, Table};
use crate::report::format;
use crate::report::groups::{Group, Pooled};

/// The limit of points of a line over time; longer runs are drawn in steps of several seconds.
const POINTS: usize = 400;
/// The approximate number of markers of a line.
const MARKERS: usize = 8;
/// The end of a distribution: the percentile with this number of nines.
const NINES: f64 = 5.0;
/// The number of points of a distribution per nine.
const POINTS_PER_NINE: f64 = 40.0;

/// Returns the groups that are shown in detail, by operation.
fn by_operation<'a>(report: &Report<'a>) -> Vec<(String, Vec<Group<'a>>)> {
    let mut operations: Vec<(String, Vec<Group<'a>>)> = Vec::new();
    for group in report.featured() {
        let operation = group.operation();
        match operations.iter_mut().find(|(name, _)| *name == operation) {
            Some((_, groups)) => groups.push(group),
            None => operations.push((operation, vec![group])),
        }
    }
    operations
}

/// Returns the suffix for the line of an invalid group.
fn not_valid(group: &Group<'_>) -> &'static str {
    if group.is_doubtful() { " (not valid)" } else { "" }
}

/// Returns name and look of a group among others of its operation: those of the system if there is
/// one group per system.
fn line_name(report: &Report<'_>, groups: &[Group<'_>], index: usize) -> (String, Look) {
    let group = &groups[index];
    let several = |group: &Group<'_>| {
        groups.iter().filter(|other| other.subject == group.subject).count() > 1
    };
    let same_load = groups.iter().all(|other| report.load(other) == report.load(group));
    let mut name = report.label(group);
    if several(group) || !same_load {
        name += &format!(" at {}", report.load(group));
    }
    name += not_valid(group);
    (name, if groups.iter().any(several) { Look::Number(index) } else { report.look(group) })
}

/// Returns the section of the distribution of delays.
pub(super) fn distribution(report: &Report<'_>) -> Option<Section> {
    let mut section = Section::new(
        "distribution",
        "The distribution of response times",
        "Each point tells how many percent of the operations took no longer than the time at its height; \
         from each mark to the next, ten times fewer operations are slower.",
    );
    let mut table = Table::new(
        "Response times in ms (all repeats together)",
        &[
            "System",
            "Operation",
            "#Load",
            "#Count",
            "#min",
            "#mean",
            "#p50",
            "#p90",
            "#p95",
            "#p99",
            "#p99.9",
            "#p99.99",
            "#max",
        ],
    );
    for (operation, groups) in by_operation(report) {
        let title = |what: &str| format!("{what}: {operation}");
        let mut actual = distribution_chart(title("Response time"));
        let mut scheduled = distribution_chart(title("Response time from the schedule"));
        for (index, group) in groups.iter().enumerate() {
            let (label, look) = line_name(report, &groups, index);
            let response = group.pooled(Delay::Response);
            let from_schedule = group.pooled(Delay::FromSchedule);
            if let [_] = *groups {
                actual.title = title("Response time") + not_valid(group);
                actual.line(percentiles("from sending", Look::Number(0), &response));
                actual.line(percentiles("from the schedule", Look::Number(1), &from_schedule));
            } else {
                actual.line(percentiles(&label, look, &response));
                scheduled.line(percentiles(&label, look, &from_schedule));
            }
            table.row_doubtful(group.is_doubtful(), distribution_row(report, group, &response));
        }
        section.chart(actual);
        section.chart(scheduled);
    }
    section.table(table);
    unless_empty(section)
}

fn distribution_chart(title: String) -> Chart {
    Chart::new(
        title,
        Axis::new("percentile of the operations", Scale::Percentile),
        Axis::new("ms (logarithmic)", Scale::Log),
    )
}

/// Returns a distribution as a line, up to the last percentile with enough events.
fn percentiles(label: &str, look: Look, pooled: &Pooled) -> Line {
    let nines = (pooled.count() as f64).log10().clamp(1.0, NINES);
    let value = |percent| pooled.percentile(percent).map(|us| (percent, us as f64 / 1000.0));
    let steps = 0..=(nines * POINTS_PER_NINE) as u32;
    let percents = steps.map(|step| 100.0 * (1.0 - 10f64.powf(-f64::from(step) / POINTS_PER_NINE)));
    let mut line = Line::plain(label, look, percents.filter_map(value).collect());
    line.markers = PERCENTILES.into_iter().filter_map(value).collect();
    line
}

fn distribution_row(report: &Report<'_>, group: &Group<'_>, pooled: &Pooled) -> Vec<String> {
    let millis = |us: Option<u64>| format::maybe(us.map(|us| us as f64 / 1000.0));
    let mut cells = report.name_cells(group);
    cells.push(format::count(pooled.count()));
    cells.push(millis(pooled.min()));
    cells.push(format::maybe(pooled.mean().map(|us| us / 1000.0)));
    cells.extend(PERCENTILES.map(|percent| millis(pooled.percentile(percent))));
    cells.push(millis(pooled.max()));
    cells
}

/// Returns the section of the course by second.
pub(super) fn course(report: &Report<'_>) -> Option<Section> {
    let mut section = Section::new(
        "time",
        "The course over time",
        "In a steady state all lines are level; means hide steps, waves and spikes. Ramp and \
         tail, outside of the vertical lines, count in no figure.",
    );
    for (operation, groups) in by_operation(report) {
        // A comparison has a dozen operations, so only delays over time are shown.
        let brief = groups.iter().all(|group| report.kind(group) == Kind::Compare);
        let mut charts = Vec::new();
        if !brief {
            charts.push(throughput(report, &groups));
        }
        charts.extend(delays(report, &groups, &operation));
        if !brief {
            charts.push(of_seconds(
                report,
                &groups,
                "Operations under way",
                "operations",
                |second| second.in_flight,
            ));
            charts.push(of_seconds(
                report,
                &groups,
                "Retransmissions",
                "messages per second",
                |second| second.retransmitted,
            ));
            charts.push(processors(report, &groups));
            charts.push(memory(report, &groups));
        }
        charts.retain(|chart| !chart.is_empty());
        if charts.is_empty() {
            continue;
        }
        if !brief {
            section.heading(operation);
        }
        let zero: Vec<String> =
            charts.extract_if(.., |chart| is_zero(chart)).map(|chart| chart.title).collect();
        if !zero.is_empty() {
            section.text(format!("Zero all the time: {}.", format::list(&zero).to_lowercase()));
        }
        for mut chart in charts {
            if let [group] = &*groups {
                chart.title += not_valid(group);
            }
            bounds(&mut chart, &groups);
            section.chart(chart);
        }
    }
    unless_empty(section)
}

/// Returns true if all values are zero.
fn is_zero(chart: &Chart) -> bool {
    chart.lines.iter().flat_map(|line| &line.points).all(|&(_, y)| y == 0.0)
}

fn time_chart(title: impl Into<String>, unit: &str, scale: Scale) -> Chart {
    Chart::new(title, Axis::new("seconds", Scale::Span), Axis::new(unit, scale))
}

/// Marks the start and end of the measured time, if more than that is drawn.
fn bounds(chart: &mut Chart, groups: &[Group<'_>]) {
    let mut runs = groups.iter().flat_map(Group::used);
    if runs.any(|run| run.series.iter().any(|second| !second.measured)) && !chart.is_empty() {
        chart.mark(Place::X(0.0), "measured from here");
        let ends = groups.iter().flat_map(Group::used).map(|run| run.seconds);
        let end = ends.fold(0.0, f64::max);
        if end.is_finite() {
            chart.mark(Place::X(end), "to here");
        }
    }
}

/// Adds a line for each repeat; the first has the label.
fn repeats(
    chart: &mut Chart,
    group: &Group<'_>,
    (label, look): (&str, Look),
    points: impl Fn(&Run) -> Vec<(f64, f64)>,
) {
    for (index, run) in group.used().into_iter().enumerate() {
        let label = if index == 0 { label } else { "" };
        let mut line = Line::plain(label, look, points(run));
        // A few markers distinguish lines with equal dashes.
        let every = line.points.len().div_ceil(MARKERS).max(1);
        line.markers = line.points.iter().copied().skip(every / 2).step_by(every).collect();
        chart.line(line);
    }
}

/// The reduction of several seconds to one point.
#[derive(Clone, Copy)]
enum Thin {
    Mean,
    Highest,
}

fn seconds(run: &Run, thin: Thin, value: impl Fn(&Second) -> Option<u64>) -> Vec<(f64, f64)> {
    let points = run.series.iter();
    let points = points.filter_map(|second| Some((second.at as f64, value(second)? as f64)));
    thinned(points.collect(), thin)
}

fn thinned(points: Vec<(f64, f64)>, thin: Thin) -> Vec<(f64, f64)> {
    let per = points.len().div_ceil(POINTS).max(1);
    let chunks = points.chunks(per).map(|chunk| {
        let values = chunk.iter().map(|point| point.1);
        let value = match thin {
            Thin::Mean => values.sum::<f64>() / chunk.len() as f64,
            Thin::Highest => values.fold(f64::NEG_INFINITY, f64::max),
        };
        (chunk[0].0, value)
    });
    chunks.collect()
}

/// Returns the rate of events in each second, relative to the part of the second with load: half a
/// second of load has half of the events. `ends` is true for ends of operations, which continue
/// after the load: then the second in which the load ended counts as whole, unless no operation
/// ended after that.
fn rates(run: &Run, value: impl Fn(&Second) -> u64, ends: bool) -> Vec<(f64, f64)> {
    /// The smallest part of a second; with less, the rate is random.
    const LEAST: f64 = 0.1;
    let [from, to] = run.loaded.unwrap_or([f64::NEG_INFINITY, f64::INFINITY]);
    let last = run.series.iter().rposition(|second| second.succeeded > 0 || second.failed > 0);
    let points = run.series.iter().enumerate().filter_map(|(index, second)| {
        let at = second.at as f64;
        let to = if ends && Some(index) != last { f64::INFINITY } else { to };
        let length = (at + 1.0).min(to) - at.max(from);
        match length {
            // The load had ended, or had not started.
            ..=0.0 => Some((at, value(second) as f64)),
            LEAST.. => Some((at, value(second) as f64 / length)),
            _ => None,
        }
    });
    thinned(points.collect(), Thin::Mean)
}

fn throughput(report: &Report<'_>, groups: &[Group<'_>]) -> Chart {
    let mut chart = time_chart("Throughput", "operations per second", Scale::Linear);
    for (index, group) in groups.iter().enumerate() {
        let (label, look) = line_name(report, groups, index);
        let offered = if index == 0 { "offered" } else { "" };
        repeats(&mut chart, group, (offered, Look::Reference), |run| {
            rates(run, |second| second.offered, false)
        });
        let label = if groups.len() == 1 { "succeeded".to_owned() } else { label };
        repeats(&mut chart, group, (&label, look), |run| {
            rates(run, |second| second.succeeded, true)
        });
        let failed = |run: &Run| rates(run, |second| second.failed, true);
        if groups.len() == 1
            && group.used().iter().any(|run| run.series.iter().any(|second| second.failed > 0))
        {
            repeats(&mut chart, group, ("failed", Look::Number(1)), failed);
        }
    }
    chart
}

fn delays(report: &Report<'_>, groups: &[Group<'_>], operation: &str) -> Vec<Chart> {
    type OfSecond = fn(&Second) -> Option<u64>;
    let millis = |run: &Run, value: OfSecond| {
        let points = seconds(run, Thin::Highest, value).into_iter();
        points.map(|(at, us)| (at, us / 1000.0)).collect::<Vec<_>>()
    };
    let measures: [(&str, OfSecond); 3] = [
        ("median", |second| second.p50_us),
        ("99th percentile", |second| second.p99_us),
        ("maximum", |second| Some(second.max_us)),
    ];
    let chart = |title| time_chart(title, "ms (logarithmic)", Scale::Log);
    if let [group] = groups {
        let mut chart = chart("Response time".to_owned());
        for (number, (name, value)) in measures.into_iter().enumerate() {
            repeats(&mut chart, group, (name, Look::Number(number)), |run| millis(run, value));
        }
        return vec![chart];
    }
    let charts = measures[..2].iter().map(|&(name, value)| {
        let mut chart = chart(format!("Response time, {name}: {operation}"));
        for (index, group) in groups.iter().enumerate() {
            let (label, look) = line_name(report, groups, index);
            repeats(&mut chart, group, (&label, look), |run| millis(run, value));
        }
        chart
    });
    charts.collect()
}

fn of_seconds(
    report: &Report<'_>,
    groups: &[Group<'_>],
    title: &str,
    unit: &str,
    value: fn(&Second) -> u64,
) -> Chart {
    let mut chart = time_chart(title, unit, Scale::Linear);
    for (index, group) in groups.iter().enumerate() {
        let (label, look) = line_name(report, groups, index);
        repeats(&mut chart, group, (&label, look), |run| {
            seconds(run, Thin::Mean, |second| Some(value(second)))
        });
    }
    chart
}

fn processors(report: &Report<'_>, groups: &[Group<'_>]) -> Chart {
    let mut chart = time_chart("CPU of the system under test", "processors busy", Scale::Linear);
    let busy = |run: &Run, system_only: bool| {
        let spans = run.watch.iter().flat_map(Watch::spans);
        let points = spans.map(|(from, to, sample)| {
            let used = sample.usage.cpu_system_us as f64
                + if system_only { 0.0 } else { sample.usage.cpu_user_us as f64 };
            (to, used / (to - from) / 1e6)
        });
        thinned(points.collect(), Thin::Mean)
    };
    for (index, group) in groups.iter().enumerate() {
        let (label, look) = line_name(report, groups, index);
        if groups.len() == 1 {
            repeats(&mut chart, group, ("user and system", look), |run| busy(run, false));
            repeats(&mut chart, group, ("system alone", Look::Number(1)), |run| busy(run, true));
        } else {
            repeats(&mut chart, group, (&label, look), |run| busy(run, false));
        }
    }
    chart
}

fn memory(report: &Report<'_>, groups: &[Group<'_>]) -> Chart {
    let mut chart = time_chart("Memory of the system under test", "MiB (PSS)", Scale::Linear);
    for (index, group) in groups.iter().enumerate() {
        let (label, look) = line_name(report, groups, index);
        repeats(&mut chart, group, (&label, look), |run| {
            let samples = run.watch.as_ref().map_or(&[][..], |watch| &watch.samples);
            let points =
                samples.iter().map(|sample| (sample.at, sample.memory as f64 / 1024.0 / 1024.0));
            thinned(points.collect(), Thin::Highest)
        });
    }
    chart
}

/// Returns the table of the RFC 6076 delays, beside its shares.
pub(super) fn delays_table(report: &Report<'_>) -> Table {
    let mut table = Table::new(
        "Delays in ms (all repeats together)",
        &[
            "System",
            "Operation",
            "#Load",
            "Delay",
            "#Count",
            "#min",
            "#mean",
            "#p50",
            "#p99",
            "#max",
        ],
    );
    for group in report.featured() {
        for delay in Delay::ALL {
            let pooled = group.pooled(delay);
            if pooled.count() == 0 || matches!(delay, Delay::Response | Delay::FromSchedule) {
                continue;
            }
            let millis = |us: Option<u64>| format::maybe(us.map(|us| us as f64 / 1000.0));
            let mut cells = report.name_cells(&group);
            cells.extend([
                delay_name(delay).to_owned(),
                format::count(pooled.count()),
                millis(pooled.min()),
                format::maybe(pooled.mean().map(|us| us / 1000.0)),
                millis(pooled.percentile(50.0)),
                millis(pooled.percentile(99.0)),
                millis(pooled.max()),
            ]);
            table.row_doubtful(group.is_doubtful(), cells);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tests::run;

    #[test]
    fn part_of_a_second_is_told_as_a_whole_one() {
        let second =
            |(at, offered, succeeded)| Second { at, offered, succeeded, ..Second::default() };
        let mut run = run();
        run.loaded = Some([-0.2, 2.5]);
        run.series = [(-1, 20, 20), (0, 100, 100), (1, 100, 100), (2, 50, 50)].map(second).to_vec();
        let offered = |run: &Run| rates(run, |second| second.offered, false);
        let succeeded = |run: &Run| rates(run, |second| second.succeeded, true);
        let rounded = |points: Vec<(f64, f64)>| -> Vec<(f64, f64)> {
            points.into_iter().map(|(at, value)| (at, value.round())).collect()
        };
        let even = [-1.0, 0.0, 1.0, 2.0].map(|at| (at, 100.0));
        assert_eq!(rounded(offered(&run)), even);
        assert_eq!(rounded(succeeded(&run)), even);
        // Responses after half a second come throughout the second, and in the next.
        run.series = [(0, 100, 50), (1, 100, 100), (2, 50, 100), (3, 0, 7)].map(second).to_vec();
        assert_eq!(succeeded(&run)[2..], [(2.0, 100.0), (3.0, 7.0)]);
        assert_eq!(offered(&run)[2..], [(2.0, 100.0), (3.0, 0.0)]);
        // A second with only a fraction of load has no rate. Without the time of the load in the
        // record, counts are not scaled.
        run.loaded = Some([0.0, 2.01]);
        assert_eq!(offered(&run).iter().map(|point| point.0).collect::<Vec<_>>(), [0.0, 1.0, 3.0]);
        run.loaded = None;
        assert_eq!(offered(&run)[2], (2.0, 50.0));
    }
}
