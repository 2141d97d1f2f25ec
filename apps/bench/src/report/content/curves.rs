//! Curves over the rate (see docs/sources.md).

use super::basis::{Report, delay_name, request_delay, unless_empty};
use super::limits::{self, Curve};
use crate::metrics;
use crate::record::{Delay, Kind, Run, Usage};
use crate::report::chart::{Axis, Chart, Line, Look, Place, Scale};
use crate::report::document::{Section, Table};
use crate::report::format;
use crate::report::groups::{Group, percentile};
use std::collections::BTreeSet;

/// From this ratio of the highest to the lowest rate on, the axis is logarithmic.
const WIDE: f64 = 60.0;

/// Returns the section of the curves of sweeps and proxy tests, if there are any.
pub(super) fn section(report: &Report<'_>) -> Option<Section> {
    let mut section = Section::new(
        "curves",
        "Throughput, delay and cost against the rate",
        "As long as a system keeps up, what it achieves lies on the diagonal, delays are flat and CPU \
         time rises evenly; the ring marks where the delay leaves its flat part.",
    );
    let curves = limits::curves(report, &[Kind::Sweep, Kind::Proxy]);
    for operation in limits::operations(&curves) {
        let curves: Vec<&Curve<'_>> =
            curves.iter().filter(|curve| curve.operation == operation).collect();
        section.heading(operation);
        throughput(report, &curves, &mut section);
        delays(report, &curves, &mut section);
        costs(report, &curves, &mut section);
        inside(report, &curves, &mut section);
        section.table(steps(report, &curves));
        section.table(beside(report, &curves));
    }
    unless_empty(section)
}

fn rate_axis(curves: &[&Curve<'_>]) -> Axis {
    let rates = curves.iter().flat_map(|curve| &curve.groups).map(|group| group.load.rate);
    let (low, high) =
        rates.fold((f64::INFINITY, 0.0f64), |(low, high), rate| (low.min(rate), high.max(rate)));
    let scale = if low > 0.0 && high / low > WIDE { Scale::Log } else { Scale::Linear };
    Axis::new("offered, operations per second", scale)
}

/// Returns the line of medians over the rate; points without a valid run are marked.
fn line(report: &Report<'_>, curve: &Curve<'_>, value: impl Fn(&Run) -> Option<f64>) -> Line {
    let point = |group: &Group<'_>| Some((group.load.rate, group.median(&value)?));
    let good = curve.groups.iter().filter(|group| !group.is_doubtful());
    let doubtful = curve.groups.iter().filter(|group| group.is_doubtful()).filter_map(point);
    let label = report.subjects[curve.subject].label.clone();
    let look = report.subjects[curve.subject].look;
    let mut line = Line::marked(label, look, good.clone().filter_map(point).collect());
    line.doubtful = doubtful.collect();
    line.intervals = good
        .filter_map(|group| {
            let spread = group.spread(&value)?;
            (spread.low < spread.high).then_some((group.load.rate, spread.low, spread.high))
        })
        .collect();
    line
}

fn throughput(report: &Report<'_>, curves: &[&Curve<'_>], section: &mut Section) {
    let axis = rate_axis(curves);
    let mut achieved = Chart::new(
        "Achieved against offered rate",
        axis.clone(),
        Axis::new("achieved, operations per second", axis.scale),
    );
    let rates = curves.iter().flat_map(|curve| &curve.groups).map(|group| group.load.rate);
    let high = rates.clone().fold(0.0, f64::max);
    let low = if axis.scale == Scale::Log { rates.fold(high, f64::min) } else { 0.0 };
    achieved.line(Line::plain(
        "all that is offered",
        Look::Reference,
        vec![(low, low), (high, high)],
    ));
    let mut success =
        Chart::new("Success", axis, Axis::new("% of the operations offered", Scale::Linear));
    for curve in curves {
        achieved.line(line(report, curve, |run| Some(metrics::achieved_rate(run))));
        success.line(line(report, curve, |run| metrics::success(&run.counts)));
    }
    section.chart(achieved);
    section.chart(success);
}

