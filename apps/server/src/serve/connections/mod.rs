//! TCP, TLS and WebSocket connections: the table of open connections, sending and receiving.
//!
//! Each connection belongs to the set of one worker and is served with it, as a UDP socket is.
//! Every thread may send: it writes to the socket itself as long as the system accepts data.
//! Received messages that cannot be processed at once wait in a backlog, those of one connection in
//! order.

mod client;
mod far_end;
mod handshakes;
mod pauses;
mod proxied;
mod secure;
mod serve;
mod set;
mod stream;
#[cfg(test)]
mod tests;
mod turns;
mod unsent;

use super::listening::SIGNALLING;
use super::local::{AT_ONCE, CarryOut, Engine, Failed, Local};
use crate::log;
use far_end::FarEnd;
use handshakes::Handshakes;
use net::Clock;
use net::tls::{ServerName, called_by};
use nix::sys::epoll::EpollFlags;
use parking_lot::{Mutex, RwLock};
use pauses::Pauses;
pub(super) use secure::CurrentTls;
use set::{EVENTS, Set, Token, Wait};
use sip::stream::{Arrival, Backlog, Fault, FrameError, PONG, StreamItem, Waiting};
use sip::{Duration, Instant, Message, Transport};
use sip_server::{Connection, Flow, OutputMessage, Payers, Source};
use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;
use stream::{CONNECT_TIMEOUT, Ending, More, Pinged, ReadError, SendError, Stream, TIMEOUTS};
use unsent::Unsent;

/// The time for which a closing connection waits until the peer has taken the last output.
const END_TIMEOUT: Duration = Duration::from_millis(500);
/// The pause of a listening socket after `accept` has failed for want of resources.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The longest interval between two checks of a connection: a message may begin at any time.
const ROUND: Duration = TIMEOUTS.message;
/// Bytes read from a connection in one read.
pub(super) const READ_SIZE: usize = 16 * 1024;
/// The maximum number of reads from one connection in one turn.
const CHUNKS: usize = 16;
/// The maximum number of reads in one turn, beyond the first of each connection.
const MORE_CHUNKS: usize = 64;
/// The approximate time of reading in one turn, before the input is processed.
const LONGEST_READING: Duration = Duration::from_millis(5);
/// The maximum number of `epoll_wait` calls in one turn, before the input is processed.
const ROUNDS: usize = 16;
/// Connections accepted in one turn of a listening socket.
const ACCEPT_AT_ONCE: usize = 64;
/// Messages of one connection that are written together.
const PARTS: usize = 16;

/// The transports of connections.
const STREAMS: [Transport; 4] = [Transport::Tcp, Transport::Tls, Transport::Ws, Transport::Wss];

/// Limits on the number of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The total.
    pub(crate) connections: usize,
    /// For one source.
    pub(crate) per_source: usize,
}

/// All connections.
pub(crate) struct Connections {
    /// Receives the messages of the connections.
    engine: Arc<Engine>,
    bounds: Bounds,
    clock: Clock,
    tls: Arc<CurrentTls>,
    listeners: Vec<Listening>,
    owned: Vec<Owned>,
    table: RwLock<Table>,
    /// The output that waits for peers which do not read.
    unsent: Arc<Unsent>,
    /// Counts connections closed because their peers did not read.
    pub(crate) unread_output: AtomicU64,
    /// Counts connections closed because their phones did not answer a keep-alive.
    pub(crate) silent: AtomicU64,
    /// Pings to phones on WebSocket, as keep-alives.
    pub(crate) pings: AtomicU64,
    handshakes: Handshakes,
    pauses: Mutex<Pauses>,
    /// Counts connections not opened because a recent handshake with the same far end failed.
    pub(crate) paused: AtomicU64,
    /// Counts connections refused by a limit or by a ban.
    pub(crate) refused: AtomicU64,
    /// Counts connections closed by a TLS failure.
    pub(crate) tls_failures: AtomicU64,
}

/// A listening socket.
struct Listening {
    socket: TcpListener,
    transport: Transport,
    address: SocketAddr,
}

/// Received messages that wait to be processed.
type Waiters = Backlog<Connection, Arc<Stream>>;

/// The connections and the backlog of one worker.
struct Owned {
    set: Set,
    /// Locked before the locks of a stream.
    backlog: Mutex<Waiters>,
}

struct Table {
    open: HashMap<Connection, Arc<Stream>>,
    /// The newest connection to each far end.
    by_remote: HashMap<FarEnd, Connection>,
    /// Further far ends that are reached by connections which peers opened (RFC 5923).
    aliases: HashMap<Connection, Vec<FarEnd>>,
    by_source: HashMap<Source, usize>,
    /// The number of open connections of each transport, in the order of [`STREAMS`].
    by_transport: [usize; STREAMS.len()],
    next_number: NonZeroU64,
}

