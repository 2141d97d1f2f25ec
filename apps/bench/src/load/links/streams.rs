//! Connections over TCP, TLS or WebSocket: one for all users of a worker, one per user, or one per
//! operation.

use super::plan::{LinkError, LinkPlan, Sharing, Tls};
use super::system::{Clocks, epoll_fd, host_port, no_events};
use super::traffic::{Incoming, LinkCounts};
use crate::load::engine::{self, Place};
use net::{Clock, Reader, Wire};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use sip::Transport;
use sip::stream::{Full, StreamItem};
use std::io::{self, IoSliceMut, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Octets per read.
const CHUNK: usize = 64 << 10;
/// The most unsent octets on a connection whose server does not read; messages beyond that are
/// dropped.
const MAX_UNSENT: usize = 16 << 20;
/// The epoll key of the listening socket.
const LISTENER: u64 = u64::MAX;

/// Connections by number. Sending on a closed connection opens it again.
pub(crate) struct StreamLinks {
    clock: Clock,
    target: SocketAddr,
    transport: Transport,
    tls: Option<Tls>,
    sharing: Sharing,
    /// The number of connections that are opened at the start. Later ones are opened by the server
    /// or for single operations.
    users: usize,
    streams: Vec<Option<Stream>>,
    free: Vec<u32>,
    listener: TcpListener,
    place: Place,
    epoll: Epoll,
    events: Vec<EpollEvent>,
    chunk: Vec<u8>,
    /// The buffer for control messages of the kernel.
    control: Vec<u8>,
    counts: LinkCounts,
}

struct Stream {
    socket: TcpStream,
    remote: SocketAddr,
    reader: Reader,
    wire: Wire,
    /// Messages that wait for the handshake.
    early: Vec<Vec<u8>>,
    waits_for_room: bool,
}

impl StreamLinks {
    pub(crate) fn open(plan: &LinkPlan, clock: Clock) -> Result<Self, LinkError> {
        let wrong = |error: io::Error| LinkError::Socket(plan.local, error);
        let listener = net::listen(SocketAddr::new(plan.local, 0)).map_err(wrong)?;
        let epoll =
            Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(|error| wrong(error.into()))?;
        epoll
            .add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))
            .map_err(|error| wrong(error.into()))?;
        let address = host_port(listener.local_addr().map_err(wrong)?);
        let name = plan.transport.uri_param().as_bytes();
        let contact = [&address[..], b";transport=", name].concat();
        let users = match plan.sharing {
            Sharing::Thread => 1,
            Sharing::User => plan.users,
            // One connection for the operations before the load.
            Sharing::Operation => 1,
        };
        let mut links = Self {
            clock,
            target: plan.target,
            transport: plan.transport,
            tls: plan.tls.clone(),
            sharing: plan.sharing,
            users,
            streams: (0..users).map(|_| None).collect(),
            free: Vec::new(),
            listener,
            place: Place { sent_by: address, contact },
            epoll,
            events: no_events(),
            chunk: vec![0; CHUNK],
            control: nix::cmsg_space!(TimeSpec),
            counts: LinkCounts::default(),
        };
        // An unreachable server is reported now and not during the load.
        TcpStream::connect(plan.target).map_err(|error| LinkError::Connect(plan.target, error))?;
        for link in 0..users {
            links.connect(link as u32).map_err(|error| LinkError::Connect(plan.target, error))?;
        }
        Ok(links)
    }

    /// Returns the address at which the server may connect.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    pub(crate) fn places(&self) -> Vec<Place> {
        vec![self.place.clone(); self.streams.len()]
    }

    pub(crate) fn link_of(&self, user: usize) -> u32 {
        (user % self.users) as u32
    }

    pub(crate) fn link_for_operation(&mut self) -> Option<u32> {
        (self.sharing == Sharing::Operation).then(|| self.free_link())
    }

    fn free_link(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.streams.push(None);
            self.streams.len() as u32 - 1
        })
    }

    /// Opens a link that is closed or new. Returns true on success.
    fn opens(&mut self, link: u32) -> bool {
        let opened = self.connect(link);
        opened.inspect_err(|error| self.note(error.kind())).is_ok()
    }

    /// Counts a failed connection.
    fn note(&mut self, error: io::ErrorKind) {
        self.counts.refused += u64::from(error == io::ErrorKind::ConnectionRefused);
    }

    fn connect(&mut self, link: u32) -> io::Result<()> {
        let socket = net::connect(None, self.target)?;
        self.counts.connections += 1;
        let is_web = matches!(self.transport, Transport::Ws | Transport::Wss);
        let session = self.tls.as_ref().map(|Tls { client, name, .. }| match is_web {
            true => client.connect_web(name.clone()),
            false => client.connect(name.clone()),
        });
        let session = session.transpose().map_err(io::Error::other)?;
        let wire = Wire::new(session, MAX_UNSENT);
        let (wire, reader) = match is_web {
            true => {
                let mut nonce = [0; 16];
                getrandom::fill(&mut nonce).map_err(io::Error::other)?;
                let host = self.target.to_string();
                (wire.web_client(&host, nonce), Reader::web_client(nonce))
            }
            false => (wire, Reader::default()),
        };
        self.add(link, socket, self.target, wire, reader)?;
        self.flush(link);
        Ok(())
    }

    fn add(
        &mut self,
        link: u32,
        socket: TcpStream,
        remote: SocketAddr,
        wire: Wire,
        reader: Reader,
    ) -> io::Result<()> {
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        self.epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, link.into()))?;
        self.streams[link as usize] =
            Some(Stream { socket, remote, reader, wire, early: Vec::new(), waits_for_room: false });
        Ok(())
    }

    pub(crate) fn send(&mut self, out: &mut engine::Output) {
        for transmits in out.transmits.chunk_by(|one, other| one.link == other.link) {
            let Some(link) = transmits.first().map(|transmit| transmit.link) else { continue };
            let is_open = self.streams.get(link as usize).is_some_and(Option::is_some);
            if !is_open && (link as usize >= self.streams.len() || !self.opens(link)) {
                self.counts.unsent += transmits.len() as u64;
                continue;
            }
            let Some(Some(stream)) = self.streams.get_mut(link as usize) else { continue };
            for transmit in transmits {
                match stream.say(&out.bytes[transmit.range.clone()]) {
                    Ok(()) => {
                        self.counts.sent += 1;
                        self.counts.sent_octets += transmit.range.len() as u64;
                    }
                    Err(_) => self.counts.unsent += 1,
                }
            }
            self.flush(link);
        }
        for &link in &out.closed {
            self.close(link);
        }
    }

    /// Sends one message on a link, which is opened if it is closed.
    pub(crate) fn say(&mut self, link: u32, message: &[u8]) {
        let is_open = self.streams.get(link as usize).is_some_and(Option::is_some);
        if !is_open && (link as usize >= self.streams.len() || !self.opens(link)) {
            self.counts.unsent += 1;
            return;
        }
        let Some(Some(stream)) = self.streams.get_mut(link as usize) else { return };
        match stream.say(message) {
            Ok(()) => self.counts.sent += 1,
            Err(_) => self.counts.unsent += 1,
        }
        self.flush(link);
    }

    fn flush(&mut self, link: u32) {
        let Some(Some(stream)) = self.streams.get_mut(link as usize) else { return };
        let flushed = stream.flush();
        let waits = !stream.wire.is_empty();
        if let Err(error) = flushed {
            self.counts.unsent += 1;
            self.note(error.kind());
            self.close(link);
            return;
        }
        if waits != stream.waits_for_room {
            stream.waits_for_room = waits;
            let mut flags = EpollFlags::EPOLLIN;
            flags.set(EpollFlags::EPOLLOUT, waits);
            let mut event = EpollEvent::new(flags, link.into());
            // If this fails, the next message finds the connection broken.
            let _ = self.epoll.modify(&stream.socket, &mut event);
        }
    }

    fn close(&mut self, link: u32) {
        let Some(stream) = self.streams.get_mut(link as usize) else { return };
        if stream.take().is_some() && link as usize >= self.users {
            self.free.push(link);
        }
    }

    pub(crate) fn receive(&mut self, each: &mut dyn FnMut(Incoming<'_>)) -> bool {
        let count = self.epoll.wait(&mut self.events, EpollTimeout::ZERO).unwrap_or_default();
        for index in 0..count {
            let event = self.events[index];
            match event.data() {
                LISTENER => self.accept(),
                link => {
                    if event.events().contains(EpollFlags::EPOLLOUT) {
                        self.flush(link as u32);
                    }
                    self.read(link as u32, each);
                }
            }
        }
        count == self.events.len()
    }

    fn accept(&mut self) {
        loop {
            let (socket, remote) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return,
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => continue,
                    _ => {
                        // Most likely the process is out of descriptors. Repeated events would be a
                        // load of their own.
                        let _ = self.epoll.delete(&self.listener);
                        return;
                    }
                },
            };
            let link = self.free_link();
            let is_ready = socket.set_nonblocking(true).and_then(|()| socket.set_nodelay(true));
            let session = self.tls.as_ref().map(|tls| tls.server.accept()).transpose();
            let session = is_ready.and_then(|()| session.map_err(io::Error::other));
            let added = session.and_then(|session| {
                let wire = Wire::new(session, MAX_UNSENT);
                self.add(link, socket, remote, wire, Reader::default())
            });
            if added.is_err() {
                self.free.push(link);
            }
        }
    }

    fn read(&mut self, link: u32, each: &mut dyn FnMut(Incoming<'_>)) {
        let Some(Some(stream)) = self.streams.get_mut(link as usize) else { return };
        let clocks = Clocks::read(&self.clock);
        let (read, received) = match stream.read(&mut self.chunk, &mut self.control) {
            Ok((0, _)) => (None, clocks.now),
            Ok((count, at)) => (Some(count), clocks.time_of(at)),
            Err(Errno::EAGAIN | Errno::EINTR) => return,
            Err(error) => {
                self.counts.refused += u64::from(error == Errno::ECONNREFUSED);
                (None, clocks.now)
            }
        };
        let Some(count) = read else { return self.close(link) };
        let (counts, remote) = (&mut self.counts, stream.remote);
        let Stream { wire, reader, .. } = stream;
        let was_ready = wire.is_ready();
        let Ok(plain) = wire.receive(&self.chunk[..count]) else { return self.close(link) };
        let heard = |heard: StreamItem<'_>| {
            if let StreamItem::Message(bytes) = heard {
                counts.received += 1;
                counts.received_octets += bytes.len() as u64;
                each(Incoming { received, link, remote, bytes });
            }
            ControlFlow::Continue(())
        };
        let progress = reader.receive(&plain, heard, |reply| wire.reply(reply));
        let goes_on = progress.is_ok_and(|progress| !progress.is_over) && !wire.has_ended();
        if !goes_on {
            return self.close(link);
        }
        if wire.is_ready() && !was_ready {
            // The buffer is empty, since no message was written before.
            let unsent =
                stream.early.drain(..).filter(|message| wire.push(&[&message[..]]).is_err());
            counts.unsent += unsent.count() as u64;
        }
        if !wire.is_empty() {
            self.flush(link);
        }
    }

    pub(crate) fn poll_fd(&self) -> BorrowedFd<'_> {
        epoll_fd(&self.epoll)
    }

    pub(crate) const fn counts(&self) -> LinkCounts {
        self.counts
    }

    pub(crate) fn len(&self) -> usize {
        self.streams.iter().flatten().count()
    }
}

