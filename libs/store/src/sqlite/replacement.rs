//! The replacement of users, call services, and the data of the panel, in one transaction.

use super::Sqlite;
use super::failure::to;
use super::tables::{REALMS, put_setting};
use super::user_row::user;
use super::{calls, panel, services, users};
use crate::{
    Change, Difference, Error, PanelSet, Replace, Replaced, Replacement, StoredCall, User,
    UserServices, UserSet,
};
use rusqlite::Transaction;
use sip::Instant;
use sip_server::CallServices;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// The operation, as errors name it.
const RESTORE: &str = "restore a backup";

/// The name and the domain of a user. They are the order of users.
type Key = (String, String);

impl Replace for Sqlite {
    fn replace(&self, data: &Replacement, is_trial: bool) -> Result<Replaced, Error> {
        let mut database = self.database();
        let transaction = database.transaction().map_err(to(RESTORE))?;
        let mut replaced = Replaced::default();
        if let Some(set) = &data.users {
            replace_users(&transaction, set, &mut replaced).map_err(to(RESTORE))?;
            let realms = serde_json::to_vec(&set.realms).unwrap_or_default();
            put_setting(&transaction, REALMS, &realms)?;
        }
        if let Some(wanted) = &data.services {
            replace_services(&transaction, wanted, &mut replaced)?;
        }
        if let Some(set) = &data.panel {
            replace_panel(&transaction, set, &mut replaced).map_err(to(RESTORE))?;
        }
        replaced.calls = add_calls(&transaction, &data.calls).map_err(to(RESTORE))?;
        match is_trial {
            true => transaction.rollback(),
            false => transaction.commit(),
        }
        .map_err(to(RESTORE))?;
        Ok(replaced)
    }
}

