//! Persistent data: users, settings, registrations and records of calls. The traits here are the
//! interface for the server and the commands. Each implementation has a module of its own.

mod calls;
mod error;
mod log;
mod messages;
mod panel;
pub mod postgres;
mod queued;
mod replacement;
pub mod sqlite;
mod user;
mod voicemail;

pub use calls::{CallFilter, CallRecords, Keep, StoredCall};
pub use error::Error;
pub use log::{Log, Severity};
pub use messages::{KeptMessage, KeptMessages, MessageLimits, Oldest};
pub use panel::{
    MAX_ACCOUNT_ACTIONS, MAX_OWN_ACTIONS, MAX_PANEL_ACTIONS, PanelAccount, PanelAction, PanelData,
    PanelToken, PhoneLink, SecondFactor,
};
pub use queued::{Patience, QueuedMessages};
pub use replacement::{Difference, PanelSet, Replace, Replaced, Replacement, UserSet};
pub use user::{User, UserServices};
pub use voicemail::VoiceMessage;

use sip::Instant;
use sip_server::CallServices;
use sip_server::journal_record::Record;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A data directory. Only one program uses it while this value exists.
pub trait Directory: fmt::Debug + Send + std::marker::Sync {
    /// The path of the directory.
    fn path(&self) -> &Path;
}

/// A directory whose use the owner guards otherwise.
impl Directory for PathBuf {
    fn path(&self) -> &Path {
        self
    }
}

/// A change of a user by another program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OtherChange {
    /// The user exists, with these call services.
    Put(Box<User>, Box<CallServices>),
    /// The user does not exist any more.
    Removed {
        /// See [`User::name`].
        name: String,
        /// See [`User::domain`].
        domain: String,
    },
    /// The row of the user is malformed.
    Damaged {
        /// See [`User::name`].
        name: String,
        /// See [`User::domain`].
        domain: String,
    },
}

/// The result of storing users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The number of new users.
    pub added: u64,
    /// The number of existing users with a new password.
    pub changed: u64,
    /// The number of existing users with the password that was stored.
    pub unchanged: u64,
}

/// Users: names and HA1, never passwords.
///
/// The server loads all users at its start and reports each change to the engine, so that no
/// message waits for storage. Every method may block, so it is never called from a worker. To load
/// single users on demand, use the pattern of the DNS look-ups: the engine emits an event with a
/// ticket, a thread that may block queries the storage, and a worker passes the result to the
/// engine with the ticket. Therefore all values passed are owned.
pub trait Users: Send + std::marker::Sync {
    /// Stores all of `users` or, on an error, no user. Of two with one name the later is stored.
    /// The stored registrations of a user with a changed password are deleted.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn put_users(&self, users: &[User]) -> Result<Change, Error>;

    /// Removes a user with the stored registrations. Returns false if there was no such user.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn remove_user(&self, name: &str, domain: &str) -> Result<bool, Error>;

    /// Passes every user, or every user of `domain`, to `each`, by domain and name, until that
    /// returns false. A damaged user is omitted and logged.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn users(&self, domain: Option<&str>, each: &mut dyn FnMut(User) -> bool) -> Result<(), Error>;

    /// The users after `last`, which is a domain and a name, in the order of [`Users::users`], at
    /// most `most`. Damaged users are omitted. Empty if there are no more.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn users_after(&self, last: (&str, &str), most: usize) -> Result<Vec<User>, Error>;

    /// The authentication names in `domain`, each with the name of its user.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn auth_names(&self, domain: &str) -> Result<HashMap<String, String>, Error>;

    /// Returns true if the user exists.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn has_user(&self, name: &str, domain: &str) -> Result<bool, Error>;

    /// Moves all users of the domain `from` to the domain `to`, with the realm to which their
    /// hashes are bound, and with the targets of forwards in `from`. Returns the number of users.
    ///
    /// # Errors
    /// [`Error`] if the storage fails, or a user of `to` has the name of one of `from`.
    fn move_users(&self, from: &str, to: &str) -> Result<u64, Error>;

    /// The domains that have users, with the number of users, without those in `except`, which are
    /// not counted.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn domains(&self, except: &[&str]) -> Result<BTreeMap<String, u64>, Error>;

