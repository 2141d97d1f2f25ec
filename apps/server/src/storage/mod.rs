//! What outlives the program: users, settings and registrations. What the server and the commands
//! need of it are the traits here; what keeps it has a module of its own.

mod error;
pub(crate) mod served;
pub(crate) mod sqlite;

pub(crate) use error::Error;

use sip::Instant;
use sip_server::Logins;
use sip_server::journal_record::Record;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// A user who can log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    /// The user part of the address of record, case-sensitive.
    pub(crate) name: String,
    /// The domain, which is also the digest realm, in lower case.
    pub(crate) domain: Arc<str>,
    /// What takes the place of the password.
    pub(crate) logins: Logins,
}

/// What storing users changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// Users that were not there before.
    pub(crate) added: u64,
    /// Users that were, and have a new password.
    pub(crate) changed: u64,
}

/// Users: names and HA1, never passwords (row C6).
///
/// The server reads all of them when it starts, and the engine is told of each that changes, so
/// that no message waits for storage. Every method may wait, and is called from threads that may:
/// never from a worker. Where a storage is to be asked for single users while messages come, that
/// goes the way of the DNS: the engine says by an event, with a ticket, whom it looks for; a thread
/// that may wait asks here; and a worker tells the engine with the ticket what was found. So what
/// is handed over is owned, and borrows nothing of either side.
pub(crate) trait Users: Send + std::marker::Sync {
    /// Stores all of `users` or, on an error, none. Of two with one name the later counts. The
    /// stored registrations of a user whose password changes are forgotten.
    ///
    /// # Errors
    /// When storage fails.
    fn put_users(&self, users: &[User]) -> Result<Change, Error>;

    /// Removes a user with the stored registrations; false if there was none.
    ///
    /// # Errors
    /// When storage fails.
    fn remove_user(&self, name: &str, domain: &str) -> Result<bool, Error>;

    /// Hands every user, or every user of `domain`, to `each`, by domain and name, until that
    /// returns false. Who is damaged is left out, and the operator is told.
    ///
    /// # Errors
    /// When storage fails.
    fn users(&self, domain: Option<&str>, each: &mut dyn FnMut(User) -> bool) -> Result<(), Error>;

    /// The authentication names in `domain`, each with the name of its user.
    ///
    /// # Errors
    /// When storage fails.
    fn auth_names(&self, domain: &str) -> Result<HashMap<String, String>, Error>;

    /// Whether there is such a user.
    ///
    /// # Errors
    /// When storage fails.
    fn has_user(&self, name: &str, domain: &str) -> Result<bool, Error>;

    /// Moves all users of the domain `from` to the domain `to`, with the realm that their hashes
    /// are bound to. Returns how many.
    ///
    /// # Errors
    /// When storage fails, or a user of `to` has the name of one of `from`.
    fn move_users(&self, from: &str, to: &str) -> Result<u64, Error>;

    /// The domains that have users, each with how many, but for those named in `except`, which are
    /// not counted.
    ///
    /// # Errors
    /// When storage fails.
    fn domains(&self, except: &[&str]) -> Result<BTreeMap<String, u64>, Error>;

    /// The digest realms of domains whose realm is not their name.
    ///
    /// # Errors
    /// When storage fails.
    fn realms(&self) -> Result<BTreeMap<String, String>, Error>;

    /// How many users there are.
    ///
    /// # Errors
    /// When storage fails.
    fn user_count(&self) -> Result<u64, Error>;
}

/// When registrations are safe from a power loss. They always are from a crash of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sync {
    /// Before they are answered.
    Always,
    /// At most this long after they are answered.
    Every(Duration),
    /// When the system writes them by itself, often half a minute later.
    Never,
}

/// What was read at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Restored {
    /// The highest sequence number that occurs; new ones must be higher.
    pub(crate) sequence: u64,
    /// Addresses of record that have bindings.
    pub(crate) addresses_of_record: u64,
}

/// Registrations.
pub(crate) trait Registrations: Send + std::marker::Sync {
    /// Hands the record of every address of record that is registered at `now` to `each`. Such a
    /// record may also hold bindings that have expired. What a running journal has not yet handed
    /// over is not there.
    ///
    /// # Errors
    /// When storage fails.
    fn restore(&self, now: Instant, each: &mut dyn FnMut(Record<'_>)) -> Result<Restored, Error>;

    /// Forgets all registrations.
    ///
    /// # Errors
    /// When storage fails.
    fn forget_registrations(&self) -> Result<(), Error>;

    /// Begins to keep what becomes of registrations from now on, as so many workers tell it.
    /// Dropping the journal hands all over that was appended.
    ///
    /// # Errors
    /// When storage fails.
    fn journal(self: Arc<Self>, sync: Sync, workers: usize) -> Result<Box<dyn Journal>, Error>;
}

/// Where workers append what became of registrations. They wait for it, so it is quick.
pub(crate) trait Journal: Send + std::marker::Sync {
    /// Appends `payload`, as `worker` says. Threads that are no workers may take any
    /// number. When this returns, the payload outlives the program, and with [`Sync::Always`] a
    /// power loss too.
    ///
    /// # Errors
    /// When it could not be written, or not be synced where that is asked for, which the operator
    /// was told. Then what it says must not be answered.
    fn append(&self, worker: usize, payload: &[u8]) -> io::Result<()>;
}

/// Bytes of the server's secret.
pub(crate) const SECRET_LENGTH: usize = 32;

/// All that outlives the program.
pub(crate) trait Storage: Users + Registrations {
    /// Random bytes, made once: the key of everything that must still be valid after a restart.
    ///
    /// # Errors
    /// When they can neither be read nor made.
    fn secret(&self) -> Result<[u8; SECRET_LENGTH], Error>;

    /// The value last stored under `key`.
    ///
    /// # Errors
    /// When storage fails.
    fn setting(&self, key: &str) -> Result<Option<Vec<u8>>, Error>;

    /// Stores `value` under `key`.
    ///
    /// # Errors
    /// When storage fails.
    fn set_setting(&self, key: &str, value: &[u8]) -> Result<(), Error>;

    /// What was found damaged and is kept, for the operator to look at and delete; `None` where
    /// there is no such thing.
    ///
    /// # Errors
    /// When it cannot be told.
    fn damage(&self) -> Result<Option<String>, Error>;
}
