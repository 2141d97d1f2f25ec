//! What the operator decided, in the configuration file and with flags, and what follows from it.

use crate::cli::{Place, ServeFlags};
use crate::config_file;
use crate::data_dir;
use crate::domains::{self, Host};
use crate::failure::Failure;
use crate::listen::Listen;
use crate::log;
use crate::storage::Storage;
use sip_server::config::Domain;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// When registrations are safe from a power loss. They always are from a crash of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sync {
    /// Before they are answered.
    Always,
    /// At most this long after they are answered.
    Every(Duration),
    /// When the system writes them by itself, often half a minute later.
    Never,
}

/// What the operator decided, before anything is asked of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// What the engine is told. Its domains are the configured ones.
    pub(crate) engine: sip_server::Config,
    /// Where to listen; empty for [`Listen::defaults_here`].
    pub(crate) listens: Vec<Listen>,
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
    /// The settings of `serve` with `flags`: what the file says, overruled by the flags. Can be
    /// called again to read the file anew.
    ///
    /// # Errors
    /// When the configuration file cannot be used.
    pub(crate) fn load(flags: &ServeFlags) -> Result<Self, Failure> {
        let mut settings = match &flags.place.config {
            Some(file) => config_file::load(file)?,
            None => Self::default(),
        };
        let engine = &mut settings.engine;
        if !flags.domain.is_empty() {
            let configured = std::mem::take(&mut engine.domains);
            for name in distinct(&flags.domain) {
                let known = configured.iter().find(|domain| domain.name == name);
                let plain = || Domain { name, aliases: Vec::new() };
                engine.domains.push(known.cloned().unwrap_or_else(plain));
            }
        }
        engine.mode = flags.mode.unwrap_or(engine.mode);
        engine.state = flags.state.unwrap_or(engine.state);
        engine.authentication.required = flags.auth.unwrap_or(engine.authentication.required);
        if !flags.listen.is_empty() {
            settings.listens = distinct(&flags.listen);
        }
        settings.workers = flags.workers.or(settings.workers);
        settings.data = flags.place.data.clone().or(settings.data);
        Ok(settings)
    }

    /// The settings of a command other than `serve`.
    ///
    /// # Errors
    /// When the configuration file cannot be used.
    pub(crate) fn at(place: &Place) -> Result<Self, Failure> {
        Self::load(&ServeFlags { place: place.clone(), ..ServeFlags::default() })
    }

    /// What the engine is told on this machine: with the domains and aliases that are the host's.
    pub(crate) fn engine_config(&self) -> sip_server::Config {
        let domains = domains::served(&self.engine.domains, &Host::this());
        sip_server::Config { domains, ..self.engine.clone() }
    }

    /// Where to listen.
    pub(crate) fn listens(&self) -> Vec<Listen> {
        if self.listens.is_empty() { Listen::defaults_here() } else { self.listens.clone() }
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

/// The first of each value.
fn distinct<T: Clone + PartialEq>(values: &[T]) -> Vec<T> {
    let mut distinct = Vec::new();
    for value in values {
        if !distinct.contains(value) {
            distinct.push(value.clone());
        }
    }
    distinct
}

/// Keeps the domains that a server serves, for commands that find it stopped.
///
/// # Errors
/// When storage fails.
pub(crate) fn remember_domains(storage: &Storage, domains: &[Domain]) -> Result<(), Failure> {
    let plain: Vec<_> = domains.iter().map(|domain| (&domain.name, &domain.aliases)).collect();
    storage.set_setting("domains", &serde_json::to_vec(&plain)?)?;
    Ok(())
}

/// The domains that the last server served, if there was one.
///
/// # Errors
/// When storage fails.
pub(crate) fn remembered_domains(storage: &Storage) -> Result<Option<Vec<Domain>>, Failure> {
    let Some(stored) = storage.setting("domains")? else { return Ok(None) };
    let plain: Vec<(String, Vec<String>)> = serde_json::from_slice(&stored)?;
    Ok(Some(plain.into_iter().map(|(name, aliases)| Domain { name, aliases }).collect()))
}

/// Everything that [`serve::run`](crate::serve::run) starts from.
pub(crate) struct Setup {
    /// The flags, with which [`Settings::load`] reads the configuration again (SIGHUP).
    pub(crate) flags: ServeFlags,
    /// The settings as they are now.
    pub(crate) settings: Settings,
    /// Users, the secret and stored bindings; holds the lock on the data directory.
    pub(crate) storage: Arc<Storage>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;
    use std::io::Write;

    #[test]
    fn flags_overrule_the_file_and_keep_what_it_says_of_a_domain() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let text = "mode = \"redirect\"\nworkers = 3\ndata = \"/from/file\"\n\
                    domains = [\"a.com\", { name = \"b.com\", aliases = [\"sip.b.com\"] }]";
        file.write_all(text.as_bytes()).unwrap();
        let words = "barebell serve --domain b.com --domain c.com --domain b.com --auth off \
                     --listen udp:127.0.0.1:1 --listen udp:127.0.0.1:1 --mode registrar --config";
        let words = words.split(' ').map(str::to_owned);
        let cli = Cli::parse_from(words.chain([file.path().display().to_string()]));
        let Some(Command::Serve(flags)) = cli.command else { panic!("not serve") };
        let settings = Settings::load(&flags).unwrap();
        let names: Vec<_> = settings.engine.domains.iter().map(|d| d.name.as_str()).collect();
        assert_eq!(names, ["b.com", "c.com"]);
        assert_eq!(settings.engine.domains[0].aliases, ["sip.b.com"]);
        assert_eq!(settings.engine.mode, sip_server::config::Mode::Registrar);
        assert!(!settings.engine.authentication.required);
        assert_eq!(settings.listens.len(), 1);
        assert_eq!(settings.workers(), 3);
        assert_eq!(settings.data().unwrap(), PathBuf::from("/from/file"));
    }
}
