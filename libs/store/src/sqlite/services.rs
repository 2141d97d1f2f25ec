//! The call services of users. A user without any has no row.

use super::failure::to;
use crate::{Error, UserServices};
use rusqlite::{Connection, OptionalExtension, Row, params};
use sip::Duration;
use sip_server::CallServices;

/// The columns with targets of forwards.
const TARGETS: [&str; 4] = ["always", "busy", "no_answer", "unreachable"];

/// Stores the call services of a user. Returns false if there is no such user.
///
/// # Errors
/// [`Error`] if the storage fails.
pub(super) fn put(
    database: &mut Connection,
    name: &str,
    domain: &str,
    services: &CallServices,
) -> Result<bool, Error> {
    let mut put = || -> rusqlite::Result<bool> {
        let transaction = database.transaction()?;
        let is_there = transaction
            .prepare_cached("SELECT 1 FROM subscriber WHERE domain = ?1 AND name = ?2")?
            .exists([domain, name])?;
        if !is_there {
            return Ok(false);
        }
        store(&transaction, name, domain, services)?;
        transaction.commit()?;
        Ok(true)
    };
    put().map_err(to("store call services"))
}

/// Stores the call services of a user in place of the former ones.
pub(super) fn store(
    database: &Connection,
    name: &str,
    domain: &str,
    services: &CallServices,
) -> rusqlite::Result<()> {
    remove(database, name, domain)?;
    if services.is_empty() {
        return Ok(());
    }
    let mut insert = database
        .prepare_cached("INSERT INTO call_services VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
    insert
        .execute(params![
            domain,
            name,
            services.always,
            services.busy,
            services.no_answer,
            services.unreachable,
            services.no_answer_after.as_micros().cast_signed(),
            services.do_not_disturb
        ])
        .map(drop)
}

/// The call services of one user.
///
/// # Errors
/// [`Error`] if the storage fails.
pub(super) fn one(database: &Connection, name: &str, domain: &str) -> Result<CallServices, Error> {
    let read = || -> rusqlite::Result<Option<UserServices>> {
        let mut select = database.prepare_cached(
            "SELECT domain, name, always, busy, no_answer, unreachable, no_answer_after,
             do_not_disturb FROM call_services WHERE domain = ?1 AND name = ?2",
        )?;
        select.query_row([domain, name], services).optional()
    };
    let found = read().map_err(to("read call services"))?;
    Ok(found.map_or_else(CallServices::default, |found| found.services))
}

/// Passes the call services of every user, or of the users of `domain`, to `each`, by domain and
/// name.
///
/// # Errors
/// [`Error`] if the storage fails.
pub(super) fn each(
    database: &Connection,
    domain: Option<&str>,
    each: &mut dyn FnMut(UserServices),
) -> Result<(), Error> {
    let mut read = || -> rusqlite::Result<()> {
        let mut select = database.prepare_cached(
            "SELECT domain, name, always, busy, no_answer, unreachable, no_answer_after,
             do_not_disturb FROM call_services WHERE ?1 IS NULL OR domain = ?1
             ORDER BY domain, name",
        )?;
        for services in select.query_map([domain], services)? {
            each(services?);
        }
        Ok(())
    };
    read().map_err(to("read call services"))
}

/// The call services of a user, if there are any.
pub(super) fn of(
    database: &Connection,
    name: &str,
    domain: &str,
) -> rusqlite::Result<Option<CallServices>> {
    let mut select = database.prepare_cached(
        "SELECT domain, name, always, busy, no_answer, unreachable, no_answer_after,
         do_not_disturb FROM call_services WHERE domain = ?1 AND name = ?2",
    )?;
    let found = select.query_row([domain, name], services).optional()?;
    Ok(found.map(|it| it.services))
}

/// Removes the call services of a user.
pub(super) fn remove(database: &Connection, name: &str, domain: &str) -> rusqlite::Result<()> {
    let mut delete =
        database.prepare_cached("DELETE FROM call_services WHERE domain = ?1 AND name = ?2")?;
    delete.execute([domain, name]).map(drop)
}

/// Moves the call services of the users of the domain `from`, and the targets in it, to the domain
/// `target`.
pub(super) fn move_domain(database: &Connection, from: &str, target: &str) -> rusqlite::Result<()> {
    database.execute("UPDATE call_services SET domain = ?2 WHERE domain = ?1", [from, target])?;
    let (from, target) = (format!("@{from}"), format!("@{target}"));
    for column in TARGETS {
        // The domain is the end of the target.
        database.execute(
            &format!(
                "UPDATE call_services
                 SET {column} = substr({column}, 1, length({column}) - length(?1)) || ?2
                 WHERE substr({column}, -length(?1)) = ?1"
            ),
            [&from, &target],
        )?;
    }
    Ok(())
}

fn services(row: &Row<'_>) -> rusqlite::Result<UserServices> {
    let micros: i64 = row.get(6)?;
    Ok(UserServices {
        domain: row.get(0)?,
        name: row.get(1)?,
        services: CallServices {
            always: row.get(2)?,
            busy: row.get(3)?,
            no_answer: row.get(4)?,
            unreachable: row.get(5)?,
            no_answer_after: Duration::from_micros(micros.cast_unsigned())
                .clamp(CallServices::MIN_RINGING, CallServices::MAX_RINGING),
            do_not_disturb: row.get(7)?,
        },
    })
}