fn delays(report: &Report<'_>, curves: &[&Curve<'_>], section: &mut Section) {
    let chart = |title: String| {
        Chart::new(title, rate_axis(curves), Axis::new("ms (logarithmic)", Scale::Log))
    };
    let delay = curves.first().map_or(Delay::Response, |curve| request_delay(&curve.groups[0]));
    let mut median = chart(format!("{}, median", delay_name(delay)));
    let mut tail = chart("Response delay, 99th percentile".to_owned());
    let millis = |run: &Run, delay, percent| percentile(run, delay, percent).map(|us| us / 1000.0);
    for curve in curves {
        median.line(line(report, curve, |run| millis(run, delay, 50.0)));
        tail.line(line(report, curve, |run| millis(run, Delay::Response, 99.0)));
        if let Some((rate, us)) = curve.knee {
            median.mark(Place::Point(rate, us / 1000.0), format!("{}/s", format::figure(rate)));
        }
    }
    let highest = median.lines.iter().flat_map(|line| &line.points).map(|point| point.1);
    if highest.fold(0.0, f64::max) > limits::DELAY_LIMIT_US / 2000.0 {
        median.mark(Place::Y(limits::DELAY_LIMIT_US / 1000.0), "300 ms");
    }
    section.chart(median);
    // Callers that register first.
    if delay != Delay::Rrd {
        let mut registration = chart(format!("{}, median", delay_name(Delay::Rrd)));
        for curve in curves {
            registration.line(line(report, curve, |run| millis(run, Delay::Rrd, 50.0)));
        }
        section.chart(registration);
    }
    section.chart(tail);
}

fn costs(report: &Report<'_>, curves: &[&Curve<'_>], section: &mut Section) {
    let chart = |title: &str, unit: &str| {
        Chart::new(title, rate_axis(curves), Axis::new(unit, Scale::Linear))
    };
    let falls = |curve: &&Curve<'_>| {
        let costs =
            curve.groups.iter().filter_map(|group| group.median(metrics::cpu_per_operation));
        let costs: Vec<f64> = costs.collect();
        costs.first() > costs.last()
    };
    if curves.iter().any(falls) {
        section.text(
            "An operation costs more at low rates: what a system does for each time it wakes, or each second, is \
             then shared by fewer operations, and the processor's caches are cold. Costs compare at equal rates.",
        );
    }
    let mut busy = chart("CPU of the system under test", "processors busy");
    let mut cost = chart("CPU time for an operation", "µs per operation");
    let mut memory = chart("Highest memory of the system under test", "MiB");
    let mut resent = chart("Retransmissions", "messages sent again per operation");
    for curve in curves {
        busy.line(line(report, curve, metrics::processors));
        cost.line(line(report, curve, metrics::cpu_per_operation));
        memory.line(line(report, curve, |run| {
            Some(run.watch.as_ref()?.memory_max as f64 / 1024.0 / 1024.0)
        }));
        resent.line(line(report, curve, |run| {
            Some(run.counts.retransmitted as f64 / run.counts.offered as f64)
        }));
    }
    let mut network =
        chart("Network interfaces of its machine", "octets received and sent per operation");
    for curve in curves {
        network.line(line(report, curve, |run| {
            octets(run, |usage| usage.received_bytes + usage.sent_bytes)
        }));
    }
    for chart in [busy, cost, memory, network, resent] {
        section.chart(chart);
    }
}

/// Returns a number of octets of the system for an operation, if it was watched.
fn octets(run: &Run, all: impl Fn(&Usage) -> u64) -> Option<f64> {
    let watch = run.watch.as_ref()?;
    (watch.operations > 0).then(|| all(&watch.total) as f64 / watch.operations as f64)
}