impl Stream {
    /// Queues a message, after the handshake if that is not complete.
    ///
    /// # Errors
    /// [`Full`] if too many octets are unsent.
    fn say(&mut self, message: &[u8]) -> Result<(), Full> {
        if self.wire.is_ready() {
            return self.wire.push(&[message]);
        }
        let waiting: usize = self.early.iter().map(Vec::len).sum();
        if waiting + message.len() > MAX_UNSENT {
            return Err(Full { most: MAX_UNSENT });
        }
        self.early.push(message.to_vec());
        Ok(())
    }

    /// Writes the queued octets as far as the socket takes them.
    ///
    /// # Errors
    /// An I/O error if the connection is broken.
    fn flush(&mut self) -> io::Result<()> {
        while !self.wire.is_empty() {
            match self.socket.write(self.wire.pending()) {
                Ok(count) => self.wire.consume(count),
                Err(error) => match error.kind() {
                    // The socket is not connected yet, or its buffer is full.
                    io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected => break,
                    io::ErrorKind::Interrupted => {}
                    _ => return Err(error),
                },
            }
        }
        Ok(())
    }

    /// Reads into `chunk`. Returns the number of octets, and the kernel's time of receipt of the
    /// last, if there is one.
    fn read(
        &self,
        chunk: &mut [u8],
        control: &mut [u8],
    ) -> Result<(usize, Option<std::time::Duration>), Errno> {
        let mut parts = [IoSliceMut::new(chunk)];
        let fd = self.socket.as_raw_fd();
        let read = recvmsg::<()>(fd, &mut parts, Some(control), MsgFlags::empty())?;
        let at = read.cmsgs()?.find_map(|control| match control {
            ControlMessageOwned::ScmTimestampns(at) => Some(at.into()),
            _ => None,
        });
        Ok((read.bytes, at))
    }
}

