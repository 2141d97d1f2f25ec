//! The analysis of SIP and RTP in captures.
//!
//! Each table has a limit in the file that keeps it, and a count of what was left out. Together
//! they take less than 2 GiB for any capture.

mod analysis;
pub(crate) mod calls;
mod captured;
mod continuity;
mod endpoints;
pub(crate) mod file;
pub(crate) mod flow;
mod hep;
mod interface;
mod multipart;
mod packet;
mod quality;
pub(crate) mod registrations;
mod replay;
mod rtp;
mod sdp;
pub(crate) mod sequence;
mod setup;
mod source;
mod spread;
mod srtp;
mod stream;
mod summary;
mod tables;
#[cfg(test)]
mod tests;
pub(crate) mod track;
mod transactions;
mod tunnel;
mod websocket;

pub(crate) use analysis::{Analysis, SipCounts};
pub(crate) use replay::rtp_datagrams;
pub(crate) use sdp::Assumed;
pub(crate) use tables::Tables;

use captured::{Captured, Keys};
use endpoints::{Endpoints, Exchange};
use file::FileFacts;
use interface::{Interface, InterfaceError};
use packet::{Decoder, Transported};
use registrations::Registrations;
use setup::Calls;
use sip::message::ParseError;
use sip::stream::{Frame, Framer};
use sip::{Message, Method};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// An error of a capture analysis.
#[derive(Debug)]
pub(crate) enum CaptureError {
    /// The file cannot be read.
    Read(PathBuf, io::Error),
    /// The file is neither pcap nor pcapng.
    NoCapture(PathBuf),
    /// The interface cannot be captured.
    Interface(InterfaceError),
    /// The result cannot be written.
    Write(io::Error),
    /// Errors of some of several captures; the others were analysed.
    Some(Vec<Self>),
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path, error) => write!(f, "{} cannot be read: {error}", path.display()),
            Self::NoCapture(path) => write!(
                f,
                "{}: expected a capture in the format pcap or pcapng, as tcpdump -w writes, or such a one packed by gzip",
                path.display()
            ),
            Self::Interface(error) => error.fmt(f),
            Self::Write(error) => write!(f, "the result cannot be written: {error}"),
            Self::Some(errors) => {
                write!(f, "{} of the captures could not be analysed", errors.len())?;
                errors.iter().try_for_each(|error| write!(f, "\n  {error}"))
            }
        }
    }
}

impl std::error::Error for CaptureError {}

/// Analyses a capture; `-` is the standard input. Memory is bounded for any content: data beyond a
/// limit is left out and counted.
///
/// # Errors
/// [`CaptureError`] if the file cannot be read or is not a capture. A truncated capture is no
/// error.
pub(crate) fn analyse(path: &Path, reading: Reading) -> Result<Analysis, CaptureError> {
    if path == Path::new("-") {
        return analyse_bytes(path, io::stdin(), reading);
    }
    let file = File::open(path).map_err(|error| CaptureError::Read(path.to_owned(), error))?;
    let is_folder = file.metadata().is_ok_and(|about| about.is_dir());
    if is_folder {
        let error = io::Error::from(io::ErrorKind::IsADirectory);
        return Err(CaptureError::Read(path.to_owned(), error));
    }
    analyse_bytes(path, file, reading)
}

fn analyse_bytes(
    path: &Path,
    source: impl Read + Send,
    mut reading: Reading,
) -> Result<Analysis, CaptureError> {
    let source =
        source::open(source).map_err(|error| CaptureError::Read(path.to_owned(), error))?;
    let facts = file::read(source.reader, |frame| reading.take(&frame))
        .map_err(|file::NoCapture| CaptureError::NoCapture(path.to_owned()))?;
    let end = source.broken.get().copied().unwrap_or(facts.end);
    let facts = FileFacts { gzip: source.is_packed, end, ..facts };
    Ok(Analysis { file: path.to_owned(), facts, ..reading.finish() })
}

/// Captures from the interface `name`, for `duration` or until `ending` is set. Calls `on_open`
/// once the capture has begun.
///
/// # Errors
/// [`CaptureError::Interface`] if the interface cannot be captured.
pub(crate) fn listen(
    name: &str,
    duration: Option<Duration>,
    ending: &AtomicBool,
    mut reading: Reading,
    on_open: impl FnOnce(),
) -> Result<Analysis, CaptureError> {
    let mut interface = Interface::open(name).map_err(CaptureError::Interface)?;
    on_open();
    interface
        .read(duration, ending, |frame| reading.take(&frame))
        .map_err(CaptureError::Interface)?;
    let facts = FileFacts { live: true, dropped: interface.dropped, ..FileFacts::default() };
    Ok(Analysis { file: PathBuf::from(name), facts, ..reading.finish() })
}

/// The state of a capture during reading.
#[derive(Default)]
pub(crate) struct Reading {
    decoder: Decoder,
    streams: stream::Streams,
    messages: Messages,
    rtp: rtp::RtpBook,
    /// The times of the earliest and the latest packet.
    span: Option<(u64, u64)>,
}

impl Reading {
    /// Returns the initial state. `assumed` gives the payload types without a session description.
    pub(crate) fn new(assumed: &[Assumed]) -> Self {
        let formats = assumed.iter().map(Assumed::format).collect();
        Self { rtp: rtp::RtpBook::new(formats), ..Self::default() }
    }

