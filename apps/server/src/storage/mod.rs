//! What outlives the program: users, settings and registrations, in an SQLite database and, for
//! the registrations of the last moments, in journal files beside it.

mod bindings;
mod journal;
mod users;

pub(crate) use journal::Journal;
pub(crate) use users::{Change, User};

use crate::data_dir::DataDir;
use parking_lot::{Mutex, MutexGuard};
use rusqlite::{Connection, OptionalExtension, params};
use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The form of the tables below.
const SCHEMA_VERSION: i64 = 1;

/// `subscriber` is keyed by domain first, so that the users of a domain lie together.
/// `binding.expires` is in seconds since 1970, of the binding that ends last. `binding.emptied` is
/// the number of the journal files that said that the address of record has no bindings any more.
const SCHEMA: &str = "
    CREATE TABLE subscriber (
        domain TEXT NOT NULL,
        name TEXT NOT NULL,
        ha1_md5 BLOB NOT NULL,
        ha1_sha256 BLOB NOT NULL,
        ha1_sha512_256 BLOB NOT NULL,
        PRIMARY KEY (domain, name)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE setting (
        key TEXT PRIMARY KEY NOT NULL,
        value BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE binding (
        address_of_record BLOB PRIMARY KEY NOT NULL,
        sequence INTEGER NOT NULL,
        expires INTEGER NOT NULL,
        emptied INTEGER,
        record BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX binding_emptied ON binding (emptied) WHERE emptied IS NOT NULL;
";

/// The open storage of one data directory.
#[derive(Debug)]
pub(crate) struct Storage {
    database: Mutex<Connection>,
    directory: DataDir,
}

/// Storage that failed.
#[derive(Debug)]
pub(crate) enum Error {
    /// The database refused.
    Database {
        /// What was to be done.
        doing: &'static str,
        /// Why it was not.
        source: rusqlite::Error,
    },
    /// A file could not be used.
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The database was written by a later version of this program.
    Newer {
        /// The database.
        path: PathBuf,
        /// The version of its tables.
        version: i64,
    },
    /// The system gave no random bytes.
    Random(getrandom::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Database { doing, source } => {
                write!(f, "the database failed to {doing}: {source}")
            }
            Self::File { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Newer { path, version } => write!(
                f,
                "{} is of form {version} and this program knows form {SCHEMA_VERSION}: it was \
                 written by a newer barebell; run that one, or use another directory with --data",
                path.display()
            ),
            Self::Random(source) => write!(f, "the system gives no random bytes: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Database { source, .. } => Some(source),
            Self::File { source, .. } => Some(source),
            Self::Newer { .. } => None,
            Self::Random(source) => Some(source),
        }
    }
}

/// Says what the database was to do.
fn to(doing: &'static str) -> impl FnOnce(rusqlite::Error) -> Error {
    move |source| Error::Database { doing, source }
}

/// Says which file it was.
fn of(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { path, source }
}

impl Storage {
    /// Opens the database in `directory`, or makes one, and takes into it what journal files a
    /// crash left.
    ///
    /// # Errors
    /// When it cannot be opened, or is of a newer form.
    pub(crate) fn open(directory: DataDir) -> Result<Self, Error> {
        let path = directory.path().join("barebell.sqlite");
        // SQLite would let others read the file; the files that it puts beside it get its mode.
        OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(of(&path))?;
        let mut database = Connection::open(&path).map_err(to("open"))?;
        prepare(&mut database, &path)?;
        let storage = Self { database: Mutex::new(database), directory };
        let journals = journal::files(storage.path()).map_err(of(storage.path()))?;
        storage.fold(&journals)?;
        journal::delete(&journals)?;
        Ok(storage)
    }

    /// Where the data is.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// 32 random bytes, made once: the key of everything that must still be valid after a restart.
    ///
    /// # Errors
    /// When they can neither be read nor made.
    pub(crate) fn secret(&self) -> Result<[u8; 32], Error> {
        if let Some(secret) = self.setting("secret")?.and_then(|bytes| bytes.try_into().ok()) {
            return Ok(secret);
        }
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(Error::Random)?;
        self.set_setting("secret", &secret)?;
        Ok(secret)
    }

    /// The value last stored under `key`.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) fn setting(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        get_setting(&self.database(), key)
    }

    /// Stores `value` under `key`.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) fn set_setting(&self, key: &str, value: &[u8]) -> Result<(), Error> {
        put_setting(&self.database(), key, value)
    }

    fn database(&self) -> MutexGuard<'_, Connection> {
        self.database.lock()
    }
}

fn get_setting(database: &Connection, key: &str) -> Result<Option<Vec<u8>>, Error> {
    database
        .query_row("SELECT value FROM setting WHERE key = ?1", [key], |row| row.get(0))
        .optional()
        .map_err(to("read a setting"))
}

fn put_setting(database: &Connection, key: &str, value: &[u8]) -> Result<(), Error> {
    database
        .execute("INSERT OR REPLACE INTO setting VALUES (?1, ?2)", params![key, value])
        .map(drop)
        .map_err(to("store a setting"))
}

fn prepare(database: &mut Connection, path: &Path) -> Result<(), Error> {
    let setup = |database: &Connection| {
        database.pragma_update(None, "journal_mode", "WAL")?;
        // Journal files are deleted once their content is here, so a commit must reach the disk.
        database.pragma_update(None, "synchronous", "FULL")?;
        // In KiB when negative.
        database.pragma_update(None, "cache_size", -32_768)
    };
    setup(database).map_err(to("get ready"))?;
    let transaction = database.transaction().map_err(to("get ready"))?;
    let version: i64 = transaction
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(to("tell its form"))?;
    match version {
        SCHEMA_VERSION => return Ok(()),
        0 => {}
        _ => return Err(Error::Newer { path: path.to_owned(), version }),
    }
    transaction
        .execute_batch(SCHEMA)
        .and_then(|()| transaction.pragma_update(None, "user_version", SCHEMA_VERSION))
        .and_then(|()| transaction.commit())
        .map_err(to("make its tables"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    pub(crate) fn open(path: &Path) -> Storage {
        Storage::open(locked(path)).unwrap()
    }

    /// Waits for the lock: a process that another test starts holds a copy for a moment.
    fn locked(path: &Path) -> DataDir {
        DataDir::open(path, || Ok(None::<()>)).unwrap().unwrap()
    }

    #[test]
    fn the_secret_is_made_once() {
        let directory = tempfile::tempdir().unwrap();
        let first = open(directory.path()).secret().unwrap();
        assert_eq!(open(directory.path()).secret().unwrap(), first);
        let other = tempfile::tempdir().unwrap();
        assert_ne!(open(other.path()).secret().unwrap(), first);
    }

    #[test]
    fn the_data_is_for_its_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        storage.set_setting("a", b"b").unwrap();
        let files: Vec<_> = directory.path().read_dir().unwrap().map(Result::unwrap).collect();
        assert!(files.len() > 2, "{files:?}");
        for file in files {
            let mode = file.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{:?}", file.file_name());
        }
    }

    #[test]
    fn a_database_of_a_newer_form_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        open(directory.path()).database().pragma_update(None, "user_version", 99).unwrap();
        let error = Storage::open(locked(directory.path())).unwrap_err();
        assert!(matches!(error, Error::Newer { version: 99, .. }), "{error}");
    }
}
