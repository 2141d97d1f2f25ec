//! The users that other programs have changed by SQL, for the running server.

use super::failure::to;
use super::services;
use super::user_row::user;
use crate::{Error, OtherChange};
use rusqlite::{Connection, OptionalExtension};
use std::sync::Arc;

/// The maximum number of changes that are taken at once.
const MAX_TAKEN: i64 = 1000;

/// Takes changes of other programs, each user once.
///
/// # Errors
/// [`Error`] if the storage fails.
pub(super) fn take(database: &mut Connection) -> Result<Vec<OtherChange>, Error> {
    let mut take = || -> rusqlite::Result<Vec<OtherChange>> {
        let is_any = database.prepare_cached("SELECT 1 FROM user_change LIMIT 1")?.exists([])?;
        if !is_any {
            return Ok(Vec::new());
        }
        let transaction = database.transaction()?;
        let names: Vec<(String, String)> = transaction
            .prepare_cached(
                "SELECT DISTINCT domain, name FROM
                 (SELECT domain, name FROM user_change ORDER BY id LIMIT ?1)",
            )?
            .query_map([MAX_TAKEN], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<_>>()?;
        transaction.execute(
            "DELETE FROM user_change WHERE id IN
             (SELECT id FROM user_change ORDER BY id LIMIT ?1)",
            [MAX_TAKEN],
        )?;
        let mut changes = Vec::new();
        for (domain, name) in names {
            changes.push(change(&transaction, domain, name)?);
        }
        transaction.commit()?;
        Ok(changes)
    };
    take().map_err(to("take the changes of other programs"))
}

/// The present state of a user.
fn change(database: &Connection, domain: String, name: String) -> rusqlite::Result<OtherChange> {
    let mut select = database.prepare_cached(
        "SELECT domain, name, ha1_md5, ha1_sha256, ha1_sha512_256, address_ha1, auth_name,
         auth_ha1 FROM subscriber WHERE domain = ?1 AND name = ?2",
    )?;
    let mut last = Arc::from("");
    let found = select.query_row([&domain, &name], |row| Ok(user(row, &mut last))).optional()?;
    Ok(match found {
        Some(Ok(user)) => {
            let services = services::of(database, &name, &domain)?.unwrap_or_default();
            OtherChange::Put(Box::new(user), Box::new(services))
        }
        Some(Err(_)) => OtherChange::Damaged { name, domain },
        None => OtherChange::Removed { name, domain },
    })
}
