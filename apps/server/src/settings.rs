//! The settings of the operator, and their values for this machine.

use crate::b2bua::B2buaSettings;
use crate::certificates::{Tls, TlsSettings};
use crate::data_dir;
use crate::domains::{self, Host};
use crate::failure::Failure;
use crate::listen::Listen;
use crate::log;
use crate::media::MediaSettings;
use crate::trunks::TrunkSettings;
use crate::turn::TurnSettings;
use net::Origins;
use net::tls::Server;
use numbers::{Plan, PlanConfig};
use sip_server::config::{Joining, Relaying};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use store::Sync;

/// The default maximum number of open stream connections.
const MAX_CONNECTIONS: usize = 100_000;

/// The settings of the operator, independent of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The engine's configuration, with the configured domains.
    pub(crate) engine: sip_server::Config,
    /// The listening addresses; empty for [`Listen::defaults_here`].
    pub(crate) listens: Vec<Listen>,
    /// The settings of TLS.
    pub(crate) tls: TlsSettings,
    /// The web origins that may use WebSocket.
    pub(crate) origins: Origins,
    /// True if the page that telephones is served.
    pub(crate) page: bool,
    /// The data directory, unless it is the default one.
    pub(crate) data: Option<PathBuf>,
    /// The number of worker threads, unless it is one for each core.
    pub(crate) workers: Option<usize>,
    /// True if registrations are stored on disk.
    pub(crate) registrations: bool,
    /// The time at which registrations survive a power loss.
    pub(crate) sync: Sync,
    /// The maximum number of open stream connections, unless it is the default one.
    pub(crate) max_connections: Option<usize>,
    /// The maximum number of open stream connections from one address.
    pub(crate) max_connections_per_source: usize,
    /// The ports and the limits of the media relay.
    pub(crate) media: MediaSettings,
    /// The limits of the B2BUA.
    pub(crate) b2bua: B2buaSettings,
    /// The TURN servers of phones.
    pub(crate) turn: TurnSettings,
    /// The trunks.
    pub(crate) trunks: Vec<TrunkSettings>,
    /// The numbering plan, without the names of trunks and the default domain.
    pub(crate) numbers: PlanConfig,
    /// The maximum number of log lines of one kind per second; 0: no limit.
    pub(crate) log_lines_per_second: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            engine: sip_server::Config {
                joining: Joining::Needed,
                ..sip_server::Config::default()
            },
            listens: Vec::new(),
            tls: TlsSettings::default(),
            origins: Origins::default(),
            page: false,
            data: None,
            workers: None,
            registrations: true,
            sync: Sync::Every(Duration::from_secs(1)),
            max_connections: None,
            max_connections_per_source: 1000,
            media: MediaSettings::default(),
            b2bua: B2buaSettings::default(),
            turn: TurnSettings::default(),
            trunks: Vec::new(),
            numbers: PlanConfig::default(),
            log_lines_per_second: log::DEFAULT_LINES_PER_SECOND,
        }
    }
}

impl Settings {
    /// The engine's configuration for this machine, with the domains and aliases of the host.
    pub(crate) fn engine_config(&self) -> sip_server::Config {
        let domains = domains::served(&self.engine.domains, &Host::this());
        sip_server::Config { domains, ..self.engine.clone() }
    }

    /// Like [`Settings::plan`], or `None` if the configuration has neither numbers nor trunks.
    ///
    /// # Errors
    /// Those of [`Settings::plan`].
    pub(crate) fn plan_if_any(&self, domain: &str) -> Result<Option<Plan>, Failure> {
        let is_any = !self.trunks.is_empty() || self.numbers != PlanConfig::default();
        is_any.then(|| self.plan(domain)).transpose()
    }

    /// The numbering plan of an office with these trunks, whose first domain is `domain`.
    ///
    /// # Errors
    /// [`Failure`] if the plan has errors, which the reader of the configuration finds, too.
    pub(crate) fn plan(&self, domain: &str) -> Result<Plan, Failure> {
        let trunks = self.trunks.iter().map(|trunk| trunk.name.clone()).collect();
        let config = PlanConfig { domain: domain.to_owned(), trunks, ..self.numbers.clone() };
        Plan::new(&config).map_err(|errors| {
            let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
            Failure::said(format!("the numbering plan cannot be used: {}", texts.join("; ")))
        })
    }

