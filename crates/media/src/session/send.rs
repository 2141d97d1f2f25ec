//! Packets of sound and of telephone events, as they go out: sound is put together and cut as the
//! other end wants it.

use super::silence::Verdict;
use super::{FRAME, MAX_PACKET, Pressed, Session};
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use rtp::event::{TelephoneEvent, from_digit};
use rtp::packet::Fields;

/// How long a digit is pressed, and how long it is silent after that, in packets.
const PRESSED: u16 = 5;
const RELEASED: u16 = 3;
/// How often the end of a digit is said (RFC 4733 section 2.5.1.4).
const ENDS: u16 = 3;

impl Session {
    /// Sends a key: `0` to `9`, `*`, `#`, `A` to `D`, as a telephone event (RFC 4733). False where
    /// the other end does not take any, or there is no such key.
    pub fn press(&mut self, digit: char) -> bool {
        match (self.stream.events, from_digit(digit)) {
            (Some(_), Some(event)) => {
                self.digits.push(event);
                true
            }
            _ => false,
        }
    }

    /// Whether keys are being sent.
    #[must_use]
    pub const fn is_pressing(&self) -> bool {
        self.pressed.is_some() || !self.digits.is_empty()
    }

    /// The next packet, with 20 ms of sound from `samples`: to be called every 20 ms. It is put
    /// into `out`, and goes to the address returned; `None` where nothing is to be sent.
    ///
    /// Where the other end wants more sound in a packet, one comes out when it is full; where it
    /// wants less, the others are to be had by [`Session::rest`].
    pub fn send(&mut self, samples: &[i16], out: &mut Vec<u8>) -> Option<SocketAddr> {
        let units = self.stream.codec.clock_rate() / 50;
        let to = self.destination().filter(|_| self.stream.sends);
        let Some(to) = to else {
            self.pass(units);
            return None;
        };
        if let Some(event) = self.event(self.timestamp) {
            self.pass(units);
            let (payload_type, begun, is_first, event) = event;
            self.write(payload_type, begun, is_first, &event.to_bytes(), out)?;
            return Some(to);
        }
        if let Some(told) = self.send_silence(samples, to, units, out) {
            return told;
        }
        let time = self.packet_time();
        // Whoever has left the rest behind gets all at once.
        let time = if self.outgoing.is_empty() { time } else { time.max(FRAME) };
        self.outgoing.extend_from_slice(samples);
        self.write_sound(time, out)?;
        Some(to)
    }

    fn write(
        &mut self,
        payload_type: u8,
        timestamp: u32,
        marker: bool,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let fields = Fields {
            payload_type,
            marker,
            sequence_number: self.sequence_number,
            timestamp,
            ssrc: self.seed.ssrc,
        };
        out.clear();
        out.resize(MAX_PACKET, 0);
        let length = match &mut self.protection {
            Some(protection) => protection.write(fields, payload, out, &mut self.measured)?,
            None => fields.write(payload, out)?,
        };
        out.truncate(length);
        self.sequence_number = self.sequence_number.wrapping_add(1);
        self.statistics.sent += 1;
        self.reports.sent(timestamp, payload.len(), self.clock);
        Some(())
    }

    /// The telephone event that takes the place of sound now: its payload type, when it began,
    /// whether it begins.
    fn event(&mut self, timestamp: u32) -> Option<(u8, u32, bool, TelephoneEvent)> {
        let (payload_type, _) = self.stream.events?;
        if self.pressed.is_none() && !self.digits.is_empty() {
            let event = self.digits.remove(0);
            self.pressed = Some(Pressed { event, timestamp, packets: 0 });
        }
        let pressed = self.pressed.as_mut()?;
        pressed.packets += 1;
        let (packets, begun, event) = (pressed.packets, pressed.timestamp, pressed.event);
        if packets > PRESSED + ENDS {
            if packets >= PRESSED + ENDS + RELEASED {
                self.pressed = None;
            }
            return None;
        }
        let end = packets > PRESSED;
        let duration = packets.min(PRESSED) * (self.stream.events_clock_rate / 50) as u16;
        let event = TelephoneEvent { event, end, volume: 10, duration };
        Some((payload_type, begun, packets == 1, event))
    }

    /// One more packet of the sound that [`Session::send`] was given, where the other end wants
    /// less of it in each: to be called after it until there is none.
    pub fn rest(&mut self, out: &mut Vec<u8>) -> Option<SocketAddr> {
        let to = self.destination().filter(|_| self.stream.sends)?;
        self.write_sound(self.packet_time(), out)?;
        Some(to)
    }

    /// What we put into a packet: what the other end wants, where the codec can be cut anywhere.
    fn packet_time(&self) -> Duration {
        // PCMU, PCMA and G722.
        match self.stream.codec.static_payload_type() {
            Some(0 | 8 | 9) => self.stream.packet_time,
            _ => FRAME,
        }
    }

    /// Time goes on without sound.
    fn pass(&mut self, units: u32) {
        let waited = self.outgoing.len() as u64 * u64::from(self.stream.codec.clock_rate())
            / u64::from(self.stream.codec.sample_rate());
        self.outgoing.clear();
        self.timestamp = self.timestamp.wrapping_add(units).wrapping_add(waited as u32);
    }

    /// A packet of so much of the sound that waits, if there is so much.
    fn write_sound(&mut self, time: Duration, out: &mut Vec<u8>) -> Option<()> {
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

    /// Sends nothing while nobody speaks from now on, where the other end makes comfort noise of
    /// what it is told of it (RFC 3389). Opus does not go with it.
    pub fn suppress_silence(&mut self) {
        self.silence.get_or_insert_default();
    }

    /// What goes out in the place of `samples`, of 20 ms: `None` where they are to be sent. The
    /// packet that is put into `out` goes to the address, if there is one.
    fn send_silence(
        &mut self,
        samples: &[i16],
        to: SocketAddr,
        units: u32,
        out: &mut Vec<u8>,
    ) -> Option<Option<SocketAddr>> {
        let payload_type = self.stream.noise?;
        let verdict = self.silence.as_mut()?.judge(samples);
        if verdict == Verdict::Sound {
            return None;
        }
        self.pass(units);
        self.begins = true;
        let Verdict::Told(level) = verdict else { return Some(None) };
        let timestamp = self.timestamp.wrapping_sub(units);
        Some(self.write(payload_type, timestamp, false, &[level], out).map(|()| to))
    }
}
