//! The threads of push notifications: those that call the hook, and one that ends the waits and has
//! phones notified before their registrations end.

use super::hub::Hub;
use super::local::{CarryOut, Engine, Local};
use super::push::{Notification, Reason, SharedPush};
use crate::failure::Failure;
use sip::Duration;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::thread::JoinHandle;
use std::time::{self, Instant};

/// The number of requests of the hook at once.
const AT_ONCE: usize = 4;
/// The time after which a thread looks for the end of the server.
const TURN: time::Duration = time::Duration::from_millis(200);
/// The interval between looks for requests that do not wait any more, such as cancelled ones.
const SWEEP: time::Duration = TURN;
/// The interval between searches for registrations that end.
const ROUND: time::Duration = time::Duration::from_secs(15);
/// The time before the end of its registration at which a phone that sleeps is notified.
const BEFORE_END: Duration = Duration::from_secs(45);

/// The running threads. Dropping it ends them.
pub(crate) struct PushThreads {
    ending: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl PushThreads {
    /// Starts the threads, if the server has push notifications.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(hub: &Arc<Hub>) -> Result<Option<Self>, Failure> {
        let Some(push) = &hub.push else { return Ok(None) };
        let mut threads = Self { ending: Arc::default(), threads: Vec::new() };
        for number in 0..AT_ONCE {
            let (push, ending) = (Arc::clone(push), Arc::clone(&threads.ending));
            let thread = std::thread::Builder::new().name(format!("push-{number}"));
            threads.threads.push(thread.spawn(move || call_hook(&push, &ending))?);
        }
        let waits = Waits {
            push: Arc::clone(push),
            local: Local::new(0, &hub.engine),
            hub: Arc::clone(hub),
            refreshed: HashMap::new(),
            next_sweep: Instant::now() + SWEEP,
            next_round: Instant::now() + ROUND,
        };
        let ending = Arc::clone(&threads.ending);
        let thread = std::thread::Builder::new().name("push".to_owned());
        threads.threads.push(thread.spawn(move || waits.run(&ending))?);
        Ok(Some(threads))
    }
}

impl Drop for PushThreads {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Requests the queued notifications until `ending` is set.
fn call_hook(push: &SharedPush, ending: &AtomicBool) {
    while !ending.load(Ordering::SeqCst) {
        match push.next(TURN) {
            Ok(notification) => push.request(&notification),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// The user and the contact of a binding.
type Binding = (Box<[u8]>, Box<[u8]>);

/// The end of the waits.
struct Waits {
    push: Arc<SharedPush>,
    hub: Arc<Hub>,
    local: Local,
    /// The ends of the registrations for which phones were notified, by user and contact.
    refreshed: HashMap<Binding, sip::Instant>,
    next_sweep: Instant,
    next_round: Instant,
}

impl Waits {
    fn run(mut self, ending: &AtomicBool) {
        while !ending.load(Ordering::SeqCst) {
            let expired = self.push.wait(Instant::now() + TURN);
            let now = self.hub.clock.now();
            for ticket in expired {
                self.local.worker.not_woken(now, ticket, &mut self.local.out);
            }
            self.hub.carry_out(&mut self.local);
            if Instant::now() >= self.next_sweep {
                self.next_sweep = Instant::now() + SWEEP;
                self.push.sweep(&self.local);
            }
            if Instant::now() >= self.next_round {
                self.next_round = Instant::now() + ROUND;
                self.refresh();
            }
        }
    }

    /// Has the phones notified that sleep, shortly before their registrations end (RFC 8599 section
    /// 5.5).
    fn refresh(&mut self) {
        let now = self.hub.clock.now();
        self.refreshed.retain(|_, expires| *expires > now);
        for part in 0..Engine::PARTS {
            let mut due = Vec::new();
            self.hub.engine.for_each_sleeping_of(part, now, &mut |phone| {
                let key = (Box::from(phone.user), Box::from(phone.contact));
                let is_due = phone.expires.since(now) <= BEFORE_END;
                if is_due && self.refreshed.get(&key) != Some(&phone.expires) {
                    let [provider, prid, param] =
                        [phone.provider, phone.prid, phone.param].map(Box::from);
                    let (user, reason) = (key.0.clone(), Reason::Refresh);
                    let notification = Notification { user, provider, prid, param, reason };
                    due.push((key, phone.expires, notification));
                }
            });
            for (key, expires, notification) in due {
                if self.push.refresh(notification) {
                    self.refreshed.insert(key, expires);
                }
            }
        }
    }
}
