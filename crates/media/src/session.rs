//! One stream of audio: packets out at an even pace, packets in through a jitter buffer.

use crate::demultiplex::Kind;
use crate::negotiation::Stream;
use crate::rtcp::{Channel, Reports};
use alloc::vec::Vec;
use codec::{Codec, Decoder, Encoder};
use core::net::SocketAddr;
use core::time::Duration;
use rtp::event::{Events, to_digit};
use rtp::jitter_buffer::{Config, JitterBuffer, Playout};
use rtp::quality::{CodecQuality, LossPattern, mean_opinion_score, rating};
use rtp::reception::Arrival;
use rtp::{Packet, Reception};
use srtp::Suite;
use srtp::timings::Timings;

mod control;
mod framing;
mod keys;
mod send;
mod silence;
mod statistics;
mod timings;
mod trials;

pub(crate) use framing::FRAME;
use framing::Framing;
use keys::Protection;
pub(crate) use keys::is_same;
use silence::Silence;
pub use statistics::{Flow, Statistics};
pub use timings::Clock;
use timings::Measured;
use trials::Trials;

/// The longest packet: what is added by SRTP and SRTP+ is far below what is left.
const MAX_PACKET: usize = 1500;
/// Random numbers that a session begins with (RFC 3550 section 5.1).
#[derive(Clone, Copy, Debug)]
pub struct Seed {
    /// What tells this source from others.
    pub ssrc: u32,
    /// The first sequence number.
    pub sequence_number: u16,
    /// The first timestamp.
    pub timestamp: u32,
}

/// Something that a datagram has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Sound, or nothing that anybody is to hear of.
    Nothing,
    /// The other end has pressed a key.
    Digit(char),
    /// The first sound has come, from there.
    First(SocketAddr),
    /// The other end has said goodbye by RTCP, and sends no more.
    Bye,
}

/// A digit that is being sent.
struct Pressed {
    event: u8,
    timestamp: u32,
    packets: u16,
}

/// One stream of audio.
pub struct Session {
    stream: Stream,
    encoder: Encoder,
    decoder: Decoder,
    protection: Option<Protection>,
    seed: Seed,
    /// Of the next packet.
    sequence_number: u16,
    timestamp: u32,
    /// Whether the next packet begins a talkspurt.
    begins: bool,
    /// Where the other end's packets come from: that counts, whatever its description says
    /// (symmetric RTP).
    source: Option<SocketAddr>,
    reception: Option<Reception>,
    /// Payloads, and whether they describe noise.
    buffer: JitterBuffer<(bool, Vec<u8>)>,
    events: Events,
    digits: Vec<u8>,
    pressed: Option<Pressed>,
    statistics: Statistics,
    reports: Reports,
    /// Where the other end's RTCP comes from, on a socket of its own.
    control_source: Option<SocketAddr>,
    /// The pattern of what was lost, by the highest sequence number so far.
    losses: LossPattern,
    highest: Option<u64>,
    /// The latest time that the session was told of, the first one, and when a packet of the stream
    /// last came.
    clock: Duration,
    begun: Option<Duration>,
    last_arrival: Option<Duration>,
    longest_delay: Duration,
    framing: Framing,
    /// Sound that waits for a packet to be full.
    outgoing: Vec<i16>,
    trials: Trials,
    /// Where silence is not sent.
    silence: Option<Silence>,
    measured: Measured,
}

impl Session {
    /// The session of `stream`. `None` where its keys cannot be used.
    #[must_use]
    pub fn new(stream: Stream, seed: Seed) -> Option<Self> {
        Self::measured(stream, seed, None)
    }

