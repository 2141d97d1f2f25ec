//! The errors of agents.

use super::place::Place;
use super::protocol::MOST;
use crate::ssh;
use std::fmt;

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
                "agent {place} has another barebell-bench than this one, {}: {said}; install the \
                 same there, or remove it from the PATH to have this one copied",
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
