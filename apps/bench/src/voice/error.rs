//! The errors of the signalling.

use crate::load::links::LinkError;
use sip_ua::AccountError;
use std::fmt;
use std::io;

/// The reason why a side cannot be opened.
#[derive(Debug)]
pub(crate) enum SideError {
    Link(LinkError),
    Socket(io::Error),
    /// A user has no valid name.
    User(String, AccountError),
}

impl fmt::Display for SideError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(error) => error.fmt(f),
            Self::Socket(error) => write!(f, "a socket cannot be opened: {error}"),
            Self::User(name, error) => write!(f, "user {name}: {error}"),
        }
    }
}

impl From<io::Error> for SideError {
    fn from(error: io::Error) -> Self {
        Self::Socket(error)
    }
}
