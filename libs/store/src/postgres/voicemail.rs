//! A copy of the state of voice messages, in a table of its own.

use super::AccountsPlace;
use super::calls::REPLACEMENT;
use super::client::Client;
use super::error::AccountsError;
use crate::VoiceMessage;
use std::collections::HashMap;
use std::fmt;
use tokio_postgres::types::ToSql;

/// The table. Servers that share a database have rows of their own.
const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS barebell_voicemail (
        server text NOT NULL,
        mailbox text NOT NULL,
        id bigint NOT NULL,
        caller text NOT NULL,
        proved boolean NOT NULL,
        ended timestamptz NOT NULL,
        duration interval NOT NULL,
        heard boolean NOT NULL,
        PRIMARY KEY (server, mailbox, id)
    );
    CREATE INDEX IF NOT EXISTS barebell_voicemail_mailbox ON barebell_voicemail (mailbox);";

const PUT: &str = "
    INSERT INTO barebell_voicemail (server, mailbox, id, caller, proved, ended, duration, heard)
    SELECT $1::text, v.mailbox, v.id, v.caller, v.proved,
        'epoch'::timestamptz + v.ended * interval '1 microsecond',
        v.duration * interval '1 microsecond', v.heard
    FROM unnest($2::text[], $3::bigint[], $4::text[], $5::boolean[], $6::bigint[], $7::bigint[],
        $8::boolean[]) AS v (mailbox, id, caller, proved, ended, duration, heard)
    ON CONFLICT (server, mailbox, id) DO UPDATE SET heard = EXCLUDED.heard";

const REMOVE: &str = "
    DELETE FROM barebell_voicemail AS t USING unnest($2::text[], $3::bigint[]) AS v (mailbox, id)
    WHERE t.server = $1 AND t.mailbox = v.mailbox AND t.id = v.id";

const ALL: &str = "SELECT mailbox, id, heard FROM barebell_voicemail WHERE server = $1";

/// A connection to the database with the copy of the state of voice messages.
pub struct VoicemailCopy {
    client: Client,
    /// The name of the server in the rows.
    server: String,
}

impl fmt::Debug for VoicemailCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VoicemailCopy").field("server", &self.server).finish_non_exhaustive()
    }
}

impl VoicemailCopy {
    /// Connects to the database at `place`, and creates the table if it is missing. `server`
    /// distinguishes the messages of this server from those of others.
    ///
    /// # Errors
    /// [`AccountsError`]: there is no such database, or the role may not create the table.
    pub fn connect(place: &AccountsPlace, server: &str) -> Result<Self, AccountsError> {
        let client = place.connect_to_table(("barebell_voicemail", "heard"), TABLE)?;
        Ok(Self { client, server: server.to_owned() })
    }

    /// The messages in the copy, by mailbox: the identifier of each, and true if it was heard.
    ///
    /// # Errors
    /// [`AccountsError`] if the database fails.
    pub fn all(&mut self) -> Result<HashMap<String, HashMap<i64, bool>>, AccountsError> {
        let mut all: HashMap<String, HashMap<i64, bool>> = HashMap::new();
        for row in self.client.query(ALL, &[&self.server])? {
            let mailbox = all.entry(row.try_get(0)?).or_default();
            mailbox.insert(row.try_get(1)?, row.try_get(2)?);
        }
        Ok(all)
    }

    /// Removes the messages of `removed`, which are mailboxes with identifiers, and adds or changes
    /// those of `put`, in one transaction.
    ///
    /// # Errors
    /// [`AccountsError`] if the database fails. Then no message is changed for certain, and the
    /// connection is of no use any more.
    pub fn change(
        &mut self,
        removed: &[(String, i64)],
        put: &[VoiceMessage],
    ) -> Result<(), AccountsError> {
        self.client.batch_execute("BEGIN")?;
        let (mailboxes, ids): (Vec<&str>, Vec<i64>) =
            removed.iter().map(|(mailbox, id)| (mailbox.as_str(), *id)).unzip();
        let values: [&(dyn ToSql + Sync); 3] = [&self.server, &mailboxes, &ids];
        self.client.execute(REMOVE, &values)?;
        let mailboxes: Vec<&str> = put.iter().map(|it| it.mailbox.as_str()).collect();
        let ids: Vec<i64> = put.iter().map(|it| it.id).collect();
        let callers: Vec<String> =
            put.iter().map(|it| it.caller.replace('\0', REPLACEMENT)).collect();
        let proved: Vec<bool> = put.iter().map(|it| it.is_proved).collect();
        let ends: Vec<i64> = put.iter().map(|it| it.ended.as_micros().cast_signed()).collect();
        let durations: Vec<i64> =
            put.iter().map(|it| i64::try_from(it.duration.as_micros()).unwrap_or(0)).collect();
        let heard: Vec<bool> = put.iter().map(|it| it.is_heard).collect();
        let values: [&(dyn ToSql + Sync); 8] =
            [&self.server, &mailboxes, &ids, &callers, &proved, &ends, &durations, &heard];
        self.client.execute(PUT, &values)?;
        self.client.batch_execute("COMMIT")
    }
}
