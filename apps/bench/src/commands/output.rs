//! The output of a command: a summary on standard output, and reports in files.

use super::error::CommandError;
use super::session::Means;
use super::summary;
use crate::cli::{Command, OutputArgs, ReportArgs};
use crate::console::{complain, print};
use crate::measure::MeasureError;
use crate::record::{FORMAT, Finding, Kind, Record, System};
use crate::report;
use crate::watch;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Returns a record without runs, for the current command.
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
        agents: means
            .fleet
            .as_ref()
            .or(means.receiver.as_ref())
            .map(|fleet| fleet.machines())
            .unwrap_or_default(),
        systems,
        runs: Vec::new(),
        findings: Vec::new(),
        trouble: String::new(),
        criteria: Vec::new(),
    }
}

/// Evaluates the runs, writes the reports and prints the result of a measurement that ended with
/// `outcome`. Returns true if the measurement is complete, all runs were valid, and the criteria
/// held.
///
/// # Errors
/// [`CommandError`] if a report cannot be written, or the error of `outcome`. The measurements
/// before it are written and printed nevertheless.
pub(crate) fn finish(
    mut record: Record,
    outcome: Result<(), CommandError>,
    args: &OutputArgs,
) -> Result<bool, CommandError> {
    record.criteria = args.criteria(&record.runs);
    let is_well = is_well(&record);
    finish_search(record, outcome, args).map(|is_whole| is_whole && is_well)
}

/// As [`finish`], for a search: runs are expected to fail and are not evaluated. Returns true if
/// the measurement is complete.
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
        // The end of the server is a result, not an error.
        Some(
            CommandError::Ended(..)
            | CommandError::NoServer(..)
            | CommandError::Measure(MeasureError::Stopped | MeasureError::Unanswered { .. }),
        ) => Ok(false),
        Some(error) => Err(error),
    }
}

/// Writes the reports and prints the result.
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
    if let Some(board) = &args.board {
        board.report(records);
    }
    // All reports and the summary are written, even if one report fails.
    let written: Vec<_> = paths.iter().map(|path| (path, report::write(records, path))).collect();
    let mut text = match args.json {
        true => report::json(records),
        false => summary::text(record),
    };
    if !args.json {
        for (path, _) in written.iter().filter(|(_, written)| written.is_ok()) {
            let _ = writeln!(text, "report: {}", path.display());
        }
    }
    let printed = print(&text).map_err(CommandError::Print);
    let failed = written.into_iter().filter_map(|(_, written)| written.err());
    all(failed.map(CommandError::from).chain(printed.err()))
}

fn is_well(record: &Record) -> bool {
    !record.runs.is_empty()
        && record.runs.iter().all(|run| run.is_valid() && record.failure(run).is_none())
        && record.criteria.iter().all(|criterion| criterion.held)
}

/// Returns a conclusion about a system.
pub(crate) fn finding(
    system: &str,
    name: String,
    value: f64,
    unit: &str,
    remark: String,
) -> Finding {
    Finding { system: system.to_owned(), name, value, unit: unit.to_owned(), remark }
}

/// Returns the last of the `errors`, after printing the others, or success if there are no errors.
fn all(errors: impl Iterator<Item = CommandError>) -> Result<(), CommandError> {
    let told = |error, next| {
        complain(error);
        next
    };
    errors.reduce(told).map_or(Ok(()), Err)
}

/// Checks that the output files of `command` can be written, before it does anything.
///
/// # Errors
/// [`CommandError::Report`] if a suffix is unknown, or a file cannot be created.
pub(crate) fn check(command: &Command) -> Result<(), CommandError> {
    let output = match command {
        Command::Run(args) => &args.output,
        Command::Sweep(args) => &args.output,
        Command::Limit(args) => &args.output,
        Command::Burst(args) => &args.output,
        Command::Qos(args) => &args.output,
        Command::Proxy(args) => &args.output,
        Command::Compare(args) => &args.output,
        Command::Media(args) => &args.output,
        Command::Report(args) => {
            return Ok(args.output.iter().try_for_each(|path| report::check(path))?);
        }
        Command::Srtp(args) => {
            return Ok(args.output.iter().try_for_each(|path| report::check_flood(path))?);
        }
        Command::Scenario(args) => {
            return Ok(args.output.iter().try_for_each(|path| report::check_scenario(path))?);
        }
        Command::Cost(_)
        | Command::Capture(_)
        | Command::Peer(_)
        | Command::Agent(_)
        | Command::Seeds(_)
        | Command::Watch(_)
        | Command::Extras { .. } => return Ok(()),
    };
    output.output.iter().try_for_each(|path| report::check(path))?;
    if output.output.is_empty() && !output.no_report {
        // The final name contains the time.
        report::check(Path::new(&format!("barebell-bench-{}.json", std::process::id())))?;
    }
    Ok(())
}

/// Makes one report of several records.
pub(crate) fn report(args: &ReportArgs) -> Result<bool, CommandError> {
    let mut records = Vec::new();
    for path in &args.records {
        records.extend(report::read(path)?);
    }
    for path in &args.output {
        report::write(&records, path)?;
        print(&format!("report: {}\n", path.display())).map_err(CommandError::Print)?;
    }
    Ok(true)
}
