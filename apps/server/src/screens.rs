//! `barebell status`, and lists, once or every second.

use crate::access::Access;
use crate::admin::ask::Ask;
use crate::admin::sink::Row;
use crate::admin::{Condition, Request, Status, StoppedStatus};
use crate::cli::{Place, ScreenFlags, StatusFlags};
use crate::data_dir;
use crate::domains::unserved_users;
use crate::failure::Failure;
use crate::output::Out;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::thread;
use std::time::{self, Duration, SystemTime};

/// The interval between the samples for rates, and between screens.
const SECOND: Duration = Duration::from_secs(1);

/// The exit status of `barebell status` for a running server that is not ready for requests. 1
/// stands for no running server, and 2 for a wrong command line.
const NOT_READY: u8 = 3;

/// Shows the status of the server.
///
/// # Errors
/// [`Failure`] if the server is stopped, or neither the server nor its data can be accessed.
pub(crate) fn status(flags: &StatusFlags, out: &mut Out) -> Result<(), Failure> {
    let StatusFlags { totals, screen: flags } = flags;
    // A total is no difference between two samples.
    let mut before = if *totals { None } else { Some(Sample::take(&flags.place)?) };
    loop {
        let is_running =
            before.as_ref().is_some_and(|it| matches!(it.condition, Condition::Running(_)));
        if flags.watch || is_running {
            thread::sleep(SECOND);
        }
        let now = Sample::take(&flags.place)?;
        let report = Report::new(before.as_ref(), &now);
        if flags.json {
            out.json(&report)?;
        } else {
            show(&report.text(), flags, out)?;
        }
        out.flush()?;
        if !flags.watch {
            return match now.condition {
                Condition::Running(status) if status.problems.is_empty() => Ok(()),
                Condition::Running(_) => Err(Failure::State(NOT_READY)),
                Condition::Stopped(_) => Err(Failure::Found),
            };
        }
        before = Some(now);
    }
}

/// A list that the server returns in rows.
pub(crate) struct Rows<T> {
    pub(crate) request: Request,
    /// The text if there is no row.
    pub(crate) none: &'static str,
    pub(crate) sort: fn(&mut [T]),
    pub(crate) table: fn(&[T]) -> String,
}

impl<T: Row> Rows<T> {
    /// Shows the list, once or every second.
    ///
    /// # Errors
    /// [`Failure`] if neither the server nor its data can be accessed.
    pub(crate) fn show(&self, flags: &ScreenFlags, out: &mut Out) -> Result<(), Failure> {
        loop {
            let mut rows = Vec::new();
            let access = Access::open_existing(&flags.place)?;
            if !access.as_ref().is_some_and(Access::is_of_server) {
                refuse_if_elsewhere(&flags.place, &flags.place.settings()?.data()?)?;
            }
            if let Some(access) = access {
                access.list(&self.request, &mut |row: T| {
                    rows.push(row);
                    Ok(())
                })?;
            }
            (self.sort)(&mut rows);
            if flags.json && flags.watch {
                out.json(&rows)?;
            } else if flags.json {
                rows.iter().try_for_each(|row| out.json(row))?;
            } else if rows.is_empty() {
                show(self.none, flags, out)?;
            } else {
                show(&(self.table)(&rows), flags, out)?;
            }
            out.flush()?;
            if !flags.watch {
                return Ok(());
            }
            thread::sleep(SECOND);
        }
    }
}

/// Returns an error if no place is given, no server uses the `data` of this user, and the
/// system-wide server runs, or may run with data that this user is not permitted to read.
pub(crate) fn refuse_if_elsewhere(place: &Place, data: &Path) -> Result<(), Failure> {
    let system = Path::new(data_dir::SYSTEM);
    let is_named = place.config.is_some() || place.data.is_some();
    if is_named || data == system {
        return Ok(());
    }
    let runs = match (data_dir::is_served(system), data_dir::is_closed(system)) {
        (true, _) => "runs",
        (false, true) => "may run",
        (false, false) => return Ok(()),
    };
    let owner = data_dir::owner(system);
    let others = if owner == "root" { "" } else { " and root" };
    let command: Vec<String> = std::env::args().collect();
    Err(Failure::message(format!(
        "a server {runs} with the data in {}, which only {owner}{others} may ask: sudo -u {owner} {} \
         --data {}; no server runs with your own data in {}",
        system.display(),
        command.join(" "),
        system.display(),
        data.display()
    )))
}

