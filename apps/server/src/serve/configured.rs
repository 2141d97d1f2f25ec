//! The configuration of the engine, with the listeners and the storage.

use super::listening::set_listeners;
use crate::failure::Failure;
use crate::listen::Listen;
use crate::settings::Settings;
use sip::{Endpoint, Flow};
use sip_server::config::Config;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use store::Storage;

/// The default domain.
pub(super) fn domain_of(config: &Config) -> &str {
    config.domains.first().map_or("", |domain| domain.name.as_str())
}

/// The configuration of the notifier.
pub(super) fn notifier_config(settings: &Settings, listens: &[Listen]) -> notifier::Config {
    let mut config = settings.notifier.clone();
    config.unsolicited = unsolicited_flow(settings, listens);
    config
}

/// The internal flow of message counts to phones without a subscription, if they get them.
fn unsolicited_flow(settings: &Settings, listens: &[Listen]) -> Option<Flow> {
    internal_flow(listens, Endpoint::Notifier).filter(|_| settings.tells_all_phones)
}

/// The internal flow on which `endpoint` sends requests of its own.
pub(super) fn internal_flow(listens: &[Listen], endpoint: Endpoint) -> Option<Flow> {
    let listen = listens.first()?;
    let mut local = listen.address;
    if local.ip().is_unspecified() {
        // The endpoint and the engine are at this host.
        local.set_ip(match local {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    let flow = Flow { transport: listen.transport, local, remote: local, connection: None };
    Some(flow.internal_to(endpoint))
}

/// The configuration of the engine.
pub(super) fn engine_config(
    settings: &Settings,
    listens: &[Listen],
    storage: &dyn Storage,
) -> Result<Config, Failure> {
    let mut config = settings.engine_config();
    set_listeners(&mut config, listens)?;
    config.authentication.realms = storage.realms()?;
    Ok(config)
}
