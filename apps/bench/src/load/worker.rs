//! A thread of the generator with its clock, sockets and operations.

mod loads;

use super::arrivals::Arrivals;
use super::engine::{Engine, Party, Settings, Task};
use super::links::{self, LinkCounts, LinkError, LinkPlan, Links};
use super::tally::Tally;
use crate::cpu::Cpu;
use crate::record::Second;
use hdrhistogram::Histogram as Hdr;
use net::Clock;
use sip::{Duration, Instant};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The number of messages after which the output is sent.
const FLUSH: usize = 32;
/// The most batches received before operations are started.
const BATCHES: usize = 4;
/// The number of operations that a worker starts per tick, unless ticks are set. A wake-up costs as
/// much as several starts; more starts at once would make a bursty load.
const TOGETHER: f64 = 16.0;
const SHORTEST_TICK: Duration = Duration::from_micros(100);
const LONGEST_TICK: Duration = Duration::from_millis(2);
/// The longest sleep with operations under way and without ticks.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);
/// The time for which the server may refuse messages and send nothing before the load ends; longer
/// than a restart.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(3);
/// The interval of checks for refusals.
const REFUSAL_INTERVAL: Duration = Duration::from_millis(500);
/// The longest wait of a closed loop for any message, in units of T1; within it an unanswered
/// request is sent five times.
const SILENCE_PATIENCE: u64 = 20;

/// The configuration of a worker.
#[derive(Clone, Debug)]
pub(crate) struct WorkerPlan {
    pub(crate) settings: Settings,
    /// Names and passwords of the worker's users.
    pub(crate) users: Vec<(String, String)>,
    pub(crate) links: LinkPlan,
    /// The tick; `None` derives it from the rate, zero means no ticks.
    pub(crate) tick: Option<Duration>,
}

/// The share of one worker in a load.
#[derive(Clone, Debug)]
pub(crate) struct LoadPlan {
    pub(crate) task: Task,
    /// The start of the counted series; earlier than `start` if other passes preceded.
    pub(crate) origin: Instant,
    pub(crate) start: Instant,
    pub(crate) arrivals: Arrivals,
    /// The scheduled times of measured operations.
    pub(crate) measured: Range<Instant>,
    /// The time to wait for operations under way after the last start.
    pub(crate) drain: Duration,
    /// The user of the first operation; the others follow in turn.
    pub(crate) first_user: u32,
}

/// The extent of a closed loop. In a closed loop an operation starts when another has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// One operation for each user.
    EachUser,
    /// One call for each of the first half of the users to the other half.
    EachCaller,
    /// One operation for each of the other half.
    EachCallee,
    /// As many operations as fit into this time.
    For(Duration),
}

/// Independent users with periodic operations.
#[derive(Clone, Debug)]
pub(crate) struct CyclePlan {
    pub(crate) task: Task,
    pub(crate) start: Instant,
    /// The time over which the starts of the users are spread.
    pub(crate) spread: Duration,
    /// The time from the end of a successful operation to the next, and from the end of a failed
    /// one.
    pub(crate) interval: Duration,
    pub(crate) wait: Duration,
    /// The time from the start after which no operation starts.
    pub(crate) length: Duration,
    /// The time to wait for operations under way after that.
    pub(crate) drain: Duration,
}

/// The result of a worker.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) tally: Tally,
    pub(crate) cpu: Cpu,
    /// The time until the end of the last operation.
    pub(crate) elapsed: Duration,
    /// The share of CPU time up to the start of the last operation. The wait for lost operations is
    /// excluded, since it would lower the share.
    pub(crate) busy: f64,
    pub(crate) links: LinkCounts,
    /// The number of sockets.
    pub(crate) sockets: usize,
    /// The time of the last message from the start; `None` if no message came.
    pub(crate) heard: Option<Duration>,
    /// Operations that were started after the last received message.
    pub(crate) unheard: u64,
    /// The time from the start at which the load was ended early.
    pub(crate) stopped: Option<Duration>,
}

/// A snapshot of a running worker.
#[derive(Clone, Debug)]
pub(crate) struct Glance {
    /// The last complete second.
    pub(crate) second: Second,
    /// The delays of its operations.
    pub(crate) response: Hdr<u64>,
    /// The number of the second, from the start of the load.
    pub(crate) number: u64,
}

