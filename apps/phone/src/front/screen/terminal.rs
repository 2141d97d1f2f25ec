//! The terminal: taken as a whole, and given back as it was.

use super::super::STDIN;
use crate::warnings;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::crossterm::event::{self, Event};
use ratatui::{DefaultTerminal, Frame};
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::time::Duration;

/// Keys that are read before everything else has its turn.
const TURN: usize = 256;

/// A terminal that shows the screen. It is given back when this is dropped, and when the program
/// panics.
pub(super) struct Terminal {
    inner: DefaultTerminal,
}

impl Terminal {
    /// Whether there is one.
    pub(super) fn is_there() -> bool {
        io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    pub(super) fn open() -> io::Result<Self> {
        let inner = ratatui::try_init()?;
        warnings::hold(true);
        Ok(Self { inner })
    }

    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.inner.draw(draw).map(drop)
    }

    /// What was typed, without waiting.
    ///
    /// # Errors
    /// When the terminal is not there any more.
    pub(super) fn read() -> io::Result<Vec<Event>> {
        // Else it would be asked for keys again and again.
        let mut fds = [PollFd::new(STDIN.as_fd(), PollFlags::empty())];
        if poll(&mut fds, PollTimeout::ZERO)? > 0 {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "it is closed"));
        }
        let mut events = Vec::new();
        while events.len() < TURN && event::poll(Duration::ZERO)? {
            events.push(event::read()?);
        }
        Ok(events)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.inner.show_cursor();
        ratatui::restore();
        warnings::hold(false);
    }
}
