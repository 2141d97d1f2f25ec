//! SIP by TCP: the stream layer between connections and the engine.

use crate::lock::Lock;
use crate::net::Stack;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::num::NonZeroU64;
use core::ops::ControlFlow;
use sip::stream::{Fault, FrameError, Heard, Input, Output, PONG, Patience, Timeouts};
use sip::{Duration, Flow, Instant, Transport};
use sip_server::{Connection, Worker};
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::State;

/// Connections in all, and with one host.
const MOST: usize = 512;
const MOST_WITH_ONE: usize = 32;
/// Bytes that may wait for a peer that does not read; then the connection is closed.
const MOST_UNSENT: usize = 128 << 10;
/// How long a connection that ends waits for the peer to take what was said last.
const END_TIMEOUT: Duration = Duration::from_millis(500);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const TIMEOUTS: Timeouts = Timeouts {
    first_message: Duration::from_secs(60),
    message: Duration::from_secs(20),
    idle: Duration::from_secs(3600),
};
/// Bytes that are read of one connection before others get their turn.
const CHUNK: usize = 4096;

/// A connection.
#[derive(Debug)]
struct Open {
    handle: SocketHandle,
    flow: Flow,
    input: Input,
    output: Output,
    patience: Patience,
    /// Whether the peer has taken the connection.
    is_made: bool,
    /// What waits for that, with the flows to report it on where it is not made.
    unmade: Vec<(Flow, Vec<u8>)>,
    /// Whether it ends once all is written.
    is_ending: bool,
}

/// All connections.
#[derive(Debug)]
pub(super) struct Connections {
    open: BTreeMap<NonZeroU64, Open>,
    /// The newest one to each far end.
    by_remote: BTreeMap<SocketAddr, NonZeroU64>,
    next: NonZeroU64,
}

/// What happened that the engine has to know.
#[derive(Debug)]
pub(super) enum News {
    /// A connection has ended.
    Ended(Connection),
    /// A message could not be sent.
    Unsent(Flow, Vec<u8>),
}

impl Connections {
    /// None yet; they are numbered from the time `now` on, since bindings may still name those of
    /// before.
    pub(super) fn new(now: Instant) -> Self {
        let next = NonZeroU64::new(now.as_micros()).unwrap_or(NonZeroU64::MIN);
        Self { open: BTreeMap::new(), by_remote: BTreeMap::new(), next }
    }

    /// Sends `bytes` on the connection that `flow` names, else on one to its far end, which may
    /// have to be made from our port `port`.
    ///
    /// # Errors
    /// The message, where that cannot be.
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
            return Ok(());
        }
        if open.output.push(&[bytes]).is_err() {
            // It is closed when it is looked at next, and what waits is lost with it.
            open.patience.end_at(now);
            return Err(unsent());
        }
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
        if !self.has_room_for(flow.remote.ip()) {
            return None;
        }
        let handle = stack.connect(remote, port)?;
        let mut patience = Patience::new(&TIMEOUTS, now);
        patience.end_at(now + CONNECT_TIMEOUT);
        Some(self.add(engine, handle, *flow, patience, false))
    }

    fn has_room_for(&self, host: IpAddr) -> bool {
        let with_one = self.open.values().filter(|open| open.flow.remote.ip() == host).count();
        self.open.len() < MOST && with_one < MOST_WITH_ONE
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
        // Before anything is read of it.
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
        self.open.insert(number, open);
        number
    }

    /// Takes connections that have been made to us.
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

    /// Reads what came, and hands it to the engine; writes what waits; ends those whose time is
    /// over.
    pub(super) fn step(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        worker: &mut Worker<Lock>,
        out: &mut sip_server::Output,
        news: &mut Vec<News>,
    ) {
        let mut over = Vec::new();
        for (number, open) in &mut self.open {
            if open.step(now, stack, worker, out) {
                over.push(*number);
            }
        }
        for number in over {
            let Some(open) = self.open.remove(&number) else { continue };
            if self.by_remote.get(&open.flow.remote) == Some(&number) {
                self.by_remote.remove(&open.flow.remote);
            }
            stack.remove(open.handle);
            news.push(News::Ended(Connection(number)));
            news.extend(open.unmade.into_iter().map(|(flow, bytes)| News::Unsent(flow, bytes)));
        }
    }

    /// Ends all of them, since our address is another one.
    pub(super) fn end_all(&mut self, stack: &mut Stack, news: &mut Vec<News>) {
        stack.close_all();
        for (number, open) in core::mem::take(&mut self.open) {
            stack.remove(open.handle);
            news.push(News::Ended(Connection(number)));
        }
        self.by_remote.clear();
    }
}

impl Open {
    /// Does what there is to do; true where the connection is over.
    fn step(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        worker: &mut Worker<Lock>,
        out: &mut sip_server::Output,
    ) -> bool {
        let state = stack.socket(self.handle).state();
        if !self.is_made && state == State::Established {
            self.is_made = true;
            for (_, bytes) in core::mem::take(&mut self.unmade) {
                // It is no more than may wait.
                let _ = self.output.push(&[&bytes[..]]);
            }
            self.patience = Patience::new(&TIMEOUTS, now);
        }
        if self.is_made && !self.is_ending {
            self.read(now, stack, worker, out);
        }
        self.write(stack);
        let socket = stack.socket(self.handle);
        if self.is_ending && self.output.is_empty() && socket.send_queue() == 0 {
            socket.close();
        }
        let is_closed = matches!(socket.state(), State::Closed | State::TimeWait);
        let is_over = now >= self.patience.due();
        if is_over {
            socket.abort();
        }
        is_closed || is_over
    }

    fn read(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        worker: &mut Worker<Lock>,
        out: &mut sip_server::Output,
    ) {
        let socket = stack.socket(self.handle);
        let mut chunk = [0; CHUNK];
        let Ok(length) = socket.recv_slice(&mut chunk) else {
            // The peer says no more: what was said to it is still to reach it.
            return self.end(now);
        };
        if length == 0 {
            return;
        }
        let (flow, output) = (&self.flow, &mut self.output);
        let mut has_answered = false;
        let read = self.input.receive(&chunk[..length], |heard| {
            match heard {
                Heard::Message(bytes) if worker.lets_in(bytes, Duration::ZERO) => {
                    worker.receive(now, flow, bytes, out);
                }
                Heard::Message(_) => {}
                Heard::Ping => {
                    // One answer for all that came together. What waits without end is closed soon.
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

    /// Ends the connection once the peer has taken what waits for it.
    fn end(&mut self, now: Instant) {
        self.is_ending = true;
        self.patience.end_at(now + END_TIMEOUT);
    }
}
