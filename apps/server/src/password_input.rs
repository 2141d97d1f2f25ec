//! Passwords from standard input.

use crate::failure::{Failure, during};
use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
use std::io::{self, IsTerminal, Write};

/// Reads a password from the standard input. At a terminal it asks twice, and the terminal does not
/// show it.
///
/// # Errors
/// [`Failure`] if the input cannot be read, or the two passwords differ.
pub(crate) fn read_password() -> Result<String, Failure> {
    if !io::stdin().is_terminal() {
        return read_line();
    }
    let password = read_hidden("password: ")?;
    if read_hidden("the same password again: ")? != password {
        return Err(Failure::message("the two passwords differ: nothing is changed"));
    }
    Ok(password)
}

/// Asks with `prompt` at the terminal.
fn read_hidden(prompt: &str) -> Result<String, Failure> {
    let stdin = io::stdin();
    let shown = tcgetattr(&stdin)?;
    let mut hidden = shown.clone();
    hidden.local_flags.remove(LocalFlags::ECHO);
    tcsetattr(&stdin, SetArg::TCSAFLUSH, &hidden)?;
    let _ = write!(io::stderr(), "{prompt}");
    let line = read_line();
    tcsetattr(&stdin, SetArg::TCSAFLUSH, &shown)?;
    let _ = writeln!(io::stderr());
    line
}

fn read_line() -> Result<String, Failure> {
    let mut line = String::new();
    io::stdin().read_line(&mut line).map_err(during("cannot read the password"))?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}
