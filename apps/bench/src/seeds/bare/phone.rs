//! A running phone of a call, and what its output and its recording tell.

use super::machine::console;
use super::sound;
use crate::seeds::softphone::{HEARD, Kind, Running};
use std::fs;
use std::path::PathBuf;

/// The least time for which a tone is heard.
const HEARD_MS: u32 = 1000;

/// The steps of the phone without an operating system, by their names in its log.
const STEPS: [&str; 8] = [
    "derivation",
    "encryption",
    "decryption",
    "authentication",
    "replay",
    "header",
    "network headers, outgoing",
    "network headers, incoming",
];

/// The last one in the log.
pub(super) const LAST_STEP: &str = STEPS[STEPS.len() - 1];

/// The names of the server and the phone without an operating system.
pub(crate) const BARE: &str = "bare machine";

/// A phone of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Bare,
    Linux(Kind),
}

impl End {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Bare => BARE,
            Self::Linux(kind) => kind.name(),
        }
    }
}

/// A running phone.
pub(super) struct Phone {
    pub(super) kind: End,
    pub(super) folder: PathBuf,
    pub(super) running: Running,
}

impl Phone {
    fn log(&self) -> String {
        let path = match self.kind {
            End::Bare => return console(&self.folder),
            End::Linux(kind) => kind.log(&self.folder),
        };
        String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
    }

    pub(super) fn is_registered(&self) -> bool {
        self.log().contains(match self.kind {
            End::Bare => "registered for ",
            End::Linux(kind) => kind.registered(),
        })
    }

    pub(super) fn is_established(&self) -> bool {
        self.log().contains(match self.kind {
            End::Bare => "the call is established",
            End::Linux(kind) => kind.established(),
        })
    }

    pub(super) fn hears(&self, hertz: u16) -> bool {
        let path = match self.kind {
            End::Bare => Some(self.folder.join(HEARD)),
            End::Linux(kind) => kind.recording(&self.folder),
        };
        path.is_some_and(|path| sound::tone_ms(&path, hertz) >= HEARD_MS)
    }

    /// Returns the mean times of the steps of SRTP and of network headers in nanoseconds, which the
    /// phone without an operating system logs at the end of a call.
    pub(super) fn steps(&self) -> Vec<(String, f64)> {
        steps(&self.log())
    }

    pub(super) fn last_line(&self) -> String {
        last_line(&self.log())
    }
}

/// Returns the last line that has letters.
pub(super) fn last_line(text: &str) -> String {
    let lines = text.lines().map(str::trim);
    lines.rev().find(|line| line.contains(char::is_alphabetic)).unwrap_or("no output").to_owned()
}

/// Returns the times in a log.
fn steps(log: &str) -> Vec<(String, f64)> {
    let time = |name: &str| {
        let start = format!("{name}: ");
        let time = log.lines().find_map(|line| line.split_once(&start)?.1.split_once(" ns, "));
        Some((name.to_owned(), time?.0.parse().ok()?))
    };
    STEPS.iter().filter_map(|name| time(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_steps_are_found_in_a_log() {
        let log = "12:00:01 the call has ended: hung up\n12:00:01 header: 31 ns, 400 times\n\
                   12:00:01 network headers, outgoing: 512 ns, 200 times\nderivation: many\n";
        let found = [("header", 31.0), ("network headers, outgoing", 512.0)];
        assert_eq!(steps(log), found.map(|(name, time)| (name.to_owned(), time)));
    }
}
