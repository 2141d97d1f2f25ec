//! What the administration needs of what it administers.

use super::{Condition, Registration};
use crate::storage::{Error, User, Users};
use sip_server::config::Domain;

/// A server: one that runs, or what is stored of one that does not. Called from threads that may
/// wait.
pub(crate) trait Desk: Send + Sync {
    /// Its users, as they are stored.
    fn users(&self) -> &dyn Users;

    /// What it does, now.
    ///
    /// # Errors
    /// When storage fails.
    fn condition(&self) -> Result<Condition, Error>;

    /// The domains served, the default one first.
    fn domains(&self) -> Vec<Domain>;

    /// Hands every binding that has not expired to `each`, until that returns false.
    ///
    /// # Errors
    /// When storage fails.
    fn registrations(&self, each: &mut dyn FnMut(Registration) -> bool) -> Result<(), Error>;

    /// These users were stored: they can log in from now on, with these passwords only.
    fn users_added(&self, users: &[User]);

    /// Users of the domain `from` were moved to `to`, which has the realm of `from` now.
    ///
    /// # Errors
    /// When storage fails.
    fn users_moved(&self, from: &str, to: &str) -> Result<(), Error>;

    /// This user was removed from storage: nobody logs in as them any more, their bindings end.
    fn user_removed(&self, name: &str, domain: &str);
}