    fn take(&mut self, frame: &file::Frame<'_>) {
        let transported = self.decoder.decode(frame);
        // The capture agent's time of a message may be long before that of its HEP packet.
        let time = transported.as_ref().map_or(frame.time, |one| one.time);
        let (first, last) = self.span.unwrap_or((time, time));
        self.span = Some((first.min(time), last.max(time)));
        let Some(transported) = transported else { return };
        match transported.segment {
            Some(segment) => {
                let between = (transported.source, transported.destination);
                let messages = &mut self.messages;
                let each = |bytes: &[u8]| messages.take_segment(frame.time, between, bytes);
                self.streams.take(frame.time, between, segment, &transported.payload, each);
            }
            None => self.take_datagram(&transported),
        }
    }

    fn take_datagram(&mut self, datagram: &Transported<'_>) {
        let counts = &mut self.messages.counts;
        if datagram.payload.iter().all(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
            counts.keep_alives += 1;
        } else if !self.messages.take_datagram(datagram)
            && !self.rtp.take(datagram, &self.messages.endpoints)
        {
            self.messages.counts.other_datagrams += 1;
        }
    }

    fn finish(mut self) -> Analysis {
        self.decoder.finish();
        let messages = &mut self.messages;
        self.streams.finish(|between, time, bytes| messages.take_segment(time, between, bytes));
        let Messages { mut transactions, mut registrations, calls, counts, endpoints, .. } =
            self.messages;
        let micros = |nanos: u64| nanos / 1_000;
        let end = micros(self.span.map_or(0, |(_, last)| last));
        transactions.finish(end);
        registrations.finish(end);
        let mut calls = Calls {
            list: calls.calls,
            left_out: calls.left_out,
            steps_left_out: calls.steps_left_out,
            ..Calls::default()
        };
        calls.finish(end);
        Analysis {
            file: PathBuf::new(),
            facts: FileFacts::default(),
            started_us: self.span.map(|(first, _)| micros(first)),
            ended_us: self.span.map(|_| end),
            packets: self.decoder.counts,
            streams: self.streams.counts,
            sip: SipCounts {
                stray_responses: transactions.stray_responses,
                left_out: transactions.left_out,
                media_left_out: endpoints.left_out,
                ..counts
            },
            methods: transactions.methods,
            responses: transactions.responses,
            registrations,
            calls,
            rtp: self.rtp.finish(),
        }
    }
}

/// The SIP messages of a capture.
#[derive(Default)]
struct Messages {
    counts: SipCounts,
    transactions: transactions::Transactions,
    registrations: Registrations,
    calls: calls::CallBook,
    endpoints: Endpoints,
    keys: Keys,
}

impl Messages {
    /// Handles a datagram if it is SIP. Returns true if it is.
    fn take_datagram(&mut self, datagram: &Transported<'_>) -> bool {
        let mut rest = &datagram.payload[..];
        let mut message = match Message::parse(rest) {
            Ok(message) => message,
            Err(ParseError::Empty | ParseError::StartLine) => return false,
            Err(_) => {
                self.counts.malformed += 1;
                return true;
            }
        };
        loop {
            self.counts.udp += 1;
            self.take(datagram.time, (datagram.source, datagram.destination), &message);
            // On loopback, or before segmentation by the card, a capture shows several datagrams as
            // one (UDP_SEGMENT).
            let Ok(Frame::Message(length)) = Framer::default().next(rest) else { return true };
            rest = &rest[length..];
            let Ok(next) = Message::parse(rest) else { return true };
            message = next;
        }
    }

    fn take_segment(&mut self, time: u64, between: (SocketAddr, SocketAddr), bytes: &[u8]) {
        match Message::parse(bytes) {
            Ok(message) => {
                self.counts.tcp += 1;
                self.take(time, between, &message);
            }
            Err(_) => self.counts.malformed += 1,
        }
    }

    fn take(
        &mut self,
        nanos: u64,
        (source, destination): (SocketAddr, SocketAddr),
        message: &Message<'_>,
    ) {
        let Some(seen) = Captured::new(nanos / 1_000, source, destination, message) else {
            self.counts.malformed += 1;
            return;
        };
        let of_invite = seen.method == Method::Ack && self.transactions.has_invite(&seen);
        self.describe(&seen, of_invite);
        let Some(place) = self.transactions.take(&seen) else { return };
        let owner = match seen.method {
            Method::Register => self.registrations.take(&seen, &place),
            _ => self.calls.take(&seen, &place, of_invite),
        };
        if let Some(owner) = owner {
            self.transactions.set_owner(place.transaction, owner);
        }
    }

    /// Records the media endpoints of offers and answers. `acknowledges_failure` is true for an ACK
    /// that is part of its INVITE's transaction.
    fn describe(&mut self, seen: &Captured<'_>, acknowledges_failure: bool) {
        let is_agreed = matches!(seen.status, Some(200..300))
            || seen.method == Method::Ack && !acknowledges_failure;
        let is_refused = matches!(seen.status, Some(300..)) || acknowledges_failure;
        if seen.sdp.is_none() && !is_agreed && !is_refused {
            return;
        }
        let key = seen.exchange(&self.keys);
        let call_id = captured::text(seen.call_id);
        match seen.sdp {
            _ if is_refused => self.endpoints.refuse(key),
            Some(body) => {
                let is_request = seen.status.is_none();
                self.endpoints.learn(body, Exchange { key, is_request, call_id: &call_id });
            }
            None => self.endpoints.accept(key, &call_id),
        }
    }
}
