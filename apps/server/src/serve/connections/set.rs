//! The set of connections of one worker: its epoll instance and its timers.

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use parking_lot::Mutex;
use sip::Instant;
use sip_server::Connection;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd};

/// Events fetched in one call. Connections with further events come last in the next one.
pub(super) const EVENTS: usize = 64;
/// The first epoll token of listening sockets. Connections have lower ones.
const LISTENERS: u64 = 1 << 63;

/// The socket of an event or a reminder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Connection(Connection),
    /// A listening socket, by its index.
    Listener(usize),
}

impl Token {
    fn number(self) -> u64 {
        match self {
            Self::Connection(connection) => connection.0.get(),
            Self::Listener(place) => LISTENERS + place as u64,
        }
    }

    fn of(number: u64) -> Option<Self> {
        match number.checked_sub(LISTENERS) {
            Some(place) => Some(Self::Listener(place as usize)),
            None => NonZeroU64::new(number).map(|number| Self::Connection(Connection(number))),
        }
    }
}

/// The events to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Input from the peer.
    Read,
    /// Room for output to the peer.
    Write,
    /// Either of the two.
    Both,
}

/// Sockets with a common epoll instance.
pub(super) struct Set {
    epoll: Epoll,
    /// The times of checks. Each connection has one reminder. The connection itself knows which of
    /// its timeouts expires by then.
    reminders: Mutex<BinaryHeap<Reverse<(Instant, u64)>>>,
}

impl Set {
    pub(super) fn new() -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        Ok(Self { epoll, reminders: Mutex::default() })
    }

    /// A descriptor that is readable when events are pending.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }

    /// Adds `socket`, with the events `wait`.
    pub(super) fn add(
        &self,
        socket: &TcpStream,
        connection: Connection,
        wait: Wait,
    ) -> io::Result<()> {
        Ok(self.epoll.add(socket, event(wait, connection))?)
    }

    /// Replaces the events of `socket` by `wait`.
    pub(super) fn change(
        &self,
        socket: &TcpStream,
        connection: Connection,
        wait: Wait,
    ) -> io::Result<()> {
        Ok(self.epoll.modify(socket, &mut event(wait, connection))?)
    }

    pub(super) fn remove(&self, socket: &TcpStream) {
        // Where that fails, closing the socket removes it.
        let _ = self.epoll.delete(socket);
    }

    /// Begins to wait for connections to the listening socket with the index `place`.
    pub(super) fn listen(&self, listener: &TcpListener, place: usize) -> io::Result<()> {
        let event = EpollEvent::new(EpollFlags::EPOLLIN, Token::Listener(place).number());
        Ok(self.epoll.add(listener, event)?)
    }

    /// Removes the listening socket, so that no connection is accepted.
    pub(super) fn pause(&self, listener: &TcpListener) {
        let _ = self.epoll.delete(listener);
    }

    /// The pending events, at most [`EVENTS`], without waiting.
    pub(super) fn ready(&self) -> io::Result<impl Iterator<Item = (Token, EpollFlags)>> {
        let mut events = [EpollEvent::empty(); EVENTS];
        let count = self.epoll.wait(&mut events, EpollTimeout::ZERO)?;
        let ready = events.into_iter().take(count);
        Ok(ready.filter_map(|event| Some((Token::of(event.data())?, event.events()))))
    }

    /// Sets a reminder for `token` at `when`.
    pub(super) fn remind(&self, when: Instant, token: Token) {
        self.reminders.lock().push(Reverse((when, token.number())));
    }

    /// The time of the next reminder.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.reminders.lock().peek().map(|Reverse((when, _))| *when)
    }

    /// Takes the next reminder that is due at `now`.
    pub(super) fn due(&self, now: Instant) -> Option<Token> {
        let mut reminders = self.reminders.lock();
        let Reverse((when, number)) = *reminders.peek()?;
        if when > now {
            return None;
        }
        reminders.pop();
        Token::of(number)
    }
}

fn event(wait: Wait, connection: Connection) -> EpollEvent {
    let flags = match wait {
        Wait::Read => EpollFlags::EPOLLIN,
        Wait::Write => EpollFlags::EPOLLOUT,
        Wait::Both => EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT,
    };
    EpollEvent::new(flags, Token::Connection(connection).number())
}
