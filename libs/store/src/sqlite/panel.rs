//! The data of the panel in the database.

use super::failure::to;
use super::services;
use super::{Error, Sqlite};
use crate::panel::{
    MAX_ACCOUNT_ACTIONS, MAX_OWN_ACTIONS, MAX_PANEL_ACTIONS, PanelAccount, PanelAction, PanelData,
    PanelToken, PhoneLink, SecondFactor,
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use sip::digest::Ha1Set;
use sip_server::CallServices;

/// The operations, as errors name them.
const READ: &str = "read the data of the panel";
const STORE: &str = "store the data of the panel";

/// The number of actions that are stored between two deletions of the oldest ones, which read all.
const ACTIONS_AT_ONCE: i64 = 100;

impl PanelData for Sqlite {
    fn panel_accounts(&self) -> Result<Vec<PanelAccount>, Error> {
        accounts(&self.database()).map_err(to(READ))
    }

    fn put_panel_account(&self, account: &PanelAccount) -> Result<(), Error> {
        put_account(&self.database(), account).map_err(to(STORE))
    }

    fn remove_panel_account(&self, name: &str) -> Result<bool, Error> {
        self.remove_second_factor(name)?;
        self.change("DELETE FROM panel_account WHERE name = ?1", params![name])
    }

    fn second_factor(&self, account: &str) -> Result<Option<SecondFactor>, Error> {
        second_factor(&self.database(), account).map_err(to(READ))
    }

    fn put_second_factor(&self, account: &str, factor: &SecondFactor) -> Result<(), Error> {
        put_second_factor(&self.database(), account, factor).map_err(to(STORE))
    }

    fn remove_second_factor(&self, account: &str) -> Result<bool, Error> {
        self.change("DELETE FROM panel_second_factor WHERE account = ?1", params![account])
    }

    fn panel_tokens(&self) -> Result<Vec<PanelToken>, Error> {
        tokens(&self.database()).map_err(to(READ))
    }

    fn put_panel_token(&self, token: &PanelToken) -> Result<(), Error> {
        put_token(&self.database(), token).map_err(to(STORE))
    }

    fn remove_panel_token(&self, name: &str) -> Result<bool, Error> {
        self.change("DELETE FROM panel_token WHERE name = ?1", params![name])
    }

    fn phone_links(&self) -> Result<Vec<PhoneLink>, Error> {
        let database = self.database();
        let read = || -> rusqlite::Result<Vec<_>> {
            let mut select = database.prepare_cached(
                "SELECT hash, user, kind, server, transport, port, mark, made
                 FROM panel_phone_link ORDER BY made",
            )?;
            let link = |row: &Row<'_>| {
                Ok(PhoneLink {
                    hash: row.get(0)?,
                    user: row.get(1)?,
                    kind: row.get(2)?,
                    server: row.get(3)?,
                    transport: row.get(4)?,
                    port: row.get(5)?,
                    mark: row.get(6)?,
                    made: row.get::<_, i64>(7)?.cast_unsigned(),
                })
            };
            select.query_map([], link)?.collect()
        };
        read().map_err(to(READ))
    }

    fn put_phone_link(&self, link: &PhoneLink) -> Result<(), Error> {
        let PhoneLink { hash, user, kind, server, transport, port, mark, made } = link;
        self.change(
            "INSERT OR REPLACE INTO panel_phone_link VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![hash, user, kind, server, transport, port, mark, made.cast_signed()],
        )
        .map(drop)
    }

    fn remove_phone_link(&self, hash: &[u8; 32]) -> Result<bool, Error> {
        self.change("DELETE FROM panel_phone_link WHERE hash = ?1", params![hash])
    }

    fn add_panel_action(&self, action: &PanelAction) -> Result<(), Error> {
        let PanelAction { at, account, source, action, object, error } = action;
        let database = self.database();
        let add = || -> rusqlite::Result<()> {
            database
                .prepare_cached(
                    "INSERT INTO panel_action (at, account, source, action, object, error)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?
                .execute(params![at.cast_signed(), account, source, action, object, error])?;
            match database.last_insert_rowid() % ACTIONS_AT_ONCE {
                0 => delete_old_actions(&database),
                _ => Ok(()),
            }
        };
        add().map_err(to(STORE))
    }

    fn panel_actions(&self, before: i64, most: usize) -> Result<Vec<(i64, PanelAction)>, Error> {
        let database = self.database();
        let read = || -> rusqlite::Result<Vec<_>> {
            let mut select = database.prepare_cached(
                "SELECT id, at, account, source, action, object, error FROM panel_action
                 WHERE id < ?1 ORDER BY id DESC LIMIT ?2",
            )?;
            select.query_map(params![before, most as i64], action)?.collect()
        };
        read().map_err(to(READ))
    }

    fn find_users(
        &self,
        search: &str,
        after: Option<(&str, &str)>,
        most: usize,
    ) -> Result<Vec<(String, String)>, Error> {
        let database = self.database();
        let (domain, name) = after.unwrap_or_default();
        let read = || -> rusqlite::Result<Vec<_>> {
            let mut select = database.prepare_cached(
                "SELECT name, domain FROM subscriber
                 WHERE (domain, name) > (?1, ?2)
                     AND name || '@' || domain LIKE ?3 ESCAPE '\\'
                 ORDER BY domain, name LIMIT ?4",
            )?;
            let values = params![domain, name, containing(search), most as i64];
            select.query_map(values, |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        read().map_err(to("read the users"))
    }

    fn services_of(&self, name: &str, domain: &str) -> Result<CallServices, Error> {
        services::one(&self.database(), name, domain)
    }

    fn auth_name_of(&self, name: &str, domain: &str) -> Result<Option<String>, Error> {
        let database = self.database();
        let read = || {
            let mut select = database.prepare_cached(
                "SELECT auth_name FROM subscriber WHERE domain = ?1 AND name = ?2",
            )?;
            select.query_row([domain, name], |row| row.get(0)).optional()
        };
        read().map(Option::flatten).map_err(to("read the authentication name of a user"))
    }

    fn login_of(&self, name: &str, domain: &str) -> Result<Option<Ha1Set>, Error> {
        let database = self.database();
        let read = || {
            let mut select = database.prepare_cached(
                "SELECT ha1_md5, ha1_sha256, ha1_sha512_256 FROM subscriber
                 WHERE domain = ?1 AND name = ?2",
            )?;
            let hashes = |row: &Row<'_>| {
                Ok(Ha1Set { md5: row.get(0)?, sha256: row.get(1)?, sha512_256: row.get(2)? })
            };
            select.query_row([domain, name], hashes).optional()
        };
        read().map_err(to("read the password of a user"))
    }
}

/// Deletes the oldest actions beyond the limits: of users and failed logins together, of each
/// account, and of all accounts.
fn delete_old_actions(database: &Connection) -> rusqlite::Result<()> {
    database
        .prepare_cached(
            "WITH action AS (
                 SELECT id, CASE
                     WHEN account GLOB 'user *' THEN NULL
                     WHEN error <> '' AND action IN ('log in', 'use the HTTP API') THEN NULL
                     ELSE account END AS owner
                 FROM panel_action
             ), placed AS (
                 SELECT id, owner,
                     row_number() OVER (PARTITION BY owner ORDER BY id DESC) AS place,
                     row_number() OVER (PARTITION BY owner IS NULL ORDER BY id DESC) AS among
                 FROM action
             )
             DELETE FROM panel_action WHERE id IN (
                 SELECT id FROM placed
                 WHERE CASE WHEN owner IS NULL THEN place > ?1 ELSE place > ?2 OR among > ?3 END
             )",
        )?
        .execute([MAX_OWN_ACTIONS, MAX_ACCOUNT_ACTIONS, MAX_PANEL_ACTIONS - MAX_OWN_ACTIONS])
        .map(drop)
}

/// The LIKE pattern of texts that contain `part`, with a backslash as escape.
fn containing(part: &str) -> String {
    let mut pattern = "%".to_owned();
    for character in part.chars() {
        if matches!(character, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push('%');
    pattern
}

fn action(row: &Row<'_>) -> rusqlite::Result<(i64, PanelAction)> {
    let action = PanelAction {
        at: row.get::<_, i64>(1)?.cast_unsigned(),
        account: row.get(2)?,
        source: row.get(3)?,
        action: row.get(4)?,
        object: row.get(5)?,
        error: row.get(6)?,
    };
    Ok((row.get(0)?, action))
}

/// All accounts, by name.
pub(super) fn accounts(database: &Connection) -> rusqlite::Result<Vec<PanelAccount>> {
    let mut select = database
        .prepare_cached("SELECT name, role, password, created FROM panel_account ORDER BY name")?;
    let account = |row: &Row<'_>| {
        Ok(PanelAccount {
            name: row.get(0)?,
            role: row.get(1)?,
            password: row.get(2)?,
            created: row.get::<_, i64>(3)?.cast_unsigned(),
        })
    };
    select.query_map([], account)?.collect()
}

/// Stores or replaces an account.
pub(super) fn put_account(database: &Connection, account: &PanelAccount) -> rusqlite::Result<()> {
    let PanelAccount { name, role, password, created } = account;
    database
        .prepare_cached("INSERT OR REPLACE INTO panel_account VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![name, role, password, created.cast_signed()])
        .map(drop)
}

/// The second factor of an account.
pub(super) fn second_factor(
    database: &Connection,
    account: &str,
) -> rusqlite::Result<Option<SecondFactor>> {
    let mut select = database
        .prepare_cached("SELECT secret, used FROM panel_second_factor WHERE account = ?1")?;
    let factor = |row: &Row<'_>| {
        Ok(SecondFactor { secret: row.get(0)?, used: row.get::<_, i64>(1)?.cast_unsigned() })
    };
    select.query_row([account], factor).optional()
}

/// Stores or replaces the second factor of an account.
pub(super) fn put_second_factor(
    database: &Connection,
    account: &str,
    factor: &SecondFactor,
) -> rusqlite::Result<()> {
    let SecondFactor { secret, used } = factor;
    database
        .prepare_cached("INSERT OR REPLACE INTO panel_second_factor VALUES (?1, ?2, ?3)")?
        .execute(params![account, secret, used.cast_signed()])
        .map(drop)
}

/// All tokens, by name.
pub(super) fn tokens(database: &Connection) -> rusqlite::Result<Vec<PanelToken>> {
    let mut select = database
        .prepare_cached("SELECT name, role, hash, created FROM panel_token ORDER BY name")?;
    let token = |row: &Row<'_>| {
        Ok(PanelToken {
            name: row.get(0)?,
            role: row.get(1)?,
            hash: row.get(2)?,
            created: row.get::<_, i64>(3)?.cast_unsigned(),
        })
    };
    select.query_map([], token)?.collect()
}

/// Stores or replaces a token.
pub(super) fn put_token(database: &Connection, token: &PanelToken) -> rusqlite::Result<()> {
    let PanelToken { name, role, hash, created } = token;
    database
        .prepare_cached("INSERT OR REPLACE INTO panel_token VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![name, role, hash, created.cast_signed()])
        .map(drop)
}

impl Sqlite {
    /// Returns true if a row was changed.
    fn change(&self, statement: &str, values: &[&dyn rusqlite::ToSql]) -> Result<bool, Error> {
        let database = self.database();
        let change = || database.prepare_cached(statement)?.execute(values);
        change().map(|count| count > 0).map_err(to(STORE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::tests::open;
    use crate::{User, Users};
    use sip_server::Logins;
    use std::collections::BTreeMap;

    fn account(name: &str, role: &str) -> PanelAccount {
        PanelAccount { name: name.into(), role: role.into(), password: "$x".into(), created: 7 }
    }

    #[test]
    fn accounts_and_tokens_are_replaced_by_name_and_removed() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        storage.put_panel_account(&account("eve", "administrator")).unwrap();
        storage.put_panel_account(&account("bob", "operator")).unwrap();
        storage.put_panel_account(&account("eve", "reader")).unwrap();
        let expected = [account("bob", "operator"), account("eve", "reader")];
        assert_eq!(storage.panel_accounts().unwrap(), expected);
        assert!(storage.remove_panel_account("bob").unwrap());
        assert!(!storage.remove_panel_account("bob").unwrap());
        let token =
            PanelToken { name: "ci".into(), role: "reader".into(), hash: [9; 32], created: 1 };
        storage.put_panel_token(&token).unwrap();
        drop(storage);
        let storage = open(directory.path());
        assert_eq!(storage.panel_tokens().unwrap(), [token]);
        assert!(storage.remove_panel_token("ci").unwrap());
        assert!(storage.panel_tokens().unwrap().is_empty());
    }

    #[test]
    fn a_second_factor_is_replaced_and_removed_with_its_account() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        storage.put_panel_account(&account("eve", "operator")).unwrap();
        assert_eq!(storage.second_factor("eve").unwrap(), None);
        let factor = |used| SecondFactor { secret: vec![1; 20], used };
        storage.put_second_factor("eve", &factor(5)).unwrap();
        storage.put_second_factor("eve", &factor(6)).unwrap();
        assert_eq!(storage.second_factor("eve").unwrap(), Some(factor(6)));
        assert!(storage.remove_second_factor("eve").unwrap());
        assert!(!storage.remove_second_factor("eve").unwrap());
        storage.put_second_factor("eve", &factor(7)).unwrap();
        storage.put_panel_account(&account("eve", "reader")).unwrap();
        assert!(storage.second_factor("eve").unwrap().is_some(), "a new password keeps it");
        assert!(storage.remove_panel_account("eve").unwrap());
        assert_eq!(storage.second_factor("eve").unwrap(), None);
    }

    #[test]
    fn links_for_phones_are_kept_until_they_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        let link = |number: u8, made| PhoneLink {
            hash: [number; 32],
            user: "bob@a.com".into(),
            kind: "snom".into(),
            server: "pbx".into(),
            transport: "tls".into(),
            port: 5061,
            mark: [9; 32],
            made,
        };
        storage.put_phone_link(&link(1, 8)).unwrap();
        storage.put_phone_link(&link(2, 7)).unwrap();
        drop(storage);
        let storage = open(directory.path());
        assert_eq!(storage.phone_links().unwrap(), [link(2, 7), link(1, 8)]);
        assert!(storage.remove_phone_link(&[1; 32]).unwrap());
        assert!(!storage.remove_phone_link(&[1; 32]).unwrap());
        assert_eq!(storage.phone_links().unwrap(), [link(2, 7)]);
    }

    /// Stores `count` actions of `account`, without a wait for the disk.
    fn act(storage: &Sqlite, account: &str, action: &str, error: &str, count: u64) {
        storage.database().execute_batch("PRAGMA synchronous = OFF").unwrap();
        for at in 0..count {
            let action = PanelAction {
                at,
                account: account.into(),
                source: "192.0.2.1".into(),
                action: action.into(),
                object: String::new(),
                error: error.into(),
            };
            storage.add_panel_action(&action).unwrap();
        }
    }

    /// The number of stored actions of each account.
    fn counts(storage: &Sqlite) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for (_, action) in storage.panel_actions(i64::MAX, usize::MAX >> 1).unwrap() {
            *counts.entry(action.account).or_default() += 1;
        }
        counts
    }

    #[test]
    fn actions_are_read_by_pages_and_the_oldest_are_deleted() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        let count = u64::from(MAX_ACCOUNT_ACTIONS) + 100;
        act(&storage, "eve", "log in", "", count);
        let page = storage.panel_actions(i64::MAX, 3).unwrap();
        let times: Vec<_> = page.iter().map(|(_, action)| action.at).collect();
        assert_eq!(times, [count - 1, count - 2, count - 3]);
        let rest = storage.panel_actions(page[2].0, usize::MAX >> 1).unwrap();
        assert_eq!(rest.len(), MAX_ACCOUNT_ACTIONS as usize - 3);
        assert_eq!(rest.last().unwrap().1.at, 100);
    }

    #[test]
    fn actions_of_users_and_failed_logins_and_those_of_one_account_push_out_no_others() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        act(&storage, "eve", "remove user", "", 1);
        act(&storage, "user mallory@a.com", "change services", "", 2_999);
        act(&storage, "eve", "log in", "wrong name or password", 1_000);
        act(&storage, "", "use the HTTP API", "wrong token", 1_000);
        let found = counts(&storage);
        assert_eq!(found["eve"] + found[""], 1 + MAX_OWN_ACTIONS as usize, "{found:?}");
        assert_eq!(found.get("user mallory@a.com"), None);
        act(&storage, "oscar", "change services", "", u64::from(MAX_ACCOUNT_ACTIONS) + 100);
        act(&storage, "token x", "change services", "", u64::from(MAX_PANEL_ACTIONS) / 4);
        let found = counts(&storage);
        let [of_oscar, most] = [found["oscar"], MAX_ACCOUNT_ACTIONS as usize];
        assert_eq!(of_oscar, most);
        let actions = storage.panel_actions(i64::MAX, usize::MAX >> 1).unwrap();
        let first = actions.last().unwrap();
        assert_eq!((&*first.1.account, &*first.1.action), ("eve", "remove user"));
        assert!(actions.len() <= MAX_PANEL_ACTIONS as usize);
    }

    #[test]
    fn users_are_found_by_pages_and_by_parts_of_their_address() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        let user = |name: &str, domain: &str| User {
            name: name.to_owned(),
            domain: domain.into(),
            logins: Logins {
                by_name: Ha1Set::new(name.as_bytes(), domain.as_bytes(), b"secret"),
                by_address: None,
                by_auth_name: None,
            },
        };
        let users = [user("Alice", "a.com"), user("bob", "a.com"), user("alice", "b.com")];
        storage.put_users(&users).unwrap();
        let find = |search: &str, after, most| storage.find_users(search, after, most).unwrap();
        let pair = |name: &str, domain: &str| (name.to_owned(), domain.to_owned());
        assert_eq!(find("", None, 2), [pair("Alice", "a.com"), pair("bob", "a.com")]);
        assert_eq!(find("", Some(("a.com", "bob")), 2), [pair("alice", "b.com")]);
        assert_eq!(find("ALI", None, 9), [pair("Alice", "a.com"), pair("alice", "b.com")]);
        assert_eq!(find("b@a", None, 9), [pair("bob", "a.com")]);
        for pattern in ["%", "_ob", "\\", "\\%"] {
            assert!(find(pattern, None, 9).is_empty(), "{pattern}");
        }
        let login = |name: &str, domain: &str| storage.login_of(name, domain).unwrap();
        assert_eq!(login("alice", "b.com"), Some(users[2].logins.by_name.clone()));
        assert_eq!((login("alice", "a.com"), login("", "")), (None, None));
    }
}
