//! The sockets of a scenario: UDP, a connection to the server, or connections that it accepts.

use super::fault::ScenarioError;
use super::world::{Peer, Settings};
use crate::load::generator::of_tls;
use crate::load::links::{Clocks, LinkError, LinkPlan, Sharing, StreamLinks};
use crate::peer::streams::{StreamEvent, StreamId, Streams};
use net::{BATCH, Clock, Inbox, Options, Outbox, Outgoing, Socket};
use sip::{Instant, Transport};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, BorrowedFd};

/// The longest received datagram.
const LONGEST: usize = 65_536;
/// The limit of batches that are read before timers are looked at.
const BATCHES: usize = 8;

/// The sockets of a scenario.
pub(super) enum Links {
    Udp { socket: Box<Socket>, inbox: Box<Inbox>, outbox: Box<Outbox>, unsent: u64 },
    Client { links: Box<StreamLinks>, local: SocketAddr },
    Server { streams: Box<Streams>, local: SocketAddr, unsent: u64 },
}

impl Links {
    /// Opens the socket at `local` for calls of `remote`, or connects to it, unless over UDP. The
    /// certificate of `remote` is not verified.
    ///
    /// # Errors
    /// [`ScenarioError`] if a socket cannot be opened, or `remote` cannot be reached.
    pub(super) fn open(
        transport: Transport,
        local: SocketAddr,
        remote: SocketAddr,
        settings: &Settings,
        clock: Clock,
    ) -> Result<Self, ScenarioError> {
        if transport == Transport::Udp {
            return Self::udp(local, false);
        }
        let usage = |error: LinkError| ScenarioError::Usage(error.to_string());
        let host = settings.remote_host.trim_matches(['[', ']']);
        let plan = LinkPlan {
            target: remote,
            transport,
            sharing: Sharing::Thread,
            is_segmenting: false,
            users: 1,
            local: local.ip(),
            tls: of_tls(transport, host, true).map_err(usage)?,
        };
        let links = StreamLinks::open(&plan, clock).map_err(usage)?;
        let local = links.address().map_err(|error| wrong(transport, local, error))?;
        Ok(Self::Client { links: Box::new(links), local })
    }

    /// Opens the socket at `local` that waits for calls. A certificate is signed by itself. If
    /// `is_shared`, others open it beside this one.
    ///
    /// # Errors
    /// [`ScenarioError`] if the socket cannot be opened.
    pub(super) fn listen(
        transport: Transport,
        local: SocketAddr,
        is_shared: bool,
    ) -> Result<Self, ScenarioError> {
        if transport == Transport::Udp {
            // A socket that is not shared fails if another program has the port.
            let alone = Self::udp(local, false)?;
            if !is_shared {
                return Ok(alone);
            }
            let local = alone.address();
            drop(alone);
            return Self::udp(local, true);
        }
        let listener = net::listen(local).map_err(|error| wrong(transport, local, error))?;
        Self::accept(transport, local, listener)
    }

    /// Opens the socket of a further worker at the same address. The kernel distributes the calls:
    /// over UDP all datagrams of a source to one worker, otherwise connections.
    ///
    /// # Errors
    /// [`ScenarioError`] if the socket cannot be opened.
    pub(super) fn beside(&self) -> Result<Self, ScenarioError> {
        match self {
            Self::Server { streams, local, .. } => {
                let wrong = |error| wrong(Transport::Tcp, *local, error);
                let listener = streams.listener().map_err(wrong)?;
                Self::accept(Transport::Tcp, *local, listener)
            }
            Self::Udp { .. } | Self::Client { .. } => Self::udp(self.address(), true),
        }
    }

    fn udp(local: SocketAddr, is_shared: bool) -> Result<Self, ScenarioError> {
        let options = Options { is_timed: true, is_shared, ..Options::default() };
        let socket = Socket::bind(local, options);
        let socket = Box::new(socket.map_err(|error| wrong(Transport::Udp, local, error))?);
        let inbox = Box::new(Inbox::new(BATCH, LONGEST));
        Ok(Self::Udp { socket, inbox, outbox: Box::default(), unsent: 0 })
    }

