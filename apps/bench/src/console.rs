//! Output to the console. A full or closed output is an error with a message, and no panic.

use std::fmt::Display;
use std::io::{self, Write as _};

/// Prints `text` on standard output.
///
/// # Errors
/// Standard output is full or closed.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes `text` to standard error. An error of that is ignored.
pub(crate) fn complain(text: impl Display) {
    let _ = writeln!(io::stderr(), "barebell-bench: {text}");
}
