//! The time of the protocol crates, in microseconds, supplied by the caller.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A point in time: microseconds since the Unix epoch.
///
/// The owner of an engine reads the wall clock once at its start, and adds the time of a monotonic
/// clock. An `Instant` therefore never runs backwards, and one that was stored before a restart is
/// valid after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The earliest instant.
    pub const ZERO: Self = Self(0);
    /// Later than any real instant.
    pub const MAX: Self = Self(u64::MAX);

    /// The instant `micros` microseconds after the Unix epoch.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the Unix epoch.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Whole seconds since the Unix epoch.
    #[must_use]
    pub const fn as_secs(self) -> u64 {
        self.0 / 1_000_000
    }

    /// The time since the Unix epoch, as the time of an engine that takes durations.
    #[must_use]
    pub const fn since_epoch(self) -> core::time::Duration {
        core::time::Duration::from_micros(self.0)
    }

    /// The time from `earlier` to `self`. Zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

/// An optional due time. `NEVER` is later than any time. Half the size of an `Option<Instant>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deadline(Instant);

impl Deadline {
    /// No due time.
    pub const NEVER: Self = Self(Instant::MAX);

    /// The due time, unless it is `NEVER`.
    #[must_use]
    pub fn time(self) -> Option<Instant> {
        (self != Self::NEVER).then_some(self.0)
    }

    /// The due time, if `now` has reached it.
    #[must_use]
    pub fn passed(self, now: Instant) -> Option<Instant> {
        self.time().filter(|time| *time <= now)
    }
}

impl From<Instant> for Deadline {
    fn from(time: Instant) -> Self {
        Self(time)
    }
}

impl From<Option<Instant>> for Deadline {
    fn from(time: Option<Instant>) -> Self {
        time.map_or(Self::NEVER, Self)
    }
}

/// A duration in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

impl Duration {
    /// The zero duration.
    pub const ZERO: Self = Self(0);

    /// A duration of `micros` microseconds.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// A duration of `millis` milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// A duration of `secs` seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }

    /// The duration in microseconds.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The duration in whole milliseconds, rounded down.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000
    }

    /// The duration in whole seconds, rounded down.
    #[must_use]
    pub const fn as_secs(self) -> u64 {
        self.0 / 1_000_000
    }

    /// The duration multiplied by `factor`.
    #[must_use]
    pub const fn times(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl Add for Duration {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl From<Duration> for core::time::Duration {
    fn from(span: Duration) -> Self {
        Self::from_micros(span.0)
    }
}

/// Rounds down to microseconds. A longer duration than 2^64 microseconds becomes that one.
impl From<core::time::Duration> for Duration {
    fn from(span: core::time::Duration) -> Self {
        Self(u64::try_from(span.as_micros()).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06} s", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_converted_to_microseconds_and_back() {
        use core::time::Duration as Core;
        assert_eq!(Duration::from(Core::new(1, 2_999)), Duration::from_micros(1_000_002));
        assert_eq!(Duration::from(Core::MAX), Duration::from_micros(u64::MAX));
        assert_eq!(Core::from(Duration::from_millis(1_500)), Core::from_millis(1_500));
        assert_eq!(Instant::from_micros(7).since_epoch(), Core::from_micros(7));
    }

    #[test]
    fn never_is_later_than_any_time_and_is_not_reached() {
        let (early, late) = (Instant::from_micros(1), Instant::from_micros(2));
        let deadline = Deadline::from(late);
        assert_eq!(deadline.passed(early), None);
        assert_eq!(deadline.passed(late), Some(late));
        assert!(deadline < Deadline::NEVER && Deadline::from(early) < deadline);
        assert_eq!(Deadline::from(None), Deadline::NEVER);
        assert_eq!(Deadline::NEVER.time(), None);
        assert_eq!(Deadline::NEVER.passed(Instant::MAX), None);
        assert_eq!(size_of::<Deadline>(), size_of::<Instant>());
    }
}
