//! The controller: starts agents, sends them orders, and collects their results.

use super::error::AgentError;
use super::install::Program;
use super::place::{Place, Share, turns};
use super::protocol::{Job, MOST, Order, PROTOCOL, Plan, Reply, line};
use crate::load::generator::{GeneratorPlan, Part};
use crate::load::worker::{Found, Glance, Shared};
use crate::record::{self, Agent as AgentRecord, Ceiling, Machine, Operation};
use net::Clock;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use sip::{Duration, Instant};
use std::cell::RefCell;
use std::io::{BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The timeout of an agent's first message after its start, and of its end.
const PATIENCE: Duration = Duration::from_secs(30);
const PARTING: std::time::Duration = std::time::Duration::from_secs(5);
/// The interval of checks for a stop by the user.
const LOOK: std::time::Duration = std::time::Duration::from_millis(50);
/// The number of round trips of a clock comparison.
const ROUNDS: usize = 8;
/// The time for reading an order, in addition to its travel time.
const LEAD: Duration = Duration::from_millis(100);
/// The limit of lines that a shell may print before the first message of an agent.
const NOISE: usize = 100;

/// The controller's state of an agent.
struct Agent {
    place: Place,
    process: Child,
    input: Option<ChildStdin>,
    /// The last output on standard error.
    errors: Arc<Mutex<Vec<u8>>>,
    machine: Machine,
    /// The offset of its clock from the local one, and the error bound, in microseconds.
    offset: i64,
    clock_error: u64,
}

/// A line from an agent with its time of receipt; `None` at the end of the output.
struct Event {
    agent: usize,
    at: Instant,
    reply: Option<Result<Reply, String>>,
}

/// All agents. Dropping it ends them.
pub(crate) struct Fleet {
    agents: RefCell<Vec<Agent>>,
    events: Receiver<Event>,
    clock: Clock,
    ending: Arc<AtomicBool>,
    next_id: RefCell<u32>,
}

impl Fleet {
    /// Starts an agent at each of `places`, if there are any.
    ///
    /// # Errors
    /// [`AgentError`] if an agent does not start.
    pub(crate) fn start(
        places: &[Place],
        is_kept: bool,
        ending: &Arc<AtomicBool>,
    ) -> Result<Option<Rc<Self>>, AgentError> {
        let Some(first) = places.first() else { return Ok(None) };
        if places.len() > MOST {
            return Err(AgentError::TooMany(places.len()));
        }
        if let Some(index) =
            (1..places.len()).find(|&index| places[..index].contains(&places[index]))
        {
            return Err(AgentError::Twice(places[index].clone()));
        }
        let program = Program::ours().map_err(|error| {
            AgentError::Start(first.clone(), format!("our own program: {error}"))
        })?;
        let commands: Vec<_> = thread::scope(|scope| {
            let bringing: Vec<_> = places
                .iter()
                .map(|place| scope.spawn(|| program.bring(place, is_kept, ending)))
                .collect();
            bringing.into_iter().map(thread::ScopedJoinHandle::join).collect()
        });
        let clock = Clock::start();
        let (sender, events) = channel();
        let fleet = Self {
            agents: RefCell::new(Vec::new()),
            events,
            clock,
            ending: Arc::clone(ending),
            next_id: RefCell::new(0),
        };
        let mut failure = None;
        for (index, (command, place)) in commands.into_iter().zip(places).enumerate() {
            let panicked = |_| AgentError::Start(place.clone(), "a thread panicked".to_owned());
            let started = command.map_err(panicked).flatten().and_then(|mut command| {
                command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
                command.spawn().map_err(|error| AgentError::Start(place.clone(), error.to_string()))
            });
            match started {
                Ok(process) => {
                    let agent = Agent::attach(place, process, index, clock, sender.clone());
                    fleet.agents.borrow_mut().push(agent);
                }
                // The others are started all the same, since a started agent removes its copy.
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        fleet.greet()?;
        fleet.compare_clocks()?;
        Ok(Some(Rc::new(fleet)))
    }

    /// Returns the machines.
    pub(crate) fn machines(&self) -> Vec<AgentRecord> {
        let agents = self.agents.borrow();
        let of = |agent: &Agent| AgentRecord {
            name: agent.place.to_string(),
            machine: agent.machine.clone(),
        };
        agents.iter().map(of).collect()
    }

    /// Returns the highest error bound of the clock comparisons, in microseconds.
    pub(crate) fn clock_error_us(&self) -> u64 {
        self.agents.borrow().iter().map(|agent| agent.clock_error).max().unwrap_or(0)
    }

    pub(crate) fn count(&self) -> usize {
        self.agents.borrow().len()
    }

    fn place(&self, agent: usize) -> Place {
        self.agents.borrow()[agent].place.clone()
    }

    /// Waits for the first message of each agent.
    fn greet(&self) -> Result<(), AgentError> {
        let until = self.clock.now() + PATIENCE;
        let count = self.count();
        let mut noise = vec![0; count];
        let mut greeted = vec![false; count];
        while !greeted.iter().all(|&it| it) {
            let Some(Event { agent, reply, .. }) = self.next_event()? else {
                if self.ending.load(Ordering::Relaxed) {
                    return Err(AgentError::Stopped);
                }
                if let Some(agent) = greeted.iter().position(|&it| !it)
                    && self.clock.now() > until
                {
                    let reason = format!("no message from it in {} s", PATIENCE.as_secs());
                    return Err(AgentError::Start(self.place(agent), reason));
                }
                continue;
            };
            let wrong = |said| AgentError::Version(self.place(agent), said);
            match reply {
                Some(Ok(Reply::Hello { version, protocol, machine })) => {
                    if version != env!("CARGO_PKG_VERSION") || protocol != PROTOCOL {
                        return Err(wrong(format!("its version is {version}.{protocol}")));
                    }
                    self.agents.borrow_mut()[agent].machine = *machine;
                    greeted[agent] = true;
                }
                Some(Err(said)) if noise[agent] == NOISE => return Err(wrong(said)),
                Some(Err(_)) => noise[agent] += 1,
                Some(Ok(_)) => return Err(wrong("it sent a message without a request".to_owned())),
                None => {
                    let said = self.agents.borrow_mut()[agent].last_words();
                    return Err(AgentError::Start(self.place(agent), said));
                }
            }
        }
        Ok(())
    }

    /// Compares the clocks: the shortest of several round trips is the most accurate.
    fn compare_clocks(&self) -> Result<(), AgentError> {
        for agent in 0..self.count() {
            let mut best = u64::MAX;
            for _ in 0..ROUNDS {
                let before = self.clock.now();
                self.send(agent, &Order::Time)?;
                let (at, reply) = self.reply_of(agent)?;
                let Reply::Time(theirs) = reply else { return Err(self.unexpected(agent)) };
                let trip = at.since(before).as_micros();
                if trip < best {
                    best = trip;
                    let ours = before.as_micros() + trip / 2;
                    let agent = &mut self.agents.borrow_mut()[agent];
                    agent.offset = theirs.cast_signed().wrapping_sub(ours.cast_signed());
                    agent.clock_error = trip.div_ceil(2);
                }
            }
        }
        Ok(())
    }

    pub(super) fn send(&self, agent: usize, order: &Order) -> Result<(), AgentError> {
        let mut agents = self.agents.borrow_mut();
        let agent = &mut agents[agent];
        let written =
            serde_json::to_vec(order).map_err(std::io::Error::from).and_then(|mut text| {
                text.push(b'\n');
                agent.input.as_mut().ok_or(std::io::ErrorKind::BrokenPipe)?.write_all(&text)
            });
        written.map_err(|_| AgentError::Ended(agent.place.clone(), agent.last_words()))
    }

    /// Returns the next event, or `None` after a short wait.
    fn next_event(&self) -> Result<Option<Event>, AgentError> {
        match self.events.recv_timeout(LOOK) {
            Ok(event) => Ok(Some(event)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            // All agents have ended, and their ends were reported.
            Err(RecvTimeoutError::Disconnected) => Err(AgentError::Stopped),
        }
    }

    pub(super) fn unexpected(&self, agent: usize) -> AgentError {
        AgentError::Version(self.place(agent), "it sent an unexpected message".to_owned())
    }

    /// Returns the reply in an event of `agent`, if it is a reply.
    fn judge(
        &self,
        agent: usize,
        reply: Option<Result<Reply, String>>,
    ) -> Result<Reply, AgentError> {
        match reply {
            Some(Ok(Reply::Failed(_))) if self.ending.load(Ordering::Relaxed) => {
                Err(AgentError::Stopped)
            }
            Some(Ok(Reply::Failed(reason))) => Err(AgentError::Failed(self.place(agent), reason)),
            Some(Ok(reply)) => Ok(reply),
            Some(Err(said)) => Err(AgentError::Version(self.place(agent), said)),
            None => {
                let said = self.agents.borrow_mut()[agent].last_words();
                Err(AgentError::Ended(self.place(agent), said))
            }
        }
    }

    fn reply_of(&self, wanted: usize) -> Result<(Instant, Reply), AgentError> {
        loop {
            if self.ending.load(Ordering::Relaxed) {
                return Err(AgentError::Stopped);
            }
            let Some(Event { agent, at, reply }) = self.next_event()? else { continue };
            let reply = self.judge(agent, reply)?;
            if agent == wanted && !matches!(reply, Reply::Glance(..)) {
                return Ok((at, reply));
            }
        }
    }

    /// Waits for a reply of each agent. If the user requests the end meanwhile, the agents are told
    /// to stop; likewise if the server of these sockets is unreachable.
    pub(super) fn replies(&self, work: Option<(u32, &Shared)>) -> Result<Vec<Reply>, AgentError> {
        let mut replies: Vec<Option<Reply>> = Vec::new();
        replies.resize_with(self.count(), || None);
        let (mut is_told, mut is_gone) = (false, false);
        while replies.iter().any(Option::is_none) {
            if !is_told && self.ending.load(Ordering::Relaxed) {
                is_told = true;
                for agent in 0..self.count() {
                    self.send(agent, &Order::Stop)?;
                }
            }
            if let Some((id, shared)) = work
                && !is_gone
                && shared.gone.load(Ordering::Relaxed)
            {
                is_gone = true;
                for agent in 0..self.count() {
                    self.send(agent, &Order::Gone { id })?;
                }
            }
            let Some(Event { agent, reply, .. }) = self.next_event()? else { continue };
            match self.judge(agent, reply)? {
                Reply::Glance(second, text, number) => {
                    let mut response = record::growing(2);
                    if record::decode_into(&mut response, &text).is_err() {
                        return Err(self.unexpected(agent));
                    }
                    if let Some((_, shared)) = work {
                        let mut glances =
                            shared.glances.lock().unwrap_or_else(PoisonError::into_inner);
                        glances.resize(self.count(), None);
                        glances[agent] = Some(Glance { second, response, number });
                    }
                }
                reply => replies[agent] = Some(reply),
            }
        }
        Ok(replies.into_iter().flatten().collect())
    }

    /// Measures the ceiling of each machine against a local ideal peer, all at the same time.
    ///
    /// # Errors
    /// [`AgentError`] if an agent fails.
    pub(crate) fn ceilings(
        &self,
        plan: &GeneratorPlan,
        operation: Operation,
        authentication: bool,
    ) -> Result<Vec<Ceiling>, AgentError> {
        let rate = plan.rate / self.count() as f64;
        for agent in 0..self.count() {
            let plan = GeneratorPlan { rate, ..plan.clone() };
            let plan = Box::new(Plan::new(plan, "localhost"));
            self.send(agent, &Order::Ceiling { plan, operation, authentication })?;
        }
        let replies = self.replies(None)?.into_iter().enumerate();
        let ceilings = replies.map(|(agent, reply)| match reply {
            Reply::Ceiling(ceiling) => Ok(ceiling),
            _ => Err(self.unexpected(agent)),
        });
        ceilings.collect()
    }

    /// Opens the sockets of each agent for its share of `plan`, to a server with the name `host`.
    ///
    /// # Errors
    /// [`AgentError`] if an agent fails.
    pub(crate) fn open(
        self: &Rc<Self>,
        plan: &GeneratorPlan,
        host: &str,
    ) -> Result<Crew, AgentError> {
        let count = self.count();
        let users = plan.users.len();
        if users < count * 2 {
            return Err(AgentError::Users { users, agents: count });
        }
        self.open_each(host, |index| {
            let part = Part { index, count };
            let users = plan.users.part(part.users(users));
            let rate = plan.rate / count as f64;
            GeneratorPlan { part, users, rate, ..plan.clone() }
        })
    }

    /// Opens the sockets of `plan(index)` on each agent, to a server with the name `host`.
    pub(super) fn open_each(
        self: &Rc<Self>,
        host: &str,
        plan: impl Fn(usize) -> GeneratorPlan,
    ) -> Result<Crew, AgentError> {
        let id = {
            let mut next = self.next_id.borrow_mut();
            *next += 1;
            *next
        };
        for index in 0..self.count() {
            let plan = Box::new(Plan::new(plan(index), host));
            self.send(index, &Order::Open { id, plan })?;
        }
        let mut workers = Vec::new();
        for (agent, reply) in self.replies(None)?.into_iter().enumerate() {
            match reply {
                Reply::Opened { workers: of_agent } => workers.push(of_agent),
                _ => return Err(self.unexpected(agent)),
            }
        }
        let shared = Shared { ending: Arc::clone(&self.ending), ..Shared::default() };
        Ok(Crew { fleet: Rc::clone(self), id, workers, shared })
    }

    /// Orders the work of all agents, and returns its start.
    fn begin(&self, id: u32, job: &Job) -> Result<std::time::Instant, AgentError> {
        self.begin_with(|start| Order::Do { id, start, job: job.clone() })
    }

    /// Sends an order with a common start to all agents, and returns the start.
    pub(super) fn begin_with(
        &self,
        order: impl Fn(u64) -> Order,
    ) -> Result<std::time::Instant, AgentError> {
        // Clocks drift apart.
        self.compare_clocks()?;
        let way = Duration::from_micros(self.clock_error_us()).times(4);
        let start = self.clock.now() + LEAD + way;
        let begun =
            std::time::Instant::now() + std::time::Duration::from_micros((LEAD + way).as_micros());
        for agent in 0..self.count() {
            let offset = self.agents.borrow()[agent].offset;
            let start = start.as_micros().saturating_add_signed(offset);
            self.send(agent, &order(start))?;
        }
        Ok(begun)
    }

    /// Waits for the end of the work, and returns its results.
    fn finish(&self, id: u32, shared: &Shared) -> Result<Vec<Share>, AgentError> {
        let mut shares = Vec::new();
        for (agent, reply) in self.replies(Some((id, shared)))?.into_iter().enumerate() {
            let Reply::Found { found, is_early } = reply else {
                return Err(self.unexpected(agent));
            };
            if is_early && !self.ending.load(Ordering::Relaxed) {
                return Err(AgentError::StoppedThere(self.place(agent)));
            }
            let found: Result<Vec<_>, String> = found.into_iter().map(Found::try_from).collect();
            let found = found.map_err(|said| AgentError::Version(self.place(agent), said))?;
            let clock_error_us = self.agents.borrow()[agent].clock_error;
            shares.push(Share { agent: Some(self.place(agent)), clock_error_us, found });
        }
        Ok(shares)
    }
}

impl Agent {
    /// Starts reading the output of `process`.
    fn attach(
        place: &Place,
        mut process: Child,
        index: usize,
        clock: Clock,
        events: Sender<Event>,
    ) -> Self {
        let errors = Arc::new(Mutex::new(Vec::new()));
        if let Some(mut from) = process.stderr.take() {
            let errors = Arc::clone(&errors);
            thread::spawn(move || {
                let mut buffer = [0; 1024];
                while let Ok(count @ 1..) = from.read(&mut buffer) {
                    let mut errors = errors.lock().unwrap_or_else(PoisonError::into_inner);
                    errors.extend_from_slice(&buffer[..count]);
                    let surplus = errors.len().saturating_sub(2048);
                    errors.drain(..surplus);
                }
            });
        }
        let output = process.stdout.take();
        thread::spawn(move || {
            let mut output = output.map(BufReader::new);
            while let Some(output) = &mut output
                && let Ok(Some(text)) = line(output)
            {
                let at = clock.now();
                let reply = serde_json::from_slice(&text).map_err(|_| {
                    let said = String::from_utf8_lossy(&text);
                    format!("it says '{}'", said.chars().take(80).collect::<String>())
                });
                if events.send(Event { agent: index, at, reply: Some(reply) }).is_err() {
                    return;
                }
            }
            let _ = events.send(Event { agent: index, at: clock.now(), reply: None });
        });
        Self {
            place: place.clone(),
            input: process.stdin.take(),
            process,
            errors,
            machine: Machine::default(),
            offset: 0,
            clock_error: 0,
        }
    }

    /// Returns its last output, or its exit status.
    fn last_words(&mut self) -> String {
        self.input.take();
        let status = self.wait();
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let said = String::from_utf8_lossy(&errors).trim().to_owned();
        match (said.is_empty(), status) {
            (false, _) => said,
            (true, Some(status)) => format!("{status}"),
            (true, None) => "the connection to it is lost".to_owned(),
        }
    }

    /// Waits for its end, up to a timeout.
    fn wait(&mut self) -> Option<std::process::ExitStatus> {
        let until = std::time::Instant::now() + PARTING;
        loop {
            match self.process.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if std::time::Instant::now() < until => {
                    thread::sleep(std::time::Duration::from_millis(5));
                }
                _ => {
                    // The process leads a group of its own, so its children are killed too.
                    if let Ok(group) = i32::try_from(self.process.id()) {
                        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
                    }
                    let _ = self.process.wait();
                    return None;
                }
            }
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        let mut agents = self.agents.borrow_mut();
        // All inputs are closed first, so that the agents end at the same time.
        for agent in agents.iter_mut() {
            agent.input.take();
        }
        for agent in agents.iter_mut() {
            agent.wait();
        }
    }
}

/// All agents, with sockets to one server.
pub(crate) struct Crew {
    fleet: Rc<Fleet>,
    id: u32,
    /// The number of workers of each agent.
    workers: Vec<usize>,
    /// The state that the agents report while they work.
    pub(crate) shared: Shared,
}

impl Crew {
    /// Returns the number of agents.
    pub(crate) fn agents(&self) -> usize {
        self.fleet.count()
    }

    /// Returns the number of workers of all agents.
    pub(crate) fn workers(&self) -> usize {
        self.workers.iter().sum()
    }

    /// As [`super::Force::turns`]: the agents have equal shares, and the one with the fewest users
    /// reaches its end first.
    pub(super) fn turns(&self, users: usize) -> usize {
        let count = self.workers.len();
        let of_agent = |(index, &workers): (usize, &usize)| {
            turns(Part { index, count }.users(users).len(), workers)
        };
        self.workers.iter().enumerate().map(of_agent).min().unwrap_or(users) * count
    }

    /// Runs the share of `job` on all agents, with a common start.
    pub(super) fn work(&self, job: &Job) -> Result<Vec<Share>, AgentError> {
        self.timed_work(job).map(|(shares, _)| shares)
    }

    /// As `work`, with the time of the start.
    pub(super) fn timed_work(
        &self,
        job: &Job,
    ) -> Result<(Vec<Share>, std::time::Instant), AgentError> {
        let begun = self.begin(job)?;
        Ok((self.finish()?, begun))
    }

    /// Orders `job`, and returns its start.
    pub(super) fn begin(&self, job: &Job) -> Result<std::time::Instant, AgentError> {
        self.fleet.begin(self.id, job)
    }

    /// Waits for the end of the job, and returns its results.
    pub(super) fn finish(&self) -> Result<Vec<Share>, AgentError> {
        self.fleet.finish(self.id, &self.shared)
    }

    /// Ends [`Job::Answer`].
    pub(super) fn end_answering(&self) -> Result<(), AgentError> {
        (0..self.fleet.count())
            .try_for_each(|agent| self.fleet.send(agent, &Order::Enough { id: self.id }))
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for agent in 0..self.fleet.count() {
            // An agent that has ended has closed them.
            let _ = self.fleet.send(agent, &Order::Close { id: self.id });
        }
    }
}
