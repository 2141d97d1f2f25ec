//! Records of calls in the database.

use super::failure::to;
use super::tables::{CALLS_IMPORTED, get_setting, put_setting};
use super::{Error, Sqlite};
use crate::{CallFilter, CallRecords, Keep, StoredCall};
use rusqlite::{Connection, OptionalExtension, ToSql, params};
use sip::Instant;

/// The maximum number of records that are read at once. The database is locked meanwhile.
const PAGE: usize = 500;

impl CallRecords for Sqlite {
    fn put_calls(&self, calls: &[StoredCall]) -> Result<(), Error> {
        let mut database = self.database();
        let mut put = || {
            let transaction = database.transaction()?;
            calls.iter().try_for_each(|call| insert(&transaction, call))?;
            transaction.commit()?;
            // The cache would keep the pages of records, which are not read again, up to its limit.
            database.execute_batch("PRAGMA shrink_memory")
        };
        let result = put().map_err(to("store records of calls"));
        self.noting_damage(result)
    }

    fn import_calls(&self, calls: &mut dyn Iterator<Item = StoredCall>) -> Result<u64, Error> {
        let mut database = self.database();
        let transaction = database.transaction().map_err(to("import records of calls"))?;
        if get_setting(&transaction, CALLS_IMPORTED)?.is_some() {
            return Ok(0);
        }
        let mut count = 0;
        for call in calls {
            insert(&transaction, &call).map_err(to("import records of calls"))?;
            count += 1;
        }
        put_setting(&transaction, CALLS_IMPORTED, &[])?;
        transaction.commit().map_err(to("import records of calls"))?;
        Ok(count)
    }

    fn purge_calls(&self, keep: Keep, now: Instant) -> Result<(), Error> {
        let database = self.database();
        let oldest = now.as_micros().saturating_sub(keep.age.as_micros() as u64);
        let most = i64::try_from(keep.calls).unwrap_or(i64::MAX);
        // Only the lowest identifiers are deleted, so that the range of those present is their
        // number at most.
        let delete = || {
            database
                .prepare_cached("DELETE FROM call WHERE ended < ?1")?
                .execute([micros(Instant::from_micros(oldest))])?;
            database
                .prepare_cached("DELETE FROM call WHERE id <= (SELECT max(id) FROM call) - ?1")?
                .execute([most])
        };
        self.noting_damage(delete().map(drop).map_err(to("delete old records of calls")))
    }

