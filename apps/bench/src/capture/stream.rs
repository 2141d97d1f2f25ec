//! SIP messages out of TCP streams (RFC 3261 section 18.3), also over WebSocket.

use super::packet::Segment;
use super::websocket::{Next, WebSocket, may_begin as may_begin_websocket};
use serde::Serialize;
use sip::stream::{Frame, Framer};
use std::collections::HashMap;
use std::net::SocketAddr;

/// What came of the streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct StreamCounts {
    /// Directions of TCP connections with bytes in them.
    pub(crate) streams: u64,
    /// Places where bytes of a stream are not in the capture, so that messages may be missing.
    pub(crate) gaps: u64,
    /// Messages of which the end cannot be told, for Content-Length is missing, wrong or too large.
    /// They are passed over, with what follows them in their segment. WebSockets that are packed,
    /// or hold longer messages than 64 KiB, are not read on.
    pub(crate) unframed: u64,
    /// Segments that were left out: there were more than [`STREAMS`] streams at a time.
    pub(crate) left_out: u64,
    /// Streams of which the unread bytes were dropped: all held together [`HELD`] bytes.
    pub(crate) given_up: u64,
}

/// The most directions of connections that are followed at a time.
const STREAMS: usize = 16_384;
/// After this time without a segment, in nanoseconds, a stream makes room for another.
const IDLE: u64 = 60_000_000_000;
/// The most bytes of one stream that wait for those before them.
const AHEAD: usize = 256 << 10;
/// The most bytes that all streams hold together.
const HELD: usize = 64 << 20;

/// One direction of a connection.
#[derive(Default)]
struct Stream {
    /// The number of the byte after the last one in `bytes`.
    next: u32,
    /// What has been read and is not yet a message.
    bytes: Vec<u8>,
    /// Segments that came before those in front of them.
    ahead: Vec<(u32, Vec<u8>)>,
    ahead_length: usize,
    framer: Framer,
    /// How messages are read where they come over WebSocket.
    websocket: Option<WebSocket>,
    /// Whether `bytes` begins where a message begins. Otherwise a segment is waited for that does.
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
    /// Takes a segment, and calls `each` with every message that it completes.
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
            // The connection before this one between the same ports has ended.
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

    /// Gives up what is waited for, and calls `each` with the messages behind the gaps and the
    /// addresses of their streams.
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
            // No late copy, but another connection, whose beginning is not in the capture.
            counts.gaps += 1;
            *self = Self { next: sequence, last: self.last, ..Self::default() };
            return self.read(payload, counts, each);
        }
        if let Some(fresh) = payload.get(known..) {
            self.read(fresh, counts, each);
        }
        self.catch_up(counts, each);
    }

    /// Reads the segments that came early and are next now.
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

    /// Goes on behind a gap.
    fn pass_gap(&mut self, counts: &mut StreamCounts, each: &mut impl FnMut(&[u8])) {
        let next = self.next;
        let nearest = self.ahead.iter().map(|(sequence, _)| sequence.wrapping_sub(next)).min();
        let Some(nearest) = nearest else { return };
        counts.gaps += 1;
        self.next = next.wrapping_add(nearest);
        self.lose();
        self.catch_up(counts, each);
    }

    /// Forgets the bytes that are no message, and waits for a segment that begins one.
    fn lose(&mut self) {
        self.bytes = Vec::new();
        self.framer = Framer::default();
        // Where a frame begins cannot be found again.
        self.websocket = None;
        self.synchronised = false;
    }

    fn read(&mut self, fresh: &[u8], counts: &mut StreamCounts, each: &mut impl FnMut(&[u8])) {
        // The sequence numbers of TCP wrap, so that only the lower 32 bits count.
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
                    // Keep-alives of RFC 5626 come so, too.
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

/// Whether a message, or line ends before one, may begin with `bytes`, as far as they go.
fn may_begin_message(bytes: &[u8]) -> bool {
    const VERSION: &[u8] = b"SIP/2.0";
    // So much is looked at, each time that a segment comes.
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
