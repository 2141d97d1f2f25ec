//! The interface of the administration to a server.

use super::trunk::Trunk;
use super::{Call, CallEnded, Condition, Drained, Registration};
use crate::trace::Tracer;
use sip_server::config::Domain;
use store::{CallRecords, Error, User, Users};

/// A server: a running one, or the stored data of a stopped one. Called from threads that may
/// block.
pub(crate) trait Desk: Send + Sync {
    /// The stored users.
    fn users(&self) -> &dyn Users;

    /// The stored records of calls.
    fn call_records(&self) -> &dyn CallRecords;

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

    /// The calls that stand and are relayed or pass the B2BUA, the oldest first.
    fn calls(&self) -> Vec<Call>;

    /// The trunks, in the order of the configuration.
    fn trunks(&self) -> Vec<Trunk>;

    /// Ends such a call by a BYE to both ends.
    ///
    /// # Errors
    /// A message: there is no such call, or it cannot be ended.
    fn end_call(&self, id: &str) -> Result<CallEnded, String>;

    /// The tracer of messages.
    ///
    /// # Errors
    /// A message: no server runs.
    fn tracer(&self) -> Result<&Tracer, String>;

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

    /// Called after this user has been removed from storage: further logins fail, and the bindings
    /// end.
    fn user_removed(&self, name: &str, domain: &str);
}
