//! Storage in the data directory: an SQLite database and, for the registrations of the last
//! moments, journal files beside it.

mod bindings;
mod journal;
mod salvage;
mod users;

use super::{Error, SECRET_LENGTH, Storage};
use crate::data_dir::DataDir;
use crate::log;
use parking_lot::{Mutex, MutexGuard};
use rusqlite::{Connection, ErrorCode, OptionalExtension, params};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The database's name in the data directory.
const DATABASE: &str = "barebell.sqlite";
/// Who may do what with it: its owner, anything. SQLite would let others read it.
const DATABASE_MODE: u32 = 0o600;
/// The setting in which [`Storage::secret`] is kept.
const SECRET: &str = "secret";

/// What makes the tables of each form out of those of the one before; the first are made of none.
const STEPS: [&str; 2] = [TABLES, LOGINS];

/// The form of the tables.
const SCHEMA_VERSION: i64 = STEPS.len() as i64;

/// Further names under which users log in: `user@domain`, which those have not who were stored
/// before, and one of the operator's choice. Hashes stand together, as [`users`] has them.
const LOGINS: &str = "
    ALTER TABLE subscriber ADD COLUMN address_ha1 BLOB;
    ALTER TABLE subscriber ADD COLUMN auth_name TEXT;
    ALTER TABLE subscriber ADD COLUMN auth_ha1 BLOB;
    CREATE UNIQUE INDEX subscriber_auth_name ON subscriber (domain, auth_name)
        WHERE auth_name IS NOT NULL;
";

/// `subscriber` is keyed by domain first, so that the users of a domain lie together.
/// `binding.expires` is in seconds since 1970, of the binding that ends last. `binding.emptied` is
/// the number of the journal files that said that the address of record has no bindings any more.
const TABLES: &str = "
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
pub(crate) struct Sqlite {
    database: Mutex<Connection>,
    directory: DataDir,
}

/// What the operator can do where the database fails with `error`.
fn remedy(error: &rusqlite::Error) -> &'static str {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => {
            "; make room on the disk of the data directory, then try again"
        }
        Some(ErrorCode::SystemIoFailure) => {
            "; see whether the disk of the data directory is full (df) or fails (dmesg)"
        }
        _ if is_damage(error) => {
            "; the file is damaged: stop the server and start it again, and it saves what can be read"
        }
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            "; see who owns the files in the data directory, and whether its disk is read-only"
        }
        _ => "",
    }
}

/// Says what the database was to do.
fn to(doing: &'static str) -> impl FnOnce(rusqlite::Error) -> Error {
    move |source| {
        let remedy = remedy(&source);
        Error::Database { doing, source: Box::new(source), remedy }
    }
}

/// What is wrong with the database, if `error` says that it is damaged.
fn damage(error: &Error) -> Option<String> {
    match error {
        Error::Database { source, .. } => {
            let source = source.downcast_ref::<rusqlite::Error>()?;
            is_damage(source).then(|| source.to_string())
        }
        Error::Damaged { what } => Some(what.clone()),
        _ => None,
    }
}

fn is_damage(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Says which file it was.
fn of(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { path, source }
}

impl Sqlite {
    /// Opens the database in `directory`, or makes one, and takes into it what journal files a
    /// crash left. What is damaged is kept, and replaced by what can be read of it.
    ///
    /// # Errors
    /// When it cannot be opened, is of a newer form, or has lost its users.
    pub(crate) fn open(directory: DataDir) -> Result<Self, Error> {
        let path = directory.path().join(DATABASE);
        let journals = journal::files(directory.path()).map_err(of(directory.path()))?;
        let is_there = path.metadata().is_ok_and(|metadata| metadata.len() > 0);
        if !is_there && !journals.is_empty() {
            return Err(Error::Gone { path });
        }
        // The files that SQLite puts beside it get its mode.
        OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(DATABASE_MODE)
            .open(&path)
            .map_err(of(&path))?;
        let mut opened = open_whole(&path);
        if let Some(damage) = opened.as_ref().err().and_then(damage) {
            salvage::salvage(&path, damage)?;
            opened = open_whole(&path);
        }
        let database = opened?;
        let storage = Self { database: Mutex::new(database), directory };
        let damaged = storage.fold(&journals)?;
        journal::put_away(&journals, &damaged)?;
        Ok(storage)
    }

    /// Where the data is.
    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The names of the files that are kept since they were damaged.
    ///
    /// # Errors
    /// When the directory cannot be read.
    fn kept_files(&self) -> Result<Vec<String>, Error> {
        let entries = self.path().read_dir().map_err(of(self.path()))?;
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<_> = names.filter(|name| name.contains(salvage::DAMAGED)).collect();
        names.sort();
        Ok(names)
    }

    fn database(&self) -> MutexGuard<'_, Connection> {
        self.database.lock()
    }
}

