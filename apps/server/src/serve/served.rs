//! What a worker serves, and how it waits for that.

use super::hub::Hub;
use super::roster::Roster;
use net::Socket;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use sip::{Duration, Instant};
use std::os::fd::AsFd;

/// Sources that are told of at once.
const EVENTS: usize = 16;

/// Something that a worker waits for.
#[derive(Clone, Copy)]
pub(super) enum Source<'h> {
    Datagrams(&'h Socket),
    /// Those of this worker.
    Connections(usize),
    /// To be woken.
    Waker,
}

/// What a worker serves.
pub(super) struct Served<'h> {
    pub(super) hub: &'h Hub,
    pub(super) index: usize,
    pub(super) roster: &'h Roster,
    /// Whose connections, and whose sockets' overload is this worker's to meet; nobody's, where it
    /// is off duty.
    pub(super) owners: Vec<usize>,
    /// All that there is, and whether it is waited for now.
    sources: Vec<(Source<'h>, bool)>,
    /// Has those of `sources` that are waited for, by their places.
    epoll: Epoll,
}

impl<'h> Served<'h> {
    /// What the worker at `index` serves now.
    pub(super) fn new(hub: &'h Hub, index: usize, roster: &'h Roster) -> std::io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let datagrams = hub.sockets.iter().flatten().map(Source::Datagrams);
        let connections = (0..hub.connections.owners()).map(Source::Connections);
        let all = [Source::Waker].into_iter().chain(datagrams).chain(connections);
        let sources = all.map(|source| (source, false)).collect();
        let mut served = Self { hub, index, roster, owners: Vec::new(), sources, epoll };
        served.renew()?;
        Ok(served)
    }

    /// Serves what the roster says now: datagrams with all others on duty, connections alone.
    ///
    /// # Errors
    /// When not all can be waited for; to be tried again.
    pub(super) fn renew(&mut self) -> std::io::Result<()> {
        self.owners = self.roster.served_by(self.index);
        for (place, (source, is_awaited)) in self.sources.iter_mut().enumerate() {
            let (fd, flags, is_wanted) = match *source {
                // Of those who wait for datagrams, one is woken by each.
                Source::Datagrams(socket) => {
                    let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLEXCLUSIVE;
                    (socket.as_fd(), flags, !self.owners.is_empty())
                }
                Source::Connections(owner) => {
                    let fd = self.hub.connections.as_fd(owner);
                    (fd, EpollFlags::EPOLLIN, self.owners.contains(&owner))
                }
                Source::Waker => (self.roster.waker(self.index), EpollFlags::EPOLLIN, true),
            };
            match (is_wanted, *is_awaited) {
                (true, false) => self.epoll.add(fd, EpollEvent::new(flags, place as u64))?,
                (false, true) => self.epoll.delete(fd)?,
                _ => {}
            }
            *is_awaited = is_wanted;
        }
        Ok(())
    }

    /// When one of the connections is to be looked after.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.owners.iter().filter_map(|&owner| self.hub.connections.next_due(owner)).min()
    }

    /// Whether something has come that waits.
    pub(super) fn has_backlog(&self) -> bool {
        self.owners.iter().any(|&owner| self.hub.connections.has_backlog(owner))
    }

    /// How long the oldest has waited of what waits on its connections.
    pub(super) fn longest_wait(&self, now: Instant) -> Duration {
        let waits = self.owners.iter().map(|&owner| self.hub.connections.longest_wait(owner, now));
        waits.max().unwrap_or(Duration::ZERO)
    }

    /// Waits until there is something to do, for so many milliseconds at most, and says where.
    pub(super) fn wait(
        &self,
        milliseconds: u64,
    ) -> std::io::Result<impl Iterator<Item = Source<'h>> + Clone> {
        let mut events = [EpollEvent::empty(); EVENTS];
        let timeout = EpollTimeout::try_from(milliseconds).unwrap_or(EpollTimeout::ZERO);
        let count = match self.epoll.wait(&mut events, timeout) {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(error) => return Err(error.into()),
        };
        let places = events.into_iter().take(count).map(|event| event.data() as usize);
        Ok(places.filter_map(|place| self.sources.get(place).map(|(source, _)| *source)))
    }
}
