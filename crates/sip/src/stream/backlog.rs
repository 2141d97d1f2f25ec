//! The queue of received messages of all connections of one thread.
//!
//! Everything that arrives is read at once, also by a worker that is behind. Otherwise data would
//! wait as long in the memory of the peer, where its waiting time is unknown, and the worker would
//! process requests that the peer has given up. Each connection has a queue of its own, and the
//! connections take turns: a connection that sends much delays only itself.

use super::Fault;
use crate::time::{Duration, Instant};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};

/// Messages that are processed before the clock is read again.
const TURN: usize = 64;
/// Messages of one connection that are processed before the next connection has its turn.
const IN_A_ROW: usize = 4;
/// Limit of queued bytes. Above it only connections without queued messages are read, up to twice
/// as much. A worker processes this much in a few times the longest allowed wait.
const MAX_BYTES: usize = 32 << 20;
/// Limit of queued bytes of one connection.
const MAX_BYTES_OF_ONE: usize = MAX_BYTES / 2;
/// The interval at which the longest wait is computed again.
const LOOK: Duration = Duration::from_millis(2);
/// Memory of an entry in addition to its bytes.
const OVERHEAD: usize = size_of::<(Instant, Arrival)>() + 16;

/// The queues of all connections, in each the oldest entry first.
///
/// `K` identifies a connection. `S` is the state that the owner needs to process an entry of it.
#[derive(Debug)]
pub struct Backlog<K, S> {
    queues: BTreeMap<K, Queue<S>>,
    /// The connections with a queue, in the order of their turns.
    turns: VecDeque<K>,
    bytes: usize,
    /// The time at which the first entry of a new queue was last processed, and its waiting time.
    newcomer: Option<(Instant, Duration)>,
    /// The time at which the longest wait was last computed, and its value.
    longest_wait: (Instant, Duration),
    /// The time that the last read took. The owner sets it, to spend as much time on the queue.
    pub reading: Duration,
    /// The number of entries processed in this turn, and in a row of the first connection.
    done: usize,
    in_a_row: usize,
}

impl<K, S> Default for Backlog<K, S> {
    fn default() -> Self {
        Self {
            queues: BTreeMap::new(),
            turns: VecDeque::new(),
            bytes: 0,
            newcomer: None,
            longest_wait: (Instant::ZERO, Duration::ZERO),
            reading: Duration::ZERO,
            done: 0,
            in_a_row: 0,
        }
    }
}

/// The queued entries of one connection.
#[derive(Debug)]
struct Queue<S> {
    stream: S,
    waiting: VecDeque<(Instant, Arrival)>,
    bytes: usize,
    /// True until the first entry is processed.
    is_new: bool,
}

/// A queued entry.
#[derive(Debug)]
pub struct Waiting<S> {
    /// The state of its connection.
    pub stream: S,
    /// The time at which it arrived.
    pub since: Instant,
    /// The entry itself.
    pub what: Arrival,
}

/// The kind of an entry.
#[derive(Debug)]
pub enum Arrival {
    /// A message.
    Message(Box<[u8]>),
    /// The end of the stream.
    End,
    /// Bytes that are not a message.
    Fault(Fault),
}

impl Arrival {
    fn bytes(&self) -> usize {
        let own = match self {
            Self::Message(bytes) => bytes.len(),
            Self::Fault(fault) => fault.rest.len(),
            Self::End => 0,
        };
        own + OVERHEAD
    }
}

impl<K: Copy + Ord, S: Clone> Backlog<K, S> {
    /// Returns true if no entry is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Returns true if there is room for more entries of `connection`.
    #[must_use]
    pub fn has_room_for(&self, connection: K) -> bool {
        match self.queues.get(&connection) {
            None => self.bytes < 2 * MAX_BYTES,
            Some(queue) => queue.bytes < MAX_BYTES_OF_ONE && self.bytes < MAX_BYTES,
        }
    }

