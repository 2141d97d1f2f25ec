//! The analysis of a capture as text.

use super::analysis::Analysis;
use super::calls::Call;
use super::flow::{Flow, seconds};
use super::keys::KeyExchange;
use super::srtp::Srtp;
use super::track::RtpStream;
use crate::record::Histogram;
use std::fmt::{self, Display, Formatter};

/// The analysis as plain text.
pub(crate) struct Tables<'a> {
    pub(crate) analysis: &'a Analysis,
    /// True if the flow of each call is printed.
    pub(crate) calls: bool,
}

impl Display for Tables<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.file(f)?;
        self.methods(f)?;
        self.delays(f)?;
        self.rtp(f)?;
        self.keys(f)?;
        if self.calls {
            let started = self.analysis.started_us.unwrap_or_default();
            for call in &self.analysis.calls.list {
                flow(f, call, started)?;
            }
        }
        Ok(())
    }
}

impl Tables<'_> {
    fn file(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let [what, messages] = self.analysis.summary();
        writeln!(f, "{}: {what}\n  {messages}", self.analysis.file.display())?;
        self.analysis.notes().iter().try_for_each(|note| writeln!(f, "  {note}"))
    }

    fn methods(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.analysis.methods.is_empty() {
            writeln!(
                f,
                "\n{:<16} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
                "Requests", "sent", "again", "answered", "concluded", "lost", "pending"
            )?;
        }
        for (method, counts) in &self.analysis.methods {
            writeln!(
                f,
                "{method:<16} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
                counts.requests,
                counts.retransmissions,
                counts.answered,
                counts.concluded,
                counts.lost,
                counts.pending
            )?;
        }
        if !self.analysis.responses.is_empty() {
            writeln!(f, "\n{:<16} {:>9} {:>9}", "Responses", "sent", "again")?;
        }
        for (name, counts) in &self.analysis.responses {
            writeln!(f, "{name:<16} {:>9} {:>9}", counts.responses, counts.retransmissions)?;
        }
        Ok(())
    }

    fn delays(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Analysis { registrations, calls, .. } = self.analysis;
        if registrations.attempts > 0 {
            writeln!(
                f,
                "\nRegistrations: {} attempts, {} succeeded, {} failed, {} lost, {} pending; \
                 {} challenged",
                registrations.attempts,
                registrations.succeeded,
                registrations.failed,
                registrations.lost,
                registrations.pending,
                registrations.challenged
            )?;
        }
        if calls.attempts > 0 {
            writeln!(
                f,
                "\nCalls: {} attempts, {} established, {} answered without ACK, {} refused, \
                 {} cancelled, {} pending; lost: {}, of them invites {}; {} challenged",
                calls.attempts,
                calls.established,
                calls.answered,
                calls.refused,
                calls.cancelled,
                calls.pending,
                calls.lost,
                calls.lost_invites,
                calls.challenged
            )?;
            for (status, count) in &calls.failures {
                writeln!(f, "  {status}: {count}")?;
            }
        }
        let delays = self.analysis.delays();
        if delays.iter().any(|(_, histogram)| !histogram.is_empty()) {
            writeln!(
                f,
                "\n{:<26} {:>8} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11}",
                "Delays in ms", "count", "min", "mean", "p50", "p95", "p99", "max"
            )?;
        }
        for (name, histogram) in delays {
            if !histogram.is_empty() {
                delay(f, name, histogram)?;
            }
        }
        Ok(())
    }

    fn rtp(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.analysis.rtp.streams.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "\n{:<21} {:<21} {:<8} {:<12} {:>8} {:>8} {:>6} {:>6} {:>6} {:>9} {:>9} {:>9} {:>8} \
             {:>8} {:>9} {:>5}  SRTP",
            "RTP from",
            "to",
            "SSRC",
            "encoding",
            "packets",
            "expected",
            "lost",
            "late",
            "copies",
            "max delta",
            "p99.9",
            "mean",
            "max jit.",
            "mean",
            "kbit/s",
            "MOS"
        )?;
        self.analysis.rtp.streams.iter().try_for_each(|stream| rtp_stream(f, stream))?;
        writeln!(
            f,
            "kbit/s: with IP headers, exactly, from the first packet to the last; Wireshark's window of a second \
             has one packet more"
        )
    }

    fn keys(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let exchanges = &self.analysis.keys.list;
        if exchanges.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "\n{:<12} {:<21} {:<21} {:>8} {:>8} {:>11}",
            "Keys by", "between", "and", "packets", "octets", "ms"
        )?;
        exchanges.iter().try_for_each(|exchange| key_exchange(f, exchange))
    }
}

