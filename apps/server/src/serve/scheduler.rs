//! The scheduler of the workers: the first worker alone under low load, so that the others sleep
//! and messages arrive in larger batches; all workers under high load.
//!
//! All active workers read from all UDP sockets. The datagrams of one peer may be processed
//! concurrently, as UDP keeps no order anyway. Streams keep their order: each connection has an
//! owner, and one worker serves it at a time.

use nix::sys::eventfd::EventFd;
use sip::{Duration, Instant};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// The period over which the load is measured, before workers are activated or dismissed.
const WINDOW: Duration = Duration::from_millis(5);
/// The load of the first worker, in thousandths, from which the others are activated.
const CALL: u32 = 200;
/// The total load of all workers, in thousandths of one worker, up to which the others are
/// dismissed.
const DISMISS: u32 = 150;

/// The state of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Duty {
    /// Inactive: the first worker serves its connections.
    Off,
    On,
    /// Active, but to leave its connections to the first worker.
    Dismissed,
}

/// The state of one worker.
#[derive(Debug)]
struct Place {
    duty: AtomicU8,
    /// The load in the last period, in thousandths of its time.
    busy: AtomicU32,
    waker: EventFd,
}

/// The assignment of sockets and connections to workers.
#[derive(Debug)]
pub(super) struct Scheduler(Vec<Place>);

impl Scheduler {
    pub(super) fn new(workers: usize) -> io::Result<Self> {
        let place = |_| {
            let (duty, busy) = (AtomicU8::new(Duty::Off as u8), AtomicU32::new(0));
            Ok(Place { duty, busy, waker: EventFd::new()? })
        };
        (0..workers).map(place).collect::<io::Result<_>>().map(Self)
    }

