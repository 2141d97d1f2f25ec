//! Changes of users by commands: first in the database of accounts, then in the copy.

use super::client::{Client, WHOLE_TABLE};
use super::error::{AccountsError, to};
use super::hashes::{Hashes, text};
use super::table::{Columns, NAMES, Values};
use super::{AccountsPlace, user_of};
use crate::{Change, Error, OtherChange, User, UserServices, Users};
use sip_server::CallServices;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use tokio_postgres::types::ToSql;

/// The number of users that are sent in one query.
const BATCH: usize = 10_000;

/// Users of a database of accounts with their copy in the storage of the server. Changes are stored
/// in the database first, and users are read from the copy.
pub struct CopiedUsers<'a> {
    /// The copy.
    pub copy: &'a dyn Users,
    /// The place of the table.
    pub place: &'a AccountsPlace,
    /// The key of [`super::Accounts::connect`].
    pub key: [u8; 32],
}

impl fmt::Debug for CopiedUsers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopiedUsers").field("table", &self.place.table).finish_non_exhaustive()
    }
}

impl CopiedUsers<'_> {
    fn open(&self) -> Result<(Client, Columns), AccountsError> {
        let mut client = self.place.connect()?.with_patience(WHOLE_TABLE);
        let columns = Columns::of(&mut client, &self.place.table)?;
        Ok((client, columns))
    }

    /// Stores `users` in the table. Returns the change and the users as the table has them.
    fn put(&self, users: &[User]) -> Result<(Change, Vec<User>), AccountsError> {
        if let Some(user) = users.iter().find(|user| user.logins.by_auth_name.is_some()) {
            return Err(AccountsError::AuthName(user.name.clone()));
        }
        let (mut client, columns) = self.open()?;
        let table = &self.place.table;
        if !columns.ha1 && !columns.sha256 {
            return Err(AccountsError::NoHashes(table.clone()));
        }
        let (update, insert) = (columns.update(table), columns.insert(table));
        client.batch_execute("BEGIN")?;
        let (mut change, mut stored) = (Change::default(), Vec::new());
        // Of two with one name the later one is stored.
        let last: HashMap<_, _> = users.iter().map(|it| ((&it.name, &it.domain), it)).collect();
        let mut last: Vec<&User> = last.into_values().collect();
        last.sort_by(|one, other| (&one.domain, &one.name).cmp(&(&other.domain, &other.name)));
        for batch in last.chunks(BATCH) {
            let rows: Vec<[String; 4]> = batch.iter().map(|user| hash_texts(user)).collect();
            let names: Vec<&str> = batch.iter().map(|user| user.name.as_str()).collect();
            let domains: Vec<&str> = batch.iter().map(|user| &*user.domain).collect();
            let column = |at: usize| -> Vec<&str> { rows.iter().map(|row| &*row[at]).collect() };
            let hashes: Vec<Vec<&str>> =
                (0..4).filter(|at| columns.hashes()[*at]).map(column).collect();
            let mut values: Vec<&(dyn ToSql + Sync)> = vec![&names, &domains];
            for hash in &hashes {
                values.push(hash);
            }
            let changed = client.execute(&update, &values)?;
            let added = client.execute(&insert, &values)?;
            change.changed += changed;
            change.added += added;
            change.unchanged += (batch.len() as u64).saturating_sub(changed + added);
            let as_stored = batch.iter().zip(&rows).filter_map(|(user, row)| {
                let has = columns.hashes();
                let text = |at: usize| has[at].then_some(&*row[at]);
                let hashes = Hashes { md5: text(0), sha256: text(2), sha512_256: text(3) };
                user_of(&Values::new(&user.name, &user.domain, hashes, text(1)), &self.key)
            });
            stored.extend(as_stored);
        }
        client.batch_execute("COMMIT")?;
        Ok((change, stored))
    }

    fn remove(&self, name: &str, domain: &str) -> Result<bool, AccountsError> {
        let (mut client, _) = self.open()?;
        let delete = format!(
            "DELETE FROM {} WHERE username = $1 AND lower(domain::text) = $2",
            self.place.table
        );
        Ok(client.execute(&delete, &[&name, &domain])? > 0)
    }
}

/// The hashes of `user` in hexadecimal, in the order of [`Columns::hashes`].
fn hash_texts(user: &User) -> [String; 4] {
    let by_name = &user.logins.by_name;
    let by_address = user.logins.by_address.as_ref();
    [
        text(&by_name.md5),
        by_address.map_or_else(String::new, |it| text(&it.md5)),
        text(&by_name.sha256),
        text(&by_name.sha512_256),
    ]
}

