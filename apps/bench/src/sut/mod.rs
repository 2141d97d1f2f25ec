//! Systems under test. They are started by profiles with the same users and mode, each on a free
//! port, and stopped after use; or they run already elsewhere.

mod error;
mod probe;
mod process;
mod profile;
mod spec;
mod wanted;

pub(crate) use error::SutError;
pub(crate) use probe::{NoServer, probe};
pub(crate) use wanted::{DOMAIN, Mode, Wanted};

use crate::link::Link;
use crate::record::{Steps, System};
use crate::watch::Subject;
use process::Server;
use profile::Profile;
use serde::Deserialize;
use sip::dialog::Dialog;
use sip::{HeaderName, Method, Transport};
use spec::Spec;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// The longest time to the first answer: large tables of users take time.
const READY: Duration = Duration::from_secs(120);

/// A running system under test. Dropping it stops the system, if it was started here.
#[derive(Debug)]
pub(crate) struct Running {
    /// Its description in the record.
    pub(crate) system: System,
    /// Its address.
    pub(crate) target: SocketAddr,
    /// Its transport.
    pub(crate) transport: Transport,
    /// The domain of its users, also the digest realm.
    pub(crate) domain: String,
    /// The processes to watch, if known.
    pub(crate) watch: Option<Subject>,
    /// The command that prints its counters and timings; empty without one.
    timings: Vec<String>,
    /// True if its timings were requested.
    is_timed: bool,
    server: Option<Server>,
}

impl Running {
    /// Returns the last output of the server if it has ended, as far as is known.
    pub(crate) fn has_ended(&mut self) -> Option<String> {
        let server = self.server.as_mut()?;
        server.ended().map(|status| format!("{status}; {}", server.printed()))
    }

    /// Returns the times of its processing steps since the start; empty if they are not requested,
    /// or it does not report them.
    ///
    /// # Errors
    /// [`SutError`] if its command fails or has invalid output.
    pub(crate) fn timings(&self) -> Result<Steps, SutError> {
        if self.is_timed { Ok(self.reported()?.timings) } else { Ok(Steps::new()) }
    }

    /// Returns its counters since the start; empty if it does not report them.
    ///
    /// # Errors
    /// [`SutError`] if its command fails or has invalid output.
    pub(crate) fn counters(&self) -> Result<BTreeMap<String, u64>, SutError> {
        Ok(self.reported()?.counters)
    }

    fn reported(&self) -> Result<Reported, SutError> {
        if self.timings.is_empty() {
            return Ok(Reported::default());
        }
        let printed = run(&self.timings)?;
        let wrong = |error| SutError::Failed(self.timings.join(" "), format!("{error}: {printed}"));
        serde_json::from_str(&printed).map_err(wrong)
    }
}

/// The relevant part of the output of the command for counters and timings.
#[derive(Debug, Default, Deserialize)]
struct Reported {
    #[serde(default)]
    timings: Steps,
    #[serde(default)]
    counters: BTreeMap<String, u64>,
}

/// Runs a command of a profile, and returns its output.
fn run(command: &[String]) -> Result<String, SutError> {
    let output = Command::new(&command[0]).args(&command[1..]).output();
    let output = output.map_err(|error| SutError::Io(command.join(" "), error))?;
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed).trim().to_owned();
    match output.status.success() {
        true => Ok(printed),
        false => Err(SutError::Failed(command.join(" "), printed)),
    }
}

/// Starts or finds the system of `spec`: `barebell`, `kamailio`, `PATH.toml`, `NAME=PATH.toml`,
/// `udp:HOST:PORT`, `NAME@udp:HOST:PORT`.
///
/// # Errors
/// [`SutError`] if the system cannot be started or found.
pub(crate) fn start(spec: &str, wanted: &Wanted<'_>) -> Result<Running, SutError> {
    match Spec::parse(spec)? {
        Spec::Elsewhere { name, transport, target, domain, watch } => Ok(Running {
            system: System {
                target: format!("{}:{target}", transport.uri_name()),
                name,
                ..System::default()
            },
            target,
            transport,
            domain,
            watch,
            timings: Vec::new(),
            is_timed: false,
            server: None,
        }),
        Spec::Profile { name, profile } => {
            let mut profile = Profile::load(&profile)?;
            profile.name = name.unwrap_or(profile.name);
            start_profile(&profile, wanted)
        }
    }
}

/// Returns the path of a program, if it is installed.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    profile::find(name)
}

/// Returns the error if a program of the built-in or named profile is not installed.
///
/// # Errors
/// [`SutError`] if a program is missing, or the profile is invalid.
pub(crate) fn check(spec: &str) -> Result<(), SutError> {
    match Spec::parse(spec)? {
        Spec::Elsewhere { .. } => Ok(()),
        Spec::Profile { profile, .. } => Profile::load(&profile)?.check(),
    }
}

