//! The running server: its start, its threads, and its end.

mod accounts;
mod b2bua;
mod background;
mod configured;
mod connections;
mod copy_error;
mod counted;
mod counters;
mod decision_threads;
mod decisions;
mod desk;
mod digits;
mod ending;
mod hep;
mod hep_counters;
mod hook;
mod http;
mod hub;
mod keep_alive;
mod keeper;
mod keeper_thread;
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
mod opening;
mod panel;
mod panel_queue;
mod push;
mod push_thread;
mod record_copy;
mod records;
mod refused;
mod reload;
mod renewal;
mod scheduler;
mod served;
mod sql_changes;
mod standing;
mod total;
mod trunk_calls;
mod trunk_use;
mod trunks;
mod voicemail_copy;
mod welcome;
mod workers;

use crate::admin::server::Server as Admin;
use crate::cli::Place;
use crate::descriptors;
use crate::failure::Failure;
use crate::listen::Listen;
use crate::log;
use crate::served_domains::remember_domains;
use crate::settings::Settings;
use crate::trunks::registry_configs;
use configured::{domain_of, engine_config, internal_flow};
use connections::CurrentTls;
use decision_threads::DecisionThreads;
use desk::Running;
use ending::{
    drain, end_calls, end_lost_calls, end_registrations, end_subscriptions, record_standing,
};
use hep::HepThread;
use http::HttpListener;
use keep_alive::KeepAliveThread;
use keeper_thread::KeeperThread;
use listening::bind;
use load::load;
use media::{Ng, NgThread};
use media_server_thread::MediaServerThread;
use opening::{Opened, dns, open};
use push_thread::PushThreads;
pub(crate) use reload::ReadSettings;
use reload::reload;
use renewal::Renewal;
use sip::Endpoint;
use std::path::PathBuf;
use std::sync::Arc;
use store::Storage;
use tokio::signal::unix::{SignalKind, signal};
use workers::Workers;

/// The input of a server start.
pub(crate) struct Setup {
    /// The present settings.
    pub(crate) settings: Settings,
    /// The data directory, locked by this server.
    pub(crate) data: PathBuf,
    /// The storage of users, the secret and bindings.
    pub(crate) storage: Arc<dyn Storage>,
    /// The flags with which other commands find the server.
    pub(crate) place: Place,
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
        settings.accounts.as_ref().map(|accounts| accounts.place.clone()),
        data.clone(),
        place.config.as_ref().and_then(|file| std::path::absolute(file).ok()),
        config.clone(),
        listens.iter().map(Listen::to_string).collect(),
    ));
    let (hosts, http_counters) = (settings.names(), Arc::clone(&hub.http));
    let admin = Admin::start(&data, Arc::<Running>::clone(&desk))?;
    // The first call meets the numbers.
    desk.configure_numbers(plan, &config);
    desk.configure_trunks(&settings.trunks, trunks);
    let accounts = accounts::start(&settings, &desk, &storage)?;
    let sql_changes = sql_changes::start(&settings, &desk, &storage)?;
    let record_copy = record_copy::start(&settings, &hub, &storage)?;
    let voicemail_copy = voicemail_copy::start(&settings, &hub, &storage)?;
    let threads = Workers::start(&hub, workers)?;
    let start_ng = |ng: &Arc<Ng>| {
        let keeper = Arc::clone(&hub);
        let keep = move |record| keeper.keep(record);
        NgThread::start(ng, &hub.engine, hub.clock, Box::new(keep))
    };
    let ng_thread = hub.ng.as_ref().map(start_ng).transpose()?;
    let http_url = http.as_ref().map(|http| http.url.clone());
    let start_panel = |url: &String| {
        let (desk, tls) = (Arc::clone(&desk), Arc::clone(&tls));
        let (storage, read_settings) = (Arc::clone(&storage), Arc::clone(&read_again));
        let parts = panel::Parts { desk, storage, tls, read_settings, place: place.clone() };
        panel::start(settings.panel, parts, url)
    };
    let panel = http_url.as_ref().map(start_panel).transpose()?.flatten();
    let (panel_queue, panel_thread) = panel.unzip();
    let start_http = |http: HttpListener| {
        let pages = Arc::<Running>::clone(&desk);
        http.start(Arc::clone(&tls), hosts, http_counters, pages, panel_queue)
    };
    let hep = HepThread::start(&settings.trace, &hub)?;
    let http_thread = http.map(start_http).transpose()?;
    let flow = internal_flow(&listens, Endpoint::Keeper);
    let keeper = KeeperThread::start(&hub, &storage, &settings, flow)?;
    let push = PushThreads::start(&hub)?;
    let decisions = DecisionThreads::start(&hub)?;
    let keep_alives = KeepAliveThread::start(settings.keep_alive, &hub)?;
    let media_server = match (&hub.media_server, &hub.media, prepared) {
        (Some(server), Some(media), Some(prepared)) => {
            Some(MediaServerThread::start(&hub, server, media.clone(), prepared)?)
        }
        _ => None,
    };
    welcome::welcome(&listens, &config.domains, hub.engine.users(), place.flags())
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
        drop(keep_alives);
        drop(push);
        drop(decisions);
        drop(keeper);
        // It stores the messages that are being recorded.
        drop(media_server);
        // It copies the last changes.
        drop(voicemail_copy);
        end_registrations(&hub).await;
        drop(accounts);
        drop(sql_changes);
        drop(http_thread);
        drop(panel_thread);
        drop(hep);
        drop(ng_thread);
        drop(threads);
        looking_up.abort();
        ending.abort();
        hub.b2bua.finish();
        record_standing(&hub);
        // It copies the last records.
        drop(record_copy);
        drop(admin);
        Ok::<(), Failure>(())
    })?;
    // A request to an ACME issuer may be under way. It is not waited for.
    runtime.shutdown_background();
    log::info("stop", || "stopped".to_owned());
    Ok(())
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
