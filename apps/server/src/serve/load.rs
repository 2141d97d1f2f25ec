//! The engine as it was when the server was last stopped.

use super::desk::add_user;
use super::local::Engine;
use crate::failure::Failure;
use crate::storage::Storage;
use net::wall_clock;
use sip_server::config::Config;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An engine that knows what is stored.
pub(super) struct Loaded {
    pub(super) engine: Arc<Engine>,
    /// How many users each domain has that has any.
    pub(super) users: BTreeMap<Arc<str>, u64>,
}

/// Makes an engine of all that `storage` has; with `keeps_registrations`, of the registrations,
/// too, which are forgotten otherwise.
///
/// # Errors
/// When storage fails.
pub(super) fn load(
    storage: &dyn Storage,
    config: &Config,
    keeps_registrations: bool,
) -> Result<Loaded, Failure> {
    let engine = Arc::new(Engine::new(config.clone(), &storage.secret()?));
    let mut users = BTreeMap::<Arc<str>, u64>::new();
    storage.users(None, &mut |user| {
        add_user(&engine, &user);
        *users.entry(user.domain).or_default() += 1;
        true
    })?;
    if !keeps_registrations {
        // What is there from before will not be what is so when the server is told to keep them
        // again.
        storage.forget_registrations()?;
    }
    let restored = storage.restore(wall_clock(), &mut |record| {
        engine.restore(&record, wall_clock());
    })?;
    engine.continue_after(restored.sequence);
    engine.forget_nonces_before(wall_clock());
    Ok(Loaded { engine, users })
}
