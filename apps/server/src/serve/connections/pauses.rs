//! Pauses after failed outgoing TLS handshakes: each handshake costs processor time, and a retry at
//! once would most likely fail, too.

use super::far_end::FarEnd;
use sip::{Duration, Instant};
use std::collections::HashMap;

/// The pause after the first failure. Each further failure doubles it.
const FIRST: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(60);
/// The time after a pause for which the failure is remembered.
const MEMORY: Duration = Duration::from_secs(60);
/// The maximum number of remembered far ends.
const MOST: usize = 4096;

/// Far ends with a recent handshake failure.
#[derive(Debug, Default)]
pub(super) struct Pauses(HashMap<FarEnd, Pause>);

#[derive(Clone, Copy, Debug)]
struct Pause {
    length: Duration,
    until: Instant,
}

impl Pauses {
    /// Returns true if no connection may be opened to `far_end` at `now`.
    pub(super) fn has(&self, far_end: &FarEnd, now: Instant) -> bool {
        self.0.get(far_end).is_some_and(|pause| now < pause.until)
    }

    /// Notes a failed handshake with `far_end`. Returns the pause that follows.
    pub(super) fn note_failure(&mut self, far_end: &FarEnd, now: Instant) -> Duration {
        if self.0.len() >= MOST && !self.0.contains_key(far_end) {
            self.make_room(now);
        }
        let before = self.0.get(far_end).filter(|pause| now < pause.until + MEMORY);
        let length = before.map_or(FIRST, |pause| pause.length.times(2).min(LONGEST));
        self.0.insert(far_end.clone(), Pause { length, until: now + length });
        length
    }

    /// Forgets the failures of `far_end`, after a successful handshake.
    pub(super) fn forget(&mut self, far_end: &FarEnd) {
        self.0.remove(far_end);
    }

    /// Forgets the far ends with expired pauses, or, if there are no such far ends, the one with
    /// the earliest end.
    fn make_room(&mut self, now: Instant) {
        self.0.retain(|_, pause| now < pause.until);
        if self.0.len() >= MOST {
            let first = self.0.iter().min_by_key(|(_, pause)| pause.until);
            if let Some(far_end) = first.map(|(far_end, _)| far_end.clone()) {
                self.0.remove(&far_end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::tls::ServerName;
    use sip::Transport;

    fn at(seconds: u64) -> Instant {
        Instant::from_micros(1_000_000_000 + seconds * 1_000_000)
    }

    fn far_end(port: u16) -> FarEnd {
        let name = ServerName::try_from("example.org").unwrap();
        (Transport::Tls, ([192, 0, 2, 1], port).into(), Some(name))
    }

    #[test]
    fn pauses_grow_with_failures_and_end_with_a_success() {
        let (mut pauses, it) = (Pauses::default(), far_end(5061));
        assert!(!pauses.has(&it, at(0)));
        let mut now = 0;
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            assert_eq!(pauses.note_failure(&it, at(now)).as_secs(), seconds);
            assert!(pauses.has(&it, at(now + seconds - 1)));
            assert!(!pauses.has(&it, at(now + seconds)));
            assert!(!pauses.has(&far_end(5062), at(now)));
            now += seconds;
        }
        pauses.forget(&it);
        assert_eq!(pauses.note_failure(&it, at(now)).as_secs(), 1);
        assert_eq!(pauses.note_failure(&it, at(now + 2)).as_secs(), 2);
        assert_eq!(pauses.note_failure(&it, at(now + 100)).as_secs(), 1, "that was long ago");
    }

    #[test]
    fn remembered_pauses_are_bounded() {
        let mut pauses = Pauses::default();
        for port in 0..2 * MOST as u16 {
            pauses.note_failure(&far_end(port), at(0));
        }
        assert_eq!(pauses.0.len(), MOST);
        pauses.note_failure(&far_end(u16::MAX), at(2));
        assert_eq!(pauses.0.len(), 1, "the others are over");
    }
}