impl Columns {
    /// True for each column of hashes that the table has.
    const fn hashes(&self) -> [bool; 4] {
        [self.ha1, self.ha1b, self.sha256, self.sha512_256]
    }

    /// The names of the columns of hashes that the table has.
    fn hash_names(&self) -> Vec<&'static str> {
        let names = NAMES[1..].iter().zip(self.hashes());
        names.filter_map(|(name, has)| has.then_some(*name)).collect()
    }

    /// The rows of the values: arrays of names, domains, and hashes.
    fn rows(&self) -> String {
        let hashes = self.hash_names();
        let arrays: Vec<_> = (1..=hashes.len() + 2).map(|at| format!("${at}::text[]")).collect();
        let names = [&["username", "domain"], &hashes[..]].concat();
        format!("unnest({}) AS v ({})", arrays.join(", "), names.join(", "))
    }

    /// The query that changes the existing users with other hashes. A password in clear is
    /// emptied, since it is not the one of the hashes any more.
    fn update(&self, table: &str) -> String {
        let names = self.hash_names();
        let mut set: Vec<_> = names.iter().map(|name| format!("{name} = v.{name}")).collect();
        let differs = |name: &&str| format!("t.{name}::text IS DISTINCT FROM v.{name}");
        let mut differences: Vec<_> = names.iter().map(differs).collect();
        if self.password {
            set.push("password = ''".to_owned());
            differences.push("t.password <> ''".to_owned());
        }
        format!(
            "UPDATE {table} AS t SET {} FROM {}
             WHERE t.username = v.username AND lower(t.domain::text) = v.domain AND ({})",
            set.join(", "),
            self.rows(),
            differences.join(" OR ")
        )
    }

    /// The query that adds the users that do not exist.
    fn insert(&self, table: &str) -> String {
        let names = [&["username", "domain"], &self.hash_names()[..]].concat();
        let values: Vec<_> = names.iter().map(|name| format!("v.{name}")).collect();
        let password = if self.password { [", password", ", ''"] } else { ["", ""] };
        format!(
            "INSERT INTO {table} ({}{}) SELECT {}{} FROM {} WHERE NOT EXISTS
             (SELECT 1 FROM {table} AS t
              WHERE t.username = v.username AND lower(t.domain::text) = v.domain)",
            names.join(", "),
            password[0],
            values.join(", "),
            password[1],
            self.rows()
        )
    }
}

impl Users for CopiedUsers<'_> {
    fn put_users(&self, users: &[User]) -> Result<Change, Error> {
        let (change, stored) = self.put(users).map_err(to("store users"))?;
        self.copy.put_users(&stored)?;
        Ok(change)
    }

    fn remove_user(&self, name: &str, domain: &str) -> Result<bool, Error> {
        let is_removed = self.remove(name, domain).map_err(to("remove a user"))?;
        // The copy may have followed already.
        Ok(self.copy.remove_user(name, domain)? || is_removed)
    }

    fn users(&self, domain: Option<&str>, each: &mut dyn FnMut(User) -> bool) -> Result<(), Error> {
        self.copy.users(domain, each)
    }

    fn users_after(&self, last: (&str, &str), most: usize) -> Result<Vec<User>, Error> {
        self.copy.users_after(last, most)
    }

    fn auth_names(&self, domain: &str) -> Result<HashMap<String, String>, Error> {
        self.copy.auth_names(domain)
    }

    fn has_user(&self, name: &str, domain: &str) -> Result<bool, Error> {
        self.copy.has_user(name, domain)
    }

    fn move_users(&self, _: &str, _: &str) -> Result<u64, Error> {
        Err(to("move users")(AccountsError::BoundToDomain))
    }

    fn domains(&self, except: &[&str]) -> Result<BTreeMap<String, u64>, Error> {
        self.copy.domains(except)
    }

    /// None: the realm of users in a database is their domain.
    fn realms(&self) -> Result<BTreeMap<String, String>, Error> {
        Ok(BTreeMap::new())
    }

    fn put_services(
        &self,
        name: &str,
        domain: &str,
        services: &CallServices,
    ) -> Result<bool, Error> {
        self.copy.put_services(name, domain, services)
    }

    fn services(
        &self,
        domain: Option<&str>,
        each: &mut dyn FnMut(UserServices),
    ) -> Result<(), Error> {
        self.copy.services(domain, each)
    }

    fn take_changes(&self) -> Result<Vec<OtherChange>, Error> {
        self.copy.take_changes()
    }

    fn user_count(&self) -> Result<u64, Error> {
        self.copy.user_count()
    }
}
