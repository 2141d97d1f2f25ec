//! The run of a scenario: calls are started by the rate, messages and timers are handled, until
//! all calls have ended.

use super::air::{Air, MediaCounts};
use super::counts::Counts;
use super::engine::Engine;
use super::fault::ScenarioError;
use super::fields::Fields;
use super::links::Links;
use super::names::Names;
use super::script;
use super::shared::Shared;
use super::value::Value;
use super::world::{Settings, World};
use super::xml;
use crate::load::links::wait_readable;
use crate::record::System;
use net::Clock;
use serde::{Deserialize, Serialize};
use sip::{Duration, Instant, Transport};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The longest wait without a look at the end.
const LOOK: Duration = Duration::from_millis(100);

/// The plan of a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) file: PathBuf,
    pub(crate) transport: Transport,
    /// The server that is called; `None` for a scenario that only receives calls.
    pub(crate) remote: Option<SocketAddr>,
    pub(crate) local: SocketAddr,
    /// Calls per second.
    pub(crate) rate: f64,
    pub(crate) calls: Option<u64>,
    pub(crate) duration: Option<Duration>,
    /// The limit of simultaneous calls.
    pub(crate) limit: usize,
    /// The longest wait for calls in progress after Ctrl-C or the duration.
    pub(crate) drain: Duration,
    pub(crate) fields: Vec<PathBuf>,
    pub(crate) keys: Vec<(String, String)>,
    /// Global variables with their text.
    pub(crate) globals: Vec<(String, String)>,
    pub(crate) log: Option<PathBuf>,
    /// The index of this worker, and the number of them.
    pub(crate) worker: (usize, usize),
    /// The state of all workers.
    pub(crate) shared: Arc<Shared>,
    /// Received media is sent back.
    pub(crate) echoes: bool,
    pub(crate) seed: u64,
    /// Addresses are those of the opened sockets.
    pub(crate) settings: Settings,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// The file, and the name in it.
    pub(crate) file: String,
    pub(crate) scenario: String,
    /// The server that was started for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) system: Option<System>,
    /// True if calls came in.
    pub(crate) is_server: bool,
    pub(crate) seconds: f64,
    pub(crate) counts: Counts,
    pub(crate) media: MediaCounts,
    /// Messages that could not be sent.
    pub(crate) unsent: u64,
    /// Datagrams that the kernel dropped.
    pub(crate) dropped: u64,
}

impl Outcome {
    /// Returns true if there were calls, and all of them succeeded.
    pub(crate) fn is_success(&self) -> bool {
        self.counts.succeeded > 0 && self.counts.failed == 0 && self.unsent == 0
    }

    /// Adds the result of another worker.
    pub(super) fn merge(&mut self, other: &Self) {
        self.seconds = self.seconds.max(other.seconds);
        self.counts.merge(&other.counts);
        self.media.merge(&other.media);
        self.unsent += other.unsent;
        self.dropped += other.dropped;
    }
}

/// The state of a run for the progress display.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Glance {
    pub(crate) seconds: u64,
    pub(crate) started: u64,
    pub(crate) current: usize,
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) retransmitted: u64,
}

impl Glance {
    /// Returns the sum of this state and that of another worker.
    pub(super) fn with(self, other: &Self) -> Self {
        Self {
            seconds: self.seconds.max(other.seconds),
            started: self.started + other.started,
            current: self.current + other.current,
            succeeded: self.succeeded + other.succeeded,
            failed: self.failed + other.failed,
            retransmitted: self.retransmitted + other.retransmitted,
        }
    }
}

/// A scenario that is ready to run.
pub(crate) struct Scenario {
    plan: Plan,
    clock: Clock,
    links: Links,
    air: Air,
    engine: Engine,
    log: Option<(PathBuf, BufWriter<File>)>,
}

