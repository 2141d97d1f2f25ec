//! The SIP sockets: for each address family one UDP socket and one TCP listener, and the
//! connections, some of them with TLS or WebSocket.

use crate::random::random;
use crate::sockets::{Family, failure_of, failure_told, is_of_queue, open_families};
use crate::warnings;
use net::tls::{Client, ServerName, Session, Trust, called_by};
use net::{Reader, Reply, Wire, source_for};
use nix::errno::Errno;
use nix::libc::sock_extended_err;
use nix::poll::{PollFd, PollFlags};
use nix::sys::socket::{MsgFlags, SockaddrStorage, recvmsg};
use sip::stream::{FrameError, PONG, StreamItem};
use sip::{Connection, Flow, Transport};
use sip_ua::{Failure, Transmit};
use std::collections::BTreeMap;
use std::io::{self, IoSliceMut, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

/// Maximum number of unsent octets for a peer that does not read.
const MAX_UNSENT: usize = 1 << 20;
/// Maximum number of messages that wait for a connection.
const MAX_WAITING: usize = 64;
/// Maximum number of accepted connections.
const MAX_ACCEPTED: usize = 32;
/// Maximum number of datagrams, or of reads of a stream, per turn.
const TURN: usize = 64;

/// Time limit for establishing a connection.
const CONNECTING: Duration = Duration::from_secs(3);

/// The SIP sockets.
pub(crate) struct Links {
    /// One or two families, all on one port.
    families: Vec<Family>,
    streams: BTreeMap<Connection, Stream>,
    opened: u64,
    chunk: Vec<u8>,
    trust: Trust,
    /// The TLS client, once one was needed.
    tls: Option<Client>,
}

struct Stream {
    socket: TcpStream,
    transport: Transport,
    local: SocketAddr,
    remote: SocketAddr,
    reader: Reader,
    wire: Wire,
    /// Messages for a connection that is not established yet. They are undeliverable if it fails.
    waiting: Option<Vec<Vec<u8>>>,
    was_accepted: bool,
    is_connected: bool,
    opened: Instant,
    /// True once a message was received.
    has_spoken: bool,
}

/// An event of the sockets.
pub(crate) enum Arrival<'a> {
    Message(Flow, &'a [u8]),
    /// A message of ours was not delivered for this reason; the octets are at least its beginning.
    Undeliverable(&'a [u8], Failure),
    /// A connection has ended.
    Closed(Transport, SocketAddr),
}

impl Links {
    /// Listens for UDP and TCP on one port of `wanted`; port 0 is any free port. The unspecified
    /// IPv6 address includes IPv4. A TLS peer must be trusted by `trust`.
    ///
    /// # Errors
    /// If the port cannot be bound.
    pub(crate) fn open(wanted: SocketAddr, trust: Trust) -> io::Result<Self> {
        let mut tries = 0;
        loop {
            match open_families(wanted) {
                Ok(families) => return Ok(Self::new(families, trust)),
                // The port that the first socket got is in use by another program for the second
                // one.
                Err(_) if wanted.port() == 0 && tries < 16 => tries += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Listens like [`Links::open`], on another port if that of `wanted` is in use.
    ///
    /// # Errors
    /// As of [`Links::open`].
    pub(crate) fn open_near(wanted: SocketAddr, trust: Trust) -> io::Result<Self> {
        match Self::open(wanted, trust.clone()) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                Self::open((wanted.ip(), 0).into(), trust)
            }
            opened => opened,
        }
    }

    fn new(families: Vec<Family>, trust: Trust) -> Self {
        let chunk = vec![0; sip::message::MAX_MESSAGE];
        let (streams, opened, tls) = (BTreeMap::new(), 0, None);
        Self { families, streams, opened, chunk, trust, tls }
    }

    /// The listening addresses, which may be unspecified.
    pub(crate) fn locals(&self) -> impl Iterator<Item = SocketAddr> {
        self.families.iter().map(|family| family.local)
    }

    fn family(&self, remote: SocketAddr) -> Option<&Family> {
        self.families.iter().find(|family| family.local.is_ipv4() == remote.is_ipv4())
    }

    /// Returns true if there is a socket and a route for `remote`.
    pub(crate) fn has_route(&self, remote: SocketAddr) -> bool {
        self.family(remote).is_some() && source_for(remote).is_some()
    }

    /// The local address towards `remote`; unspecified if there is no route.
    pub(crate) fn local_towards(&self, remote: SocketAddr) -> SocketAddr {
        let Some(Family { local, .. }) = self.family(remote).or(self.families.first()) else {
            return remote;
        };
        let ip = match local.ip() {
            ip if ip.is_unspecified() => source_for(remote).unwrap_or(ip),
            ip => ip,
        };
        SocketAddr::new(ip, local.port())
    }

    /// Sends a message. Opens a connection if necessary.
    ///
    /// # Errors
    /// If the message is known at once to be undeliverable.
    pub(crate) fn send(&mut self, transmit: &Transmit) -> io::Result<()> {
        let Transmit { flow, bytes } = transmit;
        if flow.transport == Transport::Udp {
            return self.send_datagram(bytes, flow.remote);
        }
        let known = flow.connection.filter(|connection| self.streams.contains_key(connection));
        let known = known.or_else(|| self.connection_to(flow.transport, flow.remote));
        let connection = match known {
            Some(connection) => connection,
            None => {
                let transport = flow.transport;
                let tls = transport.is_secure().then(|| self.tls_to(transport, bytes));
                let wire = Wire::new(tls.transpose()?, MAX_UNSENT);
                let (wire, reader) = match is_web(transport) {
                    true => by_web(wire, bytes, flow.remote),
                    false => (wire, Reader::default()),
                };
                let socket = net::connect(None, flow.remote)?;
                self.add(socket, (transport, flow.remote), (wire, reader), false)
            }
        };
        let Some(stream) = self.streams.get_mut(&connection) else { return Ok(()) };
        match &mut stream.waiting {
            Some(waiting) if waiting.len() < MAX_WAITING => waiting.push(bytes.clone()),
            Some(_) => return Err(io::ErrorKind::WouldBlock.into()),
            None => stream.say(bytes)?,
        }
        Ok(())
    }

    /// The TLS session to the server that `request` is for.
    fn tls_to(&mut self, transport: Transport, request: &[u8]) -> io::Result<Session> {
        let failed = |text: String| {
            warnings::warn(format!("TLS is not available: {text}"));
            io::ErrorKind::Unsupported
        };
        let name = called_by(request).ok_or_else(|| failed("no host to verify".to_owned()))?;
        let client = match self.tls.take() {
            Some(client) => client,
            // Keys are logged to the file named by SSLKEYLOGFILE, if it is set.
            None => Client::new(&self.trust, None, true).map_err(|e| failed(e.to_string()))?,
        };
        let client = self.tls.insert(client);
        let session = match is_web(transport) {
            true => client.connect_web(name),
            false => client.connect(name),
        };
        Ok(session.map_err(|error| failed(error.to_string()))?)
    }

    fn send_datagram(&self, bytes: &[u8], remote: SocketAddr) -> io::Result<()> {
        let family = self.family(remote).ok_or(io::ErrorKind::NetworkUnreachable)?;
        match family.udp.send_to(bytes, remote) {
            // The error belongs to an earlier datagram and is in the error queue, too.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                family.udp.send_to(bytes, remote).map(drop)
            }
            sent => sent.map(drop),
        }
    }

    fn connection_to(&self, transport: Transport, remote: SocketAddr) -> Option<Connection> {
        let mut streams = self.streams.iter();
        let is_there = |stream: &Stream| stream.transport == transport && stream.remote == remote;
        streams.find(|(_, stream)| is_there(stream)).map(|(connection, _)| *connection)
    }

    fn add(
        &mut self,
        socket: TcpStream,
        (transport, remote): (Transport, SocketAddr),
        (wire, reader): (Wire, Reader),
        was_accepted: bool,
    ) -> Connection {
        self.opened += 1;
        let connection = Connection(NonZeroU64::MIN.saturating_add(self.opened));
        let local = self.local_towards(remote);
        let stream = Stream {
            socket,
            transport,
            local,
            remote,
            reader,
            wire,
            waiting: (!was_accepted).then(Vec::new),
            was_accepted,
            is_connected: was_accepted,
            opened: Instant::now(),
            has_spoken: false,
        };
        self.streams.insert(connection, stream);
        connection
    }

    /// The descriptors to poll.
    pub(crate) fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let families = self.families.iter();
        let own = families.flat_map(|family| [family.udp.as_fd(), family.listener.as_fd()]);
        let own = own.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        let streams = self.streams.values().map(|stream| {
            let mut flags = PollFlags::POLLIN;
            flags.set(PollFlags::POLLOUT, stream.wants_room());
            PollFd::new(stream.socket.as_fd(), flags)
        });
        own.chain(streams)
    }

    /// Reads what has arrived and writes what waits.
    pub(crate) fn turn(&mut self, each: &mut dyn FnMut(Arrival<'_>)) {
        self.read_datagrams(each);
        self.read_errors(each);
        self.accept();
        let connections: Vec<Connection> = self.streams.keys().copied().collect();
        for connection in connections {
            let Some(stream) = self.streams.get_mut(&connection) else { continue };
            if let Err(error) = stream.turn(connection, &mut self.chunk, each)
                && let Some(stream) = self.streams.remove(&connection)
            {
                if error.kind() == io::ErrorKind::InvalidData {
                    let remote = stream.remote;
                    warnings::warn(format!("the connection to {remote} is closed: {error}"));
                }
                stream
                    .waiting
                    .iter()
                    .flatten()
                    .for_each(|bytes| each(Arrival::Undeliverable(bytes, failure_of(&error))));
                each(Arrival::Closed(stream.transport, stream.remote));
            }
        }
    }

    fn read_datagrams(&mut self, each: &mut dyn FnMut(Arrival<'_>)) {
        let mut chunk = std::mem::take(&mut self.chunk);
        for family in &self.families {
            for _ in 0..TURN {
                let (length, remote) = match family.udp.recv_from(&mut chunk) {
                    Ok(received) => received,
                    // The error queue has this error, and it is read there.
                    Err(error) if is_of_queue(&error) => continue,
                    Err(_) => break,
                };
                let local = self.local_towards(remote);
                let flow = Flow { transport: Transport::Udp, local, remote, connection: None };
                each(Arrival::Message(flow, &chunk[..length]));
            }
        }
        self.chunk = chunk;
    }

    /// Reads the ICMP errors of undelivered datagrams. A forged error must contain the message with
    /// its branch, which an attacker cannot guess.
    fn read_errors(&mut self, each: &mut dyn FnMut(Arrival<'_>)) {
        let mut control = nix::cmsg_space!(sock_extended_err, SockaddrStorage);
        for family in &self.families {
            for _ in 0..TURN {
                let mut parts = [IoSliceMut::new(&mut self.chunk)];
                let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
                let socket = family.udp.as_raw_fd();
                let told =
                    recvmsg::<SockaddrStorage>(socket, &mut parts, Some(&mut control), flags);
                let (length, failure) = match told {
                    Ok(told) => (told.bytes, failure_told(&told)),
                    Err(Errno::EINTR) => continue,
                    Err(_) => break,
                };
                each(Arrival::Undeliverable(&self.chunk[..length], failure));
            }
        }
    }

    fn accept(&mut self) {
        for place in 0..self.families.len() {
            self.accept_of(place);
        }
    }

    /// Accepts the connections of one family.
    fn accept_of(&mut self, place: usize) {
        while let Ok((socket, remote)) = self.families[place].listener.accept() {
            let accepted = self.streams.values().filter(|stream| stream.was_accepted).count();
            let is_ready = socket.set_nonblocking(true).and_then(|()| socket.set_nodelay(true));
            if is_ready.is_ok() && (accepted < MAX_ACCEPTED || self.drop_silent()) {
                let plain = (Wire::new(None, MAX_UNSENT), Reader::default());
                self.add(socket, (Transport::Tcp, remote), plain, true);
            }
        }
    }

    /// Closes the oldest accepted connection without any message. Returns false if there is none.
    fn drop_silent(&mut self) -> bool {
        let mut streams = self.streams.iter();
        let silent = streams.find(|(_, stream)| stream.was_accepted && !stream.has_spoken);
        let silent = silent.map(|(connection, _)| *connection);
        silent.and_then(|connection| self.streams.remove(&connection)).is_some()
    }
}

const fn is_web(transport: Transport) -> bool {
    matches!(transport, Transport::Ws | Transport::Wss)
}

/// A WebSocket over `wire` to the server at `remote` that `request` is for.
fn by_web(wire: Wire, request: &[u8], remote: SocketAddr) -> (Wire, Reader) {
    let mut nonce = [0; 16];
    random(&mut nonce);
    let host = match called_by(request) {
        Some(ServerName::DnsName(name)) => format!("{}:{}", name.as_ref(), remote.port()),
        _ => remote.to_string(),
    };
    (wire.web_client(&host, nonce), Reader::web_client(nonce))
}

impl Stream {
    /// Reads and writes as far as possible.
    fn turn(
        &mut self,
        connection: Connection,
        chunk: &mut [u8],
        each: &mut dyn FnMut(Arrival<'_>),
    ) -> io::Result<()> {
        if self.waiting.is_some() && !self.is_there()? {
            return match self.opened.elapsed() < CONNECTING {
                true => Ok(()),
                false => Err(io::ErrorKind::TimedOut.into()),
            };
        }
        self.open()?;
        self.flush()?;
        for _ in 0..TURN {
            let length = match self.socket.read(chunk) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let (transport, local, remote) = (self.transport, self.local, self.remote);
            let flow = Flow { transport, local, remote, connection: Some(connection) };
            let plain = match self.wire.receive(&chunk[..length]) {
                Ok(plain) => plain,
                Err(error) => {
                    // The peer gets the reason if it still reads.
                    let _ = self.flush();
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            };
            let (has_spoken, mut pings) = (&mut self.has_spoken, 0);
            let mut replies: Vec<Reply> = Vec::new();
            let heard = |heard: StreamItem<'_>| {
                match heard {
                    StreamItem::Message(bytes) => {
                        *has_spoken = true;
                        each(Arrival::Message(flow, bytes));
                    }
                    StreamItem::Ping => pings += 1,
                }
                ControlFlow::Continue(())
            };
            let received = self.reader.receive(&plain, heard, |reply| replies.push(reply));
            replies.into_iter().for_each(|reply| self.wire.reply(reply));
            // If there is no room, the peer does not read its pongs.
            for _ in 0..pings {
                let _ = self.wire.push(&[PONG]);
            }
            let progress = received.map_err(|fault| match fault.error {
                FrameError::WebSocket(_) => io::Error::new(io::ErrorKind::InvalidData, fault),
                _ => io::Error::other(fault),
            })?;
            self.open()?;
            self.flush()?;
            if self.wire.has_ended() || progress.is_over {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    /// Sends a message.
    fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        let full = self.wire.push(&[bytes]);
        full.map_err(|_| io::Error::from(io::ErrorKind::WouldBlock))?;
        self.flush()
    }

    /// Sends the waiting messages once the connection and its keys are established.
    fn open(&mut self) -> io::Result<()> {
        if self.wire.is_ready()
            && let Some(waiting) = self.waiting.take()
        {
            waiting.iter().try_for_each(|bytes| self.say(bytes))?;
        }
        Ok(())
    }

    /// Returns true if the stream waits for writability.
    fn wants_room(&self) -> bool {
        (self.waiting.is_some() && !self.is_connected) || !self.wire.is_empty()
    }

    /// Returns true if the connection is established.
    fn is_there(&mut self) -> io::Result<bool> {
        if let Some(error) = self.socket.take_error()? {
            return Err(error);
        }
        self.is_connected = self.socket.peer_addr().is_ok();
        Ok(self.is_connected)
    }

    fn flush(&mut self) -> io::Result<()> {
        while !self.wire.is_empty() {
            match self.socket.write(self.wire.pending()) {
                Ok(count) => self.wire.consume(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn the_unspecified_address_of_ipv6_is_for_both_families() {
        let mut here = Links::open("[::]:0".parse().unwrap(), Trust::System).unwrap();
        let locals: Vec<SocketAddr> = here.locals().collect();
        assert!(locals.len() == 2 && locals[0].port() == locals[1].port(), "{locals:?}");
        for ip in ["127.0.0.1", "::1"] {
            let ip = ip.parse().unwrap();
            let mut there = Links::open(SocketAddr::new(ip, 0), Trust::System).unwrap();
            let at = there.locals().next().unwrap();
            assert!(here.has_route(at) && here.local_towards(at).ip() == ip);
            here.send(&transmit(Transport::Udp, at, b"a")).unwrap();
            assert_eq!(told(&mut there, &mut here), "udp a");
            let back = SocketAddr::new(ip, locals[0].port());
            there.send(&transmit(Transport::Tcp, back, OPTIONS)).unwrap();
            assert!(told(&mut here, &mut there).starts_with("tcp OPTIONS"));
        }
        let four = Links::open("127.0.0.1:0".parse().unwrap(), Trust::System).unwrap();
        assert!(!four.has_route("[::1]:5060".parse().unwrap()));
    }

    #[test]
    fn failures_to_send_have_their_causes() {
        let (none, refused) = (io::ErrorKind::NetworkUnreachable, io::ErrorKind::ConnectionRefused);
        assert_eq!(failure_of(&none.into()), Failure::NoRoute);
        assert_eq!(failure_of(&refused.into()), Failure::Unreachable);
        let mut loopback = Links::open("127.0.0.1:0".parse().unwrap(), Trust::System).unwrap();
        for elsewhere in ["[::1]:5060", "192.0.2.1:5060"] {
            let at = elsewhere.parse().unwrap();
            let error = loopback.send(&transmit(Transport::Udp, at, b"a")).unwrap_err();
            assert_eq!(failure_of(&error), Failure::NoRoute, "{elsewhere}");
        }
    }

    fn links() -> Links {
        Links::open("127.0.0.1:0".parse().unwrap(), Trust::System).unwrap()
    }

    /// The events of `links` within five seconds, as text.
    fn told(links: &mut Links, other: &mut Links) -> String {
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end {
            let mut first = None;
            other.turn(&mut |_| ());
            links.turn(&mut |arrival| {
                let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                let told = match arrival {
                    Arrival::Message(flow, bytes) => {
                        format!("{} {}", flow.transport.uri_name(), text(bytes))
                    }
                    Arrival::Undeliverable(bytes, failure) => {
                        format!("undeliverable {}: {failure:?}", text(bytes))
                    }
                    Arrival::Closed(..) => "closed".to_owned(),
                };
                first.get_or_insert(told);
            });
            if let Some(first) = first {
                return first;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        "nothing".to_owned()
    }

    fn transmit(transport: Transport, to: SocketAddr, bytes: &[u8]) -> Transmit {
        let local = "127.0.0.1:5060".parse().unwrap();
        let flow = Flow { transport, local, remote: to, connection: None };
        Transmit { flow, bytes: bytes.to_vec() }
    }

    const OPTIONS: &[u8] = b"OPTIONS sip:a SIP/2.0\r\nContent-Length: 0\r\n\r\n";

    #[test]
    fn messages_go_by_both_transports_and_come_back_on_their_connection() {
        let (mut here, mut there) = (links(), links());
        let address = there.locals().next().unwrap();
        here.send(&transmit(Transport::Udp, address, b"a")).unwrap();
        assert_eq!(told(&mut there, &mut here), "udp a");
        here.send(&transmit(Transport::Tcp, address, OPTIONS)).unwrap();
        assert!(told(&mut there, &mut here).starts_with("tcp OPTIONS"));
        let (&connection, stream) = there.streams.first_key_value().unwrap();
        let mut back = transmit(Transport::Tcp, stream.remote, OPTIONS);
        back.flow.connection = Some(connection);
        there.send(&back).unwrap();
        assert!(told(&mut here, &mut there).starts_with("tcp OPTIONS"));
        assert_eq!((here.streams.len(), there.streams.len()), (1, 1));
        there.streams.clear();
        assert_eq!(told(&mut here, &mut there), "closed");
    }

    #[test]
    fn silent_connections_make_room_and_used_ones_stay() {
        let (mut here, mut there) = (links(), links());
        there.send(&transmit(Transport::Tcp, here.locals().next().unwrap(), OPTIONS)).unwrap();
        assert!(told(&mut here, &mut there).starts_with("tcp OPTIONS"));
        let at = here.locals().next().unwrap();
        let silent: Vec<TcpStream> =
            (0..2 * MAX_ACCEPTED).map(|_| TcpStream::connect(at).unwrap()).collect();
        here.turn(&mut |_| ());
        assert_eq!(here.streams.len(), MAX_ACCEPTED);
        assert!(here.streams.values().any(|stream| stream.has_spoken));
        // The last connection is accepted.
        (&silent[silent.len() - 1]).write_all(OPTIONS).unwrap();
        assert!(told(&mut here, &mut there).starts_with("tcp OPTIONS"));
    }

    #[test]
    fn undeliverable_requests_come_back() {
        let (mut here, mut other) = (links(), links());
        let nobody = links().locals().next().unwrap();
        for transport in [Transport::Udp, Transport::Tcp] {
            here.send(&transmit(transport, nobody, b"lost")).unwrap();
            assert_eq!(told(&mut here, &mut other), "undeliverable lost: Unreachable");
        }
    }

    #[test]
    fn another_port_is_near_one_in_use() {
        let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
        let wanted = taken.local_addr().unwrap();
        let error = Links::open(wanted, Trust::System).err().map(|error| error.kind());
        assert_eq!(error, Some(io::ErrorKind::AddrInUse));
        let near: Vec<_> = Links::open_near(wanted, Trust::System).unwrap().locals().collect();
        assert!(near.len() == 1 && near[0].ip() == wanted.ip() && near[0] != wanted, "{near:?}");
        let other = "127.0.0.2:0".parse().unwrap();
        assert_eq!(Links::open_near(other, Trust::System).unwrap().locals().count(), 1);
    }
}
