//! Kept messages in the database.

use super::failure::to;
use super::{Error, Sqlite};
use crate::{KeptMessage, KeptMessages, MessageLimits, Oldest};
use rusqlite::{OptionalExtension, params};
use sip::Instant;

impl KeptMessages for Sqlite {
    fn keep_message(
        &self,
        user: &str,
        message: &KeptMessage,
        limits: MessageLimits,
    ) -> Result<bool, Error> {
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let KeptMessage { received, sender, content_type, body, is_proved } = message;
        let of_unproved = limits.of_unproved();
        let database = self.database();
        let keep = || {
            database
                .prepare_cached(
                    "INSERT INTO message (user, received, sender, content_type, body, proved) \
                     SELECT ?1, ?2, ?3, ?4, ?5, ?6 \
                     WHERE (SELECT count(*) FROM message WHERE user = ?1) < ?7 \
                     AND (SELECT count(*) FROM message) < ?8 \
                     AND (?6 \
                     OR (SELECT count(*) FROM message WHERE user = ?1 AND proved = 0) < ?9 \
                     AND (SELECT count(*) FROM message WHERE proved = 0) < ?10)",
                )?
                .execute(params![
                    user,
                    micros(*received),
                    sender,
                    content_type,
                    body,
                    is_proved,
                    number(limits.of_user),
                    number(limits.all),
                    number(of_unproved.of_user),
                    number(of_unproved.all)
                ])
        };
        keep().map(|rows| rows > 0).map_err(to("keep a message"))
    }

    fn oldest_message(&self, user: &str) -> Result<Oldest, Error> {
        let database = self.database();
        let read = || {
            database
                .prepare_cached(
                    "SELECT id, received, sender, content_type, body, proved FROM message \
                     WHERE user = ?1 ORDER BY id LIMIT 1",
                )?
                .query_row([user], |row| {
                    let received: i64 = row.get(1)?;
                    let received = Instant::from_micros(received.unsigned_abs());
                    let (sender, content_type, body) = (row.get(2)?, row.get(3)?, row.get(4)?);
                    let is_proved = row.get(5)?;
                    let message = KeptMessage { received, sender, content_type, body, is_proved };
                    Ok(Oldest::Message { id: row.get(0)?, message })
                })
                .optional()
        };
        let found = read().map_err(to("read a kept message"))?;
        Ok(found.unwrap_or(Oldest::None))
    }

    fn delete_message(&self, id: i64) -> Result<(), Error> {
        let database = self.database();
        let delete = || database.prepare_cached("DELETE FROM message WHERE id = ?1")?.execute([id]);
        delete().map(drop).map_err(to("delete a kept message"))
    }

    fn purge_messages(&self, time: Instant) -> Result<u64, Error> {
        let database = self.database();
        let delete = || {
            database
                .prepare_cached("DELETE FROM message WHERE received < ?1")?
                .execute([micros(time)])
        };
        delete().map(|rows| rows as u64).map_err(to("delete old kept messages"))
    }

    fn users_with_messages(&self) -> Result<Vec<String>, Error> {
        let database = self.database();
        let read = || {
            let mut statement = database.prepare("SELECT DISTINCT user FROM message")?;
            let rows = statement.query_map([], |row| row.get(0))?;
            rows.collect::<rusqlite::Result<Vec<String>>>()
        };
        read().map_err(to("read the users with kept messages"))
    }
}

fn micros(time: Instant) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::tests::open;

    fn message(second: u64, body: &str) -> KeptMessage {
        KeptMessage {
            received: Instant::from_micros(second * 1_000_000),
            sender: b"<sip:alice@example.com>".to_vec(),
            content_type: b"text/plain".to_vec(),
            body: body.into(),
            is_proved: true,
        }
    }

    #[test]
    fn unproved_messages_get_a_quarter_of_the_limits() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        let limits = MessageLimits { of_user: 8, all: 12 };
        let keep = |user: &str, is_proved| {
            let message = KeptMessage { is_proved, ..message(1, "x") };
            storage.keep_message(user, &message, limits).unwrap()
        };
        assert_eq!([(); 3].map(|()| keep("bob@a", false)), [true, true, false], "of the user");
        assert_eq!([(); 2].map(|()| keep("carol@a", false)), [true, false], "in all");
        assert_eq!(
            [(); 7].map(|()| keep("bob@a", true)),
            [true, true, true, true, true, true, false]
        );
        assert_eq!([(); 4].map(|()| keep("dave@a", true)), [true, true, true, false]);
        let Oldest::Message { id, message } = storage.oldest_message("bob@a").unwrap() else {
            panic!("no message")
        };
        assert!(!message.is_proved);
        storage.delete_message(id).unwrap();
        assert!(keep("carol@a", false), "there is room again");
        assert_eq!(MessageLimits { of_user: 1, all: u64::MAX }.of_unproved().of_user, 1);
    }

    #[test]
    fn messages_come_back_in_order_within_limits() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        let limits = MessageLimits { of_user: 2, all: 3 };
        let keep = |user: &str, second, body: &str| {
            storage.keep_message(user, &message(second, body), limits).unwrap()
        };
        assert!(keep("bob@a", 1, "one") && keep("bob@a", 2, "two"));
        assert!(!keep("bob@a", 3, "three"), "the limit of the user");
        assert!(keep("carol@a", 4, "four"));
        assert!(!keep("dave@a", 5, "five"), "the limit in all");
        drop(storage);
        let storage = open(directory.path());
        let mut users = storage.users_with_messages().unwrap();
        users.sort();
        assert_eq!(users, ["bob@a", "carol@a"]);
        let oldest = || storage.oldest_message("bob@a").unwrap();
        let Oldest::Message { id, message: first } = oldest() else { panic!("no message") };
        assert_eq!(first, message(1, "one"));
        storage.delete_message(id).unwrap();
        assert!(matches!(oldest(), Oldest::Message { message: it, .. } if it == message(2, "two")));
        assert_eq!(storage.purge_messages(Instant::from_micros(3_000_000)).unwrap(), 1);
        assert_eq!(oldest(), Oldest::None);
        assert_eq!(storage.users_with_messages().unwrap(), ["carol@a"]);
    }
}
