//! A call of two codecs, tones, and the packets of both.

use super::super::codecs::{callee, caller};
use super::super::{Rig, place};
use crate::{Channel, Codec, Drop, Limits, Side};
use ::codec::{Decoder, Encoder};
use core::cell::Cell;
use core::f64::consts::TAU;
use core::time::Duration;
use rtp::Packet;
use rtp::packet::HeaderFields;
use rtp::rtcp::Writer;
use std::format;
use std::string::String;
use std::vec::Vec;

pub(super) const HERE: &str = "198.51.100.1:4000";
pub(super) const THERE: &str = "203.0.113.1:6000";

/// The payload type of a codec in these tests.
pub(super) fn number(codec: Codec) -> u8 {
    codec.static_payload_type().unwrap_or(match codec.name() {
        "opus" => 110,
        "G726-32" => 111,
        _ => 112,
    })
}

/// The payload type of telephone events at the clock rate of a codec.
pub(super) fn event_number(codec: Codec) -> u8 {
    if codec.clock_rate() == 48_000 { 102 } else { 101 }
}

pub(super) fn formats(codec: Codec) -> (String, Vec<String>) {
    let (number, event) = (number(codec), event_number(codec));
    let channels = if codec.channels() == 2 { "/2" } else { "" };
    let rate = codec.clock_rate();
    let maps = [
        format!("rtpmap:{number} {}/{rate}{channels}", codec.name()),
        format!("rtpmap:{event} telephone-event/{rate}"),
    ];
    (format!("{number} {event}"), maps.to_vec())
}

pub(super) fn sine(frequency: f64, sample_rate: u32, milliseconds: u32) -> Vec<i16> {
    let step = TAU * frequency / f64::from(sample_rate);
    let count = sample_rate / 1000 * milliseconds;
    (0..count).map(|at| (8000.0 * (step * f64::from(at)).sin()) as i16).collect()
}

/// The level of a tone against that of [`sine`], in decibels.
pub(super) fn level(frequency: f64, sample_rate: u32, samples: &[i16]) -> f64 {
    let step = TAU * frequency / f64::from(sample_rate);
    let (mut real, mut imaginary) = (0.0, 0.0);
    for (at, &sample) in samples.iter().enumerate() {
        real += f64::from(sample) * (step * at as f64).cos();
        imaginary += f64::from(sample) * (step * at as f64).sin();
    }
    20.0 * (2.0 * f64::hypot(real, imaginary) / samples.len() as f64 / 8000.0).log10()
}

/// A received packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) payload_type: u8,
    pub(super) marker: bool,
    pub(super) sequence_number: u16,
    pub(super) timestamp: u32,
    pub(super) payload: Vec<u8>,
}

/// A call of a caller with the first codec and a callee with the second.
pub(super) struct Call {
    pub(super) rig: Rig,
    pub(super) codecs: [Codec; 2],
    pub(super) now: Cell<Duration>,
}

impl Call {
    pub(super) fn new(codecs: [Codec; 2], lines: [&[&str]; 2]) -> Self {
        let rig = Rig::new(Limits::default());
        let call = Self { rig, codecs, now: Cell::default() };
        let [offer, answer] = call.descriptions(lines);
        call.rig.offer(&offer, Codec::ALL);
        call.rig.first_answer(&answer).unwrap();
        // Both ends are known from their first packets.
        for (side, from) in [(Side::Caller, HERE), (Side::Callee, THERE)] {
            let mut report = [0; 100];
            let mut writer = Writer::new(&mut report);
            writer.receiver_report(1, &[]).unwrap();
            let (length, from) = (writer.len(), place(from));
            let from = core::net::SocketAddr::new(from.ip(), from.port() + 1);
            let stream = call.rig.stream();
            let _ = stream.relay(side, Channel::Rtcp, from, &mut report, length, Duration::ZERO);
        }
        call
    }

    pub(super) fn descriptions(&self, lines: [&[&str]; 2]) -> [String; 2] {
        let text = |at: usize| {
            let (formats, maps) = formats(self.codecs[at]);
            let maps: Vec<&str> =
                maps.iter().map(String::as_str).chain(lines[at].iter().copied()).collect();
            if at == 0 { caller(&formats, &maps) } else { callee(&formats, &maps) }
        };
        [text(0), text(1)]
    }

