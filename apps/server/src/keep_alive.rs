//! The settings of keep-alives to phones.

use sip_server::config::KeepAlive;
use std::time::Duration;

/// The settings of keep-alives to phones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeepAliveSettings {
    /// The keep-alive of phones on UDP. Others get OPTIONS. `None` sends no keep-alives.
    pub(crate) kind: Option<KeepAlive>,
    /// The interval for each phone.
    pub(crate) interval: Duration,
    /// The maximum number of keep-alives per second.
    pub(crate) rate: u32,
}

impl Default for KeepAliveSettings {
    fn default() -> Self {
        Self { kind: None, interval: Duration::from_secs(30), rate: 2000 }
    }
}