impl Scenario {
    /// Reads the files of a plan, and opens its sockets. If `first` waits for calls, this worker
    /// does at the same address.
    ///
    /// # Errors
    /// [`ScenarioError`] if a file cannot be read or has a fault, or a socket cannot be opened.
    pub(crate) fn open(plan: Plan, first: Option<&Self>) -> Result<Self, ScenarioError> {
        let script = read(&plan)?;
        let (path, clock) = (&plan.file, Clock::start());
        if !script.is_server && plan.remote.is_none() {
            return Err(ScenarioError::Usage(format!(
                "{} sends the first message: name its destination with --target udp:HOST:PORT or \
                 --to URI, or let a server be started with --sut",
                path.display()
            )));
        }
        let globals: Vec<_> = plan
            .globals
            .iter()
            .map(|(name, value)| {
                let variable = script.names.known_variable(name);
                let variable = variable.ok_or_else(|| {
                    let path = path.display();
                    ScenarioError::Usage(format!("--set {name}: {path} has no variable {name}"))
                })?;
                Ok((variable, Value::Text(value.clone().into_bytes())))
            })
            .collect::<Result<_, ScenarioError>>()?;
        let is_by_user = script.names.files.iter().any(Fields::is_by_user);
        if is_by_user && plan.settings.users.is_none() {
            let text = "a file of --inf begins with USER: name the number of users with --users";
            return Err(ScenarioError::Usage(text.to_owned()));
        }
        let remote = plan.remote.filter(|_| !script.is_server);
        let links = match (remote, first) {
            (None, Some(first)) => first.links.beside(),
            (None, None) => Links::listen(plan.transport, plan.local, plan.worker.1 > 1),
            (Some(remote), _) => {
                Links::open(plan.transport, plan.local, remote, &plan.settings, clock)
            }
        }?;
        let mut settings = plan.settings.clone();
        settings.local = links.address();
        let air = Air::open(settings.media, plan.echoes, plan.seed)?;
        settings.media = air.address();
        let mut world = World::new(script, settings, plan.seed, clock.now());
        world.shared = Arc::clone(&plan.shared);
        for (variable, value) in globals {
            world.globals[variable.0] = value;
        }
        let engine = Engine::new(world, plan.limit, clock.now())
            .map_err(|cause| ScenarioError::Usage(format!("<init> failed: {}", cause.words())))?;
        let log = plan.log.as_ref().map(|path| {
            let file = File::create(path);
            let file = file.map_err(|error| ScenarioError::Read(path.clone(), error))?;
            Ok((path.clone(), BufWriter::new(file)))
        });
        Ok(Self { log: log.transpose()?, plan, clock, links, air, engine })
    }

