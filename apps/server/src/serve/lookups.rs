//! Look-ups of destinations in the DNS, and the timers that follow from them, on one event loop.

use super::hub::{Hub, Lookup};
use super::local::{CarryOut, Local};
use super::workers::{TICK, tick_after};
use net::Dns;
use sip::Instant;
use sip_server::{Location, Ticket};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::spawn_local;
use tokio::time::sleep_until;

/// The thread of look-ups.
pub(crate) struct Lookups {
    hub: Arc<Hub>,
    dns: Dns,
    local: RefCell<Local>,
    /// As many as may be under way: each has sockets of its own.
    room: Arc<Semaphore>,
    /// Told when a timer may have been set.
    timers: Notify,
}

impl Lookups {
    /// Look-ups by `dns`, at most so many at a time.
    pub(crate) fn new(hub: Arc<Hub>, dns: Dns, most: usize) -> Self {
        let local = RefCell::new(Local::new(0, &hub.engine));
        Self { hub, dns, local, room: Arc::new(Semaphore::new(most)), timers: Notify::new() }
    }

    /// Runs until the queue ends. To be called on a `LocalSet`.
    pub(crate) async fn run(self: Rc<Self>, mut queue: mpsc::Receiver<Lookup>) {
        spawn_local(Rc::clone(&self).run_timers());
        while let Some(Lookup { destination, ticket }) = queue.recv().await {
            let lookups = Rc::clone(&self);
            let place = Arc::clone(&self.room).acquire_owned().await;
            spawn_local(async move {
                let targets = lookups.dns.locate(destination).await;
                drop(place);
                lookups.located(ticket, &targets);
            });
        }
    }

    /// Lets the engine work, and does what it asks for.
    fn with_engine(&self, work: impl FnOnce(&mut Local, Instant)) {
        let mut local = self.local.borrow_mut();
        work(&mut local, self.hub.clock.now());
        self.hub.carry_out(&mut local);
        self.timers.notify_one();
    }

    fn located(&self, ticket: Ticket, targets: &[sip::locate::Target]) {
        let locations: Vec<Location> = targets
            .iter()
            .map(|target| {
                let port = self.hub.port_of(target.transport, target.address.is_ipv4());
                let local = net::source_for(target.address).zip(port).map(SocketAddr::from);
                Location { transport: target.transport, remote: target.address, local }
            })
            .collect();
        self.with_engine(|local, now| {
            local.worker.located(now, ticket, &locations, &mut local.out);
        });
    }

    /// The engine's timers, for what was set by this thread.
    async fn run_timers(self: Rc<Self>) {
        // What could not run since a worker was at it stays due, and is not waited for in a circle.
        let mut earliest = Instant::ZERO;
        loop {
            let next = self.local.borrow().worker.next_timer();
            match next {
                None => self.timers.notified().await,
                Some(when) => {
                    let when = self.hub.clock.system(tick_after(when).max(earliest)).into();
                    tokio::select! {
                        () = sleep_until(when) => {
                            self.with_engine(|local, now| {
                                local.worker.on_timer(now, &mut local.out);
                            });
                            earliest = self.hub.clock.now() + TICK;
                        }
                        () = self.timers.notified() => {}
                    }
                }
            }
        }
    }
}
