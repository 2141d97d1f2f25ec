//! A SIP peer in this process: a scripted registrar and stateless proxy.
//!
//! Without a script it is ideal: it answers everything at once and correctly, at the lowest cost,
//! so that the rate of a load generator against it is the generator's own ceiling. With a script it
//! delays, loses, fails, repeats and stalls, and counts its actions, so that the results of an
//! instrument can be compared with known values.

mod args;
mod counts;
mod engine;
pub(crate) mod script;
pub(crate) mod streams;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use args::{PeerArgs, PeerError, serve};
pub(crate) use counts::PeerCounts;
pub(crate) use script::{Authentication, Rule, Script};

use engine::Engine;
use net::{BATCH, Inbox, Options, Outbox, Outgoing, Socket};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::EventFd;
use nix::sys::time::TimeSpec;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::atomic::{self, AtomicBool};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use streams::{StreamEvent, Streams};
use write::{Incoming, Output, Way};

/// The longest datagram that is received completely.
const LONGEST: usize = 8192;
/// The thread stays awake for this time before a held message is due: a sleeping processor, above
/// all a virtual one, wakes up that much too late.
const AWAKE: Duration = Duration::from_micros(250);
/// The number of attempts to find a port that is free in UDP and TCP.
const ATTEMPTS: usize = 16;

/// A running peer, on one port of UDP and TCP. Dropping it ends it.
pub(crate) struct Peer {
    address: SocketAddr,
    counts: Arc<Mutex<PeerCounts>>,
    ending: Arc<AtomicBool>,
    waker: Arc<EventFd>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Peer {
    /// Starts a peer on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// The socket or the thread cannot be created.
    pub(crate) fn start(script: &Script) -> io::Result<Self> {
        Self::listen(script, SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0))
    }

    /// Starts a peer on an address, with UDP and TCP.
    ///
    /// # Errors
    /// The address is not available, or the thread cannot be created.
    pub(crate) fn listen(script: &Script, address: SocketAddr) -> io::Result<Self> {
        let (socket, listener) = bind(address)?;
        let address = socket.address();
        let counts = Arc::<Mutex<PeerCounts>>::default();
        let ending = Arc::<AtomicBool>::default();
        let waker = Arc::new(EventFd::new()?);
        let mut nonce = [0; 8];
        getrandom::fill(&mut nonce).map_err(io::Error::other)?;
        let running = Running {
            socket,
            streams: Streams::new(listener)?,
            engine: Engine::new(script, address, u64::from_ne_bytes(nonce)),
            stalls: script.stalls.clone(),
            began: None,
            held: BinaryHeap::new(),
            number: 0,
            counts: Arc::clone(&counts),
            ending: Arc::clone(&ending),
            waker: Arc::clone(&waker),
        };
        let thread = thread::Builder::new().name("peer".to_owned()).spawn(|| running.run())?;
        Ok(Self { address, counts, ending, waker, thread: Some(thread) })
    }

