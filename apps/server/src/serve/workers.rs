//! The threads that receive messages and run each to its end.

use super::connections::READ_SIZE;
use super::hub::{Hub, Local};
use super::roster::{Roster, Timesheet};
use crate::log;
use net::{BATCH, Inbox, MAX_DATAGRAM, Socket, wall_clock};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use sip::{Duration, Instant, Transport};
use sip_server::Flow;
use sip_server::overload::{BEGUN, Share, Throttle};
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
pub(crate) const AT_ONCE: usize = 8;

/// The running threads. Dropping them ends them.
pub(crate) struct Workers {
    ending: Arc<AtomicBool>,
    roster: Arc<Roster>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts `count` threads, each of which has a set of the hub's sockets and connections.
    ///
    /// # Errors
    /// When the system gives no thread or no event descriptor.
    pub(crate) fn start(hub: &Arc<Hub>, count: usize) -> std::io::Result<Self> {
        let roster = Arc::new(Roster::new(count)?);
        let mut workers = Self { ending: Arc::default(), roster, threads: Vec::new() };
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

/// What a worker serves for a while.
struct Served<'h> {
    /// Whose sockets and connections.
    owners: Vec<usize>,
    sockets: Vec<&'h Socket>,
    /// What is waited for: the sockets, the connections of each owner, and to be woken.
    fds: Vec<PollFd<'h>>,
}

impl<'h> Served<'h> {
    /// What the worker at `index` serves now.
    fn now(hub: &'h Hub, index: usize, roster: &'h Roster) -> Self {
        let owners = roster.served_by(index);
        let sets = hub.sockets.iter().flat_map(|group| group.iter().enumerate());
        let own = sets.filter(|(owner, _)| owners.contains(owner));
        let sockets: Vec<&Socket> = own.map(|(_, socket)| socket).collect();
        let connections = owners.iter().map(|&owner| hub.connections.as_fd(owner));
        let fds = sockets.iter().map(|&socket| Socket::as_fd(socket)).chain(connections);
        let fds = fds.chain([roster.waker(index)]);
        let fds = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        Self { owners, sockets, fds }
    }

    /// The sockets that there is something to read from.
    fn ready_sockets(&self) -> impl Iterator<Item = &'h Socket> {
        let pairs = self.sockets.iter().zip(&self.fds);
        pairs.filter(|(_, fd)| is_ready(fd)).map(|(&socket, _)| socket)
    }

    /// Those for whose connections there is something to do.
    fn ready_owners(&self) -> impl Iterator<Item = usize> {
        let pairs = self.owners.iter().zip(&self.fds[self.sockets.len()..]);
        pairs.filter(|(_, fd)| is_ready(fd)).map(|(&owner, _)| owner)
    }

    fn was_woken(&self) -> bool {
        self.fds.last().is_some_and(is_ready)
    }
}

fn is_ready(fd: &PollFd<'_>) -> bool {
    fd.any().unwrap_or(true)
}

fn run(hub: &Hub, index: usize, roster: &Roster, ending: &AtomicBool) {
    if let Err(error) = net::take_short_turns() {
        log::info("turns", || format!("worker {index} may wait for the processor: {error}"));
    }
    let mut local = hub.local(index);
    local.worker.set_clock(net::nanoseconds);
    let mut inbox = Inbox::new(MAX_DATAGRAM);
    let mut chunk = [0; READ_SIZE];
    let mut served = Served::now(hub, index, roster);
    let mut timesheet = Timesheet::new(hub.clock.now());
    // Bindings may have been restored, with their expiries. One that serves nobody leaves timers to the
    // others.
    let next_tick = |local: &Local, served: &Served<'_>| {
        local.worker.next_timer().filter(|_| !served.owners.is_empty()).map(tick_after)
    };
    let mut next_timer = next_tick(&local, &served);
    while !ending.load(Ordering::SeqCst) {
        // What is idle after an overload serves all again at once, also where all is read.
        let longest = match local.worker.is_throttling() {
            true => Throttle::step().as_millis(),
            false => LONGEST_SLEEP_MS,
        };
        let sleep = next_timer.map_or(longest, |when| {
            when.since(hub.clock.now()).as_micros().div_ceil(1000).min(longest)
        });
        let timeout = PollTimeout::try_from(sleep).unwrap_or(PollTimeout::ZERO);
        match poll(&mut served.fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => {
                log::error("poll", || format!("worker {index} cannot wait for messages: {error}"));
                return;
            }
        }
        let woken = hub.clock.now();
        let share = local.worker.share();
        if served.ready_sockets().next().is_none() {
            local.worker.note_wait(woken, Duration::ZERO);
        }
        for socket in served.ready_sockets() {
            for _ in 0..BATCHES {
                match receive(hub, socket, &mut inbox, &mut local) {
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
        for owner in served.ready_owners() {
            hub.connections.serve(hub, owner, &mut local, &mut chunk);
        }
        for &owner in &served.owners {
            hub.connections.look_after(hub, owner, woken, &mut local);
        }
        let now = hub.clock.now();
        next_timer = next_tick(&local, &served);
        if next_timer.is_some_and(|when| when <= now) {
            local.worker.on_timer(now, &mut local.out);
            hub.carry_out(&mut local);
            // What another thread is at stays due, and is not waited for in a circle.
            next_timer = next_tick(&local, &served).map(|when| when.max(now + TICK));
        }
        let was_woken = served.was_woken();
        if was_woken {
            roster.awake(index);
        }
        let has_left = roster.leave(index);
        let was_reassigned = timesheet.note(roster, index, woken, hub.clock.now());
        let is_reassigned = was_woken || has_left || was_reassigned;
        if is_reassigned {
            served = Served::now(hub, index, roster);
            next_timer = next_tick(&local, &served);
        }
        if is_reassigned || local.worker.share() != share {
            admit(&served.sockets, local.worker.share());
            tell(share, local.worker.share());
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
    socket: &Socket,
    inbox: &mut Inbox,
    local: &mut Local,
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
        let Local { worker, out, .. } = &mut *local;
        if core::mem::take(&mut is_first) {
            worker.note_wait(now, waited);
        }
        worker.receive_late(now, waited, &flow, datagram.bytes, out);
        if out.transmits.len() >= AT_ONCE {
            hub.carry_out(local);
        }
    });
    hub.carry_out(local);
    received
}

/// When timers that are due at `when` run.
fn tick_after(when: Instant) -> Instant {
    let tick = TICK.as_micros();
    Instant::from_micros(when.as_micros().div_ceil(tick).saturating_mul(tick))
}
