//! The timeouts of a connection.

use super::Progress;
use crate::time::{Duration, Instant};

/// The time after which the connection of a slow peer is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the opening of the connection until its first message begins.
    pub first_message: Duration,
    /// From the first byte of a message to its last.
    pub message: Duration,
    /// Without received data, after the first message.
    pub idle: Duration,
}

/// The deadline at which a connection is closed unless something arrives.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    due: Instant,
    has_spoken: bool,
}

impl Patience {
    /// Starts the deadline of a connection that opens at `now`.
    #[must_use]
    pub fn new(timeouts: &Timeouts, now: Instant) -> Self {
        Self { due: now + timeouts.first_message, has_spoken: false }
    }

    /// Updates the deadline after data has arrived.
    pub fn note(&mut self, progress: Progress, timeouts: &Timeouts, now: Instant) {
        self.has_spoken |= progress.has_message;
        // A message has its timeout from its first byte on. A ping before the first message does
        // not extend the deadline.
        if progress.has_begun {
            self.due = now + timeouts.message;
        } else if !progress.is_partial && self.has_spoken {
            self.due = now + timeouts.idle;
        }
    }

    /// Extends the deadline of an incomplete message: received data was not read, for lack of room.
    pub fn excuse(&mut self, timeouts: &Timeouts, now: Instant) {
        self.due = self.due.max(now + timeouts.message);
    }

    /// Sets the deadline to `due`.
    pub const fn end_at(&mut self, due: Instant) {
        self.due = due;
    }

    /// Returns the deadline.
    #[must_use]
    pub const fn due(&self) -> Instant {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUTS: Timeouts = Timeouts {
        first_message: Duration::from_secs(60),
        message: Duration::from_secs(20),
        idle: Duration::from_secs(1000),
    };

    fn at(seconds: u64) -> Instant {
        Instant::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn a_message_has_its_time_from_its_first_byte_on() {
        let mut patience = Patience::new(&TIMEOUTS, at(0));
        assert_eq!(patience.due(), at(60));
        patience.note(Progress::default(), &TIMEOUTS, at(50));
        assert_eq!(patience.due(), at(60), "pings are no messages");
        let begun = Progress { has_begun: true, is_partial: true, ..Progress::default() };
        patience.note(begun, &TIMEOUTS, at(51));
        let more = Progress { is_partial: true, ..Progress::default() };
        patience.note(more, &TIMEOUTS, at(70));
        assert_eq!(patience.due(), at(71));
        patience.excuse(&TIMEOUTS, at(60));
        assert_eq!(patience.due(), at(80));
        patience.note(Progress { has_message: true, ..Progress::default() }, &TIMEOUTS, at(72));
        assert_eq!(patience.due(), at(1072));
        patience.note(Progress::default(), &TIMEOUTS, at(80));
        assert_eq!(patience.due(), at(1080), "a ping of one who has spoken");
    }
}
