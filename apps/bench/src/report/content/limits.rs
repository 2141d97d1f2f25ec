//! The limits of each system: the table of published figures (see docs/sources.md), and the search
//! of RFC 7502.

use super::basis::{Report, is_whole, request_delay, unless_empty};
use super::bursts::{self, TIMEOUT_LIMIT};
use crate::curve;
use crate::metrics;
use crate::record::{Delay, Kind, Run};
use crate::report::chart::{Axis, Chart, Line, Look, Place, Scale};
use crate::report::document::{Section, Table};
use crate::report::format;
use crate::report::groups::{Group, Subject, operation, percentile};

/// The limit of an acceptable delay (see docs/sources.md), in microseconds.
pub(super) const DELAY_LIMIT_US: f64 = curve::DELAY_LIMIT_US as f64;

/// The loads of one operation on one system, by rising rate.
pub(super) struct Curve<'a> {
    pub(super) subject: usize,
    pub(super) operation: String,
    pub(super) groups: Vec<Group<'a>>,
    /// The knee of the delay curve: rate and median delay in microseconds.
    pub(super) knee: Option<(f64, f64)>,
}

/// Returns the curves in records of these kinds.
pub(super) fn curves<'a>(report: &Report<'a>, kinds: &[Kind]) -> Vec<Curve<'a>> {
    let mut curves: Vec<Curve<'a>> = Vec::new();
    for group in report.groups(kinds) {
        let operation = group.operation();
        let belongs =
            |curve: &&mut Curve<'_>| curve.subject == group.subject && curve.operation == operation;
        match curves.iter_mut().find(belongs) {
            Some(curve) => curve.groups.push(group),
            None => curves.push(Curve {
                subject: group.subject,
                operation,
                groups: vec![group],
                knee: None,
            }),
        }
    }
    for curve in &mut curves {
        curve.groups.sort_by(|a, b| a.load.rate.total_cmp(&b.load.rate));
        let runs = curve.groups.iter().flat_map(|group| group.runs.iter().copied());
        curve.knee = curve::flat_end(runs);
    }
    curves
}

/// Returns the operations of the curves, in their order.
pub(super) fn operations(curves: &[Curve<'_>]) -> Vec<String> {
    let mut operations: Vec<String> = Vec::new();
    for curve in curves {
        if !operations.contains(&curve.operation) {
            operations.push(curve.operation.clone());
        }
    }
    operations
}

impl Curve<'_> {
    /// Returns the loads with a valid run.
    fn valid(&self) -> impl Iterator<Item = &Group<'_>> {
        self.groups.iter().filter(|group| !group.is_doubtful())
    }

    /// Returns rates with median delays in microseconds.
    fn delays(&self) -> Vec<(f64, f64)> {
        let delay = request_delay(&self.groups[0]);
        let point = |group: &Group<'_>| {
            Some((group.load.rate, group.median(|run| percentile(run, delay, 50.0))?))
        };
        self.valid().filter_map(point).collect()
    }
}

/// Returns the section of the limits of all systems, if the records have limits.
pub(super) fn table(report: &Report<'_>) -> Option<Section> {
    let mut section = Section::new(
        "limits",
        "The systems' limits",
        "The limit is the highest step below the first one that failed: at rising rates, where operations \
         failed, the median delay left its flat part or exceeded 300 ms; of a proxy, where a call failed or 5 % \
         of the delays exceeded 300 ms; in a search, where an operation failed.",
    );
    let mut table = Table::new(
        "Limits by rate",
        &[
            "System",
            "Operation",
            "#Limit, operations/s",
            "Set by",
            "#First failures at",
            "#Delay leaves flat part at",
            "#300 ms exceeded at",
            "#Highest achieved, operations/s",
        ],
    );
    for curve in curves(report, &[Kind::Sweep, Kind::Proxy, Kind::Limit]) {
        table.row(limit_row(report, &curve));
    }
    section.table(table);
    section.table(burst_limits(report));
    section.table(user_limits(report));
    unless_empty(section)
}

