//! The running server.

use crate::admin::server::Server;
use crate::admin::{Control, Registration, Status};
use crate::clock::wall_clock;
use crate::failure::Failure;
use crate::log;
use crate::screens;
use crate::settings::{Setup, remember_domains};
use crate::storage::{Journal, User};
use parking_lot::Mutex;
use sip_server::config::Domain;
use std::collections::HashSet;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// When the server cannot start.
pub(crate) fn run(setup: Setup) -> Result<(), Failure> {
    let Setup { flags, settings, storage } = setup;
    log::set_limit(settings.log_lines_per_second);
    let engine = settings.engine_config();
    remember_domains(&storage, &engine.domains)?;
    storage.restore(wall_clock(), &mut |_| ())?;
    let journal = Journal::start(Arc::clone(&storage), settings.sync)?;
    let memory = Memory { domains: engine.domains.clone(), users: Mutex::default() };
    storage.users(None, &mut |user| memory.users.lock().insert((user.name, user.domain)))?;
    let users = memory.users.lock().len() as u64;
    let _admin = Server::start(storage, Arc::new(memory))?;
    screens::welcome(&settings.listens(), &engine.domains, users, &flags)
        .lines()
        .for_each(|line| log::info("start", || line.to_owned()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok::<(), Failure>(())
    })?;
    drop(journal);
    Ok(())
}

struct Memory {
    domains: Vec<Domain>,
    users: Mutex<HashSet<(String, Arc<str>)>>,
}

impl Control for Memory {
    fn status(&self) -> Status {
        Status { users: self.users.lock().len() as u64, ..Status::default() }
    }

    fn domains(&self) -> Vec<Domain> {
        self.domains.clone()
    }

    fn registrations(&self, _each: &mut dyn FnMut(Registration) -> bool) {}

    fn users_added(&self, users: &[User]) {
        self.users.lock().extend(users.iter().map(|u| (u.name.clone(), Arc::clone(&u.domain))));
    }

    fn user_removed(&self, name: &str, domain: &str) {
        self.users.lock().remove(&(name.to_owned(), Arc::from(domain)));
    }
}
