//! The state of voice messages, without their sound.

use sip::Instant;
use std::time::Duration;

/// A voice message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoiceMessage {
    /// The mailbox, as `user@domain`.
    pub mailbox: String,
    /// The number in the mailbox.
    pub id: i64,
    /// The address-of-record of the caller, or the URI in From.
    pub caller: String,
    /// True if the caller has authenticated.
    pub is_proved: bool,
    /// The time of day of its end.
    pub ended: Instant,
    /// The duration.
    pub duration: Duration,
    /// True if it was heard.
    pub is_heard: bool,
}
