//! TCP connections of a peer, and the messages on them.

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use sip::stream::{Heard, Input, Output};
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};

/// Marks the listener among the connections' indices.
const LISTENER: u64 = u64::MAX;
/// Bytes read at once.
const CHUNK: usize = 65_536;
/// A connection whose other end does not read so many bytes is closed.
const MAX_UNSENT: usize = 8 << 20;

/// A connection, never to be taken for a later one in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

/// What happened on the connections.
pub(super) enum StreamEvent<'a> {
    Opened(StreamId, SocketAddr),
    Closed(SocketAddr),
    Message(StreamId, SocketAddr, &'a [u8]),
}

struct Connection {
    stream: TcpStream,
    remote: SocketAddr,
    input: Input,
    output: Output,
    is_waiting_to_send: bool,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    connection: Option<Connection>,
}

/// A listener and the connections that came.
pub(super) struct Streams {
    listener: TcpListener,
    epoll: Epoll,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Connections with something to send.
    to_flush: Vec<u32>,
    chunk: Vec<u8>,
}

impl Streams {
    pub(super) fn new(listener: TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?;
        let chunk = vec![0; CHUNK];
        Ok(Self {
            listener,
            epoll,
            slots: Vec::new(),
            free: Vec::new(),
            to_flush: Vec::new(),
            chunk,
        })
    }

    /// Readable when [`Streams::take`] has something to do.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }

    /// Accepts, reads and writes what can be, and hands what happened to `each`.
    pub(super) fn take(&mut self, mut each: impl FnMut(StreamEvent<'_>)) -> io::Result<()> {
        let mut events = [EpollEvent::empty(); 256];
        let count = match self.epoll.wait(&mut events, EpollTimeout::ZERO) {
            Err(nix::errno::Errno::EINTR) => 0,
            other => other?,
        };
        for event in &events[..count] {
            if event.data() == LISTENER {
                self.accept(&mut each);
                continue;
            }
            let index = event.data() as u32;
            if event.events().contains(EpollFlags::EPOLLOUT) {
                self.flush_one(index);
            }
            self.read(index, &mut each);
        }
        Ok(())
    }

    fn accept(&mut self, each: &mut impl FnMut(StreamEvent<'_>)) {
        // Whatever fails here concerns the connection and not the listener.
        while let Ok((stream, remote)) = self.listener.accept() {
            let index = self.free.pop().unwrap_or_else(|| {
                self.slots.push(Slot::default());
                (self.slots.len() - 1) as u32
            });
            let event = EpollEvent::new(EpollFlags::EPOLLIN, index.into());
            let is_usable = stream.set_nonblocking(true).is_ok()
                && stream.set_nodelay(true).is_ok()
                && self.epoll.add(&stream, event).is_ok();
            if !is_usable {
                self.free.push(index);
                continue;
            }
            let slot = &mut self.slots[index as usize];
            slot.generation = slot.generation.wrapping_add(1);
            slot.connection = Some(Connection {
                stream,
                remote,
                input: Input::default(),
                output: Output::new(MAX_UNSENT),
                is_waiting_to_send: false,
            });
            each(StreamEvent::Opened(StreamId { index, generation: slot.generation }, remote));
        }
    }

    fn read(&mut self, index: u32, each: &mut impl FnMut(StreamEvent<'_>)) {
        let Some(slot) = self.slots.get_mut(index as usize) else { return };
        let id = StreamId { index, generation: slot.generation };
        let Some(connection) = &mut slot.connection else { return };
        let is_open = match connection.stream.read(&mut self.chunk) {
            Ok(0) => false,
            Ok(length) => {
                let remote = connection.remote;
                let progress = connection.input.receive(&self.chunk[..length], |heard| {
                    if let Heard::Message(bytes) = heard {
                        each(StreamEvent::Message(id, remote, bytes));
                    }
                    ControlFlow::Continue(())
                });
                progress.is_ok()
            }
            Err(error) => {
                matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
            }
        };
        if !is_open && let Some(connection) = slot.connection.take() {
            // Closing it takes it from the epoll too.
            self.free.push(index);
            each(StreamEvent::Closed(connection.remote));
        }
    }

    /// Puts `bytes` after what is to be sent on a connection; [`Streams::flush`] sends it. Returns
    /// whether the connection is there.
    pub(super) fn push(&mut self, id: StreamId, bytes: &[u8]) -> bool {
        let Some(slot) = self.slots.get_mut(id.index as usize) else { return false };
        let Some(connection) =
            slot.connection.as_mut().filter(|_| slot.generation == id.generation)
        else {
            return false;
        };
        if connection.output.is_empty() {
            self.to_flush.push(id.index);
        }
        let is_taken = connection.output.push(&[bytes]).is_ok();
        if !is_taken {
            // The end is read as that of any other connection.
            let _ = connection.stream.shutdown(std::net::Shutdown::Both);
        }
        is_taken
    }

    /// Sends what was pushed, as far as the connections take it.
    pub(super) fn flush(&mut self) {
        let mut to_flush = std::mem::take(&mut self.to_flush);
        for index in to_flush.drain(..) {
            self.flush_one(index);
        }
        self.to_flush = to_flush;
    }

    fn flush_one(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index as usize) else { return };
        let Some(connection) = &mut slot.connection else { return };
        while !connection.output.is_empty() {
            match connection.stream.write(connection.output.pending()) {
                Ok(count) if count > 0 => connection.output.consume(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // Reading will tell that the connection is over.
                _ => connection.output = Output::new(MAX_UNSENT),
            }
        }
        let has_more = !connection.output.is_empty();
        if has_more != connection.is_waiting_to_send {
            let out = if has_more { EpollFlags::EPOLLOUT } else { EpollFlags::empty() };
            let mut event = EpollEvent::new(EpollFlags::EPOLLIN | out, index.into());
            if self.epoll.modify(&connection.stream, &mut event).is_ok() {
                connection.is_waiting_to_send = has_more;
            }
        }
    }
}
