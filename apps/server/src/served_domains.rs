//! The domains last served by a server, stored for commands that run while it is stopped.

use crate::failure::Failure;
use sip_server::config::Domain;
use store::Storage;

/// The key of that setting.
const DOMAINS: &str = "domains";

/// Stores the served domains.
///
/// # Errors
/// [`Failure`] if the storage fails.
pub(crate) fn remember_domains(storage: &dyn Storage, domains: &[Domain]) -> Result<(), Failure> {
    let plain: Vec<_> = domains.iter().map(|domain| (&domain.name, &domain.aliases)).collect();
    storage.set_setting(DOMAINS, &serde_json::to_vec(&plain)?)?;
    Ok(())
}

/// The domains that the server served last. `None` if no server has run yet.
///
/// # Errors
/// [`Failure`] if the storage fails.
pub(crate) fn remembered_domains(storage: &dyn Storage) -> Result<Option<Vec<Domain>>, Failure> {
    let Some(stored) = storage.setting(DOMAINS)? else { return Ok(None) };
    let plain: Vec<(String, Vec<String>)> = serde_json::from_slice(&stored)?;
    Ok(Some(plain.into_iter().map(|(name, aliases)| Domain { name, aliases }).collect()))
}
