//! The error of a command.

use std::fmt;

/// The reason for an early end of a command.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error, with the message for the terminal.
    Message(String),
    /// The command has printed the problems that it found.
    Found,
    /// The command has printed a state that is not the normal one, with its own exit status.
    State(u8),
    /// The reader of standard output has closed it, as in `barebell user list | head`.
    OutputClosed,
}

impl Failure {
    /// A failure with the message `text`.
    pub(crate) fn message(text: impl Into<String>) -> Self {
        Self::Message(text.into())
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Message(error.to_string())
    }
}

/// Creates a failure: `error` occurred while `doing`.
pub(crate) fn during<E: fmt::Display>(doing: impl fmt::Display) -> impl FnOnce(E) -> Failure {
    move |error| Failure::Message(format!("{doing}: {error}"))
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Message(text) => text,
            Self::Found | Self::State(_) => "see above",
            Self::OutputClosed => "the reader of the output has closed it",
        })
    }
}
