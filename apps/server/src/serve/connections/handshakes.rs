//! The threads of TLS handshakes. They have a lower priority than the workers, so that a long
//! handshake does not delay SIP on UDP and on open connections.

use super::stream::Stream;
use super::turns::{Next, Turns};
use net::Clock;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use parking_lot::Mutex;
use sip::{Duration, Instant};
use sip_server::{Connection, Payers, Source};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak, mpsc};

/// The longest sleep of a thread: the upper bound of the delay after a missed wake-up.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// An upper bound of the number of handshake threads.
const MOST_THREADS: u64 = 1 << 16;

/// The payer for the processor time of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Payer {
    /// The source that opened the connection.
    Caller(Source),
    /// The destination to which this server opened the connection.
    Called(Source),
    /// The account of the source or the user of the request for which it was opened.
    Caused(u16),
}

/// All payers of one handshake. It waits for the one that has used most, or the last.
pub(super) type Charged = [Option<Payer>; 3];

impl Payer {
    fn of(stream: &Stream) -> Charged {
        let source = stream.counted_for();
        match stream.is_opened_here() {
            true => Self::of_call(source, stream.payers()),
            false => [Some(Self::Caller(source)), None, None],
        }
    }

    /// The payers of a connection that this server opens.
    fn of_call(called: Source, Payers { source, user }: Payers) -> Charged {
        [Some(Self::Called(called)), source.map(Self::Caused), user.map(Self::Caused)]
    }
}

/// A step of a handshake, to be made by a thread.
#[derive(Debug)]
struct Step {
    connection: Connection,
    charged: Charged,
    /// Not upgradable once the connection is closed.
    stream: Weak<Stream>,
}

impl Step {
    fn new(of: &Stream, stream: Weak<Stream>) -> Self {
        Self { connection: of.connection, charged: Payer::of(of), stream }
    }
}

impl PartialEq for Step {
    fn eq(&self, other: &Self) -> bool {
        self.connection == other.connection
    }
}

/// A change of the queue, which a worker sends to the handshake threads.
enum Change {
    /// Add a step.
    Push(Step),
    /// Remove a step.
    Remove(Step),
}

/// The connections that wait for a step of their handshake.
///
/// A worker takes no lock that a handshake thread may hold: these threads have a lower priority,
/// and the worker would wait for a preempted thread.
pub(super) struct Handshakes {
    changes: mpsc::Sender<Change>,
    /// A semaphore: each message adds one, which wakes one thread.
    waker: EventFd,
    /// Locked by the handshake threads only.
    queue: Mutex<Queue>,
}

struct Queue {
    changes: mpsc::Receiver<Change>,
    turns: Turns<Payer, Step>,
}

impl Queue {
    /// Takes the step that is due at `now`.
    fn next(&mut self, now: Instant) -> Next<Payer, Step> {
        while let Ok(change) = self.changes.try_recv() {
            match change {
                Change::Push(step) => self.push(step, now),
                Change::Remove(step) => {
                    let payers = step.charged.into_iter().flatten();
                    payers.for_each(|payer| self.turns.remove(payer, &step));
                }
            }
        }
        loop {
            match self.turns.next(now) {
                // Another payer of the step has used too much meanwhile.
                Next::Work(_, step) if self.is_over(&step, now) => self.push(step, now),
                next => return next,
            }
        }
    }

    fn push(&mut self, step: Step, now: Instant) {
        let payers = step.charged.into_iter().flatten();
        if let Some(payer) = self.turns.most_used(payers, now) {
            self.turns.push(payer, step, now);
        }
    }

    fn is_over(&self, step: &Step, now: Instant) -> bool {
        step.charged.iter().flatten().any(|payer| self.turns.is_over(payer, now))
    }

    /// Charges the `cost` of a step to all its payers.
    fn charge(&mut self, charged: Charged, cost: Duration, now: Instant) {
        charged.into_iter().flatten().for_each(|payer| self.turns.charge(payer, cost, now));
    }
}

