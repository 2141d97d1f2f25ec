//! Administration: the requests to a server, its answers, and their exchange over the Unix socket
//! in the data directory of a running server.
//!
//! The client sends a [`Request`] as one line of JSON, followed by the file for an import. The
//! server answers with lines of JSON, each an [`Answer`]: any number of rows and one end.

pub(crate) mod account;
mod actions;
pub(crate) mod ask;
pub(crate) mod client;
pub(crate) mod commands;
pub(crate) mod desk;
pub(crate) mod limited_use;
pub(crate) mod server;
pub(crate) mod sink;
pub(crate) mod stopped;
pub(crate) mod token;
pub(crate) mod trunk;

use crate::accounts::{BadLine, ServiceChange, Services};
use crate::backup::Part;
use crate::call_lines::{Call, Record as CallRecord};
use crate::trace::Target;
use serde::{Deserialize, Deserializer, Serialize};
use sip::Instant;
use sip_server::journal_record::{Record, StoredBinding};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A request of a client. Each variant names the rows of its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub(crate) enum Request {
    /// One row, a [`Condition`].
    Status,
    /// A row for each binding, a [`Registration`].
    Registrations,
    /// A row for each binding that ended, a [`Registration`].
    EndRegistration {
        /// The name of the user, with or without a domain.
        name: String,
        /// The flag `--domain`.
        domain: Option<String>,
        /// The contact URI of the only binding to end.
        contact: Option<String>,
    },
    /// A row for each call that stands and is relayed or passes the B2BUA, a [`Call`].
    Calls,
    /// A row for each trunk, a [`Trunk`](trunk::Trunk).
    Trunks,
    /// A row for each user, trunk and class with calls through trunks at present or today, a
    /// [`LimitedUse`](limited_use::LimitedUse).
    Limits,
    /// A row for each record of a call that has ended, the latest first, a [`CallRecord`].
    History {
        /// Restricts the answer to calls of this user: `user@domain`, or `user` in any domain.
        user: Option<String>,
        /// Restricts it to calls that ended at this time or later, in microseconds since 1970.
        since: Option<u64>,
        /// Restricts it to calls that ended before this time.
        until: Option<u64>,
        /// Restricts it to calls that were not answered, or had no media.
        failed: bool,
        /// The maximum number of rows.
        limit: usize,
    },
    /// One row, a [`CallEnded`].
    EndCall {
        /// The identifier of the call.
        id: String,
    },
    /// One row, a [`MessageCounts`].
    Messages {
        /// The name of the user, with or without a domain.
        name: String,
        /// The flag `--domain`.
        domain: Option<String>,
        /// The numbers of new and of old messages, to be set.
        counts: Option<(u32, u32)>,
    },
    /// One row, a [`UserFound`].
    FindUser {
        /// The name of the user, with or without a domain.
        name: String,
    },
    /// One row, a [`Mark`](crate::trace::Mark).
    MarkTrace {
        /// The calls that are traced.
        target: Target,
        /// The time that the mark is valid for.
        seconds: u64,
        /// True if credentials and keys are kept.
        has_secrets: bool,
    },
    /// A row for each mark, a [`Mark`](crate::trace::Mark).
    TraceMarks,
    /// A row for each traced call, a [`Traced`](crate::trace::Traced).
    Traces,
    /// A row for each message of a traced call, a [`Traffic`](crate::trace::Traffic).
    Trace {
        /// The Call-ID, or the identifier in the list of calls.
        call: String,
    },
    /// Forgets all marks and messages. A row for each traced call, a
    /// [`Traced`](crate::trace::Traced).
    EndTraces,
    /// Messages of the last minutes: rows of the type [`FoundRow`](crate::trace::FoundRow).
    Recent {
        /// A Call-ID, the identifier in the list of calls, or an address with or without a port.
        target: String,
        /// A user: `user@domain`, or `user` in any domain.
        user: String,
        /// Restricts the answer to messages of this time or later, in microseconds since 1970.
        since: u64,
    },
    /// A row for each refusal, the oldest first, a [`RefusalRow`](crate::why::RefusalRow).
    Why {
        /// A Call-ID, or an address with or without a port.
        target: String,
        /// A user: `user@domain`, or `user` in any domain.
        user: String,
    },
    /// One row, a [`Drained`].
    Drain {
        /// True to refuse new calls, false to accept them again.
        drains: bool,
    },
    /// A row for each user, a [`UserRow`].
    Users {
        /// Restricts the answer to this domain.
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
    /// One row, a [`UsersStored`]. The request is followed by lines `name:password`.
    ImportUsers {
        /// The flag `--domain`.
        domain: Option<String>,
        /// The number of bytes that follow, to detect a truncated file.
        length: u64,
        /// True to check the lines only. The row has their mistakes.
        #[serde(default)]
        dry_run: bool,
    },
    /// One row, a [`UsersMoved`].
    MoveUsers {
        /// The present domain of the users.
        from: String,
        /// The new domain of the users.
        to: String,
    },
    /// A row for each domain that has users, a [`UserDomain`].
    UserDomains {
        /// Domains to omit.
        except: Vec<String>,
    },
    /// One row, a [`ServicesRow`](crate::accounts::ServicesRow).
    ChangeServices {
        /// The name, with or without a domain.
        name: String,
        /// The flag `--domain`.
        domain: Option<String>,
        /// The change.
        change: ServiceChange,
    },
    /// A row for each account of the panel, an [`Account`](account::Account).
    Accounts,
    /// One row, an [`Account`](account::Account): the one without its second factor now.
    RemoveSecondFactor {
        /// The name.
        name: String,
    },
    /// One row, an [`Account`](account::Account): the one with the new password.
    SetPassword {
        /// The name.
        name: String,
        /// The password.
        password: String,
        /// True if the second factor is removed, too.
        removes_second_factor: bool,
    },
    /// A row for each line of a backup, a [`Line`](crate::backup::Line).
    Backup {
        /// The parts beside the usual ones.
        with: Vec<Part>,
    },
    /// One row, a [`Report`](crate::backup::Report). The request is followed by the backup.
    Restore {
        /// The parts to restore; empty for all.
        parts: Vec<Part>,
        /// True to compute the effect only.
        dry_run: bool,
        /// The number of bytes that follow, to detect a truncated file.
        length: u64,
    },
    /// One row, an [`AddedToken`](token::AddedToken).
    AddToken {
        /// The name.
        name: String,
        /// The role: `reader`, `operator` or `administrator`.
        role: String,
    },
    /// A row for each token of the HTTP API, a [`Token`](token::Token).
    Tokens,
    /// One row, a [`Token`](token::Token): the one that was removed.
    RemoveToken {
        /// The name.
        name: String,
    },
    /// One row, a [`UserRemoved`].
    RemoveUser {
        /// The name, with or without a domain.
        name: String,
        /// The flag `--domain`.
        domain: Option<String>,
    },
}

/// One line of an answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer<T> {
    /// A result row.
    Row(T),
    /// The end of the rows.
    End,
    /// The request failed, with this message.
    Error(String),
}

