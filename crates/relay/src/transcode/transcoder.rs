//! The conversion of the packets of one direction.
//!
//! Packets drive it: there is neither a timer nor a thread. Sound that does not fill a packet waits
//! for more of it. A timestamp of the output is that of the input, counted by another clock:
//! silence stays silence, and a loss stays a loss where the packets of both sides have the same
//! duration.

use super::budget::{self, Budget};
use super::counts::Conversions;
use super::event::EventMapper;
use super::format::Kind;
use super::output::Output;
use super::route::Route;
use super::window::{Fields, Place, Window};
use crate::error::Drop;
use ::codec::{Codec, Decoder, Encoder, Resampler};
use alloc::vec::Vec;
use core::time::Duration;
use rtp::event::TelephoneEvent;
use rtp::{Header, Packet};

/// The longest sound in a packet. Codecs and networks have at most 200 ms.
const LONGEST: Duration = Duration::from_millis(240);

/// The longest description of comfort noise, in bytes.
const MAX_NOISE: usize = 32;

/// The sound that a packet of comfort noise makes for an end without comfort noise.
const NOISE: Duration = Duration::from_millis(20);

/// The conversion of one direction.
#[derive(Debug)]
pub(super) struct Transcoder {
    route: Route,
    source: Option<Source>,
    budget: Budget,
    decode: Option<Decode>,
    encode: Option<Encode>,
    events: EventMapper,
    /// Samples at the rate of the encoder, less than a packet.
    samples: Vec<i16>,
    /// Samples at the rate of the decoder.
    decoded: Vec<i16>,
    pub(super) output: Output,
    pub(super) counts: Conversions,
    /// The numbers of the source before this one.
    earlier: Option<Numbers>,
}

/// The numbers of the next packet of a source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    pub(super) ssrc: u32,
    pub(super) sequence_number: u16,
    pub(super) timestamp: u32,
}

/// The synchronization source that is converted.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) ssrc: u32,
    pub(super) window: Window,
    /// The timestamp after the last sound, with its clock rate. `None` before the first sound.
    pub(super) line: Option<(u32, u32)>,
    /// The duration of the last sound, in units of its clock.
    duration: u32,
    /// Counters of received packets and of the bytes in their payloads. They wrap.
    pub(super) packets: u32,
    pub(super) bytes: u32,
    /// The packets whose loss the sequence numbers of the output do not tell.
    pub(super) hidden: u32,
}

#[derive(Debug)]
struct Decode {
    payload_type: u8,
    codec: Codec,
    /// Its samples per second.
    rate: u32,
    decoder: Decoder,
    resampler: Resampler,
}

#[derive(Debug)]
struct Encode {
    encoder: Encoder,
    /// Its samples per second.
    rate: u32,
}

impl Decode {
    /// A decoder for an encoder of `rate` samples per second.
    fn new(payload_type: u8, codec: Codec, rate: u32) -> Self {
        let (decoder, own) = (Decoder::with_rate(codec, rate), codec.sample_rate_for(rate));
        Self { payload_type, codec, rate: own, decoder, resampler: Resampler::new(own, rate) }
    }
}

impl Transcoder {
    pub(super) fn new(route: Route) -> Self {
        Self {
            route,
            source: None,
            budget: Budget::default(),
            decode: None,
            encode: None,
            events: EventMapper::default(),
            samples: Vec::new(),
            decoded: Vec::new(),
            output: Output::default(),
            counts: Conversions::default(),
            earlier: None,
        }
    }

    pub(super) const fn route(&self) -> &Route {
        &self.route
    }

    pub(super) const fn source(&self) -> Option<&Source> {
        self.source.as_ref()
    }

    /// Changes the codecs. The numbers of the packets go on.
    pub(super) fn reroute(&mut self, route: Route) {
        if route == self.route {
            return;
        }
        if route.sound.1 != self.route.sound.1 {
            self.encode = None;
            self.output.is_marked = true;
        }
        self.samples.clear();
        self.decode = None;
        self.route = route;
    }

    /// The numbers that the next packet has.
    pub(super) fn numbers(&self) -> Option<Numbers> {
        let Output { ssrc, sequence_number, timestamp, .. } = self.output;
        self.source.as_ref().map(|_| Numbers { ssrc, sequence_number, timestamp })
    }

