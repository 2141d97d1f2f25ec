//! The thread of streams: TCP connections, look-ups, and their timers, on one event loop.

use super::dns::{Dns, source_for};
use super::hub::{Buffers, Errand, Hub};
use super::workers::TICK;
use crate::log;
use parking_lot::RawMutex;
use sip::message::{Frame, FrameError, Framer};
use sip::{Instant, Transport};
use sip_server::{Connection, Flow, Location, Ticket, Worker};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU64;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::spawn_local;
use tokio::time::{sleep_until, timeout};

/// How long a peer may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a message may take from its first byte to its last.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a connection may be silent before its first request that was not refused.
const FIRST_MESSAGE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a connection may be silent. Longer than the longest registration by default.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3 * 3600);
/// Bytes that may wait for a peer that does not read; then the connection is closed.
const MAX_UNSENT: usize = 1 << 20;
/// Room for this many bytes is made before reading.
const READ_SIZE: usize = 16 * 1024;
/// Messages of a connection that are worked on before what follows from them leaves.
const TOGETHER: usize = 16;

/// How many connections there may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// In all.
    pub(crate) connections: usize,
    /// From one address.
    pub(crate) per_source: usize,
}

/// All connections.
pub(crate) struct Streams {
    hub: Arc<Hub>,
    dns: Dns,
    bounds: Bounds,
    worker: RefCell<Worker<RawMutex>>,
    buffers: RefCell<Buffers>,
    open: RefCell<HashMap<Connection, Open>>,
    /// The newest connection to each far end.
    by_remote: RefCell<HashMap<SocketAddr, Connection>>,
    by_source: RefCell<HashMap<IpAddr, usize>>,
    next_number: Cell<u64>,
    /// Told when a timer may have been set.
    timers: Notify,
}

struct Open {
    remote: SocketAddr,
    outgoing: Rc<Outgoing>,
}

/// What is to be sent on a connection.
#[derive(Default)]
struct Outgoing {
    waiting: RefCell<Vec<u8>>,
    /// Bytes of what is being written that the system has not taken.
    in_writing: Cell<usize>,
    /// Told when something waits.
    more: Notify,
    /// Told when the connection is to be closed.
    closing: Notify,
}

impl Outgoing {
    fn unsent(&self) -> usize {
        self.waiting.borrow().len() + self.in_writing.get()
    }

    fn push(&self, bytes: &[u8]) {
        self.waiting.borrow_mut().extend_from_slice(bytes);
        self.more.notify_one();
    }
}

impl Streams {
    pub(crate) fn new(hub: Arc<Hub>, dns: Dns, bounds: Bounds) -> Self {
        let worker = hub.engine.worker();
        // Numbers must differ from those before a restart, which bindings may still name.
        let first = hub.clock.now().as_micros();
        Self {
            worker: RefCell::new(worker),
            buffers: RefCell::new(Buffers::of_streams()),
            open: RefCell::default(),
            by_remote: RefCell::default(),
            by_source: RefCell::default(),
            next_number: Cell::new(first.max(1)),
            timers: Notify::new(),
            hub,
            dns,
            bounds,
        }
    }

    /// Runs until the errands end. To be called on a `LocalSet`.
    pub(crate) async fn run(
        self: Rc<Self>,
        listeners: Vec<TcpListener>,
        mut errands: mpsc::Receiver<Errand>,
    ) {
        for listener in listeners {
            spawn_local(Rc::clone(&self).accept(listener));
        }
        spawn_local(Rc::clone(&self).run_timers());
        while let Some(errand) = errands.recv().await {
            self.run_errand(errand);
        }
    }

    /// Lets the engine work, and does what it asks for.
    fn with_worker(
        self: &Rc<Self>,
        work: impl FnOnce(&mut Worker<RawMutex>, Instant, &mut sip_server::Output),
    ) {
        let now = self.hub.clock.now();
        let mut worker = self.worker.borrow_mut();
        let mut buffers = self.buffers.borrow_mut();
        work(&mut worker, now, &mut buffers.out);
        self.hub.carry_out(0, &mut worker, &mut buffers);
        let errands = buffers.own_errands.as_mut().map(std::mem::take).unwrap_or_default();
        drop((worker, buffers));
        for errand in errands {
            self.run_errand(errand);
        }
        self.timers.notify_one();
    }

    fn run_errand(self: &Rc<Self>, errand: Errand) {
        match errand {
            Errand::Send(flow, bytes) => self.send(&flow, &bytes),
            Errand::Locate(destination, ticket) => {
                let streams = Rc::clone(self);
                spawn_local(async move {
                    let targets = streams.dns.locate(destination).await;
                    streams.located(ticket, &targets);
                });
            }
        }
    }

