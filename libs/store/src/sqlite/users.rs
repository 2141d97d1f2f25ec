//! Users: names and HA1, never passwords.

use super::failure::to;
use super::services;
use super::tables::{DATABASE, REALMS, get_setting, put_setting};
use super::taking;
use super::user_row::{to_bytes, user};
use super::{Error, Sqlite};
use crate::{Change, OtherChange, User, UserServices, Users};
use rusqlite::{Connection, params};
use sip::digest::Ha1Set;
use sip_server::{CallServices, Logins};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

impl Users for Sqlite {
    fn put_users(&self, users: &[User]) -> Result<Change, Error> {
        let mut change = Change::default();
        let mut database = self.database();
        let mut store = || -> rusqlite::Result<()> {
            let transaction = database.transaction()?;
            put(&transaction, users, &mut change)?;
            transaction.commit()
        };
        store().map_err(to("store users"))?;
        Ok(change)
    }

    fn remove_user(&self, name: &str, domain: &str) -> Result<bool, Error> {
        let mut database = self.database();
        let mut remove_one = || -> rusqlite::Result<bool> {
            let transaction = database.transaction()?;
            let is_removed = remove(&transaction, name, domain)?;
            transaction.commit()?;
            Ok(is_removed)
        };
        remove_one().map_err(to("remove a user"))
    }

    fn move_users(&self, from: &str, target: &str) -> Result<u64, Error> {
        let mut database = self.database();
        let transaction = database.transaction().map_err(to("move users"))?;
        let mut realms = realms(&transaction)?;
        let realm = realms.remove(from).unwrap_or_else(|| from.to_owned());
        if realm == target {
            realms.remove(target);
        } else {
            realms.insert(target.to_owned(), realm);
        }
        let realms = serde_json::to_vec(&realms).unwrap_or_default();
        put_setting(&transaction, REALMS, &realms)?;
        transaction
            .execute(
                "DELETE FROM binding WHERE emptied IS NULL AND address_of_record IN
                 (SELECT CAST(name || '@' || domain AS BLOB) FROM subscriber WHERE domain = ?1)",
                [from],
            )
            .map_err(to("move users"))?;
        let moved = transaction
            .execute("UPDATE subscriber SET domain = ?2 WHERE domain = ?1", [from, target])
            .map_err(to("move users"))?;
        services::move_domain(&transaction, from, target).map_err(to("move users"))?;
        transaction.commit().map_err(to("move users"))?;
        Ok(moved as u64)
    }

    fn domains(&self, except: &[&str]) -> Result<BTreeMap<String, u64>, Error> {
        let database = self.database();
        let read = || -> rusqlite::Result<BTreeMap<String, u64>> {
            // Goes from one domain to the next, without reading all users.
            let mut next =
                database.prepare_cached("SELECT min(domain) FROM subscriber WHERE domain > ?1")?;
            let mut count =
                database.prepare_cached("SELECT count(*) FROM subscriber WHERE domain = ?1")?;
            let mut domains = BTreeMap::new();
            let mut last = String::new();
            while let Some(domain) =
                next.query_row([&last], |row| row.get::<_, Option<String>>(0))?
            {
                if !except.contains(&domain.as_str()) {
                    let users: i64 = count.query_row([&domain], |row| row.get(0))?;
                    domains.insert(domain.clone(), users.cast_unsigned());
                }
                last = domain;
            }
            Ok(domains)
        };
        read().map_err(to("read the domains of the users"))
    }

    fn realms(&self) -> Result<BTreeMap<String, String>, Error> {
        realms(&self.database())
    }

