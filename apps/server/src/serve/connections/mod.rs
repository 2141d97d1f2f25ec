//! TCP connections: who has which, what is sent on them, and what is done when something comes.
//!
//! Each connection belongs to the set of one worker, as a socket for datagrams does, and is served
//! with it. Every thread may send: it writes to the connection itself as long as the system takes
//! it. What has come and cannot be worked on yet waits in a backlog, what comes on one connection
//! in its order.

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

use super::local::{AT_ONCE, CarryOut, Engine, Failed, Local};
use crate::log;
use handshakes::Handshakes;
use net::Clock;
use net::tls::{ServerName, called_by};
use nix::sys::epoll::EpollFlags;
use parking_lot::{Mutex, RwLock};
use pauses::Pauses;
pub(super) use secure::CurrentTls;
use set::{EVENTS, Set, Token, Wait};
use sip::stream::{Backlog, Came, Fault, FrameError, Heard, PONG, Waiting};
use sip::{Duration, Instant, Message, Transport};
use sip_server::{Connection, Flow, Payers, Source, Transmit};
use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use stream::{CONNECT_TIMEOUT, Ending, More, ReadError, SendError, Stream, TIMEOUTS};
use unsent::Unsent;

/// How long a connection that ends waits for the peer to take what was said last.
const END_TIMEOUT: Duration = Duration::from_millis(500);
/// How long none is accepted after the system could give none.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often a connection is looked after, at least: a message may begin at any time.
const ROUND: Duration = TIMEOUTS.message;
/// Bytes that are read from a connection before others get their turn.
pub(super) const READ_SIZE: usize = 16 * 1024;
/// How many times so much is read of one connection before others get their turn.
const CHUNKS: usize = 16;
/// How many times so much is read in all, besides once of each connection, before what came is
/// worked on.
const MORE_CHUNKS: usize = 64;
/// How long is read, about, before what came is worked on.
const LONGEST_READING: Duration = Duration::from_millis(5);
/// How many times some of the connections that are ready are read before what came is worked on.
const ROUNDS: usize = 16;
/// Connections that are accepted before others get their turn.
const ACCEPT_AT_ONCE: usize = 64;
/// Messages of one connection that are written together.
const PARTS: usize = 16;

/// How many connections there may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// In all.
    pub(crate) connections: usize,
    /// From one source.
    pub(crate) per_source: usize,
}

/// All connections.
pub(crate) struct Connections {
    /// Who is told of them.
    engine: Arc<Engine>,
    bounds: Bounds,
    clock: Clock,
    tls: Arc<CurrentTls>,
    listeners: Vec<Listening>,
    owned: Vec<Owned>,
    table: RwLock<Table>,
    /// What waits for peers that do not read.
    unsent: Arc<Unsent>,
    /// Connections closed since their peers do not read.
    pub(crate) unread_output: AtomicU64,
    handshakes: Handshakes,
    pauses: Mutex<Pauses>,
    /// Connections that were not opened since the handshake with the same end failed before.
    pub(crate) paused: AtomicU64,
    /// Connections refused because there were as many as may be.
    pub(crate) refused: AtomicU64,
    /// Connections whose TLS has failed.
    pub(crate) tls_failures: AtomicU64,
}

/// A socket to which connections come.
struct Listening {
    socket: TcpListener,
    transport: Transport,
    address: SocketAddr,
}

