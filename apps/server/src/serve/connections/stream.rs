//! One connection: its input, its pending output and its timeouts.

mod handshake;
mod read;
mod write;

pub(super) use read::Pinged;

use super::client::{Greeting, Proxied};
use super::far_end::FarEnd;
use super::set::{Set, Wait};
use super::unsent::{MAX_OF_ONE, Unsent};
use net::tls::{CertificateDer, ServerName, Session, TlsError};
use net::{Document, Origins, Reader, Reply, Wire};
use parking_lot::Mutex;
use sip::stream::websocket::Kind;
use sip::stream::{Fault, Full, Patience, StreamItem, Timeouts};
use sip::{Duration, Instant, Transport};
use sip_server::{Connection, Flow, Payers, Source};
use std::borrow::Cow;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The timeout of establishing a TCP connection.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout of the TLS handshake, and of the WebSocket handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeouts of a peer. An idle connection may last longer than the longest registration by
/// default.
pub(super) const TIMEOUTS: Timeouts = Timeouts {
    first_message: Duration::from_secs(60),
    message: Duration::from_secs(20),
    idle: Duration::from_secs(3 * 3600),
};
/// The silence of a WebSocket peer after which a ping is sent, and after which the connection is
/// closed. A web page cannot send pings by itself.
const WEB_SILENCE: [Duration; 2] = [Duration::from_secs(30), Duration::from_secs(100)];

/// A connection, established or being established.
pub(super) struct Stream {
    pub(super) connection: Connection,
    /// The two ends and the connection number. [`Stream::flow`] is the flow of received messages.
    pub(super) ends: Flow,
    /// The client, if the peer is a proxy.
    pub(super) proxied: Option<Box<Proxied>>,
    /// The far end of the connection.
    pub(super) far_end: FarEnd,
    payers: Payers,
    pub(super) socket: TcpStream,
    /// True until the first message.
    is_new: AtomicBool,
    /// True once the peer has sent bytes of a TLS handshake.
    has_shaken_hands: AtomicBool,
    /// The domains that the client certificate of the peer proves. Set on accepted connections
    /// only.
    names: OnceLock<Vec<ServerName<'static>>>,
    /// The number of bytes that the system has taken, and of those counted in `unsent`. Both are
    /// changed with `writing` locked.
    taken: AtomicU64,
    counted: AtomicUsize,
    unsent: Arc<Unsent>,
    /// Locked by the thread that serves the connection.
    pub(super) reading: Mutex<Reading>,
    /// Locked by any thread that sends. The lock order is `reading`, `writing`.
    pub(super) writing: Mutex<Writing>,
}

/// The state of receiving.
pub(super) struct Reading {
    pub(super) reader: Reader,
    pub(super) greeting: Greeting,
    /// The time of the last input.
    pub(super) heard: Instant,
    /// The number of bytes taken by the peer at the last check, and the time since which it is
    /// unchanged.
    taken: (u64, Instant),
    /// The timeout of the connection.
    pub(super) patience: Patience,
    /// The result of the last handshake step, for the worker: received bytes and true if the peer
    /// has ended the stream, or the TLS error.
    left: Option<Result<(Vec<u8>, bool), TlsError>>,
    /// True until the WebSocket handshake is done. Message timeouts begin with its end.
    awaits_upgrade: bool,
    /// True if no further input is read as messages.
    is_over: bool,
    ending: Option<Ending>,
}

/// The state of a connection that closes once its output is written, or after a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The peer has ended its stream.
    ByPeer,
    /// The input is ignored, but still read: closing a socket with unread input would reset the
    /// connection and lose the output.
    Discarding,
}

/// The state of sending.
pub(super) enum Writing {
    /// The TCP connection or the TLS handshake is not finished. Contains the messages that wait,
    /// with the flows for failure reports, and the wire, unless a handshake thread has it.
    Connecting(Vec<Undelivered>, Option<Wire>),
    /// The output that the system has not taken yet.
    Open(Wire),
    /// Nothing is sent any more.
    Closed,
}

/// A message that could not be sent.
pub(super) type Undelivered = (Flow, Vec<u8>);

/// The error of sending on a connection.
#[derive(Debug)]
pub(super) enum SendError {
    /// The peer does not read.
    Full,
    /// The connection is lost.
    Broken,
}

/// The error of reading from a connection.
#[derive(Debug, PartialEq)]
pub(super) enum ReadError {
    /// The input is not a SIP message.
    Fault(Fault),
    /// The input is not authentic TLS, or not TLS.
    Tls(TlsError),
}

/// The state of a connection after a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum More {
    /// More input may be available: the buffer was filled.
    Now,
    /// No more input is available now.
    Later,
    /// The peer has closed the connection, it is lost, or the visitor has stopped.
    Never,
}

impl Stream {
    /// A connection accepted from a peer, with `tls` or plain.
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

    /// Makes it a WebSocket connection, allowed for pages of `origins`.
    pub(super) fn of_web(mut self, origins: Arc<Origins>) -> Self {
        if let Some(wire) = self.writing.get_mut().wire() {
            wire.become_web_server();
        }
        let reading = self.reading.get_mut();
        reading.reader = Reader::web_server(origins);
        reading.awaits_upgrade = true;
        self.hasten()
    }

    /// Answers GET and HEAD requests on a WebSocket connection with `documents`.
    pub(super) fn serving(mut self, documents: &'static [Document]) -> Self {
        self.reading.get_mut().reader.serve(documents);
        self
    }

