//! Retransmission (RFC 6189 section 6).

use alloc::vec::Vec;
use core::time::Duration;

/// A message that is sent until it is answered. The interval doubles up to a limit.
pub(super) struct Repeat {
    message: Vec<u8>,
    due: Duration,
    interval: Duration,
    limit: Duration,
    /// The number of transmissions that are left.
    left: u32,
}

impl Repeat {
    /// A Hello message (timer T1): 50 ms to 200 ms, 20 retransmissions, in four seconds.
    pub(super) fn hello(message: Vec<u8>, now: Duration) -> Self {
        let [interval, limit] = [50, 200].map(Duration::from_millis);
        Self { message, due: now, interval, limit, left: 21 }
    }

    /// Another message (timer T2): 150 ms to 1.2 s, 10 retransmissions, in eleven seconds.
    pub(super) fn message(message: Vec<u8>, now: Duration) -> Self {
        let [interval, limit] = [150, 1200].map(Duration::from_millis);
        Self { message, due: now, interval, limit, left: 11 }
    }

    /// The time of the next transmission, or of the end.
    pub(super) fn due(&self) -> Duration {
        self.due
    }

    /// The message to send now. `None` if it was sent often enough.
    pub(super) fn next(&mut self, now: Duration) -> Option<Vec<u8>> {
        self.left = self.left.checked_sub(1)?;
        self.due = now + self.interval;
        self.interval = (2 * self.interval).min(self.limit);
        Some(self.message.clone())
    }
}
