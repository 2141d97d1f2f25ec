//! The settings of messages that are kept for users without a reachable phone.

use std::time::Duration;
use store::MessageLimits;

/// The settings of kept messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptMessagesSettings {
    /// The numbers of messages that are kept at most.
    pub(crate) limits: MessageLimits,
    /// The time for which a message is kept.
    pub(crate) time: Duration,
}

impl Default for KeptMessagesSettings {
    fn default() -> Self {
        Self {
            limits: MessageLimits { of_user: 100, all: 100_000 },
            time: Duration::from_secs(7 * 86_400),
        }
    }
}