    /// Returns the listening address.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the counts so far. The effects of a message are counted before its responses are
    /// sent.
    pub(crate) fn counts(&self) -> PeerCounts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the peer is running: it ends on its own only if its socket fails.
    pub(crate) fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.ending.store(true, atomic::Ordering::Release);
        // Writing fails only if the counter is full, and then the thread wakes up anyway.
        let _ = self.waker.write(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Opens a socket and a listener on the same port.
fn bind(address: SocketAddr) -> io::Result<(Socket, TcpListener)> {
    let mut attempts = if address.port() == 0 { ATTEMPTS } else { 1 };
    loop {
        let socket = Socket::bind(address, Options { is_timed: true, ..Options::default() })?;
        attempts -= 1;
        match TcpListener::bind(socket.address()) {
            Ok(listener) => return Ok((socket, listener)),
            Err(error) if attempts == 0 => return Err(error),
            Err(_) => {}
        }
    }
}

/// A message that is sent at a later time.
struct Held {
    due: Instant,
    /// The order of messages with the same due time.
    number: u64,
    bytes: Vec<u8>,
    way: Way,
    local: IpAddr,
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

struct Running {
    socket: Socket,
    streams: Streams,
    engine: Engine,
    stalls: Vec<(Duration, Duration)>,
    /// The time of the first message.
    began: Option<Instant>,
    held: BinaryHeap<Reverse<Held>>,
    number: u64,
    counts: Arc<Mutex<PeerCounts>>,
    ending: Arc<AtomicBool>,
    waker: Arc<EventFd>,
}

impl Running {
    fn run(mut self) -> io::Result<()> {
        let mut inbox = Inbox::new(BATCH, LONGEST);
        let mut outbox = Outbox::default();
        let mut out = Output::default();
        while !self.ending.load(atomic::Ordering::Acquire) {
            if let Some(rest) = self.stalled() {
                self.sleep(Some(rest), true)?;
                continue;
            }
            let wait = self.held.peek().map(|Reverse(held)| {
                held.due.saturating_duration_since(Instant::now()).saturating_sub(AWAKE)
            });
            let [has_datagrams, has_streams] = self.sleep(wait, false)?;
            if has_datagrams {
                self.take_datagrams(&mut inbox, &mut out)?;
            }
            if has_streams {
                self.take_streams(&mut out)?;
            }
            *self.counts.lock().unwrap_or_else(PoisonError::into_inner) = *self.engine.counts();
            self.send(&mut outbox, &out);
            out.clear();
            self.release(&mut outbox);
            self.streams.flush();
        }
        Ok(())
    }

    /// Returns the rest of the current stall.
    fn stalled(&self) -> Option<Duration> {
        let since = self.began?.elapsed();
        let stall = self.stalls.iter().find(|(from, to)| (*from..*to).contains(&since));
        stall.map(|(_, to)| *to - since)
    }

    /// Waits for events, at most for `wait`. Returns true for datagrams, and true for stream
    /// events. If deaf, it waits only for the end.
    fn sleep(&self, wait: Option<Duration>, is_deaf: bool) -> io::Result<[bool; 2]> {
        let mut fds = [
            PollFd::new(self.waker.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.socket.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.streams.as_fd(), PollFlags::POLLIN),
        ];
        let heard = if is_deaf { &mut fds[..1] } else { &mut fds[..] };
        match ppoll(heard, wait.map(TimeSpec::from_duration), None) {
            Ok(_) => {}
            Err(nix::errno::Errno::EINTR) => return Ok([false; 2]),
            Err(error) => return Err(error.into()),
        }
        let is_ready = |index: usize| !is_deaf && fds[index].any().unwrap_or(true);
        Ok([is_ready(1), is_ready(2)])
    }

    fn take_datagrams(&mut self, inbox: &mut Inbox, out: &mut Output) -> io::Result<()> {
        let Self { socket, engine, .. } = self;
        let mut dropped = 0;
        let count = inbox.receive(socket, |received| {
            dropped = received.dropped;
            let incoming = Incoming {
                bytes: received.bytes,
                way: Way::Datagram(received.remote),
                source: received.remote,
                local: received.local,
            };
            engine.take(incoming, out);
        })?;
        if count > 0 {
            self.began.get_or_insert_with(Instant::now);
            let counts = self.engine.counts();
            counts.drops = counts.drops.max(dropped.into());
        }
        Ok(())
    }

    fn take_streams(&mut self, out: &mut Output) -> io::Result<()> {
        let Self { socket, streams, engine, began, .. } = self;
        let local = socket.address();
        streams.take(|event| match event {
            StreamEvent::Opened(id, remote) => {
                engine.counts().connections += 1;
                engine.streams.insert(remote, id);
            }
            StreamEvent::Closed(remote) => {
                engine.streams.remove(&remote);
            }
            StreamEvent::Message(id, source, bytes) => {
                began.get_or_insert_with(Instant::now);
                engine.take(Incoming { bytes, way: Way::Stream(id), source, local }, out);
            }
        })
    }

    /// Sends the messages that are due now, and holds the others.
    fn send(&mut self, outbox: &mut Outbox, out: &Output) {
        let Self { socket, streams, held, number, .. } = self;
        let datagrams = out.pieces.iter().filter_map(|piece| {
            let bytes = &out.bytes[piece.start..piece.end];
            if !piece.delay.is_zero() {
                *number += 1;
                held.push(Reverse(Held {
                    due: Instant::now() + piece.delay,
                    number: *number,
                    bytes: bytes.to_vec(),
                    way: piece.way,
                    local: piece.local,
                }));
                return None;
            }
            match piece.way {
                Way::Datagram(remote) => {
                    Some(Outgoing { remote: Some(remote), local: piece.local, bytes })
                }
                Way::Stream(id) => {
                    // Messages for a closed connection are dropped.
                    let _ = streams.push(id, bytes);
                    None
                }
            }
        });
        outbox.send(socket, datagrams, |_| ());
    }

    /// Sends the held messages that are due.
    fn release(&mut self, outbox: &mut Outbox) {
        if self.held.is_empty() {
            return;
        }
        let now = Instant::now();
        while self.held.peek().is_some_and(|Reverse(held)| held.due <= now) {
            let Some(Reverse(held)) = self.held.pop() else { return };
            match held.way {
                Way::Datagram(remote) => {
                    let datagram =
                        Outgoing { remote: Some(remote), local: held.local, bytes: &held.bytes };
                    outbox.send(&self.socket, [datagram], |_| ());
                }
                Way::Stream(id) => drop(self.streams.push(id, &held.bytes)),
            }
        }
    }
}