impl Storage for Sqlite {
    fn secret(&self) -> Result<[u8; SECRET_LENGTH], Error> {
        if let Some(stored) = self.setting(SECRET)? {
            match stored.try_into() {
                Ok(secret) => return Ok(secret),
                Err(_) => log::warn("storage", || salvage::LOST_SECRET.to_owned()),
            }
        }
        let mut secret = [0; SECRET_LENGTH];
        getrandom::fill(&mut secret).map_err(Error::Random)?;
        self.set_setting(SECRET, &secret)?;
        Ok(secret)
    }

    fn setting(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        get_setting(&self.database(), key)
    }

    fn set_setting(&self, key: &str, value: &[u8]) -> Result<(), Error> {
        put_setting(&self.database(), key, value)
    }

    fn damage(&self) -> Result<Option<String>, Error> {
        let kept = self.kept_files()?;
        let told = || {
            format!(
                "files in {} are damaged and not used any more: delete them when you do not need them: {}",
                self.path().display(),
                kept.join(", ")
            )
        };
        Ok((!kept.is_empty()).then(told))
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

/// Opens the database at `path`, and makes its tables if there are none.
///
/// # Errors
/// When that fails; where it is damaged, [`damage`] says so.
fn open_whole(path: &Path) -> Result<Connection, Error> {
    let mut database = Connection::open(path).map_err(to("open"))?;
    prepare(&mut database, path)?;
    let found: String = database
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(to("be checked"))?;
    match found.as_str() {
        "ok" => Ok(database),
        _ => Err(Error::Damaged { what: found.replace('\n', " ") }),
    }
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
    let newer = || Error::Newer { path: path.to_owned(), version, known: SCHEMA_VERSION };
    let left =
        usize::try_from(version).ok().and_then(|done| STEPS.get(done..)).ok_or_else(newer)?;
    if left.is_empty() {
        return Ok(());
    }
    make_tables(&transaction, left)?;
    transaction.commit().map_err(to("make its tables"))
}

fn make_tables(database: &Connection, steps: &[&str]) -> Result<(), Error> {
    steps
        .iter()
        .try_for_each(|step| database.execute_batch(step))
        .and_then(|()| database.pragma_update(None, "user_version", SCHEMA_VERSION))
        .map_err(to("make its tables"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::storage::{User, Users};
    use std::os::unix::fs::PermissionsExt;

    pub(crate) fn open(path: &Path) -> Sqlite {
        Sqlite::open(locked(path)).unwrap()
    }

    /// Waits for the lock: a process that another test starts holds a copy for a moment.
    pub(crate) fn locked(path: &Path) -> DataDir {
        DataDir::open(path, || Ok(None::<()>)).unwrap().unwrap()
    }

    /// All users, or those of one domain, in their order.
    pub(crate) fn all(storage: &Sqlite, domain: Option<&str>) -> Vec<User> {
        let mut users = Vec::new();
        storage
            .users(domain, &mut |user| {
                users.push(user);
                true
            })
            .unwrap();
        users
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
        let error = Sqlite::open(locked(directory.path())).unwrap_err();
        assert!(matches!(error, Error::Newer { version: 99, .. }), "{error}");
    }

    #[test]
    fn a_database_of_an_older_form_is_brought_up_to_date() {
        let directory = tempfile::tempdir().unwrap();
        let old = Connection::open(directory.path().join(DATABASE)).unwrap();
        make_tables(&old, &STEPS[..1]).unwrap();
        old.pragma_update(None, "user_version", 1).unwrap();
        old.execute(
            "INSERT INTO subscriber VALUES ('a.com', 'alice', zeroblob(16), zeroblob(32), zeroblob(32))",
            [],
        )
        .unwrap();
        drop(old);
        let storage = open(directory.path());
        let users = all(&storage, None);
        let [alice] = &users[..] else { panic!("{users:?}") };
        assert_eq!((&alice.name[..], &alice.logins.by_address), ("alice", &None));
        assert_eq!(storage.put_users(&users).unwrap().changed, 1);
    }
}