    /// As [`Session::new`], and measures by `clock`, if there is one, what the steps of SRTP take:
    /// see [`Session::timings`].
    #[must_use]
    pub fn measured(stream: Stream, seed: Seed, clock: Option<Clock>) -> Option<Self> {
        let mut measured = Measured::by(clock);
        let protection = match &stream.security {
            None => None,
            Some(agreed) => Some(Protection::new(agreed, &stream.seed, &mut measured)?),
        };
        Some(Self {
            encoder: Encoder::new(stream.codec),
            decoder: Decoder::new(stream.codec),
            protection,
            seed,
            sequence_number: seed.sequence_number,
            timestamp: seed.timestamp,
            begins: true,
            source: None,
            reception: None,
            buffer: JitterBuffer::new(Config::new(stream.codec.clock_rate())),
            events: Events::default(),
            digits: Vec::new(),
            pressed: None,
            statistics: Statistics::default(),
            reports: Reports::new(stream.codec.clock_rate()),
            control_source: None,
            losses: LossPattern::default(),
            highest: None,
            clock: Duration::ZERO,
            begun: None,
            last_arrival: None,
            longest_delay: Duration::ZERO,
            framing: Framing::new(),
            outgoing: Vec::new(),
            trials: Trials::default(),
            silence: None,
            measured,
            stream,
        })
    }

    /// Goes on with what was agreed on anew. False where its keys cannot be used, or where it would
    /// be in clear after it was encrypted: the session is as it was.
    pub fn renew(&mut self, stream: Stream) -> bool {
        let (before, after) = (&self.stream.security, &stream.security);
        let (protection, seed) = (&mut self.protection, &stream.seed);
        let measured = &mut self.measured;
        if !keys::renew(protection, before.as_ref(), after.as_ref(), seed, measured) {
            return false;
        }
        if stream.codec != self.stream.codec {
            self.encoder = Encoder::new(stream.codec);
            self.decoder = Decoder::new(stream.codec);
            self.buffer = JitterBuffer::new(Config::new(stream.codec.clock_rate()));
            self.framing = Framing::new();
            self.outgoing.clear();
            self.reports.set_clock_rate(stream.codec.clock_rate());
        }
        if stream.remote != self.stream.remote {
            self.source = None;
            self.trials = Trials::default();
        }
        if stream.remote_rtcp != self.stream.remote_rtcp {
            self.control_source = None;
        }
        if stream.receives != self.stream.receives {
            // A hold is no delta.
            if let Some(reception) = &mut self.reception {
                reception.pause();
            }
        }
        if stream.receives && !self.stream.receives {
            // Whoever was told to be silent has been, until now.
            self.begun = Some(self.clock);
        }
        self.stream = stream;
        self.begins = true;
        true
    }

    /// What was agreed on.
    #[must_use]
    pub const fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Samples in a frame of 20 ms.
    #[must_use]
    pub const fn frame_samples(&self) -> usize {
        self.stream.codec.frame_samples()
    }

    /// A datagram has come at `now` from `from` on the socket of RTP. It is decrypted in place.
    pub fn receive(&mut self, now: Duration, from: SocketAddr, datagram: &mut [u8]) -> Heard {
        self.receive_on(Channel::Rtp, now, from, datagram)
    }

    /// A datagram has come on one of the two sockets. What is neither RTP nor RTCP is nothing to
    /// the session.
    pub fn receive_on(
        &mut self,
        channel: Channel,
        now: Duration,
        from: SocketAddr,
        datagram: &mut [u8],
    ) -> Heard {
        self.note_time(now);
        match (Kind::of(datagram), channel) {
            (Kind::Rtp, Channel::Rtp) => self.receive_sound(now, from, datagram),
            (Kind::Rtcp, _) => self.receive_reports(now, channel, from, datagram),
            _ => Heard::Nothing,
        }
    }

