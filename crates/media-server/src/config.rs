//! The configuration of a media server.

use alloc::string::String;
use media::MediaConfig;
use sip::Duration;

/// The limits of a [`MediaServer`](crate::MediaServer), and its codecs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The product name in Server.
    pub product: String,
    /// The codecs and the policy for encryption.
    pub media: MediaConfig,
    /// The maximum number of calls.
    pub calls: usize,
    /// The maximum number of calls of one source: an IPv4 address, or an IPv6 /64.
    pub calls_of_source: usize,
    /// The maximum number of calls that record a message for one mailbox.
    pub calls_of_mailbox: usize,
    /// The maximum number of participants of a conference room.
    pub members: usize,
    /// The maximum duration of a call.
    pub call_length: Duration,
    /// The maximum number of slots that the calls of one user are in.
    pub slots_of_user: usize,
    /// The time after which a parked call returns to the party that has parked it.
    pub park_time: Duration,
    /// The maximum duration of a recorded message.
    pub message_length: Duration,
    /// The duration of silence that ends a recorded message.
    pub silence: Duration,
    /// The time without a packet after which a call ends, unless the other end holds.
    pub inactivity: Duration,
    /// The session interval of each call (RFC 4028).
    pub session_expires: Duration,
}

impl Config {
    /// The maximum number of calls of callers that have not authenticated: half of all.
    #[must_use]
    pub const fn calls_of_strangers(&self) -> usize {
        self.calls.div_ceil(2)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            product: concat!("barebell/", env!("CARGO_PKG_VERSION")).into(),
            media: MediaConfig::default(),
            calls: 30,
            calls_of_source: 10,
            calls_of_mailbox: 3,
            members: 20,
            call_length: Duration::from_secs(2 * 3600),
            slots_of_user: 4,
            park_time: Duration::from_secs(120),
            message_length: Duration::from_secs(120),
            silence: Duration::from_secs(6),
            inactivity: Duration::from_secs(120),
            session_expires: Duration::from_secs(1800),
        }
    }
}
