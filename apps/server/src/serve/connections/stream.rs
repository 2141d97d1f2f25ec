//! One connection: what was read of it, and what is to be written to it.

use super::FarEnd;
use super::set::{Set, Wait};
use net::tls::{CertificateDer, Session, TlsError};
use net::{Origins, Reader, Reply, Wire};
use parking_lot::Mutex;
use sip::stream::websocket::Kind;
use sip::stream::{Fault, Full, Heard, Patience, Timeouts};
use sip::{Duration, Instant, Transport};
use sip_server::{Connection, Flow};
use std::borrow::Cow;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How long a peer may take to accept a connection.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a peer may take to agree on keys, and on WebSocket.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a peer may take. A connection may be silent for longer than the longest registration by
/// default.
pub(super) const TIMEOUTS: Timeouts = Timeouts {
    first_message: Duration::from_secs(60),
    message: Duration::from_secs(20),
    idle: Duration::from_secs(3 * 3600),
};
/// How long the other end of a WebSocket may be silent until it is asked whether it is there, and
/// until it counts as gone: a page cannot ask by itself.
const WEB_SILENCE: [Duration; 2] = [Duration::from_secs(30), Duration::from_secs(100)];
/// Bytes that may wait for a peer that does not read; then the connection is closed.
const MAX_UNSENT: usize = 1 << 20;

/// A connection that is open, or will be.
pub(super) struct Stream {
    pub(super) connection: Connection,
    /// Its two ends, and its number.
    pub(super) flow: Flow,
    /// Who is reached by it.
    pub(super) far_end: FarEnd,
    pub(super) socket: TcpStream,
    /// Whether no message has come.
    is_new: AtomicBool,
    /// Only who serves the connection looks at this.
    reading: Mutex<Reading>,
    /// Whoever sends. Taken by who has `reading`, and never the other way round.
    writing: Mutex<Writing>,
}

/// What is read.
struct Reading {
    reader: Reader,
    /// When something was read last.
    heard: Instant,
    /// When the connection is closed if nothing happens.
    patience: Patience,
    /// Whether nothing more is to be read as messages.
    is_over: bool,
    ending: Option<Ending>,
}

/// Why a connection is to be closed. Until all is written it stays, for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The peer says no more.
    Heard,
    /// What it says is not listened to. It is read nevertheless: to close before would take back
    /// what was written.
    Deaf,
}

/// What is written.
enum Writing {
    /// The peer has not accepted the connection, or not agreed on keys. What waits for that, with
    /// the flows to report it on.
    Connecting(Vec<Undelivered>, Wire),
    /// What the system has not taken yet.
    Open(Wire),
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

/// Why nothing more is read as messages.
#[derive(Debug, PartialEq)]
pub(super) enum ReadError {
    /// What came is none.
    Fault(Fault),
    /// What came is not what the peer has said.
    Tls(TlsError),
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

impl Stream {
    /// A connection that a peer has opened, over `tls` or plain.
    pub(super) fn accepted(
        socket: TcpStream,
        connection: Connection,
        flow: Flow,
        tls: Option<Session>,
        now: Instant,
    ) -> Self {
        let far_end = (flow.transport, flow.remote, None);
        Self::new(socket, connection, flow, far_end, now, Writing::Open(Wire::new(tls, MAX_UNSENT)))
    }

    /// The same for WebSocket, which pages of `origins` may ask for.
    pub(super) fn of_web(mut self, origins: Arc<Origins>) -> Self {
        if let Writing::Open(wire) = self.writing.get_mut() {
            wire.become_web_server();
        }
        self.reading.get_mut().reader = Reader::web_server(origins);
        self.hasten()
    }

    /// Has the peer agree soon on what has to be agreed on, if anything.
    fn hasten(mut self) -> Self {
        let reading = self.reading.get_mut();
        if let Writing::Open(wire) = self.writing.get_mut()
            && !wire.is_ready()
        {
            reading.patience.end_at(reading.heard + HANDSHAKE_TIMEOUT);
        }
        self
    }

