//! The users that other programs change in the database of the server by SQL: a thread looks for
//! them twice a second.

use super::background::{Background, Ending};
use super::desk::Running;
use crate::admin::desk::Desk;
use crate::log;
use crate::settings::Settings;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use store::{Error, OtherChange, Storage};

/// The time between two looks.
const PERIOD: Duration = Duration::from_millis(500);

/// Starts the thread, unless the users are a copy of those of another database.
///
/// # Errors
/// The system gives no thread.
pub(super) fn start(
    settings: &Settings,
    desk: &Arc<Running>,
    storage: &Arc<dyn Storage>,
) -> io::Result<Option<Background>> {
    if settings.accounts.is_some() {
        return Ok(None);
    }
    let (desk, storage) = (Arc::clone(desk), Arc::clone(storage));
    let run = move |ending: &Ending| {
        while !ending.wait(PERIOD) {
            follow(&*desk, &*storage);
        }
    };
    Background::start("sql-changes", run).map(Some)
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
