//! Errors in scenario files, with their place.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A place in a file: line and column, both from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Place {
    /// Returns the place of the octet at `offset` of `text`.
    pub(super) fn of(text: &str, offset: usize) -> Self {
        let before = &text.as_bytes()[..offset.min(text.len())];
        let start = before.iter().rposition(|&octet| octet == b'\n').map_or(0, |at| at + 1);
        Self {
            line: 1 + before.iter().filter(|&&octet| octet == b'\n').count(),
            column: 1 + String::from_utf8_lossy(&before[start..]).chars().count(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// An error at a place of a scenario file: the fault, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) place: Place,
    pub(crate) text: String,
}

impl Fault {
    /// Returns the fault at `place`.
    pub(super) fn new(place: Place, text: impl Into<String>) -> Self {
        Self { place, text: text.into() }
    }
}

/// An error of a scenario: it cannot be read, or cannot run.
#[derive(Debug)]
pub(crate) enum ScenarioError {
    /// A file cannot be read.
    Read(PathBuf, io::Error),
    /// The scenario file has a fault.
    File(PathBuf, Fault),
    /// A file of fields is not of the expected form.
    Fields(PathBuf, String),
    /// A media file is not of the expected form.
    Media(PathBuf, String),
    /// A socket cannot be opened.
    Socket(String, io::Error),
    /// The options contradict each other or the scenario.
    Usage(String),
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path, error) => write!(f, "{} cannot be read: {error}", path.display()),
            Self::File(path, Fault { place, text }) => {
                write!(f, "{}, {place}: {text}", path.display())
            }
            Self::Fields(path, text) | Self::Media(path, text) => {
                write!(f, "{}: {text}", path.display())
            }
            Self::Socket(address, error) => write!(f, "no socket at {address}: {error}"),
            Self::Usage(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for ScenarioError {}
