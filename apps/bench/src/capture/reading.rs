//! The reading of a capture: its packets become messages and streams.

use super::analysis::{Analysis, SipCounts};
use super::captured::{self, Captured, Keys};
use super::endpoints::{Endpoints, Exchange};
use super::file::{self, FileFacts};
use super::keys::KeyBook;
use super::packet::{Decoder, Transported};
use super::registrations::Registrations;
use super::sdp::Assumed;
use super::setup::Calls;
use super::{calls, rtp, stream, transactions};
use sip::message::ParseError;
use sip::stream::{Frame, Framer};
use sip::{Message, Method};
use std::net::SocketAddr;
use std::path::PathBuf;

/// The state of a capture during reading.
#[derive(Default)]
pub(crate) struct Reading {
    pub(super) decoder: Decoder,
    streams: stream::Streams,
    messages: Messages,
    rtp: rtp::RtpBook,
    keys: KeyBook,
    /// The times of the earliest and the latest packet.
    span: Option<(u64, u64)>,
}

impl Reading {
    /// Returns the initial state. `assumed` gives the payload types without a session description.
    pub(crate) fn new(assumed: &[Assumed]) -> Self {
        let formats = assumed.iter().map(Assumed::format).collect();
        Self { rtp: rtp::RtpBook::new(formats), ..Self::default() }
    }

    pub(super) fn take(&mut self, frame: &file::Frame<'_>) {
        let transported = self.decoder.decode(frame);
        // The capture agent's time of a message may be long before that of its HEP packet.
        let time = transported.as_ref().map_or(frame.time, |one| one.time);
        self.cover(time);
        if let Some(transported) = transported {
            self.take_transported(frame.time, &transported);
        }
    }

    /// Extends the time of the capture to this one.
    pub(super) fn cover(&mut self, time: u64) {
        let (first, last) = self.span.unwrap_or((time, time));
        self.span = Some((first.min(time), last.max(time)));
    }

    /// Takes the payload of a packet, which came at `time`.
    pub(super) fn take_transported(&mut self, time: u64, transported: &Transported<'_>) {
        match transported.segment {
            Some(segment) => {
                let between = (transported.source, transported.destination);
                let messages = &mut self.messages;
                let each = |bytes: &[u8]| messages.take_segment(time, between, bytes);
                self.streams.take(time, between, segment, &transported.payload, each);
            }
            None => self.take_datagram(transported),
        }
    }

    fn take_datagram(&mut self, datagram: &Transported<'_>) {
        let counts = &mut self.messages.counts;
        if datagram.payload.iter().all(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
            counts.keep_alives += 1;
        } else if !self.messages.take_datagram(datagram)
            && !self.rtp.take(datagram, &self.messages.endpoints)
            && !self.keys.take(datagram)
        {
            self.messages.counts.other_datagrams += 1;
        }
    }

    pub(super) fn finish(mut self) -> Analysis {
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
            clocks: Vec::new(),
            transits: Vec::new(),
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
            keys: self.keys.finish(),
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
