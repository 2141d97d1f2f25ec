//! The problems of a configuration file.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A problem in a configuration file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    /// The line, counted from 1.
    pub(crate) line: usize,
    /// The column in characters, counted from 1.
    pub(crate) column: usize,
    /// The message: the problem, the expected value, and the remedy.
    pub(crate) text: String,
}

/// A file named in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedFile {
    /// The place of its name, as `FILE:LINE:COLUMN`.
    pub(crate) place: String,
    /// The key, with its section.
    pub(crate) key: &'static str,
    /// The file.
    pub(crate) path: PathBuf,
}

/// A configuration file with problems.
#[derive(Debug)]
pub(crate) struct BadConfig {
    /// The file.
    pub(crate) file: PathBuf,
    /// The problems, in the order of the file. Not empty.
    pub(crate) problems: Vec<Problem>,
}

impl fmt::Display for BadConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Problem { line, column, text }) in self.problems.iter().enumerate() {
            let newline = if index == 0 { "" } else { "\n" };
            write!(f, "{newline}{}:{line}:{column}: {text}", self.file.display())?;
        }
        Ok(())
    }
}

/// The error of loading a configuration.
#[derive(Debug)]
pub(crate) enum LoadError {
    /// The file cannot be read.
    Unreadable(PathBuf, io::Error),
    /// It contains invalid settings.
    Bad(BadConfig),
    /// It is that of a server elsewhere.
    Elsewhere,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(file, error) => {
                write!(f, "cannot read the configuration {}: {error}", file.display())
            }
            Self::Bad(bad) => write!(f, "the configuration cannot be used:\n{bad}"),
            Self::Elsewhere => f.write_str(
                "the HTTP API has nothing for this command: run it on the machine of the server, \
                 without --server, --token-file and --ca",
            ),
        }
    }
}

impl std::error::Error for LoadError {}
