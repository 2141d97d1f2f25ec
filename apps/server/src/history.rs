//! `barebell calls --history`.

use crate::access::Access;
use crate::admin::Request;
use crate::admin::ask::Ask;
use crate::call_lines::{Packets, Record, instant, name, party};
use crate::cli::{HistoryFlags, ScreenFlags};
use crate::failure::Failure;
use crate::output::{Out, printable};
use crate::screens::{aligned, refuse_if_elsewhere};
use std::time::Duration;

/// The maximum width of a party and of an end in the table.
const WIDTHS: [usize; 2] = [24, 18];

/// Shows the records of calls that have ended.
///
/// # Errors
/// [`Failure`] if neither the server nor its data can be accessed.
pub(crate) fn run(
    flags: &HistoryFlags,
    screen: &ScreenFlags,
    out: &mut Out,
) -> Result<(), Failure> {
    let micros = |time| instant(time).as_micros();
    let request = Request::History {
        user: flags.user.as_deref().map(user),
        since: flags.since.map(micros),
        until: flags.until.map(micros),
        failed: flags.failed,
        limit: flags.limit,
    };
    let access = Access::open_existing(&screen.place)?;
    if !access.as_ref().is_some_and(Access::is_of_server) {
        refuse_if_elsewhere(&screen.place, &screen.place.settings()?.data()?)?;
    }
    let mut rows: Vec<Record> = Vec::new();
    if let Some(access) = access {
        access.list(&request, &mut |record: Record| {
            if screen.json {
                return out.json(&record);
            }
            rows.push(record);
            Ok(())
        })?;
    }
    match (screen.json, rows.is_empty()) {
        (true, _) => Ok(()),
        (false, true) => out.line("no call is recorded that fits"),
        (false, false) => out.text(&table(&rows)),
    }
}

/// The user in the form of the storage.
pub(crate) fn user(text: &str) -> String {
    match text.split_once('@') {
        None => text.to_owned(),
        Some(_) if text.starts_with("sip:") || text.starts_with("sips:") => party(text),
        Some((user, domain)) => format!("{user}@{}", domain.to_ascii_lowercase()),
    }
}

/// A table of records. The quality from the caller stands first.
fn table(records: &[Record]) -> String {
    let head = ["time (UTC)", "caller", "callee", "duration", "end", "MOS"];
    let rows = records.iter().map(|record| {
        let party = |uri| cut(&name(&party(uri)), WIDTHS[0]);
        let mos = |packets: &Packets| {
            packets.mos.map_or_else(|| "-".to_owned(), |mos| format!("{mos:.1}"))
        };
        let seconds = |it: f64| Duration::from_secs(it.max(0.0) as u64);
        let duration = record.duration.map_or_else(
            || "-".to_owned(),
            |duration| humantime::format_duration(seconds(duration)).to_string(),
        );
        let stream = record.streams.first();
        [
            printable(&record.created).chars().take(19).collect::<String>().replace('T', " "),
            party(&record.caller),
            party(&record.callee),
            duration,
            cut(&printable(&end(record)), WIDTHS[1]),
            stream.map_or_else(
                || "-".to_owned(),
                |it| format!("{} / {}", mos(&it.from_caller), mos(&it.from_callee)),
            ),
        ]
    });
    aligned(std::iter::once(head.map(str::to_owned)).chain(rows))
}

/// The end of a call in a few words.
fn end(record: &Record) -> String {
    match (record.status, record.no_media) {
        (Some(status), _) => {
            format!("{status} {}", record.phrase.as_deref().unwrap_or_default())
        }
        (None, Some(true)) => "no media".to_owned(),
        (None, _) => format!("by {}", record.ended_by),
    }
}

/// `text` with at most `width` characters.
fn cut(text: &str, width: usize) -> String {
    match text.char_indices().nth(width) {
        None => text.to_owned(),
        Some(_) => text.chars().take(width - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let page = include_str!("../../../docs/running.md");
        let line = page.lines().find(|line| line.starts_with("{\"call_id\":")).unwrap();
        serde_json::from_str(line).unwrap()
    }

    #[test]
    fn the_table_fits_a_terminal_and_is_harmless() {
        let long = "x".repeat(300);
        let wide = Record {
            caller: format!("sip:{long}@{long}"),
            callee: "tel:+1\u{1b}[2J;phone-context=x".to_owned(),
            answered: None,
            duration: Some(100.0 * 3600.0 + 59.0 * 60.0 + 59.0),
            status: Some(486),
            phrase: Some(long),
            ..record()
        };
        let text = table(&[record(), wide.clone()]);
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("2026-11-27 10:00:00  alice@example.com "), "{text}");
        assert!(lines[1].ends_with("4.4 / 4.4"), "{text}");
        assert!(lines[2].contains(" tel:+1\\u{1b}[2J ") && lines[2].contains("…"), "{text}");
        assert_eq!(end(&Record { status: None, no_media: Some(true), ..wide }), "no media");
    }

    #[test]
    fn a_user_has_several_notations() {
        for (text, stored) in [
            ("alice", "alice"),
            ("Alice@Example.COM", "Alice@example.com"),
            ("sip:alice@Example.com;transport=tcp", "alice@example.com"),
        ] {
            assert_eq!(user(text), stored);
        }
    }
}
