//! The course of a command while it runs, for the live page.

use super::Second;
use std::collections::VecDeque;

/// The number of seconds that are kept: ten minutes.
const KEPT: usize = 600;
/// The number of notes that are kept.
const NOTES: usize = 50;

/// The course of a command so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Course {
    /// The command line.
    pub(crate) command: String,
    /// The present load. `None` before the first load and between loads.
    pub(crate) load: Option<PresentLoad>,
    /// The last seconds of the loads, in chronological order.
    pub(crate) moments: VecDeque<Moment>,
    /// The notes of the command, in chronological order.
    pub(crate) notes: VecDeque<String>,
    /// The result, if the command has ended.
    pub(crate) end: Option<End>,
}

/// A load that runs.
#[derive(Clone, Debug)]
pub(crate) struct PresentLoad {
    /// The system and the load.
    pub(crate) title: String,
    /// The start, in seconds since the start of the command.
    pub(crate) begun: f64,
    /// The length in seconds, without the wait for the last operations, if it is known.
    pub(crate) total: Option<f64>,
}

/// One second of a load.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    /// Its end, in seconds since the start of the command.
    pub(crate) at: f64,
    /// Its counts and delays. `None` if the load does not report each second.
    pub(crate) second: Option<Second>,
    /// The use of the system under test, if it is observed.
    pub(crate) usage: Option<PresentUsage>,
}

/// The use of the system under test between two readings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PresentUsage {
    /// The number of busy processors.
    pub(crate) busy: f64,
    /// The memory in bytes.
    pub(crate) memory: u64,
}

/// The end of a command.
#[derive(Clone, Debug)]
pub(crate) struct End {
    /// The result in words.
    pub(crate) text: String,
    /// True if the command succeeded.
    pub(crate) good: bool,
}

impl Course {
    /// Adds a second. The oldest one is removed if there are too many.
    pub(crate) fn push(&mut self, moment: Moment) {
        self.moments.push_back(moment);
        if self.moments.len() > KEPT {
            self.moments.pop_front();
        }
    }

    /// Adds a note. The oldest one is removed if there are too many.
    pub(crate) fn note(&mut self, text: &str) {
        self.notes.push_back(text.to_owned());
        if self.notes.len() > NOTES {
            self.notes.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_course_is_bounded_and_keeps_the_latest() {
        let mut course = Course::default();
        for number in 0..KEPT + 10 {
            course.push(Moment { at: number as f64, second: None, usage: None });
            course.note(&number.to_string());
        }
        assert_eq!((course.moments.len(), course.notes.len()), (KEPT, NOTES));
        assert_eq!(course.moments[0].at, 10.0);
        assert_eq!(course.notes.back(), Some(&(KEPT + 9).to_string()));
    }
}