    /// A connection that is being opened to `far_end`, likewise.
    pub(super) fn connecting(
        socket: TcpStream,
        connection: Connection,
        flow: Flow,
        far_end: FarEnd,
        tls: Option<Session>,
        now: Instant,
    ) -> Self {
        let writing = Writing::Connecting(Vec::new(), Wire::new(tls, MAX_UNSENT));
        let mut stream = Self::new(socket, connection, flow, far_end, now, writing);
        stream.reading.get_mut().patience.end_at(now + CONNECT_TIMEOUT);
        stream
    }

    fn new(
        socket: TcpStream,
        connection: Connection,
        flow: Flow,
        far_end: FarEnd,
        now: Instant,
        writing: Writing,
    ) -> Self {
        let flow = Flow { connection: Some(connection), ..flow };
        let reading = Reading {
            reader: Reader::default(),
            heard: now,
            patience: Patience::new(&TIMEOUTS, now),
            is_over: false,
            ending: None,
        };
        let stream = Self {
            connection,
            flow,
            far_end,
            socket,
            is_new: AtomicBool::new(true),
            reading: Mutex::new(reading),
            writing: Mutex::new(writing),
        };
        stream.hasten()
    }

    /// Whether a message that comes is the first one of a peer that may have shown a certificate.
    pub(super) fn is_introduced(&self) -> bool {
        self.flow.transport == Transport::Tls
            && self.far_end.2.is_none()
            && self.is_new.load(Ordering::Relaxed)
            && self.is_new.swap(false, Ordering::Relaxed)
    }

    /// The certificates that the peer has shown, its own first.
    pub(super) fn certificates(&self) -> Vec<CertificateDer<'static>> {
        match &*self.writing.lock() {
            Writing::Open(wire) => {
                wire.tls().map(|tls| tls.certificates().to_vec()).unwrap_or_default()
            }
            Writing::Connecting(..) | Writing::Closed => Vec::new(),
        }
    }