    fn users(&self, domain: Option<&str>, each: &mut dyn FnMut(User) -> bool) -> Result<(), Error> {
        let database = self.database();
        let mut damaged = 0_u64;
        let mut read = || -> rusqlite::Result<()> {
            let mut select = database.prepare_cached(
                "SELECT domain, name, ha1_md5, ha1_sha256, ha1_sha512_256, address_ha1, auth_name,
                 auth_ha1 FROM subscriber WHERE ?1 IS NULL OR domain = ?1 ORDER BY domain, name",
            )?;
            let mut rows = select.query([domain])?;
            let mut last: Arc<str> = Arc::from("");
            while let Some(row) = rows.next()? {
                let Ok(user) = user(row, &mut last) else {
                    damaged += 1;
                    continue;
                };
                if !each(user) {
                    break;
                }
            }
            Ok(())
        };
        read().map_err(to("read the users"))?;
        if damaged > 0 {
            self.log.warn("storage", || {
                format!(
                    "{damaged} users in {} are damaged and cannot log in: set their passwords again (barebell user add)",
                    self.path().join(DATABASE).display()
                )
            });
        }
        Ok(())
    }

    fn users_after(&self, last: (&str, &str), most: usize) -> Result<Vec<User>, Error> {
        let database = self.database();
        let read = || -> rusqlite::Result<Vec<User>> {
            let mut select = database.prepare_cached(
                "SELECT domain, name, ha1_md5, ha1_sha256, ha1_sha512_256, address_ha1, auth_name,
                 auth_ha1 FROM subscriber WHERE (domain, name) > (?1, ?2) ORDER BY domain, name",
            )?;
            let mut rows = select.query([last.0, last.1])?;
            let (mut users, mut last) = (Vec::new(), Arc::from(""));
            while users.len() < most
                && let Some(row) = rows.next()?
            {
                users.extend(user(row, &mut last).ok());
            }
            Ok(users)
        };
        read().map_err(to("read the users"))
    }

