//! The error of user management.

use serde::{Deserialize, Serialize};
use sip_server::CallServices;
use std::fmt;
use std::io;

/// A line of an import that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BadLine {
    /// The number of the line, from 1.
    pub(crate) line: u64,
    /// The column of the fault in characters, from 1.
    pub(crate) column: usize,
    /// The fault.
    pub(crate) text: String,
}

/// A failure of user management.
#[derive(Debug)]
pub(crate) enum Error {
    /// The user name is invalid. Contains the message.
    BadName(String),
    /// The password is invalid.
    BadPassword,
    /// The name has no domain, and several domains are served.
    WhichDomain {
        /// The name.
        name: String,
        /// The served domains.
        served: Vec<String>,
    },
    /// The name contains one domain, and `--domain` is another one.
    TwoDomains(String, String),
    /// There are no users to move.
    NothingToMove {
        /// The domain without users.
        from: String,
        /// The domains with users.
        domains: Vec<String>,
    },
    /// Users cannot be moved between two domains that have users and different realms.
    OtherRealm {
        /// The present domain.
        from: String,
        /// The requested domain.
        to: String,
    },
    /// A user with this name exists already. Contains the SIP URI.
    Exists(String),
    /// No such user exists. Contains the SIP URI.
    Unknown(String),
    /// No such user exists, so no call services were changed. Contains the SIP URI.
    NoUser(String),
    /// A forward leads to the user itself. Contains the SIP URI.
    ForwardToItself(String),
    /// The domain of the target of a forward is not served.
    UnservedTarget {
        /// The SIP URI of the target.
        target: String,
        /// The served domains.
        served: Vec<String>,
    },
    /// The time before a forward is out of range.
    BadTime,
    /// There is no forward on no answer that the time could be of.
    NoForward,
    /// Another user logs in under this name.
    Taken {
        /// The name.
        name: String,
        /// The SIP URI of that user.
        owner: String,
    },
    /// An import contains invalid lines.
    BadLines {
        /// The first of them.
        named: Vec<BadLine>,
        /// The total number of invalid lines.
        count: u64,
    },
    /// Reading an import failed.
    Read(io::Error),
    /// The storage failed.
    Storage(store::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadName(text) => f.write_str(text),
            Self::BadPassword => users::LineError::Password.fmt(f),
            Self::WhichDomain { name, served } => write!(
                f,
                "the domain of {name} is not given: use {name}@DOMAIN or --domain DOMAIN; the \
                 domains served are: {}",
                served.join(", ")
            ),
            Self::TwoDomains(name, flag) => {
                write!(f, "the name says domain {name} and --domain says {flag}: leave one out")
            }
            Self::NothingToMove { from, domains } => write!(
                f,
                "no users of {from} are to be moved; domains with users: {}",
                if domains.is_empty() { "none".to_owned() } else { domains.join(", ") }
            ),
            Self::OtherRealm { from, to } => write!(
                f,
                "{to} has users already, and passwords are stored for one domain: set those of the \
                 users of {from} again with `barebell user add NAME@{to} --password-stdin` or \
                 `barebell user import FILE --domain {to}`, then `barebell user remove NAME@{from}`"
            ),
            Self::Exists(uri) => write!(
                f,
                "there is a user {uri} already, so nothing was moved: remove one of the two first"
            ),
            Self::Unknown(uri) => write!(
                f,
                "there is no user {uri}, so nothing was removed; `barebell user list` shows all"
            ),
            Self::NoUser(uri) => write!(
                f,
                "there is no user {uri}, so nothing was changed; `barebell user list` shows all"
            ),
            Self::ForwardToItself(uri) => {
                write!(f, "calls to {uri} cannot be forwarded to itself: expected another target")
            }
            Self::UnservedTarget { target, served } => write!(
                f,
                "{target} is not of this server: expected a user or a group in one of {}",
                served.join(", ")
            ),
            Self::BadTime => write!(
                f,
                "the time before a forward is out of range: expected {} s to {} s",
                CallServices::MIN_RINGING.as_secs(),
                CallServices::MAX_RINGING.as_secs()
            ),
            Self::NoForward => f.write_str(
                "there is no forward on no answer that the time could be of: add --no-answer TARGET",
            ),
            Self::Taken { name, owner } => write!(
                f,
                "{owner} logs in as {name}, so no other user can have that name: choose another one"
            ),
            Self::BadLines { named, count } => {
                write!(f, "nothing was imported, {count} lines cannot be used:")?;
                for BadLine { line, column, text } in named {
                    write!(f, "\n  line {line}, column {column}: {text}")?;
                }
                match count - named.len() as u64 {
                    0 => Ok(()),
                    more => write!(f, "\n  and {more} more"),
                }
            }
            Self::Read(source) => write!(f, "the users cannot be read: {source}"),
            Self::Storage(source) => source.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<store::Error> for Error {
    fn from(source: store::Error) -> Self {
        Self::Storage(source)
    }
}