    /// Returns true if an entry that arrives now is to be processed at once. It then counts for
    /// this turn.
    pub fn takes_turn(&mut self) -> bool {
        let takes_turn = self.is_empty() && self.done < TURN;
        self.done += usize::from(takes_turn);
        takes_turn
    }

    /// Appends an entry to the queue of `connection`.
    pub fn push(&mut self, connection: K, Waiting { stream, since, what }: Waiting<S>) {
        let bytes = what.bytes();
        self.bytes += bytes;
        let queue = self.queues.entry(connection).or_insert_with(|| {
            self.turns.push_back(connection);
            Queue { stream, waiting: VecDeque::new(), bytes: 0, is_new: true }
        });
        queue.bytes += bytes;
        queue.waiting.push_back((since, what));
    }

    /// Removes and returns the next entry to process at `now`. `None` ends the turn.
    pub fn pop(&mut self, now: Instant) -> Option<Waiting<S>> {
        if self.done >= TURN || self.is_empty() {
            self.done = 0;
            return None;
        }
        self.done += 1;
        self.in_a_row += 1;
        let connection = *self.turns.front()?;
        let queue = self.queues.get_mut(&connection)?;
        let (since, what) = queue.waiting.pop_front()?;
        if core::mem::take(&mut queue.is_new) {
            self.newcomer = Some((now, now.since(since)));
        }
        queue.bytes -= what.bytes();
        self.bytes -= what.bytes();
        let stream = queue.stream.clone();
        if queue.waiting.is_empty() {
            self.queues.remove(&connection);
            self.turns.pop_front();
            self.in_a_row = 0;
        } else if self.in_a_row >= IN_A_ROW {
            self.turns.rotate_left(1);
            self.in_a_row = 0;
        }
        if self.is_empty() {
            // The memory of an overload is freed.
            (self.queues, self.turns) = Default::default();
            self.newcomer = None;
        }
        Some(Waiting { stream, since, what })
    }

    /// Returns the waiting time of the oldest entry. The value is computed at most every 2 ms.
    pub fn longest_wait(&mut self, now: Instant) -> Duration {
        if self.is_empty() {
            return Duration::ZERO;
        }
        // This looks at the queue of every connection, and there may be many.
        if now.since(self.longest_wait.0) >= LOOK {
            let oldest = self.queues.values().filter_map(Queue::oldest).min();
            self.longest_wait = (now, oldest.map_or(Duration::ZERO, |since| now.since(since)));
        }
        self.longest_wait.1
    }

    /// Returns the expected waiting time of an entry of `connection` that arrives now: the larger
    /// of the age of its own oldest entry and the recent wait of a new queue.
    #[must_use]
    pub fn wait_for(&self, connection: K, now: Instant) -> Duration {
        let oldest = self.queues.get(&connection).and_then(Queue::oldest);
        let own = oldest.map_or(Duration::ZERO, |since| now.since(since));
        // An older measurement is not valid: all connections may have had their turns since.
        let newcomer = self.newcomer.filter(|(at, waited)| now.since(*at) <= *waited);
        newcomer.map_or(own, |(_, waited)| own.max(waited))
    }
}

