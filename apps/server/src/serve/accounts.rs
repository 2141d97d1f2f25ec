//! The users of a PostgreSQL database: a thread copies them to the storage of the server and to the
//! engine, and follows their changes. No message waits for the database.

use super::background::{Background, Ending, Pause};
use super::copy_error::CopyError;
use super::desk::Running;
use crate::admin::desk::{Desk, remember_accounts};
use crate::failure::Failure;
use crate::log;
use crate::settings::{AccountsSettings, Settings};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::postgres::Accounts;
use store::{Storage, User};

/// The time to wait for changes before the end of the server is looked for.
const TURN: Duration = Duration::from_millis(200);

/// The number of users that are stored in one transaction.
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
