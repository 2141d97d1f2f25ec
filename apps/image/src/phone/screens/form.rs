//! Forms: input lines with labels.

use crate::screen::keys::Key;
use crate::screen::{Grid, Style};
use alloc::string::String;

/// Maximum length of a line in characters.
const MOST: usize = 200;
/// Width of the labels in columns.
const LABEL: usize = 38;

/// A form of `N` input lines, each with a label.
#[derive(Debug)]
pub(super) struct Form<const N: usize> {
    labels: [&'static str; N],
    given: [&'static str; N],
    lines: [String; N],
    at: usize,
}

impl<const N: usize> Form<N> {
    /// A form with these labels and initial texts.
    pub(super) fn new(lines: [(&'static str, &'static str); N]) -> Self {
        Self {
            labels: lines.map(|(label, _)| label),
            given: lines.map(|(_, given)| given),
            lines: lines.map(|(_, given)| given.into()),
            at: 0,
        }
    }

    /// Returns true if a line was changed.
    pub(super) fn is_touched(&self) -> bool {
        self.lines.iter().zip(self.given).any(|(line, given)| line != given)
    }

    /// Handles a key: `Some(true)` after the last line is entered, `None` if the form is left. No
    /// other key leaves it, so that typed text is never a command.
    pub(super) fn on_key(&mut self, key: Key) -> Option<bool> {
        let line = &mut self.lines[self.at];
        match key {
            Key::Character(letter) if line.len() < MOST => line.push(letter),
            Key::Character(_) => {}
            Key::Backspace => {
                line.pop();
            }
            // Tab, on a keyboard and on a terminal.
            Key::Control('i') => self.at = (self.at + 1) % N,
            Key::Up => self.at = self.at.saturating_sub(1),
            Key::Down => self.at = (self.at + 1).min(N - 1),
            Key::Enter if self.at + 1 < N => self.at += 1,
            Key::Enter => return Some(true),
            Key::PageDown | Key::PageUp => return None,
            _ => {}
        }
        Some(false)
    }

    /// Returns the typed text and resets the lines.
    pub(super) fn take(&mut self) -> [String; N] {
        self.at = 0;
        core::mem::replace(&mut self.lines, self.given.map(String::from))
    }

    /// Draws the lines from `row` on. Text of lines with `hides` is hidden.
    pub(super) fn draw(&self, grid: &mut Grid, row: usize, hides: impl Fn(usize) -> bool) {
        for (number, (label, line)) in self.labels.iter().zip(&self.lines).enumerate() {
            let row = row + 2 * number;
            let is_here = number == self.at;
            grid.print(row, 2, Style::Label, format_args!("{label}"));
            let style = if is_here { Style::Strong } else { Style::Plain };
            let column = if hides(number) {
                let stars = "*".repeat(line.chars().count());
                grid.print(row, LABEL, style, format_args!("{stars}"))
            } else {
                grid.print(row, LABEL, style, format_args!("{line}"))
            };
            if is_here {
                grid.print(row, column, Style::Chosen, format_args!(" "));
            }
        }
    }
}
