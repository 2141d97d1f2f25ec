//! The engine as it was when the server was last stopped.

use super::desk::add_user;
use super::local::Engine;
use crate::failure::Failure;
use crate::storage::Storage;
use net::wall_clock;
use sip_server::config::Config;
use std::sync::Arc;

/// Makes an engine of all that `storage` has; with `keeps_registrations`, of the registrations,
/// too, which are forgotten otherwise.
///
/// # Errors
/// When storage fails.
pub(super) fn load(
    storage: &dyn Storage,
    config: &Config,
    keeps_registrations: bool,
) -> Result<Arc<Engine>, Failure> {
    let engine = Arc::new(Engine::new(config.clone(), &storage.secret()?));
    storage.users(None, &mut |user| {
        add_user(&engine, &user);
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
    Ok(engine)
}
