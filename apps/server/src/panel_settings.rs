//! The settings of the panel.

use std::time::Duration;

/// The settings of the panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PanelSettings {
    /// True if the HTTP listener serves it.
    pub(crate) enabled: bool,
    /// The time without use after which a session ends.
    pub(crate) idle: Duration,
    /// True if users have a page of their own.
    pub(crate) users: bool,
}

impl Default for PanelSettings {
    fn default() -> Self {
        Self { enabled: false, idle: Duration::from_secs(1800), users: true }
    }
}
