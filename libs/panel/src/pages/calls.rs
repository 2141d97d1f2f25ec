//! Calls that stand, and records of calls.

use super::frame::{View, page};
use super::parts::{button, cell, field, live, pager, table, tag};
use crate::form::query;
use crate::role::Role;
use crate::rows::{csv, duration, text};
use crate::server::RecordFilter;
use crate::texts::fill;
use maud::html;
use serde_json::Value;

/// A party without the scheme and the parameters of its URI.
pub(crate) fn party(row: &Value, name: &str) -> String {
    let uri = text(row, name);
    let rest = uri.split_once(':').map_or(&*uri, |(_, rest)| rest);
    rest.split(';').next().unwrap_or_default().to_owned()
}

/// The mean opinion scores of the first stream, from the caller and from the callee.
fn quality(row: &Value) -> String {
    let stream = &row["streams"][0];
    let score = |from: &str| match stream[from]["mos"].as_f64() {
        Some(score) => format!("{score:.1}"),
        None => "–".to_owned(),
    };
    if stream.is_null() {
        return String::new();
    }
    format!("{} / {}", score("from_caller"), score("from_callee"))
}

pub(super) fn seconds(row: &Value, name: &str) -> Option<u64> {
    row[name].as_f64().map(|seconds| seconds.max(0.0) as u64)
}

/// The calls that stand.
pub(crate) fn standing(view: &View<'_>, calls: &[Value]) -> String {
    let texts = view.texts;
    let rows: Vec<_> = calls
        .iter()
        .map(|row| {
            let (caller, callee) = (party(row, "caller"), party(row, "callee"));
            let state = match seconds(row, "duration") {
                Some(since) => duration(since),
                None => texts.rings.to_owned(),
            };
            let mut cells = vec![
                cell(&caller),
                cell(&callee),
                html! {
                    (state)
                    @if row["no_media"] == true { " " (tag(false, texts.no_media)) }
                },
                cell(quality(row)),
                cell(text(row, "trunk")),
            ];
            if view.may(Role::Operator) {
                let sure = fill(texts.hang_up_sure, &[&caller, &callee]);
                let id = text(row, "id");
                cells.push(button(view, "/panel/calls/end", ("id", &id), texts.hang_up, &sure));
            }
            cells
        })
        .collect();
    let mut heads = vec![texts.caller, texts.callee, texts.duration, texts.quality, texts.trunk];
    if view.may(Role::Operator) {
        heads.push(texts.hang_up);
    }
    let body = html! {
        p { (texts.calls_about) " " (texts.direct_calls) }
        (live("calls", &table(texts.calls, &heads, &rows, texts.no_calls)))
        p.hint { (texts.quality) ": " (texts.quality_about) }
    };
    page(view, "/panel/calls", texts.calls, &body)
}

/// The end of a recorded call in a few words.
pub(super) fn end(view: &View<'_>, row: &Value) -> String {
    let status = text(row, "status");
    if !status.is_empty() {
        return format!("{status} {}", text(row, "phrase"));
    }
    fill(view.texts.ended_by, &[&text(row, "ended_by")])
}

/// The time of day of an RFC 3339 text, to seconds.
pub(super) fn clock(text: &str) -> String {
    text.chars().take(19).collect::<String>().replace('T', " ")
}

/// The fields of a search for records, as they were given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) user: String,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) failed: bool,
}

impl Wanted {
    fn fields(&self) -> [(&str, &str); 4] {
        let failed = if self.failed { "1" } else { "" };
        [("user", &self.user), ("from", &self.from), ("to", &self.to), ("failed", failed)]
    }
}

/// A page of the records that fit `wanted`.
pub(crate) fn records(
    view: &View<'_>,
    wanted: &Wanted,
    filter: &RecordFilter,
    rows: &[Value],
) -> String {
    let texts = view.texts;
    let last = rows.last().filter(|_| rows.len() == filter.most).map(|row| text(row, "id"));
    let with = |more: &[(&str, &str)]| {
        let mut fields = wanted.fields().to_vec();
        fields.extend(more);
        query(&fields)
    };
    let first = format!("/panel/records{}", with(&[]));
    let next = last.map(|last| format!("/panel/records{}", with(&[("before", &last)])));
    let cells: Vec<_> = rows
        .iter()
        .map(|row| {
            vec![
                cell(clock(&text(row, "created"))),
                cell(party(row, "caller")),
                cell(party(row, "callee")),
                cell(seconds(row, "duration").map_or_else(String::new, duration)),
                html! {
                    (end(view, row))
                    @if row["no_media"] == true { " " (tag(false, texts.no_media)) }
                },
                cell(quality(row)),
                cell(text(row, "trunk")),
                super::traces::links(view, &text(row, "call_id")),
            ]
        })
        .collect();
    let heads = [
        texts.time,
        texts.caller,
        texts.callee,
        texts.duration,
        texts.end,
        texts.quality,
        texts.trunk,
        texts.trace,
    ];
    let body = html! {
        form.row role="search" method="get" action="/panel/records" {
            (field("search", "user", texts.party, &wanted.user))
            (field("date", "from", texts.from_day, &wanted.from))
            (field("date", "to", texts.to_day, &wanted.to))
            label.check {
                input type="checkbox" name="failed" value="1" checked[wanted.failed];
                span { (texts.only_failed) }
            }
            button { (texts.find) }
        }
        (table(texts.records, &heads, &cells, texts.no_records))
        (pager(texts, filter.before.map(|_| &*first), next.as_deref()))
        p { a href=(format!("/panel/records.csv{}", with(&[]))) { (texts.export) } }
        p.hint { (texts.direct_calls) }
    };
    page(view, "/panel/records", texts.records, &body)
}

/// The columns of the export.
const COLUMNS: [&str; 13] = [
    "created", "answered", "ended", "caller", "callee", "duration", "status", "phrase", "ended_by",
    "reason", "trunk", "through", "call_id",
];

/// The first line of an export of records as CSV (RFC 4180).
pub(crate) fn export_heads() -> String {
    format!("{}\r\n", COLUMNS.join(","))
}

/// Adds the lines of `rows` to an export.
pub(crate) fn export_rows(lines: &mut String, rows: &[Value]) {
    for row in rows {
        let fields = COLUMNS.map(|name| csv(&text(row, name)));
        lines.push_str(&fields.join(","));
        lines.push_str("\r\n");
    }
}

/// A message about the end of the call in `rows`.
pub(crate) fn ended(view: &View<'_>, rows: &[Value]) -> String {
    let row = rows.first().unwrap_or(&Value::Null);
    fill(view.texts.call_ended, &[&party(row, "caller"), &party(row, "callee")])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn parties_are_names_without_schemes_and_parameters() {
        let row = json!({ "a": "sip:alice@example.com;user=phone", "b": "bob", "c": "tel:+1" });
        assert_eq!(party(&row, "a"), "alice@example.com");
        assert_eq!([party(&row, "b"), party(&row, "c"), party(&row, "d")], ["bob", "+1", ""]);
    }

    #[test]
    fn the_export_is_csv() {
        let row = json!({ "caller": "sip:a,b@x", "phrase": "=1+1", "duration": 2.5 });
        let mut text = export_heads();
        export_rows(&mut text, &[row]);
        let lines: Vec<_> = text.split("\r\n").collect();
        assert_eq!(lines[0], COLUMNS.join(","));
        assert_eq!(lines[1], ",,,\"sip:a,b@x\",,2.5,,\"'=1+1\",,,,,");
    }
}
