//! The frame of a report: the verdict and the conclusions, and the description of the measurement.

use super::basis::{Report, kind_name, unless_empty};
use crate::metrics;
use crate::record::{Criterion, Delay, Finding, Kind, Machine, Record, Run};
use crate::report::document::{Block, Section, Table, Verdict};
use crate::report::format;
use crate::report::groups::{Group, Subject, operation, percentile, run_name};

/// The label of runs that confirm the result of a search.
const CONFIRMATION: &str = "confirmation";
/// The limit of outliers in the verdict, the largest first.
const OUTLIERS: usize = 8;
/// The limit of runs that are named with a doubt.
const NAMED: usize = 4;

/// Returns the verdict with the main figures, at the top of the report.
pub(super) fn verdict_section(report: &Report<'_>) -> Section {
    let mut section = Section::new(
        "verdict",
        "Verdict",
        "The validity of the figures, and the most important ones.",
    );
    section.blocks.push(Block::Verdict(validity(report)));
    section.blocks.extend(incomplete(report).map(Block::Verdict));
    section.blocks.extend(failures(report).map(Block::Verdict));
    section.blocks.extend(criteria_verdict(report).map(Block::Verdict));
    section.table(headline(report));
    section
}

/// Returns the conclusions from the figures, as sentences.
pub(super) fn conclusions(report: &Report<'_>) -> Option<Section> {
    let mut section = Section::new(
        "conclusions",
        "Conclusions",
        "Requirements, conclusions of the command, and outliers.",
    );
    findings(report, &mut section);
    super::compare::summary(report, &mut section);
    criteria(report, &mut section);
    let (mut large, small): (Vec<Outlier>, Vec<Outlier>) =
        outliers(report).into_iter().partition(|outlier| outlier.deviation >= NOTABLE);
    large.sort_by(|a, b| b.deviation.total_cmp(&a.deviation));
    if !large.is_empty() {
        section.heading("Outliers");
        let more = match small.len() + large.len().saturating_sub(OUTLIERS) {
            0 => String::new(),
            1 => " One more is named with all runs.".to_owned(),
            more => format!(" {} more are named with all runs.", format::count(more as u64)),
        };
        section.text(format!(
            "These repeats stand out from the others of their load. They are kept in all figures.{more}"
        ));
        let named = large.into_iter().take(OUTLIERS).map(|outlier| outlier.text);
        section.blocks.push(Block::List(named.collect()));
    }
    unless_empty(section)
}

fn validity(report: &Report<'_>) -> Verdict {
    let all = || {
        report.records.iter().flat_map(|record| record.runs.iter().map(move |run| (record, run)))
    };
    // A search tries rates beyond the limit of either side, so only its confirmations count.
    let is_trial =
        |record: &Record, run: &Run| record.kind == Kind::Limit && run.label != CONFIRMATION;
    let count = all().count();
    let trials = all().filter(|(record, run)| !run.is_valid() && is_trial(record, run)).count();
    let invalid = all().filter(|(_, run)| !run.is_valid()).count() - trials;
    let reasons = doubts(all().map(|(_, run)| run));
    if count == 0 {
        let text = "The records of this report contain no run.";
        return verdict(false, "Nothing was measured".to_owned(), text, reasons);
    }
    let down = all()
        .filter(|(record, run)| !is_trial(record, run))
        .find_map(|(_, run)| Some((run, run.down.as_ref()?)));
    if let Some((run, down)) = down {
        let title = format!("NOT VALID: {down} ({})", run_name(run));
        let text = "The load ended then. The figures below are of the time before; operations under way at the end are \
                    counted as lost.";
        return verdict(false, title, text, reasons);
    }
    if invalid == 0
        && let Some(ceiling) = ceiling(report)
    {
        let title = format!("NO LIMIT FOUND: {ceiling}");
        let text = "The rate is what the generator carries on its machines, and the least that the server does.";
        return verdict(false, title, text, reasons);
    }
    if invalid == 0 && trials == 0 {
        let title = match count {
            1 => "Valid: the run shows the system under test".to_owned(),
            _ => format!(
                "Valid: all {} runs show the systems under test",
                format::count(count as u64)
            ),
        };
        return verdict(true, title, &outcome(report), reasons);
    }
    if invalid == 0 && trials < count {
        let title = format!(
            "Valid, but for {} of the search, which {} not show the system under test",
            format::counted(trials, "step"),
            if trials == 1 { "does" } else { "do" }
        );
        let text = "They are marked as not valid, and no figure is taken from them; they may mean that the system \
                    carries more than was found.";
        return verdict(true, title, text, reasons);
    }
    let invalid = invalid + trials;
    if invalid == count {
        let text = "The figures below were limited by the generator or disturbed. Do not use them to judge a system.";
        let title = "NOT VALID: no run shows the system under test".to_owned();
        return verdict(false, title, text, reasons);
    }
    let title = format!(
        "NOT VALID IN PART: {} of {} {} not show the system under test",
        format::count(invalid as u64),
        format::counted(count, "run"),
        if invalid == 1 { "does" } else { "do" }
    );
    let text = "Medians leave these runs out. Where a load has no valid run, its figures are marked as not valid.";
    verdict(false, title, text, reasons)
}

