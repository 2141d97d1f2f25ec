//! The live page of a command that runs.

use super::chart::{Axis, Chart, Line, Look, Scale};
use super::document::{Block, Document, Section, Table, Verdict};
use super::format;
use super::html;
use crate::record::{Course, Moment, Second};

/// Returns the live page of a command that has run for `seconds`.
pub(crate) fn live_page(course: &Course, seconds: f64, has_report: bool) -> String {
    html::live_page(&document(course, seconds, has_report))
}

/// Returns the content of the live page, without its head.
pub(crate) fn live_content(course: &Course, seconds: f64, has_report: bool) -> String {
    html::content(&document(course, seconds, has_report))
}

fn document(course: &Course, seconds: f64, has_report: bool) -> Document {
    let mut sections = vec![now(course, seconds, has_report)];
    sections.push(over_time(course));
    let mut notes = Section::new("notes", "Notes", "The latest is the first.");
    notes.blocks.push(Block::List(course.notes.iter().rev().cloned().collect()));
    sections.push(notes);
    Document { title: "A running measurement".to_owned(), sections }
}

fn now(course: &Course, seconds: f64, has_report: bool) -> Section {
    let mut section = Section::new("now", "Now", "");
    section.blocks.push(Block::Code(course.command.clone()));
    let (title, text, good) = match (&course.end, &course.load) {
        (Some(end), _) if has_report => {
            (end.text.clone(), "The report is at /report.".to_owned(), end.good)
        }
        (Some(end), _) => (end.text.clone(), "There is no report.".to_owned(), end.good),
        (None, Some(load)) => {
            let elapsed = seconds - load.begun;
            let of = load.total.map_or_else(String::new, |total| {
                format!(" of {total:.0} s, and the wait for the last operations")
            });
            (load.title.clone(), format!("{elapsed:.0} s{of}"), true)
        }
        (None, None) => ("Getting ready".to_owned(), format!("{seconds:.0} s"), true),
    };
    section.blocks.push(Block::Verdict(Verdict { good, title, text, reasons: Vec::new() }));
    if let Some(moment) = course.moments.back() {
        section.blocks.push(Block::Table(present(moment)));
    }
    section
}

/// The figures of the last second.
fn present(moment: &Moment) -> Table {
    let mut table = Table::new("The last second", &["figure", "#value"]);
    let mut row = |name: &str, value: String| table.row(vec![name.to_owned(), value]);
    if let Some(second) = &moment.second {
        row("operations offered", second.offered.to_string());
        row("operations answered", second.succeeded.to_string());
        row("operations failed", second.failed.to_string());
        row("operations under way", second.in_flight.to_string());
        row("messages sent again", second.retransmitted.to_string());
        let shown = |micros: u64| format!("{:.2} ms", millis(micros));
        for (name, delay) in
            [("response time, median", second.p50_us), ("response time, p99", second.p99_us)]
        {
            row(name, delay.map_or_else(|| "–".to_owned(), shown));
        }
        row("response time, maximum", shown(second.max_us));
    }
    if let Some(usage) = moment.usage {
        row("processors busy", format!("{:.2}", usage.busy));
        row("memory of the server", format::bytes(usage.memory));
    }
    table
}

/// The charts of the last ten minutes.
fn over_time(course: &Course) -> Section {
    let of_seconds = |figure: fn(&Second) -> Option<f64>| -> Vec<(f64, f64)> {
        let moments = course.moments.iter();
        moments.filter_map(|it| Some((it.at, figure(it.second.as_ref()?)?))).collect()
    };
    let line = |label: &str, look: Look, points: Vec<(f64, f64)>| Line::plain(label, look, points);
    let rates = vec![
        line("offered", Look::Reference, of_seconds(|it| Some(it.offered as f64))),
        line("answered", Look::Number(0), of_seconds(|it| Some(it.succeeded as f64))),
        line("failed", Look::Number(1), of_seconds(|it| Some(it.failed as f64))),
    ];
    let delays = vec![
        line("median", Look::Number(0), of_seconds(|it| it.p50_us.map(millis))),
        line("99 %", Look::Number(1), of_seconds(|it| it.p99_us.map(millis))),
    ];
    let in_flight = of_seconds(|it| Some(it.in_flight as f64));
    let busy = course.moments.iter().filter_map(|it| Some((it.at, it.usage?.busy))).collect();
    let charts = [
        ("Operations", "operations/s", rates),
        ("Response time", "ms", delays),
        ("Operations under way", "operations", vec![line("", Look::Number(0), in_flight)]),
        ("Processors busy", "processors", vec![line("", Look::Number(0), busy)]),
    ];
    let mut section =
        Section::new("course", "The last ten minutes", "A chart begins with its second value.");
    for (title, unit, mut lines) in charts {
        // A line has at least two points.
        lines.retain(|line| line.points.len() > 1);
        if lines.is_empty() {
            continue;
        }
        section.blocks.push(Block::Chart(Chart {
            title: title.to_owned(),
            x: Axis::new("seconds since the start of the command", Scale::Span),
            y: Axis::new(unit, Scale::Linear),
            lines,
            bars: Vec::new(),
            is_stacked: false,
            marks: Vec::new(),
        }));
    }
    section
}

fn millis(micros: u64) -> f64 {
    micros as f64 / 1e3
}
