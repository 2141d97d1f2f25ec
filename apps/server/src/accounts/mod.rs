//! Management of users, for a running server and for commands on a stopped one.

mod error;
mod import;
mod logins;
mod names;
mod services;

pub(crate) use error::{BadLine, Error};
pub(crate) use names::{Identity, domain, identify};
pub(crate) use services::{
    ForwardKind, ServiceChange, Services, ServicesRow, change as change_services, unknown_targets,
};

use crate::domains::sip_uri;
use import::read_users;
use logins::{AuthNames, user};
use std::collections::HashMap;
use std::io::BufRead;
use std::sync::Arc;
use store::{Change, User, Users};
use users::{check_auth_name, is_password};

/// The result of storing users.
#[derive(Debug)]
pub(crate) struct Stored {
    /// The stored users.
    pub(crate) users: Vec<User>,
    /// The numbers of new and changed users.
    pub(crate) change: Change,
}

/// Adds a user, or changes the password of an existing one. Without `auth_name` an existing
/// authentication name is kept.
///
/// # Errors
/// [`Error`] if the password or the authentication name is invalid, the authentication name belongs
/// to another user, or the storage fails.
pub(crate) fn add(
    storage: &dyn Users,
    identity: &Identity,
    password: &str,
    auth_name: Option<&str>,
) -> Result<Stored, Error> {
    if !is_password(password.as_bytes()) {
        return Err(Error::BadPassword);
    }
    if let Some(auth_name) = auth_name {
        check_auth_name(auth_name, &identity.domain)
            .map_err(|error| Error::BadName(error.to_string()))?;
    }
    let domain = Arc::from(identity.domain.as_str());
    let known = AuthNames::of(storage, &domain)?;
    let auth_name = auth_name.or_else(|| known.of_user(&identity.name));
    let realm = realm(storage, &domain)?;
    let users = vec![user(&identity.name, &domain, &realm, password.as_bytes(), auth_name)];
    known.check(storage, &users)?;
    let change = storage.put_users(&users)?;
    Ok(Stored { users, change })
}

/// Removes the user.
///
/// # Errors
/// [`Error`] if the user does not exist, or the storage fails.
pub(crate) fn remove(storage: &dyn Users, identity: &Identity) -> Result<(), Error> {
    match storage.remove_user(&identity.name, &identity.domain)? {
        true => Ok(()),
        false => Err(Error::Unknown(identity.uri())),
    }
}

/// Adds the users in `input` to `domain`. Each line is `name:password` or
/// `name<authentication name>:password`. On an error no user is added.
///
/// # Errors
/// [`Error`] if a line is invalid, or reading or the storage fails.
pub(crate) fn import(
    storage: &dyn Users,
    domain: &str,
    input: &mut dyn BufRead,
) -> Result<Stored, Error> {
    let users = users_of(storage, domain, input)?;
    let change = storage.put_users(&users)?;
    Ok(Stored { users, change })
}

/// The effect of [`import()`], which is not carried out.
///
/// # Errors
/// See [`import()`].
pub(crate) fn try_import(
    storage: &dyn Users,
    domain: &str,
    input: &mut dyn BufRead,
) -> Result<Change, Error> {
    let users = users_of(storage, domain, input)?;
    let mut stored = HashMap::new();
    storage.users(Some(domain), &mut |user| {
        stored.insert(user.name, user.logins.by_name.sha256);
        true
    })?;
    let mut change = Change::default();
    // Of two lines with one name the later one is compared with the earlier one, as it is stored.
    for User { name, logins, .. } in users {
        let hash = logins.by_name.sha256;
        match stored.insert(name, hash) {
            None => change.added += 1,
            Some(before) if before == hash => change.unchanged += 1,
            Some(_) => change.changed += 1,
        }
    }
    Ok(change)
}

/// The users in `input`, by their names.
fn users_of(
    storage: &dyn Users,
    domain: &str,
    input: &mut dyn BufRead,
) -> Result<Vec<User>, Error> {
    let domain: Arc<str> = Arc::from(domain);
    let known = AuthNames::of(storage, &domain)?;
    let realm = realm(storage, &domain)?;
    let mut users = read_users(input, &domain, &realm, &known)?;
    // In the order of the primary key each database page is written once. The sort is stable, so of
    // two lines with one name the later one still has effect.
    users.sort_by(|a, b| a.name.cmp(&b.name));
    known.check(storage, &users)?;
    Ok(users)
}

/// Moves all users of the domain `from` to the domain `to`. Their passwords stay valid: `to` takes
/// over the digest realm of `from`.
///
/// # Errors
/// [`Error`] if `from` has no users, `to` has users with another realm or with the same name, or
/// the storage fails.
pub(crate) fn move_users(storage: &dyn Users, from: &str, to: &str) -> Result<u64, Error> {
    let users = storage.domains(&[])?;
    if from == to || !users.contains_key(from) {
        return Err(Error::NothingToMove {
            from: from.to_owned(),
            domains: users.into_keys().collect(),
        });
    }
    if users.contains_key(to) {
        if realm(storage, from)? != realm(storage, to)? {
            return Err(Error::OtherRealm { from: from.to_owned(), to: to.to_owned() });
        }
        let mut names = Vec::new();
        storage.users(Some(from), &mut |user| {
            names.push(user.name);
            true
        })?;
        for name in names {
            if storage.has_user(&name, to)? {
                return Err(Error::Exists(sip_uri(&name, to)));
            }
        }
    }
    Ok(storage.move_users(from, to)?)
}

