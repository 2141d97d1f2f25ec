//! The threads that receive messages and process each to its end.

use super::connections::READ_SIZE;
use super::hub::Hub;
use super::local::{AT_ONCE, CarryOut, Local};
use super::media::Expiry;
use super::scheduler::{LoadMeter, Scheduler};
use super::served::{Served, Source};
use crate::log;
use net::{Inbox, MAX_DATAGRAM, Socket, wall_clock};
use sip::{Duration, Instant, Transport};
use sip_server::Flow;
use sip_server::overload::{BEGUN, Share, Throttle};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The longest sleep: the upper bound of the delay after a missed wake-up.
const LONGEST_SLEEP_MS: u64 = 1000;

/// The granularity of engine timers. Timers of half a second and more tolerate it, and a wake-up
/// for each of thousands would cost more than the calls.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// The shortest sleep before the check of a connection.
const SHORTEST_SLEEP: Duration = Duration::from_millis(100);

/// The maximum number of buffers for one call on a socket. With GRO each may contain a hundred
/// datagrams and more.
const PLACES: usize = 16;

/// The number of messages after which timers and other sockets have their turn.
const ENOUGH: usize = 256;

/// The number of messages after which the clock is read again to measure the waiting time.
/// Datagrams received together may be many.
const GLANCE: usize = 64;

/// The running threads. Dropping it ends them.
pub(crate) struct Workers {
    ending: Arc<AtomicBool>,
    scheduler: Arc<Scheduler>,
    hub: Arc<Hub>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts `count` worker threads, each with its own sockets and connections of the hub, and as
    /// many handshake threads.
    ///
    /// # Errors
    /// The system gives no thread or no event descriptor.
    pub(crate) fn start(hub: &Arc<Hub>, count: usize) -> std::io::Result<Self> {
        let scheduler = Arc::new(Scheduler::new(count)?);
        let (ending, hub) = (Arc::default(), Arc::clone(hub));
        let mut workers = Self { ending, scheduler, hub, threads: Vec::new() };
        for index in 0..count {
            let (hub, scheduler) = (Arc::clone(&workers.hub), Arc::clone(&workers.scheduler));
            let ending = Arc::clone(&workers.ending);
            let thread = std::thread::Builder::new()
                .name(format!("worker-{index}"))
                .spawn(move || run(&hub, index, &scheduler, &ending))?;
            workers.threads.push(thread);
            let (hub, ending) = (Arc::clone(&workers.hub), Arc::clone(&workers.ending));
            let thread = std::thread::Builder::new()
                .name(format!("handshake-{index}"))
                .spawn(move || shake_hands(&hub, &ending))?;
            workers.threads.push(thread);
        }
        Ok(workers)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::SeqCst);
        self.scheduler.wake_all();
        self.hub.connections.wake_handshakes();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn run(hub: &Hub, index: usize, scheduler: &Scheduler, ending: &AtomicBool) {
    if let Err(error) = net::take_short_turns() {
        log::info("turns", || format!("worker {index} has no short time slices: {error}"));
    }
    let mut served = match Served::new(hub, index, scheduler) {
        Ok(served) => served,
        Err(error) => return cannot_wait(index, &error),
    };
    let mut state = WorkerState::new(&served);
    while !ending.load(Ordering::SeqCst) {
        let ready = match served.wait(state.sleep(&served)) {
            Ok(ready) => ready,
            Err(error) => return cannot_wait(index, &error),
        };
        let woken = hub.clock.now();
        let (share, was_shedding) = (state.local.worker.share(), state.local.worker.is_shedding());
        let was_woken = state.serve(&served, ready, woken);
        state.work_off(&served, woken);
        hub.pass_digits(&mut state.local);
        state.end_calls(&served);
        state.run_timers(&served);
        let is_reassigned = state.report(&served, was_woken, woken);
        if is_reassigned {
            state.renew(&mut served);
        }
        if is_reassigned || state.local.worker.share() != share {
            admit(&served, state.local.worker.share());
        }
        tell(was_shedding, state.local.worker.is_shedding());
    }
}

/// Makes TLS handshakes until `ending` is set, with a lower priority than the workers.
fn shake_hands(hub: &Hub, ending: &AtomicBool) {
    if let Err(error) = net::give_way() {
        log::warn("turns", || format!("TLS handshakes have the priority of messages: {error}"));
    }
    hub.connections.shake_hands(ending);
}

/// The state of a worker.
struct WorkerState {
    local: Local,
    inbox: Inbox,
    /// The number of buffers used for the next call on a socket.
    places: usize,
    chunk: [u8; READ_SIZE],
    load: LoadMeter,
    /// The time at which the engine's timers run. `None` if the worker leaves them to others.
    next_timer: Option<Instant>,
    /// The checks of relayed calls. The first worker makes them.
    expiry: Option<Expiry>,
    /// The time at which the last turn ended.
    now: Instant,
    /// True if some of the assigned sources could not be registered.
    is_incomplete: bool,
}

impl WorkerState {
    fn new(served: &Served<'_>) -> Self {
        let hub = served.hub;
        let mut local = Local::new(served.index, &hub.engine);
        local.worker.set_clock(net::nanoseconds);
        let now = hub.clock.now();
        let mut state = Self {
            local,
            inbox: Inbox::new(PLACES, MAX_DATAGRAM),
            places: PLACES,
            chunk: [0; READ_SIZE],
            load: LoadMeter::new(now),
            next_timer: None,
            expiry: (served.index == 0).then(|| Expiry::new(now)),
            now,
            is_incomplete: false,
        };
        // Bindings may have been restored, with their expiry timers.
        state.next_timer = state.next_tick(served);
        state
    }

