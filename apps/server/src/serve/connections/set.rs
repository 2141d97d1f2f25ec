//! The connections that one worker owns: what to wait for, and when to look after them.

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

/// Connections that are told of at once. Those that have more come last the next time.
pub(super) const EVENTS: usize = 64;
/// Listening sockets are numbered from here on, connections below.
const LISTENERS: u64 = 1 << 63;

/// Who is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Connection(Connection),
    /// A listening socket, by its place.
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

/// What is to be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Messages of the peer.
    Read,
    /// That the peer takes what waits for it.
    Write,
    /// Either.
    Both,
}

/// Sockets to be waited for together.
pub(super) struct Set {
    epoll: Epoll,
    /// When to look after whom. Each connection has one reminder; which of its times runs out by
    /// then is for it to say.
    reminders: Mutex<BinaryHeap<Reverse<(Instant, u64)>>>,
}

impl Set {
    pub(super) fn new() -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        Ok(Self { epoll, reminders: Mutex::default() })
    }

    /// What can be read when something is to be done.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }

    /// Begins to wait for `wait` on `socket`.
    pub(super) fn add(
        &self,
        socket: &TcpStream,
        connection: Connection,
        wait: Wait,
    ) -> io::Result<()> {
        Ok(self.epoll.add(socket, event(wait, connection))?)
    }

    /// Waits for `wait` from now on.
    pub(super) fn change(
        &self,
        socket: &TcpStream,
        connection: Connection,
        wait: Wait,
    ) -> io::Result<()> {
        Ok(self.epoll.modify(socket, &mut event(wait, connection))?)
    }

    pub(super) fn remove(&self, socket: &TcpStream) {
        // It ends with its socket otherwise.
        let _ = self.epoll.delete(socket);
    }

    /// Waits for connections to the listening socket at `place`.
    pub(super) fn listen(&self, listener: &TcpListener, place: usize) -> io::Result<()> {
        let event = EpollEvent::new(EpollFlags::EPOLLIN, Token::Listener(place).number());
        Ok(self.epoll.add(listener, event)?)
    }

    /// Has no connection accepted.
    pub(super) fn pause(&self, listener: &TcpListener) {
        let _ = self.epoll.delete(listener);
    }

    /// Who can be read from or written to now, at most so many that the others get their turn.
    pub(super) fn ready(&self) -> io::Result<impl Iterator<Item = (Token, EpollFlags)>> {
        let mut events = [EpollEvent::empty(); EVENTS];
        let count = self.epoll.wait(&mut events, EpollTimeout::ZERO)?;
        let ready = events.into_iter().take(count);
        Ok(ready.filter_map(|event| Some((Token::of(event.data())?, event.events()))))
    }

    /// Has `token` looked after at `when`.
    pub(super) fn remind(&self, when: Instant, token: Token) {
        self.reminders.lock().push(Reverse((when, token.number())));
    }

    /// When [`Set::due`] has somebody.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.reminders.lock().peek().map(|Reverse((when, _))| *when)
    }

    /// Who is to be looked after `now`, one after the other.
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
