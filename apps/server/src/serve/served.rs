//! The event sources of a worker.

use super::hub::Hub;
use super::media::Media;
use super::scheduler::Scheduler;
use net::Socket;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use sip::{Duration, Instant};
use std::os::fd::AsFd;

/// Events fetched in one call.
const EVENTS: usize = 16;

/// An event source of a worker.
#[derive(Clone, Copy)]
pub(super) enum Source<'h> {
    Datagrams(&'h Socket),
    /// The connections of the worker with this index.
    Connections(usize),
    /// The media of the worker with this index.
    Media(&'h Media, usize),
    /// The waker of this worker.
    Waker,
}

/// The event sources of one worker.
pub(super) struct Served<'h> {
    pub(super) hub: &'h Hub,
    pub(super) index: usize,
    pub(super) scheduler: &'h Scheduler,
    /// The owners of the connections and sockets that this worker serves. It also limits the input
    /// of these sockets in an overload. Empty if it is inactive.
    pub(super) owners: Vec<usize>,
    /// All sources, each with true if it is registered.
    sources: Vec<(Source<'h>, bool)>,
    /// Contains the registered ones of `sources`, by index.
    epoll: Epoll,
}

impl<'h> Served<'h> {
    /// The event sources of the worker at `index`.
    pub(super) fn new(
        hub: &'h Hub,
        index: usize,
        scheduler: &'h Scheduler,
    ) -> std::io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let datagrams = hub.sockets.iter().flatten().map(Source::Datagrams);
        let connections = (0..hub.connections.owners()).map(Source::Connections);
        let media = hub.media.iter();
        let media = media.flat_map(|media| (0..media.owners()).map(|at| Source::Media(media, at)));
        let all = [Source::Waker].into_iter().chain(datagrams).chain(connections).chain(media);
        let sources = all.map(|source| (source, false)).collect();
        let mut served = Self { hub, index, scheduler, owners: Vec::new(), sources, epoll };
        served.renew()?;
        Ok(served)
    }

    /// Registers the sources that the scheduler assigns: UDP sockets shared with all active
    /// workers, connections and media exclusively.
    ///
    /// # Errors
    /// The system fails to register a source. The caller tries again.
    pub(super) fn renew(&mut self) -> std::io::Result<()> {
        self.owners = self.scheduler.served_by(self.index);
        for (place, (source, is_awaited)) in self.sources.iter_mut().enumerate() {
            let (fd, flags, is_wanted) = match *source {
                // Each datagram wakes only one of the waiting workers.
                Source::Datagrams(socket) => {
                    let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLEXCLUSIVE;
                    (socket.as_fd(), flags, !self.owners.is_empty())
                }
                Source::Connections(owner) => {
                    let fd = self.hub.connections.as_fd(owner);
                    (fd, EpollFlags::EPOLLIN, self.owners.contains(&owner))
                }
                Source::Media(media, owner) => {
                    (media.as_fd(owner), EpollFlags::EPOLLIN, self.owners.contains(&owner))
                }
                Source::Waker => (self.scheduler.waker(self.index), EpollFlags::EPOLLIN, true),
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

    /// The time of the next check of a connection.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.owners.iter().filter_map(|&owner| self.hub.connections.next_due(owner)).min()
    }

    /// Returns true if input waits in a backlog.
    pub(super) fn has_backlog(&self) -> bool {
        self.owners.iter().any(|&owner| self.hub.connections.has_backlog(owner))
    }

    /// The waiting time of the oldest input in the backlogs.
    pub(super) fn longest_wait(&self, now: Instant) -> Duration {
        let waits = self.owners.iter().map(|&owner| self.hub.connections.longest_wait(owner, now));
        waits.max().unwrap_or(Duration::ZERO)
    }

    /// Waits for events, at most `milliseconds`, and returns their sources, each with true if an
    /// error is pending.
    pub(super) fn wait(
        &self,
        milliseconds: u64,
    ) -> std::io::Result<impl Iterator<Item = (Source<'h>, bool)> + Clone> {
        let mut events = [EpollEvent::empty(); EVENTS];
        let timeout = EpollTimeout::try_from(milliseconds).unwrap_or(EpollTimeout::ZERO);
        let count = match self.epoll.wait(&mut events, timeout) {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(error) => return Err(error.into()),
        };
        Ok(events.into_iter().take(count).filter_map(|event| {
            let (source, _) = self.sources.get(event.data() as usize)?;
            Some((*source, event.events().contains(EpollFlags::EPOLLERR)))
        }))
    }
}
