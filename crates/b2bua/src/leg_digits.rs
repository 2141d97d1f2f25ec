//! The digits of one leg: those that its party has pressed, each once though it comes twice, and
//! those that it gets.

use alloc::collections::VecDeque;
use sip::{Duration, Instant};
use sip_ua::InfoDigit;

/// A digit that a phone sends as an INFO and as a telephone event arrives twice within this time.
const APART: Duration = Duration::from_secs(2);

/// The maximum number of digits that are compared, and that wait for the responses to earlier ones.
pub(crate) const MAX_DIGITS: usize = 16;

/// The digits of one leg.
#[derive(Debug, Default)]
pub(crate) struct LegDigits {
    /// Those that the party has pressed, until they arrive the other way as well.
    pressed: VecDeque<Press>,
    /// The digits that the party gets after the one that is sent.
    pub(crate) waiting: VecDeque<InfoDigit>,
    pub(crate) sent: Option<InfoDigit>,
    /// True if the party has refused digits with their durations.
    pub(crate) is_plain: bool,
}

/// A digit that a party has pressed.
#[derive(Debug)]
struct Press {
    key: char,
    is_event: bool,
    end: Instant,
}

impl LegDigits {
    /// Records a digit that arrives as a telephone event, which has just ended, or as an INFO.
    /// Returns false if it has arrived the other way.
    pub(crate) fn is_new(&mut self, digit: InfoDigit, is_event: bool, now: Instant) -> bool {
        let since = if is_event { digit.duration } else { Duration::ZERO };
        let begin = Instant::from_micros(now.as_micros().saturating_sub(since.as_micros()));
        let is_same =
            |it: &Press| it.key == digit.key && it.is_event != is_event && it.end + APART >= begin;
        if let Some(at) = self.pressed.iter().position(is_same) {
            self.pressed.remove(at);
            return false;
        }
        if self.pressed.len() >= MAX_DIGITS {
            self.pressed.pop_front();
        }
        self.pressed.push_back(Press { key: digit.key, is_event, end: now });
        true
    }
}
