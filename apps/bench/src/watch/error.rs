//! The errors of watching.

use std::fmt;

/// An error of watching.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WatchError {
    /// The text is not a valid subject.
    Subject(String),
    /// The process does not exist, or has ended.
    Gone(i32),
    /// This machine has no process with this name or id.
    NoProcess(String, String),
    /// `ssh` to this host failed for this reason.
    Ssh(String, String),
}

impl fmt::Display for WatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Subject(text) => write!(
                f,
                "cannot watch '{text}': expected a process number, or ssh:HOST:PID, or ssh:HOST:NAME"
            ),
            Self::Gone(pid) => write!(f, "the watched process {pid} is not there, or has ended"),
            Self::NoProcess(host, what) => write!(f, "{host} has no process {what}"),
            Self::Ssh(host, reason) => write!(
                f,
                "watching over ssh:{host} failed: {reason} ({})",
                crate::ssh::advice(host)
            ),
        }
    }
}

impl std::error::Error for WatchError {}

impl WatchError {
    /// Returns true if the watched process has ended, as far as is known.
    pub(crate) const fn is_gone(&self) -> bool {
        matches!(self, Self::Gone(_) | Self::NoProcess(..))
    }
}
