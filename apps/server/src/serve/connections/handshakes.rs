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
    /// The account of the source or the user of the request for which it was opened.
    Caused(u16),
}

/// All payers of one handshake. It waits for the one that has used most, or the last.
type Charged = [Option<Payer>; 3];

impl Payer {
    fn of(stream: &Stream) -> Charged {
        let source = stream.counted_for();
        match stream.is_opened_here() {
            true => Self::of_call(source, stream.payers()),
            false => [Some(Self::Caller(source)), None, None],
        }
    }

    /// Those of a connection that is opened from here.
    fn of_call(called: Source, Payers { source, user }: Payers) -> Charged {
        [Some(Self::Called(called)), source.map(Self::Caused), user.map(Self::Caused)]
    }
}

/// A step of a handshake that is to be made.
#[derive(Debug)]
struct Step {
    connection: Connection,
    charged: Charged,
    /// Gone, once the connection is closed.
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

/// An order of a worker to the threads of handshakes.
enum Told {
    /// A step of this is to be made.
    Push(Step),
    /// It is not to be made any more.
    Remove(Step),
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
        while let Ok(told) = self.told.try_recv() {
            match told {
                Told::Push(step) => self.push(step, now),
                Told::Remove(step) => {
                    let payers = step.charged.into_iter().flatten();
                    payers.for_each(|payer| self.turns.remove(payer, &step));
                }
            }
        }
        loop {
            match self.turns.next(now) {
                // Another of its payers has used too much while it waited.
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

    /// Charges all payers of a step for what it has taken.
    fn charge(&mut self, charged: Charged, cost: Duration, now: Instant) {
        charged.into_iter().flatten().for_each(|payer| self.turns.charge(payer, cost, now));
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
        let step = Step::new(stream, Arc::downgrade(stream));
        // The other end of the channel is here as well, so that neither of the two fails.
        let _ = self.told.send(Told::Push(step));
        let _ = self.waker.write(1);
    }

    /// Forgets `stream`, which is closed.
    pub(super) fn remove(&self, stream: &Stream) {
        let _ = self.told.send(Told::Remove(Step::new(stream, Weak::new())));
        let _ = self.waker.write(1);
    }

    /// Ends the sleep of all threads.
    pub(super) fn wake_all(&self) {
        let _ = self.waker.write(MOST_THREADS);
    }

    /// Waits for a connection whose turn it is; `None` once `ending` is set.
    fn take(&self, clock: Clock, ending: &AtomicBool) -> Option<(Charged, Arc<Stream>)> {
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

impl Connections {
    /// Makes handshakes until `ending` is set: the work of one thread.
    pub(in crate::serve) fn shake_hands(&self, ending: &AtomicBool) {
        let mut chunk = [0; READ_SIZE];
        while let Some((charged, stream)) = self.handshakes.take(self.clock, ending) {
            let begun = net::thread_time();
            let set = self.set_of(stream.connection);
            stream.shake_hands(self.clock.now(), &mut chunk, set, |certificates| {
                self.tls.names(certificates)
            });
            let cost = Duration::from_micros(net::thread_time().saturating_sub(begun) / 1000);
            if !self.engine.is_trusted(&stream.flow()) {
                self.handshakes.queue.lock().charge(charged, cost, self.clock.now());
            }
        }
    }

    /// Ends the sleep of the threads of handshakes, which look then whether they are to end.
    pub(in crate::serve) fn wake_handshakes(&self) {
        self.handshakes.wake_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: Instant = Instant::from_micros(1_800_000_000_000_000);

    fn queue() -> Queue {
        Queue { told: mpsc::channel().1, turns: Turns::default() }
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
    fn users_of_one_source_share_what_it_may_use() {
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