    fn receive_sound(&mut self, now: Duration, from: SocketAddr, datagram: &mut [u8]) -> Heard {
        let packet = match &mut self.protection {
            Some(protection) => match protection.read(datagram, &mut self.measured) {
                Ok(packet) => &*packet,
                Err(_) => {
                    self.statistics.refused += 1;
                    return Heard::Nothing;
                }
            },
            None => &*datagram,
        };
        let Ok(packet) = Packet::parse(packet) else { return Heard::Nothing };
        let header = packet.header;
        let events = self.stream.events.map(|(_, receives)| receives);
        let is_event = events == Some(header.payload_type());
        let is_noise = self.stream.noise == Some(header.payload_type());
        let mut others = self.stream.others.iter();
        let other = others.position(|(.., receive)| *receive == header.payload_type());
        let is_sound = other.is_some() || header.payload_type() == self.stream.receive_type;
        if !is_event && !is_noise && !is_sound {
            self.statistics.unknown += 1;
            return Heard::Nothing;
        }
        let is_first = self.source.is_none();
        if !self.is_of_peer(from) {
            self.statistics.strangers += 1;
            return Heard::Nothing;
        }
        if let Some(other) = other.filter(|_| !is_event) {
            self.change_codec(other);
        }
        let clock_rate = self.stream.codec.clock_rate();
        let ssrc = header.ssrc();
        if self.reception.as_ref().is_none_or(|reception| reception.ssrc() != ssrc) {
            let reception = Reception::new(&header, clock_rate);
            self.reception = Some(match events {
                Some(number) => reception.with_events(number),
                None => reception,
            });
            self.buffer = JitterBuffer::new(Config::new(clock_rate));
            self.buffer.set_frame(self.framing.frame());
            self.highest = None;
        }
        self.last_arrival = Some(now);
        if let Some(reception) = &mut self.reception {
            let arrival = reception.receive(&header, now);
            self.note_arrival(arrival);
        }
        if is_event {
            let mut digit = None;
            self.events.receive(header.timestamp(), packet.payload, |event| {
                digit = digit.or(to_digit(event.event));
            });
            return digit.map_or(Heard::Nothing, Heard::Digit);
        }
        let frame = self.framing.note(header.sequence_number(), header.timestamp(), clock_rate);
        if let Some(frame) = frame {
            self.buffer.set_frame(frame);
        }
        if self.stream.receives {
            let payload = (is_noise, packet.payload.to_vec());
            self.buffer.insert(header.timestamp(), now, payload);
        }
        if is_first { Heard::First(from) } else { Heard::Nothing }
    }

    /// The other end has changed to another codec of the answer. We do, too: what both send then
    /// has one rate.
    fn change_codec(&mut self, other: usize) {
        let mut stream = self.stream.clone();
        let before = (stream.codec, stream.send_type, stream.receive_type);
        let now = core::mem::replace(&mut stream.others[other], before);
        (stream.codec, stream.send_type, stream.receive_type) = now;
        // Its keys are the same, with which this does not fail.
        self.renew(stream);
        if let Some(reception) = &mut self.reception {
            reception.set_clock_rate(self.stream.codec.clock_rate());
        }
    }

    /// Where packets go: where the other end's come from, if that is proved by SRTP, or if the
    /// address that it named means nothing outside of its network. Else a forged datagram could
    /// send our sound to anybody.
    fn destination(&self) -> Option<SocketAddr> {
        let named = self.stream.remote?;
        let followed = self.source.filter(|_| self.may_follow());
        Some(followed.or(self.trials.found).unwrap_or(named))
    }