/// With more systems or operations, their figures are only in the table.
const TOLD: usize = 3;

/// Returns the results of valid runs as a sentence; empty if there are too many.
fn outcome(report: &Report<'_>) -> String {
    let ratios = ratios(report);
    if !ratios.is_empty() {
        return format!("{}.", format::list(&ratios));
    }
    let searches: Vec<String> = report
        .subjects
        .iter()
        .flat_map(|subject| {
            let is_told = |finding: &&Finding| {
                subject.is_named(&finding.system) && finding.name.starts_with("sustainable rate")
            };
            let told = subject.record.findings.iter().filter(is_told);
            told.map(|it| it.sentence(&subject.label, &format::figure(it.value)))
        })
        .collect();
    if (1..=TOLD).contains(&searches.len()) {
        return format!("{}.", format::list(&searches));
    }
    let featured = report.featured();
    if !(1..=TOLD).contains(&featured.len()) {
        return String::new();
    }
    let of_group = |group: &Group<'_>| {
        let achieved = group.median(|run| Some(metrics::achieved_rate(run)))?;
        let success = format::percent(group.median(|run| metrics::success(&run.counts))?);
        let p99 = group.median(|run| percentile(run, Delay::Response, 99.0)).map(|us| us / 1000.0);
        let within = p99.map_or_else(String::new, |ms| {
            format!(", 99 % of them within {} ms", format::figure(ms))
        });
        let (label, operation) = (report.label(group), group.operation());
        let achieved = format::figure(achieved);
        Some(format!(
            "{label} completed {achieved} {operation} operations a second ({success}){within}"
        ))
    };
    let told: Option<Vec<String>> = featured.iter().map(of_group).collect();
    told.map_or_else(String::new, |told| format!("{}.", told.join("; ")))
}

/// Returns the CPU ratios of each other system to the first, for a comparison.
fn ratios(report: &Report<'_>) -> Vec<String> {
    let of_subject = |subject: &Subject<'_>| {
        let mut first = None;
        let mut values: Vec<f64> = Vec::new();
        for finding in subject.record.findings.iter().filter(|it| subject.is_named(&it.system)) {
            let to = finding.name.strip_prefix("CPU of ").and_then(|name| name.split_once(", "));
            let to = to.and_then(|(_, to)| to.strip_suffix(" being 1"));
            if let Some(to) = to.filter(|&to| to != "the bare exchange") {
                first = Some(to);
                values.push(finding.value);
            }
        }
        let low = values.iter().copied().reduce(f64::min)?;
        let high = values.iter().copied().reduce(f64::max)?;
        let range = match low < high {
            true => format!("{} to {}", format::figure(low), format::figure(high)),
            false => format::figure(low),
        };
        Some(format!("{} used {range} times the CPU of {}", subject.label, first?))
    };
    report.subjects.iter().filter_map(of_subject).collect()
}

/// Returns a sentence about the searches that ended at the generator's own ceiling.
fn ceiling(report: &Report<'_>) -> Option<String> {
    let of_subject = |subject: &Subject<'_>| {
        let is_ceiling = |finding: &&Finding| {
            subject.is_named(&finding.system)
                && finding.name.starts_with("ceiling of the generator")
        };
        let finding = subject.record.findings.iter().find(is_ceiling)?;
        Some(finding.sentence(&subject.label, &format::figure(finding.value)))
    };
    report.subjects.iter().find_map(of_subject)
}