/// Writes a screen. On a terminal it replaces the one before.
fn show(text: &str, flags: &ScreenFlags, out: &mut Out) -> Result<(), Failure> {
    if flags.watch && out.is_terminal() {
        out.text("\x1b[2J\x1b[H")?;
    }
    out.text(text)?;
    if flags.watch { out.text("\n") } else { Ok(()) }
}

/// The status of the server at one time.
struct Sample {
    at: time::Instant,
    condition: Condition,
}

impl Sample {
    fn take(place: &Place) -> Result<Self, Failure> {
        let condition = match Access::open_existing(place)? {
            Some(access) => access.ask(&Request::Status)?,
            None => Condition::Stopped(StoppedStatus::new(&place.settings()?.data()?)),
        };
        if let Condition::Stopped(stopped) = &condition {
            refuse_if_elsewhere(place, &stopped.data)?;
        }
        Ok(Self { at: time::Instant::now(), condition })
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Report {
    Running {
        running: bool,
        #[serde(flatten)]
        status: Box<Status>,
        /// The rates of the counters per second, since the sample before.
        rates: BTreeMap<String, f64>,
    },
    Stopped(StoppedStatus),
}

impl Report {
    fn new(before: Option<&Sample>, now: &Sample) -> Self {
        let status = match &now.condition {
            Condition::Stopped(stopped) => return Self::Stopped(stopped.clone()),
            Condition::Running(status) => status.clone(),
        };
        let rates = match before.map(|it| (&it.condition, it.at)) {
            Some((Condition::Running(old), at)) if old.uptime <= status.uptime => {
                rates(old, &status, now.at.duration_since(at).as_secs_f64())
            }
            _ => BTreeMap::new(),
        };
        Self::Running { running: true, status, rates }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = match self {
            Self::Running { status, rates, .. } => running_text(&mut text, status, rates),
            Self::Stopped(stopped) => stopped_text(&mut text, stopped),
        };
        text
    }
}

fn rates(old: &Status, new: &Status, seconds: f64) -> BTreeMap<String, f64> {
    let rate = |(name, &count): (&String, &u64)| {
        let before = old.counters.get(name).copied().unwrap_or(0);
        let per_second = count.saturating_sub(before) as f64 / seconds;
        (name.clone(), (per_second * 10.0).round() / 10.0)
    };
    new.counters.iter().map(rate).collect()
}

fn running_text(
    text: &mut String,
    status: &Status,
    rates: &BTreeMap<String, f64>,
) -> std::fmt::Result {
    let Status { version, mode, state, .. } = status;
    let authentication = if status.authentication { "on" } else { "off" };
    let uptime = humantime::format_duration(Duration::from_secs(status.uptime));
    writeln!(text, "barebell {version}, up {uptime}")?;
    writeln!(text, "mode          {mode}, {state}, authentication {authentication}")?;
    writeln!(text, "listens on    {}", status.listens.join(", "))?;
    writeln!(text, "domains       {}", status.domains.join(", "))?;
    writeln!(text, "users         {}", status.users)?;
    if let Some(accounts) = &status.accounts {
        writeln!(text, "accounts      those of {accounts}")?;
    }
    unserved_text(text, status.domains.first(), &status.unserved)?;
    writeln!(text, "registered    {}", registered(status.registered, status.contacts))?;
    writeln!(text, "transactions  {}", status.transactions)?;
    writeln!(text, "calls         {} (relayed, or through the B2BUA)", status.calls)?;
    if let Some(until) = status.certificate_until {
        let until = SystemTime::UNIX_EPOCH + Duration::from_secs(until);
        writeln!(text, "certificate   valid until {}", humantime::format_rfc3339_seconds(until))?;
    }
    for problem in &status.problems {
        writeln!(text, "not ready     {problem}")?;
    }
    limits_text(text, &status.counters)?;
    // Counters of zero are omitted for clarity.
    let counted: Vec<_> = status.counters.iter().filter(|(_, count)| **count > 0).collect();
    if counted.is_empty() {
        return writeln!(text, "\nall counters are zero");
    }
    let width = counted
        .iter()
        .map(|(name, _)| *name)
        .map(String::len)
        .max()
        .unwrap_or(0)
        .max("counter".len());
    writeln!(text, "\n{:width$}  {:>14}  {:>12}", "counter", "total", "per second")?;
    for (name, count) in counted {
        let rate = rates.get(name).map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
        writeln!(text, "{name:width$}  {count:>14}  {rate:>12}")?;
    }
    if status.timings.is_empty() {
        return Ok(());
    }
    writeln!(text, "\n{:width$}  {:>14}  {:>12}", "step", "looked at", "microseconds")?;
    for (name, timing) in &status.timings {
        let mean = timing.nanoseconds as f64 / 1000.0 / timing.count.max(1) as f64;
        writeln!(text, "{name:width$}  {:>14}  {mean:>12.3}", timing.count)?;
    }
    Ok(())
}

/// Warns of limits at which calls were refused.
fn limits_text(text: &mut String, counters: &BTreeMap<String, u64>) -> std::fmt::Result {
    for (counter, key) in
        [("b2bua-limit", "calls.max_calls"), ("b2bua-share", "calls.max_calls_per_source")]
    {
        if let Some(count) = counters.get(counter).filter(|count| **count > 0) {
            let calls = if *count == 1 { "call was" } else { "calls were" };
            writeln!(text, "warning: {count} {calls} refused at {key} since the start")?;
        }
    }
    Ok(())
}

fn stopped_text(text: &mut String, stopped: &StoppedStatus) -> std::fmt::Result {
    writeln!(text, "no server runs with the data in {}", stopped.data.display())?;
    writeln!(text, "users         {}", stopped.users)?;
    unserved_text(text, stopped.domains.first(), &stopped.unserved)?;
    let registered = registered(stopped.registered, stopped.contacts);
    writeln!(text, "registered    {registered}, as stored")
}

fn unserved_text(
    text: &mut String,
    served: Option<&String>,
    unserved: &BTreeMap<String, u64>,
) -> std::fmt::Result {
    unserved.iter().try_for_each(|(domain, &users)| {
        let told = unserved_users(served.map(String::as_str), domain, users);
        writeln!(text, "warning: {told}")
    })
}

fn registered(addresses: u64, contacts: u64) -> String {
    let plural = if contacts == 1 { "contact" } else { "contacts" };
    format!("{addresses} ({contacts} {plural})")
}

/// A table with each column as wide as its widest cell.
pub(crate) fn aligned<const N: usize>(lines: impl Iterator<Item = [String; N]>) -> String {
    let lines: Vec<_> = lines.collect();
    let mut widths = [0; N];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for line in &lines {
        let mut padded = String::new();
        for (cell, width) in line.iter().zip(widths) {
            // Writing to a string cannot fail.
            let _ = write!(padded, "{cell:width$}  ");
        }
        text.push_str(padded.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(uptime: u64, requests: u64) -> Status {
        let counters = BTreeMap::from([("requests".to_owned(), requests)]);
        Status { uptime, counters, ..Status::default() }
    }

    #[test]
    fn rates_come_from_two_samples() {
        let (old, new) = (status(10, 100), status(12, 121));
        assert_eq!(rates(&old, &new, 2.0), BTreeMap::from([("requests".to_owned(), 10.5)]));
    }

    #[test]
    fn a_server_that_was_started_anew_has_no_rates_yet() {
        let sample = |status| Sample {
            at: time::Instant::now(),
            condition: Condition::Running(Box::new(status)),
        };
        let report = Report::new(Some(&sample(status(10, 100))), &sample(status(1, 5)));
        let text = report.text();
        assert!(text.lines().last().unwrap().ends_with('-'), "{text}");
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["running"], true);
        assert_eq!(json["counters"]["requests"], 5);
        // Totals alone are one sample.
        let alone = serde_json::to_value(Report::new(None, &sample(status(9, 7)))).unwrap();
        assert_eq!(alone["counters"]["requests"], 7);
        assert_eq!(alone["rates"], serde_json::json!({}));
    }
}
