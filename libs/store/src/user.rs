//! Users and their call services, as they are stored.

use sip_server::{CallServices, Logins};
use std::sync::Arc;

/// A user that can log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The user part of the address-of-record, case-sensitive.
    pub name: String,
    /// The domain in lower case. By default it is also the digest realm; see
    /// [`Users::realms`](crate::Users::realms).
    pub domain: Arc<str>,
    /// The hashes of the password, for each login name.
    pub logins: Logins,
}

/// The call services of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserServices {
    /// See [`User::name`].
    pub name: String,
    /// See [`User::domain`].
    pub domain: String,
    /// The services.
    pub services: CallServices,
}
