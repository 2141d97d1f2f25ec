//! A thread of the generator with its clock, sockets and operations.

use super::arrivals::Arrivals;
use super::engine::{Engine, Party, Settings, Task};
use super::links::{self, LinkCounts, LinkError, LinkPlan, Links};
use super::tally::{Outcome, Tally};
use crate::cpu::Cpu;
use crate::record::Second;
use hdrhistogram::Histogram as Hdr;
use net::Clock;
use sip::{Duration, Instant};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The number of messages after which the output is sent.
const FLUSH: usize = 32;
/// The most operations started, and the most batches received, before the other kind of work gets
/// its turn.
const STARTS: usize = 64;
const BATCHES: usize = 4;
/// The number of operations that a worker starts per tick, unless ticks are set. A wake-up costs as
/// much as several starts; more starts at once would make a bursty load.
const TOGETHER: f64 = 16.0;
const SHORTEST_TICK: Duration = Duration::from_micros(100);
const LONGEST_TICK: Duration = Duration::from_millis(2);
/// The number of concurrent removals of bindings at the end, and the longest silence of the server
/// then.
const LOGGING_OUT: usize = 100;
const LOGOUT_PATIENCE: Duration = Duration::from_secs(5);
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
    /// Operations that were started after that.
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

    /// Runs `task` in a closed loop with at most `window` operations at a time. All operations are
    /// measured.
    pub(crate) fn closed_loop(&mut self, task: Task, window: usize, bound: Bound) -> Found {
        let start = self.clock.now();
        let timers = self.longest;
        self.begin(Tally::new(start, start..Instant::MAX));
        let (cpu, links) = (Cpu::of_thread(), self.links.counts());
        let users = self.engine.parties();
        let callers = users.div_ceil(2);
        let (first, count, end) = match bound {
            Bound::EachUser => (0, users, Instant::MAX),
            Bound::EachCaller => (0, callers, Instant::MAX),
            Bound::EachCallee => (callers, users - callers, Instant::MAX),
            Bound::For(span) => (0, usize::MAX, start + span),
        };
        let mut started = 0;
        let mut last_progress = start;
        loop {
            let now = self.clock.now();
            let may_start = started < count && now < end && !self.is_stopped(now);
            while may_start && started < count && self.engine.in_flight() < window {
                self.start(now, now, task, (first + started) as u32);
                started += 1;
                last_progress = now;
            }
            self.flush();
            let is_more = self.pump();
            self.count_refusals(now);
            let in_flight = self.engine.in_flight();
            let is_silent = in_flight > 0 && now.since(self.heard.unwrap_or(start)) > self.patience;
            let is_over = in_flight == 0 || now.since(last_progress) > timers;
            if (!may_start && is_over) || is_silent || self.is_gone() {
                break;
            }
            if !is_more && in_flight > 0 {
                self.links.wait_for_messages(self.until_timer(now));
            }
        }
        self.found(start, cpu, links)
    }

    /// Answers the calls of the sender with the salt `salt` until it has ended. They are operations
    /// of the sender, and are not counted here.
    pub(crate) fn answer(&mut self, salt: u32) -> Found {
        let start = self.clock.now();
        self.begin(Tally::new(start, start..start));
        let (cpu, links) = (Cpu::of_thread(), self.links.counts());
        self.engine.answer_calls_of(salt);
        while !self.shared.enough.load(Ordering::Relaxed) && !self.shared.is_over() {
            if !self.pump() {
                self.links.wait_for_messages(self.until_timer(self.clock.now()));
            }
        }
        self.found(start, cpu, links)
    }

    /// Removes the bindings that this worker has made, also after an early end. It gives up on a
    /// server that is silent for [`LOGOUT_PATIENCE`].
    pub(crate) fn log_out(&mut self) {
        if self.is_gone() {
            return;
        }
        let mut last_progress = self.clock.now();
        self.engine.begin(Tally::new(last_progress, last_progress..last_progress));
        let users = 0..self.engine.parties() as u32;
        let registered = users.filter(|&user| self.engine.is_registered(user, last_progress));
        let mut users: Vec<u32> = registered.collect();
        let mut left = users.len();
        while left > 0 {
            let now = self.clock.now();
            while self.engine.in_flight() < LOGGING_OUT
                && let Some(user) = users.pop()
            {
                self.start(now, now, Task::Logout, user);
            }
            self.flush();
            let is_more = self.pump();
            let still = users.len() + self.engine.in_flight();
            if still < left {
                (left, last_progress) = (still, now);
            } else if now.since(last_progress) > LOGOUT_PATIENCE {
                break;
            }
            if !is_more && left > 0 {
                self.links.wait_for_messages(self.until_timer(now));
            }
        }
        self.engine.abandon(self.clock.now());
        self.flush();
    }

    /// Runs the operations of each user in a cycle.
    pub(crate) fn cycle(&mut self, plan: &CyclePlan) -> Found {
        self.begin(Tally::new(plan.start, plan.start..Instant::MAX));
        self.engine.ended = Some(Vec::new());
        let (cpu, links) = (Cpu::of_thread(), self.links.counts());
        let users = self.engine.parties() as u64;
        let tick = self
            .tick
            .unwrap_or_else(|| tick_for(users as f64 * 1e6 / plan.spread.as_micros() as f64));
        let end = plan.start + plan.length;
        let mut starts: BinaryHeap<_> = (0..users)
            .map(|user| {
                let offset = plan.spread.as_micros() * user / users;
                Reverse((plan.start + Duration::from_micros(offset), user as u32))
            })
            .collect();
        let mut second = 0;
        loop {
            let now = self.clock.now();
            let mut count = 0;
            while let Some(&Reverse((at, user))) = starts.peek()
                && at <= now
                && count < STARTS
            {
                starts.pop();
                self.start(now, at, plan.task, user);
                count += 1;
            }
            self.flush();
            let is_more = self.pump() || count == STARTS;
            let now = self.clock.now();
            for (user, outcome) in self.engine.ended.iter_mut().flat_map(|ended| ended.drain(..)) {
                let pause = match outcome {
                    Outcome::Succeeded => plan.interval,
                    _ => plan.wait,
                };
                let next = tick_at(now + pause, tick);
                if next < end {
                    starts.push(Reverse((next, user)));
                }
            }
            let number = now.since(plan.start).as_secs();
            if number != second {
                second = number;
                self.tell(now, number);
            }
            self.count_refusals(now);
            let in_flight = self.engine.in_flight();
            let is_over = self.is_stopped(now) || now > end + plan.drain;
            if is_over || (starts.is_empty() && in_flight == 0) {
                break;
            }
            if !is_more {
                let next = starts.peek().map(|&Reverse((at, _))| at);
                self.wait(now, next, in_flight, tick);
            }
        }
        self.engine.ended = None;
        self.found(plan.start, cpu, links)
    }

    /// Runs a load.
    pub(crate) fn load(&mut self, plan: &LoadPlan) -> Found {
        self.begin(Tally::new(plan.origin, plan.measured.clone()));
        let (cpu, links) = (Cpu::of_thread(), self.links.counts());
        let tick = self.tick.unwrap_or_else(|| tick_for(plan.arrivals.peak()));
        let mut arrivals = plan.arrivals.clone().map(|offset| tick_at(plan.start + offset, tick));
        let mut next = arrivals.next();
        let mut user = plan.first_user;
        let mut last_start = plan.start;
        if plan.start == plan.origin {
            self.unfinished = None;
        }
        let begun = plan.start.since(plan.origin).as_secs();
        let mut second = self.unfinished.as_ref().map_or(begun, |glance| glance.number);
        let mut busy = None;
        loop {
            let now = self.clock.now();
            let mut starts = 0;
            while let Some(at) = next.filter(|&at| at <= now && starts < STARTS) {
                self.start(now, at, plan.task, user);
                user = user.wrapping_add(1);
                starts += 1;
                last_start = at;
                next = arrivals.next();
            }
            if next.is_some() && self.is_stopped(now) {
                next = None;
            }
            while next.is_some()
                && starts < STARTS
                && let Some(user) = self.engine.refresh_due(now)
            {
                self.start(now, now, Task::Refresh, user);
                starts += 1;
            }
            if next.is_none() && busy.is_none() {
                busy = Some(busy_share(Cpu::of_thread().since(cpu), now.since(plan.start)));
            }
            self.flush();
            let is_more = self.pump() || starts == STARTS;
            let number = now.since(plan.origin).as_secs();
            if number != second {
                second = number;
                self.tell(now, number);
            }
            self.count_refusals(now);
            let in_flight = self.engine.in_flight();
            let is_over = in_flight == 0 || now > last_start + plan.drain || self.is_gone();
            if next.is_none() && is_over {
                break;
            }
            if !is_more {
                self.wait(now, next, in_flight, tick);
            }
        }
        let last = self.clock.now().min(last_start).since(plan.origin).as_secs();
        self.unfinished = Some(self.glance(last.max(second)));
        let mut found = self.found(plan.start, cpu, links);
        found.busy = busy.unwrap_or(found.busy);
        found.tally.counts().connections = found.links.connections;
        found
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
