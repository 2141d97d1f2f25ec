//! What has come on the connections of one worker and waits for its turn.
//!
//! All that comes is read at once, also by a worker that is behind. In the memory of the peer it would wait
//! as long, but nobody here would know, and what has been given up would be worked on. Each connection has a
//! queue, and they take turns: who says much waits for itself.

use super::stream::Stream;
use sip::message::FrameError;
use sip::{Duration, Instant};
use sip_server::Connection;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Messages that are worked on before the time is looked at.
const TURN: usize = 64;
/// Messages of one connection that are worked on before those of another.
const IN_A_ROW: usize = 4;
/// Bytes that may wait; then no more is read but of connections of which nothing waits, up to twice as much. As much as
/// a worker does in a few times the longest wait.
const MAX_BYTES: usize = 32 << 20;
/// Bytes that may wait of one connection.
const MAX_BYTES_OF_ONE: usize = MAX_BYTES / 2;
/// How often it is found out how long the oldest has waited.
const LOOK: Duration = Duration::from_millis(2);
/// What each takes besides its bytes.
const OVERHEAD: usize = size_of::<(Instant, What)>() + 16;

/// What waits, of each connection the oldest first.
#[derive(Default)]
pub(super) struct Backlog {
    queues: HashMap<Connection, Queue>,
    /// Those that have a queue, in the order of their turns.
    turns: VecDeque<Connection>,
    bytes: usize,
    /// When something was worked on last that came for a connection of which nothing waited, and how long it had to
    /// wait for the others.
    newcomer: Option<(Instant, Duration)>,
    /// When it was found out last how long the oldest had waited, and how long.
    longest_wait: (Instant, Duration),
    /// How long it took to read what came last.
    pub(super) reading: Duration,
    /// How many were worked on in this turn, and of the first connection in a row.
    done: usize,
    in_a_row: usize,
}

/// What waits of one connection.
struct Queue {
    stream: Arc<Stream>,
    waiting: VecDeque<(Instant, What)>,
    bytes: usize,
    /// Whether it has not had its turn.
    is_new: bool,
}

/// Something that waits.
pub(super) struct Waiting {
    pub(super) stream: Arc<Stream>,
    pub(super) came: Instant,
    pub(super) what: What,
}

/// What came.
pub(super) enum What {
    Message(Box<[u8]>),
    /// Nothing more.
    End,
    /// What is no message, and why. The rest was not read.
    Malformed(FrameError, Box<[u8]>),
}

impl What {
    fn bytes(&self) -> usize {
        let own = match self {
            Self::Message(bytes) | Self::Malformed(_, bytes) => bytes.len(),
            Self::End => 0,
        };
        own + OVERHEAD
    }
}

impl Backlog {
    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Whether there is room for more of `stream`.
    pub(super) fn has_room_for(&self, stream: &Stream) -> bool {
        match self.queues.get(&stream.connection) {
            None => self.bytes < 2 * MAX_BYTES,
            Some(queue) => queue.bytes < MAX_BYTES_OF_ONE && self.bytes < MAX_BYTES,
        }
    }

    /// Whether what comes now is worked on at once, and counts for this turn.
    pub(super) fn takes_turn(&mut self) -> bool {
        let takes_turn = self.is_empty() && self.done < TURN;
        self.done += usize::from(takes_turn);
        takes_turn
    }

    /// Adds what came last.
    pub(super) fn push(&mut self, Waiting { stream, came, what }: Waiting) {
        let bytes = what.bytes();
        self.bytes += bytes;
        let queue = self.queues.entry(stream.connection).or_insert_with(|| {
            self.turns.push_back(stream.connection);
            Queue { stream, waiting: VecDeque::new(), bytes: 0, is_new: true }
        });
        queue.bytes += bytes;
        queue.waiting.push_back((came, what));
    }

    /// What is next, if it is to be worked on `now`; if not, the turn is over.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Waiting> {
        if self.done >= TURN || self.is_empty() {
            self.done = 0;
            return None;
        }
        self.done += 1;
        self.in_a_row += 1;
        let connection = *self.turns.front()?;
        let queue = self.queues.get_mut(&connection)?;
        let (came, what) = queue.waiting.pop_front()?;
        if std::mem::take(&mut queue.is_new) {
            self.newcomer = Some((now, now.since(came)));
        }
        queue.bytes -= what.bytes();
        self.bytes -= what.bytes();
        let stream = Arc::clone(&queue.stream);
        if queue.waiting.is_empty() {
            self.queues.remove(&connection);
            self.turns.pop_front();
            self.in_a_row = 0;
        } else if self.in_a_row >= IN_A_ROW {
            self.turns.rotate_left(1);
            self.in_a_row = 0;
        }
        if self.is_empty() {
            // What an overload took is given back.
            (self.queues, self.turns) = Default::default();
            self.newcomer = None;
        }
        Some(Waiting { stream, came, what })
    }

    /// How long the oldest had waited not long ago.
    pub(super) fn longest_wait(&mut self, now: Instant) -> Duration {
        if self.is_empty() {
            return Duration::ZERO;
        }
        // All are looked at, and they may be many.
        if now.since(self.longest_wait.0) >= LOOK {
            let oldest = self.queues.values().filter_map(Queue::oldest).min();
            self.longest_wait = (now, oldest.map_or(Duration::ZERO, |came| now.since(came)));
        }
        self.longest_wait.1
    }

    /// How long something that comes of `stream` has to wait, by what came before: for what waits of it, and for
    /// others.
    pub(super) fn wait_for(&self, stream: &Stream, now: Instant) -> Duration {
        let oldest = self.queues.get(&stream.connection).and_then(Queue::oldest);
        let own = oldest.map_or(Duration::ZERO, |came| now.since(came));
        // Of long ago it says nothing: all may have had their turns since.
        let newcomer = self.newcomer.filter(|(at, waited)| now.since(*at) <= *waited);
        newcomer.map_or(own, |(_, waited)| own.max(waited))
    }
}

