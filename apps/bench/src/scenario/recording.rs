//! Media of a scenario as packets with their times: captures, audio files, digits.

use super::fault::ScenarioError;
use crate::capture::rtp_datagrams;
use rtp::packet::HeaderFields;
use sip::Duration;
use std::path::{Path, PathBuf};

/// Packets with their times.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Recording {
    pub(super) packets: Vec<Packet>,
    /// The time of a repetition after the start.
    pub(super) length: Duration,
    /// The payload type, and the ticks of `length` on the clock of the timestamps; `None` for
    /// packets that have a header of their own.
    pub(super) form: Option<(u8, u32)>,
}

/// A packet: the whole, or its payload alone.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Packet {
    /// The time after the start.
    pub(super) at: Duration,
    pub(super) marker: bool,
    /// The timestamp after that of the start.
    pub(super) timestamp: u32,
    pub(super) bytes: Vec<u8>,
}

/// The time of a packet of audio, and of a digit.
const FRAME: Duration = Duration::from_millis(20);
/// The clock of telephone events and G.711, in ticks of a frame.
const TICKS: u32 = 160;
/// The frames of a digit, of the pause after it, and the packets that end it (RFC 4733 section
/// 2.5.1.4).
const DIGIT_FRAMES: u32 = 5;
const PAUSE_FRAMES: u32 = 5;
const END_PACKETS: u32 = 3;
/// The longest audio file in octets.
const LONGEST: usize = 64 << 20;

impl Recording {
    /// Reads the RTP packets of a capture.
    ///
    /// # Errors
    /// [`ScenarioError`] if it cannot be read, or has no RTP.
    pub(super) fn capture(path: &Path) -> Result<Self, ScenarioError> {
        let wrong = |text: String| ScenarioError::Media(PathBuf::from(path), text);
        let datagrams = rtp_datagrams(path).map_err(|error| wrong(error.to_string()))?;
        let first = datagrams.first().map(|(time, _)| *time);
        let first = first.ok_or_else(|| wrong("the capture has no RTP packet".to_owned()))?;
        let packet = |(time, bytes): (u64, Vec<u8>)| Packet {
            at: Duration::from_micros(time.saturating_sub(first) / 1000),
            marker: false,
            timestamp: 0,
            bytes,
        };
        let packets: Vec<_> = datagrams.into_iter().map(packet).collect();
        let length = packets.last().map_or(FRAME, |last| last.at + FRAME);
        Ok(Self { packets, length, form: None })
    }

    /// Reads an audio file: encoded samples, or a WAV file of them.
    ///
    /// # Errors
    /// [`ScenarioError`] if it cannot be read, or the payload type is not known.
    pub(super) fn stream(path: &Path, payload_type: u8) -> Result<Self, ScenarioError> {
        let wrong = |text: &str| ScenarioError::Media(PathBuf::from(path), text.to_owned());
        let bytes =
            std::fs::read(path).map_err(|error| ScenarioError::Read(PathBuf::from(path), error))?;
        if bytes.len() > LONGEST {
            return Err(wrong("the file is longer than 64 MiB"));
        }
        // Octets and ticks of a packet, and its time.
        let (octets, ticks, time) = match payload_type {
            0 | 8 | 9 => (160, TICKS, FRAME),
            18 => (20, TICKS, FRAME),
            98 => (50, 240, Duration::from_millis(30)),
            _ => {
                return Err(wrong(
                    "the payload type is not known; known are 0 (PCMU), 8 (PCMA), 9 (G722), 18 \
                     (G729) and 98 (iLBC, 30 ms)",
                ));
            }
        };
        let samples = samples(&bytes);
        let packets: Vec<_> = samples
            .chunks(octets)
            .zip(0_u32..)
            .map(|(bytes, number)| Packet {
                at: time.times(number.into()),
                marker: number == 0,
                timestamp: number * ticks,
                bytes: bytes.to_vec(),
            })
            .collect();
        if packets.is_empty() {
            return Err(wrong("the file has no samples"));
        }
        let count = packets.len() as u32;
        let form = Some((payload_type, count * ticks));
        Ok(Self { packets, length: time.times(count.into()), form })
    }

    /// Returns the telephone events of digits (RFC 4733), or `None` if a character is no digit.
    pub(super) fn digits(digits: &[u8], payload_type: u8) -> Option<Self> {
        let mut packets = Vec::new();
        let frames = DIGIT_FRAMES + PAUSE_FRAMES;
        for (digit, number) in digits.iter().zip(0_u32..) {
            let event = match digit.to_ascii_uppercase() {
                digit @ b'0'..=b'9' => digit - b'0',
                b'*' => 10,
                b'#' => 11,
                letter @ b'A'..=b'D' => letter - b'A' + 12,
                _ => return None,
            };
            let first = number * frames;
            for frame in 1..DIGIT_FRAMES + END_PACKETS {
                let is_end = frame >= DIGIT_FRAMES;
                let [high, low] = (frame.min(DIGIT_FRAMES) * TICKS).to_be_bytes()[2..] else {
                    return None;
                };
                packets.push(Packet {
                    at: FRAME.times((first + frame).into()),
                    marker: frame == 1,
                    timestamp: first * TICKS,
                    bytes: vec![event, 10 | u8::from(is_end) << 7, high, low],
                });
            }
        }
        let count = digits.len() as u32 * frames;
        let form = Some((payload_type, count * TICKS));
        Some(Self { packets, length: FRAME.times(count.into()), form })
    }
}

