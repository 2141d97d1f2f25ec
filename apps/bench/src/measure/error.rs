//! Why a run could not be made.

use crate::agents::AgentError;
use crate::load::engine::Task;
use std::fmt;

/// Why a run could not be made.
#[derive(Debug)]
pub(crate) enum MeasureError {
    /// Not all users could be brought into the state that the operation begins with.
    Prepare {
        /// What was done for it.
        task: Task,
        /// How many failed, and of how many.
        failed: u64,
        users: u64,
        /// What the server said.
        said: String,
    },
    /// The server answered none of the requests that prepare the users.
    Unanswered {
        /// The number of requests.
        requests: u64,
    },
    /// An agent failed.
    Agent(AgentError),
    /// The user has stopped it.
    Stopped,
}

impl From<AgentError> for MeasureError {
    fn from(error: AgentError) -> Self {
        match error {
            AgentError::Stopped => Self::Stopped,
            error => Self::Agent(error),
        }
    }
}

impl fmt::Display for MeasureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prepare { task, failed, users, said } => {
                let what = match task {
                    Task::Register => "be registered",
                    _ => "be logged out",
                };
                write!(
                    f,
                    "{failed} of {users} users could not {what} before the run: {said}; do they \
                     exist there, with these passwords, and is the domain right?"
                )
            }
            Self::Unanswered { requests: 0 } => f.write_str("the server is gone"),
            Self::Unanswered { requests } => write!(
                f,
                "the server answers nothing: {requests} requests to prepare the users got no answer"
            ),
            Self::Agent(error) => error.fmt(f),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

impl std::error::Error for MeasureError {}