impl Queue {
    fn oldest(&self) -> Option<Instant> {
        self.waiting.front().map(|(came, _)| *came)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Rig;
    use super::*;
    use std::num::NonZeroU64;

    /// The stream of a connection with this number.
    fn stream(number: u64) -> Arc<Stream> {
        let mut stream = Rig::accepted().stream;
        stream.connection = Connection(NonZeroU64::new(number).unwrap());
        Arc::new(stream)
    }

    fn waiting(stream: &Arc<Stream>, number: usize) -> Waiting {
        Waiting {
            stream: Arc::clone(stream),
            came: Instant::from_micros(number as u64),
            what: What::Message(number.to_string().into_bytes().into()),
        }
    }

    /// What is worked on in a turn: number of the connection, number of the message.
    fn turn(backlog: &mut Backlog) -> Vec<(u64, usize)> {
        let now = Instant::from_micros(1000);
        let popped = std::iter::from_fn(|| backlog.pop(now));
        popped.map(|one| (one.stream.connection.0.get(), one.came.as_micros() as usize)).collect()
    }

    #[test]
    fn what_comes_waits_behind_what_waits_and_each_turn_ends() {
        let stream = stream(1);
        let mut backlog = Backlog::default();
        assert_eq!((0..2 * TURN).filter(|_| backlog.takes_turn()).count(), TURN);
        assert!(turn(&mut backlog).is_empty());
        (0..2 * TURN + 5).for_each(|number| backlog.push(waiting(&stream, number)));
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
        let (many, few) = (stream(1), stream(2));
        let mut backlog = Backlog::default();
        (0..100).for_each(|number| backlog.push(waiting(&many, number)));
        (200..206).for_each(|number| backlog.push(waiting(&few, number)));
        let waits = |backlog: &Backlog| {
            let now = Instant::from_micros(1000);
            [&many, &few].map(|stream| backlog.wait_for(stream, now).as_micros())
        };
        assert_eq!(waits(&backlog), [1000, 800]);
        let done = turn(&mut backlog);
        let of = |number| done.iter().filter(move |one| one.0 == number).map(|one| one.1);
        assert!(of(1).eq(0..TURN - 6) && of(2).eq(200..206), "each in order: {done:?}");
        let last = done.iter().rposition(|one| one.0 == 2).unwrap();
        assert_eq!(last + 1, 2 * IN_A_ROW + 6);
        assert_eq!(waits(&backlog), [1000 - of(1).count() as u64, 800], "few has waited for many");
        let later = Instant::from_micros(1000 + 801);
        assert_eq!(backlog.wait_for(&few, later).as_micros(), 0, "that was long ago");
        assert_eq!(turn(&mut backlog).len(), 100 + 6 - TURN);
        assert!(backlog.queues.is_empty() && backlog.bytes == 0);
        assert_eq!(waits(&backlog), [0, 0]);
    }

    #[test]
    fn there_is_a_bound_on_what_waits() {
        let streams = [stream(1), stream(2), stream(3)];
        let mut backlog = Backlog::default();
        const BYTES: usize = 60_000 + OVERHEAD;
        for (stream, most) in streams.iter().zip([MAX_BYTES_OF_ONE, MAX_BYTES]) {
            while backlog.has_room_for(stream) {
                let what = What::Message(vec![b'a'; 60_000].into());
                backlog.push(Waiting { stream: Arc::clone(stream), came: Instant::ZERO, what });
            }
            assert_eq!(backlog.bytes, most.div_ceil(BYTES) * BYTES);
        }
        assert!(backlog.has_room_for(&streams[2]), "nothing of it waits");
        backlog.push(waiting(&streams[2], 1));
        assert!(!backlog.has_room_for(&streams[2]));
        let others = (4..).map(stream).take_while(|one| {
            let what = What::Message(vec![b'a'; 60_000].into());
            let has_room = backlog.has_room_for(one);
            if has_room {
                backlog.push(Waiting { stream: Arc::clone(one), came: Instant::ZERO, what });
            }
            has_room
        });
        assert!(others.count() <= MAX_BYTES.div_ceil(BYTES), "there is an end for those, too");
        while !turn(&mut backlog).is_empty() {}
        assert!(streams.iter().all(|stream| backlog.has_room_for(stream)));
    }
}
