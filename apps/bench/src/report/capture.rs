//! The report of captures.

use super::ReportError;
use super::document::{Block, Document, Section, Table};
use super::ladder::Ladder;
use crate::capture::Analysis;
use crate::capture::calls::Call;
use crate::capture::flow::{Flow, seconds};
use crate::capture::track::RtpStream;
use crate::record::Histogram;
use std::path::Path;

/// The limit of calls that are drawn, and of messages of each.
const CALLS: usize = 200;
const MESSAGES: usize = 500;
/// The limit of listed streams.
const STREAMS: usize = 2_000;

/// Writes the report of captures in the form of the file's suffix, `.html` or `.md`.
///
/// # Errors
/// The suffix is another one, or the file cannot be written.
pub(crate) fn write_capture(analyses: &[Analysis], path: &Path) -> Result<(), ReportError> {
    super::write_page(&document(analyses), path)
}

fn document(analyses: &[Analysis]) -> Document {
    let mut sections = vec![
        Section::new("captures", "Captures", "Packets captured, left out, or irregular."),
        Section::new("messages", "Messages", "Each is counted once on every hop; copies apart."),
        Section::new("delays", "Delays", "As RFC 6076 and N. S. Awan (KTH) define them."),
        Section::new("media", "Media", "Streams of RTP, in the order of time."),
        Section::new("calls", "Calls", "A column for each party, an arrow for each message."),
    ];
    for analysis in analyses {
        let name = analysis.file.display().to_string();
        let [captures, messages, times, media, calls] = &mut sections[..] else { break };
        captures.heading(&name);
        let facts = analysis.summary().into_iter().chain(analysis.notes());
        captures.blocks.push(Block::List(facts.collect()));
        messages.table(requests(analysis, &name));
        messages.table(responses(analysis, &name));
        times.table(delays(analysis, &name));
        media.table(streams(analysis, &name));
        left_out(media, analysis.rtp.streams.len(), STREAMS, "streams", &name);
        for call in analysis.calls.list.iter().take(CALLS) {
            draw(calls, call, analysis.started_us.unwrap_or_default());
        }
        left_out(calls, analysis.calls.list.len(), CALLS, "calls", &name);
    }
    sections.retain(|section| !section.blocks.is_empty());
    let title = match analyses {
        [one] => format!("Capture {}", one.file.display()),
        several => format!("{} captures", several.len()),
    };
    Document { title, sections }
}

fn left_out(section: &mut Section, count: usize, most: usize, what: &str, name: &str) {
    if count > most {
        section.text(format!("{name}: {} more {what} are not shown.", count - most));
    }
}

fn requests(analysis: &Analysis, name: &str) -> Table {
    let columns = ["method", "#sent", "#again", "#answered", "#concluded", "#lost", "#pending"];
    let mut table = Table::new(format!("Requests in {name}"), &columns);
    for (method, counts) in &analysis.methods {
        let figures = [
            counts.requests,
            counts.retransmissions,
            counts.answered,
            counts.concluded,
            counts.lost,
            counts.pending,
        ];
        let figures = figures.iter().map(u64::to_string);
        table.row([method.clone()].into_iter().chain(figures).collect());
    }
    table
}

fn responses(analysis: &Analysis, name: &str) -> Table {
    let mut table = Table::new(format!("Responses in {name}"), &["response", "#sent", "#again"]);
    for (response, counts) in &analysis.responses {
        let (sent, again) = (counts.responses, counts.retransmissions);
        table.row(vec![response.clone(), sent.to_string(), again.to_string()]);
    }
    table
}

fn delays(analysis: &Analysis, name: &str) -> Table {
    let columns = ["delay, ms", "#count", "#min", "#mean", "#p50", "#p95", "#p99", "#max"];
    let mut table = Table::new(format!("Delays in {name}"), &columns);
    let ms = |micros: u64| format!("{:.3}", micros as f64 / 1e3);
    let row = |delay: &str, histogram: &Histogram| {
        let percentile = |share| histogram.told(share).map_or_else(|| "-".to_owned(), ms);
        vec![
            delay.to_owned(),
            histogram.count().to_string(),
            ms(histogram.min()),
            format!("{:.3}", histogram.mean() / 1e3),
            percentile(50.0),
            percentile(95.0),
            percentile(99.0),
            ms(histogram.max()),
        ]
    };
    for (delay, histogram) in analysis.delays() {
        if !histogram.is_empty() {
            table.row(row(delay, histogram));
        }
    }
    table
}

fn streams(analysis: &Analysis, name: &str) -> Table {
    let columns = [
        "from",
        "to",
        "SSRC",
        "encoding",
        "Call-ID",
        "#packets",
        "#lost",
        "#late",
        "#copies",
        "#restarts",
        "#max delta, ms",
        "#p99.9 delta, ms",
        "#mean jitter, ms",
        "#kbit/s",
        "#MOS",
        "SRTP",
    ];
    let mut table = Table::new(format!("Streams in {name}"), &columns);
    for stream in analysis.rtp.streams.iter().take(STREAMS) {
        table.row(stream_row(stream));
    }
    table
}

fn stream_row(stream: &RtpStream) -> Vec<String> {
    let figure = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    let encoding = match &stream.encodings[..] {
        [] => format!("type {:?}", stream.payload_types),
        names => names.join(", "),
    };
    let srtp = stream.srtp.as_ref().map(|srtp| {
        format!("{}: {} authentic, {} not", srtp.suite, srtp.authentic, srtp.not_authentic)
    });
    vec![
        stream.source.to_string(),
        stream.destination.to_string(),
        format!("{:08x}", stream.ssrc),
        encoding,
        stream.call_id.clone().unwrap_or_default(),
        stream.packets.to_string(),
        stream.lost.to_string(),
        stream.out_of_order.to_string(),
        stream.duplicates.to_string(),
        stream.restarts.to_string(),
        figure(stream.max_delta_ms, 3),
        figure(stream.p999_delta_ms, 3),
        figure(stream.mean_jitter_ms, 3),
        figure(stream.kbit_per_s, 1),
        figure(stream.mos, 2),
        srtp.unwrap_or_default(),
    ]
}

fn draw(section: &mut Section, call: &Call, started: u64) {
    section.heading(format!("{} to {}, {}", call.from, call.to, call.outcome_in_words()));
    let leg = call.leg_of.as_ref().map(|first| format!("Second leg of {first}. "));
    let times = call
        .named_times()
        .map(|(name, time)| format!("{name} {} s", seconds(time.saturating_sub(started))));
    let times: Vec<_> = times.collect();
    section.text(format!("{}{}", leg.unwrap_or_default(), times.join(", ")));
    let flow = Flow::of(call, started, MESSAGES);
    let caption = format!("Messages of call {}, times in s", call.call_id);
    section.blocks.push(Block::Ladder(Ladder { caption, flow }));
    if call.flow.len() > MESSAGES {
        section.text(format!("{} more messages are not shown.", call.flow.len() - MESSAGES));
    }
}
