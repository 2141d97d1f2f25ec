//! `barebell doctor`: the faults of a server and of its machine as they are now, each with a
//! remedy.

mod certificate;
mod database;
mod findings;
mod firewall;
mod outside;

use crate::access::Access;
use crate::admin::ask::Ask;
use crate::admin::trunk::Trunk;
use crate::admin::{Condition, Request, UserDomain};
use crate::cli::DoctorFlags;
use crate::domains::{Host, unserved_users};
use crate::failure::Failure;
use crate::named_files;
use crate::output::Out;
use crate::remote::Remote;
use crate::settings::Settings;
use findings::{Findings, Severity};
use net::RECEIVE_BUFFER;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::statvfs::statvfs;
use nix::unistd::geteuid;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A clock before this time is wrong: 2026-01-01, in seconds since 1970.
const EARLIEST: u64 = 1_767_225_600;
/// The number of open files below which a warning is given.
const FEW_FILES: u64 = 4096;
/// The room on a disk below which the server may soon refuse registrations, in bytes.
const LITTLE_ROOM: u64 = 256 << 20;

/// Checks the server and the machine, and prints the findings.
///
/// # Errors
/// [`Failure`] with the exit status of the worst finding.
pub(crate) fn run(flags: &DoctorFlags, out: &mut Out) -> Result<(), Failure> {
    if flags.place.remote.is_used() {
        return elsewhere(flags, out);
    }
    let mut findings = Findings::default();
    let flags = &DoctorFlags { place: Access::place_of_server(&flags.place), ..flags.clone() };
    match flags.place.settings() {
        Err(error) => findings.fault(
            Severity::Error,
            "configuration",
            error.to_string(),
            "correct the file; `barebell check --config FILE` repeats this check",
        ),
        Ok(settings) => {
            let config = flags.place.config.as_deref();
            let data = settings.data()?;
            match config.map(|config| named_files::unreadable(config, &data)).unwrap_or_default() {
                files if files.is_empty() => {
                    let file = config.map(|file| format!("{} has no mistakes", file.display()));
                    let none = || "there is no file: all values are the default ones".to_owned();
                    findings.good("configuration", file.unwrap_or_else(none));
                }
                files => findings.fault(
                    Severity::Error,
                    "configuration",
                    files.join("; "),
                    "let the user of the server read the files",
                ),
            }
            check(flags, &settings, &mut findings)?;
        }
    }
    findings.show(flags.json, out)
}

/// Prints the findings of a server elsewhere.
fn elsewhere(flags: &DoctorFlags, out: &mut Out) -> Result<(), Failure> {
    if flags.ntp.is_some() || flags.stun.is_some() {
        return Err(Failure::message(
            "--ntp and --stun ask from this machine: run the command on the machine of the server, \
             without --server",
        ));
    }
    Findings(Remote::of(&flags.place)?.list_of("/doctor")?).show(flags.json, out)
}

fn check(flags: &DoctorFlags, settings: &Settings, findings: &mut Findings) -> Result<(), Failure> {
    let data = settings.data()?;
    clock(&data, findings);
    if let Some(server) = &flags.ntp {
        outside::clock(server, findings);
    }
    let condition = server(flags, findings);
    let is_running = matches!(condition, Some(Condition::Running(_)));
    domains(settings, findings);
    outside::records(settings, findings);
    if let Some(server) = &flags.stun {
        outside::translation(server, settings, findings);
    }
    firewall::check(settings, findings);
    ports(settings, condition.as_ref(), findings);
    certificate::check(settings, &data, condition.as_ref(), findings);
    users(settings, condition.as_ref(), findings);
    database::check(settings, findings);
    empty_domains(flags, settings, condition.as_ref(), findings);
    if is_running {
        trunks(flags, findings);
    }
    kernel(is_running, findings);
    disk(&data, findings);
    Ok(())
}

fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// A clock that is wrong makes certificates invalid and registrations expire.
fn clock(data: &Path, findings: &mut Findings) {
    let remedy = "set the time and keep it with NTP: timedatectl set-ntp true";
    let stored = data.join("barebell.sqlite").metadata().and_then(|file| file.modified());
    let stored = stored.ok().and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    if now().as_secs() < EARLIEST {
        findings.fault(Severity::Error, "clock", "the clock is before the year 2026", remedy);
    } else if stored.is_some_and(|stored| stored > now() + Duration::from_secs(60)) {
        let text = "the database was written later than the clock tells: it has been set back";
        findings.fault(Severity::Error, "clock", text, remedy);
    } else {
        findings.good("clock", "it is plausible");
    }
}

