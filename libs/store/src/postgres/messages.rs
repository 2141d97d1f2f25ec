//! Kept messages in a table of their own.

use super::AccountsPlace;
use super::client::Client;
use super::error::{AccountsError, to};
use crate::{Error, KeptMessage, KeptMessages, MessageLimits, Oldest};
use parking_lot::Mutex;
use sip::Instant;
use std::fmt;

/// The table. Servers that share a database share the messages, too, and claim each before they
/// deliver it. The index finds a message that is stored again, after an attempt with an unknown
/// result.
const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS barebell_message (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        account text NOT NULL,
        received timestamptz NOT NULL,
        sender bytea NOT NULL,
        content_type bytea NOT NULL,
        body bytea NOT NULL
    );
    ALTER TABLE barebell_message ADD COLUMN IF NOT EXISTS claimed_by text,
        ADD COLUMN IF NOT EXISTS claimed_until timestamptz,
        ADD COLUMN IF NOT EXISTS proved boolean NOT NULL DEFAULT true;
    CREATE INDEX IF NOT EXISTS barebell_message_account ON barebell_message (account, id);
    CREATE INDEX IF NOT EXISTS barebell_message_received ON barebell_message (received);
    CREATE UNIQUE INDEX IF NOT EXISTS barebell_message_once
        ON barebell_message (account, received, md5(sender || body));
    CREATE INDEX IF NOT EXISTS barebell_message_unproved
        ON barebell_message (account) WHERE NOT proved;";

/// The update of a row that is there has no effect, but it counts as one.
const INSERT: &str = "
    INSERT INTO barebell_message (account, received, sender, content_type, body, proved)
    SELECT $1::text, 'epoch'::timestamptz + $2::bigint * interval '1 microsecond',
        $3::bytea, $4::bytea, $5::bytea, $6::boolean
    WHERE (SELECT count(*) FROM barebell_message WHERE account = $1) < $7::bigint
    AND (SELECT count(*) FROM barebell_message) < $8::bigint
    AND ($6 OR (SELECT count(*) FROM barebell_message WHERE account = $1 AND NOT proved)
        < $9::bigint
    AND (SELECT count(*) FROM barebell_message WHERE NOT proved) < $10::bigint)
    ON CONFLICT (account, received, md5(sender || body))
    DO UPDATE SET received = EXCLUDED.received";

/// Claims the oldest message of a user, unless another server has done so. Of two servers at the
/// same moment the second one waits for the change of the row, and finds the claim in it. The time
/// is longer than the keeper waits for the response to a delivery.
const OLDEST: &str = "
    WITH oldest AS (
        SELECT id FROM barebell_message WHERE account = $1 ORDER BY id LIMIT 1
    ), claimed AS (
        UPDATE barebell_message AS t
        SET claimed_by = $2, claimed_until = clock_timestamp() + interval '2 minutes'
        FROM oldest WHERE t.id = oldest.id
        AND (t.claimed_by IS NULL OR t.claimed_by = $2 OR t.claimed_until < clock_timestamp())
        RETURNING t.id, t.received, t.sender, t.content_type, t.body, t.proved
    )
    SELECT claimed.id, (extract(epoch FROM claimed.received) * 1000000)::bigint,
        claimed.sender, claimed.content_type, claimed.body, claimed.proved
    FROM oldest LEFT JOIN claimed USING (id)";

const DELETE: &str = "DELETE FROM barebell_message WHERE id = $1";

const PURGE: &str = "
    DELETE FROM barebell_message
    WHERE received < 'epoch'::timestamptz + $1::bigint * interval '1 microsecond'";

const USERS: &str = "SELECT DISTINCT account FROM barebell_message";

/// The kept messages of a database of accounts. It connects when it is used, and connects again
/// after an error.
pub struct MessageTable {
    place: AccountsPlace,
    /// The name of the server in claims.
    server: String,
    client: Mutex<Option<Client>>,
}

impl fmt::Debug for MessageTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageTable").field("place", &self.place.to_string()).finish()
    }
}

impl MessageTable {
    /// The messages of the database at `place`. `server` distinguishes this server from others that
    /// deliver messages of the same table.
    #[must_use]
    pub const fn new(place: AccountsPlace, server: String) -> Self {
        Self { place, server, client: Mutex::new(None) }
    }

    /// Passes a connection to `ask`. After an error the connection is closed.
    fn with<T>(
        &self,
        doing: &'static str,
        ask: impl FnOnce(&mut Client) -> Result<T, AccountsError>,
    ) -> Result<T, Error> {
        let mut kept = self.client.lock();
        let mut client = match kept.take() {
            Some(client) => client,
            None => {
                let place = ("barebell_message", "proved");
                self.place.connect_to_table(place, TABLE).map_err(to(doing))?
            }
        };
        let done = ask(&mut client).map_err(to(doing))?;
        *kept = Some(client);
        Ok(done)
    }
}

impl KeptMessages for MessageTable {
    /// A message that is already there is not stored again.
    fn keep_message(
        &self,
        user: &str,
        message: &KeptMessage,
        limits: MessageLimits,
    ) -> Result<bool, Error> {
        let KeptMessage { received, sender, content_type, body, is_proved } = message;
        let number = |limit| i64::try_from(limit).unwrap_or(i64::MAX);
        let of = |limits: MessageLimits| [number(limits.of_user), number(limits.all)];
        let ([of_user, all], [of_unproved, unproved]) = (of(limits), of(limits.of_unproved()));
        let received = micros(*received);
        let rows = self.with("keep a message", |client| {
            client.execute(
                INSERT,
                &[
                    &user,
                    &received,
                    sender,
                    content_type,
                    body,
                    is_proved,
                    &of_user,
                    &all,
                    &of_unproved,
                    &unproved,
                ],
            )
        })?;
        Ok(rows > 0)
    }

    fn oldest_message(&self, user: &str) -> Result<Oldest, Error> {
        self.with("read a kept message", |client| {
            let Some(row) = client.query_opt(OLDEST, &[&user, &self.server])? else {
                return Ok(Oldest::None);
            };
            let Some(id) = row.try_get(0)? else { return Ok(Oldest::Claimed) };
            let received: i64 = row.try_get(1)?;
            let received = Instant::from_micros(received.unsigned_abs());
            let (sender, content_type, body) = (row.try_get(2)?, row.try_get(3)?, row.try_get(4)?);
            let is_proved = row.try_get(5)?;
            let message = KeptMessage { received, sender, content_type, body, is_proved };
            Ok(Oldest::Message { id, message })
        })
    }

    fn delete_message(&self, id: i64) -> Result<(), Error> {
        self.with("delete a kept message", |client| client.execute(DELETE, &[&id])).map(drop)
    }

    fn purge_messages(&self, time: Instant) -> Result<u64, Error> {
        let time = micros(time);
        self.with("delete old kept messages", |client| client.execute(PURGE, &[&time]))
    }

    fn users_with_messages(&self) -> Result<Vec<String>, Error> {
        self.with("read the users with kept messages", |client| {
            client.query(USERS, &[])?.iter().map(|row| Ok(row.try_get(0)?)).collect()
        })
    }
}

fn micros(time: Instant) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}
