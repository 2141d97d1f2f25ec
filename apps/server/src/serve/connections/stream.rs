//! One connection: what was read of it, and what is to be written to it.

mod handshake;

use super::FarEnd;
use super::proxied::{Greeting, Proxied};
use super::set::{Set, Wait};
use super::unsent::{MAX_OF_ONE, Unsent};
use net::tls::{CertificateDer, ServerName, Session, TlsError};
use net::{Origins, Reader, Reply, Wire};
use parking_lot::Mutex;
use sip::stream::websocket::Kind;
use sip::stream::{Fault, Full, Heard, Patience, Timeouts};
use sip::{Duration, Instant, Transport};
use sip_server::{Connection, Flow, Payers, Source};
use std::borrow::Cow;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

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
/// How long a peer may take none of what waits for it; it is looked at every [`ROUND`].
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);

/// A connection that is open, or will be.
pub(super) struct Stream {
    pub(super) connection: Connection,
    /// Its two ends, and its number. [`Stream::flow`] is the flow of what comes on it.
    pub(super) ends: Flow,
    /// Where the peer is a proxy.
    pub(super) proxied: Option<Box<Proxied>>,
    /// Who is reached by it.
    pub(super) far_end: FarEnd,
    payers: Payers,
    pub(super) socket: TcpStream,
    /// Whether no message has come.
    is_new: AtomicBool,
    /// Whether the peer has said something in a handshake of TLS.
    has_shaken_hands: AtomicBool,
    /// The domains that the certificate of a peer proves which has opened the connection.
    names: OnceLock<Vec<ServerName<'static>>>,
    /// How many bytes the system has taken, and how many are counted in `unsent`. Both are changed
    /// with `writing` locked.
    taken: AtomicU64,
    counted: AtomicUsize,
    unsent: Arc<Unsent>,
    /// Only who serves the connection looks at this.
    pub(super) reading: Mutex<Reading>,
    /// Whoever sends. Taken by who has `reading`, and never the other way round.
    pub(super) writing: Mutex<Writing>,
}

/// What is read.
pub(super) struct Reading {
    pub(super) reader: Reader,
    pub(super) greeting: Greeting,
    /// When something was read last.
    pub(super) heard: Instant,
    /// How many bytes the peer had taken when that was looked at last, and since when.
    taken: (u64, Instant),
    /// When the connection is closed if nothing happens.
    pub(super) patience: Patience,
    /// What the last step of a handshake has left for the worker: bytes that the peer has said, and
    /// whether it says no more; or why there is no TLS.
    left: Option<Result<(Vec<u8>, bool), TlsError>>,
    /// Whether WebSocket is still to be asked for: messages have no times until then.
    awaits_upgrade: bool,
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
pub(super) enum Writing {
    /// The peer has not accepted the connection, or not agreed on keys. What waits for that, with
    /// the flows to report it on; no wire, while a thread of handshakes has it.
    Connecting(Vec<Undelivered>, Option<Wire>),
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
        let is_secure = tls.is_some();
        let wire = Wire::new(tls, MAX_OF_ONE);
        let writing = match is_secure {
            true => Writing::Connecting(Vec::new(), Some(wire)),
            false => Writing::Open(wire),
        };
        Self::new(socket, connection, flow, far_end, now, writing)
    }

    /// The same for WebSocket, which pages of `origins` may ask for.
    pub(super) fn of_web(mut self, origins: Arc<Origins>) -> Self {
        if let Some(wire) = self.writing.get_mut().wire() {
            wire.become_web_server();
        }
        let reading = self.reading.get_mut();
        reading.reader = Reader::web_server(origins);
        reading.awaits_upgrade = true;
        self.hasten()
    }

    /// The same for a peer that is a proxy, and may say for which client it is.
    pub(super) fn of_proxy(mut self) -> Self {
        self.proxied = Some(Box::new(Proxied::new(self.ends.remote)));
        let reading = self.reading.get_mut();
        reading.patience.end_at(reading.heard + HANDSHAKE_TIMEOUT);
        self
    }

    /// The flow of what comes on it. Of a proxy the remote end is the client, as far as that is
    /// known.
    pub(super) fn flow(&self) -> Flow {
        match &self.proxied {
            Some(proxied) => Flow { remote: proxied.client(), ..self.ends },
            None => self.ends,
        }
    }

    /// The same, with what waits for the peer counted in `unsent`.
    pub(super) fn counted_in(mut self, unsent: &Arc<Unsent>) -> Self {
        self.unsent = Arc::clone(unsent);
        self
    }