    /// The time at which the engine's timers run. An inactive worker leaves them to the others.
    fn next_tick(&self, served: &Served<'_>) -> Option<Instant> {
        let next = served.hub.next_timer(&self.local);
        next.filter(|_| !served.owners.is_empty()).map(tick_after)
    }

    /// The milliseconds to sleep if no event occurs.
    fn sleep(&self, served: &Served<'_>) -> u64 {
        // After an overload an idle worker ends throttling at once, even without new events.
        let longest = match self.local.worker.is_throttling() {
            _ if served.has_backlog() => 0,
            true => Throttle::step().as_millis(),
            false => LONGEST_SLEEP_MS,
        };
        // The checks of connections are delayed a little, to avoid a wake-up for each of them.
        let next_due = served.next_due().map(|when| when.max(self.now + SHORTEST_SLEEP));
        let relay = self.expiry.as_ref().zip(served.hub.relay.as_deref());
        let next_check = relay.and_then(|(expiry, relay)| expiry.next_due(relay));
        let next = [self.next_timer, next_due, next_check].into_iter().flatten().min();
        next.map_or(longest, |when| when.since(self.now).as_micros().div_ceil(1000).min(longest))
    }

    /// Receives from the `ready` sources, each with true if an error is pending. Returns true if
    /// the worker was woken for a change of its assignment.
    fn serve<'h>(
        &mut self,
        served: &Served<'h>,
        ready: impl Iterator<Item = (Source<'h>, bool)> + Clone,
        woken: Instant,
    ) -> bool {
        let Self { local, inbox, places, chunk, .. } = self;
        let hub = served.hub;
        if !ready.clone().any(|(source, _)| matches!(source, Source::Datagrams(_))) {
            local.worker.note_wait(Transport::Udp, woken, Duration::ZERO);
        }
        let mut was_woken = false;
        for (source, has_error) in ready {
            match source {
                Source::Datagrams(socket) => {
                    if has_error {
                        take_errors(hub, socket, local);
                    }
                    receive_all(hub, socket, inbox, places, local);
                }
                Source::Connections(owner) => hub.connections.serve(hub, owner, local, chunk),
                Source::Media(media, owner) => media.serve(owner, &hub.clock, chunk),
                Source::Waker => {
                    served.scheduler.awake(served.index);
                    was_woken = true;
                }
            }
        }
        was_woken
    }