    fn calls(
        &self,
        filter: &CallFilter,
        most: usize,
        each: &mut dyn FnMut(String) -> bool,
    ) -> Result<(), Error> {
        let mut last = None;
        let mut left = most;
        while left > 0 {
            // The rows are copied, so that a slow reader does not keep the database locked.
            let page = page(&self.database(), filter, last, left.min(PAGE))
                .map_err(to("read the records of calls"));
            let page = self.noting_damage(page)?;
            let Some(row) = page.last() else { break };
            last = Some(row.place);
            left -= page.len();
            for row in page {
                if !each(row.record) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn calls_after(&self, id: i64, most: usize) -> Result<Vec<(i64, StoredCall)>, Error> {
        let database = self.database();
        let read = || -> rusqlite::Result<Vec<_>> {
            let mut select = database.prepare_cached(
                "SELECT id, ended, caller, callee, led_to, number_of, failed, record FROM call
                 WHERE id > ?1 ORDER BY id LIMIT ?2",
            )?;
            let rows = select.query_map(params![id, most.min(PAGE) as i64], |row| {
                let ended = Instant::from_micros(row.get::<_, i64>(1)?.unsigned_abs());
                let parties = [row.get(2)?, row.get(3)?];
                let (led_to, number_of) = (row.get(4)?, row.get(5)?);
                let (is_failed, record) = (row.get(6)?, row.get(7)?);
                let call = StoredCall { ended, parties, led_to, number_of, is_failed, record };
                Ok((row.get(0)?, call))
            })?;
            rows.collect()
        };
        self.noting_damage(read().map_err(to("read the records of calls")))
    }

    fn call_page(
        &self,
        filter: &CallFilter,
        before: Option<i64>,
        most: usize,
    ) -> Result<Vec<(i64, String)>, Error> {
        let database = self.database();
        let read = || -> rusqlite::Result<Vec<(i64, String)>> {
            let last = before.map(|id| place_of(&database, id)).transpose()?;
            // The oldest records are deleted first: behind one that is gone there is none.
            if last == Some(None) {
                return Ok(Vec::new());
            }
            let rows = page(&database, filter, last.flatten(), most.min(PAGE))?;
            Ok(rows.into_iter().map(|row| (row.place.id, row.record)).collect())
        };
        self.noting_damage(read().map_err(to("read the records of calls")))
    }
}

/// Stores a record.
pub(super) fn insert(database: &Connection, call: &StoredCall) -> rusqlite::Result<()> {
    let [caller, callee] = &call.parties;
    database
        .prepare_cached(
            "INSERT INTO call (ended, caller, callee, failed, record, led_to, number_of)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            micros(call.ended),
            caller,
            callee,
            call.is_failed,
            call.record,
            call.led_to,
            call.number_of
        ])
        .map(drop)
}

/// The place of a record in the order of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    ended: i64,
    id: i64,
}

/// A record with its place.
struct Row {
    place: Place,
    record: String,
}

/// The place of the record `id`, if it is stored.
fn place_of(database: &Connection, id: i64) -> rusqlite::Result<Option<Place>> {
    database
        .prepare_cached("SELECT ended FROM call WHERE id = ?1")?
        .query_row([id], |row| Ok(Place { ended: row.get(0)?, id }))
        .optional()
}

/// The columns with the parties of a call.
const PARTIES: [&str; 4] = ["caller", "callee", "led_to", "number_of"];

/// The next `most` records that fit `filter`, behind `last`, by the time of their end. The time of
/// a query for a user with the domain, for failures or for all does not grow with the records that
/// are stored; that for a name in any domain grows with those that fit.
fn page(
    database: &Connection,
    filter: &CallFilter,
    last: Option<Place>,
    most: usize,
) -> rusqlite::Result<Vec<Row>> {
    let last = last.unwrap_or(Place { ended: i64::MAX, id: i64::MAX });
    let until = filter.until.map_or(i64::MAX, |until| micros(until) - 1).min(last.ended);
    let (since, most) = (filter.since.map_or(0, micros), most as i64);
    let mut values: Vec<(&str, &dyn ToSql)> = vec![
        (":last", &last.ended),
        (":before", &last.id),
        (":since", &since),
        (":until", &until),
        (":failed", &filter.is_failed),
        (":most", &most),
    ];
    let fits = "ended >= :since AND ended <= :until AND failed >= :failed
                AND (ended < :last OR id < :before)";
    let order = "ORDER BY ended DESC, id DESC LIMIT :most";
    let parts = |part: &dyn Fn(&str) -> String| {
        format!("call WHERE id IN ({})", PARTIES.map(part).join(" UNION "))
    };
    let (from, to);
    let found = match &filter.user {
        // Each index has the records of one user in order.
        Some(user) if user.contains('@') => {
            values.push((":user", user));
            parts(&|column| {
                format!(
                    "SELECT * FROM (SELECT id FROM call WHERE {column} = :user AND {fits} {order})"
                )
            })
        }
        // The names that begin with the user and `@`.
        Some(user) => {
            (from, to) = (format!("{user}@"), format!("{user}A"));
            values.push((":from", &from));
            values.push((":to", &to));
            parts(&|column| {
                format!("SELECT id FROM call WHERE {column} >= :from AND {column} < :to")
            })
        }
        None if filter.is_failed => "call INDEXED BY call_failed WHERE failed = 1".to_owned(),
        None => "call INDEXED BY call_ended WHERE TRUE".to_owned(),
    };
    let mut select = database
        .prepare_cached(&format!("SELECT ended, id, record FROM {found} AND {fits} {order}"))?;
    let row = |row: &rusqlite::Row<'_>| {
        Ok(Row { place: Place { ended: row.get(0)?, id: row.get(1)? }, record: row.get(2)? })
    };
    let rows = select.query_map(&values[..], row)?;
    rows.collect()
}

