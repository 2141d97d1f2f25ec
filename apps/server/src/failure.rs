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
