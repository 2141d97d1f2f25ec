//! The settings of the operator, and their values for this machine.

use crate::b2bua::B2buaSettings;
use crate::certificates::{Tls, TlsSettings};
use crate::data_dir;
use crate::decisions::DecisionSettings;
use crate::domains::{self, Host};
use crate::failure::Failure;
use crate::groups;
use crate::http::HttpSettings;
use crate::keep_alive::KeepAliveSettings;
use crate::kept_messages::KeptMessagesSettings;
use crate::listen::Listen;
use crate::log;
use crate::media::MediaSettings;
use crate::media_server::MediaServerSettings;
use crate::panel_settings::PanelSettings;
use crate::push::PushSettings;
use crate::trunks::TrunkSettings;
use crate::turn::TurnSettings;
use net::Origins;
use net::tls::Server;
use numbers::{Plan, PlanConfig};
use sip_server::Watching;
use sip_server::config::{Joining, Relaying};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use store::Sync;
use store::postgres::AccountsPlace;

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
    /// The database of accounts, if they are not in the data directory.
    pub(crate) accounts: Option<AccountsSettings>,
    /// The keep-alives to phones.
    pub(crate) keep_alive: KeepAliveSettings,
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
    /// The media server.
    pub(crate) media_server: MediaServerSettings,
    /// The limits of the B2BUA.
    pub(crate) b2bua: B2buaSettings,
    /// True if phones without a subscription get message counts.
    pub(crate) tells_all_phones: bool,
    /// The limits of subscriptions.
    pub(crate) notifier: notifier::Config,
    /// The TURN servers of phones.
    pub(crate) turn: TurnSettings,
    /// The HTTP listener.
    pub(crate) http: HttpSettings,
    /// The messages that are kept, if the engine leads them to the server.
    pub(crate) kept_messages: KeptMessagesSettings,
    /// The push notifications.
    pub(crate) push: PushSettings,
    /// The panel.
    pub(crate) panel: PanelSettings,
    /// The messages of the last minutes.
    pub(crate) trace: TraceSettings,
    /// The trunks.
    pub(crate) trunks: Vec<TrunkSettings>,
    /// The numbering plan, without the names of trunks and the default domain.
    pub(crate) numbers: PlanConfig,
    /// The hook that decides on calls to and from trunks.
    pub(crate) decisions: DecisionSettings,
    /// The maximum number of log lines of one kind per second; 0: no limit.
    pub(crate) log_lines_per_second: u32,
}

/// The database of accounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AccountsSettings {
    pub(crate) place: AccountsPlace,
    /// The time after which a table that does not tell of its changes is read again.
    pub(crate) poll: sip::Duration,
    /// True if the records of calls are copied to the database.
    pub(crate) has_records: bool,
    /// True if messages for phones that are away are kept in the database.
    pub(crate) has_messages: bool,
    /// True if the state of voice messages is copied to the database.
    pub(crate) has_voicemail: bool,
}

impl Default for AccountsSettings {
    fn default() -> Self {
        let place = AccountsPlace {
            url: String::new(),
            password_file: None,
            table: "subscriber".to_owned(),
        };
        Self {
            place,
            poll: sip::Duration::from_secs(60),
            has_records: false,
            has_messages: false,
            has_voicemail: false,
        }
    }
}

/// The messages of the last minutes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceSettings {
    /// The memory of the messages of all workers, in bytes. Zero if none are kept.
    pub(crate) memory: usize,
    /// The host and port of Homer, if the messages are sent there.
    pub(crate) hep: Option<String>,
    /// The identifier of this server at Homer.
    pub(crate) hep_id: u32,
}

impl Default for TraceSettings {
    fn default() -> Self {
        Self { memory: 16 << 20, hep: None, hep_id: 1 }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            engine: sip_server::Config {
                joining: Joining::Needed,
                watching: Watching { messages: true, ..Watching::default() },
                ..sip_server::Config::default()
            },
            listens: Vec::new(),
            tls: TlsSettings::default(),
            origins: Origins::default(),
            page: false,
            data: None,
            workers: None,
            accounts: None,
            keep_alive: KeepAliveSettings::default(),
            registrations: true,
            sync: Sync::Every(Duration::from_secs(1)),
            max_connections: None,
            max_connections_per_source: 1000,
            media: MediaSettings::default(),
            media_server: MediaServerSettings::default(),
            b2bua: B2buaSettings::default(),
            tells_all_phones: false,
            notifier: notifier::Config::default(),
            turn: TurnSettings::default(),
            http: HttpSettings::default(),
            kept_messages: KeptMessagesSettings::default(),
            push: PushSettings::default(),
            panel: PanelSettings::default(),
            trace: TraceSettings::default(),
            trunks: Vec::new(),
            numbers: PlanConfig::default(),
            decisions: DecisionSettings::default(),
            log_lines_per_second: log::DEFAULT_LINES_PER_SECOND,
        }
    }
}

