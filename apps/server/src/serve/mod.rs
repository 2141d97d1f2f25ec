//! The running server: its start, its end, and the time for which a stop waits.

mod accounts;
mod b2bua;
mod connections;
mod counted;
mod counters;
mod desk;
mod digits;
mod http;
mod hub;
mod listening;
mod load;
mod local;
mod lookups;
mod media;
mod media_server;
mod media_server_thread;
mod monitor;
mod notifier;
mod numbers;
mod observations;
mod records;
mod refused;
mod renewal;
mod scheduler;
mod served;
mod standing;
mod total;
mod trunk_calls;
mod trunk_use;
mod trunks;
mod welcome;
mod workers;

use crate::admin::desk::remember_accounts;
use crate::admin::server::Server as Admin;
use crate::descriptors::{self, Shares};
use crate::failure::{Failure, during};
use crate::listen::Listen;
use crate::log;
use crate::served_domains::remember_domains;
use crate::settings::Settings;
use crate::trace::Tracer;
use crate::trunks::registry_configs;
use ::b2bua::Transmit;
use ::relay::Calls;
use accounts::AccountsThread;
use b2bua::SharedB2bua;
use connections::{Bounds, Connections, CurrentTls};
use desk::Running;
use http::{HttpCounters, HttpListener};
use hub::{Hub, Lookup, MAX_LOOKUPS};
use listening::{Bound, bind, set_listeners};
use load::load;
use local::{CarryOut, Engine, Local};
use lookups::Lookups;
use media::{Media, Ng, NgThread, Relay};
use media_server::{Prepared, SharedMediaServer};
use media_server_thread::MediaServerThread;
use net::tls::Client;
use net::{Clock, Dns};
use notifier::SharedNotifier;
use numbers::SharedPlan;
use observations::Observations;
use records::{History, Records};
use refused::RefusedCalls;
use renewal::Renewal;
use sip::locate::AddressFamilies;
use sip::{Endpoint, Flow, Transport};
use sip_server::config::{Config, Relaying};
use sip_server::{CallRecord, Party};
use standing::StandingCalls;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use store::Storage;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use total::Total;
use trunks::SharedTrunks;
use workers::Workers;

/// The time to wait for unanswered calls at shutdown.
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// The time to wait for the ends of the B2BUA's calls at shutdown.
const END_TIME: Duration = Duration::from_secs(2);

/// The time in which phones connect again after the server was killed. It is longer than a
/// transaction, so that the request is not taken for a retransmission.
const RECONNECTION: Duration = Duration::from_secs(35);

/// Reads the settings.
pub(crate) type ReadSettings = Box<dyn Fn() -> Result<Settings, Failure>>;

