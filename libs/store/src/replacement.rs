//! The replacement of stored data by those of a backup.

use crate::{Error, PanelAccount, PanelToken, SecondFactor, StoredCall, User, UserServices};
use std::collections::BTreeMap;

/// Data that replace stored ones. Parts that are `None` stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replacement {
    /// All users.
    pub users: Option<UserSet>,
    /// The call services of all users. Users that are not named have none.
    pub services: Option<Vec<UserServices>>,
    /// All accounts and tokens of the panel.
    pub panel: Option<PanelSet>,
    /// Records of calls. They are added to the stored ones, each once.
    pub calls: Vec<StoredCall>,
}

/// All users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserSet {
    /// The users. Their names differ, and no login name is of two users.
    pub users: Vec<User>,
    /// The digest realms of domains, as of [`Users::realms`](crate::Users::realms).
    pub realms: BTreeMap<String, String>,
}

/// All accounts and tokens of the panel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PanelSet {
    /// The accounts, each with its second factor.
    pub accounts: Vec<(PanelAccount, Option<SecondFactor>)>,
    /// The tokens.
    pub tokens: Vec<PanelToken>,
}

/// The names that a replacement adds, changes and removes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// The names that were not stored.
    pub added: Vec<String>,
    /// The stored names with other data.
    pub changed: Vec<String>,
    /// The stored names that the replacement does not have.
    pub removed: Vec<String>,
    /// The number of stored names with the same data.
    pub unchanged: u64,
}

/// The result of a replacement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replaced {
    /// The users, as `name@domain`.
    pub users: Difference,
    /// The users with call services, as `name@domain`.
    pub services: Difference,
    /// The accounts of the panel.
    pub accounts: Difference,
    /// The tokens of the panel.
    pub tokens: Difference,
    /// The number of added records of calls.
    pub calls: u64,
    /// The users that were added or changed.
    pub put_users: Vec<User>,
    /// The users that were removed: names and domains.
    pub removed_users: Vec<(String, String)>,
    /// The call services that were changed. Empty ones were removed.
    pub put_services: Vec<UserServices>,
    /// The users that do not exist: their call services were left out.
    pub unknown: Vec<String>,
}

/// The storage as the target of a backup.
pub trait Replace: Send + Sync {
    /// Replaces stored data in one transaction. On an error nothing is changed. Registrations of
    /// removed users, and of users with another password, are deleted. `is_trial` computes the
    /// result only.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn replace(&self, data: &Replacement, is_trial: bool) -> Result<Replaced, Error>;
}
