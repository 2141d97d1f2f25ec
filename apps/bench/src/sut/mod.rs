//! Systems under test: started by profiles with the same users and mode, each on a free port, and
//! stopped again; or reached where they run already.

mod process;
mod profile;
mod spec;

use crate::record::{Steps, System};
use crate::users::Users;
use crate::watch::{Subject, WatchError};
use process::Server;
use profile::Profile;
use serde::Deserialize;
use sip::dialog::Dialog;
use sip::{HeaderName, Method, Transport};
use spec::Spec;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// The domain of the systems that are started here (RFC 2606).
pub(crate) const DOMAIN: &str = "bench.example";

/// How long a system may take until it answers: large tables of users take their time.
const READY: Duration = Duration::from_secs(120);

/// What a system does with a request for a user. It is a registrar too in every mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Forwards it and keeps the transaction (RFC 3261 section 16.2).
    Stateful,
    /// Forwards it and forgets it (section 16.11).
    Stateless,
    /// Answers with the user's contacts (section 8.3).
    Redirect,
}

impl Mode {
    /// All of them.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 3] = [Self::Stateful, Self::Stateless, Self::Redirect];

    /// The name in profiles.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Stateful => "stateful",
            Self::Stateless => "stateless",
            Self::Redirect => "redirect",
        }
    }
}

/// How a system is to be started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// What it does.
    pub(crate) mode: Mode,
    /// Whether it asks users for credentials.
    pub(crate) authentication: bool,
    /// Whom it serves.
    pub(crate) users: &'a Users,
    /// Where it listens: an address of this machine.
    pub(crate) address: IpAddr,
    /// What it is spoken to by. It listens on UDP in any case, and on TCP too if that is wanted.
    pub(crate) transport: Transport,
    /// Its threads or processes; one for each processor if nothing is said.
    pub(crate) workers: Option<usize>,
    /// Whether it is to say how long the steps of its work take.
    pub(crate) timings: bool,
}

/// Why a system is not there.
#[derive(Debug)]
pub(crate) enum SutError {
    /// The text on the command line names no system.
    Spec(String),
    /// What is to be watched of a system that runs elsewhere is no such thing.
    Watch(WatchError),
    /// The host has no address.
    Host(String, io::Error),
    /// The profile cannot be read, or is not as it should be.
    Profile(PathBuf, String),
    /// The system of this name has no such mode, or cannot do what is asked.
    Cannot(String, String),
    /// The program is not there; what to do about it.
    Missing(String, String),
    /// Something on our side went wrong: what, and why.
    Io(String, io::Error),
    /// A command of the profile failed: the command, and what it printed.
    Failed(String, String),
    /// The system ended or did not answer: its name, what happened, and the last it printed.
    NotReady(String, String, String),
}

impl fmt::Display for SutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spec(text) => write!(
                f,
                "no system '{text}': expected barebell, kamailio, PROFILE.toml, NAME=PROFILE.toml, or, \
                 if it runs already, udp:HOST:PORT or NAME@udp:HOST:PORT, with ,pid=PID, \
                 ,ssh=HOST:PID or ,ssh=HOST:NAME to watch it and ,domain=DOMAIN for the domain it serves"
            ),
            Self::Watch(error) => error.fmt(f),
            Self::Host(host, error) => write!(f, "{host} has no address: {error}"),
            Self::Profile(path, reason) => write!(f, "profile {}: {reason}", path.display()),
            Self::Cannot(name, what) => write!(f, "the profile of {name} {what}"),
            Self::Missing(program, hint) => write!(f, "{program} is missing; {hint}"),
            Self::Io(what, error) => write!(f, "{what}: {error}"),
            Self::Failed(command, printed) => write!(f, "`{command}` failed: {printed}"),
            Self::NotReady(name, what, printed) => {
                write!(f, "{name} {what}; it printed: {printed}")
            }
        }
    }
}

impl std::error::Error for SutError {}

/// A system under test that answers. Dropped, it is stopped if it was started here.
#[derive(Debug)]
pub(crate) struct Running {
    /// As it is recorded.
    pub(crate) system: System,
    /// Where it is reached.
    pub(crate) target: SocketAddr,
    /// By what.
    pub(crate) transport: Transport,
    /// The domain of its users, also the digest realm.
    pub(crate) domain: String,
    /// What to watch, if that is known.
    pub(crate) watch: Option<Subject>,
    /// The command that prints its timings; empty if there is none.
    timings: Vec<String>,
    server: Option<Server>,
}

