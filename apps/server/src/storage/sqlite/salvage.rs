//! What is done where the database is damaged: what can be read of it goes into a new one, and the
//! damaged one is kept.

use super::failure::{of, to};
use super::tables::{DATABASE_MODE, SECRET, STEPS, get_setting, make_tables};
use crate::log;
use crate::storage::Error;
use net::wall_clock;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};
use std::ffi::OsString;
use std::fmt;
use std::fs::{File, OpenOptions, hard_link, remove_file, rename};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What is lost with the secret.
pub(super) const LOST_SECRET: &str = "the server's secret is lost and a new one is made: phones log in again by themselves, and calls that are up cannot \
     be changed or hung up properly";

/// Between the name of a damaged file and the time, in seconds since 1970, when that was found.
pub(super) const DAMAGED: &str = ".damaged-";

/// Files that SQLite puts beside a database.
const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];
/// What a database begins with.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Where its header says how many pages there are, as 32 bits, the high ones first.
const PAGE_COUNT: u64 = 28;
/// Bytes of a page of ours.
const PAGE: u64 = 4096;
/// How many times as long the copy of a database may become that was cut off.
const MOST_PADDING: u64 = 100;

/// Puts a new database with all that can be read in the place of the one at `path`, which is
/// damaged as `reason` says, and keeps that one under another name.
///
/// # Errors
/// When no user can be read, though there may be some: then nothing has changed. When the new
/// database cannot be made.
pub(super) fn salvage(path: &Path, reason: String) -> Result<(), Error> {
    let fresh_path = with_suffix(path, ".salvaged");
    // An attempt before this one may have ended early.
    remove(&fresh_path)?;
    OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(DATABASE_MODE)
        .open(&fresh_path)
        .map_err(of(&fresh_path))?;
    let mut fresh = Connection::open(&fresh_path).map_err(to("open"))?;
    let transaction = fresh.transaction().map_err(to("save what can be read"))?;
    make_tables(&transaction, &STEPS)?;
    let copy_path = readable_copy(path)?;
    let damaged = Connection::open(&copy_path).map_err(to("open"))?;
    let copy = |table, key: &[&str], rest| {
        copy(&damaged, &transaction, table, key, rest).map_err(to("save what can be read"))
    };
    let mut columns = "ha1_md5, ha1_sha256, ha1_sha512_256".to_owned();
    // It may be of the form before.
    if damaged.prepare("SELECT auth_name FROM subscriber").is_ok() {
        columns += ", address_ha1, auth_name, auth_ha1";
    }
    let users = copy("subscriber", &["domain", "name"], &columns)?;
    let settings = copy("setting", &["key"], "value")?;
    let registrations =
        copy("binding", &["address_of_record"], "sequence, expires, emptied, record")?;
    drop(damaged);
    remove(&copy_path)?;
    if users.rows == 0 && !users.is_whole {
        drop(transaction);
        drop(fresh);
        remove(&fresh_path)?;
        return Err(Error::NoUsers { path: path.to_owned(), reason });
    }
    let is_secret_lost = !settings.is_whole && get_setting(&transaction, SECRET)?.is_none();
    transaction.commit().map_err(to("save what can be read"))?;
    fresh.close().map_err(|(_, error)| to("save what can be read")(error))?;
    let kept = put_in_place(&fresh_path, path)?;
    log::warn("storage", || {
        let secret = if is_secret_lost { format!("; {LOST_SECRET}") } else { String::new() };
        format!(
            "the database {} was damaged ({reason}) and is now {}. A new one has what could be read: {users} users, \
             {registrations} registrations, {settings} settings{secret}. If users are missing, put a backup in its place or add \
             them again; phones register again by themselves",
            path.display(),
            kept.display(),
        )
    });
    Ok(())
}

