//! The server as the panel sees it.

use crate::role::Role;
use serde_json::Value;
use std::sync::Arc;

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
    /// Ends registrations, until the phone registers again. The rows are the ended ones.
    EndRegistration {
        /// The user.
        user: String,
        /// The contact of the only registration to end.
        contact: Option<String>,
    },
    /// The last refused requests, the latest first.
    Refusals {
        /// A user, a Call-ID, or an address with or without a port; empty for all.
        target: String,
        /// The maximum number of rows.
        most: usize,
    },
    /// The messages of the last minutes, a row for each call: `begun`, `call_ids`, `ladder`, and
    /// the `messages`.
    Trace(String),
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
    /// The messages in the mailbox of a user, the latest first.
    Voicemail(String),
    /// Deletes a message of a mailbox.
    DeleteMessage {
        /// The user.
        user: String,
        /// The number of the message.
        id: u64,
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
    /// A backup with further parts. Each row is a line, as a text.
    Backup {
        /// True for certificates with their keys.
        certificates: bool,
        /// True for records of calls.
        records: bool,
        /// True for the messages of mailboxes.
        voicemail: bool,
    },
    /// Restores a backup. The row is the effect.
    Restore {
        /// The backup.
        content: Arc<[u8]>,
        /// True to compute the effect only.
        is_trial: bool,
    },
    /// Adds the users of a list, or changes their passwords. The row is the effect.
    ImportUsers {
        /// Lines `name:password`.
        text: Arc<[u8]>,
        /// The domain of the users, if several are served.
        domain: Option<String>,
        /// True to check the lines only. The row has their mistakes.
        is_trial: bool,
    },
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
            | Self::EndRegistration { .. }
            | Self::EndCall(_)
            | Self::DeleteMessage { .. }
            | Self::ImportUsers { .. }
            | Self::Trace(_)
            | Self::Unban(_) => Role::Operator,
            // Mailboxes are for their users only: no page for accounts and no request of the API
            // asks for one.
            Self::Voicemail(_) | Self::Reload | Self::Backup { .. } | Self::Restore { .. } => {
                Role::Administrator
            }
            _ => Role::Reader,
        }
    }

    /// True if the answer is about the user `own` only, or the same for all users.
    pub(crate) fn is_of(&self, own: &str) -> bool {
        match self {
            Self::User(user)
            | Self::PutUser { user, .. }
            | Self::ChangeServices { user, .. }
            | Self::Registrations { user: Some(user), .. }
            | Self::Records(RecordFilter { user: Some(user), .. })
            | Self::Voicemail(user)
            | Self::DeleteMessage { user, .. } => user == own,
            Self::Status => true,
            _ => false,
        }
    }

    /// The action and its object, if it is recorded with `answer`: a change that changed something
    /// or failed, or a trial of uploaded data.
    pub(crate) fn action_with<E>(
        &self,
        answer: &Result<Vec<Value>, E>,
    ) -> Option<(&'static str, &str)> {
        let row = answer.as_ref().ok().and_then(|rows| rows.first());
        let changes_nothing = row.is_some_and(|row| match self {
            Self::ChangeServices { .. } => row["changed"] == false,
            Self::PutUser { .. } => row["added"] == 0 && row["changed"] == 0,
            _ => false,
        });
        self.action().filter(|_| !changes_nothing)
    }

    /// The action and its object, if it may be recorded.
    fn action(&self) -> Option<(&'static str, &str)> {
        Some(match self {
            Self::PutUser { user, .. } => ("put user", user),
            Self::RemoveUser(user) => ("remove user", user),
            Self::ChangeServices { user, .. } => ("change services", user),
            Self::EndRegistration { user, .. } => ("end registration", user),
            Self::EndCall(id) => ("end call", id),
            Self::DeleteMessage { user, .. } => ("delete message", user),
            Self::Unban(source) => ("lift ban", source),
            Self::Reload => ("reload", ""),
            Self::Backup { .. } => ("make backup", ""),
            Self::Restore { is_trial: false, .. } => ("restore backup", ""),
            Self::Restore { is_trial: true, .. } => ("try backup", ""),
            Self::ImportUsers { is_trial, domain, .. } => {
                let action = if *is_trial { "try import of users" } else { "import users" };
                (action, domain.as_deref().unwrap_or_default())
            }
            _ => return None,
        })
    }
}

/// A value that changes with the password of a user.
pub type Mark = [u8; 32];

/// A user that has proved the password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The user, `name@domain`.
    pub user: String,
    /// The mark of the password.
    pub mark: Mark,
}

/// The server.
pub trait Server: Send + Sync {
    /// Answers a question with rows of JSON.
    ///
    /// # Errors
    /// A message for a person.
    fn ask(&self, question: &Question) -> Result<Vec<Value>, String>;

    /// The user `name@domain` with this name, with or without the domain, if it can be one. All
    /// names with which [`Server::log_in`] finds a user are the same user here.
    fn canonical(&self, user: &str) -> Option<String>;

    /// The user with this name, with or without the domain, and this SIP password.
    ///
    /// # Errors
    /// A message for a person, if the users cannot be read.
    fn log_in(&self, user: &str, password: &str) -> Result<Option<Login>, String>;

    /// The mark of the present password of the user `name@domain`, if there is such a user.
    ///
    /// # Errors
    /// A message for a person, if the users cannot be read.
    fn mark(&self, user: &str) -> Result<Option<Mark>, String>;

    /// The WAV file of a message in the mailbox of the user `name@domain`, which is heard then.
    ///
    /// # Errors
    /// A message for a person, if there is no such message, or it cannot be read.
    fn sound(&self, user: &str, id: u64) -> Result<Vec<u8>, String>;
}
