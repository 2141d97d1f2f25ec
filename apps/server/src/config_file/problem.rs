//! What can be wrong with a configuration file.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Something wrong with a configuration file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    /// Counted from 1.
    pub(crate) line: usize,
    /// In characters, counted from 1.
    pub(crate) column: usize,
    /// What is wrong, what was expected, what to do.
    pub(crate) text: String,
}

/// A file that a configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedFile {
    /// Where it is named, as `FILE:LINE:COLUMN`.
    pub(crate) place: String,
    /// The key, with its section.
    pub(crate) key: &'static str,
    /// The file.
    pub(crate) path: PathBuf,
}

/// A configuration file that cannot be used.
#[derive(Debug)]
pub(crate) struct BadConfig {
    /// The file.
    pub(crate) file: PathBuf,
    /// What is wrong with it, in the order of the file; at least one.
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

/// Why there is no configuration.
#[derive(Debug)]
pub(crate) enum LoadError {
    /// The file cannot be read.
    Unreadable(PathBuf, io::Error),
    /// It says something that cannot be used.
    Bad(BadConfig),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(file, error) => {
                write!(f, "cannot read the configuration {}: {error}", file.display())
            }
            Self::Bad(bad) => write!(f, "the configuration cannot be used:\n{bad}"),
        }
    }
}

impl std::error::Error for LoadError {}
