//! SIP messages from TCP streams (RFC 3261 section 18.3), also over WebSocket.

use super::packet::Segment;
use super::websocket::{Next, WebSocket, may_begin as may_begin_websocket};
use serde::Serialize;
use sip::stream::{Frame, Framer};
use std::collections::HashMap;
use std::net::SocketAddr;

/// The stream counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct StreamCounts {
    /// Directions of TCP connections with data.
    pub(crate) streams: u64,
    /// Gaps in streams: bytes that are not in the capture, so messages may be missing.
    pub(crate) gaps: u64,
    /// Messages whose length is unknown, because Content-Length is missing, wrong or too large.
    /// They are skipped with the rest of their segment. WebSockets with compression or messages
    /// over 64 KiB are not read further.
    pub(crate) unframed: u64,
    /// Segments that were left out because of the limit of [`STREAMS`].
    pub(crate) left_out: u64,
    /// Streams whose unread bytes were dropped because all together held [`HELD`] bytes.
    pub(crate) given_up: u64,
}

/// The limit of concurrent directions of connections.
const STREAMS: usize = 16_384;
/// The idle time in nanoseconds after which a stream may be replaced.
const IDLE: u64 = 60_000_000_000;
/// The limit of out-of-order bytes per stream.
const AHEAD: usize = 256 << 10;
/// The limit of bytes held by all streams.
const HELD: usize = 64 << 20;

/// One direction of a connection.
#[derive(Default)]
struct Stream {
    /// The sequence number after the last byte of `bytes`.
    next: u32,
    /// Received bytes of an incomplete message.
    bytes: Vec<u8>,
    /// Out-of-order segments.
    ahead: Vec<(u32, Vec<u8>)>,
    ahead_length: usize,
    framer: Framer,
    /// The WebSocket decoder, for SIP over WebSocket.
    websocket: Option<WebSocket>,
    /// True if `bytes` begins at the start of a message. Otherwise segments are skipped up to one
    /// that does.
    synchronised: bool,
    last: u64,
}

/// The streams of a capture.
#[derive(Default)]
pub(super) struct Streams {
    pub(super) counts: StreamCounts,
    streams: HashMap<(SocketAddr, SocketAddr), Stream>,
    held: usize,
    swept: u64,
}

impl Streams {
    /// Adds a segment, and calls `each` with every message that it completes.
    pub(super) fn take(
        &mut self,
        now: u64,
        between: (SocketAddr, SocketAddr),
        segment: Segment,
        payload: &[u8],
        mut each: impl FnMut(&[u8]),
    ) {
        let mut sequence = segment.sequence;
        if segment.syn {
            sequence = sequence.wrapping_add(1);
            // The previous connection between the same ports has ended.
            if let Some(old) = self.streams.remove(&between) {
                self.held -= old.held();
            }
        } else if payload.is_empty() {
            return;
        }
        if !self.streams.contains_key(&between) {
            if !self.has_room(now) {
                self.counts.left_out += 1;
                return;
            }
            self.counts.streams += 1;
            let stream = Stream { next: sequence, ..Stream::default() };
            self.streams.insert(between, stream);
        }
        let Some(stream) = self.streams.get_mut(&between) else { return };
        self.held -= stream.held();
        stream.last = now;
        stream.take(sequence, payload, &mut self.counts, &mut each);
        if self.held + stream.held() > HELD {
            self.counts.given_up += 1;
            stream.lose();
            stream.ahead = Vec::new();
            stream.ahead_length = 0;
        }
        self.held += stream.held();
    }

    /// Skips the gaps, and calls `each` with the messages after them and the addresses of their
    /// streams.
    pub(super) fn finish(&mut self, mut each: impl FnMut((SocketAddr, SocketAddr), u64, &[u8])) {
        let mut streams: Vec<_> = self.streams.drain().collect();
        streams.sort_by_key(|(between, stream)| (stream.last, *between));
        for (between, mut stream) in streams {
            while !stream.ahead.is_empty() {
                let last = stream.last;
                stream.pass_gap(&mut self.counts, &mut |bytes| each(between, last, bytes));
            }
        }
    }

    fn has_room(&mut self, now: u64) -> bool {
        if self.streams.len() >= STREAMS && now.saturating_sub(self.swept) > IDLE {
            self.swept = now;
            self.streams.retain(|_, stream| now.saturating_sub(stream.last) < IDLE);
            self.held = self.streams.values().map(Stream::held).sum();
        }
        self.streams.len() < STREAMS
    }
}

impl Stream {
    fn held(&self) -> usize {
        let in_frames = self.websocket.as_ref().map_or(0, WebSocket::held);
        self.bytes.len() + self.ahead_length + in_frames
    }