/// Returns the samples of a WAV file, or all of another file.
fn samples(bytes: &[u8]) -> &[u8] {
    if !bytes.starts_with(b"RIFF") || bytes.get(8..12) != Some(b"WAVE") {
        return bytes;
    }
    let mut rest = &bytes[12..];
    while let Some((head, after)) = rest.split_at_checked(8) {
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let length = length.min(after.len());
        if head.starts_with(b"data") {
            return &after[..length];
        }
        rest = after.get(length + length % 2..).unwrap_or_default();
    }
    &[]
}

/// The sending of a recording: numbers go on over repetitions.
#[derive(Clone, Debug)]
pub(super) struct Position {
    next: usize,
    round: u32,
    sequence: u16,
    timestamp: u32,
    ssrc: u32,
}

impl Position {
    /// Returns the start, with random numbers.
    pub(super) fn new(rng: &mut fastrand::Rng) -> Self {
        let (sequence, timestamp, ssrc) = (rng.u16(..), rng.u32(..), rng.u32(..));
        Self { next: 0, round: 0, sequence, timestamp, ssrc }
    }

    /// Returns the time of the next packet after the start, or `None` after `rounds` repetitions.
    pub(super) fn next_at(&self, recording: &Recording, rounds: Option<u32>) -> Option<Duration> {
        let packet = recording.packets.get(self.next)?;
        let is_over = rounds.is_some_and(|rounds| self.round >= rounds);
        (!is_over).then(|| recording.length.times(self.round.into()) + packet.at)
    }

    /// Returns the next packet, and goes on.
    pub(super) fn take(&mut self, recording: &Recording) -> Option<Vec<u8>> {
        let packet = recording.packets.get(self.next)?;
        let bytes = match recording.form {
            None => packet.bytes.clone(),
            Some((payload_type, ticks)) => {
                let start = self.timestamp.wrapping_add(self.round.wrapping_mul(ticks));
                let fields = HeaderFields {
                    marker: packet.marker,
                    payload_type,
                    sequence_number: self.sequence,
                    timestamp: start.wrapping_add(packet.timestamp),
                    ssrc: self.ssrc,
                };
                [&fields.to_bytes()[..], &packet.bytes].concat()
            }
        };
        self.sequence = self.sequence.wrapping_add(1);
        self.next += 1;
        if self.next == recording.packets.len() {
            self.next = 0;
            self.round += 1;
        }
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_numbered_over_repetitions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.wav");
        let data = vec![0x55; 400];
        let mut wav = b"RIFF\0\0\0\0WAVEfmt \x04\0\0\0abcddata\x90\x01\0\0".to_vec();
        wav.extend(&data);
        std::fs::write(&path, &wav).unwrap();
        let recording = Recording::stream(&path, 8).unwrap();
        assert_eq!((recording.packets.len(), recording.length), (3, Duration::from_millis(60)));
        assert_eq!(recording.packets[2].bytes.len(), 80);
        let mut position = Position::new(&mut fastrand::Rng::with_seed(1));
        let mut sent = Vec::new();
        while let Some(at) = position.next_at(&recording, Some(2)) {
            let bytes = position.take(&recording).unwrap();
            let packet = rtp::Packet::parse(&bytes).unwrap();
            sent.push((at, packet.header.sequence_number(), packet.header.timestamp()));
        }
        assert_eq!(sent.len(), 6);
        let (_, sequence, timestamp) = sent[0];
        let last =
            (Duration::from_millis(100), sequence.wrapping_add(5), timestamp.wrapping_add(800));
        assert_eq!(sent[5], last);
        assert!(Recording::stream(&path, 3).is_err());
        assert!(Recording::capture(&path).is_err());
    }

    #[test]
    fn digits_are_telephone_events() {
        let recording = Recording::digits(b"1#", 101).unwrap();
        let events: Vec<_> = recording
            .packets
            .iter()
            .map(|packet| (packet.bytes[0], packet.bytes[1] >> 7))
            .collect();
        assert_eq!(events.len(), 14);
        assert_eq!((events[0], events[6], events[13]), ((1, 0), (1, 1), (11, 1)));
        assert_eq!(recording.packets[7].timestamp, 1600);
        assert!(recording.packets[0].marker && !recording.packets[1].marker);
        assert_eq!(Recording::digits(b"x", 101), None);
    }
}