/// The digest realm of `domain`.
///
/// # Errors
/// [`Error`] if the storage fails.
pub(crate) fn realm(storage: &dyn Users, domain: &str) -> Result<String, Error> {
    Ok(storage.realms()?.remove(domain).unwrap_or_else(|| domain.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::tests::{all, open};

    fn identity(name: &str, domain: &str) -> Identity {
        Identity { name: name.to_owned(), domain: domain.to_owned() }
    }

    #[test]
    fn a_bad_line_stops_the_import_and_the_last_line_of_a_name_counts() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        assert!(import(&storage, "a.com", &mut &b"alice:1\nbob\n"[..]).is_err());
        let text = &b"bob:1\nalice:1\nbob:2\nalice:3\n"[..];
        let told = try_import(&storage, "a.com", &mut { text }).unwrap();
        assert_eq!(storage.user_count().unwrap(), 0);
        let stored = import(&storage, "a.com", &mut { text }).unwrap();
        assert_eq!(told, stored.change);
        let again = try_import(&storage, "a.com", &mut &b"bob:2\ncarol:1\nalice:4\n"[..]);
        assert_eq!(again.unwrap(), Change { added: 1, changed: 1, unchanged: 1 });
        assert_eq!(stored.change, Change { added: 2, changed: 2, unchanged: 0 });
        let domain = Arc::from("a.com");
        let users = all(&storage, None);
        let user = |name: &str, password| user(name, &domain, "a.com", password, None);
        assert_eq!(users, [user("alice", b"3"), user("bob", b"2")]);
    }

    #[test]
    fn a_user_is_added_changed_and_removed() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        let alice = identity("alice", "a.com");
        assert_eq!(add(&storage, &alice, "1", None).unwrap().change.added, 1);
        assert_eq!(add(&storage, &alice, "2", None).unwrap().change.changed, 1);
        assert!(matches!(add(&storage, &alice, "", None), Err(Error::BadPassword)));
        remove(&storage, &alice).unwrap();
        assert!(matches!(remove(&storage, &alice), Err(Error::Unknown(_))));
    }

    #[test]
    fn users_move_with_their_passwords() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        add(&storage, &identity("alice", "pbx"), "1", Some("x")).unwrap();
        assert!(matches!(move_users(&storage, "else", "a.com"), Err(Error::NothingToMove { .. })));
        assert_eq!(move_users(&storage, "pbx", "a.com").unwrap(), 1);
        assert_eq!(storage.realms().unwrap()["a.com"], "pbx");
        add(&storage, &identity("bob", "a.com"), "2", None).unwrap();
        let domain = Arc::from("a.com");
        let moved = all(&storage, None);
        let made = |name: &str, password, auth| user(name, &domain, "pbx", password, auth);
        assert_eq!(moved[0].logins.by_name, made("alice", b"1", None).logins.by_name);
        assert_eq!(
            moved[0].logins.by_auth_name,
            made("alice", b"1", Some("x")).logins.by_auth_name
        );
        assert_eq!(moved[1], made("bob", b"2", None));
        // A move to a domain with users of another realm, and to one with a user of the same name.
        add(&storage, &identity("carol", "b.com"), "3", None).unwrap();
        assert!(matches!(move_users(&storage, "a.com", "b.com"), Err(Error::OtherRealm { .. })));
        add(&storage, &identity("bob", "pbx"), "4", None).unwrap();
        assert!(matches!(move_users(&storage, "a.com", "pbx"), Err(Error::Exists(_))));
        remove(&storage, &identity("bob", "pbx")).unwrap();
        // A move back.
        assert_eq!(move_users(&storage, "a.com", "pbx").unwrap(), 2);
        assert!(storage.realms().unwrap().is_empty());
    }

    #[test]
    fn an_authentication_name_stays_until_there_is_another_and_is_one_users_alone() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        let add = |name: &str, auth: Option<&str>| {
            add(&storage, &identity(name, "a.com"), "secret", auth).map(|stored| {
                stored.users[0].logins.by_auth_name.as_ref().map(|auth| auth.name.to_vec())
            })
        };
        let is_taken = |result| matches!(result, Err(Error::Taken { .. }));
        assert_eq!(add("alice", Some("x")).unwrap().unwrap(), b"x");
        assert_eq!(add("alice", None).unwrap().unwrap(), b"x", "with another password");
        assert!(is_taken(add("bob", Some("x"))));
        assert!(is_taken(add("x", None)), "alice logs in as x");
        assert!(is_taken(add("bob", Some("alice"))));
        assert_eq!(add("alice", Some("y")).unwrap().unwrap(), b"y");
        assert_eq!(add("bob", Some("x")).unwrap().unwrap(), b"x", "it is free again");
        for bad in ["", "a b", "bob@a.com", "a@b@c"] {
            assert!(matches!(add("bob", Some(bad)), Err(Error::BadName(_))), "{bad}");
        }
        assert_eq!(add("bob", Some("7@isp.example")).unwrap().unwrap(), b"7@isp.example");
        let import = |text: &str| import(&storage, "a.com", &mut text.as_bytes());
        assert!(is_taken(import("carol<y>:p\n").map(|_| None)));
        assert!(is_taken(import("carol<d>:p\ndave<d>:p\n").map(|_| None)));
        assert!(is_taken(import("carol<dave>:p\ndave:p\n").map(|_| None)));
        let stored = import("carol<y>:p<q>:r\nalice<z>:p\nbob:p\n").unwrap();
        let names: Vec<_> = stored
            .users
            .iter()
            .map(|user| String::from_utf8_lossy(&user.logins.by_auth_name.as_ref().unwrap().name))
            .collect();
        assert_eq!(names, ["z", "7@isp.example", "y"], "alice makes room for carol");
    }
}
