//! What is printed. Where it goes may be full, or closed: that is an error in words, and no panic.

use std::fmt::Display;
use std::io::{self, Write as _};

/// Prints `text` on standard output.
///
/// # Errors
/// Where that is full, or closed.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Says `text` on standard error. Where that cannot be written, nobody can be told.
pub(crate) fn complain(text: impl Display) {
    let _ = writeln!(io::stderr(), "barebell-bench: {text}");
}
