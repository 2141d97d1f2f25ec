//! The running server.

mod connections;
mod desk;
mod hub;
mod local;
mod lookups;
mod roster;
mod welcome;
mod workers;

use crate::admin::server::Server as Admin;
use crate::descriptors::{self, Shares};
use crate::failure::{Failure, during};
use crate::listen::Listen;
use crate::log;
use crate::settings::Settings;
use crate::storage::Storage;
use crate::storage::served::remember_domains;
use connections::{Bounds, Connections};
use desk::{Running, add_user};
use hub::{Hub, MAX_LOOKUPS};
use local::Engine;
use lookups::Lookups;
use net::{Clock, Dns, Socket, wall_clock};
use sip::Transport;
use sip::locate::Families;
use sip_server::config::{Advertised, Config, Listener};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use workers::Workers;

/// How long calls that are being set up are waited for at the end.
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// Reads the settings.
pub(crate) type ReadSettings = Box<dyn Fn() -> Result<Settings, Failure>>;

/// Everything that a server starts from.
pub(crate) struct Setup {
    /// The settings as they are now.
    pub(crate) settings: Settings,
    /// The data directory, which is this server's alone.
    pub(crate) data: PathBuf,
    /// Users, the secret and stored bindings.
    pub(crate) storage: Arc<dyn Storage>,
    /// The flags with which commands find the server.
    pub(crate) place: Vec<String>,
    /// Reads the settings again (SIGHUP).
    pub(crate) read_again: ReadSettings,
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// When the server cannot start.
pub(crate) fn run(setup: Setup) -> Result<(), Failure> {
    let Setup { settings, data, storage, place, read_again } = setup;
    log::set_limit(settings.log_lines_per_second);
    let limit = descriptors::raise_limit()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local_set = tokio::task::LocalSet::new();
    let workers = settings.workers();

    let (mut sockets, mut listeners, mut listens) = (Vec::new(), Vec::new(), Vec::new());
    for listen in settings.listens() {
        let bound = match listen.transport.is_stream() {
            false => {
                let group =
                    Socket::bind_group(listen.address, workers).map_err(cannot_listen(&listen))?;
                let address = group.first().map_or(listen.address, Socket::address);
                sockets.push(group);
                address
            }
            true => {
                let listener = net::listen(listen.address).map_err(cannot_listen(&listen))?;
                let address = listener.local_addr()?;
                listeners.push((listen.transport, listener));
                address
            }
        };
        listens.push(Listen { address: bound, ..listen });
    }

    let mut config = settings.engine_config();
    set_listeners(&mut config, &listens);
    remember_domains(&*storage, &config.domains)?;
    let engine = Arc::new(Engine::new(config.clone(), &storage.secret()?));
    let mut domains_of_users = std::collections::BTreeMap::<Arc<str>, u64>::new();
    storage.users(None, &mut |user| {
        add_user(&engine, &user);
        *domains_of_users.entry(user.domain).or_default() += 1;
        true
    })?;
    if !settings.registrations {
        // What is there from before will not be what is so when the server is told to keep them again.
        storage.forget_registrations()?;
    }
    let restored = storage.restore(wall_clock(), &mut |record| {
        engine.restore(&record, wall_clock());
    })?;
    engine.continue_after(restored.sequence);
    engine.forget_nonces_before(wall_clock());

    let (lookups, lookup_queue) = mpsc::channel(MAX_LOOKUPS);
    let journal = settings
        .registrations
        .then(|| Arc::clone(&storage).journal(settings.sync, workers))
        .transpose()?;
    let clock = Clock::start();
    let Shares { connections, lookups: most_lookups } =
        descriptors::share(limit, descriptors::open()?, workers, settings.max_connections)?;
    if connections < settings.max_connections {
        log::warn("start", || {
            format!(
                "at most {connections} TCP connections are taken, not the {} of limits.max_connections: only {limit} files may \
                 be open; to have more, raise that limit (LimitNOFILE= in the systemd unit, or ulimit -n)",
                settings.max_connections
            )
        });
    }
    let bounds = Bounds { connections, per_source: settings.max_connections_per_source };
    let connections = Connections::new(Arc::clone(&engine), listeners, workers, bounds, clock)?;
    let hub = Arc::new(Hub {
        engine,
        clock,
        journal,
        sockets,
        connections,
        lookups,
        listens: listens.clone(),
        dropped_lookups: AtomicU64::new(0),
        unstored: AtomicU64::new(0),
    });
    let transports = config.listeners.iter().map(|listener| listener.transport);
    let mut transports: Vec<Transport> = transports.collect();
    transports.sort_unstable();
    transports.dedup();
    let has_v6 = listens.iter().any(|listen| listen.address.is_ipv6());
    let desk = Arc::new(Running::new(
        Arc::clone(&hub),
        Arc::clone(&storage),
        config.clone(),
        listens.iter().map(Listen::to_string).collect(),
    ));
    let admin = Admin::start(&data, Arc::<Running>::clone(&desk))?;
    let threads = Workers::start(&hub, workers)?;
    welcome::welcome(&listens, &config.domains, hub.engine.users(), place)
        .lines()
        .for_each(|line| log::info("start", || line.to_owned()));
    if !config.authentication.required {
        log::warn("start", || {
            "AUTHENTICATION IS OFF: anybody may register as anybody, take other users' calls and call in their names; \
             others than users are called from limits.trusted alone. For anything but a laboratory leave \
             authentication.required out of the configuration"
                .to_owned()
        });
    }
    for (domain, users) in &domains_of_users {
        if !config.domains.iter().any(|served| *served.name == **domain) {
            log::warn("start", || {
                format!(
                    "{users} users are in the domain {domain}, which is not served; to serve it \
                     start with --domain {domain}"
                )
            });
        }
    }

    // A command may have found the damage, and said so to nobody who reads this.
    if let Some(damage) = storage.damage()? {
        log::warn("start", || damage);
    }

    let lookups_hub = Arc::clone(&hub);
    local_set.block_on(&runtime, async move {
        let families = if has_v6 { Families::V4First } else { Families::V4 };
        let dns = Dns::new(transports, families, |text| log::warn("dns", || text.to_owned()));
        let lookups = Rc::new(Lookups::new(lookups_hub, dns, most_lookups));
        let looking_up = tokio::task::spawn_local(lookups.run(lookup_queue));
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hangup = signal(SignalKind::hangup())?;
        loop {
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                _ = hangup.recv() => reload(&read_again, &listens, &desk, &*storage),
            }
        }
        log::info("stop", || "stopping: no new calls are taken".to_owned());
        hub.engine.drain();
        let deadline = tokio::time::Instant::now() + DRAIN_TIME;
        while hub.engine.unanswered() > 0 && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        drop(threads);
        looking_up.abort();
        drop(admin);
        Ok::<(), Failure>(())
    })?;
    log::info("stop", || "stopped".to_owned());
    Ok(())
}