/// A far end, by its address and, over TLS, by the name that it has proved to have: who connects
/// has proved none, and gets answers alone.
type FarEnd = (Transport, SocketAddr, Option<ServerName<'static>>);

/// What has come of connections and waits to be worked on.
type Waiters = Backlog<Connection, Arc<Stream>>;

/// What one worker owns.
struct Owned {
    set: Set,
    /// Taken before what a connection has.
    backlog: Mutex<Waiters>,
}

struct Table {
    open: HashMap<Connection, Arc<Stream>>,
    /// The newest connection to each far end.
    by_remote: HashMap<FarEnd, Connection>,
    /// Under which other far ends connections are there, that others have opened.
    aliases: HashMap<Connection, Vec<FarEnd>>,
    by_source: HashMap<Source, usize>,
    next_number: NonZeroU64,
}

impl Connections {
    /// Those of `workers`, the first of which accepts what comes to `listeners`.
    ///
    /// # Errors
    /// When the system gives no event queue.
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
        // Numbers must differ from those before a restart, which bindings may still name.
        let next_number = NonZeroU64::new(clock.now().as_micros()).unwrap_or(NonZeroU64::MIN);
        let table = Table {
            open: HashMap::new(),
            by_remote: HashMap::new(),
            aliases: HashMap::new(),
            by_source: HashMap::new(),
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
            handshakes: Handshakes::new()?,
            pauses: Mutex::default(),
            paused: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            tls_failures: AtomicU64::new(0),
        })
    }

    /// How many workers have some.
    pub(super) fn owners(&self) -> usize {
        self.owned.len()
    }

    /// What can be read when there is something to do for the connections of the worker `owner`.
    pub(super) fn as_fd(&self, owner: usize) -> BorrowedFd<'_> {
        self.owned[owner].set.as_fd()
    }

    /// Sends `transmits`, which have one flow, and adds those to `failed` that cannot be sent.
    pub(super) fn send(&self, transmits: &[Transmit], bytes: &[u8], failed: &mut Vec<Failed>) {
        let Some(&Transmit { flow, .. }) = transmits.first() else { return };
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

    /// The connection that the flow of `transmit` names; where it names none, one to its far end,
    /// which may have to be opened for `message`.
    fn stream_for(&self, transmit: &Transmit, message: &[u8]) -> Option<Arc<Stream>> {
        let Transmit { flow, payers, .. } = transmit;
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

    fn get(&self, connection: Connection) -> Option<Arc<Stream>> {
        self.table.read().open.get(&connection).cloned()
    }

    /// The newest one to `far_end`.
    fn to(&self, far_end: &FarEnd) -> Option<Arc<Stream>> {
        let table = self.table.read();
        table.open.get(table.by_remote.get(far_end)?).cloned()
    }

    /// Whether `parts` were sent or wait to be. What waited for a connection that was not made is
    /// added to `failed`.
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

    /// Notes that `stream` is closed, since its peer does not read.
    fn note_unread(&self, stream: &Stream) {
        self.unread_output.fetch_add(1, Ordering::Relaxed);
        log::warn("stream", || {
            format!("the connection to {} is closed: it does not read", stream.flow().remote)
        });
    }

    /// True where there is room for one more connection, with `source` where that is known.
    fn has_room_for(&self, source: Option<Source>) -> bool {
        let table = self.table.read();
        let with_source = source.and_then(|source| table.by_source.get(&source)).copied();
        table.open.len() < self.bounds.connections
            && with_source.unwrap_or(0) < self.bounds.per_source
    }

    /// The set that has `connection`.
    fn set_of(&self, connection: Connection) -> &Set {
        &self.owned[(connection.0.get() % self.owned.len() as u64) as usize].set
    }

    /// Begins to open a connection to `far_end`, which is that of `flow`. Its handshake is charged
    /// to `payers`.
    fn open(&self, flow: &Flow, far_end: FarEnd, payers: Payers) -> io::Result<Arc<Stream>> {
        if !self.has_room_for(Some(Source::of(flow.remote.ip()))) {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        if matches!(flow.transport, Transport::Ws | Transport::Wss) {
            // Pages take no connections (RFC 7118 section 5.2.2).
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
        let socket = net::connect(local, flow.remote)?;
        net::bound_output(&socket)?;
        self.add(Wait::Both, |connection| {
            Stream::connecting(socket, connection, *flow, far_end, tls, self.clock.now())
                .caused_by(payers)
        })
    }

    /// Adds the connection that `begin` makes of its number.
    fn add(&self, wait: Wait, begin: impl FnOnce(Connection) -> Stream) -> io::Result<Arc<Stream>> {
        let mut table = self.table.write();
        let connection = Connection(table.next_number);
        table.next_number = table.next_number.saturating_add(1);
        let stream = Arc::new(begin(connection).counted_in(&self.unsent));
        let set = self.set_of(connection);
        // Before others can find it, as they may have to wait for room on it.
        set.add(&stream.socket, connection, wait)?;
        // And before anything is read of it.
        self.engine.connection_opened(connection);
        table.open.insert(connection, Arc::clone(&stream));
        table.by_remote.insert(stream.far_end.clone(), connection);
        table.count(stream.counted_for());
        drop(table);
        // It has no shorter time than this.
        set.remind(self.clock.now() + CONNECT_TIMEOUT, Token::Connection(connection));
        Ok(stream)
    }

    /// Notes that requests to who has opened `stream` may go on it, where `message`, the first on
    /// it, says so (RFC 5923 section 5): to the port that it names, as whom its certificate would
    /// be taken for if it were called. A connection that is there already stays the one.
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

    /// Notes how the handshake with `stream` went, which is closed and `was_open`.
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

    /// Forgets a connection, which closes it. That, and what waited for one that was not made, is
    /// added to `failed`.
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
        drop(table);
        self.set_of(connection).remove(&stream.socket);
        failed.push(Failed::Connection(connection));
        // Only now, as nobody finds it any more who could open another one.
        let (was_open, undelivered) = stream.close();
        if stream.ends.transport.is_secure() {
            self.note_handshake(stream, was_open);
        }
        failed.extend(undelivered.into_iter().map(|(flow, bytes)| Failed::Send(flow, bytes)));
    }
}

impl Table {
    /// Counts a connection with `source`. Returns how many there are.
    fn count(&mut self, source: Source) -> usize {
        let count = self.by_source.entry(source).or_default();
        *count += 1;
        *count
    }

    /// A connection with `source` has ended.
    fn uncount(&mut self, source: Source) {
        if let Some(count) = self.by_source.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                self.by_source.remove(&source);
            }
        }
    }
}

/// The port to which whoever sent `message` wants requests on the same connection, if it does.
fn alias(message: &[u8]) -> Option<u16> {
    let message = Message::parse(message).ok()?;
    let via = message.method().and_then(|_| message.top_via().ok())?;
    via.params.has("alias").then(|| via.port_or_default())
}
