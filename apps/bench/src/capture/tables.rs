//! What a capture shows, for people.

use super::Analysis;
use super::calls::{Call, CallOutcome, Step};
use super::file::End;
use super::rtp::{RtpStream, Srtp};
use crate::record::Histogram;
use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;

/// The analysis as plain text.
pub(super) struct Tables<'a> {
    pub(super) analysis: &'a Analysis,
    /// Whether the flow of each call is shown.
    pub(super) calls: bool,
}

impl Display for Tables<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.file(f)?;
        self.methods(f)?;
        self.delays(f)?;
        self.rtp(f)?;
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
        let Analysis { file, facts, packets, streams, sip, .. } = self.analysis;
        let format = match (facts.live, facts.pcapng) {
            (true, _) => "live",
            (_, true) => "pcapng",
            _ => "pcap",
        };
        let packed = if facts.gzip { ", gzip" } else { "" };
        let elapsed = self.analysis.ended_us.unwrap_or_default()
            - self.analysis.started_us.unwrap_or_default();
        writeln!(
            f,
            "{}: {format}{packed}, {} packets in {} s",
            file.display(),
            packets.packets,
            seconds(elapsed)
        )?;
        writeln!(
            f,
            "  {} UDP datagrams, {} TCP segments; {} SIP messages over UDP, {} over TCP",
            packets.datagrams, packets.segments, sip.udp, sip.tcp
        )?;
        let end = match facts.end {
            End::Whole => None,
            End::Cut => Some("the file ends within a packet"),
            End::Damaged => Some("the file is damaged; what comes after that was not read"),
            End::TooLarge => Some("a block is too large; what comes after it was not read"),
            End::TooLong => Some("unpacked it is too large; what comes after 64 GiB was not read"),
            End::Unreadable => Some("the file could not be read to its end"),
        };
        if let Some(end) = end {
            writeln!(f, "  {end}")?;
        }
        let rtp = &self.analysis.rtp;
        let Analysis { registrations, calls, .. } = self.analysis;
        for (count, what) in [
            (facts.dropped, "packets that the kernel had no room for"),
            (facts.untimed, "packets without a time, left out"),
            (packets.cut_off, "packets of which the capture has only the beginning"),
            (packets.unknown_links.values().sum(), "packets of link types that are not read"),
            (packets.not_ip, "packets that are not IP, or malformed"),
            (packets.other_protocols, "packets neither UDP nor TCP, or malformed"),
            (packets.tunnelled, "packets in tunnels"),
            (packets.reassembled, "IP packets put together from fragments"),
            (packets.not_reassembled, "fragmented IP packets that could not be put together"),
            (streams.gaps, "gaps in TCP streams: messages may be missing"),
            (streams.unframed, "SIP messages over TCP of which the end cannot be told"),
            (streams.left_out, "TCP segments left out: too many streams"),
            (streams.given_up, "TCP streams given up: too many bytes held"),
            (sip.malformed, "malformed SIP messages"),
            (sip.keep_alives, "keep-alives"),
            (sip.stray_responses, "SIP responses to requests not in the capture"),
            (sip.other_datagrams + rtp.unrecognised, "datagrams that are something else"),
            (sip.left_out, "SIP messages not followed: too many transactions"),
            (sip.media_left_out, "media descriptions not kept: too many"),
            (registrations.left_out, "registrations not followed: too many"),
            (calls.left_out, "messages of calls not followed: too many"),
            (calls.steps_left_out, "messages not in the flows: too many"),
            (rtp.left_out, "RTP packets not followed: too many streams"),
            (rtp.srtp_left_out, "SRTP streams not decrypted: too many"),
            (rtp.rtcp, "RTCP packets"),
        ] {
            if count > 0 {
                writeln!(f, "  {count} {what}")?;
            }
        }
        Ok(())
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
        let delays = [
            ("registration delay (RRD)", &registrations.delay),
            ("  REGISTER to challenge", &registrations.challenge_delay),
            ("  challenge to REGISTER", &registrations.client_delay),
            ("  REGISTER to 2xx", &registrations.authorised_delay),
            ("invite delay", &calls.invite_delay),
            ("call setup (INVITE to 200)", &calls.setup_delay),
            ("INVITE to challenge", &calls.challenge_delay),
            ("SRD, successful", &calls.srd),
            ("SRD, failed", &calls.srd_failed),
            ("SDD", &calls.sdd),
            ("SDT", &calls.sdt),
        ];
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
            "\n{:<21} {:<21} {:<8} {:<12} {:>8} {:>8} {:>6} {:>6} {:>6} {:>9} {:>9} {:>8} {:>8} \
             {:>9} {:>5}  SRTP",
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
        "{:<21} {:<21} {:08x} {encoding:<12} {:>8} {:>8} {:>6} {:>6} {:>6} {:>9} {:>9} {:>8} {:>8} \
         {:>9} {:>5}{srtp}",
        stream.source.to_string(),
        stream.destination.to_string(),
        stream.ssrc,
        stream.packets,
        stream.expected,
        stream.lost,
        stream.out_of_order,
        stream.duplicates,
        ms(stream.max_delta_ms),
        ms(stream.mean_delta_ms),
        ms(stream.max_jitter_ms),
        ms(stream.mean_jitter_ms),
        ms(stream.kbit_per_s),
        stream.mos.map_or("-".to_owned(), |mos| format!("{mos:.2}"))
    )
}