impl Connections {
    /// Creates the connections of `workers`. The first worker accepts from `listeners`.
    ///
    /// # Errors
    /// The system gives no epoll instance.
    pub(crate) fn new(
        engine: Arc<Engine>,
        listeners: Vec<(Transport, TcpListener)>,
        workers: usize,
        bounds: Bounds,
        clock: Clock,
        tls: Arc<CurrentTls>,
    ) -> io::Result<Self> {
        let owned = |_| Ok(Owned { set: Set::new()?, backlog: Mutex::default() });
        let owned: Vec<_> = (0..workers.max(1)).map(owned).collect::<io::Result<_>>()?;
        let with_address = |(transport, socket): (Transport, TcpListener)| {
            let address = socket.local_addr()?;
            Ok(Listening { socket, transport, address })
        };
        let listeners: Vec<_> =
            listeners.into_iter().map(with_address).collect::<io::Result<_>>()?;
        for (place, listening) in listeners.iter().enumerate() {
            owned[0].set.listen(&listening.socket, place)?;
        }
        // Connection numbers must differ from those before a restart, which bindings may still
        // name. Those of internal flows are far above.
        let now = clock.now().as_micros().min(u64::MAX >> 2);
        let next_number = NonZeroU64::new(now).unwrap_or(NonZeroU64::MIN);
        let table = Table {
            open: HashMap::new(),
            by_remote: HashMap::new(),
            aliases: HashMap::new(),
            by_source: HashMap::new(),
            by_transport: [0; STREAMS.len()],
            next_number,
        };
        let table = RwLock::new(table);
        Ok(Self {
            engine,
            bounds,
            clock,
            tls,
            listeners,
            owned,
            table,
            unsent: Arc::default(),
            unread_output: AtomicU64::new(0),
            silent: AtomicU64::new(0),
            pings: AtomicU64::new(0),
            handshakes: Handshakes::new()?,
            pauses: Mutex::default(),
            paused: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            tls_failures: AtomicU64::new(0),
        })
    }

    /// The number of workers that own connections.
    pub(super) fn owners(&self) -> usize {
        self.owned.len()
    }

