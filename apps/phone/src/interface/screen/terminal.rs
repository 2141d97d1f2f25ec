//! The terminal: taken over, and restored at the end.

use super::super::STDIN;
use crate::warnings;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::crossterm::event::{self, Event};
use ratatui::{DefaultTerminal, Frame};
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Capacity of the key queue; further input waits in the terminal.
const WAITING: usize = 256;

/// A terminal in full-screen mode. It is restored when this value is dropped, and at a panic.
pub(super) struct Terminal {
    inner: DefaultTerminal,
    typed: Receiver<io::Result<Event>>,
    /// Readable once `typed` may have an event.
    bell: UnixStream,
}

impl Terminal {
    /// Returns true if standard input and output are a terminal.
    pub(super) fn is_there() -> bool {
        io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    pub(super) fn open() -> io::Result<Self> {
        let (bell, rings) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        rings.set_nonblocking(true)?;
        let (sender, typed) = sync_channel(WAITING);
        let inner = ratatui::try_init()?;
        warnings::hold(true);
        let terminal = Self { inner, typed, bell };
        // On a thread of its own: reading from a closed terminal may never return.
        thread::Builder::new().name("keys".into()).spawn(move || read_keys(&sender, &rings))?;
        Ok(terminal)
    }

    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.inner.draw(draw).map(drop)
    }

    /// A descriptor that is readable once there is input.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// The pending input events, without waiting.
    ///
    /// # Errors
    /// If the terminal is closed.
    pub(super) fn read(&mut self) -> io::Result<Vec<Event>> {
        let mut fds = [PollFd::new(STDIN.as_fd(), PollFlags::empty())];
        if poll(&mut fds, PollTimeout::ZERO)? > 0 {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "it is closed"));
        }
        let mut rung = [0; WAITING];
        while matches!(self.bell.read(&mut rung), Ok(1..)) {}
        self.typed.try_iter().take(WAITING).collect()
    }
}

/// Sends input events and writes to `rings` for each, until the receiver is gone.
fn read_keys(sender: &SyncSender<io::Result<Event>>, mut rings: &UnixStream) {
    loop {
        let event = event::read();
        let is_last = event.is_err();
        if sender.send(event).is_err() || is_last {
            return;
        }
        let _ = rings.write(b"k");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.inner.show_cursor();
        ratatui::restore();
        warnings::hold(false);
    }
}
