//! `barebell check`: the check of a configuration.

use crate::access::Access;
use crate::acme;
use crate::admin::ask::Ask;
use crate::admin::client::Client;
use crate::admin::{Condition, Request, UserDomain};
use crate::cli::CheckFlags;
use crate::config_file::{self, LoadError};
use crate::data_dir;
use crate::domains::unserved_users;
use crate::failure::Failure;
use crate::listen::Listen;
use crate::named_files;
use crate::output::{Out, printable};
use crate::remote::Remote;
use crate::settings::Settings;
use serde_json::Value;
use sip::Transport;
use sip_server::config::{Domain, Joining, Relaying};
use std::io;

/// Reads the TLS files, if there is a secure listener. No certificate is created, and no issuer is
/// contacted.
fn certificates(settings: &Settings, out: &mut Out) -> Result<(), Failure> {
    let data = settings.data()?;
    let listens = settings.listens();
    let secure: Vec<&Listen> =
        listens.iter().filter(|listen| listen.transport.is_secure()).collect();
    if let Some(wanted) = &settings.tls.acme {
        out.line(&format!("orders {wanted} when it is due"))?;
        let domains = settings.engine_config().domains;
        let names = domains.iter().map(|domain| &domain.name);
        for name in names.filter(|name| !wanted.domains.contains(name)) {
            out.line(&format!(
                "warning: {name} is not in acme.domains: the certificate is not valid for TLS \
                 connections to it"
            ))?;
        }
        if secure.is_empty() {
            out.line("warning: nothing listens for TLS, so [acme] has no effect")?;
        } else if !secure.iter().any(|listen| listen.outside_port() == acme::PORT) {
            out.line(
                "warning: nothing listens for TLS on port 443, to which the issuer connects: add \
                 \"tls:0.0.0.0:443\" to listen, or forward that port to a TLS listener",
            )?;
        }
    }
    if (!secure.is_empty() || settings.http.is_secure()) && settings.tls.makes_one(&data) {
        return out.line("creates a self-signed TLS certificate when it starts");
    }
    match settings.open_tls(&data, None)? {
        Some(tls) => {
            out.line(&tls.remark())?;
            tls.advice().map_or(Ok(()), |advice| out.line(&format!("note: {advice}")))
        }
        None => Ok(()),
    }
}

/// Reports the files named in the configuration that cannot be read, with the places of their
/// names. Returns true if all can be read.
fn files(flags: &CheckFlags, settings: &Settings, out: &mut Out) -> Result<bool, Failure> {
    let Some(config) = &flags.place.config else { return Ok(true) };
    let unreadable = named_files::unreadable(config, &settings.data()?);
    unreadable.iter().try_for_each(|line| out.line(line))?;
    Ok(unreadable.is_empty())
}

/// Prefixes `text` with the place in the configuration that names the file in `text`.
fn in_file(flags: &CheckFlags, text: &str) -> String {
    let mut named = flags.place.config.iter().flat_map(|config| config_file::named_files(config));
    let about = named.find(|file| text.contains(&*file.path.to_string_lossy()));
    about.map_or_else(|| text.to_owned(), |file| format!("{}: {}: {text}", file.place, file.key))
}

/// Reports the calls that are relayed, and warns of a listener on one of their ports.
fn media(settings: &Settings, listens: &[Listen], out: &mut Out) -> Result<(), Failure> {
    let (ports, ng) = (settings.media.ports, &settings.media.ng);
    let calls = match settings.engine.relaying {
        Relaying::Off if ng.listen.is_none() => return out.line("relays no media"),
        Relaying::Off => "the media of calls of NG clients",
        Relaying::Needed => "the media of calls whose ends cannot reach each other",
        Relaying::All => "the media of all calls",
    };
    if let Some(address) = ng.listen {
        out.line(&format!("listens for the NG protocol on {address}"))?;
    }
    let most = settings.media.max_calls();
    out.line(&format!("relays {calls}, at most {most}, on UDP ports {ports}"))?;
    let is_on_one = |listen: &&Listen| {
        !listen.transport.is_stream() && ports.ports().contains(&listen.address.port())
    };
    listens.iter().filter(is_on_one).try_for_each(|listen| {
        out.line(&format!("warning: {listen} is one of media.ports: a call fewer can be relayed"))
    })
}

/// Reports the calls that go through the B2BUA.
fn calls(settings: &Settings, out: &mut Out) -> Result<(), Failure> {
    let which = match settings.engine.joining {
        Joining::Off => return Ok(()),
        Joining::Needed => "calls whose session description the callee refuses",
        Joining::All => "all calls",
    };
    let most = settings.b2bua.calls;
    out.line(&format!("sends {which} through the B2BUA, at most {most}"))
}

