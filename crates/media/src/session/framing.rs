//! Packets that do not hold 20 ms: how much those hold that come.

use alloc::vec::Vec;
use core::time::Duration;

/// The time that a packet holds.
pub(crate) const FRAME: Duration = Duration::from_millis(20);

/// What packets may hold.
const FRAMES: [u64; 7] = [10, 20, 30, 40, 50, 60, 80];

/// What packets hold that come, and sound of them that was not played yet.
pub(super) struct Framing {
    /// Sound that has been taken out of packets.
    pub(super) heard: Vec<i16>,
    frame: Duration,
    /// The last packet's sequence number and timestamp.
    last: Option<(u16, u32)>,
    /// What the last two packets say that they hold.
    candidate: Option<Duration>,
}

impl Framing {
    /// Packets are taken to hold a frame until they say otherwise.
    pub(super) const fn new() -> Self {
        Self { heard: Vec::new(), frame: FRAME, last: None, candidate: None }
    }

    /// How much a packet holds that comes.
    pub(super) const fn frame(&self) -> Duration {
        self.frame
    }

    /// Takes note of a packet of sound: what packets hold from now on, if that is something else.
    /// It is what lies between the timestamps of two that follow each other, if the next two say
    /// the same.
    pub(super) fn note(
        &mut self,
        sequence_number: u16,
        timestamp: u32,
        clock_rate: u32,
    ) -> Option<Duration> {
        let (number, before) = self.last.replace((sequence_number, timestamp))?;
        if sequence_number != number.wrapping_add(1) {
            return None;
        }
        let units = u64::from(timestamp.wrapping_sub(before)) * 1000;
        let rate = u64::from(clock_rate.max(1));
        let is_whole = units.is_multiple_of(rate) && FRAMES.contains(&(units / rate));
        let held = is_whole.then(|| Duration::from_millis(units / rate));
        let is_said_twice = held.is_some() && self.candidate == held;
        self.candidate = held;
        let frame = held.filter(|&held| is_said_twice && held != self.frame)?;
        self.frame = frame;
        Some(frame)
    }
}