    /// The timestamp after the last received sound.
    pub(super) fn end(&self) -> u32 {
        let clock_rate = self.route.sound.1.clock_rate();
        let waiting = convert(self.samples.len() as u64, self.rate(), clock_rate);
        self.output.timestamp.wrapping_add(waiting as u32)
    }

    /// Continues with `numbers` and `counts`, which packets had before.
    pub(super) const fn continue_from(&mut self, numbers: Numbers, counts: Conversions) {
        (self.earlier, self.counts) = (Some(numbers), counts);
    }

    /// Receives a packet. The packets that it yields are ready then.
    ///
    /// # Errors
    /// [`Drop`]: it cannot be converted, or is over the limit of sound.
    pub(super) fn receive(&mut self, packet: &[u8], now: Duration) -> Result<(), Drop> {
        // The owner has not taken these.
        self.output.clear();
        let Packet { header, payload } = Packet::parse(packet).map_err(Drop::Rtp)?;
        let cost = self.cost(&header, payload).inspect_err(|_| self.counts.unusable += 1)?;
        if !self.budget.take(cost, now) {
            self.counts.excess += 1;
            return Err(Drop::Excess);
        }
        let source = match &mut self.source {
            Some(source) if source.ssrc == header.ssrc() => source,
            _ => self.begin(&header),
        };
        source.packets = source.packets.wrapping_add(1);
        source.bytes = source.bytes.wrapping_add(payload.len() as u32);
        let number = header.sequence_number();
        let fields = Fields {
            payload_type: header.payload_type(),
            marker: header.marker(),
            timestamp: header.timestamp(),
        };
        match source.window.place(number) {
            Place::Next => self.process(fields, payload, 0),
            Place::Ahead => source.window.hold(number, fields, payload),
            Place::Late => self.counts.late += 1,
            Place::Repeated => self.counts.repeated += 1,
        }
        while let Some((held, lost)) = self.source.as_mut().and_then(|it| it.window.pop()) {
            self.counts.missing += u64::from(lost);
            self.process(held.fields, &held.payload, lost);
        }
        Ok(())
    }

    /// The cost of a packet in sound.
    fn cost(&self, header: &Header<'_>, payload: &[u8]) -> Result<Duration, Drop> {
        let number = header.payload_type();
        let kind = self.route.accepts.kind(number).ok_or(Drop::PayloadType(number))?;
        let cost = match kind {
            Kind::Sound(codec) => {
                let units = codec.units(payload).ok_or(Drop::Payload)?;
                let micros = u64::from(units) * 1_000_000 / u64::from(codec.clock_rate());
                let is_new = self.decode.as_ref().is_some_and(|it| it.payload_type != number);
                let change = if is_new { budget::CHANGE } else { Duration::ZERO };
                let cost = Duration::from_micros(micros);
                if cost > LONGEST {
                    return Err(Drop::Payload);
                }
                cost.max(budget::LEAST) + change
            }
            Kind::Event { .. } => budget::LEAST,
            Kind::Noise if (1..=MAX_NOISE).contains(&payload.len()) => NOISE,
            Kind::Noise => return Err(Drop::Payload),
            Kind::Other => return Err(Drop::PayloadType(number)),
        };
        let is_known = self.source.as_ref().is_none_or(|it| it.ssrc == header.ssrc());
        Ok(if is_known { cost } else { cost + budget::CHANGE })
    }

    /// Begins with the source of `header`. Its packets have its numbers, unless it was converted
    /// before.
    fn begin(&mut self, header: &Header<'_>) -> &mut Source {
        let ssrc = header.ssrc();
        let (before, known) = (self.numbers(), self.earlier.filter(|it| it.ssrc == ssrc));
        self.earlier = before.or(self.earlier);
        let numbers = known.unwrap_or(Numbers {
            ssrc,
            sequence_number: header.sequence_number(),
            timestamp: header.timestamp(),
        });
        self.output.ssrc = ssrc;
        self.output.sequence_number = numbers.sequence_number;
        self.output.timestamp = numbers.timestamp;
        self.output.is_marked = true;
        self.samples.clear();
        self.decode = None;
        self.events = EventMapper::default();
        self.source.insert(Source {
            ssrc,
            window: Window::new(header.sequence_number()),
            line: None,
            duration: 0,
            packets: 0,
            bytes: 0,
            hidden: 0,
        })
    }

