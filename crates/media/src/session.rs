//! A session of one audio stream: packets are sent at a constant rate, and received through a
//! jitter buffer.

use crate::demultiplex::Kind;
use crate::error::SessionError;
use crate::keying::Keying;
use crate::negotiation::Stream;
use crate::rtcp::{Channel, Reports};
use alloc::vec::Vec;
use codec::{Codec, Decoder, Encoder};
use core::net::SocketAddr;
use core::time::Duration;
use rtp::event::{EventReceiver, to_digit};
use rtp::jitter_buffer::{Config, JitterBuffer, Playout};
use rtp::quality::{CodecQuality, LossPattern, mean_opinion_score, rating};
use rtp::reception::Arrival;
use rtp::{Packet, ReceptionStats};
use srtp::Suite;
use srtp::timings::Timings;

mod control;
mod handshake;
mod keys;
mod send;
mod silence;
mod statistics;
mod timings;
mod trials;

use keys::Protection;
pub(crate) use keys::{receiver_of, sender_of};
use silence::Silence;
pub use statistics::{AudioFlow, Statistics};
pub use timings::Clock;
use timings::Measured;
use trials::Trials;

/// The duration of sent packets, unless the other end requests another one.
pub(crate) const FRAME: Duration = Duration::from_millis(20);
/// The maximum length of a packet in bytes, with room for the overhead of SRTP and SRTP+.
const MAX_PACKET: usize = 1500;
/// The maximum number of payloads that keep their memory after use.
const MAX_PAYLOADS: usize = 16;

/// The random start values of a session (RFC 3550 section 5.1).
#[derive(Clone, Copy, Debug)]
pub struct Seed {
    /// The synchronization source (SSRC) of the local stream.
    pub ssrc: u32,
    /// The first sequence number.
    pub sequence_number: u16,
    /// The first timestamp.
    pub timestamp: u32,
}

/// The result of a received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Received {
    /// Audio, or a datagram without an event for the owner.
    Nothing,
    /// The other end has pressed a key.
    Digit(char),
    /// The first audio packet has arrived, from this address.
    First(SocketAddr),
    /// The other end has sent an RTCP BYE, and sends no more.
    Bye,
}

/// A digit in transmission.
struct Pressed {
    event: u8,
    timestamp: u32,
    packets: u16,
}

/// A session of one audio stream.
pub struct Session {
    stream: Stream,
    encoder: Encoder,
    decoder: Decoder,
    protection: Option<Protection>,
    seed: Seed,
    /// The sequence number of the next packet.
    sequence_number: u16,
    timestamp: u32,
    /// True if the next packet begins a talkspurt.
    begins: bool,
    /// The source address of the other end's packets (symmetric RTP). See [`Session::destination`]
    /// for the conditions under which packets are sent there.
    source: Option<SocketAddr>,
    reception: Option<ReceptionStats>,
    /// Payloads. The flag is true for a description of comfort noise.
    buffer: JitterBuffer<(bool, Vec<u8>)>,
    /// The memory of sent and played payloads.
    payloads: Vec<Vec<u8>>,
    events: EventReceiver,
    digits: Vec<u8>,
    pressed: Option<Pressed>,
    statistics: Statistics,
    reports: Reports,
    /// The source address of the other end's RTCP, on a socket of its own.
    control_source: Option<SocketAddr>,
    /// The loss pattern, up to the highest sequence number so far.
    losses: LossPattern,
    highest: Option<u64>,
    /// The latest time passed to the session, the first one, and the arrival time of the last
    /// packet.
    clock: Duration,
    begun: Option<Duration>,
    last_arrival: Option<Duration>,
    longest_delay: Duration,
    /// Decoded samples that are not yet played.
    heard: Vec<i16>,
    /// The number of received audio packets, and their duration in seconds.
    lengths: (f64, f64),
    /// Samples that do not yet fill a packet.
    outgoing: Vec<i16>,
    trials: Trials,
    /// Silence suppression, if enabled.
    silence: Option<Silence>,
    measured: Measured,
}