    /// A descriptor that is readable when the connections of the worker `owner` have events.
    pub(super) fn as_fd(&self, owner: usize) -> BorrowedFd<'_> {
        self.owned[owner].set.as_fd()
    }

    /// Sends `transmits`, which have one flow, and appends those that cannot be sent to `failed`.
    pub(super) fn send(&self, transmits: &[OutputMessage], bytes: &[u8], failed: &mut Vec<Failed>) {
        let Some(&OutputMessage { flow, .. }) = transmits.first() else { return };
        let found = self.stream_for(&transmits[0], &bytes[transmits[0].range.clone()]);
        for transmits in transmits.chunks(PARTS) {
            let mut parts = [IoSlice::new(&[]); PARTS];
            for (part, transmit) in parts.iter_mut().zip(transmits) {
                *part = IoSlice::new(&bytes[transmit.range.clone()]);
            }
            let parts = &parts[..transmits.len()];
            let is_sent =
                found.as_ref().is_some_and(|stream| self.send_on(stream, &flow, parts, failed));
            if !is_sent {
                failed.extend(parts.iter().map(|part| Failed::Send(flow, part.to_vec())));
            }
        }
    }

    /// Returns the connection that the flow of `transmit` names. If it names none, returns a
    /// connection to its far end, and opens one for `message` if necessary.
    fn stream_for(&self, transmit: &OutputMessage, message: &[u8]) -> Option<Arc<Stream>> {
        let OutputMessage { flow, payers, .. } = transmit;
        if let Some(connection) = flow.connection {
            return self.get(connection);
        }
        let is_request = !message.starts_with(b"SIP/2.0 ");
        let name = match flow.transport.is_secure() && is_request {
            true => Some(called_by(message)?),
            false => None,
        };
        let far_end = (flow.transport, flow.remote, name);
        self.to(&far_end).or_else(|| self.open(flow, far_end, *payers).ok())
    }

    /// The end of the validity of the first certificate, in seconds since 1970.
    pub(super) fn certificate_until(&self) -> Option<u64> {
        let since = self.tls.valid_until()?.duration_since(SystemTime::UNIX_EPOCH);
        since.ok().map(|since| since.as_secs())
    }

    /// The number of open connections of each transport.
    pub(super) fn counts(&self) -> [(Transport, usize); STREAMS.len()] {
        let counts = self.table.read().by_transport;
        std::array::from_fn(|place| (STREAMS[place], counts[place]))
    }

    fn get(&self, connection: Connection) -> Option<Arc<Stream>> {
        self.table.read().open.get(&connection).cloned()
    }

    /// The newest connection to `far_end`.
    fn to(&self, far_end: &FarEnd) -> Option<Arc<Stream>> {
        let table = self.table.read();
        table.open.get(table.by_remote.get(far_end)?).cloned()
    }

    /// The time since the last input on `connection`, if it is open.
    pub(super) fn silence(&self, connection: Connection, now: Instant) -> Option<Duration> {
        self.get(connection).map(|stream| stream.silence(now))
    }

    /// Sends a ping on the WebSocket connection `connection`. If the peer is gone, the end of the
    /// connection is appended to `failed`.
    pub(super) fn ping(&self, connection: Connection, now: Instant, failed: &mut Vec<Failed>) {
        let Some(stream) = self.get(connection) else { return };
        match stream.ping(now, self.set_of(connection)) {
            Pinged::Sent => _ = self.pings.fetch_add(1, Ordering::Relaxed),
            Pinged::Never => {}
            Pinged::Gone => self.end(&stream, failed),
        }
    }

    /// Closes `connection` because its peer has not answered a keep-alive. Its end is appended to
    /// `failed`.
    pub(super) fn end_silent(&self, connection: Connection, failed: &mut Vec<Failed>) {
        let Some(stream) = self.get(connection) else { return };
        self.silent.fetch_add(1, Ordering::Relaxed);
        log::info("stream", || {
            format!(
                "the connection to {} is closed: the phone answers no keep-alive",
                stream.flow().remote
            )
        });
        self.end(&stream, failed);
    }

    /// Returns true if `parts` were sent or queued. On failure the messages that waited for an
    /// unfinished connection are appended to `failed`.
    fn send_on(
        &self,
        stream: &Stream,
        flow: &Flow,
        parts: &[IoSlice<'_>],
        failed: &mut Vec<Failed>,
    ) -> bool {
        let result = stream.send(flow, parts, self.set_of(stream.connection));
        if let Err(error) = &result {
            if let SendError::Full = error {
                self.note_unread(stream);
            }
            self.end(stream, failed);
        }
        result.is_ok()
    }

    /// Counts and logs that `stream` is closed because its peer does not read.
    fn note_unread(&self, stream: &Stream) {
        self.unread_output.fetch_add(1, Ordering::Relaxed);
        log::warn("stream", || {
            format!("the connection to {} is closed: it does not read", stream.flow().remote)
        });
    }

    /// Returns true if the limits permit one more connection, with `source` if it is known.
    fn has_room_for(&self, source: Option<Source>) -> bool {
        let table = self.table.read();
        let with_source = source.and_then(|source| table.by_source.get(&source)).copied();
        table.open.len() < self.bounds.connections
            && with_source.unwrap_or(0) < self.bounds.per_source
    }

    /// The set that contains `connection`.
    fn set_of(&self, connection: Connection) -> &Set {
        &self.owned[(connection.0.get() % self.owned.len() as u64) as usize].set
    }

    /// Begins to open a connection to `far_end`, which is the far end of `flow`. Its handshake is
    /// charged to `payers`.
    fn open(&self, flow: &Flow, far_end: FarEnd, payers: Payers) -> io::Result<Arc<Stream>> {
        if !self.has_room_for(Some(Source::of(flow.remote.ip()))) {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        if matches!(flow.transport, Transport::Ws | Transport::Wss) {
            // A web page accepts no connections (RFC 7118 section 5.2.2).
            return Err(io::ErrorKind::NotConnected.into());
        }
        if far_end.2.is_some() && self.pauses.lock().has(&far_end, self.clock.now()) {
            self.paused.fetch_add(1, Ordering::Relaxed);
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let tls = match &far_end.2 {
            Some(name) => {
                let session = self.tls.connect(name.clone());
                let session = session.ok_or(io::ErrorKind::Unsupported)?;
                Some(session.map_err(io::Error::other)?)
            }
            None if flow.transport.is_secure() => return Err(io::ErrorKind::NotConnected.into()),
            None => None,
        };
        let local = Some(flow.local).filter(|local| !local.ip().is_unspecified());
        let socket = net::connect_in_class(local, flow.remote, SIGNALLING)?;
        net::bound_output(&socket)?;
        self.add(Wait::Both, |connection| {
            Stream::connecting(socket, connection, *flow, far_end, tls, self.clock.now())
                .caused_by(payers)
        })
    }

    /// Adds the connection that `begin` creates from its number.
    fn add(&self, wait: Wait, begin: impl FnOnce(Connection) -> Stream) -> io::Result<Arc<Stream>> {
        let mut table = self.table.write();
        let connection = Connection(table.next_number);
        table.next_number = table.next_number.saturating_add(1);
        let stream = Arc::new(begin(connection).counted_in(&self.unsent));
        let set = self.set_of(connection);
        // Before another thread can find the connection: it may have to wait for room on it.
        set.add(&stream.socket, connection, wait)?;
        // Before anything is read from the connection.
        self.engine.connection_opened(connection);
        table.open.insert(connection, Arc::clone(&stream));
        table.by_remote.insert(stream.far_end.clone(), connection);
        table.count(stream.counted_for());
        *table.of_transport(stream.ends.transport) += 1;
        drop(table);
        // No other timeout of a connection is shorter.
        set.remind(self.clock.now() + CONNECT_TIMEOUT, Token::Connection(connection));
        Ok(stream)
    }

    /// Notes that requests may be sent on `stream` to the peer that opened it, if `message`, the
    /// first on it, permits so (RFC 5923 section 5): to the port of its Via, under the domains that
    /// its certificate proves. An existing connection to that far end is kept.
    fn note_alias(&self, stream: &Stream, message: &[u8]) {
        let Some(port) = alias(message) else { return };
        let place = SocketAddr::new(stream.flow().remote.ip(), port);
        let names = stream.names().iter().cloned();
        let far_ends: Vec<FarEnd> =
            names.map(|name| (stream.ends.transport, place, Some(name))).collect();
        let mut table = self.table.write();
        if !far_ends.is_empty() && table.open.contains_key(&stream.connection) {
            for far_end in &far_ends {
                table.by_remote.entry(far_end.clone()).or_insert(stream.connection);
            }
            table.aliases.insert(stream.connection, far_ends);
        }
    }

    /// Notes the outcome of the handshake of the closed `stream`; `was_open` is true if it
    /// succeeded.
    fn note_handshake(&self, stream: &Stream, was_open: bool) {
        if !was_open {
            self.handshakes.remove(stream);
        }
        if !stream.is_opened_here() {
            return;
        }
        let mut pauses = self.pauses.lock();
        if was_open {
            pauses.forget(&stream.far_end);
        } else if stream.has_shaken_hands() {
            let pause = pauses.note_failure(&stream.far_end, self.clock.now());
            log::warn("tls", || {
                let name = stream.far_end.2.as_ref().map_or("".into(), ServerName::to_str);
                format!(
                    "no TLS with {name} at {}: it is called again in {} s at the earliest",
                    stream.ends.remote,
                    pause.as_secs()
                )
            });
        }
    }

    /// Removes a connection from the table and closes it. Appends the loss, and the messages that
    /// waited for an unfinished connection, to `failed`.
    fn end(&self, stream: &Stream, failed: &mut Vec<Failed>) {
        let connection = stream.connection;
        let mut table = self.table.write();
        if table.open.remove(&connection).is_none() {
            return;
        }
        let aliases = table.aliases.remove(&connection).unwrap_or_default();
        for far_end in aliases.iter().chain([&stream.far_end]) {
            if table.by_remote.get(far_end) == Some(&connection) {
                table.by_remote.remove(far_end);
            }
        }
        table.uncount(stream.counted_for());
        *table.of_transport(stream.ends.transport) -= 1;
        drop(table);
        self.set_of(connection).remove(&stream.socket);
        failed.push(Failed::Connection(Flow { connection: Some(connection), ..stream.flow() }));
        // Only after the removal: until then another thread could find the connection, and now it
        // opens another one.
        let (was_open, undelivered) = stream.close();
        if stream.ends.transport.is_secure() {
            self.note_handshake(stream, was_open);
        }
        failed.extend(undelivered.into_iter().map(|(flow, bytes)| Failed::Send(flow, bytes)));
    }
}

impl Table {
    /// The number of open connections of `transport`.
    fn of_transport(&mut self, transport: Transport) -> &mut usize {
        let place = STREAMS.iter().position(|stream| *stream == transport);
        &mut self.by_transport[place.unwrap_or(0)]
    }

    /// Counts a connection with `source`. Returns the new number of them.
    fn count(&mut self, source: Source) -> usize {
        let count = self.by_source.entry(source).or_default();
        *count += 1;
        *count
    }

    /// Counts the end of a connection with `source`.
    fn uncount(&mut self, source: Source) {
        if let Some(count) = self.by_source.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                self.by_source.remove(&source);
            }
        }
    }
}

/// The port of the Via of the request `message`, if its `alias` parameter asks for requests on the
/// same connection (RFC 5923).
fn alias(message: &[u8]) -> Option<u16> {
    let message = Message::parse(message).ok()?;
    let via = message.method().and_then(|_| message.top_via().ok())?;
    via.params.has("alias").then(|| via.port_or_default())
}