    /// Processes the next packet. `lost` packets before it are missing.
    fn process(&mut self, fields: Fields, payload: &[u8], lost: u16) {
        match self.route.accepts.kind(fields.payload_type) {
            Some(Kind::Sound(codec)) => self.sound(codec, fields, payload, lost),
            Some(Kind::Event { clock_rate }) => self.event(clock_rate, fields, payload),
            Some(Kind::Noise) => self.noise(fields, payload),
            // The agreement has changed while the packet waited.
            Some(Kind::Other) | None => self.counts.unusable += 1,
        }
    }

    fn sound(&mut self, codec: Codec, fields: Fields, payload: &[u8], lost: u16) {
        let Some(units) = codec.units(payload) else { return };
        let Fields { payload_type, marker, timestamp } = fields;
        let rate = self.prepare(codec);
        self.advance(timestamp, codec.clock_rate(), lost);
        self.output.is_marked |= marker && self.samples.is_empty();
        let is_known = |it: &Decode| (it.payload_type, it.codec) == (payload_type, codec);
        if !self.decode.as_ref().is_some_and(is_known) {
            self.decode = Some(Decode::new(payload_type, codec, rate));
        }
        let Some(decode) = &mut self.decode else { return };
        self.decoded.clear();
        decode.decoder.decode(payload, &mut self.decoded);
        let count = convert(units.into(), codec.clock_rate(), decode.rate);
        self.decoded.resize(count as usize, 0);
        decode.resampler.resample(&self.decoded, &mut self.samples);
        if let Some(source) = &mut self.source {
            source.line = Some((timestamp.wrapping_add(units), codec.clock_rate()));
            source.duration = units;
        }
        self.encode();
    }

    /// Prepares the encoder for sound of `codec`. Returns its samples per second: a narrow band
    /// stays narrow.
    fn prepare(&mut self, codec: Codec) -> u32 {
        let to = self.route.sound.1;
        let rate = to.sample_rate_for(codec.sample_rate());
        if self.encode.as_ref().is_none_or(|it| it.rate != rate) {
            self.flush();
            self.decode = None;
            self.encode = Some(Encode { encoder: Encoder::with_rate(to, rate), rate });
        }
        rate
    }

    fn event(&mut self, clock_rate: u32, fields: Fields, payload: &[u8]) {
        let (Some((payload_type, rate)), Some(event)) =
            (self.route.event, TelephoneEvent::parse_all(payload).next())
        else {
            return;
        };
        self.flush();
        let start = self.place(fields.timestamp, clock_rate);
        let rates = [clock_rate, rate];
        for (timestamp, event) in self.events.map(fields.timestamp, event, rates, || start) {
            let write = |out: &mut Vec<u8>| out.extend(event.to_bytes());
            self.output.push(payload_type, fields.marker, timestamp, write);
        }
    }

    fn noise(&mut self, fields: Fields, payload: &[u8]) {
        let clock_rate = self.clock_rate();
        let Some(payload_type) = self.route.noise else {
            let Some(decode) = &mut self.decode else { return };
            self.decoded.clear();
            decode.decoder.decode_comfort_noise(payload, &mut self.decoded);
            let rate = decode.codec.clock_rate();
            decode.resampler.resample(&self.decoded, &mut self.samples);
            if let Some((next, _)) = self.source.as_mut().and_then(|it| it.line.as_mut()) {
                *next = next.wrapping_add(rate / 50);
            }
            return self.encode();
        };
        self.flush();
        self.advance(fields.timestamp, clock_rate, 0);
        // The spectrum is one of 8000 samples per second.
        let is_same = self.decode.as_ref().is_none_or(|it| it.codec.sample_rate() == 8000)
            && self.route.sound.1.sample_rate() == 8000;
        let payload = if is_same { payload } else { &payload[..1] };
        let timestamp = self.output.timestamp;
        self.output.push(payload_type, false, timestamp, |out| out.extend_from_slice(payload));
        self.output.is_marked = true;
    }

    /// The clock rate of the received sound.
    fn clock_rate(&self) -> u32 {
        let line = self.source.as_ref().and_then(|source| source.line);
        line.map_or(8000, |(_, clock_rate)| clock_rate)
    }

