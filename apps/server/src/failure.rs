//! Why a command ends early.

use std::fmt;

/// What ends a command before its time.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something went wrong; the text says what, for the person at the terminal.
    Said(String),
    /// The command has said itself what it found to be wrong.
    Found,
    /// Nobody reads our output any more, as in `barebell user list | head`.
    OutputClosed,
}

impl Failure {
    /// A failure that says `text`.
    pub(crate) fn said(text: impl Into<String>) -> Self {
        Self::Said(text.into())
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Said(error.to_string())
    }
}

/// Says what was being done when `error` occurred.
pub(crate) fn during<E: fmt::Display>(doing: impl fmt::Display) -> impl FnOnce(E) -> Failure {
    move |error| Failure::Said(format!("{doing}: {error}"))
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Said(text) => text,
            Self::Found => "see above",
            Self::OutputClosed => "nobody reads the output",
        })
    }
}
