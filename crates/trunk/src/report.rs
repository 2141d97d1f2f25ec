//! The state of a trunk for the operator and for the proxy.

use alloc::string::String;
use alloc::vec::Vec;
use sip::{Flow, Instant};

/// The state of a server or of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A server that has not been asked yet, or an account that waits for its first response.
    Unknown,
    /// A server that answers, or an account that is registered.
    Works,
    /// A server that does not answer, or an account that is not registered.
    Failed,
    /// An account that does not register.
    Off,
}

/// The state of a trunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrunkReport {
    /// The name.
    pub name: String,
    /// True if the trunk has a target, and an account of a trunk that registers is registered.
    pub is_usable: bool,
    /// The servers in their order of preference.
    pub places: Vec<PlaceReport>,
    /// The accounts.
    pub accounts: Vec<AccountReport>,
    /// The reason why the servers could not be located, or empty.
    pub lookup: String,
}

/// The state of a server of a trunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceReport {
    /// The flow to the server.
    pub flow: Flow,
    /// True if it is the target of the trunk.
    pub is_target: bool,
    /// Its state.
    pub state: State,
    /// The reason of a failure, or empty.
    pub reason: String,
    /// The time since which it has the state.
    pub since: Instant,
    /// The time at which a failed server is asked again.
    pub retry: Option<Instant>,
}

/// The state of an account of a trunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountReport {
    /// The address-of-record.
    pub uri: String,
    /// Its state.
    pub state: State,
    /// The reason of a failure, or empty.
    pub reason: String,
    /// The time since which it has the state.
    pub since: Instant,
    /// The time of the end of the registration, if it is not renewed.
    pub until: Option<Instant>,
    /// The time of the next attempt after a failure.
    pub retry: Option<Instant>,
}

/// The target of a trunk, and the marks of its requests, for the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrunkView {
    /// The flow to the target of requests now. `None` if the trunk is not usable.
    pub target: Option<Flow>,
    /// The flows to all servers of the trunk.
    pub servers: Vec<Flow>,
    /// The user parts of the contacts of its accounts.
    pub contacts: Vec<String>,
    /// The user parts of the addresses-of-record of its accounts.
    pub users: Vec<String>,
}
