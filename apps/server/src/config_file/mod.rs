//! The configuration file: TOML, with all keys optional. One reading finds all problems, each with
//! its line and column.

mod accounts;
mod groups;
mod hook;
mod media_server;
mod messages;
mod numbers;
mod office;
mod panel;
mod problem;
mod push;
mod reader;
mod registrar;
mod trace;
mod trunks;
mod values;

pub(crate) use problem::{BadConfig, LoadError, NamedFile, Problem};
pub(crate) use values::{mode, on_off, state, sync};

use crate::acme::{AcmeSettings, LETS_ENCRYPT};
use crate::certificates::TlsSettings;
use crate::ng;
use crate::settings::Settings;
use crate::turn::TurnSettings;
use net::tls::ClientCertificates;
use reader::{Reader, Section};
use relay::PORTS_PER_STREAM;
use sip::Duration;
use sip_server::config::{Joining, Mode, State};
use std::path::Path;
use values::{algorithms, at_least, domains, duration, flag, networks, text, whole, word};

/// Reads the configuration file at `path`.
///
/// # Errors
/// [`LoadError`] if the file cannot be read or contains invalid settings.
pub(crate) fn load(path: &Path) -> Result<Settings, LoadError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| LoadError::Unreadable(path.to_owned(), error))?;
    parse(&text).map_err(|problems| LoadError::Bad(BadConfig { file: path.to_owned(), problems }))
}

/// Parses a configuration. Missing keys have their default.
///
/// # Errors
/// All problems found.
pub(crate) fn parse(text: &str) -> Result<Settings, Vec<Problem>> {
    let mut settings = Settings::default();
    let mut reader = Reader::new(text);
    reader.read(|mut top| {
        read_top(&mut top, &mut settings);
        top.section("registrar", |section| registrar::read(section, &mut settings));
        top.section("authentication", |section| read_authentication(section, &mut settings));
        top.section("accounts", |section| accounts::read(section, &mut settings.accounts));
        top.section("timers", |section| read_timers(section, &mut settings));
        top.section("tls", |section| read_tls(section, &mut settings));
        top.section("acme", |section| read_acme(section, &mut settings.tls));
        top.section("websocket", |section| {
            section.read_whole("origins", &mut settings.origins, values::origins);
            section.read("page", &mut settings.page, flag);
        });
        top.section("limits", |section| read_limits(section, &mut settings));
        top.section("media", |section| read_media(section, &mut settings));
        top.section("media_server", |section| {
            media_server::read(section, &mut settings);
        });
        top.section("calls", |section| read_calls(section, &mut settings));
        top.section("office", |section| office::read(section, &mut settings));
        groups::read(&mut top, &mut settings.engine);
        top.section("turn", |section| read_turn(section, &mut settings.turn));
        top.section("http", |section| {
            section.read_some("listen", &mut settings.http.listen, word(values::socket_address));
            section.read_whole("clients", &mut settings.http.clients, networks());
        });
        top.section("messages", |section| messages::read(section, &mut settings));
        top.section("push", |section| push::read(section, &mut settings));
        top.section("panel", |section| panel::read(section, &mut settings));
        top.section("trace", |section| trace::read(section, &mut settings.trace));
        trunks::read(&mut top, &settings.engine, &mut settings.trunks);
        let trunks = settings.trunks.iter().map(|trunk| trunk.name.clone()).collect();
        numbers::read(&mut top, trunks, &mut settings);
        top.section("storage", |section| {
            section.read("registrations", &mut settings.registrations, flag);
            section.read("sync", &mut settings.sync, word(sync));
        });
        top.section("log", |section| {
            section.read("lines_per_second", &mut settings.log_lines_per_second, whole());
        });
        top.finish();
    });
    let problems = reader.into_problems();
    if problems.is_empty() { Ok(settings) } else { Err(problems) }
}

/// The key of a program. The server has to execute it, and need not read it.
pub(crate) const PROGRAM: &str = "media_server.command";

