//! The configuration of a trunk.

use alloc::string::String;
use alloc::vec::Vec;
use sip::Duration;
use sip::locate::Destination;
use sip_ua::Password;

/// The configuration of a trunk. A trunk with an unchanged configuration keeps its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrunkConfig {
    /// The name of the trunk, which no other one has.
    pub name: String,
    /// The destination of all requests: that of the outbound proxy, if there is one.
    pub destination: Destination,
    /// The request URI of REGISTER and OPTIONS, such as `sip:provider.example.com`.
    pub uri: String,
    /// The outbound proxy, a URI such as `sip:proxy.example.com;lr`.
    pub proxy: Option<String>,
    /// The accounts at the provider.
    pub accounts: Vec<AccountConfig>,
    /// True if the accounts register.
    pub registers: bool,
    /// The requested duration of a registration.
    pub expires: Duration,
    /// The interval of OPTIONS requests to the target. `None`: none are sent.
    pub probe: Option<Duration>,
}

/// An account at a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountConfig {
    /// The address-of-record, such as `sip:49301@provider.example.com`.
    pub uri: String,
    /// The user part of `uri`, without escapes.
    pub user: String,
    /// The user name for authentication. If empty, it is `user`.
    pub auth_name: String,
    /// The password, if there is one.
    pub password: Option<Password>,
}