    fn take(
        &mut self,
        sequence: u32,
        payload: &[u8],
        counts: &mut StreamCounts,
        each: &mut impl FnMut(&[u8]),
    ) {
        let distance = sequence.wrapping_sub(self.next).cast_signed();
        if distance > 0 {
            self.ahead_length += payload.len();
            self.ahead.push((sequence, payload.to_vec()));
            if self.ahead_length > AHEAD {
                self.pass_gap(counts, each);
            }
            return;
        }
        let known = distance.unsigned_abs() as usize;
        if known > AHEAD {
            // This is another connection whose start is not in the capture, and not a
            // retransmission.
            counts.gaps += 1;
            *self = Self { next: sequence, last: self.last, ..Self::default() };
            return self.read(payload, counts, each);
        }
        if let Some(fresh) = payload.get(known..) {
            self.read(fresh, counts, each);
        }
        self.catch_up(counts, each);
    }

    /// Reads the out-of-order segments that have become next.
    fn catch_up(&mut self, counts: &mut StreamCounts, each: &mut impl FnMut(&[u8])) {
        let next_is = |next: u32| {
            move |(sequence, _): &(u32, Vec<u8>)| sequence.wrapping_sub(next).cast_signed() <= 0
        };
        while let Some(index) = self.ahead.iter().position(next_is(self.next)) {
            let (sequence, payload) = self.ahead.swap_remove(index);
            self.ahead_length -= payload.len();
            let known = self.next.wrapping_sub(sequence) as usize;
            if let Some(fresh) = payload.get(known..) {
                self.read(fresh, counts, each);
            }
        }
    }

    /// Skips a gap.
    fn pass_gap(&mut self, counts: &mut StreamCounts, each: &mut impl FnMut(&[u8])) {
        let next = self.next;
        let nearest = self.ahead.iter().map(|(sequence, _)| sequence.wrapping_sub(next)).min();
        let Some(nearest) = nearest else { return };
        counts.gaps += 1;
        self.next = next.wrapping_add(nearest);
        self.lose();
        self.catch_up(counts, each);
    }

    /// Drops the bytes that are not a message, and waits for a segment that begins one.
    fn lose(&mut self) {
        self.bytes = Vec::new();
        self.framer = Framer::default();
        // The start of the next frame is unknown.
        self.websocket = None;
        self.synchronised = false;
    }

    fn read(&mut self, fresh: &[u8], counts: &mut StreamCounts, each: &mut impl FnMut(&[u8])) {
        // TCP sequence numbers wrap, so only the lower 32 bits count.
        self.next = self.next.wrapping_add(fresh.len() as u32);
        if fresh.is_empty() {
            return;
        }
        if !self.synchronised {
            if may_begin_websocket(fresh) {
                self.websocket = Some(WebSocket::default());
            } else if !may_begin_message(fresh) {
                return;
            }
            self.synchronised = true;
        }
        self.bytes.extend_from_slice(fresh);
        if self.websocket.is_some() {
            return self.read_websocket(counts, each);
        }
        let mut read = 0;
        loop {
            let rest = &self.bytes[read..];
            if !may_begin_message(rest) {
                return self.lose();
            }
            match self.framer.next(rest) {
                Ok(Frame::Message(length)) => {
                    each(&rest[..length]);
                    read += length;
                }
                Ok(Frame::LineEnds(length)) => read += length,
                Ok(Frame::Incomplete) => break,
                Err(_) => {
                    counts.unframed += 1;
                    return self.lose();
                }
            }
        }
        self.bytes.drain(..read);
    }
}

impl Stream {
    fn read_websocket(&mut self, counts: &mut StreamCounts, each: &mut impl FnMut(&[u8])) {
        let Some(websocket) = &mut self.websocket else { return };
        let mut read = 0;
        loop {
            match websocket.next(&self.bytes[read..]) {
                Next::Read(length) => read += length,
                Next::Message(length, message) => {
                    read += length;
                    // Keep-alives of RFC 5626 are such messages, too.
                    if !message.trim_ascii().is_empty() && may_begin_message(&message) {
                        each(&message);
                    }
                }
                Next::Incomplete => break,
                Next::Over => return self.lose(),
                Next::Unreadable => {
                    counts.unframed += 1;
                    return self.lose();
                }
            }
        }
        self.bytes.drain(..read);
    }
}

/// Returns true if `bytes` may be the start of a message, or of line ends before one.
fn may_begin_message(bytes: &[u8]) -> bool {
    const VERSION: &[u8] = b"SIP/2.0";
    // A limit, since this runs for each segment.
    let bytes = &bytes[..bytes.len().min(4096)];
    if matches!(bytes.first(), None | Some(b'\r' | b'\n')) {
        return true;
    }
    let (line, is_whole) = match bytes.iter().position(|&byte| byte == b'\n') {
        Some(end) => (bytes[..end].trim_ascii_end(), true),
        None => (bytes, false),
    };
    let begins = line.len().min(VERSION.len());
    if line[..begins].eq_ignore_ascii_case(&VERSION[..begins]) {
        return true;
    }
    let method = line.split(|&byte| byte == b' ').next().unwrap_or_default();
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(byte);
    let is_version = |line: &[u8]| {
        line.len() > VERSION.len()
            && line[line.len() - VERSION.len()..].eq_ignore_ascii_case(VERSION)
    };
    !method.is_empty() && method.iter().all(is_token) && (!is_whole || is_version(line))
}
