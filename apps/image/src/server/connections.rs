//! SIP over TCP: the stream layer between connections and the engine.

use super::budget::CONNECTIONS;
use super::shortage::{self, Level};
use crate::lock::Lock;
use crate::net::{CONNECTION_BUFFERS, Stack};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::num::NonZeroU64;
use core::ops::ControlFlow;
use sip::stream::{Fault, FrameError, Input, Output, PONG, Patience, StreamItem, Timeouts};
use sip::{Duration, Flow, Instant, Transport};
use sip_server::{Connection, Worker};
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::State;

/// Maximum number of connections with one host.
const MOST_WITH_ONE: usize = 32;
/// Maximum number of unsent bytes for a peer that does not read; beyond it the connection is
/// closed.
const MOST_UNSENT: usize = 128 << 10;
/// Time that a closing connection waits for the peer to receive the last data.
const END_TIMEOUT: Duration = Duration::from_millis(500);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const TIMEOUTS: Timeouts = Timeouts {
    first_message: Duration::from_secs(60),
    message: Duration::from_secs(20),
    idle: Duration::from_secs(3600),
};
/// Bytes read from one connection before others have their turn, and bytes read from all in one
/// turn.
const CHUNK: usize = 4096;
const TURN: usize = 32 << 10;
/// Estimated bytes of a connection beside its buffers and messages.
const OVERHEAD: usize = CONNECTION_BUFFERS + 1024;

/// A connection.
#[derive(Debug)]
struct Open {
    handle: SocketHandle,
    flow: Flow,
    input: Input,
    output: Output,
    patience: Patience,
    /// True once the connection is established.
    is_made: bool,
    /// Messages that wait for the connection, with the flows for reporting a failure.
    unmade: Vec<(Flow, Vec<u8>)>,
    /// True if it is closed once all is written.
    is_ending: bool,
}

/// All connections.
#[derive(Debug)]
pub(super) struct Connections {
    open: BTreeMap<NonZeroU64, Open>,
    /// The newest connection to each remote address.
    by_remote: BTreeMap<SocketAddr, NonZeroU64>,
    next: NonZeroU64,
    /// Bytes of memory held by all, without data received since the last turn.
    held: usize,
    /// The connection that is read first in the next turn.
    first: NonZeroU64,
    /// Number of connections closed for their memory.
    shed: u64,
}

/// An event for the engine.
#[derive(Debug)]
pub(super) enum News {
    /// A connection has ended.
    Ended(Connection),
    /// A message could not be sent.
    Unsent(Flow, Vec<u8>),
}

impl Connections {
    /// A table without connections. Their numbers start at the time `now`, since bindings may still
    /// refer to earlier connections. Those of internal flows are far above.
    pub(super) fn new(now: Instant) -> Self {
        let now = now.as_micros().min(u64::MAX >> 2);
        let next = NonZeroU64::new(now).unwrap_or(NonZeroU64::MIN);
        let (open, by_remote) = (BTreeMap::new(), BTreeMap::new());
        Self { open, by_remote, next, held: 0, first: NonZeroU64::MIN, shed: 0 }
    }

    /// Bytes of memory that connections hold.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Number of connections closed for their memory.
    pub(super) fn shed_count(&self) -> u64 {
        self.shed
    }

    /// Sends `bytes` on the connection of `flow`, or on another one to its remote address, which is
    /// opened from the local `port` if necessary.
    ///
    /// # Errors
    /// The message, if it cannot be sent.
    pub(super) fn send(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        engine: &sip_server::Server<Lock>,
        flow: &Flow,
        port: u16,
        bytes: &[u8],
    ) -> Result<(), News> {
        let unsent = || News::Unsent(*flow, bytes.to_vec());
        let number = match flow.connection {
            Some(connection) => Some(connection.0),
            None => self.by_remote.get(&flow.remote).copied(),
        };
        let number = match number.filter(|number| self.open.contains_key(number)) {
            Some(number) => number,
            None if flow.connection.is_some() => return Err(unsent()),
            None => self.connect(now, stack, engine, flow, port).ok_or_else(unsent)?,
        };
        let Some(open) = self.open.get_mut(&number) else { return Err(unsent()) };
        if !open.is_made {
            let waiting: usize = open.unmade.iter().map(|(_, bytes)| bytes.len()).sum();
            if waiting + bytes.len() > MOST_UNSENT {
                return Err(unsent());
            }
            open.unmade.push((*flow, bytes.to_vec()));
            self.held += bytes.len();
            return Ok(());
        }
        if open.output.push(&[bytes]).is_err() {
            // The connection is closed at the next turn, and its pending data are lost.
            open.patience.end_at(now);
            return Err(unsent());
        }
        self.held += bytes.len();
        open.write(stack);
        Ok(())
    }

