//! Several load machines and one controller.
//!
//! The controller starts this program on the other machines through `ssh`, as agents, and
//! communicates over their standard input and output ([`protocol`]). For a measurement, the agents
//! are further workers: each runs its share of the controller's load ([`Force`]), and their counts
//! are summed like those of workers. An agent ends at the end of its standard input, so that no
//! process remains on any machine after any end of a measurement.

mod agent;
mod controller;
mod install;
mod pair;
mod protocol;

pub(crate) use agent::serve;
pub(crate) use controller::{Crew, Fleet};
pub(crate) use pair::Pair;
pub(crate) use protocol::MOST;

use crate::load::engine::Task;
use crate::load::generator::{Generator, Stretch};
use crate::load::worker::{Bound, CyclePlan, Found, Shared};
use crate::ssh;
use std::fmt;
use std::str::FromStr;
use std::time::Instant;

/// The machine of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// This machine.
    Local,
    /// Another machine, in the form of `ssh`: a name of its configuration, or `USER@HOST`.
    Ssh(String),
}

impl FromStr for Place {
    type Err = String;

    /// Parses `local` or `ssh:HOST`.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "local" {
            return Ok(Self::Local);
        }
        text.strip_prefix("ssh:")
            .and_then(ssh::host)
            .map(|host| Self::Ssh(host.to_owned()))
            .ok_or_else(|| "expected ssh:HOST, ssh:USER@HOST or local".to_owned())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Ssh(host) => write!(f, "ssh:{host}"),
        }
    }
}

/// An error of agents.
#[derive(Debug)]
pub(crate) enum AgentError {
    /// There are more than [`MOST`] agents.
    TooMany(usize),
    /// Two agents have the same name.
    Twice(Place),
    /// The agent could not be started, for this reason.
    Start(Place, String),
    /// The program cannot be copied there: the system or architecture differs.
    Kind { place: Place, theirs: String, ours: String },
    /// The agent has another version, or its output is invalid.
    Version(Place, String),
    /// The agent ended during its work, with this last output.
    Ended(Place, String),
    /// An order failed, for this reason.
    Failed(Place, String),
    /// The agent was stopped on its machine.
    StoppedThere(Place),
    /// Each agent needs two users.
    Users { users: usize, agents: usize },
    /// The user requested the end.
    Stopped,
}

impl fmt::Display for AgentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany(count) => write!(f, "{count} agents are too many; {MOST} are allowed"),
            Self::Twice(place) => write!(f, "agent {place} is named twice"),
            Self::Start(place, reason) => {
                write!(f, "agent {place} does not start: {reason}")?;
                match place {
                    Place::Ssh(host) => write!(f, " ({})", ssh::advice(host)),
                    Place::Local => Ok(()),
                }
            }
            Self::Kind { place, theirs, ours } => write!(
                f,
                "agent {place} is a {theirs}, where this program for {ours} does not run: install \
                 barebell-bench {} there, in the PATH of its shell",
                env!("CARGO_PKG_VERSION")
            ),
            Self::Version(place, said) => write!(
                f,
                "agent {place} is no barebell-bench {} as this one is: {said}; install the same \
                 there, or remove it from the PATH to have this one copied",
                env!("CARGO_PKG_VERSION")
            ),
            Self::Ended(place, said) => write!(f, "agent {place} has ended in the middle: {said}"),
            Self::Failed(place, reason) => write!(f, "agent {place}: {reason}"),
            Self::StoppedThere(place) => write!(f, "agent {place} was interrupted there"),
            Self::Users { users, agents } => write!(
                f,
                "{users} users are too few for {agents} agents: each needs two of its own"
            ),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

impl std::error::Error for AgentError {}

/// The results of one machine.
#[derive(Debug)]
pub(crate) struct Share {
    /// The agent; `None` for this process.
    pub(crate) agent: Option<Place>,
    /// The error bound of its clock, in microseconds.
    pub(crate) clock_error_us: u64,
    /// The results of its workers.
    pub(crate) found: Vec<Found>,
}

/// The source of a load: the workers of this process, those of agents, or a sender here and a
/// receiver on another machine.
pub(crate) enum Force {
    Local(Generator),
    Agents(Crew),
    Pair(Pair),
}

