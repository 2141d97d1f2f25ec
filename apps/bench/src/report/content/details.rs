//! The detailed figures: RFC 6076, bands, failures, resources, the generator, each run, and the
//! definitions.

use super::basis::{Report, unless_empty};
use super::time;
use crate::metrics::{self, Bands};
use crate::record::{Counts, Delay, Run, Watch};
use crate::report::document::{Block, Section, Table};
use crate::report::format;
use crate::report::groups::{Group, operation, percentile};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the section of RFC 6076 metrics.
pub(super) fn sip(report: &Report<'_>) -> Option<Section> {
    let mut section = Section::new(
        "rfc6076",
        "SIP performance metrics (RFC 6076)",
        "IRA and ISA should be 0 %, SER, SEER and SCR 100 %; a dash says that nothing of the kind was \
         attempted.",
    );
    let shares: [fn(&Counts) -> Option<f64>; 5] =
        [metrics::ira, metrics::isa, metrics::ser, metrics::seer, metrics::scr];
    let mut table = Table::new(
        "Shares (medians of the repeats)",
        &[
            "System",
            "Operation",
            "#Load",
            "#IRA",
            "#ISA",
            "#SER",
            "#SEER",
            "#SCR",
            "#Completed calls",
        ],
    );
    for group in report.featured() {
        let values = shares.map(|share| group.median(|run| share(&run.counts)));
        if values.iter().any(Option::is_some) {
            let mut cells = report.name_cells(&group);
            cells.extend(values.map(format::maybe_percent));
            cells.push(format::count(total(&group, |run| run.counts.completed_calls)));
            table.row_doubtful(group.is_doubtful(), cells);
        }
    }
    section.table(table);
    section.table(time::delays_table(report));
    unless_empty(section)
}

fn total(group: &Group<'_>, count: impl Fn(&Run) -> u64) -> u64 {
    group.used().into_iter().map(count).fold(0, u64::saturating_add)
}

/// Returns the section of the latency bands (see docs/sources.md).
pub(super) fn bands(report: &Report<'_>) -> Option<Section> {
    let mut section = Section::new(
        "bands",
        "Latency bands and coefficient",
        "Of latencies as A. L. Alexander (2010) sums them: of a call INVITE to 200 and BYE to 200, with authentication also \
         request to challenge. The coefficient is 0.55 if all are within 30 ms, and falls to −1 if all take \
         longer than 150 ms.",
    );
    let mut table = Table::new(
        "Share of latencies by time, in ms (medians of the repeats)",
        &[
            "System",
            "Operation",
            "#Load",
            "#0–30",
            "#31–60",
            "#61–90",
            "#91–120",
            "#121–150",
            "#over 150",
            "#Coefficient",
        ],
    );
    for group in report.featured() {
        let bands = Bands::of_run;
        let coefficient = group.median(|run| Some(bands(run)?.coefficient()));
        let Some(coefficient) = coefficient else { continue };
        let mut cells = report.name_cells(&group);
        cells.extend((0..6).map(|band| {
            format::maybe_percent(group.median(|run| Some(100.0 * bands(run)?.shares[band])))
        }));
        cells.push(format!("{coefficient:.4}").replace('-', "−"));
        table.row_doubtful(group.is_doubtful(), cells);
    }
    section.table(table);
    unless_empty(section)
}

/// Returns the section of failures.
pub(super) fn failures(report: &Report<'_>) -> Option<Section> {
    let mut section = Section::new(
        "failures",
        "Failures and oddities",
        "In a clean run all counts are 0, and all final responses are those that belong to the operation.",
    );
    let counts: [fn(&Counts) -> u64; 8] = [
        |counts| counts.refused,
        |counts| counts.timed_out,
        |counts| counts.lost,
        |counts| counts.retransmitted,
        |counts| counts.repeated,
        |counts| counts.unexpected,
        |counts| counts.late,
        |counts| counts.malformed,
    ];
    let mut table = Table::new(
        "Counts (all repeats together)",
        &[
            "System",
            "Operation",
            "#Load",
            "#Refused",
            "#Timed out",
            "#Lost",
            "#Sent again",
            "#Came again",
            "#Unexpected",
            "#Late",
            "#Malformed",
        ],
    );
    let mut finals = Table::new(
        "Final responses (all repeats together)",
        &["System", "Operation", "#Load", "Method", "Response", "#Count", "#Share"],
    );
    for group in report.featured() {
        let mut cells = report.name_cells(&group);
        cells.extend(counts.map(|count| format::count(total(&group, |run| count(&run.counts)))));
        table.row_doubtful(group.is_doubtful(), cells);
        for (method, statuses) in finals_of(&group) {
            let whole = statuses.values().fold(0, |sum: u64, &count| sum.saturating_add(count));
            for (status, count) in statuses {
                let mut cells = report.name_cells(&group);
                cells.extend([
                    method.to_owned(),
                    response(status),
                    format::count(count),
                    format::percent(100.0 * count as f64 / whole as f64),
                ]);
                finals.row_doubtful(group.is_doubtful(), cells);
            }
        }
    }
    section.table(table);
    section.table(finals);
    unless_empty(section)
}