fn limit_row(report: &Report<'_>, curve: &Curve<'_>) -> Vec<String> {
    let failing = curve.valid().find(|group| !is_whole(group)).map(|group| group.load.rate);
    let knee = curve.knee.map(|(rate, _)| rate);
    let kind = report.subjects[curve.subject].record.kind;
    let slow = match kind {
        Kind::Proxy => curve
            .valid()
            .find(|group| is_whole(group) && !group.used().into_iter().all(curve::carries_calls))
            .map(|group| group.load.rate),
        _ => curve.delays().into_iter().find(|&(_, us)| us > DELAY_LIMIT_US).map(|(rate, _)| rate),
    };
    let reasons = [(failing, "failures"), (slow, "300 ms"), (knee, "delay leaves its flat part")];
    // The same threshold as that of the command, so that its finding agrees.
    let count = match kind {
        Kind::Limit => 1,
        Kind::Proxy => 2,
        _ => 3,
    };
    let first = reasons
        .into_iter()
        .take(count)
        .filter_map(|(rate, reason)| Some((rate?, reason)))
        .min_by(|a, b| a.0.total_cmp(&b.0));
    let rates = curve.valid().map(|group| group.load.rate);
    let below = rates.filter(|&rate| first.is_none_or(|(end, _)| rate < end)).last();
    let (limit, reason) = match (below, first) {
        (None, None) => (format::NONE.to_owned(), "no valid run"),
        (None, Some((rate, reason))) => (format!("below {}", format::figure(rate)), reason),
        (Some(rate), None) => (format!("{} or more", format::figure(rate)), "not reached"),
        (Some(rate), Some((_, reason))) => (format::figure(rate), reason),
    };
    let achieved =
        curve.valid().filter_map(|group| group.median(|run| Some(metrics::achieved_rate(run))));
    let peak = achieved.max_by(f64::total_cmp);
    vec![
        report.subjects[curve.subject].label.clone(),
        curve.operation.clone(),
        limit,
        reason.to_owned(),
        format::maybe(failing),
        format::maybe(knee),
        format::maybe(slow),
        format::maybe(peak),
    ]
}

/// Of the numbers of users with valid runs, returns the last one before a condition fails, and the
/// first at which it fails.
fn steps_before<'g, 'a>(
    groups: &'g [Group<'a>],
    holds: impl Fn(&Group<'_>) -> bool,
) -> (Option<&'g Group<'a>>, Option<&'g Group<'a>>) {
    let mut before = None;
    for group in groups.iter().filter(|group| !group.is_doubtful()) {
        if !holds(group) {
            return (before, Some(group));
        }
        before = Some(group);
    }
    (before, None)
}

fn users_cells(steps: (Option<&Group<'_>>, Option<&Group<'_>>)) -> [String; 2] {
    let users = |group: &Group<'_>| format::count(group.load.users);
    match steps {
        (Some(before), None) => [format!("{} or more", users(before)), format::NONE.to_owned()],
        (None, Some(first)) => [format!("below {}", users(first)), users(first)],
        (Some(before), Some(first)) => [users(before), users(first)],
        (None, None) => [format::NONE.to_owned(), format::NONE.to_owned()],
    }
}

fn burst_limits(report: &Report<'_>) -> Table {
    let mut table = Table::new(
        "Limits by registrations in bursts (at most 2 of 15 may time out)",
        &[
            "System",
            "Operation",
            "#Holds, users",
            "#Fails first at, users",
            "#Without any failure, users",
        ],
    );
    for groups in bursts::by_users(report, Kind::Burst) {
        let held = users_cells(steps_before(&groups, |group| {
            bursts::timeouts(group).is_some_and(|share| share <= TIMEOUT_LIMIT)
        }));
        let [whole, _] = users_cells(steps_before(&groups, is_whole));
        if let Some(group) = groups.first() {
            let [limit, fails] = held;
            table.row(vec![report.label(group), group.operation(), limit, fails, whole]);
        }
    }
    table
}

fn user_limits(report: &Report<'_>) -> Table {
    let mut table = Table::new(
        "Limits by parallel users (the highest number of users without a loss)",
        &["System", "Operation", "#Without loss, users", "#First loss at, users"],
    );
    for groups in bursts::by_users(report, Kind::Qos) {
        if let Some(group) = groups.first() {
            let [limit, fails] = users_cells(steps_before(&groups, is_whole));
            table.row(vec![bursts::series_name(report, group), group.operation(), limit, fails]);
        }
    }
    table
}

/// Returns the section of the searches for the highest rate, by step, if there are any.
pub(super) fn search(report: &Report<'_>) -> Option<Section> {
    let mut section = Section::new(
        "search",
        "The search for the highest rate",
        "Each step offers a rate; if an operation fails, the next rate is lower, otherwise higher, until the \
         limit is known closely enough and confirmed by repeats (RFC 7502).",
    );
    for subject in &report.subjects {
        if subject.record.kind != Kind::Limit {
            continue;
        }
        let of_subject = |run: &&Run| subject.is_of(run);
        let runs: Vec<&Run> = subject.record.runs.iter().filter(of_subject).collect();
        let mut names: Vec<String> = Vec::new();
        for run in &runs {
            if !names.contains(&operation(&run.load)) {
                names.push(operation(&run.load));
            }
        }
        for name in names {
            let runs: Vec<&Run> =
                runs.iter().copied().filter(|run| operation(&run.load) == name).collect();
            section.heading(format!("{}, {name}", subject.label));
            section.chart(search_chart(subject, &name, &runs));
            section.table(search_table(&runs));
        }
    }
    unless_empty(section)
}

