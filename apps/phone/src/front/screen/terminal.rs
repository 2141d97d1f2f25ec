//! The terminal: taken as a whole, and given back as it was.

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

/// Keys that wait to be taken; what is typed beyond them waits in the terminal.
const WAITING: usize = 256;

/// A terminal that shows the screen. It is given back when this is dropped, and when the program
/// panics.
pub(super) struct Terminal {
    inner: DefaultTerminal,
    typed: Receiver<io::Result<Event>>,
    /// Can be read once there may be something in `typed`.
    bell: UnixStream,
}

impl Terminal {
    /// Whether there is one.
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
        // In a thread, since reading from a terminal that is closed may never return.
        thread::Builder::new().name("keys".into()).spawn(move || read_keys(&sender, &rings))?;
        Ok(terminal)
    }

    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.inner.draw(draw).map(drop)
    }

    /// Can be read once something was typed.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// What was typed, without waiting.
    ///
    /// # Errors
    /// When the terminal is not there any more.
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

/// Hands over what is typed, and rings each time, until nobody wants it any more.
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