    /// Processes the backlogs of connections, and checks their timeouts.
    fn work_off(&mut self, served: &Served<'_>, woken: Instant) {
        let (hub, local) = (served.hub, &mut self.local);
        if served.has_backlog() {
            let now = hub.clock.now();
            local.worker.note_wait(Transport::Tcp, now, served.longest_wait(now));
            for &owner in &served.owners {
                hub.connections.work_off(hub, owner, local);
            }
        } else {
            local.worker.note_wait(Transport::Tcp, woken, Duration::ZERO);
        }
        for &owner in &served.owners {
            hub.connections.look_after(hub, owner, woken, local);
        }
    }

    /// Ends the relayed calls that are over by their limits.
    fn end_calls(&mut self, served: &Served<'_>) {
        let hub = served.hub;
        let (Some(expiry), Some(relay)) = (&mut self.expiry, &hub.relay) else { return };
        let now = hub.clock.now();
        for call in expiry.end_calls(relay, now) {
            log::info("media", || {
                let call_id = String::from_utf8_lossy(&call.call_id).into_owned();
                format!("the relay of call {call_id} ends: it {}", call.fault())
            });
            let Local { worker, out, .. } = &mut self.local;
            worker.expire(now, call, out);
            hub.carry_out(&mut self.local);
        }
    }

    /// Runs the engine's timers, if they are due.
    fn run_timers(&mut self, served: &Served<'_>) {
        let hub = served.hub;
        self.now = hub.clock.now();
        self.next_timer = self.next_tick(served);
        if self.next_timer.is_none_or(|when| when > self.now) {
            return;
        }
        hub.on_timer(self.now, &mut self.local);
        hub.carry_out(&mut self.local);
        // A timer stays due while another thread holds its state. The pause avoids a busy loop.
        self.next_timer = self.next_tick(served).map(|when| when.max(self.now + TICK));
        self.now = hub.clock.now();
    }

    /// Reports the load since `woken` to the scheduler, and leaves connections if the worker is
    /// dismissed. Returns true if the sources are to be registered anew.
    fn report(&mut self, served: &Served<'_>, was_woken: bool, woken: Instant) -> bool {
        let Served { scheduler, index, .. } = *served;
        let has_left = scheduler.leave(index);
        let was_reassigned = self.load.note(scheduler, index, woken, self.now);
        was_woken || has_left || was_reassigned || self.is_incomplete
    }

