//! What a command leaves behind: a summary on standard output, and reports in files.

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

/// Judges the runs, writes the reports and tells the result, where the measuring ended with
/// `outcome`. Whether all was measured, all runs were valid, and what was required held.
///
/// # Errors
/// [`CommandError`] where a report cannot be written, or that of the outcome: what was measured
/// before is written and told nevertheless.
pub(crate) fn finish(
    mut record: Record,
    outcome: Result<(), CommandError>,
    args: &OutputArgs,
) -> Result<bool, CommandError> {
    record.criteria = args.criteria(&record.runs);
    let is_well = is_well(&record);
    finish_search(record, outcome, args).map(|is_whole| is_whole && is_well)
}

/// The same for a command that goes on until something fails: no run is judged. Whether all was
/// measured.
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
            | CommandError::Measure(MeasureError::Stopped | MeasureError::Unanswered { .. }),
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
    // One that cannot be written is no reason to lose the others, or what is told here.
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

/// Success if there are no `errors`; the last of them, where the others have been told.
fn all(errors: impl Iterator<Item = CommandError>) -> Result<(), CommandError> {
    let told = |error, next| {
        complain(error);
        next
    };
    errors.reduce(told).map_or(Ok(()), Err)
}

/// Whether what `command` is to leave behind can be written, which is found out before it does
/// anything.
///
/// # Errors
/// [`CommandError::Report`] where a name tells no form, or no file of that name can be written.
pub(crate) fn check(command: &Command) -> Result<(), CommandError> {
    let output = match command {
        Command::Run(args) => &args.output,
        Command::Sweep(args) => &args.output,
        Command::Limit(args) => &args.output,
        Command::Burst(args) => &args.output,
        Command::Qos(args) => &args.output,
        Command::Proxy(args) => &args.output,
        Command::Compare(args) => &args.output,
        Command::Report(args) => {
            return Ok(args.output.iter().try_for_each(|path| report::check(path))?);
        }
        Command::Srtp(args) => {
            return Ok(args.output.iter().try_for_each(|path| report::check_page(path))?);
        }
        Command::Cost(_)
        | Command::Capture(_)
        | Command::Peer(_)
        | Command::Agent(_)
        | Command::Extras { .. } => return Ok(()),
    };
    output.output.iter().try_for_each(|path| report::check(path))?;
    if output.output.is_empty() && !output.no_report {
        // The name will have the time in it.
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
