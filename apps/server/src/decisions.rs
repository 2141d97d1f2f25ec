//! The settings of the hook that decides on calls to and from trunks.

use std::time::Duration;

/// The settings of the hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DecisionSettings {
    /// Its URL. `None`: no hook decides.
    pub(crate) url: Option<String>,
    /// The time that a call waits for its decision.
    pub(crate) timeout: Duration,
    /// True if calls without a decision are refused.
    pub(crate) refuses: bool,
    /// The maximum number of calls that wait.
    pub(crate) max_waiting: usize,
}

impl Default for DecisionSettings {
    fn default() -> Self {
        Self { url: None, timeout: Duration::from_secs(2), refuses: false, max_waiting: 100 }
    }
}
