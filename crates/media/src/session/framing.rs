//! The duration of received packets, which may differ from 20 ms.

use alloc::vec::Vec;
use core::time::Duration;

/// The default packet duration.
pub(crate) const FRAME: Duration = Duration::from_millis(20);

/// The possible packet durations in milliseconds.
const FRAMES: [u64; 7] = [10, 20, 30, 40, 50, 60, 80];

/// The duration of received packets, and decoded audio that is not yet played.
pub(super) struct Framing {
    /// Decoded samples.
    pub(super) heard: Vec<i16>,
    frame: Duration,
    /// The sequence number and the timestamp of the last packet.
    last: Option<(u16, u32)>,
    /// The duration according to the last two packets.
    candidate: Option<Duration>,
}

impl Framing {
    /// Packets have the default duration until their timestamps say otherwise.
    pub(super) const fn new() -> Self {
        Self { heard: Vec::new(), frame: FRAME, last: None, candidate: None }
    }

    /// Returns the duration of a received packet.
    pub(super) const fn frame(&self) -> Duration {
        self.frame
    }

    /// Records an audio packet. Returns the packet duration if it has changed. It is the difference
    /// between the timestamps of two consecutive packets, confirmed by the next two.
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
