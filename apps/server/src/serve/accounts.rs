//! The users of a PostgreSQL database: a thread copies them to the storage of the server and to the
//! engine, and follows their changes. No message waits for the database.

use super::background::{Background, Ending, Pause};
use super::copy_error::CopyError;
use super::desk::Running;
use crate::admin::desk::{Desk, remember_accounts};
use crate::failure::Failure;
use crate::log;
use crate::settings::{AccountsSettings, Settings};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::postgres::Accounts;
use store::{Error, Storage, User};

/// The time to wait for changes before the end of the server is looked for.
const TURN: Duration = Duration::from_millis(200);

/// The number of users that are read from the storage, or stored, at once.
const BATCH: usize = 10_000;

/// Starts the copy of the accounts in a database, if they are in one.
///
/// # Errors
/// The storage fails, or the system gives no thread.
pub(super) fn start(
    settings: &Settings,
    desk: &Arc<Running>,
    storage: &Arc<dyn Storage>,
) -> Result<Option<Background>, Failure> {
    let place = settings.accounts.as_ref().map(|accounts| accounts.place.to_string());
    remember_accounts(&**storage, place.as_deref())?;
    let Some(accounts) = settings.accounts.clone() else { return Ok(None) };
    if accounts.place.is_exposed() {
        log::warn("accounts", || {
            format!(
                "the certificate of {} is not verified: an attacker between can read and change \
                 the users; set sslmode=verify-full in accounts.url",
                accounts.place
            )
        });
    }
    // Users that are not known may have been added to the database meanwhile.
    desk.set_lacks_users(true);
    // It stays the same over restarts, and is secret.
    let key = storage.secret()?;
    let (desk, storage) = (Arc::clone(desk), Arc::clone(storage));
    let copy = Copy { settings: accounts, key, desk, storage };
    Ok(Some(Background::start("accounts", move |ending| copy.run(ending))?))
}

/// The copy of the accounts.
struct Copy {
    settings: AccountsSettings,
    key: [u8; 32],
    desk: Arc<Running>,
    storage: Arc<dyn Storage>,
}

/// The numbers of changed users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Copied {
    put: usize,
    removed: usize,
}

impl Copy {
    fn run(&self, ending: &Ending) {
        let mut pause = Pause::new();
        loop {
            let followed = self.follow(ending, &mut pause);
            self.desk.set_lacks_users(true);
            match followed {
                Ok(()) => return,
                Err(error) => log::warn("accounts", || {
                    format!(
                        "the accounts in {} cannot be read: {error}; users that are known go on, \
                         others are refused for now (503); the next attempt is in {} s",
                        self.settings.place,
                        pause.seconds()
                    )
                }),
            }
            if pause.wait(ending) {
                return;
            }
        }
    }

    /// Connects, copies all users, and follows their changes until the server ends.
    fn follow(&self, ending: &Ending, pause: &mut Pause) -> Result<(), CopyError> {
        let place = &self.settings.place;
        let mut accounts = Accounts::connect(place, self.key)?;
        let copied = self.copy_all(&mut accounts)?;
        pause.reset();
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
        while !ending.wait(Duration::ZERO) {
            let changes = accounts.changes(TURN)?;
            let is_due = !accounts.has_trigger() && read.elapsed() >= poll;
            match changes {
                Some(changes) if !is_due => {
                    self.copy(&mut accounts, changes)?;
                }
                _ => {
                    self.copy_all(&mut accounts)?;
                    read = Instant::now();
                }
            }
        }
        Ok(())
    }

    /// Copies all users that differ. The storage is not held up meanwhile.
    fn copy_all(&self, accounts: &mut Accounts) -> Result<Copied, CopyError> {
        let (mut copied, mut put, mut missing) = (Copied::default(), Vec::new(), Vec::new());
        let place = |user: User| (user.name, user.domain.to_string());
        let mut known = KnownUsers::new(&*self.storage);
        let mut rows = accounts.users()?;
        // Both are in the order of domain and name.
        while let Some(user) = rows.read()? {
            while let Some(first) = known.first()?
                && key(first) < key(&user)
            {
                missing.extend(known.take().map(place));
            }
            let is_known = known.first()?.is_some_and(|first| key(first) == key(&user));
            let logins = is_known.then(|| known.take()).flatten().map(|it| it.logins);
            if logins.as_ref() != Some(&user.logins) {
                put.push(user);
            }
            if put.len() == BATCH {
                copied.put += self.put(&std::mem::take(&mut put))?;
            }
        }
        while known.first()?.is_some() {
            missing.extend(known.take().map(place));
        }
        copied.put += self.put(&put)?;
        self.note_omitted(rows.omitted());
        // A command may have added some of them since the table was read.
        copied.removed = self.copy(accounts, missing)?.removed;
        Ok(copied)
    }

    /// Copies the users with these names and domains.
    fn copy(
        &self,
        accounts: &mut Accounts,
        changes: Vec<(String, String)>,
    ) -> Result<Copied, CopyError> {
        let (mut copied, mut put) = (Copied::default(), Vec::new());
        for (name, domain) in changes {
            match accounts.one(&name, &domain)? {
                Some(user) => put.push(user),
                None => copied.removed += self.remove(&name, &domain)?,
            }
        }
        copied.put = self.put(&put)?;
        Ok(copied)
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

/// The users of the copy, by domain and name. They are read in parts, so that the storage is free
/// while the database of accounts is awaited.
struct KnownUsers<'a> {
    storage: &'a dyn Storage,
    part: VecDeque<User>,
    /// The domain and the name of the last user that was read.
    last: (String, String),
    is_end: bool,
}

impl<'a> KnownUsers<'a> {
    fn new(storage: &'a dyn Storage) -> Self {
        Self { storage, part: VecDeque::new(), last: (String::new(), String::new()), is_end: false }
    }

    /// The first user that was not taken.
    ///
    /// # Errors
    /// The storage fails.
    fn first(&mut self) -> Result<Option<&User>, Error> {
        if self.part.is_empty() && !self.is_end {
            self.part = self.storage.users_after((&self.last.0, &self.last.1), BATCH)?.into();
            match self.part.back() {
                Some(user) => self.last = (user.domain.to_string(), user.name.clone()),
                None => self.is_end = true,
            }
        }
        Ok(self.part.front())
    }

    /// Takes the user that [`KnownUsers::first`] has returned.
    fn take(&mut self) -> Option<User> {
        self.part.pop_front()
    }
}

/// The place of a user in the order of both tables.
fn key(user: &User) -> (&str, &str) {
    (&user.domain, &user.name)
}
