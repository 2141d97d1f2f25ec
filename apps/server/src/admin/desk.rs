//! The interface of the administration to a server.

use super::limited_use::LimitedUse;
use super::trunk::Trunk;
use super::{Call, CallEnded, Condition, Drained, Registration};
use crate::backup::Stored;
use crate::trace::Tracer;
use crate::why::Refusals;
use notifier::Messages;
use sip_server::CallServices;
use sip_server::config::Domain;
use std::path::Path;
use store::postgres::CopiedUsers;
use store::{CallRecords, Error, PanelData, Replaced, Storage, User, Users};

/// The setting that names the database of accounts from which users are copied to the storage.
const ACCOUNTS: &str = "accounts";

/// The database of accounts from which `storage` has its users, if any.
///
/// # Errors
/// [`Error`] if the storage fails.
pub(crate) fn accounts_of(storage: &dyn Storage) -> Result<Option<String>, Error> {
    let stored = storage.setting(ACCOUNTS)?.filter(|place| !place.is_empty());
    Ok(stored.map(|place| String::from_utf8_lossy(&place).into_owned()))
}

/// Stores the name of the database of accounts. `None` removes it.
///
/// # Errors
/// [`Error`] if the storage fails.
pub(crate) fn remember_accounts(storage: &dyn Storage, place: Option<&str>) -> Result<(), Error> {
    match accounts_of(storage)?.as_deref() == place {
        true => Ok(()),
        false => storage.set_setting(ACCOUNTS, place.unwrap_or_default().as_bytes()),
    }
}

/// A server: a running one, or the stored data of a stopped one. Called from threads that may
/// block.
pub(crate) trait Desk: Send + Sync {
    /// The storage.
    fn storage(&self) -> &dyn Storage;

    /// The data directory.
    fn data(&self) -> &Path;

    /// The configuration file, if there is one.
    fn config_file(&self) -> Option<&Path>;

    /// The stored users.
    fn users(&self) -> &dyn Users {
        self.storage()
    }

    /// The database of accounts that is copied to the storage. `None` if the storage is
    /// their only place.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn accounts(&self) -> Result<Option<String>, Error> {
        accounts_of(self.storage())
    }

    /// The users of the database of accounts, for changes. `None` if the configuration names no
    /// such database.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn copied_users(&self) -> Result<Option<CopiedUsers<'_>>, Error>;

    /// The stored records of calls.
    fn call_records(&self) -> &dyn CallRecords {
        self.storage()
    }

    /// The stored accounts and tokens of the panel.
    fn panel_data(&self) -> &dyn PanelData {
        self.storage()
    }

    /// The present status.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn condition(&self) -> Result<Condition, Error>;

    /// The domains served, the default one first.
    fn domains(&self) -> Vec<Domain>;

    /// Passes every binding that has not expired to `each`, until that returns false.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn registrations(&self, each: &mut dyn FnMut(Registration) -> bool) -> Result<(), Error>;

    /// Ends the registration of the user `name@domain`, or only its binding of the URI `contact`.
    /// Returns the bindings that ended.
    ///
    /// # Errors
    /// A message: there is no such binding, or no server runs.
    fn end_registration(
        &self,
        name: &str,
        domain: &str,
        contact: Option<&str>,
    ) -> Result<Vec<Registration>, String>;

    /// The calls that stand and are relayed or pass the B2BUA, the oldest first.
    fn calls(&self) -> Vec<Call>;

    /// The use of trunks within its limits.
    fn limits(&self) -> Vec<LimitedUse>;
    /// The trunks, in the order of the configuration.
    fn trunks(&self) -> Vec<Trunk>;

    /// Ends such a call by a BYE to both ends.
    ///
    /// # Errors
    /// A message: there is no such call, or it cannot be ended.
    fn end_call(&self, id: &str) -> Result<CallEnded, String>;

    /// The numbers of messages of `user`, which is `name@domain`, after `counts` are set.
    ///
    /// # Errors
    /// A message: no server runs.
    fn messages(&self, user: &str, counts: Option<Messages>) -> Result<Messages, String>;

    /// The tracer of messages.
    ///
    /// # Errors
    /// A message: no server runs.
    fn tracer(&self) -> Result<&Tracer, String>;

    /// The last refusals.
    ///
    /// # Errors
    /// A message: no server runs.
    fn refusals(&self) -> Result<&Refusals, String>;

    /// The Call-ID of the call that stands with the identifier `id`, or `id` itself.
    fn call_id(&self, id: &str) -> String;

    /// Refuses new calls, or accepts them again.
    ///
    /// # Errors
    /// A message: no server runs.
    fn drain(&self, drains: bool) -> Result<Drained, String>;

    /// Called after these users have been stored: from now on they can log in, with these passwords
    /// only.
    fn users_added(&self, users: &[User]);

    /// Called after the users of the domain `from` have been moved to `to`, which now has the realm
    /// of `from`.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn users_moved(&self, from: &str, to: &str) -> Result<(), Error>;

    /// Called after the call services of this user have been stored: they hold from now on.
    fn services_changed(&self, name: &str, domain: &str, services: CallServices);

    /// Called after this user has been removed from storage: further logins fail, and the bindings
    /// end.
    fn user_removed(&self, name: &str, domain: &str);

    /// Called after a backup has been restored: its data hold from now on. `has_users` is true if
    /// users and realms were replaced.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn restored(&self, replaced: &Replaced, has_users: bool) -> Result<(), Error>;

    /// The data, as backups see them.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn stored(&self) -> Result<Stored<'_>, Error> {
        Ok(Stored {
            storage: self.storage(),
            data: self.data(),
            config_file: self.config_file(),
            accounts: self.accounts()?,
            served: self.domains().into_iter().map(|domain| domain.name).collect(),
        })
    }
}
