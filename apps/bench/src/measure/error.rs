//! The errors of a run.

use crate::agents::AgentError;
use crate::load::engine::Task;
use std::fmt;

/// An error of a run.
#[derive(Debug)]
pub(crate) enum MeasureError {
    /// Some users could not be brought into the initial state of the operation.
    Prepare {
        /// The task of the preparation.
        task: Task,
        /// The number of failures, and of attempts.
        failed: u64,
        users: u64,
        /// The responses of the server.
        said: String,
    },
    /// The server answered no preparing request.
    Unanswered {
        /// The number of requests.
        requests: u64,
    },
    /// An agent failed.
    Agent(AgentError),
    /// The user requested the end.
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
                "the server does not answer: {requests} requests to prepare the users got no answer"
            ),
            Self::Agent(error) => error.fmt(f),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

impl std::error::Error for MeasureError {}