impl Session {
    /// Returns the session of `stream`.
    ///
    /// # Errors
    /// [`SessionError::Keys`] if its keys are unusable.
    pub fn new(stream: Stream, seed: Seed) -> Result<Self, SessionError> {
        Self::measured(stream, seed, None)
    }

    /// As [`Session::new`], and measures the duration of the SRTP steps by `clock`, if present: see
    /// [`Session::timings`].
    ///
    /// # Errors
    /// As of [`Session::new`].
    pub fn measured(
        stream: Stream,
        seed: Seed,
        clock: Option<Clock>,
    ) -> Result<Self, SessionError> {
        let mut measured = Measured::by(clock);
        let protection = match &stream.keying {
            Keying::None | Keying::Dtls(_) | Keying::Zrtp(_) => None,
            Keying::Sdes(agreed) => Some(Protection::new(agreed, &stream.seed, &mut measured)?),
        };
        Ok(Self {
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
            payloads: Vec::new(),
            events: EventReceiver::default(),
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
            heard: Vec::new(),
            lengths: (0.0, 0.0),
            outgoing: Vec::new(),
            trials: Trials::default(),
            silence: None,
            measured,
            stream,
        })
    }

    /// Continues with a renegotiated stream.
    ///
    /// # Errors
    /// [`SessionError`] if its keys are unusable, or if it is in clear after an encrypted stream.
    /// The session is unchanged.
    pub fn renew(&mut self, stream: Stream) -> Result<(), SessionError> {
        let (before, after) = (&self.stream.keying, &stream.keying);
        let (protection, seed) = (&mut self.protection, &stream.seed);
        let measured = &mut self.measured;
        keys::renew(protection, before, after, seed, measured)?;
        if stream.codec != self.stream.codec {
            self.encoder = Encoder::new(stream.codec);
            self.decoder = Decoder::new(stream.codec);
            self.buffer = JitterBuffer::new(Config::new(stream.codec.clock_rate()));
            self.heard.clear();
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
            // The gap of a hold is excluded from the deltas.
            if let Some(reception) = &mut self.reception {
                reception.pause();
            }
        }
        if stream.receives && !self.stream.receives {
            // The silence is measured from the end of the hold.
            self.begun = Some(self.clock);
        }
        self.stream = stream;
        self.begins = true;
        Ok(())
    }

    /// Returns the negotiated stream.
    #[must_use]
    pub const fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Returns the number of samples in a frame of 20 ms.
    #[must_use]
    pub const fn frame_samples(&self) -> usize {
        self.stream.codec.frame_samples()
    }

    /// Processes a datagram that arrived at `now` from `from` on the RTP socket. It is decrypted in
    /// place.
    pub fn receive(&mut self, now: Duration, from: SocketAddr, datagram: &mut [u8]) -> Received {
        self.receive_on(Channel::Rtp, now, from, datagram)
    }

    /// Processes a datagram of one of the two sockets. A datagram that is neither RTP nor RTCP is
    /// ignored.
    pub fn receive_on(
        &mut self,
        channel: Channel,
        now: Duration,
        from: SocketAddr,
        datagram: &mut [u8],
    ) -> Received {
        self.note_time(now);
        if self.awaits_keys() {
            return Received::Nothing;
        }
        match (Kind::of(datagram), channel) {
            (Kind::Rtp, Channel::Rtp) => self.receive_sound(now, from, datagram),
            (Kind::Rtcp, _) => self.receive_reports(now, channel, from, datagram),
            _ => Received::Nothing,
        }
    }

