//! The error of storage.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A failure of storage.
#[derive(Debug)]
pub enum Error {
    /// A database operation failed.
    Database {
        /// The operation, as a verb.
        doing: &'static str,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
        /// Advice for the operator, appended to the message. Empty if there is no known remedy.
        remedy: &'static str,
    },
    /// A file could not be accessed.
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The database was written by a later version of this program.
    Newer {
        /// The database.
        path: PathBuf,
        /// The schema version of the database.
        version: i64,
        /// The newest schema version that this program knows.
        known: i64,
    },
    /// The database is damaged.
    Damaged {
        /// The first inconsistency found.
        what: String,
    },
    /// The database is damaged, and no user can be read.
    NoUsers {
        /// The database.
        path: PathBuf,
        /// A description of the damage.
        reason: String,
    },
    /// The database is missing or empty, although journal files of it exist.
    Gone {
        /// The expected path.
        path: PathBuf,
    },
    /// The system gave no random bytes.
    Random(getrandom::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Database { doing, source, remedy } => {
                write!(f, "the database failed to {doing}: {source}{remedy}")
            }
            Self::File { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Newer { path, version, known } => write!(
                f,
                "{} has schema {version}, and this program supports schema {known}: it was \
                 written by a newer barebell; run that one, or use another directory with --data",
                path.display()
            ),
            Self::Damaged { what } => write!(f, "the database is damaged: {what}"),
            Self::NoUsers { path, reason } => write!(
                f,
                "the database {0} is damaged ({reason}) and no user can be read in it. It is left as it is. Put a backup in its \
                 place; or, to begin without users, move it and the files journal-* beside it away",
                path.display()
            ),
            Self::Gone { path } => write!(
                f,
                "the database {} is gone or empty, though there are journal files beside it: it \
                 was removed, with all users. Put it or a backup in its place; or, to begin \
                 without users, move the files journal-* away, too",
                path.display()
            ),
            Self::Random(source) => write!(f, "the system gives no random bytes: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Database { source, .. } => Some(&**source),
            Self::File { source, .. } => Some(source),
            Self::Newer { .. }
            | Self::Damaged { .. }
            | Self::NoUsers { .. }
            | Self::Gone { .. } => None,
            Self::Random(source) => Some(source),
        }
    }
}
