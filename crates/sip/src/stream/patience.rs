//! How long a peer may take.

use super::Progress;
use crate::time::{Duration, Instant};

/// How long a peer may take until its connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until its first message.
    pub first_message: Duration,
    /// From the first byte of a message to its last.
    pub message: Duration,
    /// Without saying anything.
    pub idle: Duration,
}

/// When a connection is to be closed if nothing happens.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    due: Instant,
    has_spoken: bool,
}

impl Patience {
    /// With a peer whose connection opens `now`.
    #[must_use]
    pub fn new(timeouts: &Timeouts, now: Instant) -> Self {
        Self { due: now + timeouts.first_message, has_spoken: false }
    }

    /// Something has come.
    pub fn note(&mut self, progress: Progress, timeouts: &Timeouts, now: Instant) {
        self.has_spoken |= progress.has_message;
        // A message has its time from its first byte on, and who has said nothing yet gets no more
        // for that.
        if progress.has_begun {
            self.due = now + timeouts.message;
        } else if !progress.is_partial && self.has_spoken {
            self.due = now + timeouts.idle;
        }
    }

    /// What has come was not read, for lack of room: a message that is not whole has its time anew.
    pub fn excuse(&mut self, timeouts: &Timeouts, now: Instant) {
        self.due = self.due.max(now + timeouts.message);
    }

    /// Ends at `due`.
    pub const fn end_at(&mut self, due: Instant) {
        self.due = due;
    }

    /// When it ends.
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
