//! DNS look-ups of destinations, and the engine timers that they set, on one event loop.

mod silence;
mod turns;

use super::hub::{Hub, Lookup, MAX_LOOKUPS};
use super::local::{CarryOut, Local, Waiter};
use super::workers::{TICK, tick_after};
use crate::log;
use net::Dns;
use silence::Silence;
use sip::Instant;
use sip::Location;
use sip::locate::{Destination, Host};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant as Clock};
use tokio::sync::{Notify, mpsc};
use tokio::task::spawn_local;
use tokio::time::{sleep_until, timeout};
use turns::Turns;

/// The timeout of a look-up. After it no transaction waits for the result (RFC 3261 section
/// 17.1.1.2).
const LONGEST: Duration = Duration::from_secs(32);

/// A look-up that finds nothing for this time counts as not answered.
const SILENT_AFTER: Duration = Duration::from_secs(4);

/// The thread of look-ups.
pub(crate) struct Lookups {
    hub: Arc<Hub>,
    dns: Dns,
    local: RefCell<Local>,
    /// The waiting look-ups. The number of those under way is limited, as each has sockets of its
    /// own.
    turns: RefCell<Turns<(Destination, Waiter)>>,
    silence: RefCell<Silence>,
    /// Notified when a timer may have been set.
    timers: Notify,
}

impl Lookups {
    /// Look-ups by `dns`, at most `most` at a time.
    pub(crate) fn new(hub: Arc<Hub>, dns: Dns, most: usize) -> Self {
        let local = RefCell::new(Local::new(0, &hub.engine));
        Self {
            hub,
            dns,
            local,
            turns: RefCell::new(Turns::new(most, MAX_LOOKUPS)),
            silence: RefCell::new(Silence::new()),
            timers: Notify::new(),
        }
    }

    /// Runs until the queue ends. Must be called on a `LocalSet`.
    pub(crate) async fn run(self: Rc<Self>, mut queue: mpsc::Receiver<Lookup>) {
        spawn_local(Rc::clone(&self).run_timers());
        while let Some(Lookup { destination, waiter, payers }) = queue.recv().await {
            let pushed = self.turns.borrow_mut().push(payers, (destination, waiter));
            if let Err((_, waiter)) = pushed {
                self.hub.dropped_lookups.fetch_add(1, Ordering::Relaxed);
                log::warn("lookups", || {
                    "too many DNS look-ups of one source or user are pending".into()
                });
                self.located(waiter, &[]);
            }
            self.begin();
        }
    }

    /// Starts the look-ups that may start now.
    fn begin(self: &Rc<Self>) {
        loop {
            let next = self.turns.borrow_mut().next();
            let Some((payers, (destination, waiter))) = next else { return };
            let name = match &destination.host {
                Host::Name(name) => name.clone(),
                Host::Ip(address) => address.to_string(),
            };
            if !self.silence.borrow_mut().may_ask(&name, Clock::now()) {
                self.hub.silent_lookups.fetch_add(1, Ordering::Relaxed);
                self.turns.borrow_mut().end(payers);
                self.located(waiter, &[]);
                continue;
            }
            let lookups = Rc::clone(self);
            spawn_local(async move {
                let began = Clock::now();
                let found = timeout(LONGEST, lookups.dns.locate(destination)).await;
                let targets = found.unwrap_or_default();
                let now = Clock::now();
                let was_silent = targets.is_empty() && now - began >= SILENT_AFTER;
                if was_silent || !targets.is_empty() {
                    lookups.silence.borrow_mut().note(&name, was_silent, now);
                }
                lookups.turns.borrow_mut().end(payers);
                lookups.located(waiter, &targets);
                lookups.begin();
            });
        }
    }

    /// Calls the engine, and executes its output.
    fn with_engine(&self, work: impl FnOnce(&mut Local, Instant)) {
        let mut local = self.local.borrow_mut();
        work(&mut local, self.hub.clock.now());
        self.hub.carry_out(&mut local);
        self.timers.notify_one();
    }

    fn located(&self, waiter: Waiter, targets: &[sip::locate::Target]) {
        let locations: Vec<Location> = targets
            .iter()
            .map(|target| {
                let local = self.hub.local_for(target.transport, target.address);
                Location { transport: target.transport, remote: target.address, local }
            })
            .collect();
        self.with_engine(|local, now| {
            self.hub.located(now, local, waiter, &locations);
        });
    }

    /// Runs the engine timers that this thread has set.
    async fn run_timers(self: Rc<Self>) {
        // A timer that could not run because a worker holds its state stays due. The pause avoids a
        // busy loop.
        let mut earliest = Instant::ZERO;
        loop {
            let next = self.hub.next_timer(&self.local.borrow());
            match next {
                None => self.timers.notified().await,
                Some(when) => {
                    let when = self.hub.clock.system(tick_after(when).max(earliest)).into();
                    tokio::select! {
                        () = sleep_until(when) => {
                            self.with_engine(|local, now| self.hub.on_timer(now, local));
                            earliest = self.hub.clock.now() + TICK;
                        }
                        () = self.timers.notified() => {}
                    }
                }
            }
        }
    }
}
