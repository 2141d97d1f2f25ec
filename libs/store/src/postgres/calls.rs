//! A copy of the records of calls, in a table of its own.

use super::AccountsPlace;
use super::client::Client;
use super::error::AccountsError;
use crate::StoredCall;
use std::fmt;
use tokio_postgres::types::ToSql;

/// The table. Servers that share a database have rows of their own.
const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS barebell_call (
        server text NOT NULL,
        id bigint NOT NULL,
        ended timestamptz NOT NULL,
        caller text NOT NULL,
        callee text NOT NULL,
        failed boolean NOT NULL,
        record jsonb NOT NULL,
        PRIMARY KEY (server, id)
    );
    CREATE INDEX IF NOT EXISTS barebell_call_ended ON barebell_call (ended);
    CREATE INDEX IF NOT EXISTS barebell_call_caller ON barebell_call (caller, ended);
    CREATE INDEX IF NOT EXISTS barebell_call_callee ON barebell_call (callee, ended);";

/// Existing rows are those of a transaction with an unknown result.
const INSERT: &str = "
    INSERT INTO barebell_call (server, id, ended, caller, callee, failed, record)
    SELECT $1::text, v.id, 'epoch'::timestamptz + v.ended * interval '1 microsecond',
        v.caller, v.callee, v.failed, v.record::jsonb
    FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::boolean[], $7::text[])
        AS v (id, ended, caller, callee, failed, record)
    ON CONFLICT DO NOTHING";

/// A connection to the database with the copy of the records.
pub struct CallsCopy {
    client: Client,
    /// The name of the server in the rows.
    server: String,
}

impl fmt::Debug for CallsCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallsCopy").field("server", &self.server).finish_non_exhaustive()
    }
}

impl CallsCopy {
    /// Connects to the database at `place`, and creates the table if it is missing. `server`
    /// distinguishes the records of this server from those of others.
    ///
    /// # Errors
    /// [`AccountsError`]: there is no such database, or the role may not create the table.
    pub fn connect(place: &AccountsPlace, server: &str) -> Result<Self, AccountsError> {
        let client = place.connect_to_table(("barebell_call", "record"), TABLE)?;
        Ok(Self { client, server: server.to_owned() })
    }

    /// The identifier of the last record in the copy. `None` if the copy is empty.
    ///
    /// # Errors
    /// [`AccountsError`] if the database fails.
    pub fn last(&mut self) -> Result<Option<i64>, AccountsError> {
        let query = "SELECT max(id) FROM barebell_call WHERE server = $1";
        Ok(self.client.query_one(query, &[&self.server])?.try_get(0)?)
    }

    /// Copies `calls`, each with its identifier. Returns the number of those that the database
    /// refuses for their content. When this returns, the others survive a power loss.
    ///
    /// # Errors
    /// [`AccountsError`] if the database fails. Then no call is copied for certain.
    pub fn put(&mut self, calls: &[(i64, StoredCall)]) -> Result<u64, AccountsError> {
        match self.insert(calls) {
            Err(error) if is_of_content(&error) => {}
            result => return result.map(|()| 0),
        }
        let mut refused = 0;
        for call in calls {
            match self.insert(std::slice::from_ref(call)) {
                Err(error) if is_of_content(&error) => refused += 1,
                result => result?,
            }
        }
        Ok(refused)
    }

    fn insert(&mut self, calls: &[(i64, StoredCall)]) -> Result<(), AccountsError> {
        let ids: Vec<i64> = calls.iter().map(|(id, _)| *id).collect();
        let ends: Vec<i64> =
            calls.iter().map(|(_, call)| call.ended.as_micros().cast_signed()).collect();
        let party = |at: usize| -> Vec<String> {
            calls.iter().map(|(_, call)| call.parties[at].replace('\0', REPLACEMENT)).collect()
        };
        let [callers, callees] = [party(0), party(1)];
        let failed: Vec<bool> = calls.iter().map(|(_, call)| call.is_failed).collect();
        let record = |(_, call): &(i64, StoredCall)| call.record.replace("\\u0000", REPLACEMENT);
        let records: Vec<String> = calls.iter().map(record).collect();
        let values: [&(dyn ToSql + Sync); 7] =
            [&self.server, &ids, &ends, &callers, &callees, &failed, &records];
        self.client.execute(INSERT, &values).map(drop)
    }
}

/// The replacement for the character NUL, which PostgreSQL stores in no text.
pub(super) const REPLACEMENT: &str = "\u{fffd}";

/// True if the database refuses the values of a row, which a further attempt would not change: a
/// data exception, or the violation of a constraint.
fn is_of_content(error: &AccountsError) -> bool {
    let AccountsError::Database(error) = error else { return false };
    error.code().is_some_and(|code| ["22", "23"].iter().any(|class| code.code().starts_with(class)))
}
