//! The engine, restored from storage.

use super::desk::{add_user, load_services};
use super::local::Engine;
use crate::failure::Failure;
use net::wall_clock;
use sip_server::config::Config;
use std::sync::Arc;
use store::Storage;

/// Creates an engine with the users in `storage` and, with `keeps_registrations`, the
/// registrations. Without it the stored registrations are deleted.
///
/// # Errors
/// [`Failure`] if the storage fails.
pub(super) fn load(
    storage: &dyn Storage,
    config: &Config,
    keeps_registrations: bool,
) -> Result<Arc<Engine>, Failure> {
    let engine = Arc::new(Engine::new(config.clone(), &storage.secret()?));
    // Those of the time without a server are read with all users.
    while !storage.take_changes()?.is_empty() {}
    storage.users(None, &mut |user| {
        add_user(&engine, &user);
        true
    })?;
    load_services(&engine, storage)?;
    if !keeps_registrations {
        // They would be outdated when storing registrations is enabled again.
        storage.forget_registrations()?;
    }
    let restored = storage.restore(wall_clock(), &mut |record| {
        engine.restore(&record, wall_clock());
    })?;
    engine.continue_after(restored.sequence);
    engine.forget_nonces_before(wall_clock());
    Ok(engine)
}
