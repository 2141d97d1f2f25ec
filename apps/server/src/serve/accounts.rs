//! The users of a PostgreSQL database: a thread copies them to the storage of the server and to the
//! engine, and follows their changes. No message waits for the database.

use super::desk::Running;
use crate::admin::desk::Desk;
use crate::failure::Failure;
use crate::log;
use crate::settings::AccountsSettings;
use parking_lot::{Condvar, Mutex};
use rustls::ClientConfig;
use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use store::postgres::{Accounts, AccountsError};
use store::{Error, Storage, User};

/// The pauses between attempts to connect: the first one, and the longest one.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// The time to wait for changes before the end of the server is looked for.
const TURN: Duration = Duration::from_millis(200);

/// The number of users that are stored in one transaction.
const BATCH: usize = 10_000;

/// A failure of the copy.
enum CopyError {
    /// The database fails.
    Database(AccountsError),
    /// The storage of the server fails.
    Storage(Error),
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Database(error) => write!(f, "{error}"),
            Self::Storage(error) => write!(f, "{error}"),
        }
    }
}

impl From<AccountsError> for CopyError {
    fn from(error: AccountsError) -> Self {
        Self::Database(error)
    }
}

impl From<Error> for CopyError {
    fn from(error: Error) -> Self {
        Self::Storage(error)
    }
}

/// The end of the thread, to be waited for.
#[derive(Default)]
struct Ending {
    has_come: Mutex<bool>,
    changed: Condvar,
}

impl Ending {
    /// Waits for the end, at most for `time`. Returns true if it has come.
    fn wait(&self, time: Duration) -> bool {
        let mut has_come = self.has_come.lock();
        if !*has_come {
            self.changed.wait_for(&mut has_come, time);
        }
        *has_come
    }
}

/// The running thread. Dropping it ends the thread.
pub(super) struct AccountsThread {
    ending: Arc<Ending>,
    thread: Option<JoinHandle<()>>,
}

impl AccountsThread {
    /// Starts the thread. `key` stays the same over restarts, and is secret.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn start(
        settings: AccountsSettings,
        tls: ClientConfig,
        key: [u8; 32],
        desk: Arc<Running>,
        storage: Arc<dyn Storage>,
    ) -> Result<Self, Failure> {
        let ending = Arc::<Ending>::default();
        // Users that are not known may have been added to the database meanwhile.
        desk.set_lacks_users(true);
        let copy = Copy { settings, tls, key, desk, storage, ending: Arc::clone(&ending) };
        let thread = std::thread::Builder::new().name("accounts".to_owned());
        let thread = thread.spawn(move || copy.run())?;
        Ok(Self { ending, thread: Some(thread) })
    }
}

impl Drop for AccountsThread {
    fn drop(&mut self) {
        *self.ending.has_come.lock() = true;
        self.ending.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The copy of the accounts.
struct Copy {
    settings: AccountsSettings,
    tls: ClientConfig,
    key: [u8; 32],
    desk: Arc<Running>,
    storage: Arc<dyn Storage>,
    ending: Arc<Ending>,
}

/// The numbers of changed users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Copied {
    put: usize,
    removed: usize,
}

impl Copy {
    fn run(&self) {
        let mut pause = PAUSES[0];
        loop {
            let followed = self.follow(&mut pause);
            self.desk.set_lacks_users(true);
            match followed {
                Ok(()) => return,
                Err(error) => log::warn("accounts", || {
                    format!(
                        "the accounts in {} cannot be read: {error}; users that are known go on, \
                         others are refused for now (503); the next attempt is in {} s",
                        self.settings.place,
                        pause.as_secs()
                    )
                }),
            }
            if self.ending.wait(pause) {
                return;
            }
            pause = (2 * pause).min(PAUSES[1]);
        }
    }

