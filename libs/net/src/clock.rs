//! The clocks of the engines.

use sip::{Duration, Instant};
use std::sync::OnceLock;
use std::time::SystemTime;

/// The time by the wall clock. It may jump, so a running server uses a [`Clock`].
#[must_use]
pub fn wall_clock() -> Instant {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Instant::ZERO + Duration::from(since)
}

/// Nanoseconds since the first call, for measuring durations.
#[must_use]
pub fn nanoseconds() -> u64 {
    static FIRST: OnceLock<std::time::Instant> = OnceLock::new();
    let first = FIRST.get_or_init(std::time::Instant::now);
    u64::try_from(first.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// The processor time of the calling thread, in nanoseconds.
#[must_use]
pub fn thread_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is of the type that the call writes. Where it fails, nothing is written.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
}

/// The wall clock at the start, continued without jumps.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    at_start: Instant,
    start: std::time::Instant,
}

impl Clock {
    /// A clock that starts now.
    #[must_use]
    pub fn start() -> Self {
        Self { at_start: wall_clock(), start: std::time::Instant::now() }
    }

    /// The present time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.at_start + Duration::from(self.start.elapsed())
    }

    /// Converts `when` for the system's timers.
    #[must_use]
    pub fn system(&self, when: Instant) -> std::time::Instant {
        self.start + std::time::Duration::from(when.since(self.at_start))
    }

    /// Converts a time of the system's timers, the start at the earliest. A time that has passed
    /// stays before the present time.
    #[must_use]
    pub fn time_of(&self, when: std::time::Instant) -> Instant {
        self.at_start + Duration::from(when.saturating_duration_since(self.start))
    }

    /// The time since the start.
    #[must_use]
    pub fn uptime(&self) -> std::time::Duration {
        self.start.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_system_convert_both_ways_and_do_not_move_to_the_present() {
        let clock = Clock::start();
        let due = clock.system(clock.now()) + std::time::Duration::from_millis(1);
        std::thread::sleep(std::time::Duration::from_millis(2));
        let converted = clock.time_of(due);
        assert!(converted < clock.now(), "{converted:?}");
        assert!(due.duration_since(clock.system(converted)) < std::time::Duration::from_micros(2));
    }
}