impl Settings {
    /// The engine's configuration for this machine, with the domains and aliases of the host.
    pub(crate) fn engine_config(&self) -> sip_server::Config {
        let domains = domains::served(&self.engine.domains, &Host::this());
        let media_services = self.media_server.engine_services();
        let groups = groups::complete(&self.engine.groups, &domains);
        sip_server::Config { domains, groups, media_services, ..self.engine.clone() }
    }

    /// Like [`Settings::plan`], or `None` if the configuration has neither numbers nor trunks.
    ///
    /// # Errors
    /// Those of [`Settings::plan`].
    pub(crate) fn plan_if_any(&self, domain: &str) -> Result<Option<Plan>, Failure> {
        let is_any = !self.trunks.is_empty() || self.numbers != PlanConfig::default();
        is_any.then(|| self.plan(domain)).transpose()
    }

    /// The numbering plan of an office with these trunks and the first domain `domain`.
    ///
    /// # Errors
    /// [`Failure`] if the plan has errors, which the reader of the configuration finds, too.
    pub(crate) fn plan(&self, domain: &str) -> Result<Plan, Failure> {
        let trunks = self.trunks.iter().map(|trunk| trunk.name.clone()).collect();
        let config = PlanConfig { domain: domain.to_owned(), trunks, ..self.numbers.clone() };
        Plan::new(&config).map_err(|errors| {
            let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
            Failure::message(format!("the numbering plan cannot be used: {}", texts.join("; ")))
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
        let is_secure = listens.iter().any(|listen| listen.transport.is_secure());
        if !is_secure && !self.http.is_secure() {
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

    /// The number of sockets that the media relay and the media server need at most.
    pub(crate) fn media_sockets(&self) -> usize {
        let is_off = self.media.ng.listen.is_none() && !self.media_server.enabled;
        match self.engine.relaying {
            Relaying::Off if is_off => 0,
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
            ("accounts", self.accounts != new.accounts),
            ("registrar.keepalive", self.keep_alive != new.keep_alive),
            (
                "messages",
                self.kept_messages != new.kept_messages
                    || self.engine.keeps_messages != new.engine.keeps_messages,
            ),
            ("numbers.hook", self.decisions != new.decisions),
            ("push", self.push != new.push || self.engine.push != new.engine.push),
            ("storage.registrations", self.registrations != new.registrations),
            ("storage.sync", self.sync != new.sync),
            ("limits.max_connections", self.max_connections != new.max_connections),
            (
                "limits.max_connections_per_source",
                self.max_connections_per_source != new.max_connections_per_source,
            ),
            ("trace.memory", self.trace.memory != new.trace.memory),
            ("trace.hep", self.trace.hep != new.trace.hep),
            ("trace.hep_id", self.trace.hep_id != new.trace.hep_id),
            ("http.listen", self.http.listen != new.http.listen),
            ("http.clients", self.http.clients != new.http.clients),
            ("panel.enabled", self.panel.enabled != new.panel.enabled),
            ("panel.idle", self.panel.idle != new.panel.idle),
            ("panel.users", self.panel.users != new.panel.users),
            ("media.relay", is_turned_on),
            ("media.ports", now.ports != media.ports),
            ("media.timeout", old.inactivity != limits.inactivity),
            ("media.hold_timeout", old.hold != limits.hold),
            ("media.max_bandwidth", old.bandwidth != limits.bandwidth),
            ("media.max_calls", now.max_calls != media.max_calls),
            ("media.max_calls_per_source", old.calls_of_owner != limits.calls_of_owner),
            ("media.max_transcoded", old.conversions != limits.conversions),
            (
                "media.max_transcoded_per_source",
                old.conversions_of_owner != limits.conversions_of_owner,
            ),
            ("media.records", now.records != media.records),
            ("media.records_size", now.records_size != media.records_size),
            ("media.history", now.history.age != media.history.age),
            ("media.history_calls", now.history.calls != media.history.calls),
            ("media.ng_max_calls", now.ng_max_calls != media.ng_max_calls),
            ("media.ng", now.ng.listen != media.ng.listen),
            ("media.ng_clients", now.ng.clients != media.ng.clients),
            ("media.ng_interfaces", now.ng.interfaces != media.ng.interfaces),
            ("media_server.enabled", self.media_server.enabled != new.media_server.enabled),
            ("media_server.command", self.media_server.command != new.media_server.command),
            (
                "media_server.command_timeout",
                self.media_server.command_timeout != new.media_server.command_timeout,
            ),
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