    fn located(self: &Rc<Self>, ticket: Ticket, targets: &[sip::locate::Target]) {
        let locations: Vec<Location> = targets
            .iter()
            .map(|target| {
                let port = self.hub.port_of(target.transport, target.address.is_ipv4());
                let local = source_for(target.address).zip(port).map(SocketAddr::from);
                Location { transport: target.transport, remote: target.address, local }
            })
            .collect();
        self.with_worker(|worker, now, out| worker.located(now, ticket, &locations, out));
    }

    /// The engine's timers, for what was set by this thread.
    async fn run_timers(self: Rc<Self>) {
        // What could not run since a worker was at it stays due, and is not waited for in a circle.
        let mut earliest = Instant::ZERO;
        loop {
            let next = self.worker.borrow().next_timer();
            match next {
                None => self.timers.notified().await,
                Some(when) => {
                    let when = self.hub.clock.system(when.max(earliest)).into();
                    tokio::select! {
                        () = sleep_until(when) => {
                            self.with_worker(|worker, now, out| worker.on_timer(now, out));
                            earliest = self.hub.clock.now() + TICK;
                        }
                        () = self.timers.notified() => {}
                    }
                }
            }
        }
    }

    async fn accept(self: Rc<Self>, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, remote)) => self.admit(stream, remote),
                Err(error) => {
                    log::warn("accept", || format!("a connection cannot be accepted: {error}"));
                    // Out of descriptors, most likely: others have to end first.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    fn admit(self: &Rc<Self>, stream: TcpStream, remote: SocketAddr) {
        let Ok(local) = stream.local_addr() else { return };
        let from_source = self.by_source.borrow().get(&remote.ip()).copied().unwrap_or(0);
        if self.open.borrow().len() >= self.bounds.connections
            || from_source >= self.bounds.per_source
        {
            self.hub.counters.refused_connections.fetch_add(1, Ordering::Relaxed);
            log::warn("connections", || {
                format!("a connection from {remote} is refused: too many are open")
            });
            return;
        }
        self.begin(stream, local, remote, b"");
    }

    /// Keeps a connection that is open, and sends `first` on it.
    fn begin(
        self: &Rc<Self>,
        stream: TcpStream,
        local: SocketAddr,
        remote: SocketAddr,
        first: &[u8],
    ) {
        // Messages are whole when they are written; waiting for more only delays them.
        let _ = stream.set_nodelay(true);
        let number = self.next_number.get();
        self.next_number.set(number + 1);
        let Some(connection) = NonZeroU64::new(number).map(Connection) else { return };
        let outgoing = Rc::new(Outgoing::default());
        outgoing.push(first);
        let open = Open { remote, outgoing: Rc::clone(&outgoing) };
        self.open.borrow_mut().insert(connection, open);
        self.by_remote.borrow_mut().insert(remote, connection);
        *self.by_source.borrow_mut().entry(remote.ip()).or_default() += 1;
        let flow = Flow { transport: Transport::Tcp, local, remote, connection: Some(connection) };
        let streams = Rc::clone(self);
        spawn_local(async move {
            let (reader, writer) = stream.into_split();
            tokio::select! {
                () = streams.read(reader, flow) => {}
                () = write(writer, &outgoing) => {}
                () = outgoing.closing.notified() => {}
            }
            streams.end(connection);
        });
    }

    fn end(&self, connection: Connection) {
        let Some(open) = self.open.borrow_mut().remove(&connection) else { return };
        let mut by_remote = self.by_remote.borrow_mut();
        if by_remote.get(&open.remote) == Some(&connection) {
            by_remote.remove(&open.remote);
        }
        let mut by_source = self.by_source.borrow_mut();
        if let Some(count) = by_source.get_mut(&open.remote.ip()) {
            *count -= 1;
            if *count == 0 {
                by_source.remove(&open.remote.ip());
            }
        }
    }

    async fn read(self: &Rc<Self>, mut reader: tokio::net::tcp::OwnedReadHalf, flow: Flow) {
        let mut buffer: Vec<u8> = Vec::new();
        let mut framer = Framer::default();
        let mut has_spoken = false;
        loop {
            buffer.reserve(READ_SIZE);
            let patience = match (buffer.is_empty(), has_spoken) {
                (false, _) => MESSAGE_TIMEOUT,
                (true, false) => FIRST_MESSAGE_TIMEOUT,
                (true, true) => IDLE_TIMEOUT,
            };
            match timeout(patience, reader.read_buf(&mut buffer)).await {
                Ok(Ok(0)) | Ok(Err(_)) | Err(_) => return,
                Ok(Ok(_)) => {}
            }
            match self.take_messages(&mut framer, &mut buffer, &flow) {
                Ok(are_any) => has_spoken |= are_any,
                Err(error) => {
                    self.drain(&flow).await;
                    log::warn("stream", || {
                        format!("the connection from {} is closed: {error}", flow.remote)
                    });
                    return;
                }
            }
        }
    }

    /// Hands the messages that are whole to the engine, several together: so their registrations are kept with one
    /// write. Whether there were any.
    ///
    /// # Errors
    /// Where the stream cannot go on. A request of which only the header fields can be told apart was refused.
    fn take_messages(
        self: &Rc<Self>,
        framer: &mut Framer,
        buffer: &mut Vec<u8>,
        flow: &Flow,
    ) -> Result<bool, FrameError> {
        let (mut start, mut are_any) = (0, false);
        let mut messages: Vec<Range<usize>> = Vec::new();
        let result = loop {
            let frame = framer.next(&buffer[start..]);
            if let Ok(Frame::Message(length)) = frame {
                messages.push(start..start + length);
                start += length;
                if messages.len() < TOGETHER {
                    continue;
                }
            }
            if !messages.is_empty() {
                are_any = true;
                self.with_worker(|worker, now, out| {
                    for message in messages.drain(..) {
                        worker.receive(now, flow, &buffer[message], out);
                    }
                });
            }
            match frame {
                Ok(Frame::Message(_)) => {}
                Ok(Frame::LineEnds(length)) => {
                    if length >= b"\r\n\r\n".len() {
                        // The answer to a keep-alive (RFC 5626 section 3.5.1).
                        self.send(flow, b"\r\n");
                    }
                    start += length;
                }
                Ok(Frame::Incomplete) => break Ok(are_any),
                Err(error) => {
                    if let FrameError::ContentLength(length) = error {
                        let head = &buffer[start..start + length];
                        self.with_worker(|worker, now, out| {
                            worker.refuse_unframed(now, flow, head, out);
                        });
                    }
                    break Err(error);
                }
            }
        };
        buffer.drain(..start);
        result
    }

    /// Waits until the peer has been sent what waits for it, within reason.
    async fn drain(&self, flow: &Flow) {
        let outgoing = flow.connection.and_then(|connection| {
            self.open.borrow().get(&connection).map(|open| Rc::clone(&open.outgoing))
        });
        let Some(outgoing) = outgoing else { return };
        for _ in 0..50 {
            if outgoing.unsent() == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn send(self: &Rc<Self>, flow: &Flow, bytes: &[u8]) {
        let connection = match flow.connection {
            Some(connection) => Some(connection),
            None => self.by_remote.borrow().get(&flow.remote).copied(),
        };
        let outgoing = connection.and_then(|connection| {
            let open = self.open.borrow();
            Some((connection, Rc::clone(&open.get(&connection)?.outgoing)))
        });
        match outgoing {
            Some((connection, outgoing)) => {
                if outgoing.unsent() + bytes.len() > MAX_UNSENT {
                    log::warn("stream", || {
                        format!("the connection to {} is closed: it does not read", flow.remote)
                    });
                    self.end(connection);
                    outgoing.closing.notify_one();
                    return self.report_undeliverable(*flow, bytes.to_vec());
                }
                outgoing.push(bytes);
            }
            None if flow.connection.is_some() => self.report_undeliverable(*flow, bytes.to_vec()),
            None => {
                spawn_local(Rc::clone(self).connect(*flow, bytes.to_vec()));
            }
        }
    }

    /// Tells the engine from a task of its own: it may be at work right now.
    fn report_undeliverable(self: &Rc<Self>, flow: Flow, bytes: Vec<u8>) {
        let streams = Rc::clone(self);
        spawn_local(async move {
            streams.with_worker(|worker, now, out| worker.undeliverable(now, &flow, &bytes, out));
        });
    }

    async fn connect(self: Rc<Self>, flow: Flow, bytes: Vec<u8>) {
        let connecting = async {
            let socket = match flow.remote {
                SocketAddr::V4(_) => TcpSocket::new_v4()?,
                SocketAddr::V6(_) => TcpSocket::new_v6()?,
            };
            if !flow.local.ip().is_unspecified() {
                socket.bind(SocketAddr::new(flow.local.ip(), 0))?;
            }
            socket.connect(flow.remote).await
        };
        match timeout(CONNECT_TIMEOUT, connecting).await {
            // Another message may have opened a connection in the meantime; both serve.
            Ok(Ok(stream)) => self.begin(stream, flow.local, flow.remote, &bytes),
            Ok(Err(_)) | Err(_) => {
                self.with_worker(|worker, now, out| {
                    worker.undeliverable(now, &flow, &bytes, out);
                });
            }
        }
    }
}

/// Writes what waits, all of it in one piece, until the connection breaks.
async fn write(mut writer: tokio::net::tcp::OwnedWriteHalf, outgoing: &Outgoing) {
    loop {
        let bytes = outgoing.waiting.take();
        if bytes.is_empty() {
            outgoing.more.notified().await;
            continue;
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            outgoing.in_writing.set(rest.len());
            match writer.write(rest).await {
                Ok(0) | Err(_) => return,
                Ok(count) => rest = &rest[count..],
            }
        }
        outgoing.in_writing.set(0);
    }
}
