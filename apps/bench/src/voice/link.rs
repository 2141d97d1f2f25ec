//! The link of a side to the server: a socket, or connections.

use super::error::SideError;
use super::plan::{Callees, Plan};
use crate::load::links::{Clocks, LinkPlan, Sharing, StreamLinks};
use net::{BATCH, Clock, Inbox, Options, Outbox, Outgoing, Socket};
use sip::{Connection, Flow, Instant, Transport};
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::os::fd::{AsFd as _, BorrowedFd};

/// The longest received message.
const LONGEST: usize = 8192;
/// The connection to the server among the links.
const OWN: u32 = 0;

/// A link.
pub(crate) enum Link {
    Udp(Socket, Box<Inbox>),
    /// A connection to the server, and those that the server opens.
    Streams {
        links: Box<StreamLinks>,
        transport: Transport,
        /// The address for connections from the server.
        local: SocketAddr,
    },
}

impl Link {
    /// Opens the link of a side.
    ///
    /// # Errors
    /// [`SideError`] if there is no socket, or no connection to the server.
    pub(crate) fn open(plan: &Plan, clock: Clock) -> Result<Self, SideError> {
        let transport = plan.transport;
        let (Callees::Registered { server, .. } | Callees::Uri { server, .. }, false) =
            (&plan.callees, transport == Transport::Udp)
        else {
            let options = Options { is_timed: true, ..Options::default() };
            let socket = Socket::bind(SocketAddr::new(plan.local, 0), options)?;
            return Ok(Self::Udp(socket, Box::new(Inbox::new(BATCH, LONGEST))));
        };
        let links = LinkPlan {
            target: *server,
            transport,
            sharing: Sharing::Thread,
            is_segmenting: false,
            users: 1,
            local: plan.local,
            tls: plan.tls.clone(),
        };
        let links = StreamLinks::open(&links, clock).map_err(SideError::Link)?;
        let local = links.address()?;
        Ok(Self::Streams { links: Box::new(links), transport, local })
    }

    /// Returns the local address in messages.
    pub(crate) fn address(&self) -> SocketAddr {
        match self {
            Self::Udp(socket, _) => socket.address(),
            Self::Streams { local, .. } => *local,
        }
    }

    pub(crate) const fn transport(&self) -> Transport {
        match self {
            Self::Udp(..) => Transport::Udp,
            Self::Streams { transport, .. } => *transport,
        }
    }

    /// Returns the descriptor that is readable when messages wait.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Udp(socket, _) => socket.as_fd(),
            Self::Streams { links, .. } => links.poll_fd(),
        }
    }

    /// Returns the number of datagrams that the kernel dropped, and of messages without a
    /// connection.
    pub(crate) fn failures(&self) -> (u64, u64) {
        match self {
            Self::Udp(socket, _) => (socket.dropped().into(), 0),
            Self::Streams { links, .. } => (0, links.counts().unsent),
        }
    }

    /// Passes each message that waits to `each`.
    pub(crate) fn receive(&mut self, clock: &Clock, each: &mut dyn FnMut(Instant, &Flow, &[u8])) {
        match self {
            Self::Udp(socket, inbox) => {
                let clocks = Clocks::read(clock);
                let local = socket.address();
                // An error of the socket shows as losses.
                let _ = inbox.receive(socket, |datagram| {
                    let (transport, remote) = (Transport::Udp, datagram.remote);
                    let flow = Flow { transport, local, remote, connection: None };
                    each(clocks.time_of(datagram.at), &flow, datagram.bytes);
                });
            }
            Self::Streams { links, transport, local } => {
                links.receive(&mut |incoming| {
                    let connection = NonZeroU64::MIN.saturating_add(incoming.link.into());
                    let connection = Some(Connection(connection));
                    let (transport, local, remote) = (*transport, *local, incoming.remote);
                    let flow = Flow { transport, local, remote, connection };
                    each(incoming.received, &flow, incoming.bytes);
                });
            }
        }
    }

    /// Sends a message. The transaction of one that cannot be sent times out.
    pub(crate) fn send(&mut self, outbox: &mut Outbox, flow: &Flow, bytes: &[u8]) {
        match self {
            Self::Udp(socket, _) => {
                let (remote, local) = (Some(flow.remote), socket.address().ip());
                outbox.send(socket, [Outgoing { remote, local, bytes }], |_| {});
            }
            Self::Streams { links, .. } => {
                let number = flow.connection.map_or(1, |connection| connection.0.get());
                links.say(u32::try_from(number - 1).unwrap_or(OWN), bytes);
            }
        }
    }
}
