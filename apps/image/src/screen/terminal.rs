//! A terminal on a serial line that supports the control sequences of ECMA-48 (as ANSI and VT100
//! terminals do).

use super::{Cell, Display, Style};
use alloc::collections::VecDeque;
use core::fmt::{self, Write as _};

/// The minimum size of a terminal.
const SIZE: (usize, usize) = (80, 24);
/// Maximum number of pending bytes before more cells are added.
const FEW: usize = 128;

/// The output queue of the terminal, sent as the line accepts it.
#[derive(Debug, Default)]
pub struct Terminal {
    waiting: VecDeque<u8>,
}

impl Terminal {
    /// Returns the next byte for the line.
    pub fn take(&mut self) -> Option<u8> {
        self.waiting.pop_front()
    }

    /// Returns true if no byte is pending.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Queues a line of text.
    pub fn say(&mut self, line: fmt::Arguments<'_>) {
        let _ = write!(self, "{line}\r\n");
    }

    /// Clears the terminal, and hides the cursor for a `page`.
    pub fn clear(&mut self, page: bool) {
        let _ = write!(self, "\x1b[0m\x1b[2J\x1b[H\x1b[?25{}", if page { 'l' } else { 'h' });
    }
}

impl fmt::Write for Terminal {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.waiting.extend(text.bytes());
        Ok(())
    }
}

/// Select Graphic Rendition.
fn rendition(style: Style) -> &'static str {
    match style {
        Style::Plain => "0",
        Style::Strong => "0;1",
        Style::Label => "0;36",
        Style::Bar => "0;37;44",
        Style::Chosen => "0;7",
        Style::Good => "0;32",
        Style::Bad => "0;1;37;41",
    }
}

impl Display for Terminal {
    fn size(&self) -> (usize, usize) {
        SIZE
    }

    fn most(&self) -> usize {
        SIZE.0
    }

    fn is_ready(&self) -> bool {
        self.waiting.len() < FEW
    }

    fn show(&mut self, row: usize, column: usize, cells: &[Cell]) {
        let _ = write!(self, "\x1b[{};{}H", row + 1, column + 1);
        for run in cells.chunk_by(|one, next| one.style == next.style) {
            let _ = write!(self, "\x1b[{}m", rendition(run[0].style));
            self.waiting.extend(run.iter().map(|cell| cell.byte));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Screen;
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_page_goes_out_as_sequences_of_changes() {
        let mut terminal = Terminal::default();
        let mut screen = Screen::new(terminal.size());
        let mut go_on = |terminal: &mut Terminal| {
            let mut sent = Vec::new();
            loop {
                let more = screen.turn(terminal);
                sent.extend(core::iter::from_fn(|| terminal.take()));
                if !more {
                    break;
                }
            }
            screen.draw(|grid| {
                let behind = grid.print(2, 4, Style::Label, format_args!("users "));
                grid.print(2, behind, Style::Plain, format_args!("7"));
            });
            sent
        };
        assert!(go_on(&mut terminal).len() > 80 * 24);
        assert_eq!(go_on(&mut terminal), b"\x1b[3;5H\x1b[0;36musers \x1b[0m7");
        assert_eq!(go_on(&mut terminal), b"");
    }

    #[test]
    fn a_page_waits_for_a_slow_line() {
        let mut terminal = Terminal::default();
        let mut screen = Screen::new(terminal.size());
        (0..100).for_each(|_| {
            screen.turn(&mut terminal);
        });
        assert!(terminal.waiting.len() < FEW + 2 * 80, "{}", terminal.waiting.len());
    }
}
