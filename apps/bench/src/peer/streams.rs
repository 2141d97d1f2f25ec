//! The connections of a peer, and their messages. The first byte distinguishes TLS and WebSocket
//! from plain SIP.

use crate::tls;
use net::tls::Server;
use net::{Origins, Reader, Wire};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use sip::stream::StreamItem;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// The epoll key of the listener. The keys of connections are their indices.
const LISTENER: u64 = u64::MAX;
/// The bytes per read.
const CHUNK: usize = 65_536;
/// The limit of unsent bytes; a connection beyond it is closed.
const MAX_UNSENT: usize = 8 << 20;

/// The id of a connection, distinct from that of a later connection in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// An event of a connection.
pub(crate) enum StreamEvent<'a> {
    Opened(StreamId, SocketAddr),
    Closed(SocketAddr),
    Message(StreamId, SocketAddr, &'a [u8]),
}

struct Connection {
    stream: TcpStream,
    remote: SocketAddr,
    /// The reader of messages; `None` until the first byte of a message or of its framing has come.
    reader: Option<Reader>,
    /// True if the first byte has come.
    has_begun: bool,
    wire: Wire,
    is_waiting_to_send: bool,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    connection: Option<Connection>,
}

/// The listener and its connections.
pub(crate) struct Streams {
    listener: TcpListener,
    epoll: Epoll,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Connections with unsent data.
    to_flush: Vec<u32>,
    chunk: Vec<u8>,
    /// The TLS configuration, made for the first TLS connection.
    tls: Option<Server>,
}

/// The content type of a TLS handshake record (RFC 8446 section 5.1).
const HANDSHAKE: u8 = 22;

impl Connection {
    /// Reads received bytes, and passes messages to `each`. Returns false at the end of the
    /// connection.
    fn read(
        &mut self,
        bytes: &[u8],
        server: &mut Option<Server>,
        mut each: impl FnMut(&[u8]),
    ) -> bool {
        if !std::mem::replace(&mut self.has_begun, true) && bytes.first() == Some(&HANDSHAKE) {
            *server = server.take().or_else(|| tls::unsigned().ok());
            let Some(Ok(session)) = server.as_ref().map(Server::accept) else { return false };
            self.wire = Wire::new(Some(session), MAX_UNSENT);
        }
        let Ok(plain) = self.wire.receive(bytes) else { return false };
        if self.reader.is_none()
            && let Some(first) = plain.first()
        {
            let is_web = *first == b'G';
            self.reader = Some(match is_web {
                true => Reader::web_server(Arc::new(Origins::Any)),
                false => Reader::default(),
            });
            if is_web {
                self.wire.become_web_server();
            }
        }
        let Self { reader, wire, .. } = self;
        let Some(reader) = reader else { return !wire.has_ended() };
        let heard = |heard: StreamItem<'_>| {
            if let StreamItem::Message(bytes) = heard {
                each(bytes);
            }
            ControlFlow::Continue(())
        };
        let progress = reader.receive(&plain, heard, |reply| wire.reply(reply));
        progress.is_ok_and(|progress| !progress.is_over) && !wire.has_ended()
    }
}

impl Streams {
    pub(crate) fn new(listener: TcpListener) -> io::Result<Self> {
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
            tls: None,
        })
    }

    /// Returns a descriptor that is readable when [`Streams::take`] has events.
    pub(crate) fn listener(&self) -> io::Result<TcpListener> {
        self.listener.try_clone()
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }

    /// Accepts, reads and writes as far as possible, and passes the events to `each`.
    pub(crate) fn take(&mut self, mut each: impl FnMut(StreamEvent<'_>)) -> io::Result<()> {
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
        // An error here concerns the connection and not the listener.
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
                reader: None,
                has_begun: false,
                wire: Wire::new(None, MAX_UNSENT),
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
                let is_open = connection.read(&self.chunk[..length], &mut self.tls, |bytes| {
                    each(StreamEvent::Message(id, remote, bytes));
                });
                if !connection.wire.is_empty() {
                    self.to_flush.push(index);
                }
                is_open
            }
            Err(error) => {
                matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
            }
        };
        if !is_open && let Some(connection) = slot.connection.take() {
            // Closing it removes it from the epoll too.
            self.free.push(index);
            each(StreamEvent::Closed(connection.remote));
        }
    }

    /// Appends `bytes` to the unsent data of a connection; [`Streams::flush`] sends it. Returns
    /// true if the connection exists.
    pub(crate) fn push(&mut self, id: StreamId, bytes: &[u8]) -> bool {
        let Some(slot) = self.slots.get_mut(id.index as usize) else { return false };
        let Some(connection) =
            slot.connection.as_mut().filter(|_| slot.generation == id.generation)
        else {
            return false;
        };
        if connection.wire.is_empty() {
            self.to_flush.push(id.index);
        }
        let is_taken = connection.wire.push(&[bytes]).is_ok();
        if !is_taken {
            // The end is then read like that of any other connection.
            let _ = connection.stream.shutdown(std::net::Shutdown::Both);
        }
        is_taken
    }

    /// Sends the unsent data, as far as the connections accept it.
    pub(crate) fn flush(&mut self) {
        let mut to_flush = std::mem::take(&mut self.to_flush);
        for index in to_flush.drain(..) {
            self.flush_one(index);
        }
        self.to_flush = to_flush;
    }

    fn flush_one(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index as usize) else { return };
        let Some(connection) = &mut slot.connection else { return };
        while !connection.wire.is_empty() {
            match connection.stream.write(connection.wire.pending()) {
                Ok(count) if count > 0 => connection.wire.consume(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The next read reports the end of the connection.
                _ => connection.wire.consume(connection.wire.pending().len()),
            }
        }
        let has_more = !connection.wire.is_empty();
        if has_more != connection.is_waiting_to_send {
            let out = if has_more { EpollFlags::EPOLLOUT } else { EpollFlags::empty() };
            let mut event = EpollEvent::new(EpollFlags::EPOLLIN | out, index.into());
            if self.epoll.modify(&connection.stream, &mut event).is_ok() {
                connection.is_waiting_to_send = has_more;
            }
        }
    }
}