/// The input of a server start.
pub(crate) struct Setup {
    /// The present settings.
    pub(crate) settings: Settings,
    /// The data directory, locked by this server.
    pub(crate) data: PathBuf,
    /// The storage of users, the secret and bindings.
    pub(crate) storage: Arc<dyn Storage>,
    /// The flags with which other commands find the server.
    pub(crate) place: Vec<String>,
    /// Reads the settings again (SIGHUP).
    pub(crate) read_again: ReadSettings,
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// [`Failure`] if the server cannot start.
pub(crate) fn run(setup: Setup) -> Result<(), Failure> {
    let Setup { settings, data, storage, place, read_again } = setup;
    log::set_limit(settings.log_lines_per_second);
    let limit = descriptors::raise_limit()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let workers = settings.workers();
    let bound = bind(&settings.listens(), workers)?;
    let http = HttpListener::bind(&settings.http)?;
    let listens = bound.listens.clone();
    let config = engine_config(&settings, &listens, &*storage)?;
    let trunks = registry_configs(&settings.trunks)?;
    let plan = settings.plan_if_any(domain_of(&config))?;
    remember_domains(&*storage, &config.domains)?;
    let engine = load(&*storage, &config, settings.registrations)?;
    let tls = settings.open_tls(&data, None)?;
    let remark = tls.as_ref().map(|tls| (tls.remark(), tls.advice()));
    let tls = Arc::new(CurrentTls::new(tls, &settings));
    let Opened { hub, lookups, lost, prepared } =
        open(&settings, &data, limit, bound, engine, &storage, &tls)?;
    let desk = Arc::new(Running::new(
        Arc::clone(&hub),
        Arc::clone(&storage),
        data.clone(),
        config.clone(),
        listens.iter().map(Listen::to_string).collect(),
    ));
    let (hosts, http_counters) = (settings.names(), Arc::clone(&hub.http));
    let admin = Admin::start(&data, Arc::<Running>::clone(&desk))?;
    // The first call meets the numbers.
    desk.configure_numbers(plan, &config);
    desk.configure_trunks(&settings.trunks, trunks);
    let accounts = start_accounts(&settings, &desk, &storage)?;
    let threads = Workers::start(&hub, workers)?;
    let start_ng = |ng: &Arc<Ng>| {
        let keeper = Arc::clone(&hub);
        let keep = move |record| keeper.keep(record);
        NgThread::start(ng, &hub.engine, hub.clock, Box::new(keep))
    };
    let ng_thread = hub.ng.as_ref().map(start_ng).transpose()?;
    let http_url = http.as_ref().map(|http| http.url.clone());
    let start_http = |http: HttpListener| {
        http.start(Arc::clone(&tls), hosts, http_counters, Arc::<Running>::clone(&desk))
    };
    let http_thread = http.map(start_http).transpose()?;
    let media_server = match (&hub.media_server, &hub.media, prepared) {
        (Some(server), Some(media), Some(prepared)) => {
            Some(MediaServerThread::start(&hub, server, media.clone(), prepared)?)
        }
        _ => None,
    };
    welcome::welcome(&listens, &config.domains, hub.engine.users(), place)
        .lines()
        .for_each(|line| log::info("start", || line.to_owned()));
    if let Some(url) = http_url {
        log::info("start", || format!("serves HTTP for monitoring at {url}/metrics"));
    }
    if let Some((remark, advice)) = remark {
        log::info("start", || remark);
        advice.into_iter().for_each(|advice| log::info("start", || advice.to_owned()));
    }
    welcome::warn(&config);
    welcome::warn_of_users(&config.domains, &desk.unserved());
    // A command may have found and reported the damage before, but not in this log.
    if let Some(damage) = storage.damage()? {
        log::warn("start", || damage);
    }
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let looking_up = tokio::task::spawn_local(lookups.start(&hub, dns(&config)));
        let ending = tokio::task::spawn_local(end_lost_calls(Arc::clone(&hub), lost));
        let started = settings.clone();
        let renewal = Renewal::new(data, tls, settings);
        renewal.keep();
        until_told_to_end(|| reload(&read_again, &started, &listens, &desk, &*storage, &renewal))
            .await?;
        log::info("stop", || "stopping: no new calls are accepted".to_owned());
        drain(&hub.engine).await;
        end_calls(&hub).await;
        end_subscriptions(&hub).await;
        // It stores the messages that are being recorded.
        drop(media_server);
        end_registrations(&hub).await;
        drop(accounts);
        drop(http_thread);
        drop(ng_thread);
        drop(threads);
        looking_up.abort();
        ending.abort();
        hub.b2bua.finish();
        record_standing(&hub);
        drop(admin);
        Ok::<(), Failure>(())
    })?;
    // A request to an ACME issuer may be under way. It is not waited for.
    runtime.shutdown_background();
    log::info("stop", || "stopped".to_owned());
    Ok(())
}

/// Starts the copy of the accounts in a database, if they are in one.
fn start_accounts(
    settings: &Settings,
    desk: &Arc<Running>,
    storage: &Arc<dyn Storage>,
) -> Result<Option<AccountsThread>, Failure> {
    let place = settings.accounts.as_ref().map(|accounts| accounts.place.to_string());
    remember_accounts(&**storage, place.as_deref())?;
    let Some(accounts) = settings.accounts.clone() else { return Ok(None) };
    let client = Client::new(&settings.tls.trust, None, false)
        .map_err(|error| Failure::said(error.to_string()))?;
    let (desk, key) = (Arc::clone(desk), storage.secret()?);
    let storage = Arc::clone(storage);
    AccountsThread::start(accounts, client.config_of_hosts(), key, desk, storage).map(Some)
}

/// The queue of look-ups, and the maximum number under way.
struct Asked {
    queue: mpsc::Receiver<Lookup>,
    most: usize,
}