    /// Connects, copies all users, and follows their changes until the server ends.
    fn follow(&self, pause: &mut Duration) -> Result<(), CopyError> {
        let place = &self.settings.place;
        let mut accounts = Accounts::connect(place, self.tls.clone(), self.key)?;
        let copied = self.copy_all(&mut accounts)?;
        *pause = PAUSES[0];
        self.desk.set_lacks_users(false);
        log::info("accounts", || {
            let Copied { put, removed } = copied;
            format!("the users are those of {place}: {put} new or changed, {removed} removed")
        });
        if !accounts.has_trigger() {
            log::warn("accounts", || {
                format!(
                    "the role may not create a trigger for {}: a change is seen after {} s at \
                     most (accounts.poll), not at once",
                    place.table,
                    self.settings.poll.as_secs()
                )
            });
        }
        if !accounts.has_sha256() {
            log::warn("accounts", || {
                format!(
                    "{} has no column ha1_sha256: its users log in with MD5 only; set \
                     authentication.algorithms = [\"MD5\"]",
                    place.table
                )
            });
        }
        let poll = Duration::from_micros(self.settings.poll.as_micros());
        let mut read = Instant::now();
        while !self.ending.wait(Duration::ZERO) {
            let changes = accounts.changes(TURN)?;
            let is_due = !accounts.has_trigger() && read.elapsed() >= poll;
            match changes {
                Some(changes) if !is_due => self.copy(&mut accounts, changes)?,
                _ => {
                    self.copy_all(&mut accounts)?;
                    read = Instant::now();
                }
            }
        }
        Ok(())
    }

    /// Copies all users that differ.
    fn copy_all(&self, accounts: &mut Accounts) -> Result<Copied, CopyError> {
        let mut copied = Copied::default();
        let mut rows = accounts.users()?;
        if self.storage.user_count()? == 0 {
            let mut batch = Vec::new();
            while let Some(user) = rows.read()? {
                batch.push(user);
                if batch.len() == BATCH {
                    copied.put += self.put(&std::mem::take(&mut batch))?;
                }
            }
            copied.put += self.put(&batch)?;
            self.note_omitted(rows.omitted());
            return Ok(copied);
        }
        let (mut put, mut removed, mut failure) = (Vec::new(), Vec::new(), None);
        let mut next = rows.read()?;
        let mut read = |next: &mut Option<User>| match rows.read() {
            Ok(row) => {
                *next = row;
                true
            }
            Err(error) => {
                failure = Some(error);
                false
            }
        };
        // Both are in the order of domain and name.
        self.storage.users(None, &mut |known| {
            while next.as_ref().is_some_and(|it| key(it) < key(&known)) {
                put.extend(next.take());
                if !read(&mut next) {
                    return false;
                }
            }
            if next.as_ref().is_none_or(|it| key(it) != key(&known)) {
                removed.push(known);
                return true;
            }
            put.extend(next.take().filter(|it| it.logins != known.logins));
            read(&mut next)
        })?;
        if let Some(error) = failure {
            return Err(error.into());
        }
        while let Some(user) = next {
            put.push(user);
            next = rows.read()?;
        }
        self.note_omitted(rows.omitted());
        for batch in put.chunks(BATCH) {
            copied.put += self.put(batch)?;
        }
        for user in removed {
            copied.removed += self.remove(&user.name, &user.domain)?;
        }
        Ok(copied)
    }

    /// Copies the users with these names and domains.
    fn copy(
        &self,
        accounts: &mut Accounts,
        changes: Vec<(String, String)>,
    ) -> Result<(), CopyError> {
        let mut put = Vec::new();
        for (name, domain) in changes {
            match accounts.one(&name, &domain)? {
                Some(user) => put.push(user),
                None => {
                    self.remove(&name, &domain)?;
                }
            }
        }
        self.put(&put)?;
        Ok(())
    }

    fn put(&self, users: &[User]) -> Result<usize, CopyError> {
        if !users.is_empty() {
            self.storage.put_users(users)?;
            self.desk.users_added(users);
        }
        Ok(users.len())
    }

    fn remove(&self, name: &str, domain: &str) -> Result<usize, CopyError> {
        let is_removed = self.storage.remove_user(name, domain)?;
        if is_removed {
            self.desk.user_removed(name, domain);
        }
        Ok(is_removed.into())
    }

    fn note_omitted(&self, omitted: u64) {
        if omitted > 0 {
            log::warn("accounts", || {
                format!(
                    "{omitted} rows of {} are omitted: they have no username, no domain, or \
                     neither ha1 nor password",
                    self.settings.place.table
                )
            });
        }
    }
}

/// The place of a user in the order of both tables.
fn key(user: &User) -> (&str, &str) {
    (&user.domain, &user.name)
}