    /// Returns the local address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.links.address()
    }

    /// Returns true if calls come in.
    pub(crate) fn is_server(&self) -> bool {
        self.engine.world.script.is_server
    }

    /// Runs the scenario until all calls have ended, or `ending` is set and those in progress have
    /// ended. `show` is called once a second.
    ///
    /// The sockets stay open. A datagram socket that is closed changes the worker that the kernel
    /// picks for the sources of the others.
    ///
    /// # Errors
    /// [`ScenarioError`] if the log cannot be written.
    pub(crate) fn run(
        &mut self,
        ending: &AtomicBool,
        warn: &mut dyn FnMut(&str),
        show: &mut dyn FnMut(Glance),
    ) -> Result<Outcome, ScenarioError> {
        let start = self.clock.now();
        let end = self.plan.duration.map(|duration| start + duration);
        let step = Duration::from_micros((1e6 / self.plan.rate) as u64);
        let mut planned = 0_u64;
        let mut next_look = start + Duration::from_secs(1);
        let mut drained = None;
        loop {
            let now = self.clock.now();
            let world = &mut self.engine.world;
            world.shared.spread(&mut world.is_stopping, &mut world.is_stopped);
            let is_ending = ending.load(Ordering::Relaxed)
                || self.engine.world.is_stopping
                || end.is_some_and(|end| end <= now);
            let is_complete = match self.is_server() {
                true => self.plan.shared.is_complete(),
                false => self.plan.calls.is_some_and(|calls| planned >= calls),
            };
            if is_ending && drained.is_none() {
                drained = Some(now + self.plan.drain);
            }
            let takes_calls = !is_ending && !is_complete;
            self.engine.world.is_stopping |= !takes_calls && self.is_server();
            let is_over = self.engine.world.is_stopped || drained.is_some_and(|at| at <= now);
            if is_over || (!takes_calls && self.engine.len() == 0) {
                break;
            }
            let mut next_start = None;
            if takes_calls && let Some(remote) = self.plan.remote.filter(|_| !self.is_server()) {
                next_start = Some(self.start_calls(remote, start, now, &mut planned));
            }
            self.links.receive(&self.clock, &mut |peer, bytes, at| {
                self.engine.receive(peer, bytes, at);
            });
            self.engine.expire(self.clock.now());
            self.flush(warn)?;
            self.air.receive();
            let now = self.clock.now();
            let next_packet = self.air.send(now);
            if now >= next_look {
                show(self.glance(now.since(start).as_secs()));
                next_look = now + Duration::from_secs(1);
            }
            let next =
                [next_start, next_packet, self.engine.next_timer()].into_iter().flatten().min();
            let wait = next.map_or(LOOK, |next| next.since(now).min(LOOK));
            wait_readable(
                [self.links.fd(), self.air.fd()],
                wait.max(step.min(Duration::from_micros(200))),
            );
        }
        let now = self.clock.now();
        self.engine.abandon(now);
        self.flush(warn)?;
        if let Some((path, log)) = &mut self.log {
            log.flush().map_err(|error| ScenarioError::Read(path.clone(), error))?;
        }
        let (unsent, dropped) = self.links.failures();
        Ok(Outcome {
            file: self.plan.file.display().to_string(),
            scenario: self.engine.world.script.name.clone(),
            system: None,
            is_server: self.is_server(),
            seconds: now.since(start).as_micros() as f64 / 1e6,
            counts: self.engine.world.counts.clone(),
            media: self.air.counts,
            unsent,
            dropped,
        })
    }

    /// Starts the calls that are due, and returns the time of the next one.
    fn start_calls(
        &mut self,
        remote: SocketAddr,
        start: Instant,
        now: Instant,
        planned: &mut u64,
    ) -> Instant {
        let time = |number: u64| {
            start + Duration::from_micros((number as f64 / self.plan.rate * 1e6) as u64)
        };
        let most = self.plan.calls.unwrap_or(u64::MAX);
        while *planned < most && time(*planned) <= now {
            // A call of a user waits for the user.
            let is_started = self.engine.start(remote, now);
            if !is_started && self.plan.settings.users.is_some() {
                return now + Duration::from_millis(1);
            }
            *planned += 1;
        }
        time(*planned)
    }

    /// Sends the messages of the calls, and writes their log.
    fn flush(&mut self, warn: &mut dyn FnMut(&str)) -> Result<(), ScenarioError> {
        let world = &mut self.engine.world;
        if !world.out.is_empty() {
            self.links.send(&world.out);
            world.out.clear();
        }
        let now = self.clock.now();
        for command in world.media.drain(..) {
            self.air.command(command, now);
        }
        for (is_warning, line) in world.log.drain(..) {
            if is_warning {
                warn(&line.escape_ascii().to_string());
            }
            if let Some((path, log)) = &mut self.log {
                log.write_all(&line)
                    .and_then(|()| log.write_all(b"\n"))
                    .map_err(|error| ScenarioError::Read(path.clone(), error))?;
            }
        }
        Ok(())
    }

    fn glance(&self, seconds: u64) -> Glance {
        let counts = &self.engine.world.counts;
        Glance {
            seconds,
            started: counts.started,
            current: self.engine.len(),
            succeeded: counts.succeeded,
            failed: counts.failed,
            retransmitted: counts.steps.iter().map(|step| step.retransmitted).sum(),
        }
    }
}

fn read(plan: &Plan) -> Result<script::Script, ScenarioError> {
    let path = &plan.file;
    let bytes = std::fs::read(path).map_err(|error| ScenarioError::Read(path.clone(), error))?;
    let names = Names {
        keys: plan.keys.clone(),
        files: plan
            .fields
            .iter()
            .map(|path| fields(path, plan.worker))
            .collect::<Result<_, _>>()?,
        folder: path.parent().map(Path::to_owned).unwrap_or_default(),
        ..Names::default()
    };
    script::parse(&xml::decode(&bytes), names)
        .map_err(|fault| ScenarioError::File(path.clone(), fault))
}

/// Reads a file of fields, and returns the lines of a worker.
fn fields(path: &Path, (index, count): (usize, usize)) -> Result<Fields, ScenarioError> {
    Ok(Fields::read(path)?.share(index, count))
}
