//! The running server as the administration sees it (row A5 of docs/sources.md).

use super::hub::Hub;
use super::local::Engine;
use crate::admin::desk::Desk;
use crate::admin::{Condition, Registration, Status, StepTiming};
use crate::log;
use crate::storage::{Error, Storage, User, Users};
use parking_lot::Mutex;
use sip_server::config::{Config, Domain, Mode, State};
use sip_server::{Output, Timing};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The hub, what is stored, and what the operator decided.
pub(crate) struct Running {
    hub: Arc<Hub>,
    storage: Arc<dyn Storage>,
    config: Mutex<Config>,
    listens: Vec<String>,
}

impl Running {
    pub(crate) fn new(
        hub: Arc<Hub>,
        storage: Arc<dyn Storage>,
        config: Config,
        listens: Vec<String>,
    ) -> Self {
        Self { hub, storage, config: Mutex::new(config), listens }
    }

    /// Takes a new configuration.
    pub(crate) fn configure(&self, config: Config) {
        self.hub.engine.configure(config.clone());
        *self.config.lock() = config;
    }
}

/// `name@domain`, as the engine knows users.
pub(crate) fn address_of_record(name: &str, domain: &str) -> Vec<u8> {
    [name.as_bytes(), b"@", domain.as_bytes()].concat()
}

/// Makes a user known to `engine`.
pub(crate) fn add_user(engine: &Engine, user: &User) {
    engine.add_user(&address_of_record(&user.name, &user.domain), user.logins.clone());
}

impl Desk for Running {
    fn users(&self) -> &dyn Users {
        &*self.storage
    }

    fn condition(&self) -> Result<Condition, Error> {
        let engine = &self.hub.engine;
        let config = self.config.lock();
        let mode = match config.mode {
            Mode::Proxy => "proxy",
            Mode::Redirect => "redirect",
            Mode::Registrar => "registrar",
        };
        let state = match config.state {
            State::Stateful => "stateful",
            State::Stateless => "stateless",
        };
        let status = Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mode: mode.to_owned(),
            state: state.to_owned(),
            authentication: config.authentication.required,
            listens: self.listens.clone(),
            domains: config.domains.iter().map(|domain| domain.name.clone()).collect(),
            users: engine.users() as u64,
            registered: engine.registered() as u64,
            contacts: engine.bindings() as u64,
            transactions: engine.transactions() as u64,
            uptime: self.hub.clock.uptime().as_secs(),
            counters: engine
                .counters()
                .into_iter()
                .chain([
                    ("refused-connections", self.hub.connections.refused.load(Ordering::Relaxed)),
                    ("tls-failures", self.hub.connections.tls_failures.load(Ordering::Relaxed)),
                    ("tls-pauses", self.hub.connections.paused.load(Ordering::Relaxed)),
                    ("unread-output", self.hub.connections.unread_output.load(Ordering::Relaxed)),
                    ("dropped-lookups", self.hub.dropped_lookups.load(Ordering::Relaxed)),
                    ("unread", self.hub.unread()),
                    ("unstored", self.hub.unstored.load(Ordering::Relaxed)),
                ])
                .map(|(name, count)| (name.to_owned(), count))
                .collect(),
            timings: engine
                .timings()
                .into_iter()
                .filter(|(_, timing)| timing.count > 0)
                .map(|(step, Timing { count, nanoseconds })| {
                    (step.name().to_owned(), StepTiming { count, nanoseconds })
                })
                .collect(),
        };
        Ok(Condition::Running(Box::new(status)))
    }

    fn domains(&self) -> Vec<Domain> {
        self.config.lock().domains.clone()
    }

    fn registrations(&self, each: &mut dyn FnMut(Registration) -> bool) -> Result<(), Error> {
        let now = self.hub.clock.now();
        // Taken first and shown then, so that a slow reader holds up no worker.
        let mut rows = Vec::new();
        self.hub.engine.for_each_binding(now, &mut |binding| {
            rows.push(Registration {
                address_of_record: String::from_utf8_lossy(binding.address_of_record).into_owned(),
                contact: String::from_utf8_lossy(binding.contact).into_owned(),
                flow: binding.flow.to_string(),
                expires_in: binding.expires.since(now).as_secs(),
                q: binding.q,
            });
        });
        rows.sort_by(|one, other| {
            (&one.address_of_record, &one.contact).cmp(&(&other.address_of_record, &other.contact))
        });
        for row in rows {
            if !each(row) {
                break;
            }
        }
        Ok(())
    }

    fn users_added(&self, users: &[User]) {
        users.iter().for_each(|user| add_user(&self.hub.engine, user));
    }

    fn user_removed(&self, name: &str, domain: &str) {
        let mut out = Output::default();
        self.hub.engine.remove_user(&address_of_record(name, domain), &mut out);
        if self.hub.store(0, &out).is_err() {
            log::warn("journal", || {
                format!("the end of {name}@{domain}'s registrations could not be stored")
            });
        }
    }
}
