//! Storage in the data directory: an SQLite database and, for the most recent registrations,
//! journal files.

mod bindings;
mod calls;
mod checkpoints;
mod failure;
mod journal;
mod messages;
mod panel;
mod panel_tables;
mod replacement;
mod salvage;
mod services;
mod tables;
mod taking;
mod user_row;
mod users;

use crate::{Directory, Error, Log, SECRET_LENGTH, Storage};
use failure::{damage, of, to};
use parking_lot::{Mutex, MutexGuard};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use tables::{
    DATABASE, DATABASE_MODE, SCHEMA_VERSION, SECRET, STEPS, get_setting, make_tables, put_setting,
};

/// The table of records of calls. It grows over years, so that its check would take minutes of each
/// start, and the server works without it.
const UNCHECKED: &str = "call";

/// The file in the data directory that makes the next start check all tables.
const CHECK_ALL: &str = "check-all-tables";

/// The open storage of one data directory.
#[derive(Debug)]
pub struct Sqlite {
    database: Mutex<Connection>,
    directory: Box<dyn Directory>,
    log: Log,
}

impl Sqlite {
    /// Opens or creates the database in `directory`, and stores the journal files that a crash has
    /// left. Damaged files are kept under another name, and replaced by their readable content.
    ///
    /// # Errors
    /// [`Error`] if the database cannot be opened, has a newer schema, is missing, or is damaged
    /// without readable users.
    pub fn open(directory: Box<dyn Directory>, log: Log) -> Result<Self, Error> {
        let path = directory.path().join(DATABASE);
        let journals = journal::files(directory.path()).map_err(of(directory.path()))?;
        let is_there = path.metadata().is_ok_and(|metadata| metadata.len() > 0);
        if !is_there && !journals.is_empty() {
            return Err(Error::Gone { path });
        }
        // SQLite gives its additional files the same mode.
        OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(DATABASE_MODE)
            .open(&path)
            .map_err(of(&path))?;
        let check_all = directory.path().join(CHECK_ALL);
        let mut opened = open_whole(&path, check_all.exists());
        if let Some(damage) = opened.as_ref().err().and_then(damage) {
            salvage::salvage(&path, damage, log)?;
            opened = open_whole(&path, true);
        }
        let database = opened?;
        salvage::absent(fs::remove_file(&check_all)).map_err(of(&check_all))?;
        let storage = Self { database: Mutex::new(database), directory, log };
        let damaged = storage.fold(&journals)?;
        journal::put_away(&journals, &damaged, log)?;
        Ok(storage)
    }

    /// The data directory.
    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Makes the next start check all tables, if `result` says that the database is damaged.
    fn noting_damage<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        let is_damaged = result.as_ref().err().and_then(damage).is_some();
        if is_damaged && File::create_new(self.path().join(CHECK_ALL)).is_ok() {
            let told = "the records of calls are damaged: the next start keeps the readable ones";
            self.log.warn("storage", || told.to_owned());
        }
        result
    }

    /// The names of the damaged files that are kept.
    ///
    /// # Errors
    /// [`Error`] if the directory cannot be read.
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
                Err(_) => self.log.warn("storage", || salvage::LOST_SECRET.to_owned()),
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

/// Opens the database at `path`, creates its tables if necessary, and checks its integrity: of all
/// tables, or of those that do not grow.
///
/// # Errors
/// [`Error`] if that fails. [`damage`] recognizes the error of a damaged database.
fn open_whole(path: &Path, checks_all: bool) -> Result<Connection, Error> {
    let mut database = Connection::open(path).map_err(to("open"))?;
    prepare(&mut database, path)?;
    let first = |pragma: String| database.query_row(&pragma, [], |row| row.get::<_, String>(0));
    let check = || -> rusqlite::Result<Vec<String>> {
        if checks_all {
            return Ok(vec![first("PRAGMA quick_check(1)".to_owned())?]);
        }
        let mut select = database
            .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> ?1")?;
        let tables = select.query_map([UNCHECKED], |row| row.get::<_, String>(0))?;
        tables.map(|table| first(format!("PRAGMA quick_check('{}')", table?))).collect()
    };
    let found = check().map_err(to("be checked"))?;
    match found.into_iter().find(|found| found != "ok") {
        None => Ok(database),
        Some(found) => Err(Error::Damaged { what: found.replace('\n', " ") }),
    }
}

fn prepare(database: &mut Connection, path: &Path) -> Result<(), Error> {
    let setup = |database: &Connection| {
        database.pragma_update(None, "journal_mode", "WAL")?;
        // Journal files are deleted after their content is stored here, so a commit must reach the
        // disk.
        database.pragma_update(None, "synchronous", "FULL")?;
        // The triggers note the changes of other programs, see `tables`.
        database.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
        // A negative value is in KiB.
        database.pragma_update(None, "cache_size", -32_768)
    };
    setup(database).map_err(to("get ready"))?;
    let transaction = database.transaction().map_err(to("get ready"))?;
    let version: i64 = transaction
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(to("read its schema version"))?;
    let newer = || Error::Newer { path: path.to_owned(), version, known: SCHEMA_VERSION };
    let left =
        usize::try_from(version).ok().and_then(|done| STEPS.get(done..)).ok_or_else(newer)?;
    if left.is_empty() {
        return Ok(());
    }
    make_tables(&transaction, left)?;
    transaction.commit().map_err(to("make its tables"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{User, Users};
    use std::os::unix::fs::PermissionsExt;

    pub(crate) fn open(path: &Path) -> Sqlite {
        try_open(path).unwrap()
    }

    pub(super) fn try_open(path: &Path) -> Result<Sqlite, Error> {
        let log = Log { write: |_, _, text| eprintln!("{}", text()) };
        Sqlite::open(Box::new(path.to_owned()), log)
    }

    /// All users, or those of one domain, in storage order.
    pub(super) fn all(storage: &Sqlite, domain: Option<&str>) -> Vec<User> {
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
        let error = try_open(directory.path()).unwrap_err();
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
        assert_eq!(storage.put_users(&users).unwrap().unchanged, 1);
    }
}