/// Adds the times of processing steps as the systems report them.
fn inside(report: &Report<'_>, curves: &[&Curve<'_>], section: &mut Section) {
    for curve in curves {
        let runs = curve.groups.iter().flat_map(|group| &group.runs);
        let names: BTreeSet<&str> =
            runs.flat_map(|run| run.steps.keys()).map(String::as_str).collect();
        // The total contains waiting times, beside which the steps would not be seen.
        let (total, names): (Vec<&str>, Vec<&str>) =
            names.into_iter().partition(|name| *name == "total");
        let label = &report.subjects[curve.subject].label;
        for (title, names) in [("Steps inside", names), ("From arrival to reply in", total)] {
            let mut chart = Chart::new(
                format!("{title} {label}"),
                rate_axis(curves),
                Axis::new("µs for a message, mean", Scale::Linear),
            );
            for (number, name) in names.iter().enumerate() {
                let points = curve.groups.iter().filter_map(|group| {
                    let mean = |run: &Run| run.steps.get(*name).and_then(|step| step.mean_us());
                    Some((group.load.rate, group.median(mean)?))
                });
                chart.line(Line::marked(*name, Look::Number(number), points.collect()));
            }
            if !names.is_empty() {
                section.chart(chart);
            }
        }
    }
}

fn steps(report: &Report<'_>, curves: &[&Curve<'_>]) -> Table {
    let mut table = Table::new(
        "Step by step (medians of the repeats)",
        &[
            "System",
            "#Offered, operations/s",
            "#Achieved, operations/s",
            "#Success",
            "#p50, ms",
            "#p99, ms",
            "#p99.9, ms",
            "#Sent again",
            "#Processors busy",
            "#CPU, µs/operation",
            "#Repeats",
        ],
    );
    for (curve, group) in
        curves.iter().flat_map(|curve| curve.groups.iter().map(move |group| (curve, group)))
    {
        let response = |percent| {
            format::maybe(
                group.median(|run| percentile(run, Delay::Response, percent)).map(|us| us / 1000.0),
            )
        };
        table.row_doubtful(
            group.is_doubtful(),
            vec![
                report.subjects[curve.subject].label.clone(),
                format::figure(group.load.rate),
                format::maybe(group.median(|run| Some(metrics::achieved_rate(run)))),
                format::maybe_percent(group.median(|run| metrics::success(&run.counts))),
                response(50.0),
                response(99.0),
                response(99.9),
                format::maybe(group.median(|run| Some(run.counts.retransmitted as f64))),
                format::maybe(group.median(metrics::processors)),
                format::maybe(group.median(metrics::cpu_per_operation)),
                group.repeats(),
            ],
        );
    }
    table
}

/// Returns the table of the registrations and of the network at each step.
fn beside(report: &Report<'_>, curves: &[&Curve<'_>]) -> Table {
    let mut table = Table::new(
        "Registrations and network, step by step (medians of the repeats)",
        &[
            "System",
            "#Offered, operations/s",
            "#RRD p50, ms",
            "#RRD p99, ms",
            "#Received, octets/operation",
            "#Sent, octets/operation",
        ],
    );
    for (curve, group) in
        curves.iter().flat_map(|curve| curve.groups.iter().map(move |group| (curve, group)))
    {
        let rrd = |percent| {
            group.median(|run| percentile(run, Delay::Rrd, percent)).map(|us| us / 1000.0)
        };
        let network = |all: fn(&Usage) -> u64| group.median(|run| octets(run, all));
        let values = [
            rrd(50.0),
            rrd(99.0),
            network(|usage| usage.received_bytes),
            network(|usage| usage.sent_bytes),
        ];
        if values.iter().all(Option::is_none) {
            continue;
        }
        let mut cells =
            vec![report.subjects[curve.subject].label.clone(), format::figure(group.load.rate)];
        cells.extend(values.map(format::maybe));
        table.row_doubtful(group.is_doubtful(), cells);
    }
    table
}
