//! The times of the processing steps of a system during a load, beside its use of resources.

use super::watching::Watching;
use crate::meters::Meters;
use crate::record::Steps;
use crate::sut::SutError;
use sip::Duration;
use std::time::Instant;

/// The meters of a load: resources, and the times of steps. Both are without the preparation of the
/// users, which is a load of its own.
pub(super) struct Metering<F> {
    watching: Watching,
    /// Reads the times since the start of the system.
    read: F,
    begun: Steps,
    steps: Steps,
    failed: Option<SutError>,
}

impl<F: Fn() -> Result<Steps, SutError>> Metering<F> {
    /// The meters of a system. `read` returns the times of its steps.
    pub(super) fn new(watching: Watching, read: F) -> Self {
        Self { watching, read, begun: Steps::new(), steps: Steps::new(), failed: None }
    }

    /// Returns the meters of resources, and the times of the steps during the load.
    pub(super) fn finish(self) -> (Watching, Result<Steps, SutError>) {
        (self.watching, self.failed.map_or(Ok(self.steps), Err))
    }

    fn read(&mut self) -> Steps {
        (self.read)().unwrap_or_else(|error| {
            self.failed = Some(error);
            Steps::new()
        })
    }
}

impl<F: Fn() -> Result<Steps, SutError>> Meters for Metering<F> {
    fn begin(&mut self) {
        self.begun = self.read();
        self.watching.begin();
    }

    fn measured(&mut self, at: Duration, start: Instant, length: Duration) {
        self.watching.measured(at, start, length);
    }

    fn end(&mut self) {
        self.watching.end();
        for (name, step) in self.read() {
            let before = self.begun.get(&name).copied().unwrap_or_default();
            let sum = self.steps.entry(name).or_default();
            *sum = sum.plus(step.since(before));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Step;
    use std::cell::Cell;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn steps_between_stretches_of_a_load_do_not_count() {
        let count = Cell::new(0);
        let read = || {
            let step = Step { count: count.get(), nanoseconds: 10 * count.get() };
            Ok(Steps::from([("handler".to_owned(), step)]))
        };
        let gone = Arc::new(AtomicBool::new(false));
        let watching = Watching::start(None, Duration::ZERO, &gone).unwrap();
        let mut meters = Metering::new(watching, read);
        for (at_begin, at_end) in [(100, 103), (200, 204)] {
            count.set(at_begin);
            meters.begin();
            count.set(at_end);
            meters.end();
        }
        let steps = meters.finish().1.unwrap();
        assert_eq!(steps["handler"], Step { count: 7, nanoseconds: 70 });
    }
}
