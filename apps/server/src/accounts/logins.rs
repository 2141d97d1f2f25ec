//! Login data of users: hashes of passwords, and authentication names, each of exactly one user.

use super::error::Error;
use crate::domains::sip_uri;
use sip::digest::Ha1Set;
use sip_server::{AuthName, Logins};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use store::{User, Users};

/// The user `name` of `domain`, with the hashes of `password` for the digest `realm` of the domain.
pub(super) fn user(
    name: &str,
    domain: &Arc<str>,
    realm: &str,
    password: &[u8],
    auth_name: Option<&str>,
) -> User {
    let ha1 = |login: &str| Ha1Set::new(login.as_bytes(), realm.as_bytes(), password);
    let logins = Logins {
        by_name: ha1(name),
        by_address: Some(ha1(&format!("{name}@{domain}"))),
        by_auth_name: auth_name
            .map(|auth| Box::new(AuthName { name: auth.as_bytes().into(), ha1: ha1(auth) })),
    };
    User { name: name.to_owned(), domain: Arc::clone(domain), logins }
}

/// The authentication names in a domain.
#[derive(Default)]
pub(super) struct AuthNames {
    /// User names by authentication name.
    owners: HashMap<String, String>,
    /// Authentication names by user name.
    names: HashMap<String, String>,
}

impl AuthNames {
    pub(super) fn of(storage: &dyn Users, domain: &str) -> Result<Self, Error> {
        let owners = storage.auth_names(domain)?;
        let names = owners.iter().map(|(name, owner)| (owner.clone(), name.clone())).collect();
        Ok(Self { owners, names })
    }

    /// The authentication name of the user `name`.
    pub(super) fn of_user(&self, name: &str) -> Option<&str> {
        self.names.get(name).map(String::as_str)
    }

    /// Checks that each login name still belongs to exactly one user after `users` of this domain
    /// are stored.
    ///
    /// # Errors
    /// [`Error::Taken`] if a name would belong to two users.
    pub(super) fn check(&self, storage: &dyn Users, users: &[User]) -> Result<(), Error> {
        let mut owners = self.owners.clone();
        // Users with a new authentication name give up the former one.
        for user in users {
            if let Some(name) = self.of_user(&user.name) {
                owners.remove(name);
            }
        }
        let new: HashSet<&str> = users.iter().map(|user| user.name.as_str()).collect();
        let taken = |name: &str, owner: &str, user: &User| Error::Taken {
            name: name.to_owned(),
            owner: sip_uri(owner, &user.domain),
        };
        for user in users {
            let Some(auth) = &user.logins.by_auth_name else { continue };
            let name = String::from_utf8_lossy(&auth.name).into_owned();
            let is_name = name != user.name
                && (new.contains(&name[..]) || storage.has_user(&name, &user.domain)?);
            if is_name {
                return Err(taken(&name, &name, user));
            }
            match owners.insert(name.clone(), user.name.clone()) {
                Some(owner) if owner != user.name => return Err(taken(&name, &owner, user)),
                _ => {}
            }
        }
        for user in users {
            if let Some(owner) = owners.get(&user.name).filter(|owner| **owner != user.name) {
                return Err(taken(&user.name, owner, user));
            }
        }
        Ok(())
    }
}