/// Makes a copy of the damaged database at `path` that SQLite looks into: it does not where the
/// first bytes are others, or where the end is missing. What is read from is another file also
/// since SQLite writes to what it opens.
fn readable_copy(path: &Path) -> Result<PathBuf, Error> {
    let copy_path = with_suffix(path, ".copy");
    remove(&copy_path)?;
    std::fs::copy(path, &copy_path).map_err(of(path))?;
    let wal = with_suffix(path, "-wal");
    absent(std::fs::copy(&wal, with_suffix(&copy_path, "-wal")).map(drop)).map_err(of(&wal))?;
    let copy = OpenOptions::new().read(true).write(true).open(&copy_path);
    copy.and_then(|copy| {
        let length = copy.metadata()?.len();
        copy.write_all_at(MAGIC, 0)?;
        let mut pages = [0; 4];
        copy.read_exact_at(&mut pages, PAGE_COUNT)?;
        let whole = u64::from(u32::from_be_bytes(pages)) * PAGE;
        if (length..length.saturating_mul(MOST_PADDING)).contains(&whole) {
            copy.set_len(whole)?;
        }
        Ok(())
    })
    .map_err(of(&copy_path))?;
    Ok(copy_path)
}

/// Removes the database at `path`, if there is one, with all that SQLite put beside it.
fn remove(path: &Path) -> Result<(), Error> {
    for suffix in BESIDE.into_iter().chain([""]) {
        let path = with_suffix(path, suffix);
        absent(remove_file(&path)).map_err(of(&path))?;
    }
    Ok(())
}

/// What came of a table.
struct Copied {
    rows: u64,
    /// Whether that is all of it.
    is_whole: bool,
}

impl fmt::Display for Copied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", if self.is_whole { "all" } else { "only" }, self.rows)
    }
}

/// Copies the rows of `table`, which has the columns `key` and `rest`, from either end up to the
/// damage.
///
/// # Errors
/// When they cannot be stored. What cannot be read is no error.
fn copy(
    damaged: &Connection,
    fresh: &Connection,
    table: &str,
    key: &[&str],
    rest: &str,
) -> rusqlite::Result<Copied> {
    let mut copied = Copied { rows: 0, is_whole: false };
    for order in ["ASC", "DESC"] {
        let (columns, ordered) = (key.join(", "), key.join(&format!(" {order}, ")));
        let Ok(mut select) = damaged
            .prepare(&format!("SELECT {columns}, {rest} FROM {table} ORDER BY {ordered} {order}"))
        else {
            break;
        };
        let places = vec!["?"; select.column_count()].join(", ");
        let mut insert = fresh.prepare(&format!(
            "INSERT OR IGNORE INTO {table} ({columns}, {rest}) VALUES ({places})"
        ))?;
        let Ok(mut rows) = select.query([]) else { break };
        let mut is_whole = true;
        loop {
            match rows.next() {
                Ok(None) => {
                    copied.is_whole = is_whole;
                    return Ok(copied);
                }
                Ok(Some(row)) => {
                    match values(row).and_then(|row| insert.execute(params_from_iter(row))) {
                        Ok(count) => copied.rows += count as u64,
                        Err(error) if is_about_the_row(&error) => is_whole = false,
                        Err(error) => return Err(error),
                    }
                }
                Err(_) => break,
            }
        }
    }
    Ok(copied)
}

fn values(row: &Row<'_>) -> rusqlite::Result<Vec<Value>> {
    (0..row.as_ref().column_count()).map(|column| row.get(column)).collect()
}

/// Whether a row is to blame: not of the table's types, or no text where text is expected.
fn is_about_the_row(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => {
            failure.code == rusqlite::ErrorCode::ConstraintViolation
        }
        _ => true,
    }
}

/// Gives the database at `fresh` the name `path`, and the one there another name, which is
/// returned. There is one at `path` at any time.
fn put_in_place(fresh: &Path, path: &Path) -> Result<PathBuf, Error> {
    let kept = damaged_name(path);
    // What belongs to the old database would be taken for the new one's.
    for suffix in BESIDE {
        let beside = with_suffix(path, suffix);
        absent(rename(&beside, with_suffix(&kept, suffix))).map_err(of(&beside))?;
    }
    hard_link(path, &kept).and_then(|()| rename(fresh, path)).map_err(of(path))?;
    let directory = path.parent().unwrap_or(path);
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(of(directory))?;
    Ok(kept)
}

/// The name under which the damaged file at `path` is kept.
pub(super) fn damaged_name(path: &Path) -> PathBuf {
    with_suffix(path, &format!("{DAMAGED}{}", wall_clock().as_secs()))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// That there is no such file is fine.
fn absent(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests;