    fn receive_sound(&mut self, now: Duration, from: SocketAddr, datagram: &mut [u8]) -> Received {
        let packet = match &mut self.protection {
            Some(protection) => match protection.read(datagram, &mut self.measured) {
                Ok(packet) => &*packet,
                Err(_) => {
                    self.statistics.refused += 1;
                    return Received::Nothing;
                }
            },
            None => &*datagram,
        };
        let Ok(packet) = Packet::parse(packet) else { return Received::Nothing };
        let header = packet.header;
        let events = self.stream.events.map(|(_, receives)| receives);
        let is_event = events == Some(header.payload_type());
        let is_noise = self.stream.noise == Some(header.payload_type());
        let mut others = self.stream.others.iter();
        let other = others.position(|(.., receive)| *receive == header.payload_type());
        let is_sound = other.is_some() || header.payload_type() == self.stream.receive_type;
        if !is_event && !is_noise && !is_sound {
            self.statistics.unknown += 1;
            return Received::Nothing;
        }
        let is_first = self.source.is_none();
        if !self.is_of_peer(from) {
            self.statistics.strangers += 1;
            return Received::Nothing;
        }
        if let Some(other) = other.filter(|_| !is_event) {
            self.change_codec(other);
        }
        let clock_rate = self.stream.codec.clock_rate();
        let ssrc = header.ssrc();
        if self.reception.as_ref().is_none_or(|reception| reception.ssrc() != ssrc) {
            let reception = ReceptionStats::new(&header, clock_rate);
            self.reception = Some(match events {
                Some(number) => reception.with_events(number),
                None => reception,
            });
            self.buffer = JitterBuffer::new(Config::new(clock_rate));
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
            return digit.map_or(Received::Nothing, Received::Digit);
        }
        if self.stream.receives {
            let mut bytes = self.payloads.pop().unwrap_or_default();
            bytes.clear();
            bytes.extend_from_slice(packet.payload);
            let payload = (is_noise, bytes);
            let units = self.units_of(&payload);
            self.lengths.0 += 1.0;
            self.lengths.1 += f64::from(units) / f64::from(clock_rate);
            self.buffer.insert_lasting(units, header.timestamp(), now, payload);
        }
        if is_first { Received::First(from) } else { Received::Nothing }
    }

    /// Changes to the codec of the answer to which the other end has changed. The local end changes
    /// too, so that both directions have the same rate.
    fn change_codec(&mut self, other: usize) {
        let mut stream = self.stream.clone();
        let before = (stream.codec, stream.send_type, stream.receive_type);
        let now = core::mem::replace(&mut stream.others[other], before);
        (stream.codec, stream.send_type, stream.receive_type) = now;
        // The keys are the same, with which this does not fail.
        let _ = self.renew(stream);
        if let Some(reception) = &mut self.reception {
            reception.set_clock_rate(self.stream.codec.clock_rate());
        }
    }

    /// Returns the destination of packets: the source address of the other end's packets, if SRTP
    /// authenticates them, or if the named address is private. Otherwise a forged datagram could
    /// redirect the audio to a third party.
    fn destination(&self) -> Option<SocketAddr> {
        let named = self.stream.remote?;
        let followed = self.source.filter(|_| self.may_follow());
        Some(followed.or(self.trials.found).unwrap_or(named))
    }

    /// Records the packets lost before a packet, and its arrival.
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

    /// Returns true if a packet from `from` belongs to the other end. An authenticated packet does,
    /// from any address. In clear the address that the other end has named takes precedence. Behind
    /// a NAT the source address is another one, and the first source keeps the stream.
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

    /// Appends the next 20 ms of audio to `out`. It is called every 20 ms.
    pub fn play(&mut self, now: Duration, out: &mut Vec<i16>) {
        self.note_time(now);
        let count = self.frame_samples();
        // Packets may be longer or shorter than 20 ms.
        let mut heard = core::mem::take(&mut self.heard);
        while heard.len() < count {
            self.play_packet(now, &mut heard);
        }
        out.extend(heard.drain(..count));
        self.heard = heard;
        self.longest_delay = self.longest_delay.max(self.buffer.target());
    }

    /// Returns the duration of a received payload in timestamp units: 20 ms for comfort noise, and
    /// for a payload that the codec cannot have made.
    fn units_of(&self, (is_noise, payload): &(bool, Vec<u8>)) -> u32 {
        let codec = self.stream.codec;
        let units = if *is_noise { None } else { codec.units(payload) };
        units.unwrap_or(codec.clock_rate() / 50)
    }

    /// Returns the mean duration of the received packets in milliseconds: 20 ms before the first.
    fn mean_packet_millis(&self) -> f64 {
        let (count, seconds) = self.lengths;
        if count > 0.0 { seconds * 1e3 / count } else { FRAME.as_millis() as f64 }
    }