impl Force {
    /// Returns the state that is published during the work.
    pub(crate) const fn shared(&self) -> &Shared {
        match self {
            Self::Local(generator) => &generator.shared,
            Self::Agents(crew) => &crew.shared,
            Self::Pair(pair) => &pair.sender().shared,
        }
    }

    /// Returns the number of entries in [`Force::shared`]: workers, or agents.
    pub(crate) fn tellers(&self) -> usize {
        match self {
            Self::Local(generator) => generator.workers(),
            Self::Agents(crew) => crew.agents(),
            Self::Pair(pair) => pair.sender().workers(),
        }
    }

    /// Returns the number of workers on all machines.
    pub(crate) fn workers(&self) -> usize {
        match self {
            Self::Local(generator) => generator.workers(),
            Self::Agents(crew) => crew.workers(),
            Self::Pair(pair) => pair.workers(),
        }
    }

    /// Returns the number of operations that can start, with `users` in all, before a user is used
    /// again.
    pub(crate) fn turns(&self, users: usize) -> usize {
        match self {
            Self::Local(generator) => turns(users, generator.workers()),
            Self::Agents(crew) => crew.turns(users),
            Self::Pair(pair) => turns(users, pair.sender().workers()),
        }
    }

    /// Runs [`Generator::closed_loop`] on all machines.
    ///
    /// # Errors
    /// [`AgentError`] if an agent fails, here as below.
    pub(crate) fn closed_loop(
        &mut self,
        task: Task,
        window: usize,
        bound: Bound,
    ) -> Result<Vec<Share>, AgentError> {
        match self {
            Self::Local(generator) => Ok(ours(generator.closed_loop(task, window, bound))),
            Self::Agents(crew) => {
                crew.work(&protocol::Job::ClosedLoop { task, window, bound: bound.into() })
            }
            Self::Pair(pair) => pair.closed_loop(task, window, bound),
        }
    }

    /// Runs [`Generator::cycle`] on all machines, starting soon.
    pub(crate) fn cycle(&mut self, plan: &CyclePlan) -> Result<Vec<Share>, AgentError> {
        match self {
            Self::Local(generator) => Ok(ours(generator.cycle(plan, generator.soon()))),
            Self::Agents(crew) => crew.work(&plan.into()),
            Self::Pair(pair) => pair.answered(|sender| sender.cycle(plan, sender.soon())),
        }
    }

    /// Runs [`Generator::load`] on all machines, each with its share, starting soon. Returns the
    /// start, too.
    pub(crate) fn load(&mut self, stretch: &Stretch) -> Result<(Vec<Share>, Instant), AgentError> {
        match self {
            Self::Local(generator) => {
                let (now, clock) = (Instant::now(), generator.clock().now());
                let soon = generator.soon();
                let start = now + std::time::Duration::from_micros(soon.since(clock).as_micros());
                Ok((ours(generator.load(stretch, soon)), start))
            }
            Self::Agents(crew) => crew.timed_work(&stretch.into()),
            Self::Pair(pair) => {
                let mut start = Instant::now();
                let shares = pair.answered(|sender| {
                    start = Instant::now();
                    sender.load(stretch, sender.soon())
                })?;
                Ok((shares, start))
            }
        }
    }
}

/// Returns the number of turns on one machine: its workers have equal shares of the load, and some
/// have one user more than others.
const fn turns(users: usize, workers: usize) -> usize {
    match workers {
        0 => users,
        workers => users / workers * workers,
    }
}

fn ours(found: Vec<Found>) -> Vec<Share> {
    vec![Share { agent: None, clock_error_us: 0, found }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_hosts_of_ssh_or_this_machine() {
        for (text, written) in [
            ("local", "local"),
            ("ssh:host", "ssh:host"),
            ("ssh:me@10.0.0.1", "ssh:me@10.0.0.1"),
            ("ssh:[fe80::1%eth0]", "ssh:fe80::1%eth0"),
        ] {
            assert_eq!(
                text.parse::<Place>().map(|place| place.to_string()),
                Ok(written.to_owned())
            );
        }
        for text in ["", "host", "ssh:", "ssh:-oProxyCommand=x", "ssh:a b", "ssh:a'b", "ssh:a;b"] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
    }
}
