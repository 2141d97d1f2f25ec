//! Why users are not managed.

use crate::storage;
use std::fmt;
use std::io;

/// Why users were not managed.
#[derive(Debug)]
pub(crate) enum Error {
    /// The name cannot be a user's.
    BadName(String),
    /// The password cannot be one.
    BadPassword,
    /// The name has no domain and several are served.
    WhichDomain {
        /// The name.
        name: String,
        /// The domains served.
        served: Vec<String>,
    },
    /// The name has one domain and the flag another.
    TwoDomains(String, String),
    /// There are no users to move.
    NothingToMove {
        /// Where they were looked for.
        from: String,
        /// The domains that have users.
        domains: Vec<String>,
    },
    /// Users cannot move between domains that both have users, with different realms.
    OtherRealm {
        /// The domain that they are in.
        from: String,
        /// The domain that they cannot move to.
        to: String,
    },
    /// There is a user of this name already.
    Exists(String),
    /// There is no such user.
    Unknown(String),
    /// The name is one under which somebody else logs in.
    Taken {
        /// The name.
        name: String,
        /// Whose it is.
        owner: String,
    },
    /// Lines of an import that cannot be used.
    BadLines {
        /// The first of them: number and what is wrong.
        named: Vec<(u64, String)>,
        /// How many there are in all.
        count: u64,
    },
    /// An import could not be read.
    Read(io::Error),
    /// Storage failed.
    Storage(storage::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadName(text) => f.write_str(text),
            Self::BadPassword => f.write_str(BAD_PASSWORD),
            Self::WhichDomain { name, served } => write!(
                f,
                "which domain does {name} belong to? Say {name}@DOMAIN or --domain DOMAIN; the \
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
            Self::Taken { name, owner } => write!(
                f,
                "{owner} logs in as {name}, so nobody else can have that name: choose another one"
            ),
            Self::BadLines { named, count } => {
                write!(f, "nothing was imported, {count} lines cannot be used:")?;
                for (number, text) in named {
                    write!(f, "\n  line {number}: {text}")?;
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

impl From<storage::Error> for Error {
    fn from(source: storage::Error) -> Self {
        Self::Storage(source)
    }
}

pub(super) const BAD_PASSWORD: &str =
    "the password is empty or has control characters in it; expected one line of text";