impl Asked {
    /// Runs the look-ups with `dns` until the queue ends. Must be called on a `LocalSet`.
    fn start(self, hub: &Arc<Hub>, dns: Dns) -> impl Future<Output = ()> + use<> {
        Rc::new(Lookups::new(Arc::clone(hub), dns, self.most)).run(self.queue)
    }
}

/// The shared state, and the parts that are not started yet.
struct Opened {
    hub: Arc<Hub>,
    lookups: Asked,
    /// The requests that end the calls of a server that was killed.
    lost: Vec<Transmit>,
    /// The media server.
    prepared: Option<Prepared>,
}

/// Opens the shared state: the journal, the connections and the queue of look-ups.
fn open(
    settings: &Settings,
    data: &Path,
    limit: usize,
    bound: Bound,
    engine: Arc<Engine>,
    storage: &Arc<dyn Storage>,
    tls: &Arc<CurrentTls>,
) -> Result<Opened, Failure> {
    let workers = settings.workers();
    let (lookups, queue) = mpsc::channel(MAX_LOOKUPS);
    let journal = settings
        .registrations
        .then(|| Arc::clone(storage).journal(settings.sync, workers))
        .transpose()?;
    let clock = Clock::start();
    let shares = share(settings, limit)?;
    let bounds =
        Bounds { connections: shares.connections, per_source: settings.max_connections_per_source };
    let Bound { sockets, listeners, listens } = bound;
    let tls = Arc::clone(tls);
    let connections =
        Connections::new(Arc::clone(&engine), listeners, workers, bounds, clock, tls)?;
    let Relays { media, relay, ng } = open_relays(settings, &shares)?;
    if let Some(relay) = &relay {
        engine.set_relay(Arc::<Relay>::clone(relay));
    }
    let records = settings.media.records.path(data).filter(|_| relay.is_some() || ng.is_some());
    let size = settings.media.records_size.0 as u64;
    let history = settings.media.history();
    let history = history.map(|keep| History { storage: Arc::clone(storage), keep });
    let records = records.map(|path| Records::open(&path, size, history)).transpose()?;
    let (mut secret, mut seed) = ([0; 32], [0; 32]);
    getrandom::fill(&mut seed).map_err(during("cannot choose a secret"))?;
    getrandom::fill(&mut secret).map_err(during("cannot choose a secret"))?;
    let (standing, lost) = StandingCalls::open(data)?;
    let product = &settings.engine.server_name;
    let b2bua = Arc::new(SharedB2bua::new(settings.b2bua, product, &secret, standing));
    engine.set_joined_calls(Arc::<SharedB2bua>::clone(&b2bua));
    let use_path = trunk_use::path(data);
    let stored = trunk_use::read(&use_path);
    if let Some(minutes) = stored.map_err(during(format!("cannot read {}", use_path.display())))? {
        b2bua.restore_use(clock.now(), &minutes);
    }
    let trunks = Arc::new(SharedTrunks::new(product, &storage.secret()?, &seed));
    engine.set_trunks(Arc::<SharedTrunks>::clone(&trunks));
    let numbers = Arc::new(SharedPlan::new(Arc::<SharedTrunks>::clone(&trunks)));
    engine.set_numbers(Arc::<SharedPlan>::clone(&numbers));
    let open_media_server =
        || SharedMediaServer::open(&settings.media_server, product, data, settings.sync);
    let media_server = settings.media_server.enabled.then(open_media_server).transpose()?;
    let (media_server, prepared) = media_server.unzip();
    let notifier = Arc::new(SharedNotifier::new(&secret, unsolicited_flow(settings, &listens)));
    engine.set_watched_calls(Arc::<SharedNotifier>::clone(&notifier));
    let hub = Hub {
        engine,
        notifier,
        refused: RefusedCalls::new(),
        b2bua,
        trunks,
        numbers,
        media_server,
        clock,
        journal,
        sockets,
        connections,
        media,
        relay,
        ng,
        records,
        trace: Tracer::default(),
        lookups,
        listens,
        dropped_lookups: AtomicU64::new(0),
        silent_lookups: AtomicU64::new(0),
        unstored: AtomicU64::new(0),
        total: Total::default(),
        http: Arc::<HttpCounters>::default(),
        observations: Observations::new(workers),
    };
    let lookups = Asked { queue, most: shares.lookups };
    Ok(Opened { hub: Arc::new(hub), lookups, lost, prepared })
}

