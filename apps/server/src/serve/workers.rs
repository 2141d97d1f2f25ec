//! The threads that receive datagrams and run each message to its end.

use super::hub::{Buffers, Hub};
use super::roster::{Roster, Timesheet};
use crate::log;
use net::{BATCH, Inbox, MAX_DATAGRAM, Socket, wall_clock};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use parking_lot::RawMutex;
use sip::{Duration, Instant, Transport};
use sip_server::overload::{BEGUN, Share, Throttle};
use sip_server::{Flow, Worker};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The longest sleep; a bound on how long a mistake about timers could last.
const LONGEST_SLEEP_MS: u64 = 1000;

/// Timers run together at ticks: none of half a second and more suffers from it, and to wake for each
/// of thousands would cost more than the calls.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// Batches that are taken from a socket before timers and other sockets get their turn.
const BATCHES: usize = 4;

/// Messages to send for which the rest of a batch is not waited for: the first would wait longest.
const AT_ONCE: usize = 8;

/// The running threads. Dropping them ends them.
pub(crate) struct Workers {
    ending: Arc<AtomicBool>,
    roster: Arc<Roster>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts a thread for each of the hub's sets of sockets.
    ///
    /// # Errors
    /// When the system gives no thread or no event descriptor.
    pub(crate) fn start(hub: &Arc<Hub>, count: usize) -> std::io::Result<Self> {
        let roster = Arc::new(Roster::new(count)?);
        let mut workers = Self { ending: Arc::default(), roster, threads: Vec::new() };
        if hub.sockets.is_empty() {
            return Ok(workers);
        }
        for index in 0..count {
            let (hub, roster) = (Arc::clone(hub), Arc::clone(&workers.roster));
            let ending = Arc::clone(&workers.ending);
            let thread = std::thread::Builder::new()
                .name(format!("worker-{index}"))
                .spawn(move || run(&hub, index, &roster, &ending))?;
            workers.threads.push(thread);
        }
        Ok(workers)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::SeqCst);
        self.roster.wake_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The sockets that the worker at `index` serves now.
fn served<'h>(hub: &'h Hub, index: usize, roster: &Roster) -> Vec<&'h Socket> {
    let sets = hub.sockets.iter().flat_map(|group| group.iter().enumerate());
    sets.filter(|(owner, _)| roster.serves(index, *owner)).map(|(_, socket)| socket).collect()
}

/// What is waited for: those sockets, and to be woken.
fn awaited<'h>(sockets: &[&'h Socket], index: usize, roster: &'h Roster) -> Vec<PollFd<'h>> {
    let fds = sockets.iter().map(|&socket| Socket::as_fd(socket)).chain([roster.waker(index)]);
    fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect()
}

/// Has this thread run soon when there is something to do, where the system can; what the thread does is for the log.
pub(crate) fn ask_for_short_turns(purpose: &str) {
    if let Err(error) = net::take_short_turns() {
        log::info("turns", || format!("{purpose} may wait for the processor: {error}"));
    }
}