    fn connect(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        engine: &sip_server::Server<Lock>,
        flow: &Flow,
        port: u16,
    ) -> Option<NonZeroU64> {
        let SocketAddr::V4(remote) = flow.remote else { return None };
        if !self.has_room_for(flow.remote.ip()) || self.open.len() >= CONNECTIONS {
            return None;
        }
        let handle = stack.connect(remote, port)?;
        let mut patience = Patience::new(&TIMEOUTS, now);
        patience.end_at(now + CONNECT_TIMEOUT);
        Some(self.add(engine, handle, *flow, patience, false))
    }

    fn has_room_for(&self, host: IpAddr) -> bool {
        let with_one = self.open.values().filter(|open| open.flow.remote.ip() == host).count();
        with_one < MOST_WITH_ONE
    }

    fn add(
        &mut self,
        engine: &sip_server::Server<Lock>,
        handle: SocketHandle,
        flow: Flow,
        patience: Patience,
        is_made: bool,
    ) -> NonZeroU64 {
        let number = self.next;
        self.next = number.saturating_add(1);
        let connection = Connection(number);
        // Before the first read.
        engine.connection_opened(connection);
        let flow = Flow { connection: Some(connection), ..flow };
        self.by_remote.insert(flow.remote, number);
        let open = Open {
            handle,
            flow,
            input: Input::default(),
            output: Output::new(MOST_UNSENT),
            patience,
            is_made,
            unmade: Vec::new(),
            is_ending: false,
        };
        self.held += open.held();
        self.open.insert(number, open);
        number
    }

    /// Accepts incoming connections.
    pub(super) fn accept(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        engine: &sip_server::Server<Lock>,
    ) {
        for handle in stack.accept(now) {
            let socket = stack.socket(handle);
            let ends = (socket.local_endpoint(), socket.remote_endpoint());
            let (Some(local), Some(remote)) = ends else {
                stack.remove(handle);
                continue;
            };
            let address = |ip: smoltcp::wire::IpAddress, port| SocketAddr::new(ip.into(), port);
            let flow = Flow {
                transport: Transport::Tcp,
                local: address(local.addr, local.port),
                remote: address(remote.addr, remote.port),
                connection: None,
            };
            if self.has_room_for(flow.remote.ip()) {
                self.add(engine, handle, flow, Patience::new(&TIMEOUTS, now), true);
            } else {
                stack.remove(handle);
            }
        }
    }

    /// Reads received data for the engine, writes pending data, and closes connections after
    /// timeouts. Returns true if more data are available than one turn reads.
    pub(super) fn step(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        level: Level,
        worker: &mut Worker<Lock>,
        out: &mut sip_server::Output,
        news: &mut Vec<News>,
    ) -> bool {
        let mut over = Vec::new();
        let (mut held, mut rest, mut next) = (0, TURN, None);
        let mut visit = |number: &NonZeroU64, open: &mut Open| {
            if rest == 0 {
                next.get_or_insert(*number);
            }
            if open.step(now, stack, level, &mut rest, worker, out) {
                over.push(*number);
            }
            held += open.held();
        };
        let first = self.first;
        self.open.range_mut(first..).for_each(|(number, open)| visit(number, open));
        self.open.range_mut(..first).for_each(|(number, open)| visit(number, open));
        self.held = held;
        self.first = next.unwrap_or(NonZeroU64::MIN);
        for number in over {
            self.end(number, stack, news);
        }
        next.is_some()
    }

    /// Closes connections until there are few enough and all hold at most `most` bytes: the largest
    /// ones of the host that holds most.
    pub(super) fn shed(&mut self, stack: &mut Stack, most: usize, news: &mut Vec<News>) {
        while self.held > most || self.open.len() > CONNECTIONS {
            let mut hosts = BTreeMap::<IpAddr, usize>::new();
            for open in self.open.values() {
                *hosts.entry(open.flow.remote.ip()).or_default() += open.held();
            }
            let largest = hosts.into_iter().max_by_key(|(_, held)| *held);
            let of_largest = |(_, open): &(&NonZeroU64, &Open)| {
                largest.is_some_and(|(host, _)| open.flow.remote.ip() == host)
            };
            let all = self.open.iter().filter(of_largest);
            let Some((number, held)) =
                all.map(|(number, open)| (*number, open.held())).max_by_key(|(_, held)| *held)
            else {
                return self.held = 0;
            };
            self.end(number, stack, news);
            self.held = self.held.saturating_sub(held);
            self.shed += 1;
        }
    }

