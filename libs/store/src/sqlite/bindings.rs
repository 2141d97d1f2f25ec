//! Registrations in the database: the latest record of each address-of-record.

use super::checkpoints::JournalFiles;
use super::failure::{of, to};
use super::journal::{self, Damaged, Frames};
use super::tables::{DATABASE, get_setting, put_setting};
use super::{Error, Sqlite};
use crate::{Journal, Registrations, Restored, Sync};
use net::wall_clock;
use rusqlite::{Connection, params};
use sip::Instant;
use sip_server::journal_record::{self as record, Merged, Record};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// The key of the setting for [`Sqlite::last_journal`].
const LAST_JOURNAL: &str = "last_journal";

impl Registrations for Sqlite {
    fn restore(&self, now: Instant, each: &mut dyn FnMut(Record<'_>)) -> Result<Restored, Error> {
        let database = self.database();
        let mut restored = Restored::default();
        let mut damaged = 0_u64;
        let mut read = || -> rusqlite::Result<()> {
            let highest: i64 = database.query_row(
                "SELECT coalesce(max(sequence), 0) FROM binding",
                [],
                |row| row.get(0),
            )?;
            restored.sequence = highest.cast_unsigned();
            let mut select = database
                .prepare("SELECT record FROM binding WHERE emptied IS NULL AND expires > ?1")?;
            let mut rows = select.query([seconds(now)])?;
            while let Some(row) = rows.next()? {
                for record in record::read(row.get_ref(0)?.as_blob()?) {
                    match record {
                        Ok(record) => {
                            restored.addresses_of_record += 1;
                            each(record);
                        }
                        Err(_) => damaged += 1,
                    }
                }
            }
            Ok(())
        };
        read().map_err(to("read the registrations"))?;
        if damaged > 0 {
            self.log.warn("storage", || {
                format!(
                    "{damaged} registrations in {} are damaged and left out: those phones are not reached until they register \
                     again",
                    self.path().join(DATABASE).display()
                )
            });
        }
        Ok(restored)
    }

    fn forget_registrations(&self) -> Result<(), Error> {
        let forgotten = self.database().execute("DELETE FROM binding", []);
        forgotten.map(drop).map_err(to("forget the registrations"))
    }

    fn journal(self: Arc<Self>, sync: Sync, workers: usize) -> Result<Box<dyn Journal>, Error> {
        Ok(Box::new(JournalFiles::start(self, sync, workers)?))
    }
}

impl Sqlite {
    /// Stores the records of the journal `files`, which are all files except those being written,
    /// in one transaction. Storing a file twice changes nothing. Returns the files that could not
    /// be read completely.
    ///
    /// # Errors
    /// [`Error`] if a file cannot be opened or the database fails. Then nothing has changed.
    pub(super) fn fold(&self, files: &[PathBuf]) -> Result<Vec<Damaged>, Error> {
        let numbered = || files.iter().filter_map(|path| Some((path, journal::number(path)?)));
        let (Some((_, first)), Some((_, last))) = (numbered().next(), numbered().next_back())
        else {
            return Ok(Vec::new());
        };
        let mut changed: BTreeMap<Vec<u8>, Merged> = BTreeMap::new();
        let mut damaged = Vec::new();
        for (path, number) in numbered() {
            let mut frames = Frames::open(path).map_err(of(path))?;
            let mut lost = 0;
            while let Some(payload) = frames.next() {
                let mut read = 0;
                for record in record::read(payload).map_while(Result::ok) {
                    match changed.get_mut(record.address_of_record) {
                        Some(merged) => merged.take_in(&record, number),
                        None => {
                            let mut merged = Merged::default();
                            merged.take_in(&record, number);
                            changed.insert(record.address_of_record.to_vec(), merged);
                        }
                    }
                    read += record.bytes.len();
                }
                lost += (payload.len() - read) as u64;
            }
            lost += frames.ignored();
            if lost > 0 {
                damaged.push(Damaged { path: path.clone(), lost });
            }
        }
        let mut database = self.database();
        let transaction = database.transaction().map_err(to("start a checkpoint"))?;
        // A file of the generation before the oldest of these may have been appended to after the
        // end of that generation.
        let oldest = first.saturating_sub(1);
        for (address_of_record, merged) in changed {
            put(&transaction, &address_of_record, merged, oldest)
                .map_err(to("store registrations"))?;
        }
        put_setting(&transaction, LAST_JOURNAL, &last.to_le_bytes())?;
        // Workers may append records in another order than that of the sequence numbers. So the
        // generation after the one that removed the last binding may still contain an older record.
        // The files of that generation are deleted if its number is below `first`.
        transaction
            .execute(
                "DELETE FROM binding WHERE emptied IS NOT NULL AND emptied + 1 < ?1",
                [first.cast_signed()],
            )
            .and_then(|_| transaction.commit())
            .map_err(to("end a checkpoint"))?;
        Ok(damaged)
    }

    /// The number of the last generation of journal files stored in the database.
    ///
    /// # Errors
    /// [`Error`] if the database fails.
    pub(super) fn last_journal(&self) -> Result<u64, Error> {
        let stored = get_setting(&self.database(), LAST_JOURNAL)?;
        Ok(stored.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes))
    }

    /// Deletes the registrations that expired before `now`.
    ///
    /// # Errors
    /// [`Error`] if the database fails.
    pub(super) fn purge(&self, now: Instant) -> Result<(), Error> {
        self.database()
            .execute("DELETE FROM binding WHERE emptied IS NULL AND expires <= ?1", [seconds(now)])
            .map(drop)
            .map_err(to("forget expired registrations"))
    }
}

/// Stores what has `changed` in an address-of-record, merged with the stored record. Removals in
/// generations of journal files before `oldest` are forgotten.
fn put(
    database: &Connection,
    address_of_record: &[u8],
    mut changed: Merged,
    oldest: u64,
) -> rusqlite::Result<()> {
    let mut select = database
        .prepare_cached("SELECT record, emptied FROM binding WHERE address_of_record = ?1")?;
    let mut rows = select.query([address_of_record])?;
    if let Some(row) = rows.next()? {
        let emptied: Option<i64> = row.get(1)?;
        for known in record::read(row.get_ref(0)?.as_blob()?).map_while(Result::ok) {
            changed.take_in(&known, emptied.unwrap_or_default().cast_unsigned());
        }
    }
    changed.forget(wall_clock(), oldest);
    let expires = changed.expires();
    let emptied = expires.is_none().then(|| changed.removed_in().cast_signed());
    let mut bytes = Vec::new();
    changed.write(&mut bytes, address_of_record);
    database
        .prepare_cached(
            "INSERT INTO binding VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (address_of_record) DO UPDATE SET
                 sequence = excluded.sequence,
                 expires = excluded.expires,
                 emptied = excluded.emptied,
                 record = excluded.record",
        )?
        .execute(params![
            address_of_record,
            changed.sequence().cast_signed(),
            expires.map_or(0, seconds),
            emptied,
            bytes
        ])
        .map(drop)
}

fn seconds(time: Instant) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}
