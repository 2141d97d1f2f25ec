//! UDP sockets: one for all users of a worker, or one per user.

use super::plan::{LinkError, LinkPlan, Sharing};
use super::system::{Clocks, epoll_fd, host_port, no_events};
use super::traffic::{Incoming, LinkCounts};
use crate::load::engine::{Output, Place};
use net::{BATCH, Clock, Inbox, Options, Outbox, Outgoing, Socket};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// The longest datagram that is received; SIP over UDP is shorter (RFC 3261 section 18.1.1).
const LONGEST: usize = 8192;
/// The kernel's buffer size for a worker's only socket, and for a user's.
const SHARED_BUFFER: usize = 16 << 20;
const USER_BUFFER: usize = 256 << 10;
/// The connected socket for requests, if there is one.
const CALLER: usize = 0;
/// The socket for incoming calls beside it.
const CALLEE: u32 = 1;
/// Up to this number of sockets, all are read in turn without polling.
const FEW: usize = 2;

pub(crate) struct UdpLinks {
    clock: Clock,
    target: SocketAddr,
    sockets: Vec<Socket>,
    /// True if the first socket is connected to the target and for requests only.
    has_caller: bool,
    epoll: Epoll,
    events: Vec<EpollEvent>,
    inbox: Inbox,
    outbox: Outbox,
    /// The drop count of each socket; the kernel reports it with the next datagram.
    drops: Vec<u32>,
    counts: LinkCounts,
}

impl UdpLinks {
    pub(crate) fn open(plan: &LinkPlan, clock: Clock) -> Result<Self, LinkError> {
        let (count, receive_buffer) = match plan.sharing {
            // One socket for requests, and one for incoming calls.
            Sharing::Thread => (2, SHARED_BUFFER),
            Sharing::User => (plan.users, USER_BUFFER),
            Sharing::Operation => return Err(LinkError::OperationNeedsConnections),
        };
        let wrong = |error| LinkError::Socket(plan.local, error);
        let has_caller = plan.sharing == Sharing::Thread;
        let options = Options {
            is_timed: true,
            is_segmenting: has_caller && plan.is_segmenting,
            receive_buffer,
            ..Options::default()
        };
        let epoll =
            Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(|error| wrong(error.into()))?;
        let mut sockets = Vec::with_capacity(count);
        for index in 0..count {
            let socket = Socket::bind(SocketAddr::new(plan.local, 0), options).map_err(wrong)?;
            let event = EpollEvent::new(EpollFlags::EPOLLIN, index as u64);
            epoll.add(socket.as_fd(), event).map_err(|error| wrong(error.into()))?;
            if has_caller && index == CALLER {
                // The kernel then resolves the route once and not for each datagram.
                socket.connect(plan.target).map_err(wrong)?;
            }
            sockets.push(socket);
        }
        Ok(Self {
            clock,
            target: plan.target,
            has_caller,
            drops: vec![0; sockets.len()],
            sockets,
            epoll,
            events: no_events(),
            inbox: Inbox::new(BATCH, LONGEST),
            outbox: Outbox::default(),
            counts: LinkCounts::default(),
        })
    }

    pub(crate) fn places(&self) -> Vec<Place> {
        self.sockets
            .iter()
            .map(|socket| {
                let address = host_port(socket.address());
                Place { sent_by: address.clone(), contact: address }
            })
            .collect()
    }

    /// Returns the link at which the user at `user` receives calls.
    pub(crate) fn link_of(&self, user: usize) -> u32 {
        if self.has_caller { CALLEE } else { (user % self.sockets.len()) as u32 }
    }

    /// Returns the link of the requests of the user at `user`.
    pub(crate) fn way_of(&self, user: usize) -> u32 {
        if self.has_caller { CALLER as u32 } else { self.link_of(user) }
    }

    pub(crate) fn send(&mut self, out: &mut Output) {
        if out.transmits.len() > 1 && self.has_caller {
            // Groups messages of equal link and stage; within each call the order is kept.
            out.transmits.sort_unstable_by_key(|transmit| {
                (transmit.link, transmit.stage, transmit.range.start)
            });
        }
        let Self { sockets, outbox, counts, target, .. } = self;
        for transmits in out.transmits.chunk_by(|one, other| one.link == other.link) {
            let Some(link) = transmits.first().map(|transmit| transmit.link as usize) else {
                continue;
            };
            let Some(socket) = sockets.get(link) else { continue };
            let is_connected = self.has_caller && link == CALLER;
            let local = socket.address().ip();
            let datagrams = transmits.iter().map(|transmit| Outgoing {
                remote: transmit.remote.or((!is_connected).then_some(*target)),
                local,
                bytes: &out.bytes[transmit.range.clone()],
            });
            counts.sent += transmits.len() as u64;
            let octets: usize = transmits.iter().map(|transmit| transmit.range.len()).sum();
            counts.sent_octets += octets as u64;
            outbox.send(socket, datagrams, |_| counts.unsent += 1);
        }
    }

    pub(crate) fn receive(&mut self, each: &mut dyn FnMut(Incoming<'_>)) -> bool {
        if self.sockets.len() <= FEW {
            let mut is_more = false;
            for index in 0..self.sockets.len() {
                is_more |= self.receive_from(index, each);
            }
            return is_more;
        }
        let count = self.epoll.wait(&mut self.events, EpollTimeout::ZERO).unwrap_or_default();
        for event in 0..count {
            let index = self.events[event].data() as usize;
            // Unread datagrams make the socket readable the next time, too.
            self.receive_from(index, each);
        }
        count == self.events.len()
    }

    fn receive_from(&mut self, index: usize, each: &mut dyn FnMut(Incoming<'_>)) -> bool {
        let clocks = Clocks::read(&self.clock);
        let (drops, counts) = (&mut self.drops[index], &mut self.counts);
        let received = self.inbox.receive(&self.sockets[index], |datagram| {
            *drops = (*drops).max(datagram.dropped);
            counts.received += 1;
            counts.received_octets += datagram.bytes.len() as u64;
            each(Incoming {
                received: clocks.time_of(datagram.at),
                link: index as u32,
                remote: datagram.remote,
                bytes: datagram.bytes,
            });
        });
        received.is_ok_and(|count| count == BATCH)
    }

    pub(crate) fn poll_fd(&self) -> BorrowedFd<'_> {
        epoll_fd(&self.epoll)
    }

    pub(crate) fn counts(&self) -> LinkCounts {
        let drops = self.drops.iter().map(|&drops| u64::from(drops)).sum();
        let refused = self.sockets.iter().map(|socket| u64::from(socket.refused())).sum();
        let lost: u64 = self.sockets.iter().map(|socket| u64::from(socket.unsent())).sum();
        LinkCounts { drops, refused, unsent: self.counts.unsent + lost, ..self.counts }
    }

    pub(crate) fn len(&self) -> usize {
        self.sockets.len()
    }
}
