//! The error of the threads that copy between the storage of the server and PostgreSQL.

use std::fmt;
use store::Error;
use store::postgres::AccountsError;

/// A failure of a copy from or to a database of accounts.
pub(super) enum CopyError {
    /// The database fails.
    Database(AccountsError),
    /// The storage of the server fails.
    Storage(Error),
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Database(error) => error.fmt(f),
            Self::Storage(error) => error.fmt(f),
        }
    }
}

impl From<AccountsError> for CopyError {
    fn from(error: AccountsError) -> Self {
        Self::Database(error)
    }
}

impl From<Error> for CopyError {
    fn from(error: Error) -> Self {
        Self::Storage(error)
    }
}