    /// The digest realms of the domains with a realm other than their name.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn realms(&self) -> Result<BTreeMap<String, String>, Error>;

    /// Stores the call services of a user. Returns false if there is no such user. They are removed
    /// with the user.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn put_services(
        &self,
        name: &str,
        domain: &str,
        services: &CallServices,
    ) -> Result<bool, Error>;

    /// Passes the call services of every user, or of the users of `domain`, to `each`, by domain
    /// and name. Users without any are omitted.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn services(
        &self,
        domain: Option<&str>,
        each: &mut dyn FnMut(UserServices),
    ) -> Result<(), Error>;

    /// Takes some of the changes that other programs have made to users and their call services in
    /// the storage. Each is returned once. Empty if there are no more.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn take_changes(&self) -> Result<Vec<OtherChange>, Error>;

    /// The number of users.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn user_count(&self) -> Result<u64, Error>;
}

/// The time at which registrations survive a power loss. They always survive a crash of the
/// program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// Before the response.
    Always,
    /// At most this long after the response.
    Every(Duration),
    /// When the system writes them by itself, often half a minute later.
    Never,
}

/// The result of restoring registrations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// The highest sequence number found. New ones must be higher.
    pub sequence: u64,
    /// The number of addresses-of-record with bindings.
    pub addresses_of_record: u64,
}

/// The storage of registrations.
pub trait Registrations: Send + std::marker::Sync {
    /// Passes the record of every address-of-record that is registered at `now` to `each`. Such a
    /// record may contain expired bindings, too. Records that a running journal still holds are not
    /// included.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn restore(&self, now: Instant, each: &mut dyn FnMut(Record<'_>)) -> Result<Restored, Error>;

    /// Deletes all registrations.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn forget_registrations(&self) -> Result<(), Error>;

    /// Starts a journal of registrations for the number of `workers`. Dropping the journal stores
    /// everything appended.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn journal(self: Arc<Self>, sync: Sync, workers: usize) -> Result<Box<dyn Journal>, Error>;
}

/// The journal to which workers append the changes of registrations. They wait for it, so it is
/// fast.
pub trait Journal: Send + std::marker::Sync {
    /// Appends `payload` for `worker`. Threads that are not workers may use any number. When this
    /// returns, the payload survives a crash of the program and, with [`Sync::Always`], a power
    /// loss.
    ///
    /// # Errors
    /// The payload could not be written, or not be synced if that is required. The error has been
    /// logged. The caller must not confirm the changes.
    fn append(&self, worker: usize, payload: &[u8]) -> io::Result<()>;

    /// The state of the journal.
    fn health(&self) -> JournalHealth;
}

/// The state of a [`Journal`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalHealth {
    /// True if the last append failed, less than a minute ago.
    pub is_refusing: bool,
    /// True if the last attempt to store the journal in the database failed.
    pub is_behind: bool,
    /// The number of times that the journal was stored in the database, since the start.
    pub checkpoints: u64,
    /// The number of attempts that failed.
    pub failed_checkpoints: u64,
    /// The total time of both.
    pub checkpoint_time: Duration,
}

/// The length of the server's secret in bytes.
pub const SECRET_LENGTH: usize = 32;

/// The persistent data of a server.
pub trait Storage:
    Users + Registrations + CallRecords + KeptMessages + PanelData + Replace
{
    /// Random bytes, generated once: the key of everything that must stay valid after a restart.
    ///
    /// # Errors
    /// [`Error`] if they can neither be read nor generated.
    fn secret(&self) -> Result<[u8; SECRET_LENGTH], Error>;

    /// The value last stored under `key`.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn setting(&self, key: &str) -> Result<Option<Vec<u8>>, Error>;

    /// Stores `value` under `key`.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn set_setting(&self, key: &str, value: &[u8]) -> Result<(), Error>;

    /// A message about damaged files that are kept, for the operator to inspect and delete. `None`
    /// if there are no such files.
    ///
    /// # Errors
    /// [`Error`] if the storage cannot be examined.
    fn damage(&self) -> Result<Option<String>, Error>;
}
