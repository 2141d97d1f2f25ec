//! The calls that were placed, and the records that the server has of them.

use crate::group::users;
use peers::process::wait_until;
use peers::server::ServerProcess;
use serde_json::Value;
use std::collections::BTreeMap;

/// The end of a call, as its record should tell it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// One of these parties has ended the answered call.
    By(&'static [&'static str]),
    /// The caller got one of these responses, from one of these parties.
    Refused(&'static [&'static str], &'static [u64]),
}

/// A call that was placed.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) caller: String,
    pub(crate) callee: String,
    pub(crate) end: End,
    /// True if both ends have sent audio for some seconds.
    pub(crate) has_talk: bool,
}

/// The calls of a group.
pub(crate) struct Book {
    pub(crate) group: usize,
    pub(crate) placed: Vec<Placed>,
    /// False if there were calls after these: a step has failed.
    pub(crate) is_complete: bool,
}

impl Book {
    pub(crate) const fn new(group: usize) -> Self {
        Self { group, placed: Vec::new(), is_complete: true }
    }
}

/// Compares the records of `server` with the calls. Returns a line for each fault.
pub(crate) fn compare(server: &ServerProcess, books: &[Book]) -> Vec<String> {
    let count: usize = books.iter().map(|book| book.placed.len()).sum();
    let history = ["calls", "--history", "--json", "--limit", "1000000"];
    let rows = wait_until("the records of all calls", || {
        Some(server.rows(&history))
            .filter(|rows| rows.iter().filter(|row| has_reached_phone(row)).count() >= count)
    });
    let file = std::fs::read_to_string(server.data().join("calls.jsonl")).unwrap_or_default();
    let mut faults = Vec::new();
    if file.lines().count() != rows.len() {
        faults.push(format!("{} lines, {} rows", file.lines().count(), rows.len()));
    }
    let mut of_caller: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for row in rows.iter().filter(|row| has_reached_phone(row)) {
        of_caller.entry(user(&row["caller"])).or_default().push(row);
    }
    for book in books {
        for caller in users(book.group) {
            let placed = book.placed.iter().filter(|placed| placed.caller == caller);
            let placed: Vec<&Placed> = placed.collect();
            let mut records = of_caller.remove(caller.as_str()).unwrap_or_default();
            // Times of one form are in the order of their texts.
            records.sort_by_key(|record| record["created"].as_str());
            if records.len() < placed.len() || book.is_complete && records.len() > placed.len() {
                faults.push(format!("{caller}: {} records, {placed:#?}", records.len()));
            }
            let pairs = placed.iter().zip(&records);
            let wrong = pairs.filter(|(placed, record)| !is_right(record, placed));
            faults.extend(wrong.map(|(placed, record)| format!("{placed:?}: {record}")));
        }
    }
    faults
}

/// True if the call of the record `row` has reached a phone. Phones dial again until it does.
fn has_reached_phone(row: &Value) -> bool {
    !row["callee_address"].is_null()
}

/// The user part of a URI.
fn user(uri: &Value) -> &str {
    let uri = uri.as_str().unwrap_or_default();
    uri.trim_start_matches("sip:").split('@').next().unwrap_or_default()
}

fn is_right(record: &Value, placed: &Placed) -> bool {
    let times = ["created", "ringing", "answered", "ended"].map(|name| record[name].as_str());
    let (ended_by, status) = (record["ended_by"].as_str(), record["status"].as_u64());
    let is_end_right = match placed.end {
        End::By(parties) => {
            times[2].is_some() && status.is_none() && parties.iter().any(|it| Some(*it) == ended_by)
        }
        End::Refused(parties, statuses) => {
            times[2].is_none()
                && parties.iter().any(|it| Some(*it) == ended_by)
                && status.is_some_and(|status| statuses.contains(&status))
        }
    };
    let stream = &record["streams"][0];
    let has_media = ["from_caller", "from_callee"]
        .iter()
        .all(|name| stream[name]["packets"].as_u64().is_some_and(|count| count > 0));
    user(&record["callee"]) == placed.callee
        && record["through"] == "b2bua"
        && times.iter().flatten().is_sorted()
        && times[0].is_some()
        && times[3].is_some()
        && is_end_right
        && (has_media || !placed.has_talk)
}
