//! The configuration.

use sip::{Duration, Flow};

/// The limits and intervals of a [`Notifier`](crate::Notifier).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The shortest expiry that is accepted (423).
    pub min_expires: Duration,
    /// The longest expiry. A longer one is shortened to it.
    pub max_expires: Duration,
    /// The expiry of a SUBSCRIBE that names none.
    pub default_expires: Duration,
    /// The shortest interval between two NOTIFYs of a subscription. Changes in between are told
    /// together.
    pub interval: Duration,
    /// The time until the response to a NOTIFY. Without one the subscription ends.
    pub patience: Duration,
    /// The maximum number of subscriptions.
    pub subscriptions: usize,
    /// The maximum number of subscriptions of one subscriber.
    pub subscriptions_of_user: usize,
    /// The maximum number of subscriptions of one source.
    pub subscriptions_of_source: usize,
    /// The maximum number of bytes of a SUBSCRIBE that begins a subscription, which keeps parts of
    /// it.
    pub subscribe_bytes: usize,
    /// The internal flow of NOTIFYs without a subscription, to users that have none. `None` sends
    /// none.
    pub unsolicited: Option<Flow>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            min_expires: Duration::from_secs(60),
            max_expires: Duration::from_secs(3600),
            default_expires: Duration::from_secs(3600),
            interval: Duration::from_millis(200),
            patience: Duration::from_secs(33),
            subscriptions: 50_000,
            subscriptions_of_user: 100,
            subscriptions_of_source: 5000,
            subscribe_bytes: 4096,
            unsolicited: None,
        }
    }
}
