//! The names under which a user logs in (RFC 3261 section 22.4 leaves them to the server).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use hashbrown::HashMap;
use lock_api::{Mutex, RawMutex};
use sip::digest::Ha1Set;

/// The hashed credentials of a user, for each name that may stand in credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logins {
    /// For the user part of the address-of-record.
    pub by_name: Ha1Set,
    /// For `user@domain`, which some phones send.
    pub by_address: Option<Ha1Set>,
    /// For a separate authentication name, if there is one.
    pub by_auth_name: Option<Box<AuthName>>,
}

/// An authentication name with its hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthName {
    /// The name in the credentials.
    pub name: Box<[u8]>,
    /// The hashes of the password.
    pub ha1: Ha1Set,
}

impl From<Ha1Set> for Logins {
    fn from(by_name: Ha1Set) -> Self {
        Self { by_name, by_address: None, by_auth_name: None }
    }
}

/// The owners of authentication names. Few users have one.
pub(crate) struct AuthNames<R: RawMutex> {
    /// The address-of-record by `name@domain`.
    owners: Mutex<R, Owners>,
    is_empty: AtomicBool,
}

type Owners = HashMap<Box<[u8]>, Box<[u8]>>;

impl<R: RawMutex> AuthNames<R> {
    pub(crate) fn new() -> Self {
        Self { owners: Mutex::new(HashMap::new()), is_empty: AtomicBool::new(true) }
    }

    /// Changes the authentication name of the user `address`.
    pub(crate) fn change(&self, address: &[u8], old: Option<&[u8]>, new: Option<&[u8]>) {
        if old == new {
            return;
        }
        let mut owners = self.owners.lock();
        if let Some(old) = old {
            let key = key(old, domain_of(address));
            // Another user may own the name by now.
            if owners.get(&key[..]).is_some_and(|owner| **owner == *address) {
                owners.remove(&key[..]);
            }
        }
        if let Some(new) = new {
            owners.insert(key(new, domain_of(address)).into(), address.into());
        }
        self.is_empty.store(owners.is_empty(), Ordering::Relaxed);
    }

    /// True if no user has an authentication name.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty.load(Ordering::Relaxed)
    }

    /// Returns the address-of-record of the user with the authentication name `name` in `domain`.
    pub(crate) fn owner(&self, name: &[u8], domain: &[u8]) -> Option<Box<[u8]>> {
        self.owners.lock().get(&key(name, domain)[..]).cloned()
    }
}

fn key(name: &[u8], domain: &[u8]) -> Vec<u8> {
    [name, b"@", domain].concat()
}

fn domain_of(address: &[u8]) -> &[u8] {
    let at = address.iter().rposition(|&byte| byte == b'@');
    at.map_or(&[], |at| &address[at + 1..])
}