    /// The descriptor that wakes the worker at `index`.
    pub(super) fn waker(&self, index: usize) -> BorrowedFd<'_> {
        self.0[index].waker.as_fd()
    }

    /// Wakes all workers.
    pub(super) fn wake_all(&self) {
        (0..self.0.len()).for_each(|index| self.wake(index));
    }

    fn wake(&self, index: usize) {
        // If that fails, the worker wakes by its timeout within a second.
        let _ = self.0[index].waker.write(1);
    }

    /// Resets the waker of the worker at `index`.
    pub(super) fn awake(&self, index: usize) {
        let _ = self.0[index].waker.read();
    }

    /// The owners of the connections that the worker at `index` serves now. Empty if it is
    /// inactive.
    pub(super) fn served_by(&self, index: usize) -> Vec<usize> {
        (0..self.0.len()).filter(|&owner| self.serves(index, owner)).collect()
    }

    fn serves(&self, index: usize, owner: usize) -> bool {
        match (index, owner) {
            (0, 0) => true,
            (0, _) => self.duty(owner) == Duty::Off as u8,
            _ => index == owner && self.duty(owner) != Duty::Off as u8,
        }
    }

    fn duty(&self, index: usize) -> u8 {
        // Acquire: a worker that takes over connections sees all earlier changes to them.
        self.0[index].duty.load(Ordering::Acquire)
    }

    fn set(&self, index: usize, from: Duty, to: Duty) -> bool {
        let duty = &self.0[index].duty;
        duty.compare_exchange(from as u8, to as u8, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Reports that the worker at `index` was busy for `busy` of a `window`. Returns true if the
    /// assignment has changed.
    fn report(&self, index: usize, busy: Duration, window: Duration) -> bool {
        let share = busy.as_micros() * 1000 / window.as_micros().max(1);
        let share = u32::try_from(share).unwrap_or(u32::MAX).min(1000);
        self.0[index].busy.store(share, Ordering::Relaxed);
        if index > 0 {
            return false;
        }
        let others = 1..self.0.len();
        if share >= CALL {
            let called = others.filter(|&other| self.set(other, Duty::Off, Duty::On));
            return called.map(|other| self.wake(other)).count() > 0;
        }
        let together: u32 = self.0.iter().map(|place| place.busy.load(Ordering::Relaxed)).sum();
        if together <= DISMISS {
            others
                .filter(|&other| self.set(other, Duty::On, Duty::Dismissed))
                .for_each(|other| self.wake(other));
        }
        false
    }

    /// Leaves the connections of the worker at `index` to the first worker, if it is dismissed.
    /// Called between messages.
    pub(super) fn leave(&self, index: usize) -> bool {
        let left = self.set(index, Duty::Dismissed, Duty::Off);
        if left {
            self.0[index].busy.store(0, Ordering::Relaxed);
            self.wake(0);
        }
        left
    }
}

/// The meter of the load of a worker.
pub(super) struct LoadMeter {
    since: Instant,
    busy: Duration,
}

impl LoadMeter {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, busy: Duration::ZERO }
    }

    /// Notes that the worker at `index` woke at `woken` and finished its work at `now`. Returns
    /// true if the assignment has changed.
    pub(super) fn note(
        &mut self,
        scheduler: &Scheduler,
        index: usize,
        woken: Instant,
        now: Instant,
    ) -> bool {
        self.busy = self.busy + now.since(woken);
        let window = now.since(self.since);
        if window < WINDOW {
            return false;
        }
        let changed = scheduler.report(index, self.busy, window);
        *self = Self::new(now);
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_first_worker_serves_all_until_it_is_busy() {
        let scheduler = Scheduler::new(3).unwrap();
        assert_eq!(scheduler.served_by(0), [0, 1, 2]);
        assert!(!scheduler.report(0, micros(900), millis(5)));
        assert_eq!((scheduler.served_by(0), scheduler.served_by(1)), (vec![0, 1, 2], vec![]));
        assert!(scheduler.report(0, micros(1000), millis(5)));
        for index in 0..3 {
            assert_eq!(scheduler.served_by(index), [index]);
        }
    }

    #[test]
    fn others_go_home_when_all_together_have_little_to_do() {
        let scheduler = Scheduler::new(3).unwrap();
        scheduler.report(0, millis(5), millis(5));
        scheduler.report(1, micros(300), millis(5));
        scheduler.report(2, micros(300), millis(5));
        scheduler.report(0, micros(300), millis(5));
        assert!(!scheduler.leave(1), "0.18 of a worker's time is too much for one");
        scheduler.report(1, micros(100), millis(5));
        scheduler.report(2, micros(100), millis(5));
        scheduler.report(0, micros(300), millis(5));
        assert_eq!(scheduler.served_by(0), [0], "nothing is taken from a worker that is at it");
        assert_eq!(scheduler.served_by(1), [1]);
        assert!(scheduler.leave(1) && scheduler.leave(2));
        assert_eq!((scheduler.served_by(0), scheduler.served_by(1)), (vec![0, 1, 2], vec![]));
        assert!(!scheduler.leave(1));
    }

    #[test]
    fn one_that_was_dismissed_is_called_again_only_once_it_has_left() {
        let scheduler = Scheduler::new(3).unwrap();
        scheduler.report(0, millis(5), millis(5));
        scheduler.report(0, millis(0), millis(5));
        assert!(!scheduler.report(0, millis(5), millis(5)), "it serves its own still");
        assert!(scheduler.leave(1));
        assert!(scheduler.report(0, millis(5), millis(5)));
        assert_eq!(scheduler.served_by(1), [1]);
    }

    #[test]
    fn time_is_reported_a_window_at_a_time() {
        let scheduler = Scheduler::new(3).unwrap();
        let at = |micros: u64| Instant::from_micros(1_000_000 + micros);
        let mut meter = LoadMeter::new(at(0));
        assert!(!meter.note(&scheduler, 0, at(100), at(4900)));
        assert!(meter.note(&scheduler, 0, at(5000), at(5100)));
        assert!(!meter.note(&scheduler, 0, at(7000), at(10_100)));
    }
}