impl<S> Queue<S> {
    fn oldest(&self) -> Option<Instant> {
        self.waiting.front().map(|(since, _)| *since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;
    use std::vec;
    use std::vec::Vec;

    type Numbered = Backlog<u64, u64>;

    fn waiting(stream: u64, number: usize) -> Waiting<u64> {
        Waiting {
            stream,
            since: Instant::from_micros(number as u64),
            what: Arrival::Message(number.to_string().into_bytes().into()),
        }
    }

    fn long(stream: u64) -> Waiting<u64> {
        let what = Arrival::Message(vec![b'a'; 60_000].into());
        Waiting { stream, since: Instant::ZERO, what }
    }

    /// The entries processed in one turn: number of the connection, number of the message.
    fn turn(backlog: &mut Numbered) -> Vec<(u64, usize)> {
        let now = Instant::from_micros(1000);
        let popped = core::iter::from_fn(|| backlog.pop(now));
        popped.map(|one| (one.stream, one.since.as_micros() as usize)).collect()
    }

    #[test]
    fn what_comes_waits_behind_what_waits_and_each_turn_ends() {
        let mut backlog = Numbered::default();
        assert_eq!((0..2 * TURN).filter(|_| backlog.takes_turn()).count(), TURN);
        assert!(turn(&mut backlog).is_empty());
        (0..2 * TURN + 5).for_each(|number| backlog.push(1, waiting(1, number)));
        assert!(!backlog.takes_turn(), "others wait longer");
        let [first, soon, later] = [2000, 3999, 4000].map(Instant::from_micros);
        let waits = [first, soon, later].map(|now| backlog.longest_wait(now).as_micros());
        assert_eq!(waits, [2000, 2000, 4000]);
        let turns: Vec<_> = (0..4).map(|_| turn(&mut backlog)).collect();
        assert_eq!(turns.iter().map(Vec::len).collect::<Vec<_>>(), [TURN, TURN, 5, 0]);
        assert_eq!(turns.concat(), (0..2 * TURN + 5).map(|number| (1, number)).collect::<Vec<_>>());
        assert!(backlog.is_empty() && backlog.bytes == 0 && backlog.takes_turn());
        assert_eq!(backlog.longest_wait(Instant::from_micros(1000)), Duration::ZERO);
    }

    #[test]
    fn who_says_much_waits_for_himself() {
        let (many, few) = (1, 2);
        let mut backlog = Numbered::default();
        (0..100).for_each(|number| backlog.push(many, waiting(many, number)));
        (200..206).for_each(|number| backlog.push(few, waiting(few, number)));
        let waits = |backlog: &Numbered| {
            let now = Instant::from_micros(1000);
            [many, few].map(|stream| backlog.wait_for(stream, now).as_micros())
        };
        assert_eq!(waits(&backlog), [1000, 800]);
        let done = turn(&mut backlog);
        let of = |number| done.iter().filter(move |one| one.0 == number).map(|one| one.1);
        assert!(of(1).eq(0..TURN - 6) && of(2).eq(200..206), "each in order: {done:?}");
        let last = done.iter().rposition(|one| one.0 == 2).unwrap();
        assert_eq!(last + 1, 2 * IN_A_ROW + 6);
        assert_eq!(waits(&backlog), [1000 - of(1).count() as u64, 800], "few has waited for many");
        let later = Instant::from_micros(1000 + 801);
        assert_eq!(backlog.wait_for(few, later).as_micros(), 0, "that was long ago");
        assert_eq!(turn(&mut backlog).len(), 100 + 6 - TURN);
        assert!(backlog.queues.is_empty() && backlog.bytes == 0);
        assert_eq!(waits(&backlog), [0, 0]);
    }

    #[test]
    fn there_is_a_bound_on_what_waits() {
        let mut backlog = Numbered::default();
        const BYTES: usize = 60_000 + OVERHEAD;
        for (stream, most) in [(1, MAX_BYTES_OF_ONE), (2, MAX_BYTES)] {
            while backlog.has_room_for(stream) {
                backlog.push(stream, long(stream));
            }
            assert_eq!(backlog.bytes, most.div_ceil(BYTES) * BYTES);
        }
        assert!(backlog.has_room_for(3), "nothing of it waits");
        backlog.push(3, waiting(3, 1));
        assert!(!backlog.has_room_for(3));
        let others = (4..).take_while(|&stream| {
            let has_room = backlog.has_room_for(stream);
            if has_room {
                backlog.push(stream, long(stream));
            }
            has_room
        });
        assert!(others.count() <= MAX_BYTES.div_ceil(BYTES), "there is an end for those, too");
        while !turn(&mut backlog).is_empty() {}
        assert!([1, 2, 3].into_iter().all(|stream| backlog.has_room_for(stream)));
    }
}