/// Warns of users in domains that would not be served.
fn users(flags: &CheckFlags, served: &[Domain], out: &mut Out) -> Result<(), Failure> {
    let data = flags.place.settings()?.data()?;
    let except = served.iter().map(|domain| domain.name.clone()).collect();
    let mut found: Vec<UserDomain> = Vec::new();
    let ask = || -> Result<(), Failure> {
        // Opening the storage would create a missing database.
        if !data_dir::is_served(&data) && !data.join("barebell.sqlite").try_exists()? {
            return Ok(());
        }
        match Access::open_existing(&flags.place)? {
            Some(access) => access.list(&Request::UserDomains { except }, &mut |row| {
                found.push(row);
                Ok(())
            }),
            None => Ok(()),
        }
    };
    if let Err(failure) = ask() {
        return out.line(&format!("note: its users cannot be read: {failure}"));
    }
    let default = served.first().map(|domain| domain.name.as_str());
    found.iter().try_for_each(|UserDomain { domain, users }| {
        out.line(&format!("warning: {}", unserved_users(default, domain, *users)))
    })
}

/// The listeners of the server that runs with the data of `settings`. Empty if no server answers.
fn listens_of_running(settings: &Settings) -> Result<Vec<Listen>, Failure> {
    let Some(client) = Client::connect(&settings.data()?)? else { return Ok(Vec::new()) };
    let Condition::Running(status) = client.ask(&Request::Status)? else { return Ok(Vec::new()) };
    Ok(status.listens.iter().filter_map(|listen| listen.parse().ok()).collect())
}

/// Warns of the listeners that cannot be bound now, except those that the server with these data
/// holds.
fn addresses(settings: &Settings, listens: &[Listen], out: &mut Out) -> Result<(), Failure> {
    // A server that does not answer is unknown here: the warning names that case.
    let running = listens_of_running(settings).unwrap_or_default();
    for listen in listens {
        if let Err(failure) = listen.advertised() {
            out.line(&format!("warning: {failure}"))?;
        }
        let Err(error) = listen.try_out() else { continue };
        let is_own = running.iter().any(|held| held.overlaps(listen));
        if !(is_own && error.kind() == io::ErrorKind::AddrInUse) {
            out.line(&format!(
                "warning: {listen} cannot be used now ({error}); unless the running server uses \
                 it, end the program that does, or choose another address"
            ))?;
        }
    }
    Ok(())
}

/// Prints the findings of a server elsewhere about its configuration.
fn elsewhere(flags: &CheckFlags, out: &mut Out) -> Result<(), Failure> {
    let found = Remote::of(&flags.place)?.object("/check", &[])?;
    let lines = found["lines"].as_array().into_iter().flatten().filter_map(Value::as_str);
    lines.into_iter().try_for_each(|line| out.line(&printable(line)))?;
    match found["ok"].as_bool() {
        Some(true) => Ok(()),
        _ => Err(Failure::Found),
    }
}

/// Checks the configuration and prints the findings. Warnings concern the present state of the
/// machine.
///
/// # Errors
/// [`Failure`] if the configuration cannot be used.
pub(crate) fn run(flags: &CheckFlags, out: &mut Out) -> Result<(), Failure> {
    if flags.place.remote.is_used() {
        return elsewhere(flags, out);
    }
    if flags.place.config.is_none() {
        out.line("no --config FILE is given: these are the defaults")?;
    }
    let settings = match flags.place.settings() {
        Ok(settings) => settings,
        Err(LoadError::Bad(bad)) => {
            out.line(&bad.to_string())?;
            return Err(Failure::Found);
        }
        Err(error) => return Err(error.into()),
    };
    let engine = settings.engine_config();
    let listens = settings.listens();
    for domain in &engine.domains {
        let aliases = domain.aliases.join(", ");
        let also = if aliases.is_empty() { String::new() } else { format!(" (also: {aliases})") };
        out.line(&format!("serves {}{also}", domain.name))?;
    }
    for listen in &listens {
        out.line(&format!("listens on {listen}"))?;
    }
    if let Some(address) = settings.http.listen {
        out.line(&format!("serves HTTP for monitoring at {}", settings.http.url(address)))?;
    }
    media(&settings, &listens, out)?;
    calls(&settings, out)?;
    out.line(&format!("keeps its data in {}", settings.data()?.display()))?;
    let mut is_good = files(flags, &settings, out)?;
    if is_good && let Err(failure) = certificates(&settings, out) {
        out.line(&in_file(flags, &failure.to_string()))?;
        is_good = false;
    }
    addresses(&settings, &listens, out)?;
    let is_of_proxy =
        |listen: &&Listen| listen.transport == Transport::Ws && listen.address.ip().is_loopback();
    if engine.limits.proxies.is_empty()
        && let Some(listen) = listens.iter().find(is_of_proxy)
    {
        out.line(&format!(
            "warning: {listen} is for a proxy on this machine, and limits.proxies is empty: all \
             clients count as one source, for rates and bans too; add proxies = [\"{}\"] to \
             [limits]",
            listen.address.ip()
        ))?;
    }
    if !engine.authentication.required {
        out.line("warning: authentication is off: any client can register and call as any user")?;
    }
    users(flags, &engine.domains, out)?;
    if !is_good {
        return Err(Failure::Found);
    }
    out.line("the configuration has no mistakes")
}
