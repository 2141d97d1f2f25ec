//! Standard output, with special treatment of a reader that has closed it.

use crate::failure::Failure;
use serde::Serialize;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

/// Standard output, buffered, or the kept output of a command within the server.
pub(crate) struct Out(Target);

/// The destination of the output.
enum Target {
    Standard(BufWriter<Stdout>),
    Kept(Vec<u8>),
}

impl Out {
    /// Standard output.
    pub(crate) fn new() -> Self {
        Self(Target::Standard(BufWriter::with_capacity(64 * 1024, io::stdout())))
    }

    /// An output that is kept.
    pub(crate) const fn kept() -> Self {
        Self(Target::Kept(Vec::new()))
    }

    /// The kept output.
    pub(crate) fn into_text(self) -> String {
        match self.0 {
            Target::Standard(_) => String::new(),
            Target::Kept(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        }
    }

    /// Returns true if standard output is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        match &self.0 {
            Target::Standard(output) => output.get_ref().is_terminal(),
            Target::Kept(_) => false,
        }
    }

    /// Writes `text` unchanged.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        match &mut self.0 {
            Target::Standard(output) => output.write_all(text.as_bytes()).map_err(gone),
            Target::Kept(bytes) => {
                bytes.extend_from_slice(text.as_bytes());
                Ok(())
            }
        }
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
        match &mut self.0 {
            Target::Standard(output) => output.flush().map_err(gone),
            Target::Kept(_) => Ok(()),
        }
    }
}

fn gone(error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        Failure::OutputClosed
    } else {
        Failure::Message(format!("cannot write to standard output: {error}"))
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
