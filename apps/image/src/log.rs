//! What was said, for the screens and the serial line.

use alloc::collections::VecDeque;
use alloc::string::String;
use core::fmt;

/// Lines that are kept.
const MOST_LINES: usize = 200;

/// What was said.
#[derive(Debug, Default)]
pub struct Log {
    pub(crate) lines: VecDeque<String>,
    /// How many lines were ever said.
    said: u64,
}

impl Log {
    /// Says a line.
    pub fn say(&mut self, line: fmt::Arguments<'_>) {
        if self.lines.len() == MOST_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(alloc::format!("{line}"));
        self.said += 1;
    }

    /// How many lines were ever said.
    #[must_use]
    pub fn said(&self) -> u64 {
        self.said
    }

    /// The lines behind the first `seen` ones, as far as they are kept.
    pub fn since(&self, seen: u64) -> impl Iterator<Item = &str> {
        let new = (self.said - seen).min(self.lines.len() as u64) as usize;
        self.lines.range(self.lines.len() - new..).map(String::as_str)
    }
}
