//! A thread beside the workers, which waits most of the time and ends with the server.

use crate::log;
use parking_lot::{Condvar, Mutex};
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The pauses between attempts to reach a database: the first one, and the longest one.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// The end of the thread, to be waited for.
#[derive(Default)]
pub(super) struct Ending {
    has_come: Mutex<bool>,
    changed: Condvar,
}

impl Ending {
    /// Waits for the end, at most for `time`. Returns true if it has come.
    pub(super) fn wait(&self, time: Duration) -> bool {
        let mut has_come = self.has_come.lock();
        if !*has_come && !time.is_zero() {
            self.changed.wait_for(&mut has_come, time);
        }
        *has_come
    }
}

/// The pause before the next attempt to reach a database. It grows with each failure.
pub(super) struct Pause(Duration);

impl Pause {
    pub(super) const fn new() -> Self {
        Self(PAUSES[0])
    }

    /// Called after a success: the next pause is the shortest one.
    pub(super) fn reset(&mut self) {
        self.0 = PAUSES[0];
    }

    /// The present pause in seconds.
    pub(super) const fn seconds(&self) -> u64 {
        self.0.as_secs()
    }

    /// Waits for the pause. Returns true if `ending` has come.
    pub(super) fn wait(&mut self, ending: &Ending) -> bool {
        let has_ended = ending.wait(self.0);
        self.0 = (2 * self.0).min(PAUSES[1]);
        has_ended
    }
}

/// A running thread. Dropping it ends the thread and waits for that.
pub(super) struct Background {
    ending: Arc<Ending>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts the thread `name`, with a lower priority than the workers. It calls `run`, which
    /// returns soon after the end has come.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn start(
        name: &'static str,
        run: impl FnOnce(&Ending) + Send + 'static,
    ) -> io::Result<Self> {
        let ending = Arc::<Ending>::default();
        let until = Arc::clone(&ending);
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            if let Err(error) = net::give_way() {
                log::warn("turns", || {
                    format!("the thread {name} has the priority of messages: {error}")
                });
            }
            run(&until);
        })?;
        Ok(Self { ending, thread: Some(thread) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        *self.ending.has_come.lock() = true;
        self.ending.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_thread_that_waits_ends_at_once() {
        let has_run = Arc::<AtomicBool>::default();
        let is_run = Arc::clone(&has_run);
        let thread = Background::start("test", move |ending| {
            while !ending.wait(Duration::from_secs(3600)) {}
            is_run.store(true, Ordering::SeqCst);
        });
        drop(thread.unwrap());
        assert!(has_run.load(Ordering::SeqCst));
    }

    #[test]
    fn pauses_grow_up_to_a_limit() {
        let (mut pause, ending) = (Pause::new(), Ending::default());
        *ending.has_come.lock() = true;
        let mut seconds = Vec::new();
        for _ in 0..7 {
            seconds.push(pause.seconds());
            assert!(pause.wait(&ending));
        }
        assert_eq!(seconds, [1, 2, 4, 8, 16, 30, 30]);
        pause.reset();
        assert_eq!(pause.seconds(), 1);
    }
}
