//! The loads of a worker: open and closed loops, cycles of users, and the removal of bindings.

use super::{Bound, CyclePlan, Found, LoadPlan, Worker, busy_share, tick_at, tick_for};
use crate::cpu::Cpu;
use crate::load::engine::Task;
use crate::load::tally::{Outcome, Tally};
use sip::{Duration, Instant};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::Ordering;

/// The most operations started before messages are received.
const STARTS: usize = 64;
/// The number of concurrent removals of bindings at the end, and the longest silence of the server
/// then.
const LOGGING_OUT: usize = 100;
const LOGOUT_PATIENCE: Duration = Duration::from_secs(5);

impl Worker {
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
}