/// The status of the server, running or stopped, if it can be told.
fn server(flags: &DoctorFlags, findings: &mut Findings) -> Option<Condition> {
    let asked = Access::open_existing(&flags.place);
    let asked = asked.and_then(|access| access.map(|it| it.ask(&Request::Status)).transpose());
    match asked {
        Err(failure) => {
            let remedy = "run this as the user of the server, with its --config or --data";
            findings.fault(Severity::Error, "server", failure.to_string(), remedy);
            None
        }
        Ok(Some(Condition::Running(status))) => {
            for problem in &status.problems {
                let remedy = "see the log of the server, such as journalctl -u barebell";
                findings.fault(Severity::Error, "server", problem, remedy);
            }
            findings.good_unless_found("server", "it runs and is ready");
            Some(Condition::Running(status))
        }
        Ok(other) => {
            let remedy = "start it: systemctl start barebell, or barebell serve";
            findings.fault(Severity::Warning, "server", "no server runs with this data", remedy);
            other
        }
    }
}

/// Phones find the server by the names of its domains.
fn domains(settings: &Settings, findings: &mut Findings) {
    if settings.engine.domains.is_empty() {
        findings.fault(
            Severity::Warning,
            "domains",
            "no domain is configured: users are at the name of this machine",
            "name your domain before you add users: domains = [\"example.com\"]",
        );
    }
    let host = Host::this();
    let is_translated = settings.listens().iter().any(|listen| listen.advertised.is_some());
    for domain in &settings.engine.domains {
        let name = domain.name.as_str();
        if name.parse::<IpAddr>().is_ok() || name == "localhost" {
            continue;
        }
        let found: Vec<IpAddr> = match (name, 5060).to_socket_addrs() {
            Ok(found) => found.map(|address| address.ip()).collect(),
            Err(error) => {
                findings.fault(
                    Severity::Warning,
                    "dns",
                    format!("{name} has no address: {error}"),
                    format!(
                        "add an A or AAAA record of {name}, or SRV records, or give phones the \
                         address of this server as their outbound proxy"
                    ),
                );
                continue;
            }
        };
        if !is_translated && !found.iter().any(|address| host.addresses.contains(address)) {
            let addresses: Vec<_> = found.iter().map(ToString::to_string).collect();
            findings.fault(
                Severity::Warning,
                "dns",
                format!(
                    "{name} is at {}, which is no address of this machine",
                    addresses.join(", ")
                ),
                "correct the record, or tell the server its public address: \
                 listen = [\"udp:0.0.0.0:5060 as ADDRESS:5060\"]",
            );
        }
    }
    findings.good_unless_found("dns", "the domains have an address of this machine");
}

/// The listening addresses that another program holds, or this machine does not have.
fn ports(settings: &Settings, condition: Option<&Condition>, findings: &mut Findings) {
    let held: Vec<crate::listen::Listen> = match condition {
        Some(Condition::Running(status)) => {
            status.listens.iter().filter_map(|listen| listen.parse().ok()).collect()
        }
        _ => Vec::new(),
    };
    for listen in settings.listens() {
        let Err(error) = listen.try_out() else { continue };
        let is_own = held.iter().any(|held| held.overlaps(&listen));
        if !(is_own && error.kind() == io::ErrorKind::AddrInUse) {
            findings.fault(
                Severity::Error,
                "ports",
                format!("{listen} cannot be used: {error}"),
                "end the program that uses it (ss -lntup shows it), or choose another address",
            );
        }
    }
    findings.good_unless_found("ports", "all listening addresses can be used");
}

/// Users that cannot log in, and a server that asks for no password.
fn users(settings: &Settings, condition: Option<&Condition>, findings: &mut Findings) {
    let (users, unserved, domains) = match condition {
        Some(Condition::Running(status)) => (status.users, &status.unserved, &status.domains),
        Some(Condition::Stopped(status)) => (status.users, &status.unserved, &status.domains),
        None => (0, &BTreeMap::new(), &Vec::new()),
    };
    for (domain, &count) in unserved {
        let default = domains.first().map(String::as_str);
        let remedy = format!("barebell user move {domain} {}", default.unwrap_or("DOMAIN"));
        let text = unserved_users(default, domain, count);
        findings.fault(Severity::Error, "users", text, remedy);
    }
    if users == 0 {
        let remedy = "add one: barebell user add NAME --password-stdin";
        findings.fault(Severity::Warning, "users", "there are no users", remedy);
    }
    if !settings.engine.authentication.required {
        findings.fault(
            Severity::Error,
            "users",
            "authentication is off: any client can register and call as any user",
            "leave authentication.required out of the configuration",
        );
    }
    findings.good_unless_found("users", format!("there are {users}, all in served domains"));
}

/// The domains that have no user, where others have some: the users may have been added to a wrong
/// one.
fn empty_domains(
    flags: &DoctorFlags,
    settings: &Settings,
    condition: Option<&Condition>,
    findings: &mut Findings,
) {
    let users = match condition {
        Some(Condition::Running(status)) => status.users,
        Some(Condition::Stopped(status)) => status.users,
        None => 0,
    };
    let Ok(Some(access)) = Access::open_existing(&flags.place) else { return };
    let mut used = Vec::new();
    let listed =
        access.list(&Request::UserDomains { except: Vec::new() }, &mut |row: UserDomain| {
            used.push(row.domain);
            Ok(())
        });
    if listed.is_err() || users == 0 {
        return;
    }
    for domain in settings.engine.domains.iter().filter(|domain| !used.contains(&domain.name)) {
        let name = &domain.name;
        findings.fault(
            Severity::Warning,
            "users",
            format!("the domain {name} has no users, while others have {users}"),
            format!("add users (barebell user add NAME@{name}), or leave the domain out"),
        );
    }
}