/// Returns the final responses of all runs for the figures, by method and status.
fn finals_of<'a>(group: &Group<'a>) -> BTreeMap<&'a str, BTreeMap<u16, u64>> {
    let mut finals: BTreeMap<&str, BTreeMap<u16, u64>> = BTreeMap::new();
    for (method, statuses) in group.used().into_iter().flat_map(|run| &run.counts.finals) {
        for (&status, &count) in statuses {
            let sum = finals.entry(method).or_default().entry(status).or_default();
            *sum = sum.saturating_add(count);
        }
    }
    finals
}

fn response(status: u16) -> String {
    match status {
        0 => "none came".to_owned(),
        _ => format!("{status} {}", sip::message::reason_phrase(status)),
    }
}

/// Returns the section of times of processing steps as the systems report them.
pub(super) fn steps(report: &Report<'_>) -> Option<Section> {
    let mut section = Section::new(
        "steps",
        "Inside the systems",
        "The mean durations of the steps of a message, as the system measures them. Steps may lie \
         within others: the handler holds them all. The total is from the arrival of a datagram \
         in the kernel until its answers have been sent.",
    );
    let mut table = Table::new(
        "Steps (medians of the repeats)",
        &["System", "Operation", "#Load", "Step", "#µs", "#Messages looked at"],
    );
    for group in report.featured() {
        let runs = group.used();
        let names: BTreeSet<&str> =
            runs.iter().flat_map(|run| run.steps.keys()).map(String::as_str).collect();
        for name in names {
            let step = |run: &Run| run.steps.get(name).copied();
            let mut cells = report.name_cells(&group);
            cells.push(name.to_owned());
            cells.push(format::maybe(group.median(|run| step(run)?.mean_us())));
            cells.push(format::count(total(&group, |run| step(run).map_or(0, |step| step.count))));
            table.row_doubtful(group.is_doubtful(), cells);
        }
    }
    section.table(table);
    unless_empty(section)
}

/// Returns the section of the systems' resource use.
pub(super) fn resources(report: &Report<'_>) -> Option<Section> {
    let mut section = Section::new(
        "resources",
        "The cost of the load to the systems",
        "CPU time for an operation is the figure that depends least on other load of the machine; \
         datagrams are dropped when they arrive faster than they are read.",
    );
    let mut table = Table::new(
        "Systems under test (medians of the repeats)",
        &[
            "System",
            "Operation",
            "#Load",
            "#CPU, µs / operation",
            "#of that in the kernel",
            "#Processors busy",
            "#Memory before, MiB",
            "#highest, MiB",
            "#Context switches / operation",
            "#UDP drops",
            "#Received, byte / operation",
            "#Sent, byte / operation",
        ],
    );
    for group in report.featured() {
        let watched =
            |value: &dyn Fn(&Watch) -> f64| group.median(|run| run.watch.as_ref().map(value));
        if watched(&|_| 0.0).is_none() {
            continue;
        }
        let per = |value: &dyn Fn(&Watch) -> u64| {
            format::maybe(group.median(|run| {
                let watch = run.watch.as_ref()?;
                (watch.operations > 0).then(|| value(watch) as f64 / watch.operations as f64)
            }))
        };
        let mib = |value: &dyn Fn(&Watch) -> u64| {
            format::maybe(watched(&|watch| value(watch) as f64 / 1024.0 / 1024.0))
        };
        let in_kernel = watched(&|watch| {
            let (user, system) = (watch.total.cpu_user_us as f64, watch.total.cpu_system_us as f64);
            100.0 * system / (user + system)
        });
        let mut cells = report.name_cells(&group);
        cells.extend([
            format::maybe(group.median(metrics::cpu_per_operation)),
            format::maybe_percent(in_kernel.map(f64::round)),
            format::maybe(group.median(metrics::processors)),
            mib(&|watch| watch.memory_before),
            mib(&|watch| watch.memory_max),
            per(&|watch| watch.total.context_switches),
            format::maybe(watched(&|watch| watch.total.udp_drops as f64)),
            per(&|watch| watch.total.received_bytes),
            per(&|watch| watch.total.sent_bytes),
        ]);
        table.row_doubtful(group.is_doubtful(), cells);
    }
    if table.rows.is_empty() {
        section
            .text("No system was watched (--pid, --sut or ssh:HOST), so its costs are not known.");
    }
    section.table(table);
    unless_empty(section)
}