/// Reads the configuration again and uses what can be changed while running.
fn reload(read_again: &ReadSettings, listens: &[Listen], desk: &Running, storage: &dyn Storage) {
    let settings = match read_again() {
        Ok(settings) => settings,
        Err(failure) => {
            log::error("reload", || format!("the configuration is kept as it was: {failure}"));
            return;
        }
    };
    log::set_limit(settings.log_lines_per_second);
    let mut config = settings.engine_config();
    set_listeners(&mut config, listens);
    if let Err(failure) = remember_domains(storage, &config.domains) {
        log::error("reload", || failure.to_string());
    }
    desk.configure(config);
    log::info("reload", || {
        "the configuration was read again; listen, data, workers, storage and the numbers of \
         connections stay as they were until a restart"
            .to_owned()
    });
}

fn set_listeners(config: &mut Config, listens: &[Listen]) {
    let listener =
        |listen: &Listen| Listener { transport: listen.transport, address: listen.address };
    config.listeners = listens.iter().map(listener).collect();
    let advertised = listens.iter().filter_map(|listen| {
        Some(Advertised { listener: listener(listen), address: listen.advertised? })
    });
    config.advertised = advertised.collect();
}

fn cannot_listen(listen: &Listen) -> impl FnOnce(std::io::Error) -> Failure + use<> {
    let listen = *listen;
    move |error| match error.kind() {
        std::io::ErrorKind::AddrInUse => Failure::said(format!(
            "cannot listen on {listen}: another program does; stop it, or choose another address \
             with --listen"
        )),
        std::io::ErrorKind::PermissionDenied => Failure::said(format!(
            "cannot listen on {listen}: ports below 1024 are for root, or for a program with \
             CAP_NET_BIND_SERVICE"
        )),
        std::io::ErrorKind::AddrNotAvailable => Failure::said(format!(
            "cannot listen on {listen}: no interface of this machine has that address"
        )),
        _ => during(format!("cannot listen on {listen}"))(error),
    }
}
