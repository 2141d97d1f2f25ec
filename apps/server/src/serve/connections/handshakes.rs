//! The threads of TLS handshakes. They have a lower priority than the workers, so that a long
//! handshake does not delay SIP on UDP and on open connections.

use super::stream::Stream;
use super::turns::{Next, Turns};
use super::*;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::os::fd::AsFd;
use std::sync::atomic::AtomicBool;
use std::sync::{Weak, mpsc};

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
}

impl Payer {
    fn of(stream: &Stream) -> Self {
        let source = stream.counted_for();
        match stream.is_opened_here() {
            true => Self::Called(source),
            false => Self::Caller(source),
        }
    }
}

/// A step of a handshake, to be made by a thread.
#[derive(Debug)]
struct Step {
    connection: Connection,
    /// Not upgradable once the connection is closed.
    stream: Weak<Stream>,
}

impl PartialEq for Step {
    fn eq(&self, other: &Self) -> bool {
        self.connection == other.connection
    }
}

/// A message from a worker to the handshake threads.
enum Told {
    /// Add a step.
    Push(Payer, Step),
    /// Remove a step.
    Remove(Payer, Step),
}

/// The connections that wait for a step of their handshake.
///
/// A worker takes no lock that a handshake thread may hold: these threads have a lower priority,
/// and the worker would wait for a preempted thread.
pub(super) struct Handshakes {
    told: mpsc::Sender<Told>,
    /// A semaphore: each message adds one, which wakes one thread.
    waker: EventFd,
    /// Locked by the handshake threads only.
    queue: Mutex<Queue>,
}

struct Queue {
    told: mpsc::Receiver<Told>,
    turns: Turns<Payer, Step>,
}

impl Queue {
    /// Takes the step that is due at `now`.
    fn next(&mut self, now: Instant) -> Next<Payer, Step> {
        for told in self.told.try_iter() {
            match told {
                Told::Push(payer, step) => self.turns.push(payer, step, now),
                Told::Remove(payer, step) => self.turns.remove(payer, &step),
            }
        }
        self.turns.next(now)
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
        let (told, queue) = mpsc::channel();
        let queue = Mutex::new(Queue { told: queue, turns: Turns::default() });
        Ok(Self { told, waker, queue })
    }

    /// Queues a step of the handshake of `stream`.
    pub(super) fn push(&self, stream: &Arc<Stream>) {
        let step = Step { connection: stream.connection, stream: Arc::downgrade(stream) };
        // The receiver is owned by `self` too, so sending cannot fail.
        let _ = self.told.send(Told::Push(Payer::of(stream), step));
        let _ = self.waker.write(1);
    }

    /// Removes the closed `stream` from the queue.
    pub(super) fn remove(&self, stream: &Stream) {
        let step = Step { connection: stream.connection, stream: Weak::new() };
        let _ = self.told.send(Told::Remove(Payer::of(stream), step));
        let _ = self.waker.write(1);
    }

    /// Wakes all threads.
    pub(super) fn wake_all(&self) {
        let _ = self.waker.write(MOST_THREADS);
    }

    /// Waits for the next connection with a step to make. Returns `None` once `ending` is set.
    fn take(&self, clock: Clock, ending: &AtomicBool) -> Option<(Payer, Arc<Stream>)> {
        while !ending.load(Ordering::SeqCst) {
            let now = clock.now();
            let next = self.queue.lock().next(now);
            let sleep = match next {
                Next::Work(payer, step) => match step.stream.upgrade() {
                    Some(stream) => return Some((payer, stream)),
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

impl Connections {
    /// Runs one handshake thread until `ending` is set.
    pub(in crate::serve) fn shake_hands(&self, ending: &AtomicBool) {
        let mut chunk = [0; READ_SIZE];
        while let Some((payer, stream)) = self.handshakes.take(self.clock, ending) {
            let begun = net::thread_time();
            let set = self.set_of(stream.connection);
            stream.shake_hands(self.clock.now(), &mut chunk, set, |certificates| {
                self.tls.names(certificates)
            });
            let cost = Duration::from_micros(net::thread_time().saturating_sub(begun) / 1000);
            if !self.engine.is_trusted(&stream.flow()) {
                self.handshakes.queue.lock().turns.charge(payer, cost, self.clock.now());
            }
        }
    }

    /// Wakes the handshake threads, which then check their `ending` flag.
    pub(in crate::serve) fn wake_handshakes(&self) {
        self.handshakes.wake_all();
    }
}