/// The state that is shared with the other threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared {
    /// The last second of each worker.
    pub(crate) glances: Arc<Mutex<Vec<Option<Glance>>>>,
    /// Set to end the load early.
    pub(crate) ending: Arc<AtomicBool>,
    /// Set when the server is unreachable: the load ends without waiting for operations under way.
    pub(crate) gone: Arc<AtomicBool>,
    /// Set when the sender of the calls that are answered here has ended.
    pub(crate) enough: Arc<AtomicBool>,
}

impl Shared {
    /// Returns true if the load is to end early.
    pub(crate) fn is_over(&self) -> bool {
        self.ending.load(Ordering::Relaxed) || self.gone.load(Ordering::Relaxed)
    }
}

/// A worker with open sockets.
pub(crate) struct Worker {
    engine: Engine,
    links: Links,
    clock: Clock,
    tick: Option<Duration>,
    index: usize,
    shared: Shared,
    /// The fields of [`Found`] for the current load.
    began: Instant,
    heard: Option<Instant>,
    unheard: u64,
    stopped: Option<Instant>,
    /// The time of the last check for refusals, and their number then.
    refusals: (Instant, u64),
    /// The counts of earlier passes in the current second.
    unfinished: Option<Glance>,
    /// The longest duration of an operation: the timers of its transactions, and the length of a
    /// call.
    longest: Duration,
    /// The longest wait of a closed loop for any message.
    patience: Duration,
}

impl Worker {
    /// Opens the sockets of worker `index`.
    ///
    /// # Errors
    /// [`LinkError`] if a socket cannot be opened.
    pub(crate) fn new(
        plan: WorkerPlan,
        index: usize,
        clock: Clock,
        shared: Shared,
    ) -> Result<Self, LinkError> {
        let links = Links::open(&plan.links, clock)?;
        let parties = plan.users.into_iter().enumerate().map(|(index, (name, password))| Party {
            name,
            password,
            link: links.link_of(index),
            way: links.way_of(index),
        });
        let Settings { timers, hold, ring, .. } = &plan.settings;
        let longest = timers.t1.times(64) + Duration::from_secs(8) + *hold + *ring;
        let patience = timers.t1.times(SILENCE_PATIENCE) + *hold + *ring;
        let engine = Engine::new(plan.settings, parties.collect(), links.places(), clock.now());
        // A timer slack of 1 ns makes sleeps end on time; without the permission they end a little
        // later.
        let _ = nix::sys::prctl::set_timerslack(1);
        let (heard, stopped) = (None, None);
        Ok(Self {
            engine,
            links,
            clock,
            tick: plan.tick,
            index,
            shared,
            began: Instant::ZERO,
            heard,
            unheard: 0,
            stopped,
            refusals: (Instant::ZERO, 0),
            unfinished: None,
            longest,
            patience,
        })
    }

    fn begin(&mut self, tally: Tally) {
        self.engine.begin(tally);
        (self.heard, self.unheard, self.stopped) = (None, 0, None);
        self.began = self.clock.now();
        self.refusals = (self.began, self.links.counts().refused);
    }

    /// Returns true if the server is unreachable.
    fn is_gone(&self) -> bool {
        self.shared.gone.load(Ordering::Relaxed)
    }

    /// Checks at intervals for refusals: the server is unreachable if its machine refuses messages
    /// and no message came for [`REFUSAL_PATIENCE`].
    fn count_refusals(&mut self, now: Instant) {
        let (last, before) = self.refusals;
        if now.since(last) < REFUSAL_INTERVAL {
            return;
        }
        let count = self.links.counts().refused;
        self.refusals = (now, count);
        let silence = now.since(self.heard.unwrap_or(self.began));
        if count > before && self.unheard > 0 && silence > REFUSAL_PATIENCE {
            self.shared.gone.store(true, Ordering::Relaxed);
        }
    }

    /// Returns true if the load is to end early, and records the time.
    fn is_stopped(&mut self, now: Instant) -> bool {
        let is_stopped = self.shared.is_over();
        if is_stopped {
            self.stopped.get_or_insert(now);
        }
        is_stopped
    }

    fn found(&mut self, start: Instant, cpu: Cpu, links: LinkCounts) -> Found {
        let now = self.clock.now();
        self.engine.abandon(now);
        self.flush();
        let after = self.links.counts();
        let empty = Tally::new(now, now..now);
        let (cpu, elapsed) = (Cpu::of_thread().since(cpu), now.since(start));
        Found {
            tally: std::mem::replace(&mut self.engine.tally, empty),
            cpu,
            elapsed,
            busy: busy_share(cpu, elapsed),
            links: after.since(links),
            sockets: self.links.len(),
            heard: self.heard.map(|at| at.since(start)),
            unheard: self.unheard,
            stopped: self.stopped.map(|at| at.since(start)),
        }
    }

