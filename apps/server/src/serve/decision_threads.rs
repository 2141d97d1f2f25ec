//! The threads that ask the hook about calls on trunks.

use super::decisions::SharedDecisions;
use super::hub::Hub;
use super::local::{CarryOut, Local};
use crate::failure::Failure;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::thread::JoinHandle;
use std::time::Duration;

/// The number of requests of the hook at once.
const AT_ONCE: usize = 4;

/// The time after which a thread looks for the end of the server.
const TURN: Duration = Duration::from_millis(200);

/// The running threads that ask the hook. Dropping it ends them.
pub(crate) struct DecisionThreads {
    ending: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl DecisionThreads {
    /// Starts the threads, if there is a hook.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(hub: &Arc<Hub>) -> Result<Option<Self>, Failure> {
        let Some(decisions) = hub.b2bua.decisions() else { return Ok(None) };
        let mut threads = Self { ending: Arc::default(), threads: Vec::new() };
        for number in 0..AT_ONCE {
            let (hub, decisions) = (Arc::clone(hub), Arc::clone(decisions));
            let ending = Arc::clone(&threads.ending);
            let thread = std::thread::Builder::new().name(format!("hook-{number}"));
            let run = move || answer_questions(&hub, &decisions, &ending);
            threads.threads.push(thread.spawn(run)?);
        }
        Ok(Some(threads))
    }
}

impl Drop for DecisionThreads {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Asks the hook the queued questions until `ending` is set.
fn answer_questions(hub: &Hub, decisions: &SharedDecisions, ending: &AtomicBool) {
    let mut local = Local::new(0, &hub.engine);
    while !ending.load(Ordering::SeqCst) {
        let next = decisions.next(TURN);
        let question = match next {
            Ok(question) => question,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        // The B2BUA has ended the wait of a call if its question was queued for too long.
        let decision = match hub.b2bua.waits(question.call) {
            true => decisions.decide(&question),
            false => None,
        };
        decisions.done(&question);
        hub.b2bua.decide(hub.clock.now(), question.call, decision, &mut local);
        hub.carry_out(&mut local);
    }
}