#[cfg(test)]
mod tests {
    use super::super::system::wait_readable;
    use super::*;
    use net::tls::{Client, ServerName, Trust};
    use sip::Duration;

    fn plan(target: SocketAddr, tls: Option<Tls>) -> LinkPlan {
        let transport = if tls.is_some() { Transport::Tls } else { Transport::Tcp };
        let (sharing, local) = (Sharing::Thread, target.ip());
        LinkPlan { target, transport, sharing, is_segmenting: true, users: 1, local, tls }
    }

    /// Servers that do not map a contact to its connection behave like this.
    #[test]
    fn a_server_may_connect_over_tls_to_where_the_contact_says() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = Client::new(&Trust::Any, None, false).unwrap();
        let name = ServerName::try_from("example.org").unwrap();
        let server = crate::tls::unsigned().unwrap();
        let tls = Tls { client: client.clone(), name: name.clone(), server };
        let plan = plan(listener.local_addr().unwrap(), Some(tls));
        let mut links = StreamLinks::open(&plan, Clock::start()).unwrap();
        let contact = String::from_utf8(links.place.sent_by.clone()).unwrap().parse().unwrap();
        let asks = std::thread::spawn(move || {
            let options = |_| b"OPTIONS sip:a SIP/2.0\r\nContent-Length: 0\r\n\r\n".to_vec();
            let patience = std::time::Duration::from_secs(60);
            net::ask(Transport::Tls, contact, Some((&client, name)), options, patience)
        });
        let mut received = Vec::new();
        while received.is_empty() {
            wait_readable([links.poll_fd()], Duration::from_secs(60));
            links.receive(&mut |message| received.extend_from_slice(message.bytes));
        }
        assert!(received.starts_with(b"OPTIONS sip:a SIP/2.0"));
        drop(links);
        assert!(asks.join().unwrap().is_err(), "nobody has answered");
    }

    #[test]
    fn messages_read_late_have_their_arrival_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = listener.local_addr().unwrap();
        let plan = plan(target, None);
        let clock = Clock::start();
        let mut links = StreamLinks::open(&plan, clock).unwrap();
        // The first connection only probes for a listener.
        let (_trial, (mut peer, _)) = (listener.accept().unwrap(), listener.accept().unwrap());
        // The kernel starts timestamps a moment after the option is set.
        let is_timed = (0..100).any(|_| {
            let written = clock.now();
            peer.write_all(b"SIP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
            wait_readable([links.poll_fd()], Duration::from_secs(60));
            let readable = clock.now();
            std::thread::sleep(std::time::Duration::from_millis(20));
            let mut received = Vec::new();
            links.receive(&mut |message| received.push(message.received));
            assert_eq!(received.len(), 1);
            // Two clocks, rounded.
            let rounding = Duration::from_millis(1);
            assert!(received[0] + rounding >= written, "{received:?} {written:?}");
            received[0] <= readable + rounding
        });
        assert!(is_timed);
    }
}
