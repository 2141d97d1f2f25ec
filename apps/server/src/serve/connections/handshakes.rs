//! The threads of TLS handshakes. They give way to the workers, so that SIP on UDP and on open
//! connections waits for no handshake, however long one takes.

use super::stream::Stream;
use super::turns::{Next, Turns};
use super::*;
use parking_lot::Condvar;
use std::sync::atomic::AtomicBool;

/// The longest sleep of a thread: a bound on how long a missed wake-up could last.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

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

/// The connections whose handshakes wait for a thread.
#[derive(Default)]
pub(super) struct Handshakes {
    turns: Mutex<Turns<Payer, Connection>>,
    changed: Condvar,
}

impl Handshakes {
    /// Has a step of the handshake of `stream` made.
    pub(super) fn push(&self, stream: &Stream, now: Instant) {
        self.turns.lock().push(Payer::of(stream), stream.connection, now);
        self.changed.notify_one();
    }

    /// Forgets `stream`, which is closed.
    pub(super) fn remove(&self, stream: &Stream) {
        self.turns.lock().remove(Payer::of(stream), &stream.connection);
    }

    /// Ends the sleep of all threads.
    pub(super) fn wake_all(&self) {
        // With the lock, or a thread that is about to sleep would not be woken.
        let _turns = self.turns.lock();
        self.changed.notify_all();
    }

    /// Waits for a connection whose turn it is; `None` once `ending` is set.
    fn take(&self, clock: Clock, ending: &AtomicBool) -> Option<(Payer, Connection)> {
        let mut turns = self.turns.lock();
        while !ending.load(Ordering::SeqCst) {
            let now = clock.now();
            let sleep = match turns.next(now) {
                Next::Work(payer, connection) => return Some((payer, connection)),
                Next::At(when) => when.since(now).min(LONGEST_SLEEP),
                Next::Idle => LONGEST_SLEEP,
            };
            self.changed.wait_for(&mut turns, std::time::Duration::from_micros(sleep.as_micros()));
        }
        None
    }
}

impl Connections {
    /// Makes handshakes until `ending` is set: the work of one thread.
    pub(in crate::serve) fn shake_hands(&self, ending: &AtomicBool) {
        let mut chunk = [0; READ_SIZE];
        while let Some((payer, connection)) = self.handshakes.take(self.clock, ending) {
            let Some(stream) = self.get(connection) else { continue };
            let begun = net::thread_time();
            let set = self.set_of(connection);
            stream.shake_hands(self.clock.now(), &mut chunk, set, |certificates| {
                self.tls.names(certificates)
            });
            let cost = Duration::from_micros(net::thread_time().saturating_sub(begun) / 1000);
            if !self.engine.is_trusted(&stream.flow()) {
                self.handshakes.turns.lock().charge(payer, cost, self.clock.now());
            }
        }
    }

    /// Ends the sleep of the threads of handshakes, which look then whether they are to end.
    pub(in crate::serve) fn wake_handshakes(&self) {
        self.handshakes.wake_all();
    }
}
