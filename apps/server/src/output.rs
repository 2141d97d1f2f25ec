//! Standard output, with special treatment of a reader that has closed it.

use crate::failure::Failure;
use serde::Serialize;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

/// Standard output, buffered.
pub(crate) struct Out(BufWriter<Stdout>);

impl Out {
    /// Standard output.
    pub(crate) fn new() -> Self {
        Self(BufWriter::with_capacity(64 * 1024, io::stdout()))
    }

    /// Returns true if standard output is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.0.get_ref().is_terminal()
    }

    /// Writes `text` unchanged.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.0.write_all(text.as_bytes()).map_err(gone)
    }

    /// Writes `text` and a newline.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.text(text)?;
        self.text("\n")
    }

    /// Writes `value` as JSON on a line of its own.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(value)?;
        self.line(&text)
    }

    /// Writes the buffer to standard output.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.0.flush().map_err(gone)
    }
}

fn gone(error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        Failure::OutputClosed
    } else {
        Failure::Said(format!("cannot write to standard output: {error}"))
    }
}

/// Replaces the control characters in `text` by escapes. Text from strangers must neither imitate
/// further lines nor send control sequences to a terminal.
pub(crate) fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            printable.extend(c.escape_default());
        } else {
            printable.push(c);
        }
    }
    printable
}

/// Writes a note to standard error, which may be closed.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "note: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(printable("a\r\nerror: b\u{1b}[2Jü\u{9b}"), "a\\r\\nerror: b\\u{1b}[2Jü\\u{9b}");
    }
}