    /// Makes it a connection from a proxy, which may name its client.
    pub(super) fn of_proxy(mut self) -> Self {
        self.proxied = Some(Box::new(Proxied::new(self.ends.remote)));
        let reading = self.reading.get_mut();
        reading.patience.end_at(reading.heard + HANDSHAKE_TIMEOUT);
        self
    }

    /// The flow of received messages. If the peer is a proxy, the remote end is the client, as far
    /// as it is known.
    pub(super) fn flow(&self) -> Flow {
        match &self.proxied {
            Some(proxied) => Flow { remote: proxied.client(), ..self.ends },
            None => self.ends,
        }
    }

    /// Has the output that waits counted in `unsent`.
    pub(super) fn counted_in(mut self, unsent: &Arc<Unsent>) -> Self {
        self.unsent = Arc::clone(unsent);
        self
    }

    /// Sets the handshake timeout, if there is a handshake.
    fn hasten(mut self) -> Self {
        let reading = self.reading.get_mut();
        if let Some(wire) = self.writing.get_mut().wire()
            && !wire.is_ready()
        {
            reading.patience.end_at(reading.heard + HANDSHAKE_TIMEOUT);
        }
        self
    }

    /// A connection being opened to `far_end`, with `tls` or plain.
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

    /// The time since the last input.
    pub(super) fn silence(&self, now: Instant) -> Duration {
        now.since(self.reading.lock().heard)
    }

    /// Adds `payers` to the accounts that the handshake is charged to.
    pub(super) fn caused_by(self, payers: Payers) -> Self {
        Self { payers, ..self }
    }

    /// The accounts of the request for which this server opened the connection.
    pub(super) const fn payers(&self) -> Payers {
        self.payers
    }

    /// Returns true for the first message of a TLS connection that a peer opened, once.
    pub(super) fn is_introduced(&self) -> bool {
        self.ends.transport == Transport::Tls
            && self.far_end.2.is_none()
            && self.is_new.load(Ordering::Relaxed)
            && self.is_new.swap(false, Ordering::Relaxed)
    }

    /// The domains that the client certificate of the peer proves. Empty if this server opened the
    /// connection.
    pub(super) fn names(&self) -> &[ServerName<'static>] {
        self.names.get().map_or(&[], |names| &names[..])
    }

    /// Returns true if this server opened the connection as a TLS client.
    pub(super) const fn is_opened_here(&self) -> bool {
        self.far_end.2.is_some()
    }

    /// Returns true if nothing more is sent.
    pub(super) fn is_closed(&self) -> bool {
        matches!(*self.writing.lock(), Writing::Closed)
    }

    /// Returns true if all output is written.
    pub(super) fn is_flushed(&self) -> bool {
        self.writing.lock().is_empty()
    }

    /// Begins to close: at `due`, or when all output is written and the peer has ended its stream.
    /// Returns true if that is so already.
    ///
    /// # Errors
    /// [`SendError`] if the events cannot be waited for, or the connection is lost.
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
            (Ending::ByPeer, true) => return Ok(true),
            (Ending::ByPeer, false) => self.change(set, Wait::Write)?,
            (Ending::Discarding, true) => self.shut_down(),
            (Ending::Discarding, false) => {}
        }
        Ok(false)
    }

    /// Ends the output stream.
    fn shut_down(&self) {
        // An error means that the connection is lost, which the next read detects.
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    pub(super) fn ending(&self) -> Option<Ending> {
        self.reading.lock().ending
    }

    /// Reads and drops input. Returns false if the peer has ended its stream.
    pub(super) fn discard(&self, chunk: &mut [u8]) -> bool {
        match (&self.socket).read(chunk) {
            Ok(count) => count > 0,
            Err(error) => is_passing(&error),
        }
    }

    /// Restarts the timeout of an incomplete message, because available input has not been read.
    pub(super) fn excuse(&self, now: Instant) {
        self.reading.lock().patience.excuse(&TIMEOUTS, now);
    }

    /// The time at which the connection is closed if nothing happens.
    pub(super) fn due(&self) -> Instant {
        self.reading.lock().patience.due()
    }

    /// Ends sending. Returns true if the connection was open, and the messages that waited for an
    /// unfinished one.
    pub(super) fn close(&self) -> (bool, Vec<Undelivered>) {
        let mut writing = self.writing.lock();
        let was = std::mem::replace(&mut *writing, Writing::Closed);
        // A decrease is always within the limits.
        let _ = self.count(&mut writing);
        match was {
            Writing::Connecting(messages, _) => (false, messages),
            Writing::Open(_) => (true, Vec::new()),
            Writing::Closed => (false, Vec::new()),
        }
    }
}

#[cfg(test)]
impl Stream {
    pub(super) fn waiting(&self) -> usize {
        self.writing.lock().waiting()
    }
}

impl Writing {
    /// Returns true if the TLS and WebSocket handshakes are done and messages can be exchanged.
    pub(super) fn is_ready(&self) -> bool {
        matches!(self, Self::Open(wire) if wire.is_ready())
    }

    fn is_empty(&mut self) -> bool {
        self.wire().is_none_or(|wire| wire.is_empty())
    }

    /// The number of bytes that wait.
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

/// Returns true if the operation may succeed later.
pub(super) fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