/// The files named by strings in the configuration at `path`, in its order. Empty if it cannot be
/// read.
pub(crate) fn named_files(path: &Path) -> Vec<NamedFile> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let Ok(table) = toml::de::DeTable::parse(&text) else { return Vec::new() };
    let section = |name: &str| table.get_ref().get(name)?.get_ref().as_table();
    let (tls, acme, turn) = (section("tls"), section("acme"), section("turn"));
    let certificates = tls.and_then(|tls| tls.get("certificates")?.get_ref().as_array());
    let certificates =
        certificates.into_iter().flatten().filter_map(|value| value.get_ref().as_table());
    let pairs = certificates.flat_map(|pair| {
        [("tls.certificates.chain", pair.get("chain")), ("tls.certificates.key", pair.get("key"))]
    });
    let media_server = section("media_server");
    let single = [
        ("media_server.sounds", media_server.and_then(|section| section.get("sounds"))),
        (PROGRAM, media_server.and_then(|section| section.get("command"))),
        ("tls.client_issuers", tls.and_then(|tls| tls.get("client_issuers"))),
        ("tls.trust", tls.and_then(|tls| tls.get("trust"))),
        ("acme.issuers", acme.and_then(|acme| acme.get("issuers"))),
        ("turn.secret_file", turn.and_then(|turn| turn.get("secret_file"))),
        (
            "accounts.password_file",
            section("accounts").and_then(|accounts| accounts.get("password_file")),
        ),
    ];
    let is_file = |key: &str, named: &str| {
        key != "tls.trust" || (named != "system" && !named.starts_with("sha256:"))
    };
    let passwords = table.get_ref().get("trunks").map(|trunks| trunks.get_ref());
    let passwords = passwords.into_iter().flat_map(trunks::password_files);
    let passwords = passwords.map(|value| ("trunks.accounts.password_file", Some(value)));
    pairs
        .chain(single)
        .chain(passwords)
        .filter_map(|(key, value)| {
            let value = value?;
            let named = value.get_ref().as_str().filter(|named| is_file(key, named))?;
            let (line, column) = reader::line_and_column(&text, value.span().start);
            let place = format!("{}:{line}:{column}", path.display());
            Some(NamedFile { place, key, path: named.into() })
        })
        .collect()
}

fn read_top(top: &mut Section<'_, '_>, settings: &mut Settings) {
    let engine = &mut settings.engine;
    top.read("mode", &mut engine.mode, word(mode));
    top.read("state", &mut engine.state, word(state));
    top.read_whole("domains", &mut engine.domains, domains);
    top.read_whole(
        "edge_domains",
        &mut engine.edge_domains,
        values::any_array_of(word(crate::domains::canonical)),
    );
    top.read_whole("listen", &mut settings.listens, values::listens);
    top.read_some("data", &mut settings.data, text);
    top.read_some("workers", &mut settings.workers, at_least(1));
    top.read("record_route", &mut engine.record_route, flag);
    top.read("server_name", &mut engine.server_name, values::header_text);
    top.read("timings", &mut engine.timings, flag);
}

fn read_authentication(section: &mut Section<'_, '_>, settings: &mut Settings) {
    let authentication = &mut settings.engine.authentication;
    section.read("required", &mut authentication.required, flag);
    section.read_whole("algorithms", &mut authentication.algorithms, algorithms);
    section.read_whole(
        "md5_only_agents",
        &mut authentication.md5_only_agents,
        values::any_array_of(values::header_text),
    );
    section.read("nonce_lifetime", &mut authentication.nonce_lifetime, values::some_duration);
    section.read("max_nonces", &mut authentication.max_nonces, at_least(1));
}

fn read_timers(section: &mut Section<'_, '_>, settings: &mut Settings) {
    let timers = &mut settings.engine.timers;
    section.read("t1", &mut timers.t1, values::some_duration);
    section.read("t2", &mut timers.t2, values::some_duration);
    section.read("t4", &mut timers.t4, values::some_duration);
    let timer_c = &mut settings.engine.timer_c;
    section.read("c", timer_c, duration);
    section.check(timers.t1 <= timers.t2, &["t1", "t2"], || {
        format!(
            "t1 ({}) is longer than t2 ({}), the longest interval between retransmissions",
            values::show(timers.t1),
            values::show(timers.t2)
        )
    });
    section.check(*timer_c > Duration::from_secs(180), &["c"], || {
        "timer c must be longer than 3 minutes (RFC 3261 section 16.6 step 11)".to_owned()
    });
}

