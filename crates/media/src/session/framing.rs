//! Packets that do not hold 20 ms: sound is put together and cut as they want it.

use super::{FRAME, Session};
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

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

impl Session {
    /// One more packet of the sound that [`Session::send`] was given, where the other end wants
    /// less of it in each: to be called after it until there is none.
    pub fn rest(&mut self, out: &mut Vec<u8>) -> Option<SocketAddr> {
        let to = self.destination().filter(|_| self.stream.sends)?;
        self.write_sound(self.packet_time(), out)?;
        Some(to)
    }

    /// What we put into a packet: what the other end wants, where the codec can be cut anywhere.
    pub(super) fn packet_time(&self) -> Duration {
        // PCMU, PCMA and G722.
        match self.stream.codec.static_payload_type() {
            Some(0 | 8 | 9) => self.stream.packet_time,
            _ => FRAME,
        }
    }

    /// Time goes on without sound.
    pub(super) fn pass(&mut self, units: u32) {
        let waited = self.outgoing.len() as u64 * u64::from(self.stream.codec.clock_rate())
            / u64::from(self.stream.codec.sample_rate());
        self.outgoing.clear();
        self.timestamp = self.timestamp.wrapping_add(units).wrapping_add(waited as u32);
    }

    /// A packet of so much of the sound that waits, if there is so much.
    pub(super) fn write_sound(&mut self, time: Duration, out: &mut Vec<u8>) -> Option<()> {
        let millis = time.as_millis() as u32;
        let count = (self.stream.codec.sample_rate() * millis / 1000) as usize;
        if self.outgoing.len() < count {
            return None;
        }
        let mut payload = Vec::with_capacity(count);
        self.encoder.encode(&self.outgoing[..count], &mut payload);
        self.outgoing.drain(..count);
        let marker = core::mem::take(&mut self.begins);
        let timestamp = self.timestamp;
        let units = self.stream.codec.clock_rate() * millis / 1000;
        self.timestamp = timestamp.wrapping_add(units);
        self.write(self.stream.send_type, timestamp, marker, &payload, out)
    }
}