fn start_profile(profile: &Profile, wanted: &Wanted<'_>) -> Result<Running, SutError> {
    // The folder is private, since it contains passwords.
    let folder = tempfile::Builder::new()
        .prefix("barebell-bench-")
        .tempdir()
        .map_err(|error| SutError::Io("cannot make a folder".to_owned(), error))?;
    let none_free = |error| SutError::Io(format!("no free port on {}", wanted.address), error);
    let free_port = || match wanted.namespace {
        Some(name) => Link::inside(name, || free_port(wanted.address)),
        None => free_port(wanted.address),
    };
    let target = profile.target.map_or_else(|| free_port().map_err(none_free), Ok)?;
    let inner = free_port().map_err(none_free)?.port();
    let mut plan = profile.plan(wanted, target, inner, folder.path())?;
    if let Some(name) = wanted.namespace {
        let beside = plan.beside.iter_mut().map(|(command, _)| command);
        for command in beside.chain([&mut plan.command]) {
            command.splice(0..0, ["ip", "netns", "exec", name].map(str::to_owned));
        }
    }
    let version = match plan.version.is_empty() {
        true => None,
        false => run(&plan.version)?
            .lines()
            .find(|line| line.contains(|c: char| c.is_ascii_digit()))
            .map(|line| line.trim_start_matches("version: ").trim().to_owned()),
    };
    for command in &plan.prepare {
        run(command)?;
    }
    let failed = |command: &[String], error| SutError::Io(command.join(" "), error);
    let mut server = Server::new(plan.stop, folder);
    for (command, text) in &plan.beside {
        server.start(command).map_err(|error| failed(command, error))?;
        if text.is_some() {
            wait_until_ready(&command[0], &mut server, target, text.as_deref())?;
        }
    }
    server.start(&plan.command).map_err(|error| failed(&plan.command, error))?;
    let ready = wait_until_ready(&profile.name, &mut server, target, plan.ready_text.as_deref())?;
    Ok(Running {
        system: System {
            name: profile.name.clone(),
            version,
            target: format!("{}:{target}", wanted.transport.uri_name()),
            command: Some(plan.command),
            ready: Some(ready.as_secs_f64()),
            remarks: profile.remarks.clone(),
        },
        target,
        transport: wanted.transport,
        domain: DOMAIN.to_owned(),
        watch: Some(Subject::Local(server.pids())),
        timings: plan.timings,
        is_timed: wanted.timings,
        server: Some(server),
    })
}

/// Returns a port that is free in UDP and TCP; another process may still take it first.
fn free_port(address: IpAddr) -> io::Result<SocketAddr> {
    let mut last = None;
    for _ in 0..100 {
        let socket = UdpSocket::bind((address, 0))?;
        let target = socket.local_addr()?;
        // baresip has TLS at the port after that of SIP.
        let next = SocketAddr::new(address, target.port().saturating_add(1));
        match TcpListener::bind(target).and_then(|_| TcpListener::bind(next)) {
            Ok(_) => return Ok(target),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::other("none found")))
}

/// Returns an OPTIONS request from `local` to `host`: a domain, or an address.
pub(crate) fn options(transport: &str, local: SocketAddr, host: &str) -> Vec<u8> {
    let (id, mut out) = (format!("{:x}", getrandom::u64().unwrap_or_default()), Vec::new());
    let via = ("SIP/2.0/", transport, " ", local, ";rport;branch=z9hG4bK", &id);
    let from = ("<sip:bench@", host, ">");
    Dialog::new(&id, from, &id, ("<sip:", host, ">"), ("sip:", host))
        .request(Method::Options, 1, via, &mut out)
        .field(HeaderName::UserAgent, "barebell-bench")
        .end();
    out
}

/// Waits for an answer to OPTIONS over UDP, or for the ready text in the output. Returns the time.
fn wait_until_ready(
    name: &str,
    server: &mut Server,
    target: SocketAddr,
    text: Option<&str>,
) -> Result<Duration, SutError> {
    let failed = |error| SutError::Io("cannot ask whether it answers".to_owned(), error);
    let any = match target.ip() {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((any, 0)).map_err(failed)?;
    socket.connect(target).map_err(failed)?;
    socket.set_read_timeout(Some(Duration::from_millis(20))).map_err(failed)?;
    let from = socket.local_addr().map_err(failed)?;
    let begin = Instant::now();
    loop {
        let not_ready = |what: String, server: &Server| {
            Err(SutError::NotReady(name.to_owned(), what, server.printed()))
        };
        if let Some(status) = server.ended() {
            return not_ready(format!("has ended ({status})"), server);
        }
        if begin.elapsed() > READY {
            return not_ready(format!("does not answer after {} s", READY.as_secs()), server);
        }
        if let Some(text) = text {
            if server.printed().contains(text) {
                break;
            }
            thread::sleep(Duration::from_millis(50));
            continue;
        }
        // Sending fails with the ICMP error of an earlier request to a closed port.
        let _ = socket.send(&options("UDP", from, &target.to_string()));
        let mut answer = [0; 2048];
        match socket.recv(&mut answer) {
            Ok(size) if answer[..size].starts_with(b"SIP/2.0") => break,
            Ok(_) => {}
            Err(_) => thread::sleep(Duration::from_millis(25)),
        }
    }
    Ok(begin.elapsed())
}

#[cfg(test)]
mod tests;