/// Returns the verdict about incomplete measurements, with the reasons.
fn incomplete(report: &Report<'_>) -> Option<Verdict> {
    let troubles = report.records.iter().map(|record| record.trouble.clone());
    let reasons: Vec<String> = troubles.filter(|trouble| !trouble.is_empty()).collect();
    let text = "The command ended before its time. The measurement until then is here.";
    let title = "NOT COMPLETE: not all was measured".to_owned();
    (!reasons.is_empty()).then(|| verdict(false, title, text, reasons))
}

/// Returns the verdict about failed runs.
fn failures(report: &Report<'_>) -> Option<Verdict> {
    let reasons: Vec<String> = report
        .records
        .iter()
        .flat_map(|record| record.runs.iter().map(move |run| (record, run)))
        .filter(|(record, _)| record.kind != Kind::Limit)
        .filter_map(|(record, run)| Some(format!("{}: {}", run_name(run), record.failure(run)?)))
        .collect();
    let text = "The counts below name the failures and their statuses.";
    let title = "FAILED: operations did not succeed".to_owned();
    (!reasons.is_empty()).then(|| verdict(false, title, text, reasons))
}

fn verdict(good: bool, title: String, text: &str, reasons: Vec<String>) -> Verdict {
    Verdict { good, title, text: text.to_owned(), reasons }
}

/// Returns each doubt once, with its runs.
fn doubts<'a>(runs: impl Iterator<Item = &'a Run>) -> Vec<String> {
    let mut doubts: Vec<(&str, Vec<String>)> = Vec::new();
    for run in runs {
        for doubt in &run.doubts {
            match doubts.iter_mut().find(|(text, _)| text == doubt) {
                Some((_, names)) => names.push(run_name(run)),
                None => doubts.push((doubt, vec![run_name(run)])),
            }
        }
    }
    let reasons = doubts.into_iter().map(|(doubt, names)| {
        let more = match names.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!("; and {}", format::counted(more, "more run")),
        };
        format!("{doubt} ({}{more})", names[..names.len().min(NAMED)].join("; "))
    });
    reasons.collect()
}

/// Adds the conclusions of the commands, one per line.
fn findings(report: &Report<'_>, section: &mut Section) {
    let findings = report.subjects.iter().flat_map(|subject| {
        // Findings about one step are in the section of findings.
        let about_a_step = |finding: &Finding| {
            let labels = subject.record.runs.iter().map(|run| run.label.as_str());
            labels.filter(|label| !label.is_empty()).any(|label| finding.name.ends_with(label))
        };
        let of_subject = subject
            .record
            .findings
            .iter()
            .filter(move |finding| subject.is_named(&finding.system) && !about_a_step(finding));
        of_subject
            .map(|finding| finding.sentence(&subject.label, &format::figure(finding.value)) + ".")
    });
    let findings: Vec<String> = findings.collect();
    if !findings.is_empty() {
        section.blocks.push(Block::List(findings));
    }
}

/// Returns the text for records without criteria.
fn nothing_required(report: &Report<'_>) -> &'static str {
    if report.records.iter().any(|record| record.kind == Kind::Limit) {
        "A search judges each step; there are no requirements of its runs as a whole."
    } else {
        "There are no requirements (--require)."
    }
}

/// Yields all criteria with their records.
fn all_criteria<'a>(report: &Report<'a>) -> impl Iterator<Item = (&'a Record, &'a Criterion)> {
    report.records.iter().flat_map(|record| record.criteria.iter().map(move |it| (record, it)))
}

/// Returns the verdict about the criteria, if there are any.
fn criteria_verdict(report: &Report<'_>) -> Option<Verdict> {
    let count = all_criteria(report).count();
    let held = all_criteria(report).filter(|(_, criterion)| criterion.held).count();
    let title = match (count - held, count) {
        (_, 0) => return None,
        (0, 1) => "The criterion held".to_owned(),
        (0, _) => format!("All criteria held ({count})"),
        (_, 1) => "The criterion did NOT hold".to_owned(),
        (failed, _) => format!("{failed} of {count} criteria did NOT hold"),
    };
    Some(verdict(held == count, title, "", Vec::new()))
}

