//! The log, for the screens and the serial line.

use alloc::collections::VecDeque;
use alloc::string::String;
use core::fmt;
use sip::Instant;

/// Maximum number of lines kept.
const MOST_LINES: usize = 200;

/// The last lines of the log.
#[derive(Debug, Default)]
pub struct Log {
    /// Each line with its time of day, if that is known.
    pub(crate) lines: VecDeque<(Time, String)>,
    /// The current time of day.
    now: Time,
    /// Total number of lines logged.
    said: u64,
}

impl Log {
    /// Logs a line.
    pub fn say(&mut self, line: fmt::Arguments<'_>) {
        if self.lines.len() == MOST_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back((self.now, alloc::format!("{line}")));
        self.said += 1;
    }

    /// Sets the time of day of the following lines.
    pub fn set_time(&mut self, now: Instant) {
        self.now = Time(Some(now));
    }

    /// Total number of lines logged.
    #[must_use]
    pub fn said(&self) -> u64 {
        self.said
    }

    /// The lines after the first `seen` ones, as far as they are kept.
    pub fn since(&self, seen: u64) -> impl Iterator<Item = &str> {
        self.timed_since(seen).map(|(_, line)| line)
    }

    /// The same lines with their times.
    pub fn timed_since(&self, seen: u64) -> impl Iterator<Item = (Time, &str)> {
        let new = (self.said - seen).min(self.lines.len() as u64) as usize;
        self.lines.range(self.lines.len() - new..).map(|(time, line)| (*time, line.as_str()))
    }
}

/// The time of a line: `12:34:56 ` in UTC, or empty if it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time(Option<Instant>);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(time) = self.0 else { return Ok(()) };
        let seconds = time.as_secs() % 86_400;
        write!(f, "{:02}:{:02}:{:02} ", seconds / 3600, seconds / 60 % 60, seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_line_has_the_time_of_day_once_that_is_known() {
        let mut log = Log::default();
        log.say(format_args!("one"));
        log.set_time(Instant::from_micros(1_795_700_045_000_000));
        log.say(format_args!("two"));
        let lines: Vec<_> =
            log.timed_since(0).map(|(time, line)| alloc::format!("{time}{line}")).collect();
        assert_eq!(lines, ["one", "13:34:05 two"]);
    }
}