fn carried(run: &Run) -> bool {
    run.counts.offered > 0 && run.counts.succeeded >= run.counts.offered
}

fn search_chart(subject: &Subject<'_>, name: &str, runs: &[&Run]) -> Chart {
    let mut chart = Chart::new(
        "Rates that were tried",
        Axis::new("run, in the order of time", Scale::Span),
        Axis::new("offered, operations per second", Scale::Linear),
    );
    let points: Vec<_> = runs
        .iter()
        .enumerate()
        .map(|(index, run)| (run, (index as f64 + 1.0, run.load.rate)))
        .collect();
    let those = |which: &dyn Fn(&Run) -> bool| -> Vec<(f64, f64)> {
        points.iter().filter(|(run, _)| which(run)).map(|&(_, point)| point).collect()
    };
    chart.line(Line::plain("", Look::Reference, those(&|_| true)));
    let mut good = Line::dots(
        "carried without a failure",
        Look::Number(0),
        those(&|run| run.is_valid() && carried(run)),
    );
    good.doubtful = those(&|run| !run.is_valid());
    chart.line(good);
    chart.line(Line::dots(
        "failures",
        Look::Number(1),
        those(&|run| run.is_valid() && !carried(run)),
    ));
    let findings =
        subject.record.findings.iter().filter(|finding| subject.is_named(&finding.system));
    let about = name.split(',').next().unwrap_or(name);
    for finding in findings.filter(|finding| finding.unit == "1/s") {
        if finding.name.split_whitespace().any(|word| word == about) && finding.value.is_finite() {
            chart.mark(Place::Y(finding.value), format!("{}/s", format::figure(finding.value)));
        }
    }
    chart
}

fn search_table(runs: &[&Run]) -> Table {
    let mut table = Table::new(
        "Step by step",
        &[
            "Step",
            "#Offered, operations/s",
            "#Achieved, operations/s",
            "#Operations",
            "#Not succeeded",
            "#p99, ms",
            "Outcome",
        ],
    );
    for (index, run) in runs.iter().enumerate() {
        let label = if run.label.is_empty() { String::new() } else { format!(" ({})", run.label) };
        let failed = run.counts.offered.saturating_sub(run.counts.succeeded);
        table.row_doubtful(
            !run.is_valid(),
            vec![
                format!("{}{label}", index + 1),
                format::figure(run.load.rate),
                format::figure(metrics::achieved_rate(run)),
                format::count(run.counts.offered),
                format::count(failed),
                format::maybe(percentile(run, Delay::Response, 99.0).map(|us| us / 1000.0)),
                match (run.is_valid(), carried(run)) {
                    (false, _) => "tells nothing".to_owned(),
                    (true, true) => "carried".to_owned(),
                    (true, false) => "failures".to_owned(),
                },
            ],
        );
    }
    table
}

/// Returns the section of the conclusions of the commands, if there are any.
pub(super) fn findings(report: &Report<'_>) -> Option<Section> {
    let mut section = Section::new(
        "findings",
        "Findings",
        "The conclusions of the commands from their runs, with the ratio to the first system.",
    );
    let mut table = Table::new(
        "Findings",
        &["System", "Finding", "#Value", "Unit", "#Ratio to the first", "How sure"],
    );
    let all = || {
        report.subjects.iter().flat_map(|subject| {
            let of_subject = subject.record.findings.iter();
            of_subject
                .filter(|finding| subject.is_named(&finding.system))
                .map(move |finding| (subject, finding))
        })
    };
    for (subject, finding) in all() {
        let first =
            all().find(|(_, other)| other.name == finding.name && other.unit == finding.unit);
        let others = first.filter(|(_, first)| !std::ptr::eq(*first, finding));
        let ratio = others.map(|(_, first)| finding.value / first.value);
        table.row(vec![
            subject.label.clone(),
            finding.name.clone(),
            format::figure(finding.value),
            finding.unit_in_words().to_owned(),
            format::maybe(ratio),
            if finding.remark.is_empty() {
                format::NONE.to_owned()
            } else {
                finding.remark.clone()
            },
        ]);
    }
    section.table(table);
    unless_empty(section)
}
