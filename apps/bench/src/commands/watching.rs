//! The resource measurement of the system under test during a load.

use super::error::CommandError;
use crate::meters::Meters;
use crate::watch::{self, Reading, Readings, Subject, WatchError, Watcher, Window};
use sip::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The resource measurement of the system under test.
pub(crate) struct Watching {
    watcher: Option<Watcher>,
    settle: Duration,
    before: Option<Reading>,
    begun: Option<Reading>,
    measured: Vec<(Reading, Reading)>,
    windows: Vec<Window>,
    failed: Option<WatchError>,
    /// Set when the server is unreachable: then there is no deferred work.
    gone: Arc<AtomicBool>,
}

impl Watching {
    /// Starts to watch `subject`, if there is one. After the load it goes on for `settle`, for
    /// deferred work.
    pub(crate) fn start(
        subject: Option<&Subject>,
        settle: Duration,
        gone: &Arc<AtomicBool>,
    ) -> Result<Self, CommandError> {
        let watcher = subject.map(|subject| Watcher::start(subject, gone)).transpose()?;
        let before = watcher.as_ref().map(Watcher::mark).transpose()?;
        Ok(Self {
            watcher,
            settle,
            before,
            begun: None,
            measured: Vec::new(),
            windows: Vec::new(),
            failed: None,
            gone: Arc::clone(gone),
        })
    }

    /// Returns the readings for a display of the present use, if there is a subject.
    pub(crate) fn readings(&self) -> Option<Readings> {
        self.watcher.as_ref().map(Watcher::readings)
    }

    fn mark(&mut self) -> Option<Reading> {
        match self.watcher.as_ref()?.mark() {
            Ok(reading) => Some(reading),
            Err(error) => {
                self.failed = Some(error);
                None
            }
        }
    }

    /// Returns the result, with `operations` as the number of successes; and the reason if the
    /// watching failed early.
    pub(crate) fn finish(
        mut self,
        operations: u64,
    ) -> (Option<crate::record::Watch>, Option<WatchError>) {
        let (Some(watcher), Some(before)) = (self.watcher, self.before) else {
            return (None, None);
        };
        let watched = watcher.finish();
        // The watched processes have ended, so the last sample is the end.
        self.measured.extend(self.begun.zip(watched.last));
        let mut watch = watch::assemble(&watched, &before, &self.measured, &self.windows);
        watch.operations = operations;
        (Some(watch), self.failed.or(watched.trouble))
    }
}

impl Meters for Watching {
    fn begin(&mut self) {
        self.begun = self.mark();
    }

    fn measured(&mut self, at: Duration, start: Instant, length: Duration) {
        let [at, length] = [at, length].map(|span| span.as_micros() as f64 / 1e6);
        self.windows.push(Window { at, start, length });
    }

    fn end(&mut self) {
        if self.watcher.is_some() && !self.gone.load(Ordering::Relaxed) {
            std::thread::sleep(self.settle.into());
        }
        if let Some(end) = self.mark()
            && let Some(begin) = self.begun.take()
        {
            self.measured.push((begin, end));
        }
    }
}
