//! The form of a time on the screens.

use core::fmt;
use sip::Duration;

/// Days, hours, minutes and seconds.
pub(super) struct Clock(pub(super) Duration);

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let (minutes, seconds) = (seconds / 60, seconds % 60);
        let (hours, minutes) = (minutes / 60, minutes % 60);
        let (days, hours) = (hours / 24, hours % 24);
        let text = match days {
            0 => alloc::format!("{hours}:{minutes:02}:{seconds:02}"),
            _ => alloc::format!("{days} d {hours}:{minutes:02}"),
        };
        f.pad(&text)
    }
}