    /// Accepts connections. Their first bytes tell whether they have TLS and WebSocket.
    fn accept(
        transport: Transport,
        local: SocketAddr,
        listener: TcpListener,
    ) -> Result<Self, ScenarioError> {
        let wrong = |error| wrong(transport, local, error);
        let local = listener.local_addr().map_err(wrong)?;
        let streams = Box::new(Streams::new(listener).map_err(wrong)?);
        Ok(Self::Server { streams, local, unsent: 0 })
    }

    /// Returns the local address in messages.
    pub(super) fn address(&self) -> SocketAddr {
        match self {
            Self::Udp { socket, .. } => socket.address(),
            Self::Client { local, .. } | Self::Server { local, .. } => *local,
        }
    }

    /// Returns the number of messages that could not be sent, and of datagrams that the kernel
    /// dropped.
    pub(super) fn failures(&self) -> (u64, u64) {
        match self {
            Self::Udp { socket, unsent, .. } => {
                (unsent + u64::from(socket.unsent()), socket.dropped().into())
            }
            Self::Client { links, .. } => (links.counts().unsent, 0),
            Self::Server { unsent, .. } => (*unsent, 0),
        }
    }

    /// Returns the descriptor that is readable when messages wait.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Udp { socket, .. } => socket.as_fd(),
            Self::Client { links, .. } => links.poll_fd(),
            Self::Server { streams, .. } => streams.as_fd(),
        }
    }

    /// Passes each message that waits to `each`, with the time of its receipt.
    pub(super) fn receive(&mut self, clock: &Clock, each: &mut dyn FnMut(Peer, &[u8], Instant)) {
        match self {
            Self::Udp { socket, inbox, .. } => {
                for _ in 0..BATCHES {
                    let clocks = Clocks::read(clock);
                    // An error of the socket shows as timeouts.
                    let received = inbox.receive(socket, |datagram| {
                        let peer = Peer { address: datagram.remote, connection: None };
                        each(peer, datagram.bytes, clocks.time_of(datagram.at));
                    });
                    if received.unwrap_or_default() < BATCH {
                        break;
                    }
                }
            }
            Self::Client { links, .. } => {
                links.receive(&mut |incoming| {
                    let connection = Some((incoming.link, 0));
                    let peer = Peer { address: incoming.remote, connection };
                    each(peer, incoming.bytes, incoming.received);
                });
            }
            Self::Server { streams, .. } => {
                let now = clock.now();
                let taken = streams.take(|event| {
                    if let StreamEvent::Message(id, address, bytes) = event {
                        let connection = Some((id.index, id.generation));
                        each(Peer { address, connection }, bytes, now);
                    }
                });
                // A connection that failed has been closed.
                let _ = taken;
                // The replies to handshakes of TLS and WebSocket.
                streams.flush();
            }
        }
    }

    /// Sends messages in order.
    pub(super) fn send(&mut self, messages: &[(Peer, Vec<u8>)]) {
        match self {
            Self::Udp { socket, outbox, unsent, .. } => {
                let local = socket.address().ip();
                let datagrams = messages.iter().map(|(peer, bytes)| Outgoing {
                    remote: Some(peer.address),
                    local,
                    bytes,
                });
                outbox.send(socket, datagrams, |_| *unsent += 1);
            }
            Self::Client { links, .. } => {
                for (peer, bytes) in messages {
                    links.say(peer.connection.map_or(0, |(link, _)| link), bytes);
                }
            }
            Self::Server { streams, unsent, .. } => {
                for (peer, bytes) in messages {
                    let Some((index, generation)) = peer.connection else { continue };
                    let is_sent = streams.push(StreamId { index, generation }, bytes);
                    *unsent += u64::from(!is_sent);
                }
                streams.flush();
            }
        }
    }
}

fn wrong(transport: Transport, local: SocketAddr, error: io::Error) -> ScenarioError {
    ScenarioError::Socket(format!("{}:{local}", transport.uri_name()), error)
}