/// Returns the section of the generator's resource use and accuracy.
pub(super) fn generator(report: &Report<'_>) -> Option<Section> {
    let mut section = Section::new(
        "generator",
        "The load generator",
        "The load was as planned if the lag is small beside the response times, nothing was \
         dropped or \
         unsent, and the ceiling lies well above the achieved rate.",
    );
    let mut table = Table::new(
        "Generator (medians of the repeats)",
        &[
            "System",
            "Operation",
            "#Load",
            "#CPU, µs/operation",
            "#Lag p50, ms",
            "#Lag p99, ms",
            "#Lag max, ms",
            "#Dropped",
            "#Unsent",
            "#Ceiling, operations/s",
            "#Ceiling/achieved",
        ],
    );
    for group in report.featured() {
        let lag = |percent| {
            format::maybe(
                group.median(|run| Some(run.generator.lag.told(percent)? as f64 / 1000.0)),
            )
        };
        let ceiling = |run: &Run| run.generator.ceiling.map(|ceiling| ceiling.rate);
        let mut cells = report.name_cells(&group);
        cells.extend([
            format::maybe(group.median(metrics::generator_cpu_per_operation)),
            lag(50.0),
            lag(99.0),
            lag(100.0),
            format::maybe(group.median(|run| Some(run.generator.drops as f64))),
            format::maybe(group.median(|run| Some(run.generator.unsent as f64))),
            format::maybe(group.median(ceiling)),
            format::maybe(group.median(|run| Some(ceiling(run)? / metrics::achieved_rate(run)))),
        ]);
        table.row_doubtful(group.is_doubtful(), cells);
    }
    section.table(table);
    unless_empty(section)
}

/// Returns the section of all runs, including invalid ones.
pub(super) fn runs(report: &Report<'_>) -> Option<Section> {
    let mut section = Section::new(
        "runs",
        "All runs",
        "Every run, in the order of time, with the reasons against its validity in the last \
         column.",
    );
    let mut table = Table::new(
        "Runs",
        &[
            "System",
            "Operation",
            "Label",
            "#Repeat",
            "Begun",
            "#Offered, operations/s",
            "#Users",
            "#Achieved, operations/s",
            "#Success",
            "#p50, ms",
            "#p99, ms",
            "#CPU, µs/operation",
            "Doubts",
        ],
    );
    for subject in &report.subjects {
        for run in subject.record.runs.iter().filter(|run| subject.is_of(run)) {
            let response = |percent| {
                format::maybe(percentile(run, Delay::Response, percent).map(|us| us / 1000.0))
            };
            table.row_doubtful(
                !run.is_valid(),
                vec![
                    subject.label.clone(),
                    operation(&run.load),
                    run.label.clone(),
                    format::count(u64::from(run.repeat) + 1),
                    format::time(run.started),
                    format::figure(run.load.rate),
                    format::count(run.load.users),
                    format::figure(metrics::achieved_rate(run)),
                    format::maybe_percent(metrics::success(&run.counts)),
                    response(50.0),
                    response(99.0),
                    format::maybe(metrics::cpu_per_operation(run)),
                    run.doubts.join("; "),
                ],
            );
        }
    }
    section.table(table);
    let outliers = super::overview::outliers(report);
    if !outliers.is_empty() {
        section.heading("All outliers");
        section.text(
            "Values whose modified z-score among the repeats is above 3.5; with fewer than five repeats none is \
             called an outlier.",
        );
        section
            .blocks
            .push(Block::List(outliers.into_iter().map(|outlier| outlier.text).collect()));
    }
    unless_empty(section)
}

/// Returns the section of definitions.
pub(super) fn definitions() -> Section {
    let mut section = Section::new(
        "definitions",
        "The definitions of the figures",
        "The names in the first column are those of criteria (--require) and of the CSV form.",
    );
    let mut table = Table::new("Definitions", &["Name", "Figure", "Definition", "Source"]);
    for definition in metrics::DEFINITIONS {
        let cells = [definition.name, definition.title, definition.formula, definition.source];
        table.row(cells.map(str::to_owned).to_vec());
    }
    section.table(table);
    section
}
