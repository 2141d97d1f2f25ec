//! Digits between an end with telephone events (RFC 4733) and an end that gets and sends them by
//! signalling, such as INFO.
//!
//! The events of the one end do not pass: they are reported. A digit for that end is played as
//! events in its stream, in place of the sound of the other end. The sequence numbers of the stream
//! go on without a gap, and its timestamps are those of the sound.

#[cfg(not(feature = "convert"))]
#[path = "no_translation.rs"]
mod translation;
#[cfg(feature = "convert")]
mod translation;

pub(crate) use translation::Digits;

use crate::side::Side;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use lock_api::{Mutex, RawMutex};
use smallvec::SmallVec;

/// The maximum number of reported digits that the owner has not taken.
const MAX_PRESSED: usize = 10_000;

/// A pressed key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digit {
    /// `0` to `9`, `*`, `#`, `A` to `D`.
    pub key: char,
    /// The time for which it was pressed.
    pub duration: Duration,
}

/// A digit that an end of a call has sent as a telephone event, and that the other end cannot get
/// as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pressed {
    /// The Call-ID.
    pub call_id: Box<[u8]>,
    /// The tag of the caller.
    pub caller_tag: Box<[u8]>,
    /// The side that has pressed it.
    pub side: Side,
    /// The digit.
    pub digit: Digit,
}

/// The reported digits of all calls.
pub(crate) struct Reports<R> {
    waiting: Mutex<R, VecDeque<Pressed>>,
    is_any: AtomicBool,
}

impl<R: RawMutex> Reports<R> {
    pub(crate) fn new() -> Self {
        Self { waiting: Mutex::new(VecDeque::new()), is_any: AtomicBool::new(false) }
    }

    /// Adds a digit. One beyond the limit is lost.
    pub(crate) fn push(&self, pressed: Pressed) {
        let mut waiting = self.waiting.lock();
        if waiting.len() < MAX_PRESSED {
            waiting.push_back(pressed);
            self.is_any.store(true, Ordering::Release);
        }
    }

    pub(crate) fn take(&self) -> Vec<Pressed> {
        if !self.is_any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut waiting = self.waiting.lock();
        self.is_any.store(false, Ordering::Release);
        waiting.drain(..).collect()
    }
}

/// The payload types of telephone events, with their clock rates.
pub(crate) type EventTypes = SmallVec<[(u8, u32); 2]>;