    /// Sends `parts`, one after the other, as messages on `flow`; what the system does not take
    /// waits, and `set` is told so.
    ///
    /// # Errors
    /// Where none of them can be sent, now or later.
    pub(super) fn send(
        &self,
        flow: &Flow,
        parts: &[IoSlice<'_>],
        set: &Set,
    ) -> Result<(), SendError> {
        let mut writing = self.writing.lock();
        let wire = match &mut *writing {
            Writing::Connecting(messages, _) => {
                let waiting: usize = messages.iter().map(|(_, bytes)| bytes.len()).sum();
                if waiting + parts.iter().map(|part| part.len()).sum::<usize>() > MAX_UNSENT {
                    return Err(SendError::Full);
                }
                messages.extend(parts.iter().map(|part| (*flow, part.to_vec())));
                return Ok(());
            }
            Writing::Open(wire) => wire,
            Writing::Closed => return Err(SendError::Broken),
        };
        if !wire.is_empty() {
            return Ok(wire.push(parts)?);
        }
        let mut socket = &self.socket;
        if wire.is_plain() {
            let mut taken = taken(match parts {
                [part] => socket.write(part),
                _ => socket.write_vectored(parts),
            })?;
            for part in parts {
                let own = taken.min(part.len());
                wire.push(&[&part[own..]])?;
                taken -= own;
            }
        } else {
            wire.push(parts)?;
            self.write(wire)?;
        }
        // While `writing` is locked, or one thread could wait for room and another one end that at
        // once.
        match wire.is_empty() {
            true => Ok(()),
            false => self.change(set, Wait::Both),
        }
    }

    /// Writes what waits, as far as there is room.
    fn write(&self, wire: &mut Wire) -> Result<(), SendError> {
        if !wire.is_empty() {
            let taken = taken((&self.socket).write(wire.pending()))?;
            wire.consume(taken);
        }
        Ok(())
    }

    /// Writes what waits, now that there is room, and tells `set` when nothing waits any more.
    ///
    /// # Errors
    /// Where the connection is broken, or was not made.
    pub(super) fn flush(&self, now: Instant, set: &Set) -> Result<(), SendError> {
        let mut reading = self.reading.lock();
        let mut writing = self.writing.lock();
        if let Writing::Connecting(..) = &*writing {
            match self.socket.take_error() {
                Ok(None) => {}
                Ok(Some(_)) | Err(_) => return Err(SendError::Broken),
            }
        }
        self.advance(&mut reading, &mut writing, now, set)
    }

    /// Opens the connection if it is ready, and writes what waits.
    fn advance(
        &self,
        reading: &mut Reading,
        writing: &mut Writing,
        now: Instant,
        set: &Set,
    ) -> Result<(), SendError> {
        let wire = match writing {
            Writing::Connecting(messages, wire) if wire.is_ready() => {
                reading.patience = Patience::new(&TIMEOUTS, now);
                messages.iter().try_for_each(|(_, bytes)| wire.push(&[&bytes[..]]))?;
                wire
            }
            Writing::Connecting(_, wire) | Writing::Open(wire) => wire,
            Writing::Closed => return Ok(()),
        };
        self.write(wire)?;
        let (is_ready, is_empty) = (wire.is_ready(), wire.is_empty());
        // Only now it counts as open: what waits for a connection that fails at its first write is
        // reported.
        if is_ready
            && let Writing::Connecting(..) = writing
            && let Writing::Connecting(_, wire) = std::mem::replace(writing, Writing::Closed)
        {
            *writing = Writing::Open(wire);
        }
        if !is_empty {
            return self.change(set, Wait::Both);
        }
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
        self.writing.lock().is_empty()
    }

    /// Ends: at `due`, or when all is written and the peer says no more. True where that is so
    /// already.
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
        reading.ending = Some(ending);
        reading.patience.end_at(due);
        if let Writing::Open(wire) = &mut *self.writing.lock()
            && !wire.is_plain()
        {
            wire.end();
            self.write(wire)?;
        }
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

    /// Takes note that what was said has not been read: a message that is not whole has its time
    /// anew.
    pub(super) fn excuse(&self, now: Instant) {
        self.reading.lock().patience.excuse(&TIMEOUTS, now);
    }

    /// When it is closed if nothing happens.
    pub(super) fn due(&self) -> Instant {
        self.reading.lock().patience.due()
    }

    /// Has nothing more sent. Returns what waited for a connection that was not made.
    pub(super) fn close(&self) -> Vec<Undelivered> {
        match std::mem::replace(&mut *self.writing.lock(), Writing::Closed) {
            Writing::Connecting(messages, _) => messages,
            Writing::Open(_) | Writing::Closed => Vec::new(),
        }
    }

    /// Reads what there is, up to the length of `chunk`, and shows it to `visit` until that breaks
    /// off.
    ///
    /// # Errors
    /// Where the stream cannot go on.
    pub(super) fn read(
        &self,
        now: Instant,
        chunk: &mut [u8],
        set: &Set,
        visit: impl FnMut(Heard<'_>) -> ControlFlow<()>,
    ) -> Result<More, ReadError> {
        let mut reading = self.reading.lock();
        if reading.is_over {
            return Ok(More::Later);
        }
        let more = self.read_with(&mut reading, now, chunk, set, visit);
        reading.is_over = matches!(more, Ok(More::Never) | Err(_));
        more
    }

    fn read_with(
        &self,
        reading: &mut Reading,
        now: Instant,
        chunk: &mut [u8],
        set: &Set,
        visit: impl FnMut(Heard<'_>) -> ControlFlow<()>,
    ) -> Result<More, ReadError> {
        let count = match (&self.socket).read(chunk) {
            Ok(0) => return Ok(More::Never),
            Ok(count) => count,
            Err(error) if is_passing(&error) => return Ok(More::Later),
            Err(_) => return Ok(More::Never),
        };
        let more = if count == chunk.len() { More::Now } else { More::Later };
        reading.heard = now;
        let (bytes, has_ended) = match self.flow.transport.is_secure() {
            false => (Cow::Borrowed(&chunk[..count]), false),
            true => {
                let plain = self.decrypt(reading, &chunk[..count], now, set);
                plain.map_err(ReadError::Tls)?
            }
        };
        let (mut has_replied, mut has_agreed) = (false, false);
        let received = reading.reader.receive(&bytes, visit, |reply| {
            has_replied = true;
            has_agreed |= reply == Reply::Open;
            self.reply(reply);
        });
        if has_agreed {
            reading.patience = Patience::new(&TIMEOUTS, now);
        }
        if let Ok(progress) = received {
            reading.patience.note(progress, &TIMEOUTS, now);
        }
        if has_replied {
            let mut writing = self.writing.lock();
            if self.advance(reading, &mut writing, now, set).is_err() {
                return Ok(More::Never);
            }
        }
        let progress = received.map_err(ReadError::Fault)?;
        Ok(if progress.is_over || has_ended { More::Never } else { more })
    }

    /// Has written what the layer below messages answers.
    fn reply(&self, reply: Reply) {
        if let Writing::Open(wire) = &mut *self.writing.lock() {
            wire.reply(reply);
        }
    }

    /// Asks the other end of a WebSocket whether it is there, if it has been silent for long. False
    /// where it has been for too long, or is gone.
    pub(super) fn is_there(&self, now: Instant, set: &Set) -> bool {
        let mut reading = self.reading.lock();
        let silence = now.since(reading.heard);
        let mut writing = self.writing.lock();
        match &mut *writing {
            Writing::Open(wire) if wire.is_web() && wire.is_ready() => {
                if silence < WEB_SILENCE[0] {
                    return true;
                }
                wire.reply(Reply::Frame(Kind::Ping, Vec::new()));
            }
            _ => return true,
        }
        silence < WEB_SILENCE[1] && self.advance(&mut reading, &mut writing, now, set).is_ok()
    }

    /// What the peer has said by `bytes`, and whether it says no more, or is gone; what TLS answers
    /// to it is written.
    fn decrypt<'b>(
        &self,
        reading: &mut Reading,
        bytes: &'b [u8],
        now: Instant,
        set: &Set,
    ) -> Result<(Cow<'b, [u8]>, bool), TlsError> {
        let mut writing = self.writing.lock();
        let (Writing::Connecting(_, wire) | Writing::Open(wire)) = &mut *writing else {
            return Ok((Cow::default(), true));
        };
        let was_ready = wire.is_ready();
        let plain = wire.receive(bytes);
        let (is_ready, has_ended) = (wire.is_ready(), wire.has_ended());
        if !was_ready && is_ready {
            reading.patience = Patience::new(&TIMEOUTS, now);
        }
        let has_more = !wire.is_empty() || was_ready != is_ready;
        let is_gone = has_more && self.advance(reading, &mut writing, now, set).is_err();
        Ok((plain?, has_ended || is_gone))
    }

    /// Whether keys are still to be agreed on: what comes is work then.
    pub(super) fn is_handshaking(&self) -> bool {
        self.flow.transport.is_secure()
            && match &*self.writing.lock() {
                Writing::Connecting(_, wire) | Writing::Open(wire) => wire.is_handshaking(),
                Writing::Closed => false,
            }
    }
}

impl Writing {
    fn is_empty(&self) -> bool {
        match self {
            Self::Connecting(_, wire) | Self::Open(wire) => wire.is_empty(),
            Self::Closed => true,
        }
    }
}

impl From<Full> for SendError {
    fn from(_: Full) -> Self {
        Self::Full
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