/// The status of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(crate) enum Condition {
    /// The server is running.
    Running(Box<Status>),
    /// The server is stopped.
    Stopped(StoppedStatus),
}

impl<'de> Deserialize<'de> for Condition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Only a running server serializes it for another program.
        Status::deserialize(deserializer).map(|status| Self::Running(Box::new(status)))
    }
}

/// The status of a stopped server, from its stored data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct StoppedStatus {
    /// Always false.
    pub(crate) running: bool,
    /// The data directory.
    pub(crate) data: PathBuf,
    /// The number of stored users.
    pub(crate) users: u64,
    /// The number of users in domains that were not served last, by domain.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) unserved: BTreeMap<String, u64>,
    /// The domains served last, the default one first.
    #[serde(skip)]
    pub(crate) domains: Vec<String>,
    /// The number of addresses-of-record with bindings.
    pub(crate) registered: u64,
    /// The number of bindings.
    pub(crate) contacts: u64,
}

impl StoppedStatus {
    /// A status of the data directory `data` with all counts zero.
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

/// The status of a running server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Status {
    /// The version of the program.
    pub(crate) version: String,
    /// `proxy`, `redirect` or `registrar`.
    pub(crate) mode: String,
    /// `stateful` or `stateless`.
    pub(crate) state: String,
    /// True if users must authenticate.
    pub(crate) authentication: bool,
    /// The listening addresses, such as `udp:192.0.2.1:5060`.
    pub(crate) listens: Vec<String>,
    /// The domains served, the default one first.
    pub(crate) domains: Vec<String>,
    /// The number of users.
    pub(crate) users: u64,
    /// The database of accounts that has them, if they are copied from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) accounts: Option<String>,
    /// The number of users in domains that are not served, by domain. They cannot log in.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) unserved: BTreeMap<String, u64>,
    /// The number of addresses-of-record with bindings.
    pub(crate) registered: u64,
    /// The number of bindings.
    pub(crate) contacts: u64,
    /// The number of transactions in progress.
    pub(crate) transactions: u64,
    /// The number of calls that are relayed, counting each branch of a fork, or pass the B2BUA.
    #[serde(default)]
    pub(crate) calls: u64,
    /// True if new calls are refused.
    #[serde(default)]
    pub(crate) draining: bool,
    /// The present problems, in words. Empty if the server is ready for requests.
    #[serde(default)]
    pub(crate) problems: Vec<String>,
    /// The end of the validity of the first TLS certificate, in seconds since 1970.
    #[serde(default)]
    pub(crate) certificate_until: Option<u64>,
    /// The configuration file, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) config: Option<PathBuf>,
    /// Seconds since the start.
    pub(crate) uptime: u64,
    /// All counters since the start, by name.
    pub(crate) counters: BTreeMap<String, u64>,
    /// The durations of the steps of message processing since the start, by name, if they are
    /// measured.
    #[serde(default)]
    pub(crate) timings: BTreeMap<String, StepTiming>,
}