    /// Takes note of what was lost before a packet, and that it came.
    fn note_arrival(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::InOrder(number) => {
                let before = self.highest.replace(number).unwrap_or(number - 1);
                (before + 1..number).for_each(|_| self.losses.add(true));
                self.losses.add(false);
            }
            Arrival::Restarted(number) => self.highest = Some(number),
            Arrival::Probation | Arrival::Late(_) | Arrival::Jump => {}
        }
    }

    /// Whether a packet from `from` is the other end's. What is authentic is, wherever it comes
    /// from. In clear the address that the other end named counts before others, which behind a NAT
    /// is another one; whoever was heard first keeps the stream.
    fn is_of_peer(&mut self, from: SocketAddr) -> bool {
        let is_proven = self.protection.is_some();
        let is_named = self.stream.remote == Some(from);
        if is_named {
            self.trials.found = None;
        } else if self.source.is_none() {
            self.trials.note_first(&self.stream, from);
        }
        if is_proven || is_named || self.source.is_none() {
            self.source = Some(from);
        }
        self.source == Some(from)
    }

    /// Appends the next 20 ms of sound to `out`: to be called every 20 ms.
    pub fn play(&mut self, now: Duration, out: &mut Vec<i16>) {
        self.note_time(now);
        let count = self.frame_samples();
        // Packets may hold more or less.
        let mut heard = core::mem::take(&mut self.framing.heard);
        while heard.len() < count {
            self.play_packet(now, &mut heard);
        }
        out.extend(heard.drain(..count));
        self.framing.heard = heard;
        self.longest_delay = self.longest_delay.max(self.buffer.target());
    }

    /// Appends what the next packet holds.
    fn play_packet(&mut self, now: Duration, out: &mut Vec<i16>) {
        let millis = self.framing.frame().as_millis() as u32;
        let count = (self.stream.codec.sample_rate() * millis / 1000) as usize;
        let start = out.len();
        match self.buffer.play(now) {
            Playout::Frame((true, description)) => self.decoder.comfort(&description, out),
            Playout::Frame((false, payload)) => {
                self.decoder.decode(&payload, out);
                out.resize(out.len().max(start + count), 0);
            }
            missing @ (Playout::Missing | Playout::Held) => {
                if !self.decoder.is_silent() {
                    self.statistics.missing += 1;
                }
                match self.buffer.upcoming() {
                    Some((false, next)) if missing == Playout::Missing => {
                        self.decoder.recover(next, out);
                    }
                    _ => self.decoder.conceal(out),
                }
                // A packet may have held several frames.
                for _ in 1..count.div_ceil(self.frame_samples()) {
                    self.decoder.conceal(out);
                }
                out.resize(start + count, 0);
            }
            Playout::Empty => out.resize(start + count, 0),
        }
    }

    /// Where the packet that [`Session::send`] has just made goes, too: one of the next few ports
    /// of the other end's address, where nothing has come for two seconds after the first packet.
    /// The first port from which sound comes is kept. To be called once after each packet.
    ///
    /// In clear each of five ports gets five packets, with SRTP twenty-five, not more than ten in a
    /// second all together. As soon as anything has come, there are none.
    pub fn also(&mut self, now: Duration) -> Option<SocketAddr> {
        self.note_time(now);
        if self.source.is_some() {
            return None;
        }
        self.trials.next(now, &self.stream, self.protection.is_some())
    }

    /// How the stream has gone.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let mut statistics = self.statistics;
        let far = self.reports.far;
        let rate = f64::from(self.stream.codec.clock_rate());
        let span = |units: u32| Duration::from_secs_f64(f64::from(units) / rate);
        statistics.round_trip = far.round_trip;
        (statistics.far_loss, statistics.far_mos) = (far.loss, far.mos);
        statistics.far_jitter = far.jitter.map(span);
        (statistics.silence, statistics.flow) = (self.silence(), self.flow());
        let Some(reception) = &self.reception else { return statistics };
        let spacing = reception.spacing();
        statistics.received = reception.received();
        statistics.expected = reception.expected();
        statistics.jitter = spacing.jitter();
        statistics.max_jitter = spacing.max_jitter();
        statistics.mean_delta = spacing.mean_delta();
        statistics.max_delta = spacing.max_delta();
        statistics.mos = mean_opinion_score(self.rating());
        statistics
    }

    /// What the steps of SRTP have taken so far, for each suite that was used: empty unless the
    /// session was begun with a clock ([`Session::measured`]). Derivation is that of all session
    /// keys of one direction, when a call begins and when its keys change. A header is counted
    /// twice for what is sent: written, and read again by SRTP.
    #[must_use]
    pub fn timings(&self) -> &[(Suite, Timings)] {
        &self.measured.suites
    }

    /// The rating of what is heard, by the E-model.
    fn rating(&self) -> f64 {
        let Some(reception) = &self.reception else { return 0.0 };
        let lost = reception.expected().saturating_sub(reception.received());
        let share = (lost + self.buffer.counts().late) as f64 / reception.expected().max(1) as f64;
        let quality = quality_of(self.stream.codec);
        let way = self.reports.far.round_trip.unwrap_or_default() / 2;
        rating(quality, self.buffer.target() + FRAME + way, share, 1.0)
    }
}

/// What the codec costs, with its concealment.
const fn quality_of(codec: Codec) -> CodecQuality {
    match codec {
        Codec::Pcmu | Codec::Pcma => CodecQuality::G711_CONCEALED,
        Codec::Gsm => CodecQuality::GSM_FR,
        Codec::G726 | Codec::Aal2G726 => CodecQuality::G726_32,
        // The E-model's scale ends where G.711's quality does: wideband is taken for no worse.
        _ => CodecQuality::G711_CONCEALED,
    }
}

#[cfg(test)]
mod tests;