fn delay(f: &mut Formatter<'_>, name: &str, histogram: &Histogram) -> fmt::Result {
    let ms = |micros: u64| format!("{}.{:03}", micros / 1_000, micros % 1_000);
    writeln!(
        f,
        "{name:<26} {:>8} {:>11} {:>11.3} {:>11} {:>11} {:>11} {:>11}",
        histogram.count(),
        ms(histogram.min()),
        histogram.mean() / 1_000.0,
        ms(histogram.percentile(50.0)),
        ms(histogram.percentile(95.0)),
        ms(histogram.percentile(99.0)),
        ms(histogram.max())
    )
}

/// The most parties that a flow has a column each for.
const COLUMNS: usize = 8;
const COLUMN: usize = 24;

/// A call as a ladder: a column for each address, an arrow for each message.
fn flow(f: &mut Formatter<'_>, call: &Call, started: u64) -> fmt::Result {
    let outcome = match call.outcome {
        CallOutcome::Established => "established",
        CallOutcome::Answered => "answered, no ACK seen",
        CallOutcome::Cancelled => "cancelled",
        CallOutcome::Refused => "refused",
        CallOutcome::Unfinished => "no final response",
        CallOutcome::Lost => "no response",
        CallOutcome::Pending => "no response yet",
    };
    writeln!(f, "\nCall {}: {} to {}, {outcome}", call.call_id, call.from, call.to)?;
    if let Some(first) = &call.leg_of {
        writeln!(f, "  second leg of {first}")?;
    }
    let times = &call.times;
    for (name, time) in [
        ("TInv1", times.inv1_us),
        ("TInv1 authorised", times.authorised_us),
        ("TInv2", times.inv2_us),
        ("TRng", times.rng_us),
        ("TSDP_OK1", times.sdp_ok1_us),
        ("TSDP_OK2", times.sdp_ok2_us),
        ("TAck", times.ack_us),
        ("BYE", times.bye_us),
        ("2xx BYE", times.bye_ok_us),
    ] {
        if let Some(time) = time {
            writeln!(f, "  {name:<16} {:>13} s", seconds(time.saturating_sub(started)))?;
        }
    }
    let mut parties: Vec<SocketAddr> = Vec::new();
    for step in &call.flow {
        for party in [step.source, step.destination] {
            if parties.len() < COLUMNS && !parties.contains(&party) {
                parties.push(party);
            }
        }
    }
    write!(f, "  {:>13} ", "s")?;
    for party in &parties {
        write!(f, "{:<COLUMN$}", party.to_string())?;
    }
    writeln!(f)?;
    call.flow.iter().try_for_each(|step| arrow(f, step, &parties, started))
}

fn arrow(f: &mut Formatter<'_>, step: &Step, parties: &[SocketAddr], started: u64) -> fmt::Result {
    let copy = if step.retransmission { " (again)" } else { "" };
    let sdp = if step.sdp { " SDP" } else { "" };
    let what = format!("{}{sdp}{copy}", step.what);
    write!(f, "  {:>13} ", seconds(step.at_us.saturating_sub(started)))?;
    let column = |party| parties.iter().position(|&one| one == party);
    match (column(step.source), column(step.destination)) {
        (Some(from), Some(to)) if from < to => {
            let width = (to - from) * COLUMN - 2;
            writeln!(f, "{:indent$}|{what:-<width$}>", "", indent = from * COLUMN)
        }
        (Some(from), Some(to)) if to < from => {
            let width = (from - to) * COLUMN - 2;
            writeln!(f, "{:indent$}<{what:->width$}|", "", indent = to * COLUMN)
        }
        _ => writeln!(f, "{} -> {}: {what}", step.source, step.destination),
    }
}

fn seconds(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}
