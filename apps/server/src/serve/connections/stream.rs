//! One connection: what was read of it, and what is to be written to it.

use super::set::{Set, Wait};
use super::{CONNECT_TIMEOUT, FIRST_MESSAGE_TIMEOUT, IDLE_TIMEOUT, MAX_UNSENT, MESSAGE_TIMEOUT};
use parking_lot::Mutex;
use sip::Instant;
use sip::message::{Frame, FrameError, Framer};
use sip_server::{Connection, Flow};
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};

/// A connection that is open, or will be.
pub(super) struct Stream {
    pub(super) connection: Connection,
    /// Its two ends, and its number.
    pub(super) flow: Flow,
    pub(super) socket: TcpStream,
    /// Only who serves the connection looks at this.
    reading: Mutex<Reading>,
    /// Whoever sends. Taken by who has `reading`, and never the other way round.
    writing: Mutex<Writing>,
}

/// What is read.
struct Reading {
    framer: Framer,
    /// The beginning of a message that is not whole yet.
    partial: Vec<u8>,
    /// Bytes of line ends since the last message or ping: a ping may come in pieces.
    line_ends: usize,
    has_spoken: bool,
    /// Whether nothing more is to be read as messages.
    is_over: bool,
    ending: Option<Ending>,
    /// When the connection is closed if nothing happens.
    due: Instant,
}

/// Why a connection is to be closed. Until all is written it stays, for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The peer says no more.
    Heard,
    /// What it says is not listened to. It is read nevertheless: to close before would take back what was written.
    Deaf,
}

/// What is written.
enum Writing {
    /// The peer has not accepted the connection. What waits for that, with the flows to report it on.
    Connecting(Vec<(Flow, Vec<u8>)>),
    /// What the system has not taken yet.
    Open(Vec<u8>),
    /// Nobody is to send on it any more.
    Closed,
}

/// A message that could not be sent.
pub(super) type Undelivered = (Flow, Vec<u8>);

/// Why nothing more can be sent.
#[derive(Debug)]
pub(super) enum SendError {
    /// The peer does not read.
    Full,
    /// The connection is broken.
    Broken,
}

/// Whether there is more to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum More {
    /// Perhaps, as much was read as there was room for.
    Now,
    /// When the peer says more.
    Later,
    /// The peer has closed the connection, it is broken, or the visitor has seen enough.
    Never,
}

/// Who is shown what a peer sends, and says whether to go on.
pub(super) trait Visitor {
    /// A message.
    fn message(&mut self, bytes: &[u8]) -> bool;
    /// A question whether the connection is alive (RFC 5626 section 3.5.1).
    fn ping(&mut self) -> bool;
}

impl Stream {
    /// A connection that a peer has opened.
    pub(super) fn accepted(
        socket: TcpStream,
        connection: Connection,
        flow: Flow,
        now: Instant,
    ) -> Self {
        let due = now + FIRST_MESSAGE_TIMEOUT;
        Self::new(socket, connection, flow, due, Writing::Open(Vec::new()))
    }

    /// A connection that is being opened.
    pub(super) fn connecting(
        socket: TcpStream,
        connection: Connection,
        flow: Flow,
        now: Instant,
    ) -> Self {
        let due = now + CONNECT_TIMEOUT;
        Self::new(socket, connection, flow, due, Writing::Connecting(Vec::new()))
    }

    fn new(
        socket: TcpStream,
        connection: Connection,
        flow: Flow,
        due: Instant,
        writing: Writing,
    ) -> Self {
        let flow = Flow { connection: Some(connection), ..flow };
        let reading = Reading {
            framer: Framer::default(),
            partial: Vec::new(),
            line_ends: 0,
            has_spoken: false,
            is_over: false,
            ending: None,
            due,
        };
        Self {
            connection,
            flow,
            socket,
            reading: Mutex::new(reading),
            writing: Mutex::new(writing),
        }
    }