fn criteria(report: &Report<'_>, section: &mut Section) {
    let mut table =
        Table::new("Requirements", &["Criterion", "Systems", "Held", "Worst value seen"]);
    for (record, criterion) in all_criteria(report) {
        let of_record =
            report.subjects.iter().filter(|subject| std::ptr::eq(subject.record, record));
        let systems: Vec<String> = of_record.map(|subject| subject.label.clone()).collect();
        let answer = if criterion.held { "✓ yes" } else { "✗ NO" };
        let (text, seen) = (criterion.text.clone(), criterion.seen.clone());
        table.row(vec![text, format::list(&systems), answer.to_owned(), seen]);
    }
    if table.rows.is_empty() {
        section.text(nothing_required(report));
    }
    section.table(table);
}

fn headline(report: &Report<'_>) -> Table {
    let has_steps = |record: &Record| !matches!(record.kind, Kind::Run | Kind::Compare);
    let of_steps = if report.records.iter().any(has_steps) {
        "; of steps, the heaviest load that was carried without a failure"
    } else {
        ""
    };
    let mut table = Table::new(
        format!("Headline figures (medians of the repeats; response times in ms{of_steps})"),
        &[
            "System",
            "Operation",
            "#Offered operations",
            "#Achieved, operations/s",
            "#Success",
            "#p50",
            "#p99",
            "#p99.9",
            "#CPU, µs/operation",
            "#Repeats",
        ],
    );
    // A comparison has its own table with a line per system and operation.
    for group in report.featured().iter().filter(|group| report.kind(group) != Kind::Compare) {
        let response = |percent| group.median(|run| percentile(run, Delay::Response, percent));
        let mut cells = report.name_cells(group);
        cells.extend([
            format::maybe(group.median(|run| Some(metrics::achieved_rate(run)))),
            format::maybe_percent(group.median(|run| metrics::success(&run.counts))),
        ]);
        cells.extend(
            [50.0, 99.0, 99.9]
                .map(|percent| format::maybe(response(percent).map(|us| us / 1000.0))),
        );
        cells.extend([format::maybe(group.median(metrics::cpu_per_operation)), group.repeats()]);
        table.row_doubtful(group.is_doubtful(), cells);
    }
    table
}

/// A figure of a run with its name and unit.
type Measure = (&'static str, &'static str, fn(&Run) -> Option<f64>);

const MEASURES: [Measure; 4] = [
    ("achieved rate", " operations/s", |run| Some(metrics::achieved_rate(run))),
    ("median response", " ms", |run| percentile(run, Delay::Response, 50.0).map(|us| us / 1000.0)),
    ("p99 response", " ms", |run| percentile(run, Delay::Response, 99.0).map(|us| us / 1000.0)),
    ("CPU per operation", " µs", metrics::cpu_per_operation),
];

/// The share of the median from which an outlier is named in the verdict.
const NOTABLE: f64 = 0.1;

/// A repeat that is an outlier.
pub(super) struct Outlier {
    /// The deviation as a share of the median.
    pub(super) deviation: f64,
    /// The description in words.
    pub(super) text: String,
}

/// Returns the outliers among the repeats of each load.
pub(super) fn outliers(report: &Report<'_>) -> Vec<Outlier> {
    let kinds = report.records.iter().map(|record| record.kind).collect::<Vec<_>>();
    let mut outliers = Vec::new();
    for group in report.groups(&kinds) {
        for (name, unit, value) in MEASURES {
            let used = group.used();
            let valued = used.iter().filter_map(|run| value(run).map(|value| (run, value)));
            let valued: Vec<_> = valued.filter(|(_, value)| value.is_finite()).collect();
            let Some(spread) = group.spread(value) else { continue };
            for (run, value) in spread.outliers.iter().filter_map(|&index| valued.get(index)) {
                outliers.push(Outlier {
                    deviation: (value / spread.median - 1.0).abs(),
                    text: format!(
                        "{}: {name} {}{unit}, where the median is {}{unit}",
                        run_name(run),
                        format::figure(*value),
                        format::figure(spread.median)
                    ),
                });
            }
        }
    }
    outliers
}

