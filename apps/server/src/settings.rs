//! What the operator decided, and what follows from it on this machine.

use crate::certificates::{Tls, TlsSettings};
use crate::data_dir;
use crate::domains::{self, Host};
use crate::failure::Failure;
use crate::listen::Listen;
use crate::log;
use crate::storage::Sync;
use net::Origins;
use net::tls::Server;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the operator decided, before anything is asked of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// What the engine is told. Its domains are the configured ones.
    pub(crate) engine: sip_server::Config,
    /// Where to listen; empty for [`Listen::defaults_here`].
    pub(crate) listens: Vec<Listen>,
    /// TLS, where it is listened to.
    pub(crate) tls: TlsSettings,
    /// Whose pages may ask for WebSocket.
    pub(crate) origins: Origins,
    /// The data directory, if not the default one.
    pub(crate) data: Option<PathBuf>,
    /// Worker threads, if not one for each core.
    pub(crate) workers: Option<usize>,
    /// Whether registrations are kept on the disk.
    pub(crate) registrations: bool,
    /// When registrations are safe from a power loss.
    pub(crate) sync: Sync,
    /// Stream connections that may be open.
    pub(crate) max_connections: usize,
    /// Stream connections that may be open from one address.
    pub(crate) max_connections_per_source: usize,
    /// Log lines a second of one kind; 0: no limit.
    pub(crate) log_lines_per_second: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            engine: sip_server::Config::default(),
            listens: Vec::new(),
            tls: TlsSettings::default(),
            origins: Origins::default(),
            data: None,
            workers: None,
            registrations: true,
            sync: Sync::Every(Duration::from_secs(1)),
            max_connections: 100_000,
            max_connections_per_source: 1000,
            log_lines_per_second: log::DEFAULT_LINES_PER_SECOND,
        }
    }
}

impl Settings {
    /// What the engine is told on this machine: with the domains and aliases that are the host's.
    pub(crate) fn engine_config(&self) -> sip_server::Config {
        let domains = domains::served(&self.engine.domains, &Host::this());
        sip_server::Config { domains, ..self.engine.clone() }
    }

    /// Where to listen.
    pub(crate) fn listens(&self) -> Vec<Listen> {
        if self.listens.is_empty() { Listen::defaults_here() } else { self.listens.clone() }
    }

    /// What TLS begins with, where it is listened to, with what was there `before`. A
    /// certificate that has to be made is for the domains and the addresses that are served.
    ///
    /// # Errors
    /// When a file cannot be used.
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

    /// The names of the server: its domains, and the addresses at which it listens or that it is
    /// called outside.
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

    /// How many worker threads to run.
    pub(crate) fn workers(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.workers.unwrap_or_else(cores)
    }

    /// The data directory.
    ///
    /// # Errors
    /// When none is named and there is no default one.
    pub(crate) fn data(&self) -> Result<PathBuf, Failure> {
        self.data.clone().map_or_else(data_dir::default_path, Ok)
    }
}
