//! The settings of push notifications.

use std::time::Duration;

/// The settings of push notifications. The engine has the names of the services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PushSettings {
    /// The URL of the HTTP hook. `None` for no push notifications.
    pub(crate) url: Option<String>,
    /// The timeout of one request of the hook.
    pub(crate) timeout: Duration,
    /// The time for which a call or message waits for the REGISTER of a phone.
    pub(crate) wait: Duration,
    /// The maximum number of calls and messages that wait, and of requests of the hook in its
    /// queue.
    pub(crate) max_waiting: usize,
    /// The maximum number of notifications for the phones of one user in a minute.
    pub(crate) user_rate: u32,
}

impl Default for PushSettings {
    fn default() -> Self {
        Self {
            url: None,
            timeout: Duration::from_secs(5),
            wait: Duration::from_secs(20),
            max_waiting: 1000,
            user_rate: 10,
        }
    }
}
