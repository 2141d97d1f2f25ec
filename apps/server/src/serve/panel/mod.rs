//! The panel of the running server: its thread, and its view of the server.

mod listing;
mod own;
mod parts;
mod server;

pub(super) use parts::Parts;

use super::panel_queue::{self, PanelQueue, PanelThread};
use crate::failure::{Failure, during};
use crate::log;
use crate::panel_settings::PanelSettings;
use ::panel::{Config, Panel};
use net::wall_clock;
use server::PanelServer;
use std::sync::Arc;
use std::time::Duration;
use store::Storage;

/// Starts the panel, if the settings have one. `url` is the address of the HTTP listener. Without
/// an account the log gets the link that makes the first administrator.
///
/// # Errors
/// [`Failure`] if the storage fails, or the system gives no thread or no random bytes.
pub(super) fn start(
    settings: PanelSettings,
    parts: Parts,
    url: &str,
) -> Result<Option<(PanelQueue, PanelThread)>, Failure> {
    if !settings.enabled {
        return Ok(None);
    }
    let storage: Arc<dyn Storage> = Arc::clone(&parts.storage);
    // The first call fails here instead of in the thread.
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(during("cannot choose a secret"))?;
    let random = Box::new(|| {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).expect("the system has given random bytes before");
        bytes
    });
    let server = Arc::new(PanelServer::new(parts));
    let config = Config { idle: settings.idle, users: settings.users };
    let mut panel = Panel::new(config, server, storage, random);
    panel.load(Duration::from_micros(wall_clock().as_micros()))?;
    log::info("panel", || format!("serves the panel at {url}/panel/"));
    if let Some(path) = panel.setup_path()? {
        log::info("panel", || format!("make the first administrator of the panel at {url}{path}"));
    }
    Ok(Some(panel_queue::start(panel)?))
}
