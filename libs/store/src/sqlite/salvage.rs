//! The recovery of a damaged database: its readable content is copied into a new one, and the
//! damaged one is kept.

use super::failure::{of, to};
use super::panel_tables;
use super::tables::{DATABASE_MODE, SECRET, STEPS, get_setting, make_tables};
use crate::{Error, Log};
use net::wall_clock;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};
use std::ffi::OsString;
use std::fmt;
use std::fs::{File, OpenOptions, hard_link, remove_file, rename};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The message about a lost secret.
pub(super) const LOST_SECRET: &str = "the server's secret is lost and a new one is made: phones log in again by themselves, and calls that are up cannot \
     be changed or hung up properly";

/// The part of the name of a damaged file before the time of the detection, in seconds since 1970.
pub(super) const DAMAGED: &str = ".damaged-";

/// The suffixes of additional files of SQLite.
const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];
/// The first bytes of a database.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// The offset of the number of pages in the database header, a 32-bit big-endian integer.
const PAGE_COUNT: u64 = 28;
/// The page size of this program's databases, in bytes.
const PAGE: u64 = 4096;
/// The maximum ratio of the padded length of a truncated database to its actual length.
const MOST_PADDING: u64 = 100;

/// Replaces the damaged database at `path` by a new one with all readable content, and keeps the
/// damaged one under another name. `reason` describes the damage.
///
/// # Errors
/// [`Error`] if no user can be read although there may be users, which leaves the files unchanged,
/// or if the new database cannot be created.
pub(super) fn salvage(path: &Path, reason: String, log: Log) -> Result<(), Error> {
    let fresh_path = with_suffix(path, ".salvaged");
    // An earlier attempt may have been interrupted.
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
    // The database may have an older schema.
    if damaged.prepare("SELECT auth_name FROM subscriber").is_ok() {
        columns += ", address_ha1, auth_name, auth_ha1";
    }
    let users = copy("subscriber", &["domain", "name"], &columns)?;
    let settings = copy("setting", &["key"], "value")?;
    let registrations =
        copy("binding", &["address_of_record"], "sequence, expires, emptied, record")?;
    let mut columns = "ended, caller, callee, failed, record".to_owned();
    if damaged.prepare("SELECT led_to FROM call").is_ok() {
        columns += ", led_to, number_of";
    }
    let calls = copy("call", &["id"], &columns)?;
    let services = "always, busy, no_answer, unreachable, no_answer_after, do_not_disturb";
    let services = copy("call_services", &["domain", "name"], services)?;
    let mut columns = "user, received, sender, content_type, body".to_owned();
    if damaged.prepare("SELECT proved FROM message").is_ok() {
        columns += ", proved";
    }
    let messages = copy("message", &["id"], &columns)?;
    for (table, key, rest) in panel_tables::COPIED {
        copy(table, &[key], rest)?;
    }
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
    log.warn("storage", || {
        let secret = if is_secret_lost { format!("; {LOST_SECRET}") } else { String::new() };
        format!(
            "the database {} was damaged ({reason}) and is now {}. A new one has what could be read: {users} users, \
             {registrations} registrations, {settings} settings, {services} call services, {messages} messages, {calls} records of calls{secret}. If users are missing, put a backup in its place or add \
             them again; phones register again by themselves",
            path.display(),
            kept.display(),
        )
    });
    Ok(())
}

/// Creates a copy of the damaged database at `path` that SQLite can open: the magic bytes are
/// restored, and a missing end is padded. The original stays unchanged, as SQLite writes to the
/// files that it opens.
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
        // The header, which a file that is cut may lack.
        copy.set_len(length.max(PAGE))?;
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

/// Removes the database at `path`, if it exists, with the additional files of SQLite.
fn remove(path: &Path) -> Result<(), Error> {
    for suffix in BESIDE.into_iter().chain([""]) {
        let path = with_suffix(path, suffix);
        absent(remove_file(&path)).map_err(of(&path))?;
    }
    Ok(())
}

/// The result of copying a table.
struct Copied {
    rows: u64,
    /// True if all rows were copied.
    is_whole: bool,
}

impl fmt::Display for Copied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", if self.is_whole { "all" } else { "only" }, self.rows)
    }
}

/// Copies the rows of `table`, with the columns `key` and `rest`, from both ends up to the damage.
///
/// # Errors
/// The rows cannot be stored. Unreadable rows are not an error.
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

/// Returns true if the error concerns the row only: a value of the wrong type, or invalid text.
fn is_about_the_row(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => {
            failure.code == rusqlite::ErrorCode::ConstraintViolation
        }
        _ => true,
    }
}

/// Renames the database at `fresh` to `path`. The one at `path` is kept under another name, which
/// is returned. A file exists at `path` at all times.
fn put_in_place(fresh: &Path, path: &Path) -> Result<PathBuf, Error> {
    let kept = damaged_name(path);
    // Otherwise SQLite would apply the files of the old database to the new one.
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

/// Treats a missing file as success.
pub(super) fn absent(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests;
