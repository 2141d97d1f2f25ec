//! The sources of passwords. The command line is not one of them: every user of the machine can
//! read it.

use crate::terminal;
use sip_ua::Password;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The environment variable with the password of the account on the command line.
const VARIABLE: &str = "BAREBELL_PHONE_PASSWORD";
/// The maximum length of a password in octets; longer content means a wrong file.
const MAX_LENGTH: u64 = 4096;

/// The configured sources of an account's password.
#[derive(Debug, Default)]
pub(crate) struct Places {
    pub(crate) command: Option<String>,
    pub(crate) file: Option<PathBuf>,
}

impl Places {
    /// The password, if a source is configured.
    ///
    /// # Errors
    /// A description of the faulty source, without its content.
    pub(crate) fn password(&self) -> Result<Option<Password>, String> {
        match (&self.command, &self.file) {
            (Some(_), Some(_)) => {
                Err("expected either password_command or password_file".to_owned())
            }
            (Some(command), None) => of_command(command).map(Some),
            (None, Some(path)) => of_file(path).map(Some),
            (None, None) => Ok(None),
        }
    }
}

/// The first line of the output of the shell command `command`.
fn of_command(command: &str) -> Result<Password, String> {
    let wrong = |text: String| format!("password_command: {text}");
    let mut child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| wrong(format!("there is no shell: {error}")))?;
    let read = child.stdout.take().map(read);
    let status = child.wait().map_err(|error| wrong(error.to_string()))?;
    if !status.success() {
        return Err(wrong(format!("it has failed: {status}")));
    }
    read.transpose().and_then(|password| password.ok_or_else(empty)).map_err(wrong)
}

/// The first line of the file at `path`.
fn of_file(path: &Path) -> Result<Password, String> {
    let wrong = |text: String| format!("password_file {}: {text}", path.display());
    let file = std::fs::File::open(path).map_err(|error| wrong(error.to_string()))?;
    warn_of_readers(path);
    read(file).map_err(wrong)
}

/// The first line from the file descriptor `number`, which was opened by the program that started
/// the phone.
///
/// # Errors
/// A description of the failure.
pub(crate) fn of_descriptor(number: u32) -> Result<Password, String> {
    let wrong = |text: String| format!("--password-fd {number}: {text}");
    let file = std::fs::File::open(format!("/dev/fd/{number}"));
    read(file.map_err(|error| wrong(error.to_string()))?).map_err(wrong)
}

/// The password in the environment, if it is set.
pub(crate) fn of_environment() -> Option<Password> {
    let text = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty());
    text.map(|text| Password::new(&text))
}

/// The environment variable with the password for TURN servers.
const TURN_VARIABLE: &str = "BAREBELL_PHONE_TURN_PASSWORD";

/// The password for TURN servers: the first line of `file`, or else the one in the environment.
///
/// # Errors
/// A description of the failure.
pub(crate) fn of_turn(file: Option<&Path>) -> Result<String, String> {
    let Some(path) = file else {
        let text = std::env::var(TURN_VARIABLE).ok().filter(|text| !text.is_empty());
        return text.ok_or(format!(
            "--turn needs a password: in {TURN_VARIABLE}, or in a file with --turn-password-file"
        ));
    };
    let wrong = |text: String| format!("--turn-password-file {}: {text}", path.display());
    let file = std::fs::File::open(path).map_err(|error| wrong(error.to_string()))?;
    warn_of_readers(path);
    line_of(file).map_err(wrong)
}

fn empty() -> String {
    "it contains no password".to_owned()
}

fn read(from: impl Read) -> Result<Password, String> {
    line_of(from).map(|line| Password::new(&line))
}

/// The first line of `from`, which is not empty.
fn line_of(from: impl Read) -> Result<String, String> {
    let mut text = String::new();
    // The writer may keep its end open after the line.
    let mut from = BufReader::new(from.take(MAX_LENGTH));
    from.read_line(&mut text).map_err(|error| error.to_string())?;
    match text.lines().next().filter(|line| !line.is_empty()) {
        Some(line) => Ok(line.to_owned()),
        None => Err(empty()),
    }
}

/// Prints a warning if other users can read a file with passwords.
pub(crate) fn warn_of_readers(path: &Path) {
    let Ok(data) = std::fs::metadata(path) else { return };
    if data.is_file() && data.permissions().mode() & 0o044 != 0 {
        let path = path.display();
        let advice = format_args!("others can read the passwords in {path}: chmod 600 {path}");
        terminal::say(&advice);
    }
}