    fn auth_names(&self, domain: &str) -> Result<HashMap<String, String>, Error> {
        let database = self.database();
        let read = || -> rusqlite::Result<HashMap<_, _>> {
            let mut select = database.prepare_cached(
                "SELECT auth_name, name FROM subscriber WHERE domain = ?1 AND auth_name IS NOT NULL",
            )?;
            select.query_map([domain], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        read().map_err(to("read the authentication names"))
    }

    fn has_user(&self, name: &str, domain: &str) -> Result<bool, Error> {
        let database = self.database();
        let read = || {
            let mut select = database
                .prepare_cached("SELECT 1 FROM subscriber WHERE domain = ?1 AND name = ?2")?;
            select.exists([domain, name])
        };
        read().map_err(to("look for a user"))
    }

    fn put_services(
        &self,
        name: &str,
        domain: &str,
        services: &CallServices,
    ) -> Result<bool, Error> {
        services::put(&mut self.database(), name, domain, services)
    }

    fn services(
        &self,
        domain: Option<&str>,
        each: &mut dyn FnMut(UserServices),
    ) -> Result<(), Error> {
        services::each(&self.database(), domain, each)
    }

    fn take_changes(&self) -> Result<Vec<OtherChange>, Error> {
        taking::take(&mut self.database())
    }

    fn user_count(&self) -> Result<u64, Error> {
        self.database()
            .query_row("SELECT count(*) FROM subscriber", [], |row| row.get(0))
            .map(i64::cast_unsigned)
            .map_err(to("count the users"))
    }
}

/// Stores `users` and counts them in `change`. Of two with one name the later is stored. The
/// registrations of a user with another password are deleted.
pub(super) fn put(
    database: &Connection,
    users: &[User],
    change: &mut Change,
) -> rusqlite::Result<()> {
    // One user may get the authentication name that another one of `users` gives up, in any order.
    if users.iter().any(|user| user.logins.by_auth_name.is_some()) {
        let mut give_up = database.prepare_cached(
            "UPDATE subscriber SET auth_name = NULL, auth_ha1 = NULL
             WHERE domain = ?1 AND name = ?2 AND auth_name IS NOT NULL",
        )?;
        for user in users {
            give_up.execute(params![&*user.domain, user.name])?;
        }
    }
    let mut insert = database.prepare_cached(
        "INSERT INTO subscriber VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
         ON CONFLICT (domain, name) DO NOTHING",
    )?;
    let mut update = database.prepare_cached(
        "UPDATE subscriber SET ha1_md5 = ?3, ha1_sha256 = ?4, ha1_sha512_256 = ?5,
         address_ha1 = ?6, auth_name = ?7, auth_ha1 = ?8
         WHERE domain = ?1 AND name = ?2",
    )?;
    let mut has_other = database.prepare_cached(
        "SELECT ha1_sha256 <> ?3 FROM subscriber WHERE domain = ?1 AND name = ?2",
    )?;
    let mut forget = database
        .prepare_cached("DELETE FROM binding WHERE address_of_record = ?1 AND emptied IS NULL")?;
    for user in users {
        let Logins { by_name, by_address, by_auth_name } = &user.logins;
        let Ha1Set { md5, sha256, sha512_256 } = by_name;
        let by_address = by_address.as_ref().map(to_bytes);
        let auth_name = by_auth_name.as_ref().map(|auth| text(&auth.name));
        let auth_ha1 = by_auth_name.as_ref().map(|auth| to_bytes(&auth.ha1));
        let row = params![
            &*user.domain,
            user.name,
            md5,
            sha256,
            sha512_256,
            by_address,
            auth_name,
            auth_ha1
        ];
        if insert.execute(row)? == 1 {
            change.added += 1;
            continue;
        }
        let stored = params![&*user.domain, user.name, sha256];
        if has_other.query_row(stored, |row| row.get(0))? {
            forget.execute([address_of_record(&user.name, &user.domain)])?;
            change.changed += 1;
        } else {
            change.unchanged += 1;
        }
        update.execute(row)?;
    }
    Ok(())
}

/// Removes a user with the registrations and the call services. Returns true if there was one.
pub(super) fn remove(database: &Connection, name: &str, domain: &str) -> rusqlite::Result<bool> {
    database
        .prepare_cached("DELETE FROM binding WHERE address_of_record = ?1 AND emptied IS NULL")?
        .execute([address_of_record(name, domain)])?;
    let removed = database
        .prepare_cached("DELETE FROM subscriber WHERE domain = ?1 AND name = ?2")?
        .execute([domain, name])?;
    services::remove(database, name, domain)?;
    Ok(removed > 0)
}

fn realms(database: &Connection) -> Result<BTreeMap<String, String>, Error> {
    let stored = get_setting(database, REALMS)?;
    // Damaged realms are treated as absent. The users can log in again once their passwords are
    // set.
    Ok(stored.and_then(|stored| serde_json::from_slice(&stored).ok()).unwrap_or_default())
}

/// `name@domain`, the key of registrations.
fn address_of_record(name: &str, domain: &str) -> Vec<u8> {
    [name.as_bytes(), b"@", domain.as_bytes()].concat()
}

/// An authentication name as text. It was valid UTF-8 when it was set.
fn text(name: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(name)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{all, open};
    use super::*;
    use sip_server::AuthName;

    fn user(name: &str, domain: &str, password: &str) -> User {
        let ha1 = Ha1Set::new(name.as_bytes(), domain.as_bytes(), password.as_bytes());
        let by_address = format!("{name}@{domain}");
        let logins = Logins {
            by_name: ha1,
            by_address: Some(Ha1Set::new(
                by_address.as_bytes(),
                domain.as_bytes(),
                password.as_bytes(),
            )),
            by_auth_name: None,
        };
        User { name: name.to_owned(), domain: Arc::from(domain), logins }
    }

    #[test]
    fn users_are_kept_by_domain_and_name() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        let users = [user("bob", "a", "1"), user("alice", "b", "2"), user("Alice", "b", "3")];
        assert_eq!(storage.put_users(&users).unwrap(), Change { added: 3, ..Change::default() });
        drop(storage);
        let storage = open(directory.path());
        assert_eq!(storage.user_count().unwrap(), 3);
        assert_eq!(all(&storage, None), [users[0].clone(), users[2].clone(), users[1].clone()]);
        assert_eq!(all(&storage, Some("a")), [users[0].clone()]);
        let changed = user("bob", "a", "new");
        let change = storage.put_users(std::slice::from_ref(&changed)).unwrap();
        assert_eq!(change, Change { changed: 1, ..Change::default() });
        let change = storage.put_users(std::slice::from_ref(&changed)).unwrap();
        assert_eq!(change, Change { unchanged: 1, ..Change::default() });
        assert_eq!(all(&storage, Some("a")), [changed]);
        assert!(storage.remove_user("bob", "a").unwrap());
        assert!(!storage.remove_user("bob", "a").unwrap());
        assert!(!storage.remove_user("alice", "a").unwrap());
        assert_eq!(storage.user_count().unwrap(), 2);
    }

    #[test]
    fn an_authentication_name_is_kept_changed_and_one_users_alone() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        let with = |name: &str, domain: &str, auth: Option<&str>| {
            let mut user = user(name, domain, "1");
            let ha1 = user.logins.by_name.clone();
            user.logins.by_auth_name =
                auth.map(|auth| Box::new(AuthName { name: auth.as_bytes().into(), ha1 }));
            user
        };
        let users = [with("al", "a", Some("x")), with("al", "b", Some("x")), with("bo", "a", None)];
        storage.put_users(&users).unwrap();
        assert_eq!(all(&storage, None), [users[0].clone(), users[2].clone(), users[1].clone()]);
        let names = |domain: &str| storage.auth_names(domain).unwrap();
        assert_eq!(names("a"), HashMap::from([("x".to_owned(), "al".to_owned())]));
        assert!(storage.put_users(&[with("bo", "a", Some("x"))]).is_err());
        storage.put_users(&[with("al", "a", Some("y"))]).unwrap();
        storage.put_users(&[with("bo", "a", Some("x"))]).unwrap();
        assert_eq!(names("a").len(), 2);
        // Names are exchanged in one step, even in a cycle.
        for handed in
            [[("al", Some("z")), ("bo", Some("y"))], [("al", Some("y")), ("bo", Some("z"))]]
        {
            for order in [[0, 1], [1, 0]] {
                storage
                    .put_users(&[with("al", "a", Some("y")), with("bo", "a", Some("z"))])
                    .unwrap();
                storage
                    .put_users(&order.map(|at: usize| with(handed[at].0, "a", handed[at].1)))
                    .unwrap();
                let owners =
                    handed.map(|(owner, name)| (name.unwrap().to_owned(), owner.to_owned()));
                assert_eq!(names("a"), HashMap::from(owners), "{order:?}");
            }
        }
        storage.put_users(&[with("al", "a", Some("y")), with("bo", "a", Some("x"))]).unwrap();
        storage.remove_user("al", "a").unwrap();
        assert_eq!(names("a"), HashMap::from([("x".to_owned(), "bo".to_owned())]));
        assert!(storage.has_user("bo", "a").unwrap() && !storage.has_user("al", "a").unwrap());
    }