fn run(hub: &Hub, index: usize, roster: &Roster, ending: &AtomicBool) {
    ask_for_short_turns(&format!("worker {index}"));
    let mut worker = hub.engine.worker();
    worker.set_clock(net::nanoseconds);
    let mut inbox = Inbox::new(MAX_DATAGRAM);
    let mut buffers = Buffers::default();
    let mut sockets = served(hub, index, roster);
    let mut fds = awaited(&sockets, index, roster);
    let mut timesheet = Timesheet::new(hub.clock.now());
    // Bindings may have been restored, with their expiries. One that has no sockets leaves timers to the
    // others.
    let next_tick = |worker: &Worker<RawMutex>, has_sockets: bool| {
        worker.next_timer().filter(|_| has_sockets).map(tick_after)
    };
    let mut next_timer = next_tick(&worker, !sockets.is_empty());
    while !ending.load(Ordering::SeqCst) {
        // What is idle after an overload serves all again at once, also where all is read.
        let longest = match worker.is_throttling() {
            true => Throttle::step().as_millis(),
            false => LONGEST_SLEEP_MS,
        };
        let sleep = next_timer.map_or(longest, |when| {
            when.since(hub.clock.now()).as_micros().div_ceil(1000).min(longest)
        });
        let timeout = PollTimeout::try_from(sleep).unwrap_or(PollTimeout::ZERO);
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => {
                log::error("poll", || format!("worker {index} cannot wait for messages: {error}"));
                return;
            }
        }
        let woken = hub.clock.now();
        let share = worker.share();
        if fds[..sockets.len()].iter().all(|fd| !fd.any().unwrap_or(true)) {
            worker.note_wait(woken, Duration::ZERO);
        }
        for (socket, fd) in sockets.iter().zip(&fds) {
            if !fd.any().unwrap_or(true) {
                continue;
            }
            for _ in 0..BATCHES {
                match receive(hub, index, socket, &mut worker, &mut inbox, &mut buffers) {
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
        next_timer = next_tick(&worker, !sockets.is_empty());
        if next_timer.is_some_and(|when| when <= now) {
            worker.on_timer(now, &mut buffers.out);
            hub.carry_out(index, &mut worker, &mut buffers);
            // What another thread is at stays due, and is not waited for in a circle.
            let next = next_tick(&worker, !sockets.is_empty());
            next_timer = next.map(|when| when.max(now + TICK));
        }
        let was_woken = fds.last().is_some_and(|fd| fd.any().unwrap_or(true));
        if was_woken {
            roster.awake(index);
        }
        let has_left = roster.leave(index);
        let was_reassigned = timesheet.note(roster, index, woken, hub.clock.now());
        let is_reassigned = was_woken || has_left || was_reassigned;
        if is_reassigned {
            sockets = served(hub, index, roster);
            fds = awaited(&sockets, index, roster);
            next_timer = next_tick(&worker, !sockets.is_empty());
        }
        if is_reassigned || worker.share() != share {
            admit(&sockets, worker.share());
            tell(share, worker.share());
        }
    }
}

/// Lets `share` of the new requests in.
fn admit(sockets: &[&Socket], share: Share) {
    for socket in sockets {
        if let Err(error) = socket.admit(share.parts(), &BEGUN) {
            log::warn("overload", || {
                format!("{} cannot leave requests unread: {error}", socket.address())
            });
        }
    }
}

/// Tells the operator where an overload begins that is not met with refusals alone, and where it ends.
fn tell(before: Share, now: Share) {
    if before == Share::ALL && now < Share::ALL {
        log::warn("overload", || {
            "more comes than can be served: a part of the new requests is left unread until that is over; \
             calls and dialogs that have begun go on"
                .to_owned()
        });
    } else if before < Share::ALL && now == Share::ALL {
        log::info("overload", || "all requests are read again".to_owned());
    }
}

/// Takes a batch from `socket` and does all that follows from it. Returns how many messages there were.
fn receive(
    hub: &Hub,
    index: usize,
    socket: &Socket,
    worker: &mut Worker<RawMutex>,
    inbox: &mut Inbox,
    buffers: &mut Buffers,
) -> std::io::Result<usize> {
    let now = hub.clock.now();
    let wall = wall_clock();
    let mut is_first = true;
    let received = inbox.receive(socket, |datagram| {
        let flow = Flow {
            transport: Transport::Udp,
            local: datagram.local,
            remote: datagram.remote,
            connection: None,
        };
        let waited =
            datagram.at.map_or(0, |at| wall.as_micros().saturating_sub(at.as_micros() as u64));
        let waited = Duration::from_micros(waited);
        if core::mem::take(&mut is_first) {
            worker.note_wait(now, waited);
        }
        worker.receive_late(now, waited, &flow, datagram.bytes, &mut buffers.out);
        if buffers.out.transmits.len() >= AT_ONCE {
            hub.carry_out(index, worker, buffers);
        }
    });
    hub.carry_out(index, worker, buffers);
    received
}

/// When timers that are due at `when` run.
fn tick_after(when: Instant) -> Instant {
    let tick = TICK.as_micros();
    Instant::from_micros(when.as_micros().div_ceil(tick).saturating_mul(tick))
}
