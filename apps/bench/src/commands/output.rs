//! What a command leaves behind: a summary on standard output, and reports in files.

use super::session::Means;
use super::{CommandError, summary};
use crate::cli::{OutputArgs, ReportArgs};
use crate::measure::MeasureError;
use crate::record::{FORMAT, Finding, Kind, Record, System};
use crate::report;
use crate::watch;
use std::path::PathBuf;

/// A record without runs, for the command that runs now.
pub(crate) fn record(kind: Kind, systems: Vec<System>, means: &Means<'_>) -> Record {
    Record {
        format: FORMAT,
        tool: concat!("barebell-bench ", env!("CARGO_PKG_VERSION")).to_owned(),
        kind,
        command: std::iter::once("barebell-bench".to_owned())
            .chain(std::env::args().skip(1))
            .collect(),
        started: net::wall_clock().as_secs(),
        machine: watch::machine(),
        agents: means.fleet.as_ref().map(|fleet| fleet.machines()).unwrap_or_default(),
        systems,
        runs: Vec::new(),
        findings: Vec::new(),
        trouble: String::new(),
        criteria: Vec::new(),
    }
}

/// Judges the runs, writes the reports and tells the result, where the measuring ended with `outcome`.
/// Whether all was measured, all runs were valid, and what was required held.
///
/// # Errors
/// [`CommandError`] where a report cannot be written, or that of the outcome: what was measured before is
/// written and told nevertheless.
pub(crate) fn finish(
    mut record: Record,
    outcome: Result<(), CommandError>,
    args: &OutputArgs,
) -> Result<bool, CommandError> {
    record.criteria = args.criteria(&record.runs);
    let is_well = is_well(&record);
    finish_search(record, outcome, args).map(|is_whole| is_whole && is_well)
}

/// The same for a command that goes on until something fails: no run is judged. Whether all was measured.
///
/// # Errors
/// As of [`finish`].
pub(crate) fn finish_search(
    mut record: Record,
    outcome: Result<(), CommandError>,
    args: &OutputArgs,
) -> Result<bool, CommandError> {
    let error = outcome.err();
    match error {
        Some(error) if record.runs.is_empty() => return Err(error),
        _ => record.trouble = error.as_ref().map(ToString::to_string).unwrap_or_default(),
    }
    tell(&[record], args)?;
    match error {
        None => Ok(true),
        // That is a result.
        Some(
            CommandError::Ended(..)
            | CommandError::NoServer(..)
            | CommandError::Measure(MeasureError::Stopped),
        ) => Ok(false),
        Some(error) => Err(error),
    }
}

/// Writes the reports, and tells what was found.
fn tell(records: &[Record; 1], args: &OutputArgs) -> Result<(), CommandError> {
    let [record] = records;
    let mut paths = args.output.clone();
    if paths.is_empty() && !args.no_report {
        let name = summary::kind_name(record.kind);
        let stamp = humantime::format_rfc3339_seconds(
            std::time::UNIX_EPOCH + std::time::Duration::from_secs(record.started),
        );
        let stamp = stamp.to_string().replace([':', '-'], "").replace('T', "-").replace('Z', "");
        for form in ["json", "html"] {
            paths.push(PathBuf::from(format!("barebell-bench-{name}-{stamp}.{form}")));
        }
    }
    for path in &paths {
        report::write(records, path)?;
    }
    if args.json {
        println!("{}", report::json(records));
    } else {
        print!("{}", summary::text(record));
        for path in &paths {
            println!("report: {}", path.display());
        }
    }
    Ok(())
}

fn is_well(record: &Record) -> bool {
    !record.runs.is_empty()
        && record.runs.iter().all(|run| run.is_valid() && record.failure(run).is_none())
        && record.criteria.iter().all(|criterion| criterion.held)
}

/// A conclusion about a system.
pub(crate) fn finding(
    system: &str,
    name: String,
    value: f64,
    unit: &str,
    remark: String,
) -> Finding {
    Finding { system: system.to_owned(), name, value, unit: unit.to_owned(), remark }
}

/// Makes one report of several records.
pub(crate) fn report(args: &ReportArgs) -> Result<bool, CommandError> {
    let mut records = Vec::new();
    for path in &args.records {
        records.extend(report::read(path)?);
    }
    for path in &args.output {
        report::write(&records, path)?;
        println!("report: {}", path.display());
    }
    Ok(true)
}