    /// Sends `parts`, one after the other, as messages on `flow`; what the system does not take waits, and `set` is
    /// told so.
    ///
    /// # Errors
    /// Where none of them can be sent, now or later.
    pub(super) fn send(
        &self,
        flow: &Flow,
        parts: &[IoSlice<'_>],
        set: &Set,
    ) -> Result<(), SendError> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let mut writing = self.writing.lock();
        if writing.length() + length > MAX_UNSENT {
            return Err(SendError::Full);
        }
        let unsent = match &mut *writing {
            Writing::Connecting(messages) => {
                messages.extend(parts.iter().map(|part| (*flow, part.to_vec())));
                return Ok(());
            }
            Writing::Open(unsent) => unsent,
            Writing::Closed => return Err(SendError::Broken),
        };
        if !unsent.is_empty() {
            parts.iter().for_each(|part| unsent.extend_from_slice(part));
            return Ok(());
        }
        let mut socket = &self.socket;
        let mut taken = taken(match parts {
            [part] => socket.write(part),
            _ => socket.write_vectored(parts),
        })?;
        for part in parts {
            let own = taken.min(part.len());
            unsent.extend_from_slice(&part[own..]);
            taken -= own;
        }
        // While `writing` is locked, or one thread could wait for room and another one end that at once.
        match unsent.is_empty() {
            true => Ok(()),
            false => self.change(set, Wait::Both),
        }
    }

    /// Writes what waits, now that there is room, and tells `set` when nothing waits any more.
    ///
    /// # Errors
    /// Where the connection is broken, or was not made.
    pub(super) fn flush(&self, now: Instant, set: &Set) -> Result<(), SendError> {
        let mut reading = self.reading.lock();
        let mut writing = self.writing.lock();
        let mut unsent = match &mut *writing {
            Writing::Connecting(messages) => {
                match self.socket.take_error() {
                    Ok(None) => {}
                    Ok(Some(_)) | Err(_) => return Err(SendError::Broken),
                }
                reading.due = now + FIRST_MESSAGE_TIMEOUT;
                messages.iter().flat_map(|(_, bytes)| bytes).copied().collect()
            }
            Writing::Open(unsent) => std::mem::take(unsent),
            Writing::Closed => return Ok(()),
        };
        if !unsent.is_empty() {
            // Only then it counts as open: what waits for a connection that fails at its first write is reported.
            let taken = taken((&self.socket).write(&unsent))?;
            unsent.drain(..taken);
        }
        if !unsent.is_empty() {
            *writing = Writing::Open(unsent);
            return Ok(());
        }
        *writing = Writing::Open(Vec::new());
        if reading.ending.is_some() {
            self.shut_down();
        }
        self.change(set, Wait::Read)
    }

    fn change(&self, set: &Set, wait: Wait) -> Result<(), SendError> {
        set.change(&self.socket, self.connection, wait).map_err(|_| SendError::Broken)
    }

    /// Whether nothing more is sent.
    pub(super) fn is_closed(&self) -> bool {
        matches!(*self.writing.lock(), Writing::Closed)
    }

    /// Whether all was written.
    pub(super) fn is_flushed(&self) -> bool {
        self.writing.lock().length() == 0
    }

    /// Ends: at `due`, or when all is written and the peer says no more. True where that is so already.
    ///
    /// # Errors
    /// When that cannot be waited for.
    pub(super) fn begin_end(
        &self,
        ending: Ending,
        due: Instant,
        set: &Set,
    ) -> Result<bool, SendError> {
        let mut reading = self.reading.lock();
        (reading.ending, reading.due) = (Some(ending), due);
        match (ending, self.is_flushed()) {
            (Ending::Heard, true) => return Ok(true),
            (Ending::Heard, false) => self.change(set, Wait::Write)?,
            (Ending::Deaf, true) => self.shut_down(),
            (Ending::Deaf, false) => {}
        }
        Ok(false)
    }