    /// Has the peer agree soon on what has to be agreed on, if anything.
    fn hasten(mut self) -> Self {
        let reading = self.reading.get_mut();
        if let Some(wire) = self.writing.get_mut().wire()
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
        let writing = Writing::Connecting(Vec::new(), Some(Wire::new(tls, MAX_OF_ONE)));
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
            greeting: Greeting::default(),
            heard: now,
            taken: (0, now),
            patience: Patience::new(&TIMEOUTS, now),
            left: None,
            awaits_upgrade: false,
            is_over: false,
            ending: None,
        };
        let stream = Self {
            connection,
            ends: flow,
            proxied: None,
            far_end,
            payers: Payers::NONE,
            socket,
            is_new: AtomicBool::new(true),
            has_shaken_hands: AtomicBool::new(false),
            names: OnceLock::new(),
            taken: AtomicU64::new(0),
            counted: AtomicUsize::new(0),
            unsent: Arc::default(),
            reading: Mutex::new(reading),
            writing: Mutex::new(writing),
        };
        stream.hasten()
    }

    /// Has the handshake charged to `payers`, too.
    pub(super) fn caused_by(self, payers: Payers) -> Self {
        Self { payers, ..self }
    }

    /// The accounts of the request for which it was opened from here.
    pub(super) const fn payers(&self) -> Payers {
        self.payers
    }

    /// Whether a message that comes is the first one of a peer that may have shown a certificate.
    pub(super) fn is_introduced(&self) -> bool {
        self.ends.transport == Transport::Tls
            && self.far_end.2.is_none()
            && self.is_new.load(Ordering::Relaxed)
            && self.is_new.swap(false, Ordering::Relaxed)
    }

    /// The domains that the certificate of the peer proves, if it has opened the connection.
    pub(super) fn names(&self) -> &[ServerName<'static>] {
        self.names.get().map_or(&[], |names| &names[..])
    }

    /// Whether it was opened from here.
    pub(super) const fn is_opened_here(&self) -> bool {
        self.far_end.2.is_some()
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
        self.send_on(&mut writing, flow, parts, set)?;
        let counted = self.count(&mut writing);
        if let (Err(_), Writing::Connecting(messages, _)) = (&counted, &mut *writing) {
            messages.truncate(messages.len() - parts.len());
        }
        counted
    }

    fn send_on(
        &self,
        writing: &mut Writing,
        flow: &Flow,
        parts: &[IoSlice<'_>],
        set: &Set,
    ) -> Result<(), SendError> {
        let wire = match writing {
            Writing::Connecting(messages, _) => {
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
            self.taken.fetch_add(taken as u64, Ordering::Relaxed);
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
            self.taken.fetch_add(taken as u64, Ordering::Relaxed);
            wire.consume(taken);
        }
        Ok(())
    }

    /// Counts what waits.
    ///
    /// # Errors
    /// Where more waits than may.
    fn count(&self, writing: &mut Writing) -> Result<(), SendError> {
        let waiting = writing.waiting();
        let before = self.counted.load(Ordering::Relaxed);
        if waiting == before {
            return Ok(());
        }
        let source = self.counted_for();
        if waiting > MAX_OF_ONE || !self.unsent.change(source, before, waiting) {
            return Err(SendError::Full);
        }
        self.counted.store(waiting, Ordering::Relaxed);
        Ok(())
    }

    /// Counts the output that waits for the source `after`, in place of `before`. To be called with
    /// `writing` locked.
    pub(super) fn move_output(&self, before: Source, after: Source) {
        let waiting = self.counted.load(Ordering::Relaxed);
        if waiting > 0 && before != after {
            self.unsent.change(before, waiting, 0);
            if !self.unsent.change(after, 0, waiting) {
                self.counted.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Whether the peer has taken nothing for long, of what waits for it.
    pub(super) fn is_stuck(&self, now: Instant) -> bool {
        let mut reading = self.reading.lock();
        let taken = self.taken.load(Ordering::Relaxed);
        if self.is_flushed() || reading.taken.0 != taken {
            reading.taken = (taken, now);
        }
        now.since(reading.taken.1) >= WRITE_TIMEOUT
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
        self.advance_on(reading, writing, now, set)?;
        self.count(writing)
    }

    fn advance_on(
        &self,
        reading: &mut Reading,
        writing: &mut Writing,
        now: Instant,
        set: &Set,
    ) -> Result<(), SendError> {
        let wire = match writing {
            Writing::Connecting(messages, Some(wire)) if wire.is_ready() => {
                reading.patience = Patience::new(&TIMEOUTS, now);
                messages.iter().try_for_each(|(_, bytes)| wire.push(&[&bytes[..]]))?;
                wire
            }
            Writing::Connecting(_, Some(wire)) | Writing::Open(wire) => wire,
            Writing::Connecting(_, None) | Writing::Closed => return Ok(()),
        };
        self.write(wire)?;
        let (is_ready, is_empty) = (wire.is_ready(), wire.is_empty());
        // Only now it counts as open: what waits for a connection that fails at its first write is
        // reported.
        if is_ready
            && let Writing::Connecting(_, wire) = writing
            && let Some(wire) = wire.take()
        {
            *writing = Writing::Open(wire);
        }
        if !is_empty {
            return self.change(set, Wait::Both);
        }
        if reading.ending.is_some() {
            self.shut_down();
        }
        // What is left is not told by the socket.
        self.change(set, if reading.left.is_some() { Wait::Both } else { Wait::Read })
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
        if let Some(wire) = self.writing.lock().wire()
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

    /// Has nothing more sent. Returns whether messages could be sent, and what waited for a
    /// connection that was not made.
    pub(super) fn close(&self) -> (bool, Vec<Undelivered>) {
        let mut writing = self.writing.lock();
        let was = std::mem::replace(&mut *writing, Writing::Closed);
        // What is less is always counted.
        let _ = self.count(&mut writing);
        match was {
            Writing::Connecting(messages, _) => (false, messages),
            Writing::Open(_) => (true, Vec::new()),
            Writing::Closed => (false, Vec::new()),
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
        let (bytes, has_ended, more) = if let Some(left) = reading.left.take() {
            let (plain, has_ended) = left.map_err(ReadError::Tls)?;
            (Cow::Owned(plain), has_ended, More::Now)
        } else {
            let (count, more) = match self.take(&mut reading.greeting, chunk) {
                Ok((0, _)) => return Ok(More::Never),
                Ok(taken) => taken,
                Err(error) if is_passing(&error) => return Ok(More::Later),
                Err(_) => return Ok(More::Never),
            };
            reading.heard = now;
            match self.ends.transport.is_secure() {
                false => (Cow::Borrowed(&chunk[..count]), false, more),
                true => {
                    let plain = self.decrypt(reading, &chunk[..count], now, set);
                    let (plain, has_ended) = plain.map_err(ReadError::Tls)?;
                    (plain, has_ended, more)
                }
            }
        };
        let (mut has_replied, mut has_agreed) = (false, false);
        let received = reading.reader.receive(&bytes, visit, |reply| {
            has_replied = true;
            has_agreed |= reply == Reply::Open;
            if let (Reply::Client(address, port), Some(proxied)) = (&reply, &self.proxied) {
                proxied.note(*address, *port);
            }
            self.reply(reply);
        });
        if has_agreed {
            reading.patience = Patience::new(&TIMEOUTS, now);
            reading.awaits_upgrade = false;
        }
        if let Ok(progress) = received
            && !reading.awaits_upgrade
        {
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
        let Writing::Open(wire) = &mut *writing else { return Ok((Cow::default(), true)) };
        let plain = wire.receive(bytes);
        let has_ended = wire.has_ended();
        let is_gone = !wire.is_empty() && self.advance(reading, &mut writing, now, set).is_err();
        Ok((plain?, has_ended || is_gone))
    }

    /// Reads into `chunk` the bytes that came with the greeting of a proxy, or what the system has.
    fn take(&self, greeting: &mut Greeting, chunk: &mut [u8]) -> io::Result<(usize, More)> {
        let rest = &mut greeting.rest;
        if rest.is_empty() {
            let count = (&self.socket).read(chunk)?;
            return Ok((count, if count == chunk.len() { More::Now } else { More::Later }));
        }
        let count = rest.len().min(chunk.len());
        chunk[..count].copy_from_slice(&rest[..count]);
        *rest = rest.split_off(count);
        Ok((count, More::Now))
    }
}

#[cfg(test)]
impl Stream {
    pub(super) fn waiting(&self) -> usize {
        self.writing.lock().waiting()
    }
}

impl Writing {
    /// True where messages can come: keys and WebSocket are agreed on.
    pub(super) fn is_ready(&self) -> bool {
        matches!(self, Self::Open(wire) if wire.is_ready())
    }

    fn is_empty(&mut self) -> bool {
        self.wire().is_none_or(|wire| wire.is_empty())
    }

    /// How many bytes wait.
    fn waiting(&mut self) -> usize {
        let messages = match self {
            Self::Connecting(messages, _) => messages.iter().map(|(_, bytes)| bytes.len()).sum(),
            Self::Open(_) | Self::Closed => 0,
        };
        messages + self.wire().map_or(0, |wire| wire.pending().len())
    }

    fn wire(&mut self) -> Option<&mut Wire> {
        match self {
            Self::Connecting(_, wire) => wire.as_mut(),
            Self::Open(wire) => Some(wire),
            Self::Closed => None,
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
pub(super) fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