/// The trunks that take no calls, and their accounts that are not registered.
fn trunks(flags: &DoctorFlags, findings: &mut Findings) {
    let Ok(Some(access)) = Access::open_existing(&flags.place) else { return };
    let mut trunks = Vec::new();
    let listed = access.list(&Request::Trunks, &mut |trunk: Trunk| {
        trunks.push(trunk);
        Ok(())
    });
    if listed.is_err() || trunks.is_empty() {
        return;
    }
    for trunk in &trunks {
        let name = &trunk.name;
        let parts = trunk.servers.iter().chain(&trunk.accounts);
        let failed: Vec<_> = parts.filter(|part| !part.reason.is_empty()).collect();
        let reasons = failed.iter().map(|part| format!("{}: {}", part.name, part.reason));
        let reasons: Vec<_> = Some(trunk.lookup.clone())
            .filter(|it| !it.is_empty())
            .into_iter()
            .chain(reasons)
            .collect();
        let remedy =
            format!("correct [[trunks]] `{name}`, or ask the provider; see barebell trunks");
        match (trunk.usable, reasons.is_empty()) {
            (true, true) => {}
            (true, false) => {
                let text = format!("{name} works in part: {}", reasons.join("; "));
                findings.fault(Severity::Warning, "trunks", text, remedy);
            }
            (false, _) => {
                let text = format!("no call goes through {name}: {}", reasons.join("; "));
                findings.fault(Severity::Error, "trunks", text, remedy);
            }
        }
    }
    findings.good_unless_found("trunks", "calls go through all of them");
}

/// Limits of the system.
fn kernel(is_running: bool, findings: &mut Findings) {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE)
        && most < FEW_FILES
        && !is_running
    {
        findings.fault(
            Severity::Warning,
            "limits",
            format!("only {most} files may be open, which limits connections and relayed calls"),
            "LimitNOFILE=524288 in the systemd unit, or ulimit -n",
        );
    }
    let most = std::fs::read_to_string("/proc/sys/net/core/rmem_max").ok();
    let most = most.and_then(|text| text.trim().parse::<usize>().ok());
    if let Some(most) = most.filter(|most| *most < RECEIVE_BUFFER && !geteuid().is_root()) {
        findings.fault(
            Severity::Warning,
            "limits",
            format!("net.core.rmem_max is {most}: a burst of datagrams may be lost"),
            format!("sysctl net.core.rmem_max={RECEIVE_BUFFER}, and a file in /etc/sysctl.d"),
        );
    }
    let number = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/net/netfilter/{name}")).ok();
        text.and_then(|text| text.trim().parse::<u64>().ok())
    };
    if let (Some(count), Some(most)) = (number("nf_conntrack_count"), number("nf_conntrack_max"))
        && count > most / 10 * 9
    {
        findings.fault(
            Severity::Error,
            "limits",
            format!("the firewall tracks {count} of at most {most} connections: further packets are lost"),
            format!("sysctl net.netfilter.nf_conntrack_max={}", most.saturating_mul(4)),
        );
    }
    findings.good_unless_found("limits", "files and receive buffers suffice");
}

/// The room for the database and the journal.
fn disk(data: &Path, findings: &mut Findings) {
    let Some(disk) = data.ancestors().find_map(|folder| statvfs(folder).ok()) else { return };
    let free = disk.blocks_available().saturating_mul(disk.fragment_size());
    let text = format!("the data directory {} has {} MiB of room", data.display(), free >> 20);
    if let Err(failure) = database(data) {
        let remedy = "restart the server, which saves what can be read, or restore a backup";
        findings.fault(Severity::Error, "database", failure, remedy);
    } else {
        findings.good("database", "it can be read");
    }
    if free < LITTLE_ROOM {
        let remedy = "free some room, or move the data to another disk";
        findings.fault(Severity::Error, "disk", text, remedy);
    } else {
        findings.good("disk", text);
    }
}

/// Checks that the database, if there is one, is readable and begins as one of SQLite.
///
/// # Errors
/// The fault in words.
fn database(data: &Path) -> Result<(), String> {
    let path = data.join("barebell.sqlite");
    let mut start = [0; 16];
    match File::open(&path).and_then(|mut file| file.read_exact(&mut start)) {
        Ok(()) if start == *b"SQLite format 3\0" => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(()) => Err(format!("{} is no SQLite database: it is damaged", path.display())),
        Err(error) => Err(format!("{} cannot be read: {error}", path.display())),
    }
}