impl Running {
    /// Whether it still runs, as far as we know. If it does not, the last that it printed.
    pub(crate) fn has_ended(&mut self) -> Option<String> {
        let server = self.server.as_mut()?;
        server.ended().map(|status| format!("{status}; {}", server.printed()))
    }

    /// How long the steps of its work took since it was started; nothing where it was not asked to
    /// say so.
    ///
    /// # Errors
    /// [`SutError`] where its command fails or prints something else.
    pub(crate) fn timings(&self) -> Result<Steps, SutError> {
        /// The part of what is printed that matters here.
        #[derive(Deserialize)]
        struct Printed {
            timings: Steps,
        }
        if self.timings.is_empty() {
            return Ok(Steps::new());
        }
        let printed = run(&self.timings)?;
        let wrong = |error| SutError::Failed(self.timings.join(" "), format!("{error}: {printed}"));
        let printed: Printed = serde_json::from_str(&printed).map_err(wrong)?;
        Ok(printed.timings)
    }
}

/// Runs a command of a profile, and returns what it printed.
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

/// Starts, or finds, the system that `spec` names: `barebell`, `kamailio`, `PATH.toml`,
/// `NAME=PATH.toml`, `udp:HOST:PORT`, `NAME@udp:HOST:PORT`.
///
/// # Errors
/// [`SutError`] where there is none.
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
            server: None,
        }),
        Spec::Profile { name, profile } => {
            let mut profile = Profile::load(&profile)?;
            profile.name = name.unwrap_or(profile.name);
            start_profile(&profile, wanted)
        }
    }
}

fn start_profile(profile: &Profile, wanted: &Wanted<'_>) -> Result<Running, SutError> {
    // Read by nobody else: there are passwords in it.
    let folder = tempfile::Builder::new()
        .prefix("barebell-bench-")
        .tempdir()
        .map_err(|error| SutError::Io("cannot make a folder".to_owned(), error))?;
    let target = free_port(wanted.address)
        .map_err(|error| SutError::Io(format!("no free port on {}", wanted.address), error))?;
    let plan = profile.plan(wanted, target, folder.path())?;
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
    let mut server = Server::start(&plan.command, plan.stop, folder)
        .map_err(|error| SutError::Io(plan.command.join(" "), error))?;
    wait_until_ready(&profile.name, &mut server, target, plan.ready_text.as_deref())?;
    Ok(Running {
        system: System {
            name: profile.name.clone(),
            version,
            target: format!("{}:{target}", wanted.transport.uri_name()),
            command: Some(plan.command),
            remarks: profile.remarks.clone(),
        },
        target,
        transport: wanted.transport,
        domain: DOMAIN.to_owned(),
        watch: Some(Subject::Local(vec![server.pid()])),
        timings: plan.timings,
        server: Some(server),
    })
}

/// A port that is free in UDP and TCP; somebody else may still be faster to take it.
fn free_port(address: IpAddr) -> io::Result<SocketAddr> {
    let mut last = None;
    for _ in 0..100 {
        let socket = UdpSocket::bind((address, 0))?;
        let target = socket.local_addr()?;
        match TcpListener::bind(target) {
            Ok(_) => return Ok(target),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::other("none found")))
}

/// An OPTIONS request from `local` to `host`: a domain, or an address.
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

/// Waits for an answer to OPTIONS over UDP, or for a text that it prints.
fn wait_until_ready(
    name: &str,
    server: &mut Server,
    target: SocketAddr,
    text: Option<&str>,
) -> Result<(), SutError> {
    let failed = |error| SutError::Io("cannot ask whether it answers".to_owned(), error);
    let socket = UdpSocket::bind((target.ip(), 0)).map_err(failed)?;
    socket.connect(target).map_err(failed)?;
    socket.set_read_timeout(Some(Duration::from_millis(100))).map_err(failed)?;
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
        // Sending fails with the report that an earlier request met a closed port.
        let _ = socket.send(&options("UDP", from, &target.to_string()));
        let mut answer = [0; 2048];
        match socket.recv(&mut answer) {
            Ok(size) if answer[..size].starts_with(b"SIP/2.0") => break,
            Ok(_) => {}
            Err(_) => thread::sleep(Duration::from_millis(25)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