    #[test]
    fn a_damaged_user_does_not_take_the_others_along() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        let users = [user("a", "d", "1"), user("b", "d", "2"), user("c", "d", "3")];
        storage.put_users(&users).unwrap();
        storage
            .database()
            .execute("UPDATE subscriber SET ha1_md5 = x'00' WHERE name = 'b'", [])
            .unwrap();
        assert_eq!(all(&storage, None), [users[0].clone(), users[2].clone()]);
        storage.put_users(&users[1..2]).unwrap();
        assert_eq!(all(&storage, None), users);
    }

    #[test]
    fn users_are_read_in_parts() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        let users = [("a", "d"), ("b", "d"), ("c", "d"), ("a", "e")]
            .map(|(name, domain)| user(name, domain, "1"));
        storage.put_users(&users).unwrap();
        let after =
            |domain: &str, name: &str, most| storage.users_after((domain, name), most).unwrap();
        assert_eq!(after("", "", 2), users[..2]);
        assert_eq!(after("d", "b", 2), users[2..]);
        assert_eq!(after("e", "a", 2), []);
        storage
            .database()
            .execute("UPDATE subscriber SET ha1_md5 = x'00' WHERE name = 'b'", [])
            .unwrap();
        assert_eq!(after("d", "a", 1), users[2..3], "a damaged one is omitted");
    }

    #[test]
    fn reading_ends_with_its_receiver() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        storage.put_users(&[user("a", "d", "1"), user("b", "d", "2")]).unwrap();
        let mut seen = 0;
        storage
            .users(None, &mut |_| {
                seen += 1;
                false
            })
            .unwrap();
        assert_eq!(seen, 1);
    }
}
