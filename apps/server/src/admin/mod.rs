//! Administration: what can be asked of a server and what it answers, and how that is done through
//! the Unix socket in the data directory of one that runs.
//!
//! There, the client sends a [`Request`] as one line of JSON and, for an import, the file itself.
//! The server answers with lines of JSON, each an [`Answer`]: any number of rows and one end.

pub(crate) mod ask;
pub(crate) mod client;
mod commands;
pub(crate) mod desk;
pub(crate) mod server;
pub(crate) mod sink;
pub(crate) mod stopped;

use serde::{Deserialize, Deserializer, Serialize};
use sip::Instant;
use sip_server::journal_record::{Record, StoredBinding};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub(crate) enum Request {
    /// One row, a [`Condition`].
    Status,
    /// A row for each binding, a [`Registration`].
    Registrations,
    /// A row for each user, a [`UserRow`].
    Users {
        /// Only of this domain.
        domain: Option<String>,
    },
    /// One row, a [`UsersStored`].
    AddUser {
        /// The name, with or without a domain.
        name: String,
        /// The flag `--domain`.
        domain: Option<String>,
        /// The password.
        password: String,
        /// The flag `--auth-name`.
        #[serde(default)]
        auth_name: Option<String>,
    },
    /// One row, a [`UsersStored`]. Lines `name:password` follow.
    ImportUsers {
        /// The flag `--domain`.
        domain: Option<String>,
        /// How many bytes follow, so that a file that is cut short is not taken for a whole one.
        length: u64,
    },
    /// One row, a [`UsersMoved`].
    MoveUsers {
        /// The domain that the users are in.
        from: String,
        /// The domain that they are to be in.
        to: String,
    },
    /// A row for each domain that has users, a [`UserDomain`].
    UserDomains {
        /// Domains to leave out.
        except: Vec<String>,
    },
    /// One row, a [`UserRemoved`].
    RemoveUser {
        /// The name, with or without a domain.
        name: String,
        /// The flag `--domain`.
        domain: Option<String>,
    },
}

/// One line of what the server answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer<T> {
    /// Something that was asked for.
    Row(T),
    /// There is no more.
    End,
    /// It could not be done; says why.
    Error(String),
}

/// What a server does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(crate) enum Condition {
    /// It runs.
    Running(Box<Status>),
    /// It does not.
    Stopped(StoppedStatus),
}

impl<'de> Deserialize<'de> for Condition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Whoever writes it to be read by another program runs.
        Status::deserialize(deserializer).map(|status| Self::Running(Box::new(status)))
    }
}

/// What is stored of a server that does not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct StoppedStatus {
    /// False.
    pub(crate) running: bool,
    /// The data directory.
    pub(crate) data: PathBuf,
    /// Users that are stored.
    pub(crate) users: u64,
    /// Of those, the users of domains that were not served last, by domain.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) unserved: BTreeMap<String, u64>,
    /// The domains served last, the default one first.
    #[serde(skip)]
    pub(crate) domains: Vec<String>,
    /// Addresses of record with bindings.
    pub(crate) registered: u64,
    /// Bindings.
    pub(crate) contacts: u64,
}

impl StoppedStatus {
    /// That of the data directory `data`, in which nothing is found yet.
    pub(crate) fn new(data: &Path) -> Self {
        Self {
            running: false,
            data: data.to_owned(),
            users: 0,
            unserved: BTreeMap::new(),
            domains: Vec::new(),
            registered: 0,
            contacts: 0,
        }
    }
}

/// What a running server does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Status {
    /// The program's version.
    pub(crate) version: String,
    /// `proxy`, `redirect` or `registrar`.
    pub(crate) mode: String,
    /// `stateful` or `stateless`.
    pub(crate) state: String,
    /// Whether users must prove who they are.
    pub(crate) authentication: bool,
    /// Where the server listens, as `udp:192.0.2.1:5060`.
    pub(crate) listens: Vec<String>,
    /// The domains served, the default one first.
    pub(crate) domains: Vec<String>,
    /// Users that are known.
    pub(crate) users: u64,
    /// Of those, the users of domains that are not served, by domain. They cannot log in.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) unserved: BTreeMap<String, u64>,
    /// Addresses of record with bindings.
    pub(crate) registered: u64,
    /// Bindings.
    pub(crate) contacts: u64,
    /// Transactions in progress.
    pub(crate) transactions: u64,
    /// Seconds since the start.
    pub(crate) uptime: u64,
    /// Everything that is counted since the start, by name.
    pub(crate) counters: BTreeMap<String, u64>,
    /// How long the steps of handling a message took since the start, where that is measured (row
    /// A11 of docs/sources.md).
    #[serde(default)]
    pub(crate) timings: BTreeMap<String, StepTiming>,
}

/// What a step took, in those of the messages that were looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StepTiming {
    /// In how many messages it was taken.
    pub(crate) count: u64,
    /// How long it took in all of them.
    pub(crate) nanoseconds: u64,
}

/// One binding (row A5 of docs/sources.md).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Registration {
    /// `user@domain`.
    pub(crate) address_of_record: String,
    /// The contact URI.
    pub(crate) contact: String,
    /// How requests go there, as `udp:192.0.2.9:5060`.
    pub(crate) flow: String,
    /// Seconds until the binding ends.
    pub(crate) expires_in: u64,
    /// Preference in thousandths, 0 to 1000.
    pub(crate) q: u16,
}

impl Registration {
    /// What `binding` of `record` is at `now`.
    pub(crate) fn new(record: &Record<'_>, binding: &StoredBinding<'_>, now: Instant) -> Self {
        Self {
            address_of_record: String::from_utf8_lossy(record.address_of_record).into_owned(),
            contact: String::from_utf8_lossy(binding.contact).into_owned(),
            flow: binding.flow.to_string(),
            expires_in: binding.expires.since(now).as_secs(),
            q: binding.q,
        }
    }
}

/// A user, without the password's hashes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UserRow {
    /// The user part.
    pub(crate) name: String,
    /// The domain.
    pub(crate) domain: String,
    /// The authentication name, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) auth_name: Option<String>,
}

impl From<crate::storage::User> for UserRow {
    fn from(user: crate::storage::User) -> Self {
        let auth = user.logins.by_auth_name;
        Self {
            name: user.name,
            domain: user.domain.to_string(),
            auth_name: auth.map(|auth| String::from_utf8_lossy(&auth.name).into_owned()),
        }
    }
}

/// Users that were added or changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UsersStored {
    /// Users that were not there before.
    pub(crate) added: u64,
    /// Users that were, and have a new password.
    pub(crate) changed: u64,
    /// The SIP URI if it is about one user.
    pub(crate) uri: Option<String>,
    /// The users' domain.
    pub(crate) domain: String,
    /// Whether the server serves that domain.
    pub(crate) served: bool,
}

/// Users that were moved to another domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UsersMoved {
    /// How many.
    pub(crate) moved: u64,
    /// The domain that they are in now.
    pub(crate) domain: String,
    /// Whether the server serves that domain.
    pub(crate) served: bool,
}

/// A domain that has users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UserDomain {
    /// Its name.
    pub(crate) domain: String,
    /// How many.
    pub(crate) users: u64,
}

/// A user that was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UserRemoved {
    /// The SIP URI the user had.
    pub(crate) uri: String,
}

#[cfg(test)]
mod tests;