impl Handshakes {
    /// Creates an empty queue.
    ///
    /// # Errors
    /// The system gives no event descriptor.
    pub(super) fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_SEMAPHORE;
        let waker = EventFd::from_flags(flags)?;
        let (changes, queue) = mpsc::channel();
        let queue = Mutex::new(Queue { changes: queue, turns: Turns::default() });
        Ok(Self { changes, waker, queue })
    }

    /// Queues a step of the handshake of `stream`.
    pub(super) fn push(&self, stream: &Arc<Stream>) {
        let step = Step::new(stream, Arc::downgrade(stream));
        // The receiver is owned by `self` too, so sending cannot fail.
        let _ = self.changes.send(Change::Push(step));
        let _ = self.waker.write(1);
    }

    /// Removes the closed `stream` from the queue.
    pub(super) fn remove(&self, stream: &Stream) {
        let _ = self.changes.send(Change::Remove(Step::new(stream, Weak::new())));
        let _ = self.waker.write(1);
    }

    /// Charges the `cost` of a step to all its payers.
    pub(super) fn charge(&self, charged: Charged, cost: Duration, now: Instant) {
        self.queue.lock().charge(charged, cost, now);
    }

    /// Wakes all threads.
    pub(super) fn wake_all(&self) {
        let _ = self.waker.write(MOST_THREADS);
    }

    /// Waits for the next connection with a step to make. Returns `None` once `ending` is set.
    pub(super) fn take(&self, clock: Clock, ending: &AtomicBool) -> Option<(Charged, Arc<Stream>)> {
        while !ending.load(Ordering::SeqCst) {
            let now = clock.now();
            let next = self.queue.lock().next(now);
            let sleep = match next {
                Next::Work(_, step) => match step.stream.upgrade() {
                    Some(stream) => return Some((step.charged, stream)),
                    None => continue,
                },
                Next::At(when) => when.since(now).min(LONGEST_SLEEP),
                Next::Idle => LONGEST_SLEEP,
            };
            let milliseconds = sleep.as_micros().div_ceil(1000);
            let timeout = PollTimeout::try_from(milliseconds).unwrap_or(PollTimeout::MAX);
            let _ = poll(&mut [PollFd::new(self.waker.as_fd(), PollFlags::POLLIN)], timeout);
            let _ = self.waker.read();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU64;

    const BEGIN: Instant = Instant::from_micros(1_800_000_000_000_000);

    fn queue() -> Queue {
        Queue { changes: mpsc::channel().1, turns: Turns::default() }
    }

    /// The step of a call to a place that no other step is to.
    fn call(number: u64, payers: Payers) -> Step {
        let place = Source::of([192, 0, 2, number as u8].into());
        let connection = Connection(NonZeroU64::new(number).unwrap());
        Step { connection, charged: Payer::of_call(place, payers), stream: Weak::new() }
    }

    /// The calls that are made at once, where each takes 300 ms.
    fn made(queue: &mut Queue) -> Vec<u64> {
        let mut made = Vec::new();
        while let Next::Work(_, step) = queue.next(BEGIN) {
            queue.charge(step.charged, Duration::from_millis(300), BEGIN);
            made.push(step.connection.0.get());
        }
        made
    }

    #[test]
    fn calls_to_many_places_are_charged_to_the_user_that_makes_them() {
        let by = |user| Payers { source: None, user: Some(user) };
        let mut queue = queue();
        (1..=20).for_each(|number| queue.push(call(number, by(1)), BEGIN));
        queue.push(call(30, by(2)), BEGIN);
        let first = made(&mut queue);
        assert_eq!(first.len(), 5, "a second of the first user, and the other: {first:?}");
        assert!(first.contains(&30));
        queue.push(call(31, by(2)), BEGIN);
        assert_eq!(made(&mut queue), [31], "only the first user waits");
    }

    #[test]
    fn users_of_one_source_share_its_allowance() {
        let by = |user| Payers { source: Some(7), user: Some(user) };
        let mut queue = queue();
        for number in 1..=20 {
            queue.push(call(number, by(100 + number as u16)), BEGIN);
        }
        assert_eq!(made(&mut queue).len(), 4);
        queue.push(call(40, Payers { source: Some(8), user: Some(200) }), BEGIN);
        assert_eq!(made(&mut queue), [40]);
    }
}
