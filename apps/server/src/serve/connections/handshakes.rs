//! The threads of TLS handshakes. They give way to the workers, so that SIP on UDP and on open
//! connections waits for no handshake, however long one takes.

use super::stream::Stream;
use super::turns::{Next, Turns};
use super::*;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::os::fd::AsFd;
use std::sync::atomic::AtomicBool;
use std::sync::{Weak, mpsc};

/// The longest sleep of a thread: a bound on how long a missed wake-up could last.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// More than there are threads of handshakes.
const MOST_THREADS: u64 = 1 << 16;

/// The payer for the processor time of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Payer {
    /// The source that has opened the connection.
    Caller(Source),
    /// The place to which the connection was opened from here.
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

/// A step of a handshake that is to be made.
#[derive(Debug)]
struct Step {
    connection: Connection,
    /// Gone, once the connection is closed.
    stream: Weak<Stream>,
}

impl PartialEq for Step {
    fn eq(&self, other: &Self) -> bool {
        self.connection == other.connection
    }
}

/// An order of a worker to the threads of handshakes.
enum Told {
    /// A step of this is to be made.
    Push(Payer, Step),
    /// It is not to be made any more.
    Remove(Payer, Step),
}

/// The connections whose handshakes wait for a thread.
///
/// A worker takes no lock that such a thread may hold: they give way to all others, and a worker
/// would wait as long.
pub(super) struct Handshakes {
    told: mpsc::Sender<Told>,
    /// Counts what was told since: each wakes a thread.
    waker: EventFd,
    /// For the threads of handshakes alone.
    queue: Mutex<Queue>,
}

struct Queue {
    told: mpsc::Receiver<Told>,
    turns: Turns<Payer, Step>,
}

impl Queue {
    /// Takes the step that is to be made `now`.
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
    /// # Errors
    /// When the system gives no event descriptor.
    pub(super) fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_SEMAPHORE;
        let waker = EventFd::from_flags(flags)?;
        let (told, queue) = mpsc::channel();
        let queue = Mutex::new(Queue { told: queue, turns: Turns::default() });
        Ok(Self { told, waker, queue })
    }

    /// Has a step of the handshake of `stream` made.
    pub(super) fn push(&self, stream: &Arc<Stream>) {
        let step = Step { connection: stream.connection, stream: Arc::downgrade(stream) };
        // The other end of the channel is here as well, so that neither of the two fails.
        let _ = self.told.send(Told::Push(Payer::of(stream), step));
        let _ = self.waker.write(1);
    }

    /// Forgets `stream`, which is closed.
    pub(super) fn remove(&self, stream: &Stream) {
        let step = Step { connection: stream.connection, stream: Weak::new() };
        let _ = self.told.send(Told::Remove(Payer::of(stream), step));
        let _ = self.waker.write(1);
    }

    /// Ends the sleep of all threads.
    pub(super) fn wake_all(&self) {
        let _ = self.waker.write(MOST_THREADS);
    }

    /// Waits for a connection whose turn it is; `None` once `ending` is set.
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
    /// Makes handshakes until `ending` is set: the work of one thread.
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

    /// Ends the sleep of the threads of handshakes, which look then whether they are to end.
    pub(in crate::serve) fn wake_handshakes(&self) {
        self.handshakes.wake_all();
    }
}
