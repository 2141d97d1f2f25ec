//! The course that the command writes and the live page reads.

use crate::record::{Course, End, Moment, PresentLoad, Record};
use crate::report;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The course of a command and its report. Clones share both.
#[derive(Clone, Debug)]
pub(crate) struct Board {
    begun: Instant,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    course: Course,
    /// The report as a page, once the command has written it.
    report: Option<String>,
}

impl Board {
    /// Returns the board of the command with this command line, which starts now.
    pub(crate) fn new(command: String) -> Self {
        let course = Course { command, ..Course::default() };
        let state = State { course, ..State::default() };
        Self { begun: Instant::now(), state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The seconds since the start of the command.
    pub(crate) fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// Records the start of a load. `total` is its length in seconds, if known.
    pub(crate) fn begin_load(&self, title: &str, total: Option<f64>) {
        let load = PresentLoad { title: title.to_owned(), begun: self.seconds(), total };
        self.state().course.load = Some(load);
    }

    /// Records the end of the present load.
    pub(crate) fn end_load(&self) {
        self.state().course.load = None;
    }

    /// Adds a second of the present load.
    pub(crate) fn push(&self, moment: Moment) {
        self.state().course.push(moment);
    }

    /// Adds a note.
    pub(crate) fn note(&self, text: &str) {
        self.state().course.note(text);
    }

    /// Keeps the report of the command.
    pub(crate) fn report(&self, records: &[Record]) {
        self.state().report = Some(report::html(records));
    }

    /// Records the end of the command.
    pub(crate) fn end(&self, text: String, good: bool) {
        let mut state = self.state();
        (state.course.load, state.course.end) = (None, Some(End { text, good }));
    }

    /// Returns a copy of the course, and true if there is a report.
    pub(super) fn course(&self) -> (Course, bool) {
        let state = self.state();
        (state.course.clone(), state.report.is_some())
    }

    /// Returns the report as a page.
    pub(super) fn report_page(&self) -> Option<String> {
        self.state().report.clone()
    }
}