fn read_tls(section: &mut Section<'_, '_>, settings: &mut Settings) {
    let tls = &mut settings.tls;
    section.read_whole("certificates", &mut tls.certificates, values::certificates);
    section.read("trust", &mut tls.trust, word(str::parse));
    let (mut issuers, mut required) = (None, false);
    section.read_some("client_issuers", &mut issuers, text);
    section.read("client_certificates_required", &mut required, flag);
    section.check(!required || issuers.is_some(), &["client_certificates_required"], || {
        "client_certificates_required needs client_issuers, the file with their issuers".to_owned()
    });
    tls.clients = match (issuers, required) {
        (Some(file), true) => ClientCertificates::Required(file),
        (Some(file), false) => ClientCertificates::Optional(file),
        (None, _) => ClientCertificates::Off,
    };
}

fn read_acme(section: &mut Section<'_, '_>, tls: &mut TlsSettings) {
    let mut acme = AcmeSettings {
        domains: Vec::new(),
        contacts: Vec::new(),
        directory: LETS_ENCRYPT.to_owned(),
        issuers: None,
    };
    let mut is_agreed = false;
    let domains = values::any_array_of(word(values::domain_of_dns));
    section.read_whole("domains", &mut acme.domains, domains);
    section.read_whole("contacts", &mut acme.contacts, values::any_array_of(word(values::mail)));
    section.read("terms_of_service_agreed", &mut is_agreed, flag);
    section.read("directory", &mut acme.directory, word(values::https));
    section.read_some("issuers", &mut acme.issuers, text);
    let keys = ["domains", "contacts", "terms_of_service_agreed", "directory", "issuers"];
    section.check(!acme.domains.is_empty(), &keys, || {
        "[acme] needs domains, those that a certificate is to be for".to_owned()
    });
    section.check(is_agreed, &keys, || {
        "issuers require that you agree to their terms of service: read them, and set \
         terms_of_service_agreed = true"
            .to_owned()
    });
    let is_required = matches!(tls.clients, ClientCertificates::Required(_));
    section.check(!is_required, &keys, || {
        "the issuer has no client certificate when it validates the domains: leave \
         tls.client_certificates_required out, or use a client of ACME and tls.certificates"
            .to_owned()
    });
    tls.acme = (!acme.domains.is_empty()).then_some(acme);
}

fn read_limits(section: &mut Section<'_, '_>, settings: &mut Settings) {
    let limits = &mut settings.engine.limits;
    section.read("max_registered", &mut limits.max_registered, at_least(1));
    section.read("max_transactions", &mut limits.max_transactions, at_least(1));
    section.read("transaction_memory", &mut limits.max_transaction_bytes, values::memory);
    section.read("dialog_memory", &mut limits.max_dialog_bytes, values::memory);
    section.read("max_wait", &mut limits.max_wait, duration);
    section.read("max_forks", &mut limits.max_forks, at_least(1));
    let mut trusted = (limits.trusted.clone(), Vec::new());
    section.read_whole("trusted", &mut trusted, values::trusted);
    (limits.trusted, limits.speakers) = trusted;
    section.read_whole("proxies", &mut limits.proxies, networks());
    section.read("proxy_header", &mut limits.proxy_header, word(values::client_field));
    section.read_whole("reachable", &mut limits.reachable, networks());
    section.read("source_rate", &mut limits.source_rate, whole());
    section.read("source_burst", &mut limits.source_burst, at_least(1));
    section.read("foreign_rate", &mut limits.foreign_rate, whole());
    section.read_whole(
        "foreign_methods",
        &mut limits.foreign_methods,
        values::any_array_of(values::method),
    );
    section.read("user_rate", &mut limits.user_rate, whole());
    section.read("ban_failures", &mut limits.ban_failures, whole());
    section.read("ban_window", &mut limits.ban_window, values::some_duration);
    section.read("ban_time", &mut limits.ban_time, values::some_duration);
    section.read("max_sources", &mut limits.max_sources, at_least(1));
    section.read_some("max_connections", &mut settings.max_connections, at_least(1));
    section.read(
        "max_connections_per_source",
        &mut settings.max_connections_per_source,
        at_least(1),
    );
}

