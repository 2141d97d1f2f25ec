//! The changes of the table, by a trigger that notifies.

use super::client::Client;
use super::error::AccountsError;
use std::time::Duration;
use tokio_postgres::Notification;
use tokio_postgres::error::SqlState;

/// The channel of the notifications. The payload is `name@domain`, or empty for a change of the
/// whole table.
const CHANNEL: &str = "barebell_accounts";

/// The pause after which a silent connection is tried.
const TRY_AFTER: &str = "SELECT 1";

/// The table may be in use. The triggers are created by the next attempt then.
const LOCK_TIMEOUT: &str = "BEGIN; SET LOCAL lock_timeout = '5s'";

/// The function and the triggers. Their names belong to this program.
fn definition(table: &str) -> String {
    format!(
        "CREATE OR REPLACE FUNCTION barebell_account_changed() RETURNS trigger AS $$
         BEGIN
             IF TG_OP <> 'INSERT' THEN
                 PERFORM pg_notify('{CHANNEL}', left(OLD.username || '@' || OLD.domain, 7000));
             END IF;
             IF TG_OP <> 'DELETE' THEN
                 PERFORM pg_notify('{CHANNEL}', left(NEW.username || '@' || NEW.domain, 7000));
             END IF;
             RETURN NULL;
         END $$ LANGUAGE plpgsql;
         CREATE OR REPLACE FUNCTION barebell_accounts_truncated() RETURNS trigger AS $$
         BEGIN
             PERFORM pg_notify('{CHANNEL}', '');
             RETURN NULL;
         END $$ LANGUAGE plpgsql;
         CREATE OR REPLACE TRIGGER barebell_account_changed
             AFTER INSERT OR UPDATE OR DELETE ON {table}
             FOR EACH ROW EXECUTE FUNCTION barebell_account_changed();
         CREATE OR REPLACE TRIGGER barebell_accounts_truncated
             AFTER TRUNCATE ON {table}
             FOR EACH STATEMENT EXECUTE FUNCTION barebell_accounts_truncated();"
    )
}

/// Listens to changes of `table`, and creates the triggers if they are missing. Returns true if
/// they are there.
///
/// # Errors
/// The database fails.
pub(super) fn listen(client: &mut Client, table: &str) -> Result<bool, AccountsError> {
    client.batch_execute(&format!("LISTEN {CHANNEL}"))?;
    let query = "SELECT count(*) FROM pg_trigger WHERE tgrelid = to_regclass($1)
         AND tgname IN ('barebell_account_changed', 'barebell_accounts_truncated')
         AND tgenabled <> 'D'";
    let found: i64 = client.query_one(query, &[&table])?.try_get(0)?;
    if found == 2 {
        return Ok(true);
    }
    client.batch_execute(LOCK_TIMEOUT)?;
    match client.batch_execute(&definition(table)) {
        Ok(()) => {
            client.batch_execute("COMMIT")?;
            Ok(true)
        }
        // The role may read the table only.
        Err(AccountsError::Database(error))
            if error.code().is_some_and(|code| *code != SqlState::LOCK_NOT_AVAILABLE) =>
        {
            client.batch_execute("ROLLBACK")?;
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Waits for notifications, at most for `time`. See [`super::Accounts::changes`].
///
/// # Errors
/// The connection has ended.
pub(super) fn changes(
    client: &mut Client,
    time: Duration,
) -> Result<Option<Vec<(String, String)>>, AccountsError> {
    let Some(first) = client.notification(time)? else {
        // A connection that has lost its other end is silent: a query shows it.
        client.batch_execute(TRY_AFTER)?;
        return Ok(Some(Vec::new()));
    };
    let mut changes = Vec::new();
    let mut is_partial = true;
    let mut take = |notification: &Notification| match notification.payload().rsplit_once('@') {
        Some((name, domain)) => changes.push((name.to_owned(), domain.to_ascii_lowercase())),
        None => is_partial = false,
    };
    take(&first);
    while let Some(notification) = client.next_notification()? {
        take(&notification);
    }
    changes.sort_unstable();
    changes.dedup();
    Ok(is_partial.then_some(changes))
}
