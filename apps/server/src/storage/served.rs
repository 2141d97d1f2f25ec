//! The domains that a server served last, kept for commands that find it stopped.

use super::Storage;
use crate::failure::Failure;
use sip_server::config::Domain;

/// The setting in which they are kept.
const DOMAINS: &str = "domains";

/// Keeps the domains that a server serves.
///
/// # Errors
/// When storage fails.
pub(crate) fn remember_domains(storage: &dyn Storage, domains: &[Domain]) -> Result<(), Failure> {
    let plain: Vec<_> = domains.iter().map(|domain| (&domain.name, &domain.aliases)).collect();
    storage.set_setting(DOMAINS, &serde_json::to_vec(&plain)?)?;
    Ok(())
}

/// The domains that the last server served, if there was one.
///
/// # Errors
/// When storage fails.
pub(crate) fn remembered_domains(storage: &dyn Storage) -> Result<Option<Vec<Domain>>, Failure> {
    let Some(stored) = storage.setting(DOMAINS)? else { return Ok(None) };
    let plain: Vec<(String, Vec<String>)> = serde_json::from_slice(&stored)?;
    Ok(Some(plain.into_iter().map(|(name, aliases)| Domain { name, aliases }).collect()))
}