    fn start(&mut self, now: Instant, scheduled: Instant, task: Task, user: u32) {
        let link = self.links.link_for_operation();
        self.unheard += 1;
        self.engine.start(now, scheduled, task, user, link);
        if self.engine.out.transmits.len() >= FLUSH {
            self.flush();
        }
    }

    /// Receives messages and handles due timers. Returns true if there may be more messages.
    fn pump(&mut self) -> bool {
        let mut is_more = true;
        let mut now = self.clock.now();
        for _ in 0..BATCHES {
            let Self { engine, links, clock, heard, unheard, .. } = self;
            now = clock.now();
            is_more = links.receive(&mut |message| {
                (*heard, *unheard) = (Some(message.received), 0);
                engine.receive(message.received, now, message.link, message.remote, message.bytes);
            });
            now = clock.now();
            self.flush();
            if !is_more {
                break;
            }
        }
        if self.engine.next_timer().is_some_and(|when| when <= now) {
            self.engine.on_timer(now);
            self.flush();
        }
        is_more
    }

    fn flush(&mut self) {
        let out = &self.engine.out;
        if out.transmits.is_empty() && out.closed.is_empty() {
            return;
        }
        // The time is taken before sending: the response may arrive before the call returns.
        self.engine.sent(self.clock.now());
        self.links.send(&mut self.engine.out);
        self.engine.out.clear();
    }

    fn until_timer(&self, now: Instant) -> Duration {
        self.engine.next_timer().map_or(LONGEST_SLEEP, |when| when.since(now)).min(LONGEST_SLEEP)
    }

    fn wait(&mut self, now: Instant, next: Option<Instant>, in_flight: usize, tick: Duration) {
        let until_next = next.map_or(LONGEST_SLEEP, |at| at.since(now)).min(LONGEST_SLEEP);
        if tick == Duration::ZERO {
            self.links.wait_for_messages(until_next.min(self.until_timer(now)));
            return;
        }
        let next_tick = tick_at(now + Duration::from_micros(1), tick).since(now);
        let longest = if in_flight > 0 { next_tick.min(until_next) } else { until_next };
        if self.links.are_timed() {
            links::sleep(longest);
        } else {
            // The time of receipt is that of reading, so a sleep would make it late.
            self.links.wait_for_messages(longest);
        }
    }

    /// Returns the counts of a second, including those of earlier passes in it.
    fn glance(&self, number: u64) -> Glance {
        let (mut second, mut response) = self.engine.tally.at_second(number);
        if let Some(before) = self.unfinished.as_ref().filter(|before| before.number == number) {
            second.offered += before.second.offered;
            second.succeeded += before.second.succeeded;
            second.failed += before.second.failed;
            second.retransmitted += before.second.retransmitted;
            // The histogram resizes itself, so adding cannot fail.
            let _ = response.add(&before.response);
        }
        second.in_flight = self.engine.in_flight() as u64;
        Glance { second, response, number }
    }

    /// Publishes the last second.
    fn tell(&mut self, now: Instant, number: u64) {
        self.engine.tally.in_flight(now, self.engine.in_flight());
        let Some(number) = number.checked_sub(1) else { return };
        let glance = self.glance(number);
        self.unfinished = None;
        let mut glances = self.shared.glances.lock().unwrap_or_else(PoisonError::into_inner);
        if glances.len() <= self.index {
            glances.resize(self.index + 1, None);
        }
        glances[self.index] = Some(glance);
    }
}

fn busy_share(cpu: Cpu, elapsed: Duration) -> f64 {
    // A very short start phase is no overload, so the time is at least 100 ms.
    cpu.total() as f64 / elapsed.max(Duration::from_millis(100)).as_micros() as f64
}

/// Returns the default tick of a worker that starts `rate` operations per second.
pub(crate) fn tick_for(rate: f64) -> Duration {
    let micros = TOGETHER / rate.max(1.0) * 1e6;
    Duration::from_micros(micros as u64).clamp(SHORTEST_TICK, LONGEST_TICK)
}

/// Returns the first tick that is not before `when`.
fn tick_at(when: Instant, tick: Duration) -> Instant {
    match tick.as_micros() {
        0 => when,
        tick => Instant::from_micros(when.as_micros().div_ceil(tick) * tick),
    }
}