/// Writes a key exchange as a line.
fn key_exchange(f: &mut Formatter<'_>, exchange: &KeyExchange) -> fmt::Result {
    writeln!(
        f,
        "{:<12} {:<21} {:<21} {:>8} {:>8} {:>11}",
        exchange.protocol.name(),
        exchange.source.to_string(),
        exchange.destination.to_string(),
        exchange.packets,
        exchange.octets,
        format!("{:.3}", (exchange.ended_us - exchange.started_us) as f64 / 1e3)
    )
}

fn rtp_stream(f: &mut Formatter<'_>, stream: &RtpStream) -> fmt::Result {
    let ms = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
    let encoding = if stream.encodings.is_empty() {
        format!("type {:?}", stream.payload_types)
    } else {
        stream.encodings.join(",")
    };
    let srtp = stream.srtp.as_ref().map_or(String::new(), |srtp| {
        let Srtp { suite, authentic, not_authentic, unchecked } = srtp;
        format!("  {suite}: {authentic} authentic, {not_authentic} not, {unchecked} unchecked")
    });
    writeln!(
        f,
        "{:<21} {:<21} {:08x} {encoding:<12} {:>8} {:>8} {:>6} {:>6} {:>6} {:>9} {:>9} {:>9} {:>8} \
         {:>8} {:>9} {:>5}{srtp}",
        stream.source.to_string(),
        stream.destination.to_string(),
        stream.ssrc,
        stream.packets,
        stream.expected,
        stream.lost,
        stream.out_of_order,
        stream.duplicates,
        ms(stream.max_delta_ms),
        ms(stream.p999_delta_ms),
        ms(stream.mean_delta_ms),
        ms(stream.max_jitter_ms),
        ms(stream.mean_jitter_ms),
        ms(stream.kbit_per_s),
        stream.mos.map_or("-".to_owned(), |mos| format!("{mos:.2}"))
    )
}

fn delay(f: &mut Formatter<'_>, name: &str, histogram: &Histogram) -> fmt::Result {
    let ms = |micros: u64| format!("{}.{:03}", micros / 1_000, micros % 1_000);
    // The resolution is 0.1 %, and only for enough events.
    let percentile = |percent| match histogram.told(percent) {
        None => String::new(),
        Some(micros) if histogram.min() == histogram.max() => ms(micros),
        Some(micros) => match micros {
            0..10_000 => ms(micros),
            10_000..100_000 => format!("{:.2}", micros as f64 / 1e3),
            100_000..1_000_000 => format!("{:.1}", micros as f64 / 1e3),
            _ => format!("{:.0}", micros as f64 / 1e3),
        },
    };
    writeln!(
        f,
        "{name:<26} {:>8} {:>11} {:>11.3} {:>11} {:>11} {:>11} {:>11}",
        histogram.count(),
        ms(histogram.min()),
        histogram.mean() / 1_000.0,
        percentile(50.0),
        percentile(95.0),
        percentile(99.0),
        ms(histogram.max())
    )
}

/// Writes a call with its times and its ladder.
fn flow(f: &mut Formatter<'_>, call: &Call, started: u64) -> fmt::Result {
    let outcome = call.outcome_in_words();
    writeln!(f, "\nCall {}: {} to {}, {outcome}", call.call_id, call.from, call.to)?;
    if let Some(first) = &call.leg_of {
        writeln!(f, "  second leg of {first}")?;
    }
    for (name, time) in call.named_times() {
        writeln!(f, "  {name:<16} {:>13} s", seconds(time.saturating_sub(started)))?;
    }
    f.write_str(&Flow::of(call, started, usize::MAX).text())
}