/// The default domain.
fn domain_of(config: &Config) -> &str {
    config.domains.first().map_or("", |domain| domain.name.as_str())
}

/// The internal flow of message counts to phones without a subscription, if they get them.
fn unsolicited_flow(settings: &Settings, listens: &[Listen]) -> Option<Flow> {
    let listen = listens.first().filter(|_| settings.tells_all_phones)?;
    let mut local = listen.address;
    if local.ip().is_unspecified() {
        // The notifier and the engine are at this host.
        local.set_ip(match local {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    let flow = Flow { transport: listen.transport, local, remote: local, connection: None };
    Some(flow.internal_to(Endpoint::Notifier))
}

/// The configuration of the engine.
fn engine_config(
    settings: &Settings,
    listens: &[Listen],
    storage: &dyn Storage,
) -> Result<Config, Failure> {
    let mut config = settings.engine_config();
    set_listeners(&mut config, listens)?;
    config.authentication.realms = storage.realms()?;
    Ok(config)
}

/// Divides the `limit` of open files between their uses.
fn share(settings: &Settings, limit: usize) -> Result<Shares, Failure> {
    let (workers, wanted) = (settings.workers(), settings.max_connections());
    let (open, media) = (descriptors::open()?, settings.media_sockets());
    let shares = descriptors::share(limit, open, workers, wanted, media)?;
    let connections = shares.connections;
    if connections < wanted {
        let text = || {
            format!(
                "at most {connections} TCP connections are accepted, not the {wanted} of \
                 limits.max_connections: only {limit} files may be open; for more, raise that \
                 limit (LimitNOFILE= in the systemd unit, or ulimit -n)"
            )
        };
        // The operator has not asked for the default number.
        match settings.max_connections {
            Some(_) => log::warn("start", text),
            None => log::info("start", text),
        }
    }
    Ok(shares)
}

/// The time for which the relay keeps a call longer than timer C of the proxy.
const PATIENCE: Duration = Duration::from_secs(60);

/// The ports of media, and the relays that share them.
#[derive(Default)]
struct Relays {
    media: Option<Media>,
    relay: Option<Arc<Relay>>,
    ng: Option<Arc<Ng>>,
}

/// Opens the relay of the engine and that of the NG protocol, as far as the settings have them.
fn open_relays(settings: &Settings, shares: &Shares) -> Result<Relays, Failure> {
    if settings.media_sockets() == 0 {
        return Ok(Relays::default());
    }
    let media = &settings.media;
    let pairs = shares.media / 2;
    let (mut limits, wanted) = (media.limits(pairs), media.max_calls());
    // The proxy ends a call that is not answered, by its timer C.
    limits.ringing =
        limits.ringing.max(Duration::from_micros(settings.engine.timer_c.as_micros()) + PATIENCE);
    if limits.calls < wanted {
        log::warn("start", || {
            format!(
                "at most {} calls are relayed, not {wanted}: only {} files may be open for media; \
                 for more, raise the limit of open files (LimitNOFILE= in the systemd unit, or \
                 ulimit -n)",
                limits.calls, shares.media
            )
        });
    }
    let host = Media::new(media.ports, pairs, settings.workers())?;
    let relay = match settings.engine.relaying {
        Relaying::Off => None,
        Relaying::Needed | Relaying::All => Some(Arc::new(Relay::new(host.clone(), limits))),
    };
    let ng_limits = relay::Limits { calls: media.ng_limits(pairs).calls, ..limits };
    let ng = Ng::open(&media.ng, host.clone(), ng_limits)?;
    Ok(Relays { media: Some(host), relay, ng })
}

/// The DNS client, for the transports and address families of the listeners.
fn dns(config: &Config) -> Dns {
    let transports = config.listeners.iter().map(|listener| listener.transport);
    let mut transports: Vec<Transport> = transports.collect();
    transports.sort_unstable();
    transports.dedup();
    let has_v6 = config.listeners.iter().any(|listener| listener.address.is_ipv6());
    let families = if has_v6 { AddressFamilies::V4First } else { AddressFamilies::V4 };
    Dns::new(transports, families, |text| log::warn("dns", || text.to_owned()))
}

/// Waits for SIGTERM or SIGINT, and calls `reload` for each SIGHUP.
async fn until_told_to_end(reload: impl Fn()) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    loop {
        tokio::select! {
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            _ = hangup.recv() => reload(),
        }
    }
}

/// Rejects new calls, and waits for the calls being set up, at most [`DRAIN_TIME`].
async fn drain(engine: &Engine) {
    engine.drain();
    wait_for_responses(engine, DRAIN_TIME).await;
}

/// Ends the calls of the B2BUA, and waits until their ends have responded, at most [`END_TIME`].
async fn end_calls(hub: &Hub) {
    let calls = hub.b2bua.calls();
    if calls == 0 {
        return;
    }
    log::info("stop", || format!("the calls of the B2BUA end: {calls}"));
    let mut local = Local::new(0, &hub.engine);
    hub.b2bua.end_calls(hub.clock.now(), &mut local);
    hub.carry_out(&mut local);
    wait_for_responses(&hub.engine, END_TIME).await;
}

/// Ends the registrations at trunks, and waits until these have responded, at most [`END_TIME`].
async fn end_registrations(hub: &Hub) {
    let mut local = Local::new(0, &hub.engine);
    hub.trunks.end(hub.clock.now(), &mut local);
    hub.carry_out(&mut local);
    let deadline = tokio::time::Instant::now() + END_TIME;
    while hub.trunks.is_ending() && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Ends the subscriptions, which their subscribers then begin anew, and waits for the responses, at
/// most [`END_TIME`].
async fn end_subscriptions(hub: &Hub) {
    let mut local = Local::new(0, &hub.engine);
    if hub.notifier.end_all(hub.clock.now(), &mut local) {
        hub.carry_out(&mut local);
        wait_for_responses(&hub.engine, END_TIME).await;
    }
}

/// Sends the requests `byes`, which end the calls of a server that was killed, at once and when the
/// phones have had time to connect again.
async fn end_lost_calls(hub: Arc<Hub>, byes: Vec<Transmit>) {
    if byes.is_empty() {
        return;
    }
    log::info("start", || {
        format!("the calls of the B2BUA before the server was killed end: {}", byes.len() / 2)
    });
    for pause in [Duration::ZERO, RECONNECTION] {
        tokio::time::sleep(pause).await;
        let mut local = Local::new(0, &hub.engine);
        for Transmit { flow, bytes } in &byes {
            local.worker.receive(hub.clock.now(), flow, bytes, &mut local.out);
        }
        hub.carry_out(&mut local);
    }
}

/// Waits until all requests have a final response, at most for `time`.
async fn wait_for_responses(engine: &Engine, time: Duration) {
    let deadline = tokio::time::Instant::now() + time;
    while engine.unanswered() > 0 && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Records the calls that stand when the server ends, and waits until all records are written.
fn record_standing(hub: &Hub) {
    let Some(records) = &hub.records else { return };
    let now = hub.clock.now();
    let reports = hub.relay.iter().flat_map(|relay| relay.reports());
    let reports = reports.chain(hub.ng.iter().flat_map(|ng| ng.reports()));
    for call in reports.filter(|call| call.answered.is_some() && call.is_last) {
        records.push(Box::new(CallRecord::new(call, Party::Server, now, 0)));
    }
    records.finish();
}

/// The text of a failure that may name several mistakes, a line each.
fn in_one_line(failure: &Failure) -> String {
    failure.to_string().replace(":\n", ": ").replace('\n', "; ")
}

/// Reads the configuration and the certificates again, and applies the settings that can change
/// while the server runs. `started` are those that it started with.
fn reload(
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
    desk.tell_phones(unsolicited_flow(&settings, listens));
    welcome::warn_of_users(&config.domains, &desk.unserved());
    log::info("reload", || "the configuration was read again".to_owned());
    let waiting = started.keys_for_restart(&settings);
    if !waiting.is_empty() {
        log::warn("reload", || {
            format!("changed, but as before until a restart: {}", waiting.join(", "))
        });
    }
}