    /// Registers the sources that the scheduler assigns now.
    fn renew(&mut self, served: &mut Served<'_>) {
        let renewed = served.renew().inspect_err(|error| cannot_wait(served.index, error));
        self.is_incomplete = renewed.is_err();
        self.next_timer = self.next_tick(served);
    }
}

fn cannot_wait(index: usize, error: &std::io::Error) {
    log::error("wait", || format!("worker {index} cannot wait for messages: {error}"));
}

/// Admits `share` of the new requests.
fn admit(served: &Served<'_>, share: Share) {
    let sockets = served.hub.sockets.iter().flat_map(|group| group.iter().enumerate());
    for (_, socket) in sockets.filter(|(owner, _)| served.owners.contains(owner)) {
        if let Err(error) = socket.admit(share.parts(), &BEGUN) {
            log::warn("overload", || {
                format!("the packet filter of {} cannot be set: {error}", socket.address())
            });
        }
    }
}

/// Logs the start and the end of an overload that drops requests.
fn tell(was_shedding: bool, is_shedding: bool) {
    if is_shedding && !was_shedding {
        log::warn("overload", || {
            "overload: a part of the new requests is left unread or dropped until it is over; \
             existing calls and dialogs continue"
                .to_owned()
        });
    } else if was_shedding && !is_shedding {
        log::info("overload", || "the overload is over: all requests are read again".to_owned());
    }
}

/// Handles ICMP errors for datagrams sent with `socket`, or with another socket of its address.
fn take_errors(hub: &Hub, socket: &Socket, local: &mut Local) {
    let now = hub.clock.now();
    let Local { worker, out, .. } = &mut *local;
    socket.undelivered(|undelivered| {
        worker.unreachable(now, undelivered.remote, undelivered.payload, out);
    });
    hub.carry_out(local);
}

/// Receives from `socket`, up to [`ENOUGH`] messages, and processes the messages. `places` is the
/// number of buffers for one call.
fn receive_all(
    hub: &Hub,
    socket: &Socket,
    inbox: &mut Inbox,
    places: &mut usize,
    local: &mut Local,
) {
    let mut taken = 0;
    let share = local.worker.share();
    // A changed share is to be applied at once.
    while taken < ENOUGH && local.worker.share() == share {
        let asked = *places;
        match receive(hub, socket, inbox, asked, local) {
            Ok((used, messages)) => {
                taken += messages;
                *places = places_for_enough(used, messages).unwrap_or(asked);
                if used < asked {
                    break;
                }
            }
            Err(error) => {
                log::error("receive", || format!("{} cannot be read: {error}", socket.address()));
                break;
            }
        }
    }
}

/// The number of buffers that [`ENOUGH`] messages need, if the next call receives as many in each
/// as the last one, `messages` in `used` buffers. Returns `None` if the last call received none.
fn places_for_enough(used: usize, messages: usize) -> Option<usize> {
    Some((ENOUGH * used).checked_div(messages)?.clamp(1, PLACES))
}

/// Receives from `socket` into the given number of `places` of `inbox`, and processes the messages.
/// Returns the number of buffers used, and the number of messages.
fn receive(
    hub: &Hub,
    socket: &Socket,
    inbox: &mut Inbox,
    places: usize,
    local: &mut Local,
) -> std::io::Result<(usize, usize)> {
    let mut now = hub.clock.now();
    let mut wall = wall_clock();
    let mut count = 0;
    let used = inbox.receive_into(places, socket, |datagram| {
        let is_first = count % GLANCE == 0;
        if is_first && count > 0 {
            (now, wall) = (hub.clock.now(), wall_clock());
        }
        count += 1;
        let flow = Flow {
            transport: Transport::Udp,
            local: datagram.local,
            remote: datagram.remote,
            connection: None,
        };
        let waited =
            datagram.at.map_or(0, |at| wall.as_micros().saturating_sub(at.as_micros() as u64));
        let waited = Duration::from_micros(waited);
        if is_first {
            local.worker.note_wait(Transport::Udp, now, waited);
        }
        let sent = local.out.transmits.len();
        // Floods are dropped, and do not replace other messages of a trace.
        if !local.receive(now, waited, &flow, datagram.bytes) {
            hub.trace.received(local.index, &flow, datagram.bytes);
        }
        if local.out.transmits.len() > sent && local.worker.is_timing() {
            local.arrivals.extend(datagram.at);
        }
        if local.out.transmits.len() >= AT_ONCE {
            hub.carry_out(local);
        }
    });
    hub.carry_out(local);
    Ok((used?, count))
}

/// The time of the tick at which timers due at `when` run.
pub(crate) fn tick_after(when: Instant) -> Instant {
    let tick = TICK.as_micros();
    Instant::from_micros(when.as_micros().div_ceil(tick).saturating_mul(tick))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_runs_of_datagrams_are_taken_a_few_at_a_time() {
        let long = 128;
        for (used, messages, places) in [
            (0, 0, None),
            (1, 1, Some(PLACES)),
            (PLACES, PLACES, Some(PLACES)),
            (PLACES, PLACES * long, Some(2)),
            (1, long, Some(2)),
            (1, ENOUGH + 1, Some(1)),
        ] {
            assert_eq!(places_for_enough(used, messages), places, "{used} {messages}");
        }
    }
}
