//! The configuration that is read again while the server runs (SIGHUP).

use super::configured::{domain_of, engine_config, notifier_config};
use super::desk::Running;
use super::renewal::Renewal;
use super::welcome;
use crate::failure::Failure;
use crate::listen::Listen;
use crate::log;
use crate::served_domains::remember_domains;
use crate::settings::Settings;
use crate::trunks::registry_configs;
use std::rc::Rc;
use std::sync::Arc;
use store::Storage;

/// Reads the settings.
pub(crate) type ReadSettings = Arc<dyn Fn() -> Result<Settings, Failure> + Send + Sync>;

/// The text of a failure that may name several mistakes, a line each.
fn in_one_line(failure: &Failure) -> String {
    failure.to_string().replace(":\n", ": ").replace('\n', "; ")
}

/// Reads the configuration and the certificates again, and applies the settings that can change
/// while the server runs. `started` are those that it started with.
pub(super) fn reload(
    read_again: &ReadSettings,
    started: &Settings,
    listens: &[Listen],
    desk: &Running,
    storage: &dyn Storage,
    renewal: &Rc<Renewal>,
) {
    let settings = match read_again() {
        Ok(settings) => settings,
        Err(failure) => {
            log::error("reload", || {
                format!("the configuration is kept as it was: {}", in_one_line(&failure))
            });
            return;
        }
    };
    log::set_limit(settings.log_lines_per_second);
    let config = match engine_config(&settings, listens, storage) {
        Ok(config) => config,
        Err(failure) => {
            log::error("reload", || {
                format!("the configuration is kept as it was: {}", in_one_line(&failure))
            });
            return;
        }
    };
    match settings.plan_if_any(domain_of(&config)) {
        Ok(plan) => desk.configure_numbers(plan, &config),
        Err(failure) => {
            log::error("reload", || format!("the numbers are kept as they were: {failure}"));
        }
    }
    match registry_configs(&settings.trunks) {
        Ok(configs) => desk.configure_trunks(&settings.trunks, configs),
        Err(failure) => {
            log::error("reload", || format!("the trunks are kept as they were: {failure}"));
        }
    }
    if let Err(failure) = remember_domains(storage, &config.domains) {
        log::error("reload", || failure.to_string());
    }
    if let Err(failure) = renewal.renew(&settings) {
        log::error("reload", || format!("the certificates are kept as they were: {failure}"));
    }
    desk.configure(config.clone());
    desk.limit_b2bua(settings.b2bua);
    desk.configure_media_server(&settings.media_server);
    desk.configure_notifier(notifier_config(&settings, listens));
    welcome::warn_of_users(&config.domains, &desk.unserved());
    log::info("reload", || "the configuration was read again".to_owned());
    let waiting = started.keys_for_restart(&settings);
    if !waiting.is_empty() {
        log::warn("reload", || {
            format!("changed, but as before until a restart: {}", waiting.join(", "))
        });
    }
}
