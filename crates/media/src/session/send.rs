//! The sent packets of audio and of telephone events. Audio is packetized as the other end
//! requests.

use super::silence::Verdict;
use super::{FRAME, MAX_PACKET, Pressed, Session};
use crate::error::{DigitError, SendError};
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use rtp::event::{TelephoneEvent, from_digit};
use rtp::packet::HeaderFields;

/// The duration of a digit and of the pause after it, in packets.
const PRESSED: u16 = 5;
const RELEASED: u16 = 3;
/// The number of end packets of a digit (RFC 4733 section 2.5.1.4).
const ENDS: u16 = 3;

impl Session {
    /// Queues a key, `0` to `9`, `*`, `#`, `A` to `D`, as a telephone event (RFC 4733).
    ///
    /// # Errors
    /// [`DigitError`] if the key is unknown, or the other end does not accept events.
    pub fn press(&mut self, digit: char) -> Result<(), DigitError> {
        let event = from_digit(digit).ok_or(DigitError::Unknown(digit))?;
        if self.stream.events.is_none() {
            return Err(DigitError::NotAccepted);
        }
        self.digits.push(event);
        Ok(())
    }

    /// Returns true while keys are being sent.
    #[must_use]
    pub const fn is_pressing(&self) -> bool {
        self.pressed.is_some() || !self.digits.is_empty()
    }

    /// Writes the next packet, with 20 ms of audio from `samples`, to `out`, and returns its
    /// destination. It is called every 20 ms. `None` if no packet is to be sent.
    ///
    /// If the other end requests longer packets, a packet is returned when it is full. If it
    /// requests shorter ones, [`Session::rest`] returns the further packets.
    ///
    /// # Errors
    /// [`SendError`] if the packet cannot be written or encrypted. The session continues with the
    /// next one.
    pub fn send(
        &mut self,
        samples: &[i16],
        out: &mut Vec<u8>,
    ) -> Result<Option<SocketAddr>, SendError> {
        let units = self.stream.codec.clock_rate() / 50;
        let to = self.destination().filter(|_| self.stream.sends && !self.awaits_keys());
        let Some(to) = to else {
            self.pass(units);
            return Ok(None);
        };
        if let Some(event) = self.event(self.timestamp) {
            self.pass(units);
            let (payload_type, begun, is_first, event) = event;
            self.write(payload_type, begun, is_first, &event.to_bytes(), out)?;
            return Ok(Some(to));
        }
        if let Some((payload_type, verdict)) = self.judge_silence(samples) {
            return Ok(self.write_silence(payload_type, verdict, units, out)?.then_some(to));
        }
        let time = self.packet_time();
        // An owner that does not call `rest` gets all audio in one packet.
        let time = if self.outgoing.is_empty() { time } else { time.max(FRAME) };
        self.outgoing.extend_from_slice(samples);
        Ok(self.write_sound(time, out)?.then_some(to))
    }

    fn write(
        &mut self,
        payload_type: u8,
        timestamp: u32,
        marker: bool,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), SendError> {
        let fields = HeaderFields {
            payload_type,
            marker,
            sequence_number: self.sequence_number,
            timestamp,
            ssrc: self.seed.ssrc,
        };
        out.clear();
        out.resize(MAX_PACKET, 0);
        let length = match &mut self.protection {
            Some(protection) => protection.write(fields, payload, out, &mut self.measured),
            None => fields.write(payload, out).map_err(SendError::Write),
        };
        let length = length.inspect_err(|_| self.statistics.unsent += 1)?;
        out.truncate(length);
        self.sequence_number = self.sequence_number.wrapping_add(1);
        self.statistics.sent += 1;
        self.reports.sent(timestamp, payload.len(), self.clock);
        Ok(())
    }

    /// Returns the telephone event that replaces the audio now: its payload type, its start
    /// timestamp, and true for its first packet.
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

    /// Writes a further packet of the audio that [`Session::send`] was given, if the other end
    /// requests shorter packets. It is called after `send` until it returns `None`.
    ///
    /// # Errors
    /// As of [`Session::send`].
    pub fn rest(&mut self, out: &mut Vec<u8>) -> Result<Option<SocketAddr>, SendError> {
        let to = self.destination().filter(|_| self.stream.sends && !self.awaits_keys());
        let Some(to) = to else { return Ok(None) };
        Ok(self.write_sound(self.packet_time(), out)?.then_some(to))
    }

    /// Returns the duration of sent packets: as the other end requests, if the codec has no fixed
    /// frames.
    fn packet_time(&self) -> Duration {
        // PCMU, PCMA and G722.
        match self.stream.codec.static_payload_type() {
            Some(0 | 8 | 9) => self.stream.packet_time,
            _ => FRAME,
        }
    }

    /// Advances the timestamp without audio.
    fn pass(&mut self, units: u32) {
        let waited = self.outgoing.len() as u64 * u64::from(self.stream.codec.clock_rate())
            / u64::from(self.stream.codec.sample_rate());
        self.outgoing.clear();
        self.timestamp = self.timestamp.wrapping_add(units).wrapping_add(waited as u32);
    }

    /// Writes a packet of this duration from the waiting audio. Returns false if there is not
    /// enough.
    fn write_sound(&mut self, time: Duration, out: &mut Vec<u8>) -> Result<bool, SendError> {
        let millis = time.as_millis() as u32;
        let count = (self.stream.codec.sample_rate() * millis / 1000) as usize;
        if self.outgoing.len() < count {
            return Ok(false);
        }
        let mut payload = self.payloads.pop().unwrap_or_default();
        payload.clear();
        self.encoder.encode(&self.outgoing[..count], &mut payload);
        self.outgoing.drain(..count);
        let marker = core::mem::take(&mut self.begins);
        let timestamp = self.timestamp;
        let units = self.stream.codec.clock_rate() * millis / 1000;
        self.timestamp = timestamp.wrapping_add(units);
        let written = self.write(self.stream.send_type, timestamp, marker, &payload, out);
        self.reuse(payload);
        written.map(|()| true)
    }

    /// Enables silence suppression, if the other end supports comfort noise (RFC 3389). Opus does
    /// not use it.
    pub fn suppress_silence(&mut self) {
        self.silence.get_or_insert_default();
    }

    /// Returns the treatment of 20 ms of `samples` under silence suppression, with the payload type
    /// of comfort noise. `None`: the samples are sent.
    fn judge_silence(&mut self, samples: &[i16]) -> Option<(u8, Verdict)> {
        let payload_type = self.stream.noise?;
        let verdict = self.silence.as_mut()?.judge(samples);
        (verdict != Verdict::Sound).then_some((payload_type, verdict))
    }

    /// Writes a description of the silence, if one is due. Returns false if no packet is due.
    fn write_silence(
        &mut self,
        payload_type: u8,
        verdict: Verdict,
        units: u32,
        out: &mut Vec<u8>,
    ) -> Result<bool, SendError> {
        self.pass(units);
        self.begins = true;
        let Verdict::ComfortNoise(level) = verdict else { return Ok(false) };
        let timestamp = self.timestamp.wrapping_sub(units);
        self.write(payload_type, timestamp, false, &[level], out)?;
        Ok(true)
    }
}
