//! The users that other programs change in the database of the server by SQL: a thread looks for
//! them twice a second.

use super::desk::Running;
use crate::admin::desk::Desk;
use crate::log;
use parking_lot::{Condvar, Mutex};
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use store::{Error, OtherChange, Storage};

/// The time between two looks.
const PERIOD: Duration = Duration::from_millis(500);

/// The end of the thread, to be waited for.
#[derive(Default)]
struct Ending {
    has_come: Mutex<bool>,
    changed: Condvar,
}

/// The running thread. Dropping it ends the thread.
pub(super) struct SqlChangesThread {
    ending: Arc<Ending>,
    thread: Option<JoinHandle<()>>,
}

impl SqlChangesThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn start(desk: &Arc<Running>, storage: &Arc<dyn Storage>) -> io::Result<Self> {
        let (desk, storage) = (Arc::clone(desk), Arc::clone(storage));
        let ending = Arc::<Ending>::default();
        let until = Arc::clone(&ending);
        let thread = thread::Builder::new().name("sql-changes".to_owned()).spawn(move || {
            if let Err(error) = net::give_way() {
                log::warn("turns", || {
                    format!("changes by SQL have the priority of messages: {error}")
                });
            }
            let mut has_come = until.has_come.lock();
            while !*has_come {
                until.changed.wait_for(&mut has_come, PERIOD);
                parking_lot::MutexGuard::unlocked(&mut has_come, || follow(&*desk, &*storage));
            }
        })?;
        Ok(Self { ending, thread: Some(thread) })
    }
}

impl Drop for SqlChangesThread {
    fn drop(&mut self) {
        *self.ending.has_come.lock() = true;
        self.ending.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Passes the changes of other programs to the server.
fn follow(desk: &dyn Desk, storage: &dyn Storage) {
    if let Err(error) = take(desk, storage) {
        log::warn("sql-changes", || format!("users changed by SQL are not seen: {error}"));
    }
}

fn take(desk: &dyn Desk, storage: &dyn Storage) -> Result<(), Error> {
    loop {
        let changes = storage.take_changes()?;
        if changes.is_empty() {
            return Ok(());
        }
        log::info("sql-changes", || format!("{} users were changed by SQL", changes.len()));
        let (mut users, mut all_services) = (Vec::new(), Vec::new());
        for change in changes {
            match change {
                OtherChange::Put(user, services) => {
                    users.push(*user);
                    all_services.push(*services);
                }
                OtherChange::Removed { name, domain } => {
                    // The bindings and the call services of the user are still there.
                    storage.remove_user(&name, &domain)?;
                    desk.user_removed(&name, &domain);
                }
                OtherChange::Damaged { name, domain } => log::warn("sql-changes", || {
                    format!(
                        "the row of {name}@{domain} is malformed and has no effect: ha1_md5 has \
                         16 bytes, ha1_sha256 and ha1_sha512_256 have 32"
                    )
                }),
            }
        }
        desk.users_added(&users);
        for (user, services) in users.iter().zip(all_services) {
            desk.services_changed(&user.name, &user.domain, services);
        }
    }
}
