//! The engine's configuration.

use super::budget::Budget;
use crate::options::server::Options;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use sip::Transport;
use sip::digest::Algorithm;
use sip_server::Config;
use sip_server::config::{Advertised, Domain, Listener, Network};
use smoltcp::wire::Ipv4Cidr;

/// The SIP port.
pub(super) const SIP: u16 = 5060;

/// The engine's configuration for our address `ours`, users with hashes by `algorithms`, and
/// `memory` bytes.
pub(super) fn config(
    options: &Options,
    ours: Option<IpAddr>,
    algorithms: &[Algorithm],
    memory: usize,
) -> Config {
    let mut config = Config {
        mode: options.mode,
        state: options.state,
        domains: [domain(options, ours)].into(),
        timings: true,
        relaying: options.relay,
        media_keys: options.keys,
        ..Config::default()
    };
    let address = SocketAddr::new(ours.unwrap_or(Ipv4Addr::UNSPECIFIED.into()), SIP);
    let listener = |transport| Listener { transport, address };
    config.listeners = [Transport::Udp, Transport::Tcp].map(listener).into();
    let outside = options.advertised.map(SocketAddr::V4);
    let advertised =
        |listener: &Listener| Some(Advertised { listener: *listener, address: outside? });
    config.advertised = config.listeners.iter().filter_map(advertised).collect();
    config.authentication.required = options.auth;
    config.authentication.algorithms.retain(|algorithm| algorithms.contains(algorithm));
    if config.authentication.algorithms.is_empty() {
        config.authentication.algorithms = algorithms.to_vec();
    }
    config.registrar.max_expires = options.expires;
    config.registrar.default_expires = options.expires;
    let network = |network: &Ipv4Cidr| Network {
        address: network.address().into(),
        prefix: network.prefix_len(),
    };
    config.limits.trusted = options.trusted.iter().map(network).collect();
    let budget = Budget::of(memory);
    let limits = &mut config.limits;
    limits.max_transaction_bytes = limits.max_transaction_bytes.min(budget.transactions);
    limits.max_dialog_bytes = limits.max_dialog_bytes.min(budget.dialogs);
    limits.max_sources = limits.max_sources.min(budget.sources);
    let max_nonces = &mut config.authentication.max_nonces;
    *max_nonces = (*max_nonces).min(budget.nonces);
    config
}

/// The domain of the server: the configured names and our address.
pub(super) fn domain(options: &Options, ours: Option<IpAddr>) -> Domain {
    let address = ours.map(|address| address.to_string());
    let mut names: Vec<_> = options.domain.iter().cloned().chain(address).collect();
    let name = if names.is_empty() { "localhost".into() } else { names.remove(0) };
    Domain { name, aliases: names }
}