/// Sorts the stored things `before` and the wanted ones into a difference.
fn difference<'w, T: PartialEq + 'w>(
    mut before: BTreeMap<String, Option<T>>,
    wanted: impl Iterator<Item = (String, &'w T)>,
) -> Difference {
    let mut found = Difference::default();
    for (name, thing) in wanted {
        match before.remove(&name) {
            None => found.added.push(name),
            Some(Some(stored)) if stored == *thing => found.unchanged += 1,
            Some(_) => found.changed.push(name),
        }
    }
    found.removed = before.into_keys().collect();
    found
}

fn replace_users(
    transaction: &Transaction<'_>,
    set: &UserSet,
    replaced: &mut Replaced,
) -> rusqlite::Result<()> {
    // A damaged user has a key, but no value.
    let mut before: BTreeMap<Key, Option<User>> = BTreeMap::new();
    {
        let mut select = transaction.prepare(
            "SELECT domain, name, ha1_md5, ha1_sha256, ha1_sha512_256, address_ha1, auth_name,
             auth_ha1 FROM subscriber",
        )?;
        let mut rows = select.query([])?;
        let mut last: Arc<str> = Arc::from("");
        while let Some(row) = rows.next()? {
            before.insert((row.get(1)?, row.get(0)?), user(row, &mut last).ok());
        }
    }
    let address = |(name, domain): &Key| format!("{name}@{domain}");
    for user in &set.users {
        let key = (user.name.clone(), user.domain.to_string());
        match before.remove(&key) {
            None => replaced.users.added.push(address(&key)),
            Some(Some(stored)) if stored == *user => {
                replaced.users.unchanged += 1;
                continue;
            }
            Some(_) => replaced.users.changed.push(address(&key)),
        }
        replaced.put_users.push(user.clone());
    }
    for key in before.into_keys() {
        users::remove(transaction, &key.0, &key.1)?;
        replaced.users.removed.push(address(&key));
        replaced.removed_users.push(key);
    }
    users::put(transaction, &replaced.put_users, &mut Change::default())
}

fn replace_services(
    transaction: &Transaction<'_>,
    wanted: &[UserServices],
    replaced: &mut Replaced,
) -> Result<(), Error> {
    let mut before = BTreeMap::new();
    services::each(transaction, None, &mut |it| {
        before.insert((it.name, it.domain), it.services);
    })?;
    let replace = || -> rusqlite::Result<()> {
        let mut is_user =
            transaction.prepare("SELECT 1 FROM subscriber WHERE domain = ?1 AND name = ?2")?;
        for UserServices { name, domain, services: wanted } in wanted {
            let address = format!("{name}@{domain}");
            if !is_user.exists([domain, name])? {
                replaced.unknown.push(address);
                continue;
            }
            match before.remove(&(name.clone(), domain.clone())) {
                Some(stored) if stored == *wanted => {
                    replaced.services.unchanged += 1;
                    continue;
                }
                Some(_) => replaced.services.changed.push(address),
                None => replaced.services.added.push(address),
            }
            services::store(transaction, name, domain, wanted)?;
            let (name, domain) = (name.clone(), domain.clone());
            replaced.put_services.push(UserServices { name, domain, services: wanted.clone() });
        }
        for (name, domain) in before.into_keys() {
            services::remove(transaction, &name, &domain)?;
            replaced.services.removed.push(format!("{name}@{domain}"));
            let services = CallServices::default();
            replaced.put_services.push(UserServices { name, domain, services });
        }
        Ok(())
    };
    replace().map_err(to(RESTORE))
}

fn replace_panel(
    transaction: &Transaction<'_>,
    set: &PanelSet,
    replaced: &mut Replaced,
) -> rusqlite::Result<()> {
    let mut accounts = set.accounts.clone();
    let mut before = BTreeMap::new();
    for stored in panel::accounts(transaction)? {
        let factor = panel::second_factor(transaction, &stored.name)?;
        // A code that was used after the backup is not accepted again.
        for (account, wanted) in &mut accounts {
            if let (true, Some(wanted), Some(factor)) =
                (account.name == stored.name, wanted, &factor)
                && wanted.secret == factor.secret
            {
                wanted.used = wanted.used.max(factor.used);
            }
        }
        before.insert(stored.name.clone(), Some((stored, factor)));
    }
    let wanted = accounts.iter().map(|it| (it.0.name.clone(), it));
    replaced.accounts = difference(before, wanted);
    let before = panel::tokens(transaction)?.into_iter();
    let before = before.map(|token| (token.name.clone(), Some(token))).collect();
    let wanted = set.tokens.iter().map(|it| (it.name.clone(), it));
    replaced.tokens = difference(before, wanted);
    for table in ["panel_account", "panel_second_factor", "panel_token"] {
        transaction.execute(&format!("DELETE FROM {table}"), [])?;
    }
    for (account, factor) in &accounts {
        panel::put_account(transaction, account)?;
        if let Some(factor) = factor {
            panel::put_second_factor(transaction, &account.name, factor)?;
        }
    }
    set.tokens.iter().try_for_each(|token| panel::put_token(transaction, token))
}

/// Adds the calls that are not stored yet. Returns their number.
fn add_calls(transaction: &Transaction<'_>, calls: &[StoredCall]) -> rusqlite::Result<u64> {
    let mut select = transaction.prepare("SELECT record FROM call WHERE ended = ?1")?;
    let missing = missing(calls, |ended| {
        select.query_map([calls::micros(ended)], |row| row.get(0))?.collect()
    })?;
    missing.iter().try_for_each(|call| calls::insert(transaction, call))?;
    Ok(missing.len() as u64)
}

/// The calls that are not stored yet, in their order. `stored` returns the stored records of calls
/// that ended at a time. It is called once for each time: many calls may have the same one, in a
/// file of an attacker, and after the end of a server.
fn missing<'c>(
    calls: &'c [StoredCall],
    mut stored: impl FnMut(Instant) -> rusqlite::Result<HashSet<String>>,
) -> rusqlite::Result<Vec<&'c StoredCall>> {
    let mut by_time: Vec<(usize, &StoredCall)> = calls.iter().enumerate().collect();
    by_time.sort_by_key(|(_, call)| call.ended);
    let mut missing = Vec::new();
    for group in by_time.chunk_by(|(_, one), (_, other)| one.ended == other.ended) {
        let stored = stored(group[0].1.ended)?;
        let mut seen = HashSet::new();
        let is_new = |(_, call): &&(usize, &'c StoredCall)| {
            !stored.contains(&call.record) && seen.insert(call.record.as_str())
        };
        missing.extend(group.iter().filter(is_new).copied());
    }
    missing.sort_unstable_by_key(|(place, _)| *place);
    Ok(missing.into_iter().map(|(_, call)| call).collect())
}

#[cfg(test)]
mod tests;
