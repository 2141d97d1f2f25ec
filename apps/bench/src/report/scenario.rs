//! The report of a scenario.

use super::ReportError;
use super::document::{Document, Section, Table};
use crate::scenario::{Outcome, cells};
use std::fs;
use std::path::Path;

fn document(outcome: &Outcome) -> Document {
    let counts = &outcome.counts;
    let mut section = Section::new(
        "scenario",
        "Calls and messages",
        "A call has succeeded if it went through all steps of the scenario.",
    );
    section.text(format!(
        "{} ({}): {} calls, {} succeeded, {} failed, in {:.1} s; at most {} at once.",
        outcome.scenario,
        outcome.file,
        counts.started,
        counts.succeeded,
        counts.failed,
        outcome.seconds,
        counts.peak
    ));
    if let Some(system) = &outcome.system {
        let version = system.version.as_deref().unwrap_or("unknown version");
        section.text(format!("Server: {} ({version}), {}.", system.name, system.target));
    }
    let columns = ["step", "#messages", "#retransmitted", "#timed out", "#unexpected"];
    let mut steps = Table::new("Steps", &columns);
    for step in &counts.steps {
        let Some(label) = &step.label else { continue };
        let figures = [step.count, step.retransmitted, step.timed_out, step.unexpected];
        let figures = figures.iter().map(u64::to_string);
        steps.row([label.clone()].into_iter().chain(figures).collect());
    }
    section.table(steps);
    let columns = ["time", "#50 %, ms", "#90 %, ms", "#99 %, ms", "#99.9 %, ms", "#maximum, ms"];
    let mut times = Table::new("Response times and call length", &columns);
    let response_times = counts.response_times.iter();
    let response_times = response_times.map(|(name, time)| (format!("response time {name}"), time));
    for (name, time) in response_times.chain([("call length".to_owned(), &counts.call_length)]) {
        if !time.is_empty() {
            times.row([name].into_iter().chain(cells(time)).collect());
        }
    }
    section.table(times);
    let mut others = Table::new("Failures and other counts", &["count", "#number"]);
    for (name, count) in outcome.remarks() {
        others.row(vec![name, count.to_string()]);
    }
    section.table(others);
    Document { title: "A scenario".to_owned(), sections: vec![section] }
}

/// Returns the figures as JSON.
pub(crate) fn scenario_json(outcome: &Outcome) -> String {
    serde_json::to_string_pretty(outcome).expect("the figures have a JSON form") + "\n"
}

/// Checks that the report of a scenario can be written to this file.
///
/// # Errors
/// As of [`write_scenario`].
pub(crate) fn check_scenario(path: &Path) -> Result<(), ReportError> {
    super::check_flood(path)
}

/// Writes the report in the form of the file's suffix: `.html` or `.md`, or `.json` for the figures
/// alone.
///
/// # Errors
/// The suffix is another one, or the file cannot be written.
pub(crate) fn write_scenario(outcome: &Outcome, path: &Path) -> Result<(), ReportError> {
    if path.extension().is_none_or(|extension| extension != "json") {
        return super::write_page(&document(outcome), path);
    }
    fs::write(path, scenario_json(outcome))
        .map_err(|error| ReportError::Write(path.to_owned(), error))
}