    /// The listening addresses.
    pub(crate) fn listens(&self) -> Vec<Listen> {
        if self.listens.is_empty() { Listen::defaults_here() } else { self.listens.clone() }
    }

    /// The TLS configuration, if there is a secure listener. `before` is the present one. A
    /// self-signed certificate is created for the served domains and addresses.
    ///
    /// # Errors
    /// [`Failure`] if a file cannot be used.
    pub(crate) fn open_tls(
        &self,
        data: &Path,
        before: Option<&Server>,
    ) -> Result<Option<Tls>, Failure> {
        let listens = self.listens();
        if !listens.iter().any(|listen| listen.transport.is_secure()) {
            return Ok(None);
        }
        self.tls.open(data, &self.names(), before).map(Some)
    }

    /// The names of the server: its domains, and its listening and advertised addresses.
    pub(crate) fn names(&self) -> Vec<String> {
        let domains = self.engine_config().domains;
        let domains = domains.into_iter().flat_map(|domain| [vec![domain.name], domain.aliases]);
        let mut names: Vec<String> = domains.flatten().collect();
        names.extend(self.listens().iter().filter_map(Listen::outside_host));
        names.push("localhost".to_owned());
        let mut known = HashSet::new();
        names.retain(|name| known.insert(name.clone()));
        names
    }

    /// The number of sockets that the media relay needs at most.
    pub(crate) fn media_sockets(&self) -> usize {
        match self.engine.relaying {
            Relaying::Off if self.media.ng.listen.is_none() => 0,
            Relaying::Off | Relaying::Needed | Relaying::All => 2 * self.media.ports.pairs(),
        }
    }

    /// The keys with values in `new` that take effect at the next start of a server that was
    /// started with these settings.
    pub(crate) fn keys_for_restart(&self, new: &Self) -> Vec<&'static str> {
        let (now, media) = (&self.media, &new.media);
        let (old, limits) = (&now.limits, &media.limits);
        // A server that started without a relay has none to turn on.
        let is_turned_on =
            self.engine.relaying == Relaying::Off && new.engine.relaying != Relaying::Off;
        [
            ("listen", self.listens != new.listens),
            ("data", self.data != new.data),
            ("workers", self.workers != new.workers),
            ("storage.registrations", self.registrations != new.registrations),
            ("storage.sync", self.sync != new.sync),
            ("limits.max_connections", self.max_connections != new.max_connections),
            (
                "limits.max_connections_per_source",
                self.max_connections_per_source != new.max_connections_per_source,
            ),
            ("media.relay", is_turned_on),
            ("media.ports", now.ports != media.ports),
            ("media.timeout", old.inactivity != limits.inactivity),
            ("media.max_calls", now.max_calls != media.max_calls),
            ("media.max_calls_per_source", old.calls_of_owner != limits.calls_of_owner),
            ("media.max_transcoded", old.conversions != limits.conversions),
            (
                "media.max_transcoded_per_source",
                old.conversions_of_owner != limits.conversions_of_owner,
            ),
            ("media.records", now.records != media.records),
            ("media.records_size", now.records_size != media.records_size),
            ("media.ng_max_calls", now.ng_max_calls != media.ng_max_calls),
            ("media.ng", now.ng.listen != media.ng.listen),
            ("media.ng_clients", now.ng.clients != media.ng.clients),
            ("media.ng_interfaces", now.ng.interfaces != media.ng.interfaces),
        ]
        .into_iter()
        .filter_map(|(key, differs)| differs.then_some(key))
        .collect()
    }

    /// The number of worker threads.
    pub(crate) fn workers(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.workers.unwrap_or_else(cores)
    }

    /// The maximum number of open stream connections, if the system permits that many.
    pub(crate) fn max_connections(&self) -> usize {
        self.max_connections.unwrap_or(MAX_CONNECTIONS)
    }

    /// The data directory.
    ///
    /// # Errors
    /// [`Failure`] if no directory is configured and there is no default one.
    pub(crate) fn data(&self) -> Result<PathBuf, Failure> {
        self.data.clone().map_or_else(data_dir::default_path, Ok)
    }
}
