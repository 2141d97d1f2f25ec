//! The threads that receive datagrams and run each message to its end.

use super::hub::{Buffers, Hub};
use crate::log;
use net::{BATCH, Inbox, MAX_DATAGRAM, wall_clock};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::EventFd;
use sip::{Duration, Instant, Transport};
use sip_server::Flow;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The longest sleep; a bound on how long a mistake about timers could last.
const LONGEST_SLEEP_MS: u64 = 1000;

/// Timers run together at ticks: none of half a second and more suffers from it, and to wake for each
/// of thousands would cost more than the calls.
const TICK: Duration = Duration::from_millis(10);

/// Batches that are taken from a socket before timers and other sockets get their turn.
const BATCHES: usize = 4;

/// Messages to send for which the rest of a batch is not waited for: the first would wait longest.
const AT_ONCE: usize = 8;

/// The running threads. Dropping them ends them.
pub(crate) struct Workers {
    ending: Arc<AtomicBool>,
    wakers: Vec<Arc<EventFd>>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts a thread for each of the hub's sets of sockets.
    ///
    /// # Errors
    /// When the system gives no thread or no event descriptor.
    pub(crate) fn start(hub: &Arc<Hub>, count: usize) -> std::io::Result<Self> {
        let mut workers = Self { ending: Arc::default(), wakers: Vec::new(), threads: Vec::new() };
        if hub.sockets.is_empty() {
            return Ok(workers);
        }
        for index in 0..count {
            let waker = Arc::new(EventFd::new()?);
            workers.wakers.push(Arc::clone(&waker));
            let (hub, ending) = (Arc::clone(hub), Arc::clone(&workers.ending));
            let thread = std::thread::Builder::new()
                .name(format!("worker-{index}"))
                .spawn(move || run(&hub, index, &waker, &ending))?;
            workers.threads.push(thread);
        }
        Ok(workers)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::SeqCst);
        for waker in &self.wakers {
            // A worker that is not woken wakes by itself a second later.
            let _ = waker.write(1);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn run(hub: &Hub, index: usize, waker: &EventFd, ending: &AtomicBool) {
    let mut worker = hub.engine.worker();
    worker.set_clock(net::nanoseconds);
    let mut inbox = Inbox::new(MAX_DATAGRAM);
    let mut buffers = Buffers::default();
    let sockets: Vec<_> = hub.sockets.iter().filter_map(|sockets| sockets.get(index)).collect();
    let mut fds: Vec<PollFd<'_>> = sockets
        .iter()
        .map(|socket| PollFd::new(socket.as_fd(), PollFlags::POLLIN))
        .chain([PollFd::new(waker.as_fd(), PollFlags::POLLIN)])
        .collect();
    // Bindings may have been restored, with their expiries.
    let mut next_timer = worker.next_timer().map(tick_after);
    while !ending.load(Ordering::SeqCst) {
        let sleep = next_timer.map_or(LONGEST_SLEEP_MS, |when| {
            when.since(hub.clock.now()).as_micros().div_ceil(1000).min(LONGEST_SLEEP_MS)
        });
        let timeout = PollTimeout::try_from(sleep).unwrap_or(PollTimeout::ZERO);
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => {
                log::error("poll", || format!("worker {index} cannot wait for messages: {error}"));
                return;
            }
        }
        for (socket, fd) in sockets.iter().zip(&fds) {
            if !fd.any().unwrap_or(true) {
                continue;
            }
            for _ in 0..BATCHES {
                let now = hub.clock.now();
                let wall = wall_clock();
                let received = inbox.receive(socket, |datagram| {
                    let flow = Flow {
                        transport: Transport::Udp,
                        local: datagram.local,
                        remote: datagram.remote,
                        connection: None,
                    };
                    let waited = datagram
                        .at
                        .map_or(0, |at| wall.as_micros().saturating_sub(at.as_micros() as u64));
                    let waited = Duration::from_micros(waited);
                    worker.receive_late(now, waited, &flow, datagram.bytes, &mut buffers.out);
                    if buffers.out.transmits.len() >= AT_ONCE {
                        hub.carry_out(index, &mut worker, &mut buffers);
                    }
                });
                hub.carry_out(index, &mut worker, &mut buffers);
                match received {
                    Ok(received) if received < BATCH => break,
                    Ok(_) => {}
                    Err(error) => {
                        log::error("receive", || {
                            format!("{} cannot be read: {error}", socket.address())
                        });
                        break;
                    }
                }
            }
        }
        let now = hub.clock.now();
        next_timer = worker.next_timer().map(tick_after);
        if next_timer.is_some_and(|when| when <= now) {
            worker.on_timer(now, &mut buffers.out);
            hub.carry_out(index, &mut worker, &mut buffers);
            next_timer = worker.next_timer().map(tick_after);
        }
    }
}

/// When timers that are due at `when` run.
fn tick_after(when: Instant) -> Instant {
    let tick = TICK.as_micros();
    Instant::from_micros(when.as_micros().div_ceil(tick).saturating_mul(tick))
}
