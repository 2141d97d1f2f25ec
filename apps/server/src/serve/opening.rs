//! The shared state of the server at its start.

use super::b2bua::SharedB2bua;
use super::configured::notifier_config;
use super::connections::{Bounds, Connections, CurrentTls};
use super::decisions::SharedDecisions;
use super::hep_counters::HepCounters;
use super::http::HttpCounters;
use super::hub::{Hub, Lookup, MAX_LOOKUPS};
use super::keeper::SharedKeeper;
use super::listening::Bound;
use super::local::Engine;
use super::lookups::Lookups;
use super::media::{Media, Ng, Relay};
use super::media_server::{Prepared, SharedMediaServer};
use super::notifier::SharedNotifier;
use super::numbers::SharedPlan;
use super::observations::Observations;
use super::push::SharedPush;
use super::records::{History, Records};
use super::refused::RefusedCalls;
use super::standing::StandingCalls;
use super::total::Total;
use super::trunk_use;
use super::trunks::SharedTrunks;
use crate::descriptors::{self, Shares};
use crate::failure::{Failure, during};
use crate::log;
use crate::settings::Settings;
use crate::trace::Tracer;
use crate::why::Refusals;
use ::b2bua::Transmit;
use net::{Clock, Dns};
use sip::Transport;
use sip::locate::AddressFamilies;
use sip_server::config::{Config, Relaying};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use store::Storage;
use tokio::sync::mpsc;

/// The queue of look-ups, and the maximum number under way.
pub(super) struct Asked {
    queue: mpsc::Receiver<Lookup>,
    most: usize,
}

impl Asked {
    /// Runs the look-ups with `dns` until the queue ends. Must be called on a `LocalSet`.
    pub(super) fn start(self, hub: &Arc<Hub>, dns: Dns) -> impl Future<Output = ()> + use<> {
        Rc::new(Lookups::new(Arc::clone(hub), dns, self.most)).run(self.queue)
    }
}

/// The shared state, and the parts that are not started yet.
pub(super) struct Opened {
    pub(super) hub: Arc<Hub>,
    pub(super) lookups: Asked,
    /// The requests that end the calls of a server that was killed.
    pub(super) lost: Vec<Transmit>,
    /// The media server.
    pub(super) prepared: Option<Prepared>,
}

/// Opens the shared state: the journal, the connections and the queue of look-ups.
pub(super) fn open(
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
    let decisions = SharedDecisions::open(&settings.decisions)?.map(Arc::new);
    let b2bua = SharedB2bua::new(settings.b2bua, product, &secret, standing, decisions);
    let b2bua = Arc::new(b2bua);
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
    let notifier = Arc::new(SharedNotifier::new(notifier_config(settings, &listens), &secret));
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
        trace: Tracer::new(workers, settings.trace.memory),
        hep: HepCounters::default(),
        refusals: Refusals::new(workers),
        lookups,
        listens,
        dropped_lookups: AtomicU64::new(0),
        silent_lookups: AtomicU64::new(0),
        unstored: AtomicU64::new(0),
        total: Total::default(),
        http: Arc::<HttpCounters>::default(),
        observations: Observations::new(workers),
        keeper: match settings.engine.keeps_messages {
            true => Some(Arc::new(SharedKeeper::new(storage.users_with_messages()?))),
            false => None,
        },
        push: SharedPush::open(&settings.push)?.map(Arc::new),
    };
    let lookups = Asked { queue, most: shares.lookups };
    Ok(Opened { hub: Arc::new(hub), lookups, lost, prepared })
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
pub(super) fn dns(config: &Config) -> Dns {
    let transports = config.listeners.iter().map(|listener| listener.transport);
    let mut transports: Vec<Transport> = transports.collect();
    transports.sort_unstable();
    transports.dedup();
    let has_v6 = config.listeners.iter().any(|listener| listener.address.is_ipv6());
    let families = if has_v6 { AddressFamilies::V4First } else { AddressFamilies::V4 };
    Dns::new(transports, families, |text| log::warn("dns", || text.to_owned()))
}
