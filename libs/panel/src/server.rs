//! The server as the panel sees it.

use crate::role::Role;
use serde_json::Value;

/// A request to the server. Each variant names the rows of its answer, which are those of the
/// commands with `--json`. A user is `name@domain`, or `name` if one domain is served.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// The status, one row.
    Status,
    /// Users, by domain and name.
    Users {
        /// A part of `name@domain`.
        search: String,
        /// The last user of the page before.
        after: Option<String>,
        /// The maximum number of rows.
        most: usize,
    },
    /// One user.
    User(String),
    /// Adds a user, or changes the password of one.
    PutUser {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
    /// Removes a user, with the registrations.
    RemoveUser(String),
    /// Changes call services.
    ChangeServices {
        /// The user.
        user: String,
        /// The changes: an object with the members of the answer, and `off` with a kind of forward.
        change: Value,
    },
    /// Registrations, by address-of-record and contact.
    Registrations {
        /// The only user.
        user: Option<String>,
        /// A part of the address-of-record or the contact.
        search: String,
        /// The address-of-record and the contact of the last row of the page before.
        after: Option<(String, String)>,
        /// The maximum number of rows.
        most: usize,
    },
    /// Calls that stand, the oldest first.
    Calls,
    /// Ends a call.
    EndCall(String),
    /// Records of calls, the latest first, each with its `id`.
    Records(RecordFilter),
    /// The trunks.
    Trunks,
    /// The destination of a number, without a call.
    Route {
        /// The number as it is dialed.
        number: String,
        /// The calling user, if it is one.
        from: Option<String>,
        /// The trunk of an incoming call.
        trunk: Option<String>,
    },
    /// The banned sources.
    Bans,
    /// Lifts the ban of a source.
    Unban(String),
    /// The certificates in use.
    Certificates,
    /// The findings of a check of the configuration file: the lines, and `ok`.
    Check,
    /// Reads the configuration again, if a check finds no mistake. The rows are those of the check.
    Reload,
    /// The findings about the server and its machine.
    Doctor,
}

/// A selection of records of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordFilter {
    /// A party: `name@domain`, or `name` in any domain.
    pub user: Option<String>,
    /// The first moment of the end of a call, in seconds since 1970.
    pub since: Option<u64>,
    /// The moment before which a call has ended, in seconds since 1970.
    pub until: Option<u64>,
    /// True for calls that failed only.
    pub is_failed: bool,
    /// The identifier of the last row of the page before.
    pub before: Option<i64>,
    /// The maximum number of rows.
    pub most: usize,
}

impl Question {
    /// The role that may ask this.
    #[must_use]
    pub const fn role(&self) -> Role {
        match self {
            Self::PutUser { .. }
            | Self::RemoveUser(_)
            | Self::ChangeServices { .. }
            | Self::EndCall(_)
            | Self::Unban(_) => Role::Operator,
            Self::Reload => Role::Administrator,
            _ => Role::Reader,
        }
    }

    /// The action and its object, if this changes anything.
    pub(crate) fn action(&self) -> Option<(&'static str, &str)> {
        Some(match self {
            Self::PutUser { user, .. } => ("put user", user),
            Self::RemoveUser(user) => ("remove user", user),
            Self::ChangeServices { user, .. } => ("change services", user),
            Self::EndCall(id) => ("end call", id),
            Self::Unban(source) => ("lift ban", source),
            Self::Reload => ("reload", ""),
            _ => return None,
        })
    }
}

/// The server.
pub trait Server: Send + Sync {
    /// Answers a question with rows of JSON.
    ///
    /// # Errors
    /// A message for a person.
    fn ask(&self, question: &Question) -> Result<Vec<Value>, String>;
}
