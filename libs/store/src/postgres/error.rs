//! The errors of accounts in a PostgreSQL database.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A failure of the accounts in a PostgreSQL database.
#[derive(Debug)]
#[non_exhaustive]
pub enum AccountsError {
    /// The connection URI is malformed.
    Url(postgres::Error),
    /// The connection URI names no host or no database.
    Incomplete,
    /// The name of the table is malformed.
    Table(String),
    /// The file with the password cannot be read.
    PasswordFile(PathBuf, io::Error),
    /// There is no such table, or it lacks columns.
    Columns {
        /// The table.
        table: String,
        /// The columns that are missing.
        missing: String,
    },
    /// The database fails, or there is no connection to it.
    Database(postgres::Error),
}

impl fmt::Display for AccountsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(error) => write!(
                f,
                "expected a URI as in \"postgresql://barebell@db.example.com/sip\": {error}"
            ),
            Self::Incomplete => f.write_str(
                "expected a host and a database, as in \"postgresql://barebell@db.example.com/sip\"",
            ),
            Self::Table(table) => write!(
                f,
                "{table:?} is no name of a table: expected letters, digits and underscores, perhaps \
                 with a schema and a dot before it"
            ),
            Self::PasswordFile(path, error) => {
                write!(f, "cannot read the password in {}: {error}", path.display())
            }
            Self::Columns { table, missing } => write!(
                f,
                "the table {table} is no table of accounts: it has no {missing}; expected the \
                 subscriber table of OpenSIPS or Kamailio, with username, domain, and ha1 or \
                 password"
            ),
            Self::Database(error) => {
                write!(f, "{error}")?;
                let mut cause = std::error::Error::source(error);
                while let Some(error) = cause {
                    let text = error.to_string();
                    write!(f, ": {text}")?;
                    cause = error.source();
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for AccountsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Url(error) | Self::Database(error) => Some(error),
            Self::PasswordFile(_, error) => Some(error),
            Self::Incomplete | Self::Table(_) | Self::Columns { .. } => None,
        }
    }
}

impl From<postgres::Error> for AccountsError {
    fn from(error: postgres::Error) -> Self {
        Self::Database(error)
    }
}
