//! The errors of accounts in a PostgreSQL database.

use crate::Error;
use net::tls::FileError;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A failure of the accounts in a PostgreSQL database.
#[derive(Debug)]
#[non_exhaustive]
pub enum AccountsError {
    /// The connection URI is malformed.
    Url(tokio_postgres::Error),
    /// The connection URI names no host or no database.
    Incomplete,
    /// The value of `sslmode` is unknown.
    SslMode(String),
    /// The URI has `sslrootcert`, and an `sslmode` that does not verify the certificate.
    UnusedIssuers,
    /// The file of issuers cannot be used.
    Issuers(FileError),
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
    /// The table has no column for the authentication name of this user.
    AuthName(String),
    /// The table has no column for hashes.
    NoHashes(String),
    /// Users cannot be moved: their hashes are those of the domain.
    BoundToDomain,
    /// The database fails, or there is no connection to it.
    Database(tokio_postgres::Error),
    /// The database has not answered for this time.
    Silent(Duration),
    /// The database has ended the connection.
    Ended,
    /// The system gives no descriptor to wait with.
    Runtime(io::Error),
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
            Self::SslMode(mode) => write!(
                f,
                "sslmode={mode} is unknown: expected disable, prefer, require or verify-full"
            ),
            Self::UnusedIssuers => f.write_str(
                "sslrootcert has no effect without sslmode=verify-full: add that, or remove \
                 sslrootcert",
            ),
            Self::Issuers(error) => write!(f, "sslrootcert: {error}"),
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
            Self::AuthName(name) => write!(
                f,
                "the table of accounts has no authentication names: leave out that of {name}"
            ),
            Self::NoHashes(table) => write!(
                f,
                "the table {table} has no column ha1 or ha1_sha256 for the hash of the password: \
                 add one, or change the password in the table by SQL"
            ),
            Self::BoundToDomain => f.write_str(
                "the hashes of users are bound to their domain: add the users to the other domain \
                 with their passwords",
            ),
            Self::Silent(time) => {
                write!(f, "the database has not answered for {} s", time.as_secs())
            }
            Self::Ended => f.write_str("the database has ended the connection"),
            Self::Runtime(error) => write!(f, "cannot wait for the database: {error}"),
            Self::Database(error) => {
                write!(f, "{error}")?;
                let mut cause = std::error::Error::source(error);
                let mut is_unknown_issuer = false;
                while let Some(error) = cause {
                    let text = error.to_string();
                    write!(f, ": {text}")?;
                    is_unknown_issuer |= text.contains("UnknownIssuer");
                    cause = error.source();
                }
                match is_unknown_issuer {
                    true => f.write_str(": name a file with the issuer as sslrootcert"),
                    false => Ok(()),
                }
            }
        }
    }
}

impl std::error::Error for AccountsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Url(error) | Self::Database(error) => Some(error),
            Self::PasswordFile(_, error) | Self::Runtime(error) => Some(error),
            Self::Issuers(error) => Some(error),
            Self::Incomplete
            | Self::SslMode(_)
            | Self::UnusedIssuers
            | Self::Table(_)
            | Self::Columns { .. }
            | Self::AuthName(_)
            | Self::NoHashes(_)
            | Self::Silent(_)
            | Self::Ended
            | Self::BoundToDomain => None,
        }
    }
}

impl From<tokio_postgres::Error> for AccountsError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

/// Makes the error of an operation that the database of accounts refuses.
pub(super) fn to(doing: &'static str) -> impl FnOnce(AccountsError) -> Error {
    move |error| Error::Database { doing, source: Box::new(error), remedy: "" }
}