    /// Tells the peer that nothing more comes.
    fn shut_down(&self) {
        // It is gone otherwise, which is found out when reading.
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    pub(super) fn ending(&self) -> Option<Ending> {
        self.reading.lock().ending
    }

    /// Reads what is not listened to. False where the peer says no more.
    pub(super) fn discard(&self, chunk: &mut [u8]) -> bool {
        match (&self.socket).read(chunk) {
            Ok(count) => count > 0,
            Err(error) => is_passing(&error),
        }
    }

    /// Takes note that what was said has not been read: a message that is not whole has its time anew.
    pub(super) fn excuse(&self, now: Instant) {
        let reading = &mut *self.reading.lock();
        reading.due = reading.due.max(now + MESSAGE_TIMEOUT);
    }

    /// When it is closed if nothing happens.
    pub(super) fn due(&self) -> Instant {
        self.reading.lock().due
    }

    /// Has nothing more sent. Returns what waited for a connection that was not made.
    pub(super) fn close(&self) -> Vec<Undelivered> {
        match std::mem::replace(&mut *self.writing.lock(), Writing::Closed) {
            Writing::Connecting(messages) => messages,
            Writing::Open(_) | Writing::Closed => Vec::new(),
        }
    }

    /// Reads what there is, up to the length of `chunk`, and shows it to `visitor`.
    ///
    /// # Errors
    /// Where the stream cannot go on. Its unread part is given with the error.
    pub(super) fn read(
        &self,
        now: Instant,
        chunk: &mut [u8],
        visitor: &mut impl Visitor,
    ) -> Result<More, (FrameError, Vec<u8>)> {
        let mut reading = self.reading.lock();
        if reading.is_over {
            return Ok(More::Later);
        }
        let more = reading.read(&self.socket, now, chunk, visitor);
        reading.is_over = matches!(more, Ok(More::Never) | Err(_));
        more
    }
}

impl Reading {
    /// As [`Stream::read`].
    fn read(
        &mut self,
        mut socket: &TcpStream,
        now: Instant,
        chunk: &mut [u8],
        visitor: &mut impl Visitor,
    ) -> Result<More, (FrameError, Vec<u8>)> {
        let count = match socket.read(chunk) {
            Ok(0) => return Ok(More::Never),
            Ok(count) => count,
            Err(error) if is_passing(&error) => return Ok(More::Later),
            Err(_) => return Ok(More::Never),
        };
        let new = &chunk[..count];
        let was_whole = self.partial.is_empty();
        let mut partial = std::mem::take(&mut self.partial);
        let mut rest = match was_whole {
            true => new,
            false => {
                partial.extend_from_slice(new);
                &partial[..]
            }
        };
        let mut has_message = false;
        loop {
            match self.framer.next(rest) {
                Ok(Frame::Message(length)) => {
                    let (message, after) = rest.split_at(length);
                    if !visitor.message(message) {
                        return Ok(More::Never);
                    }
                    has_message = true;
                    self.line_ends = 0;
                    rest = after;
                }
                Ok(Frame::LineEnds(length)) => {
                    self.line_ends += length;
                    if self.line_ends >= b"\r\n\r\n".len() {
                        self.line_ends = 0;
                        if !visitor.ping() {
                            return Ok(More::Never);
                        }
                    }
                    rest = &rest[length..];
                }
                Ok(Frame::Incomplete) => break,
                Err(error) => return Err((error, rest.to_vec())),
            }
        }
        self.has_spoken |= has_message;
        // A message has its time from its first byte on, and who has said nothing yet gets no more for that.
        if !rest.is_empty() {
            if was_whole || has_message {
                self.due = now + MESSAGE_TIMEOUT;
            }
        } else if self.has_spoken {
            self.due = now + IDLE_TIMEOUT;
        }
        let left = rest.len();
        if was_whole {
            partial = rest.to_vec();
        } else {
            partial.drain(..partial.len() - left);
        }
        if left > 0 {
            self.partial = partial;
        }
        Ok(if count == chunk.len() { More::Now } else { More::Later })
    }
}

impl Writing {
    fn length(&self) -> usize {
        match self {
            Self::Connecting(messages) => messages.iter().map(|(_, bytes)| bytes.len()).sum(),
            Self::Open(unsent) => unsent.len(),
            Self::Closed => 0,
        }
    }
}

/// How many bytes the system has taken.
fn taken(written: io::Result<usize>) -> Result<usize, SendError> {
    match written {
        Ok(count) => Ok(count),
        Err(error) if is_passing(&error) => Ok(0),
        Err(_) => Err(SendError::Broken),
    }
}

/// Whether it may well go on later.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