pub(super) fn setup(report: &Report<'_>) -> Section {
    let mut section = Section::new(
        "setup",
        "The measurement",
        "The commands that repeat the measurement, the machine of the load, and the settings of \
         the systems.",
    );
    for record in report.records {
        let mut text =
            format!("{}, begun {}", kind_name(record.kind), format::time(record.started));
        if !record.tool.is_empty() {
            text += &format!(", by {}", record.tool);
        }
        section.text(text + ".");
        section.blocks.push(Block::Code(format::command(&record.command)));
    }
    let mut machines = Table::new(
        "The machine of the load",
        &["Host", "Processor", "#Cores", "#Memory", "Operating system"],
    );
    let mut seen: Vec<&Machine> = Vec::new();
    let of_load = report.records.iter().flat_map(|record| {
        std::iter::once(&record.machine).chain(record.agents.iter().map(|agent| &agent.machine))
    });
    for machine in of_load {
        if !seen.contains(&machine) {
            seen.push(machine);
            machines.row(vec![
                machine.host.clone(),
                machine.cpu.clone(),
                format::count(machine.cores as u64),
                format::bytes(machine.memory),
                machine.system.clone(),
            ]);
        }
    }
    section.table(machines);
    let mut systems = Table::new(
        "Systems under test",
        &["System", "Version", "Reached at", "#Answered after, s", "Started by", "Configuration"],
    );
    for subject in &report.subjects {
        let dash = || format::NONE.to_owned();
        systems.row(match subject.system {
            Some(system) => vec![
                subject.label.clone(),
                system.version.clone().unwrap_or_else(dash),
                system.target.clone(),
                system.ready.map_or_else(dash, |seconds| format!("{seconds:.2}")),
                system
                    .command
                    .as_deref()
                    .map_or_else(|| "another program".to_owned(), format::command),
                if system.remarks.is_empty() { dash() } else { system.remarks.join(" ") },
            ],
            None => vec![subject.label.clone(), dash(), dash(), dash(), dash(), dash()],
        });
    }
    section.table(systems);
    section.table(loads(report));
    section
}

/// Returns the table of the kinds of load; parameters that differ between steps are shown as a
/// range.
fn loads(report: &Report<'_>) -> Table {
    let mut table = Table::new(
        "Load",
        &[
            "Operation",
            "Arrivals",
            "#Offered, operations/s",
            "#Users",
            "#Sockets",
            "#Workers",
            "#Calls held, s",
            "#Measured, s",
        ],
    );
    let mut loads: Vec<(String, Vec<&Run>)> = Vec::new();
    for run in report.records.iter().flat_map(|record| &record.runs) {
        let operation = operation(&run.load);
        let same = |(name, runs): &&mut (String, Vec<&Run>)| {
            *name == operation
                && runs[0].load.arrivals == run.load.arrivals
                && runs[0].load.hold == run.load.hold
        };
        match loads.iter_mut().find(same) {
            Some((_, runs)) => runs.push(run),
            None => loads.push((operation, vec![run])),
        }
    }
    let values: [fn(&Run) -> f64; 6] = [
        |run| run.load.rate,
        |run| run.load.users as f64,
        |run| run.load.sockets as f64,
        |run| run.load.workers as f64,
        |run| run.load.hold,
        |run| run.seconds,
    ];
    let mut rows: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    for (operation, runs) in loads {
        let mut row = vec![runs[0].load.arrivals.clone()];
        row.extend(values.map(|value| range(runs.iter().map(|run| value(run)))));
        match rows.iter_mut().find(|(_, other)| *other == row) {
            Some((operations, _)) => operations.push(operation),
            None => rows.push((vec![operation], row)),
        }
    }
    for (operations, mut row) in rows {
        row.insert(0, operations.join("; "));
        table.row(row);
    }
    table
}

/// Returns the smallest and the greatest of some values.
fn range(values: impl Iterator<Item = f64>) -> String {
    let ends = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    let text = |value: f64| {
        if value.fract() == 0.0 { format::tick(value) } else { format::figure(value) }
    };
    match ends {
        (low, high) if low < high => format!("{}–{}", text(low), text(high)),
        (low, _) => text(low),
    }
}