/// The duration of a step, in a sample of the messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StepTiming {
    /// The number of measured messages with this step.
    pub(crate) count: u64,
    /// The sum of the durations, in nanoseconds.
    pub(crate) nanoseconds: u64,
}

/// One binding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Registration {
    /// `user@domain`.
    pub(crate) address_of_record: String,
    /// The contact URI.
    pub(crate) contact: String,
    /// The flow of requests to the contact, such as `udp:192.0.2.9:5060`.
    pub(crate) flow: String,
    /// Seconds until the binding expires.
    pub(crate) expires_in: u64,
    /// Preference in thousandths, 0 to 1000.
    pub(crate) q: u16,
    /// The start of the User-Agent of the phone.
    #[serde(default)]
    pub(crate) user_agent: String,
}

impl Registration {
    /// The state of `binding` of `record` at `now`.
    pub(crate) fn new(record: &Record<'_>, binding: &StoredBinding<'_>, now: Instant) -> Self {
        Self {
            address_of_record: String::from_utf8_lossy(record.address_of_record).into_owned(),
            contact: String::from_utf8_lossy(binding.contact).into_owned(),
            flow: binding.flow.to_string(),
            expires_in: binding.expires.since(now).as_secs(),
            q: binding.q,
            user_agent: String::from_utf8_lossy(binding.agent).into_owned(),
        }
    }
}

/// A call that was ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CallEnded {
    /// The identifier.
    pub(crate) id: String,
    /// The URI of the caller.
    pub(crate) caller: String,
    /// The URI of the callee.
    pub(crate) callee: String,
}

/// The messages of a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MessageCounts {
    /// The user, `name@domain`.
    pub(crate) user: String,
    /// The number of messages that the user has not heard.
    pub(crate) new: u32,
    /// The number of the others.
    pub(crate) old: u32,
}

/// The state of a server after a request to drain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Drained {
    /// True if new calls are refused.
    pub(crate) draining: bool,
    /// The number of calls that stand and are relayed or pass the B2BUA.
    pub(crate) calls: u64,
    /// The number of transactions in progress.
    pub(crate) transactions: u64,
}

/// The answer to the question if a user exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UserFound {
    /// True if the user is stored.
    pub(crate) is_known: bool,
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
    /// The call services of the user.
    #[serde(default, skip_serializing_if = "Services::is_empty")]
    pub(crate) services: Services,
}

impl UserRow {
    /// The row of `user` with these call services.
    pub(crate) fn new(user: store::User, services: Services) -> Self {
        let auth = user.logins.by_auth_name;
        Self {
            name: user.name,
            domain: user.domain.to_string(),
            auth_name: auth.map(|auth| String::from_utf8_lossy(&auth.name).into_owned()),
            services,
        }
    }
}

/// Users that were added or changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UsersStored {
    /// The number of new users.
    pub(crate) added: u64,
    /// The number of existing users with a new password.
    pub(crate) changed: u64,
    /// The number of existing users with the password that was stored.
    pub(crate) unchanged: u64,
    /// The SIP URI, if the request names one user.
    pub(crate) uri: Option<String>,
    /// The domain of the users.
    pub(crate) domain: String,
    /// True if the server serves that domain.
    pub(crate) served: bool,
    /// The first mistakes of an import that was a trial. With mistakes nothing would be stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) mistakes: Vec<BadLine>,
    /// The number of all mistakes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) mistake_count: u64,
}

/// Returns true for zero, which rows leave out.
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Users that were moved to another domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UsersMoved {
    /// The number of users.
    pub(crate) moved: u64,
    /// The new domain of the users.
    pub(crate) domain: String,
    /// True if the server serves that domain.
    pub(crate) served: bool,
}

/// A domain with users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UserDomain {
    /// The name of the domain.
    pub(crate) domain: String,
    /// The number of users.
    pub(crate) users: u64,
}

/// A user that was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UserRemoved {
    /// The former SIP URI of the user.
    pub(crate) uri: String,
}

#[cfg(test)]
mod tests;