/// A time as it is stored.
pub(super) fn micros(time: Instant) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::tests::open;
    use std::time::Duration;

    fn call(ended: u64, caller: &str, callee: &str, is_failed: bool) -> StoredCall {
        let parties = [caller.to_owned(), callee.to_owned()];
        let ended = Instant::from_micros(ended * 1_000_000);
        let record = format!("{caller} {callee} {}", ended.as_secs());
        StoredCall { ended, parties, led_to: None, number_of: None, is_failed, record }
    }

    #[test]
    fn pages_are_by_the_end_of_calls_and_have_each_record_once() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        // Some end at the same time, and some are stored late.
        let ends = [5, 9, 9, 9, 7, 12, 12, 3];
        let calls = ends.map(|ended| call(ended, "a@x", "b@x", ended == 7));
        storage.put_calls(&calls).unwrap();
        for user in [None, Some("b"), Some("a@x")] {
            let filter = CallFilter { user: user.map(str::to_owned), ..CallFilter::default() };
            let (mut ids, mut before) = (Vec::new(), None);
            loop {
                let page = storage.call_page(&filter, before, 3).unwrap();
                ids.extend(page.iter().map(|(id, _)| *id));
                let Some((last, _)) = page.last() else { break };
                before = Some(*last);
            }
            assert_eq!(ids, [7, 6, 4, 3, 2, 5, 1, 8], "{user:?}");
        }
        let at = |seconds: u64| Some(Instant::from_micros(seconds * 1_000_000));
        let filter = CallFilter { since: at(5), until: at(9), ..CallFilter::default() };
        let page = storage.call_page(&filter, None, 9).unwrap();
        assert_eq!(page.iter().map(|row| row.0).collect::<Vec<_>>(), [5, 1]);
        assert!(storage.call_page(&filter, Some(99), 9).unwrap().is_empty());
    }

    fn found(storage: &Sqlite, filter: &CallFilter, most: usize) -> Vec<String> {
        let mut found = Vec::new();
        let mut each = |record| {
            found.push(record);
            true
        };
        storage.calls(filter, most, &mut each).unwrap();
        found
    }

    #[test]
    fn calls_are_found_by_party_time_and_failure() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        storage
            .put_calls(&[
                call(10, "a@h", "b@h", false),
                call(20, "b@h", "ab@h", true),
                call(30, "a@i", "c@h", true),
            ])
            .unwrap();
        let any = CallFilter::default();
        let of = |user: &str| CallFilter { user: Some(user.to_owned()), ..CallFilter::default() };
        let second = |second: u64| Some(Instant::from_micros(second * 1_000_000));
        let (first, next, last) = ("a@h b@h 10", "b@h ab@h 20", "a@i c@h 30");
        for (filter, expected) in [
            (any.clone(), &[last, next, first][..]),
            (of("a"), &[last, first]),
            (of("a@h"), &[first]),
            (of("b"), &[next, first]),
            (of("%"), &[]),
            (CallFilter { since: second(20), ..any.clone() }, &[last, next]),
            (CallFilter { until: second(20), ..any.clone() }, &[first]),
            (CallFilter { is_failed: true, ..any.clone() }, &[last, next]),
            (CallFilter { is_failed: true, ..of("b") }, &[next]),
        ] {
            assert_eq!(found(&storage, &filter, 9), expected, "{filter:?}");
        }
        assert_eq!(found(&storage, &any, 1), [last]);
        assert_eq!(found(&open(directory.path()), &any, 9).len(), 3);
    }

    #[test]
    fn pages_of_users_and_of_failures_are_read_by_an_index_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        let calls: Vec<_> = (0..3000)
            .map(|at| {
                let (caller, callee) = if at % 3 == 0 { ("a@h", "b@h") } else { ("b@h", "c@h") };
                call(at / 2, caller, callee, at % 1000 == 0)
            })
            .collect();
        storage.put_calls(&calls).unwrap();
        for (user, failed) in [(Some("a@h"), false), (Some("b@h"), false), (None, true)] {
            let filter = CallFilter {
                user: user.map(str::to_owned),
                is_failed: failed,
                ..CallFilter::default()
            };
            let is_of = |call: &&StoredCall| {
                user.is_none_or(|user| call.parties.iter().any(|party| party == user))
                    && (!failed || call.is_failed)
            };
            let expected: Vec<_> =
                calls.iter().filter(is_of).rev().map(|call| call.record.clone()).collect();
            assert_eq!(found(&storage, &filter, usize::MAX), expected, "{user:?}");
        }
        // No sort of all records of a user, and no scan.
        let database = storage.database();
        for column in PARTIES {
            let plan = format!(
                "EXPLAIN QUERY PLAN SELECT id FROM call WHERE {column} = 'a@h' AND ended >= 0
                 AND ended <= 9 AND failed >= 0 ORDER BY ended DESC, id DESC LIMIT 9"
            );
            let mut select = database.prepare(&plan).unwrap();
            let steps = select.query_map([], |row| row.get::<_, String>(3)).unwrap();
            let steps: Vec<_> = steps.map(Result::unwrap).collect();
            assert!(steps.len() == 1 && steps[0].contains("USING INDEX call_"), "{steps:?}");
        }
    }

    #[test]
    fn a_call_is_found_by_the_user_that_it_was_led_to_and_by_the_owner_of_its_number() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        let by_number = StoredCall {
            led_to: Some("carol@h".to_owned()),
            number_of: Some("sales@h".to_owned()),
            ..call(10, "a@h", "50@h", false)
        };
        storage.put_calls(&[by_number.clone(), call(20, "a@h", "b@h", false)]).unwrap();
        for user in ["carol", "carol@h", "sales@h", "50"] {
            let filter = CallFilter { user: Some(user.to_owned()), ..CallFilter::default() };
            assert_eq!(found(&storage, &filter, 9), [&*by_number.record], "{user}");
        }
    }

    #[test]
    fn more_records_than_a_page_come_once_each_and_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        let count = PAGE as u64 * 2 + 1;
        let calls: Vec<_> = (0..count).map(|ended| call(ended, "a@h", "b@h", false)).collect();
        storage.put_calls(&calls).unwrap();
        let expected: Vec<_> = calls.iter().rev().map(|call| call.record.clone()).collect();
        assert_eq!(found(&storage, &CallFilter::default(), usize::MAX), expected);
        let filter = CallFilter { user: Some("b".to_owned()), ..CallFilter::default() };
        assert_eq!(found(&storage, &filter, PAGE + 1), expected[..=PAGE]);
    }

    #[test]
    fn records_are_read_from_an_identifier_on() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        let calls: Vec<_> = (0..5).map(|at| call(9 - at, "a@h", "b@h", at == 2)).collect();
        storage.put_calls(&calls).unwrap();
        let after = |id, most| storage.calls_after(id, most).unwrap();
        assert_eq!(after(0, 2), [(1, calls[0].clone()), (2, calls[1].clone())]);
        assert_eq!(after(4, 9), [(5, calls[4].clone())]);
        assert_eq!(after(5, 9), []);
        let none = Keep { age: Duration::ZERO, calls: 0 };
        storage.purge_calls(none, Instant::from_micros(99_000_000)).unwrap();
        storage.put_calls(&calls[..1]).unwrap();
        assert_eq!(after(0, 9), [(6, calls[0].clone())], "identifiers are not used again");
    }

    #[test]
    fn old_records_and_those_over_the_number_are_deleted() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        let calls: Vec<_> = (0..10).map(|ended| call(ended, "a@h", "b@h", false)).collect();
        storage.put_calls(&calls).unwrap();
        let now = Instant::from_micros(10_000_000);
        let left = || found(&storage, &CallFilter::default(), 99).len();
        let keep = |age, calls| Keep { age: Duration::from_secs(age), calls };
        storage.purge_calls(keep(100, 100), now).unwrap();
        assert_eq!(left(), 10);
        storage.purge_calls(keep(4, 100), now).unwrap();
        assert_eq!(left(), 4);
        storage.purge_calls(keep(100, 3), now).unwrap();
        assert_eq!(left(), 3);
        storage.purge_calls(keep(u64::MAX, u64::MAX), now).unwrap();
        assert_eq!(left(), 3);
    }

    #[test]
    fn an_import_happens_once() {
        let directory = tempfile::tempdir().unwrap();
        let calls = [call(1, "a@h", "b@h", false), call(2, "a@h", "b@h", false)];
        assert_eq!(open(directory.path()).import_calls(&mut calls.clone().into_iter()).unwrap(), 2);
        let storage = open(directory.path());
        assert_eq!(storage.import_calls(&mut calls.into_iter()).unwrap(), 0);
        assert_eq!(found(&storage, &CallFilter::default(), 9).len(), 2);
    }
}
