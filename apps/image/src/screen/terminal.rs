//! A terminal at a serial line, which understands the sequences of ECMA-48 (as ANSI and VT100 do).

use super::{Cell, Display, Style};
use alloc::collections::VecDeque;
use core::fmt::{self, Write as _};

/// What every terminal has at least.
const SIZE: (usize, usize) = (80, 24);
/// Bytes that wait at most before a page goes on.
const FEW: usize = 128;

/// What goes to the terminal, a byte after the other, as the line takes them.
#[derive(Debug, Default)]
pub struct Terminal {
    waiting: VecDeque<u8>,
}

impl Terminal {
    /// The next byte for the line.
    pub fn take(&mut self) -> Option<u8> {
        self.waiting.pop_front()
    }

    /// Whether nothing waits for the line.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Sends a line of text.
    pub fn say(&mut self, line: fmt::Arguments<'_>) {
        let _ = write!(self, "{line}\r\n");
    }

    /// Makes the terminal blank, without a cursor if there will be a `page`.
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
