//! Responses.

use crate::bencode::{DictionaryWriter, ListWriter, write_dictionary};
use crate::report::{CallReport, Counts, Media, Party, Source, Stream};
use alloc::string::ToString as _;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// The maximum length of a response in bytes: the payload of a UDP datagram over IPv4.
pub const MAX_RESPONSE: usize = 65_507;

/// The space for the end of a list of calls.
const LIST_END: usize = 32;

/// Reasons of errors upon which Kamailio asks another relay.
pub mod reason {
    /// A limit of calls is reached.
    pub const SESSION_LIMIT: &str = "Parallel session limit reached";
    /// No port is free.
    pub const OUT_OF_PORTS: &str = "Ran out of ports";
}

/// A response.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Response<'r> {
    /// The response to `ping`.
    Pong,
    /// Success without a value.
    Ok,
    /// The rewritten session description.
    Sdp(&'r [u8]),
    /// Success with a warning, such as that of a deletion that finds no call.
    Warning(&'r str),
    /// The report on a call, as the response to `query` or `delete`.
    Call(&'r CallReport<'r>),
    /// The Call-IDs of calls. Those that do not fit into a datagram are left out.
    Calls(&'r [&'r [u8]]),
    /// The call is rejected for a limit. For peers with
    /// [`supports_load_limit`](crate::Options::supports_load_limit).
    LoadLimit(&'r str),
    /// The reason of a failure.
    Error(&'r str),
}

impl Response<'_> {
    /// Appends the response with its cookie to `out`. A response that is longer than
    /// [`MAX_RESPONSE`] becomes an error.
    pub fn write(&self, cookie: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(cookie);
        out.push(b' ');
        write_dictionary(out, |entries| self.write_entries(start, entries));
        let length = out.len() - start;
        if length > MAX_RESPONSE {
            out.truncate(start);
            Response::Error("the response does not fit into a datagram").write(cookie, out);
        }
    }

    fn write_entries(&self, start: usize, entries: &mut DictionaryWriter<'_>) {
        match self {
            Self::Pong => entries.string("result", "pong"),
            Self::Ok => entries.string("result", "ok"),
            Self::Sdp(sdp) => {
                entries.string("result", "ok");
                entries.string("sdp", sdp);
            }
            Self::Warning(text) => {
                entries.string("result", "ok");
                entries.string("warning", text);
            }
            Self::Call(report) => write_call(report, entries),
            Self::Calls(calls) => {
                entries.list("calls", |list| write_calls(calls, start, list));
                entries.string("result", "ok");
            }
            Self::LoadLimit(text) => {
                entries.string("message", text);
                entries.string("result", "load limit");
            }
            Self::Error(reason) => {
                entries.string("error-reason", reason);
                entries.string("result", "error");
            }
        }
    }
}

fn write_calls(calls: &[&[u8]], start: usize, list: &mut ListWriter<'_>) {
    for call_id in calls {
        // The length before the string has at most five digits and a colon.
        if list.written() - start + call_id.len() + 6 + LIST_END > MAX_RESPONSE {
            return;
        }
        list.string(call_id);
    }
}

fn write_call(report: &CallReport<'_>, entries: &mut DictionaryWriter<'_>) {
    entries.dictionary("SSRC", |sources| {
        let mut sorted: Vec<_> =
            report.sources.iter().map(|source| (source.ssrc.to_string(), source)).collect();
        sorted.sort_by(|one, other| one.0.cmp(&other.0));
        for (ssrc, source) in sorted {
            sources.dictionary(ssrc, |entries| write_source(source, entries));
        }
    });
    entries.integer("created", integer(report.created));
    entries.integer("last signal", integer(report.last_signal));
    entries.string("result", "ok");
    entries.dictionary("tags", |tags| {
        let mut sorted: Vec<_> = report.parties.iter().collect();
        sorted.sort_by_key(|party| party.tag);
        for party in sorted {
            tags.dictionary(party.tag, |entries| write_party(party, entries));
        }
    });
    entries.dictionary("totals", |totals| {
        let [rtp, rtcp] = report.totals();
        totals.dictionary("RTCP", |entries| write_counts(rtcp, entries));
        totals.dictionary("RTP", |entries| write_counts(rtp, entries));
    });
}

fn write_source(source: &Source, entries: &mut DictionaryWriter<'_>) {
    if let Some(quality) = source.quality {
        entries.dictionary("average MOS", |entries| {
            // In tenths.
            entries.integer("MOS", (quality.mos * 10.0 + 0.5) as i64);
            entries.integer("jitter", quality.jitter.into());
            entries.integer("packet loss", quality.packet_loss.into());
            if let Some(round_trip) = quality.round_trip {
                entries.integer("round-trip time", round_trip.into());
            }
            entries.integer("samples", quality.samples.into());
        });
    }
    if let Some(loss) = source.cumulative_loss {
        entries.integer("cumulative loss", integer(loss));
    }
}

fn write_party(party: &Party<'_>, entries: &mut DictionaryWriter<'_>) {
    entries.integer("created", integer(party.created));
    if let Some(tag) = party.in_dialogue_with {
        entries.string("in dialogue with", tag);
    }
    if let Some(label) = party.label {
        entries.string("label", label);
    }
    entries.list("medias", |list| {
        for (media, index) in party.media.iter().zip(1..) {
            list.dictionary(|entries| write_media(media, index, entries));
        }
    });
    entries.string("tag", party.tag);
}

fn write_media(media: &Media<'_>, index: i64, entries: &mut DictionaryWriter<'_>) {
    entries.list("flags", |list| media.flags.iter().for_each(|flag| list.string(flag)));
    entries.integer("index", index);
    entries.string("protocol", media.protocol);
    entries.list("streams", |list| {
        for stream in media.streams {
            list.dictionary(|entries| write_stream(stream, entries));
        }
    });
    entries.string("type", media.kind);
}

fn write_stream(stream: &Stream<'_>, entries: &mut DictionaryWriter<'_>) {
    if let Some(ssrc) = stream.ssrc {
        entries.integer("SSRC", ssrc.into());
    }
    if let Some(address) = stream.advertised_endpoint {
        entries.dictionary("advertised endpoint", |entries| write_address(address, entries));
    }
    if let Some(suite) = stream.crypto_suite {
        entries.string("crypto suite", suite);
    }
    if let Some(address) = stream.endpoint {
        entries.dictionary("endpoint", |entries| write_address(address, entries));
    }
    entries.list("flags", |list| {
        list.string(if stream.is_rtcp { "RTCP" } else { "RTP" });
        if stream.endpoint.is_some() {
            list.string("filled");
        }
        if stream.is_confirmed {
            list.string("confirmed");
        }
    });
    if let Some(last_packet) = stream.last_packet {
        entries.integer("last packet", integer(last_packet));
    }
    if let Some(port) = stream.local_port {
        entries.integer("local port", port.into());
    }
    entries.dictionary("stats", |entries| write_counts(stream.counts, entries));
}

fn write_address(address: SocketAddr, entries: &mut DictionaryWriter<'_>) {
    entries.string("address", address.ip().to_string());
    entries.string("family", if address.is_ipv4() { "IPv4" } else { "IPv6" });
    entries.integer("port", address.port().into());
}

fn write_counts(counts: Counts, entries: &mut DictionaryWriter<'_>) {
    entries.integer("bytes", integer(counts.bytes));
    entries.integer("errors", integer(counts.errors));
    entries.integer("packets", integer(counts.packets));
}

/// A counter or a time as an integer of bencode.
fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