    /// Sends a packet of `side`, 60 ms after the one before. Returns those that the other side
    /// receives.
    pub(super) fn send(&self, side: Side, packet: &[u8]) -> Result<Vec<Received>, Drop> {
        let from = if side == Side::Caller { HERE } else { THERE };
        self.now.update(|now| now + Duration::from_millis(60));
        let packets = self.rig.send_all(side, from, packet, self.now.get())?;
        Ok(packets.iter().map(|packet| Received::parse(packet)).collect())
    }
}

impl Received {
    pub(super) fn parse(packet: &[u8]) -> Self {
        let Packet { header, payload } = Packet::parse(packet).unwrap();
        assert_eq!(header.ssrc(), 77);
        Self {
            payload_type: header.payload_type(),
            marker: header.marker(),
            sequence_number: header.sequence_number(),
            timestamp: header.timestamp(),
            payload: payload.to_vec(),
        }
    }
}

impl Rig {
    /// Sends a packet of `side` at the time `now`. Returns the packets that leave.
    pub(super) fn send_all(
        &self,
        side: Side,
        from: &str,
        packet: &[u8],
        now: Duration,
    ) -> Result<Vec<Vec<u8>>, Drop> {
        let mut buffer = [0; 4608];
        buffer[..packet.len()].copy_from_slice(packet);
        let (stream, length) = (self.stream(), packet.len());
        let mut relayed =
            stream.relay(side, Channel::Rtp, place(from), &mut buffer, length, now)?;
        let mut out = Vec::new();
        loop {
            if relayed.length > 0 {
                out.push(buffer[..relayed.length].to_vec());
            }
            if !relayed.has_more {
                return Ok(out);
            }
            relayed = stream.next(side, &mut buffer).expect("another packet");
        }
    }
}

pub(super) fn rtp(
    payload_type: u8,
    sequence_number: u16,
    timestamp: u32,
    payload: &[u8],
) -> Vec<u8> {
    let fields = HeaderFields { marker: false, payload_type, sequence_number, timestamp, ssrc: 77 };
    [&fields.to_bytes()[..], payload].concat()
}

/// The packets of `samples` in a codec, each of these milliseconds in turn.
pub(super) fn packets(codec: Codec, samples: &[i16], times: &[u32]) -> Vec<Vec<u8>> {
    let mut encoder = Encoder::new(codec);
    let (mut out, mut at, mut timestamp) = (Vec::new(), 0, u32::MAX - 5000);
    for (at_number, &time) in (65_500_u32..).zip(times.iter().cycle()) {
        let count = (codec.sample_rate() / 1000 * time) as usize;
        let Some(piece) = samples.get(at..at + count) else { break };
        let mut payload = Vec::new();
        encoder.encode(piece, &mut payload);
        out.push(rtp(number(codec), at_number as u16, timestamp, &payload));
        at += count;
        timestamp = timestamp.wrapping_add(codec.clock_rate() / 1000 * time);
    }
    out
}

/// Decodes packets, which have to follow one another without a gap.
pub(super) fn decoded(codec: Codec, received: &[Received]) -> Vec<i16> {
    let (mut decoder, mut out) = (Decoder::new(codec), Vec::new());
    let mut next = None;
    for packet in received {
        assert_eq!(packet.payload_type, number(codec));
        let place = (packet.sequence_number, packet.timestamp);
        assert_eq!(next.unwrap_or(place), place);
        let units = codec.units(&packet.payload).expect("a payload of the codec");
        next = Some((place.0.wrapping_add(1), place.1.wrapping_add(units)));
        decoder.decode(&packet.payload, &mut out);
    }
    out
}

/// All pairs of different codecs.
pub(super) fn pairs() -> impl Iterator<Item = [Codec; 2]> {
    let pair = |&one: &Codec| Codec::ALL.iter().map(move |&other| [one, other]);
    Codec::ALL.iter().flat_map(pair).filter(|[one, other]| one != other)
}