    /// Returns the number of samples in `units` timestamp units, at least one.
    fn samples_in(&self, units: u32) -> usize {
        let codec = self.stream.codec;
        let samples = u64::from(units) * u64::from(codec.sample_rate());
        (samples / u64::from(codec.clock_rate())).max(1) as usize
    }

    /// Keeps the memory of a sent or played payload for another one.
    fn reuse(&mut self, payload: Vec<u8>) {
        if self.payloads.len() < MAX_PAYLOADS {
            self.payloads.push(payload);
        }
    }

    /// Appends the audio of the next packet.
    fn play_packet(&mut self, now: Duration, out: &mut Vec<i16>) {
        let start = out.len();
        match self.buffer.play(now) {
            Playout::Frame((true, description)) => {
                self.decoder.decode_comfort_noise(&description, out);
                self.reuse(description);
            }
            Playout::Frame(payload) => {
                self.decoder.decode(&payload.1, out);
                let end = start + self.samples_in(self.units_of(&payload));
                self.decoder.conceal_samples(end.saturating_sub(out.len()), out);
                self.reuse(payload.1);
            }
            missing @ (Playout::Missing { units } | Playout::Held { units }) => {
                if !self.decoder.is_silent() {
                    self.statistics.missing += 1;
                }
                let count = self.samples_in(units);
                match self.buffer.upcoming() {
                    Some((false, next)) if matches!(missing, Playout::Missing { .. }) => {
                        self.decoder.recover(next, count, out);
                    }
                    _ => self.decoder.conceal_samples(count, out),
                }
            }
            // In steps of 10 ms the playout starts close to the target delay.
            Playout::Empty => out.resize(start + self.frame_samples() / 2, 0),
        }
    }

    /// Returns a further destination of the packet that [`Session::send`] has just returned: one of
    /// the next ports of the other end's address, if no packet has arrived for two seconds after
    /// the first sent packet. The first port from which audio arrives is kept. It is called once
    /// after each packet.
    ///
    /// In clear each of five ports gets five packets, with SRTP twenty-five, at most ten per second
    /// in total. The trials end as soon as a packet has arrived.
    pub fn also(&mut self, now: Duration) -> Option<SocketAddr> {
        self.note_time(now);
        if self.source.is_some() || self.awaits_keys() {
            return None;
        }
        self.trials.next(now, &self.stream, self.protection.is_some())
    }

    /// Returns the statistics of the stream so far.
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

    /// Returns the time that the steps of SRTP have taken, for each suite that was used. It is
    /// empty unless the session has a clock ([`Session::measured`]). Derivation covers all session
    /// keys of one direction, when a call begins and when its keys change. The header of a sent
    /// packet is counted twice: it is written, and parsed again by SRTP.
    #[must_use]
    pub fn timings(&self) -> &[(Suite, Timings)] {
        &self.measured.suites
    }

    /// Returns the rating of the received audio, by the E-model.
    fn rating(&self) -> f64 {
        let Some(reception) = &self.reception else { return 0.0 };
        let lost = reception.expected().saturating_sub(reception.received());
        let share = (lost + self.buffer.counts().late) as f64 / reception.expected().max(1) as f64;
        let quality = quality_of(self.stream.codec);
        let way = self.reports.far.round_trip.unwrap_or_default() / 2;
        rating(quality, self.buffer.target() + FRAME + way, share, 1.0)
    }
}

/// Returns the quality of the codec with its concealment.
const fn quality_of(codec: Codec) -> CodecQuality {
    match codec {
        Codec::Pcmu | Codec::Pcma => CodecQuality::G711_CONCEALED,
        Codec::Gsm => CodecQuality::GSM_FR,
        Codec::G726 | Codec::Aal2G726 => CodecQuality::G726_32,
        // The scale of the E-model ends at the quality of G.711, so wideband codecs are rated like
        // it.
        _ => CodecQuality::G711_CONCEALED,
    }
}

#[cfg(test)]
mod tests;