fn read_media(section: &mut Section<'_, '_>, settings: &mut Settings) {
    section.read("relay", &mut settings.engine.relaying, word(values::relaying));
    section.read("keys", &mut settings.engine.media_keys, word(values::media_keys));
    let codecs = values::any_array_of(word(values::codec));
    section.read_whole("transcode", &mut settings.engine.transcode, codecs);
    let media = &mut settings.media;
    section.read("max_transcoded", &mut media.limits.conversions, at_least(0));
    section.read("max_transcoded_per_source", &mut media.limits.conversions_of_owner, at_least(0));
    section.read("ports", &mut media.ports, word(values::ports));
    section.read_some("max_calls", &mut media.max_calls, at_least(1));
    section.read("max_calls_per_source", &mut media.limits.calls_of_owner, at_least(1));
    section.read_some("ng_max_calls", &mut media.ng_max_calls, at_least(1));
    let bandwidth = &mut media.limits.bandwidth;
    section.read("max_bandwidth", &mut bandwidth.all, values::bandwidth);
    section.read("max_bandwidth_per_source", &mut bandwidth.owner, values::bandwidth);
    section.read("max_bandwidth_per_call", &mut bandwidth.call, values::bandwidth);
    section.read("records", &mut media.records, values::records);
    section.read("records_size", &mut media.records_size.0, values::memory);
    section.read("history", &mut media.history.age, values::history);
    section.read("history_calls", &mut media.history.calls, at_least(1));
    let limits = &mut media.limits;
    for (key, limit) in [("timeout", &mut limits.inactivity), ("hold_timeout", &mut limits.hold)] {
        let mut timeout = None;
        section.read_some(key, &mut timeout, values::some_duration);
        *limit = timeout.map_or(*limit, std::time::Duration::from);
    }
    let most = media.ports.pairs() * 2 / PORTS_PER_STREAM;
    for (key, calls) in [("max_calls", media.max_calls), ("ng_max_calls", media.ng_max_calls)] {
        let calls = calls.unwrap_or_default();
        section.check(calls <= most, &[key, "ports"], || {
            format!(
                "{key} ({calls}) needs {} ports, more than those of ports ({})",
                calls.saturating_mul(PORTS_PER_STREAM),
                media.ports
            )
        });
    }
    let ng = &mut media.ng;
    section.read_some("ng", &mut ng.listen, word(ng::listen));
    section.read_whole("ng_clients", &mut ng.clients, networks());
    let interfaces = values::any_array_of(word(str::parse));
    section.read_whole("ng_interfaces", &mut ng.interfaces, interfaces);
    section.check(ng.listen.is_none() || !ng.clients.is_empty(), &["ng"], || {
        "ng needs ng_clients, the addresses of the proxies that may use it".to_owned()
    });
}

fn read_calls(section: &mut Section<'_, '_>, settings: &mut Settings) {
    let engine = &mut settings.engine;
    section.read("mode", &mut engine.joining, word(values::joining));
    section.read("max_calls", &mut settings.b2bua.calls, at_least(1));
    section.read("max_calls_per_source", &mut settings.b2bua.calls_of_source, at_least(1));
    let interval = &mut settings.b2bua.session_expires;
    section.read("session_expires", interval, values::session_interval);
    section.read("check_interval", &mut settings.b2bua.probe, values::check_interval);
    let is_usable = (engine.mode, engine.state) == (Mode::Proxy, State::Stateful);
    section.check(
        engine.joining != Joining::All || (is_usable && engine.record_route),
        &["mode"],
        || {
            "calls.mode = \"b2bua\" needs mode = \"proxy\", state = \"stateful\" and \
             record_route = true"
                .to_owned()
        },
    );
}

fn read_turn(section: &mut Section<'_, '_>, turn: &mut TurnSettings) {
    section.read_whole("servers", &mut turn.servers, values::any_array_of(word(values::turn_uri)));
    section.read_some("secret_file", &mut turn.secret_file, text);
    section.read("lifetime", &mut turn.lifetime, values::some_duration);
    section.check(
        turn.servers.is_empty() != turn.secret_file.is_some(),
        &["servers", "secret_file"],
        || "servers and secret_file belong together: one is missing".to_owned(),
    );
    section.check(turn.lifetime >= Duration::from_secs(60), &["lifetime"], || {
        "lifetime is shorter than a minute: credentials would end before a call is set up"
            .to_owned()
    });
}

/// The files named in the configuration at `path` that cannot be read: the place and the key of
/// each, and the error.
pub(crate) fn unreadable_files(path: &Path) -> Vec<String> {
    let error = |NamedFile { place, key, path }: NamedFile| {
        let error = match key {
            PROGRAM => std::fs::metadata(&path).err()?,
            _ => std::fs::File::open(&path).err()?,
        };
        Some(format!("{place}: {key}: cannot read {}: {error}", path.display()))
    };
    named_files(path).into_iter().filter_map(error).collect()
}

#[cfg(test)]
mod tests;
