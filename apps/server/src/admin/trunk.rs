//! The state of a trunk, as the administration shows it.

use serde::{Deserialize, Serialize};
use sip::Instant;
use trunk::{AccountReport, PlaceReport, State, TrunkReport};

/// A trunk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Trunk {
    /// The name.
    pub(crate) name: String,
    /// True if calls can go through the trunk.
    pub(crate) usable: bool,
    /// The server that requests go to.
    pub(crate) target: Option<String>,
    /// The reason why the servers could not be located, if they could not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) lookup: String,
    /// The servers in the order of preference.
    pub(crate) servers: Vec<Part>,
    /// The accounts.
    pub(crate) accounts: Vec<Part>,
}

/// A server or an account of a trunk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// The server, such as `udp:192.0.2.1:5060`, or the address-of-record.
    pub(crate) name: String,
    /// The state in words.
    pub(crate) state: String,
    /// The last reason of a failure, or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
    /// Seconds for which it has the state.
    pub(crate) seconds: u64,
    /// Seconds until the next attempt after a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retry_in: Option<u64>,
    /// Seconds until the registration ends, if it is not renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_in: Option<u64>,
}

impl Trunk {
    /// The state in `report` at `now`.
    pub(crate) fn new(report: &TrunkReport, now: Instant) -> Self {
        let name = |place: &PlaceReport| place.flow.to_string();
        let left = |time: Option<Instant>| time.map(|time| time.since(now).as_secs());
        let server = |place: &PlaceReport| Part {
            name: name(place),
            state: match place.state {
                State::Works => "works",
                State::Failed => "failed",
                State::Unknown | State::Off => "not asked",
            }
            .to_owned(),
            reason: place.reason.clone(),
            seconds: now.since(place.since).as_secs(),
            retry_in: left(place.retry),
            expires_in: None,
        };
        let account = |account: &AccountReport| Part {
            name: account.uri.clone(),
            state: match account.state {
                State::Works => "registered",
                State::Failed => "not registered",
                State::Unknown => "registering",
                State::Off => "does not register",
            }
            .to_owned(),
            reason: account.reason.clone(),
            seconds: now.since(account.since).as_secs(),
            retry_in: left(account.retry),
            expires_in: left(account.until),
        };
        Self {
            name: report.name.clone(),
            usable: report.is_usable,
            target: report.places.iter().find(|place| place.is_target).map(name),
            lookup: report.lookup.clone(),
            servers: report.places.iter().map(server).collect(),
            accounts: report.accounts.iter().map(account).collect(),
        }
    }
}
