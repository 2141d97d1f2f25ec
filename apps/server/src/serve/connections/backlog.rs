//! What has come on the connections of one worker and waits for its turn.
//!
//! All that comes is read at once, also by a worker that is behind. In the memory of the peer it would wait
//! as long, but nobody here would know, and what has been given up would be worked on.

use super::stream::Stream;
use sip::message::FrameError;
use sip::{Duration, Instant};
use std::collections::VecDeque;
use std::sync::Arc;

/// Messages that are worked on before datagrams and timers get their turn.
const TURN: usize = 64;
/// Bytes that may wait; then no more is read. As much as a worker does in a few times the longest wait.
const MAX_BYTES: usize = 32 << 20;
/// What each takes besides its bytes.
const OVERHEAD: usize = size_of::<Waiting>() + 16;

/// What waits, the oldest first.
#[derive(Default)]
pub(super) struct Backlog {
    queue: VecDeque<Waiting>,
    bytes: usize,
    /// How many were worked on in this turn.
    done: usize,
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

impl Waiting {
    fn bytes(&self) -> usize {
        let own = match &self.what {
            What::Message(bytes) | What::Malformed(_, bytes) => bytes.len(),
            What::End => 0,
        };
        own + OVERHEAD
    }
}

impl Backlog {
    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether there is no room for more.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= MAX_BYTES
    }

    /// Whether what comes now is worked on at once, and counts for this turn.
    pub(super) fn takes_turn(&mut self) -> bool {
        let takes_turn = self.queue.is_empty() && self.done < TURN;
        self.done += usize::from(takes_turn);
        takes_turn
    }

    /// Adds what came last.
    pub(super) fn push(&mut self, waiting: Waiting) {
        self.bytes += waiting.bytes();
        self.queue.push_back(waiting);
    }

    /// What has waited longest, if it is to be worked on in this turn; if not, the turn is over.
    pub(super) fn pop(&mut self) -> Option<Waiting> {
        if self.done >= TURN || self.queue.is_empty() {
            self.done = 0;
            return None;
        }
        self.done += 1;
        let waiting = self.queue.pop_front()?;
        self.bytes -= waiting.bytes();
        if self.queue.is_empty() {
            // What an overload took is given back.
            self.queue = VecDeque::new();
        }
        Some(waiting)
    }

    /// How long the oldest has waited.
    pub(super) fn longest_wait(&self, now: Instant) -> Duration {
        self.queue.front().map_or(Duration::ZERO, |waiting| now.since(waiting.came))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Rig;
    use super::*;

    #[test]
    fn what_comes_waits_behind_what_waits_and_each_turn_ends() {
        let stream = Arc::new(Rig::accepted().stream);
        let waiting = |number: usize| Waiting {
            stream: Arc::clone(&stream),
            came: Instant::from_micros(number as u64),
            what: What::Message(number.to_string().into_bytes().into()),
        };
        let mut backlog = Backlog::default();
        assert_eq!((0..2 * TURN).filter(|_| backlog.takes_turn()).count(), TURN);
        assert!(backlog.pop().is_none());
        (0..2 * TURN + 5).for_each(|number| backlog.push(waiting(number)));
        assert!(!backlog.takes_turn(), "others wait longer");
        let wait = backlog.longest_wait(Instant::from_micros(1000));
        assert_eq!(wait, Duration::from_micros(1000));
        let mut numbers = Vec::new();
        for turn in [TURN, TURN, 5, 0] {
            let before = numbers.len();
            while let Some(waiting) = backlog.pop() {
                numbers.push(waiting.came.as_micros() as usize);
            }
            assert_eq!(numbers.len() - before, turn);
        }
        assert_eq!(numbers, (0..2 * TURN + 5).collect::<Vec<_>>());
        assert!(backlog.is_empty() && backlog.bytes == 0 && backlog.takes_turn());
        assert_eq!(backlog.longest_wait(Instant::from_micros(1000)), Duration::ZERO);
    }

    #[test]
    fn there_is_a_bound_on_what_waits() {
        let stream = Arc::new(Rig::accepted().stream);
        let mut backlog = Backlog::default();
        let mut count = 0;
        while !backlog.is_full() {
            let what = What::Message(vec![b'a'; 60_000].into());
            backlog.push(Waiting { stream: Arc::clone(&stream), came: Instant::ZERO, what });
            count += 1;
        }
        assert_eq!(count, MAX_BYTES.div_ceil(60_000 + OVERHEAD));
        backlog.pop();
        assert!(!backlog.is_full());
    }
}
