//! The summary of a record in a few lines.

use super::progress::time;
use crate::metrics;
use crate::record::{Counts, Delay, Kind, Media, Record, Run};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Returns the name of a kind of record.
pub(crate) const fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Run => "run",
        Kind::Sweep => "sweep",
        Kind::Limit => "limit",
        Kind::Burst => "burst",
        Kind::Qos => "qos",
        Kind::Proxy => "proxy",
        Kind::Compare => "compare",
        Kind::Media => "media",
    }
}

/// Returns the summary: a line for each run, the errors, the findings.
pub(crate) fn text(record: &Record) -> String {
    let mut out = String::new();
    for run in &record.runs {
        line(&mut out, run);
        if let Some(failure) = record.failure(run) {
            let _ = writeln!(out, "  FAILED: {failure}");
        }
    }
    for finding in &record.findings {
        let remark = match &finding.remark[..] {
            "" => String::new(),
            remark => format!(" ({remark})"),
        };
        let _ = writeln!(
            out,
            "{}: {} {} {}{remark}",
            finding.system,
            finding.name,
            number(finding.value),
            finding.unit_in_words()
        );
    }
    if !record.trouble.is_empty() {
        let _ = writeln!(out, "NOT COMPLETE: {}", record.trouble);
    }
    for criterion in &record.criteria {
        let verdict = if criterion.held { "held" } else { "did NOT hold" };
        let _ = writeln!(out, "required {}: {verdict}, seen {}", criterion.text, criterion.seen);
    }
    out
}

/// Formats a figure with its significant digits.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        large if large >= 100.0 => format!("{value:.0}"),
        medium if medium >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Returns the counts of final responses by method, such as `INVITE 200 x 7, 503 x 2; BYE 200 x 7`.
fn finals(counts: &Counts) -> String {
    let of_method = |(method, statuses): (&String, &BTreeMap<u16, u64>)| {
        let statuses = statuses.iter().map(|(status, count)| match status {
            0 => format!("none x {count}"),
            status => format!("{status} x {count}"),
        });
        format!("{method} {}", statuses.collect::<Vec<_>>().join(", "))
    };
    match counts.finals.is_empty() {
        true => "none".to_owned(),
        false => counts.finals.iter().map(of_method).collect::<Vec<_>>().join("; "),
    }
}

/// Returns the main figures of calls with media.
fn media_line(run: &Run, media: &Media) -> String {
    let echo = &media.figures.echo;
    let mut text = format!(
        "; {:.0} of {} calls held, {} heard, {} not; mean jitter {}, max. delta {}, {:.2} % lost",
        media.held,
        media.calls,
        media.figures.sound.heard,
        media.figures.sound.unheard,
        time(echo.jitter.mean() as u64),
        time(echo.max_delta.max()),
        100.0 * echo.loss()
    );
    if let Some(micros) = echo.delay.told(50.0) {
        let _ = write!(text, ", round trip p50 {}", time(micros));
    }
    if let Some(mos) = echo.mos() {
        let _ = write!(text, ", MOS {mos:.2}");
    }
    let handshakes = &media.figures.handshakes;
    if let Some(rate) = metrics::handshake_rate(run) {
        let _ = write!(text, ", {rate:.1} handshakes/s");
        if let Some(micros) = handshakes.told(50.0) {
            let _ = write!(text, ", p50 {}", time(micros));
        }
        if media.figures.handshakes_failed > 0 {
            let _ = write!(text, ", {} failed", media.figures.handshakes_failed);
        }
    }
    text
}

fn line(out: &mut String, run: &Run) {
    let counts = &run.counts;
    let label = match (&run.label[..], run.repeat) {
        ("", 0) => String::new(),
        (label, 0) => format!(" ({label})"),
        ("", repeat) => format!(" (repeat {})", repeat + 1),
        (label, repeat) => format!(" ({label}, repeat {})", repeat + 1),
    };
    let _ = write!(
        out,
        "{} {}{}{label}: offered {:.0}/s, succeeded {:.0}/s, {:.3} %",
        run.system,
        run.load.operation.name(),
        if run.load.authentication { " with authentication" } else { "" },
        counts.offered as f64 / run.seconds.max(f64::MIN_POSITIVE),
        metrics::achieved_rate(run),
        metrics::success(counts).unwrap_or_default(),
    );
    if let Some(response) = run.delays.get(&Delay::Response) {
        out.push_str(", response");
        for percent in [50.0, 99.0, 99.9] {
            if let Some(micros) = response.told(percent) {
                let _ = write!(out, " p{percent} {}", time(micros));
            }
        }
        let _ = write!(out, " max {}", time(response.max()));
    }
    if let Some(media) = &run.media {
        out.push_str(&media_line(run, media));
    }
    if let Some(cpu) = metrics::cpu_per_operation(run) {
        let _ = write!(out, ", server CPU {cpu:.1} us each");
    }
    if let Some(cpu) = metrics::generator_cpu_per_operation(run) {
        let _ = write!(out, ", generator CPU {cpu:.1} us each");
    }
    out.push('\n');
    let troubles = [
        ("refused", counts.refused),
        ("timed out", counts.timed_out),
        ("lost", counts.lost),
        ("messages sent again", counts.retransmitted),
        ("messages that came again", counts.repeated),
        ("unexpected", counts.unexpected),
        ("late", counts.late),
        ("malformed", counts.malformed),
    ];
    let troubles: Vec<_> = troubles
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    if !troubles.is_empty() {
        let _ = writeln!(out, "  {}", troubles.join(", "));
    }
    if counts.refused + counts.timed_out + counts.lost > 0 {
        let _ = writeln!(out, "  final responses: {}", finals(counts));
    }
    for doubt in &run.doubts {
        let _ = writeln!(out, "  NOT VALID: {doubt}");
    }
}