    /// The timestamp of the output that equals one of the input, at or after the end of the sound.
    fn place(&self, timestamp: u32, clock_rate: u32) -> u32 {
        match self.source.as_ref().and_then(|source| source.line) {
            Some((next, rate)) if rate == clock_rate => {
                let ahead = timestamp.wrapping_sub(next).cast_signed().max(0).unsigned_abs();
                let units = convert(ahead.into(), rate, self.route.sound.1.clock_rate());
                self.output.timestamp.wrapping_add(units as u32)
            }
            _ => self.output.timestamp,
        }
    }

    /// The samples per second of the encoder.
    fn rate(&self) -> u32 {
        self.encode.as_ref().map_or(self.route.sound.1.sample_rate(), |it| it.rate)
    }

    /// The number of samples in a packet.
    fn frame(&self) -> usize {
        self.rate() as usize / 1000 * self.route.packet_time as usize
    }

    /// Advances the output up to the sound that begins at `timestamp`.
    fn advance(&mut self, timestamp: u32, clock_rate: u32, lost: u16) {
        let Some(source) = &mut self.source else { return };
        let line = source.line.replace((timestamp, clock_rate));
        let Some((next, rate)) = line.filter(|(_, rate)| *rate == clock_rate) else { return };
        let ahead = timestamp.wrapping_sub(next).cast_signed();
        // A source that steps back goes on where it was.
        if ahead <= 0 {
            return;
        }
        let (ahead, told) = (ahead.unsigned_abs(), u32::from(lost) * source.duration);
        let sample_rate = self.rate();
        let mut gap = convert(ahead.into(), rate, sample_rate);
        let mut told = convert(ahead.min(told).into(), rate, sample_rate);
        if !self.samples.is_empty() {
            let missing = (self.frame() - self.samples.len()) as u64;
            let count = missing.min(gap);
            self.conceal(count as usize);
            self.encode();
            (gap, told) = (gap - count, told.saturating_sub(count));
        }
        let frame = self.frame() as u64;
        // The numbers tell of whole packets, the sound of the rest.
        let (packets, rest) = (told / frame, told % frame);
        self.output.sequence_number = self.output.sequence_number.wrapping_add(packets as u16);
        if let Some(source) = &mut self.source {
            let hidden = u32::from(lost).saturating_sub(packets as u32);
            source.hidden = source.hidden.wrapping_add(hidden);
        }
        let units = convert(gap - rest, sample_rate, self.route.sound.1.clock_rate());
        self.output.timestamp = self.output.timestamp.wrapping_add(units as u32);
        self.output.is_marked |= gap > told;
        self.conceal(rest as usize);
    }

    /// Fills the last packet, if it has begun.
    fn flush(&mut self) {
        if self.samples.is_empty() {
            return;
        }
        let count = self.frame() - self.samples.len();
        self.conceal(count);
        let sample_rate = self.rate();
        if let Some((next, rate)) = self.source.as_mut().and_then(|source| source.line.as_mut()) {
            *next = next.wrapping_add(convert(count as u64, sample_rate, *rate) as u32);
        }
        self.encode();
    }

    /// Appends `count` samples in place of lost ones.
    fn conceal(&mut self, count: usize) {
        let end = self.samples.len() + count;
        let rate = self.rate();
        let micros = convert(count as u64, rate, 1_000_000);
        self.budget.spend(Duration::from_micros(micros));
        if let Some(decode) = &mut self.decode {
            self.decoded.clear();
            let count = convert(count as u64, rate, decode.rate);
            decode.decoder.conceal_samples(count as usize, &mut self.decoded);
            decode.resampler.resample(&self.decoded, &mut self.samples);
        }
        self.samples.resize(end, 0);
    }

    /// Encodes the samples that fill packets.
    fn encode(&mut self) {
        let (payload_type, codec) = self.route.sound;
        let frame = self.frame();
        let Some(Encode { encoder, rate }) = &mut self.encode else { return };
        let units = convert(frame as u64, *rate, codec.clock_rate()) as u32;
        let mut done = 0;
        while let Some(samples) = self.samples.get(done..done + frame) {
            let output = &mut self.output;
            let (marker, timestamp) = (output.is_marked, output.timestamp);
            output.push(payload_type, marker, timestamp, |out| encoder.encode(samples, out));
            output.is_marked = false;
            output.timestamp = timestamp.wrapping_add(units);
            done += frame;
        }
        self.samples.drain(..done);
    }
}

/// `count` units of the clock rate `from`, in units of `to`.
pub(super) const fn convert(count: u64, from: u32, to: u32) -> u64 {
    count * to as u64 / from as u64
}