    fn end(&mut self, number: NonZeroU64, stack: &mut Stack, news: &mut Vec<News>) {
        let Some(open) = self.open.remove(&number) else { return };
        if self.by_remote.get(&open.flow.remote) == Some(&number) {
            self.by_remote.remove(&open.flow.remote);
        }
        stack.remove(open.handle);
        news.push(News::Ended(Connection(number)));
        news.extend(open.unmade.into_iter().map(|(flow, bytes)| News::Unsent(flow, bytes)));
    }

    /// Closes all connections, since our address has changed.
    pub(super) fn end_all(&mut self, stack: &mut Stack, news: &mut Vec<News>) {
        stack.close_all();
        for (number, open) in core::mem::take(&mut self.open) {
            stack.remove(open.handle);
            news.push(News::Ended(Connection(number)));
        }
        self.by_remote.clear();
        self.held = 0;
    }
}

impl Open {
    /// Bytes of memory that the connection holds.
    fn held(&self) -> usize {
        let unmade: usize = self.unmade.iter().map(|(_, bytes)| bytes.capacity()).sum();
        OVERHEAD + self.input.held() + self.output.held() + unmade
    }

    /// Does the pending work, and reads at most `rest` bytes. Returns true if the connection is
    /// closed.
    fn step(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        level: Level,
        rest: &mut usize,
        worker: &mut Worker<Lock>,
        out: &mut sip_server::Output,
    ) -> bool {
        let state = stack.socket(self.handle).state();
        if !self.is_made && state == State::Established {
            self.is_made = true;
            for (_, bytes) in core::mem::take(&mut self.unmade) {
                // These messages fit the limit of unsent data.
                let _ = self.output.push(&[&bytes[..]]);
            }
            self.patience = Patience::new(&TIMEOUTS, now);
        }
        if self.is_made && !self.is_ending && *rest > 0 {
            self.read(now, stack, level, rest, worker, out);
        }
        self.write(stack);
        let socket = stack.socket(self.handle);
        if self.is_ending && self.output.is_empty() && socket.send_queue() == 0 {
            socket.close();
        }
        let is_closed = matches!(socket.state(), State::Closed | State::TimeWait);
        is_closed || now >= self.patience.due()
    }

    fn read(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        level: Level,
        rest: &mut usize,
        worker: &mut Worker<Lock>,
        out: &mut sip_server::Output,
    ) {
        let socket = stack.socket(self.handle);
        let mut chunk = [0; CHUNK];
        let Ok(length) = socket.recv_slice(&mut chunk) else {
            // The peer has closed its side: pending data still have to reach it.
            return self.end(now);
        };
        if length == 0 {
            return;
        }
        *rest = rest.saturating_sub(length);
        let (flow, output) = (&self.flow, &mut self.output);
        let mut has_answered = false;
        let read = self.input.receive(&chunk[..length], |heard| {
            match heard {
                StreamItem::Message(_) if level == Level::Exhausted => {}
                StreamItem::Message(bytes) => {
                    let refusal = shortage::refusal_at(level, flow, bytes);
                    if let Some(answer) = refusal {
                        let _ = output.push(&[answer]);
                    } else if worker.lets_in(bytes, Duration::ZERO) {
                        worker.receive(now, flow, bytes, out);
                    }
                }
                StreamItem::Ping => {
                    // One pong for all pings received together. A connection that only waits is
                    // closed soon.
                    if !core::mem::replace(&mut has_answered, true) {
                        let _ = output.push(&[PONG]);
                    }
                }
            }
            ControlFlow::Continue(())
        });
        match read {
            Ok(progress) => self.patience.note(progress, &TIMEOUTS, now),
            Err(Fault { error, rest }) => {
                if let FrameError::ContentLength(length) = error {
                    worker.refuse_unframed(now, &self.flow, &rest[..length], out);
                }
                self.end(now);
            }
        }
    }

    fn write(&mut self, stack: &mut Stack) {
        let socket = stack.socket(self.handle);
        if !self.output.is_empty()
            && let Ok(count) = socket.send_slice(self.output.pending())
        {
            self.output.consume(count);
        }
    }

    /// Closes the connection once the peer has received the pending data.
    fn end(&mut self, now: Instant) {
        self.is_ending = true;
        self.patience.end_at(now + END_TIMEOUT);
    }
}
