//! One stream of audio: packets out at an even pace, packets in through a jitter buffer.

use crate::negotiation::Stream;
use alloc::vec::Vec;
use codec::{Codec, Decoder, Encoder};
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use rtp::event::{Events, TelephoneEvent, from_digit, to_digit};
use rtp::jitter_buffer::{Config, JitterBuffer, Playout};
use rtp::packet::Fields;
use rtp::quality::{CodecQuality, mean_opinion_score, rating};
use rtp::{Packet, Reception};

/// The time that a packet holds.
pub(crate) const FRAME: Duration = Duration::from_millis(20);
/// The longest packet: what is added by SRTP and SRTP+ is far below what is left.
const MAX_PACKET: usize = 1500;
/// How long a digit is pressed, and how long it is silent after that, in packets.
const PRESSED: u16 = 5;
const RELEASED: u16 = 3;
/// How often the end of a digit is said (RFC 4733 section 2.5.1.4).
const ENDS: u16 = 3;

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
}

/// How the stream has gone so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistics {
    /// Packets sent.
    pub sent: u64,
    /// Packets received, of the stream.
    pub received: u64,
    /// Packets that should have come.
    pub expected: u64,
    /// Packets that SRTP has refused: forged, damaged or repeated.
    pub refused: u64,
    /// Packets from elsewhere than the other end.
    pub strangers: u64,
    /// The interarrival jitter, now and at most (RFC 3550).
    pub jitter: Duration,
    /// The highest jitter.
    pub max_jitter: Duration,
    /// The mean and the longest time between packets.
    pub mean_delta: Duration,
    /// The longest time between two packets.
    pub max_delta: Duration,
    /// Frames for which there was nothing to play.
    pub missing: u64,
    /// The mean opinion score, 1 to 4.5 (ITU-T G.107).
    pub mos: f64,
}

impl Statistics {
    /// Packets that did not come.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.expected.saturating_sub(self.received)
    }
}

/// What protects the stream.
struct Protection {
    sender: srtp::Sender,
    receiver: srtp::Receiver,
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
    /// Where the other end's packets come from: that counts, whatever its description says (symmetric RTP).
    source: Option<SocketAddr>,
    reception: Option<Reception>,
    buffer: JitterBuffer<Vec<u8>>,
    events: Events,
    digits: Vec<u8>,
    pressed: Option<Pressed>,
    /// The last frame played: what is missing is concealed with it.
    last: Vec<i16>,
    statistics: Statistics,
}

fn protection(stream: &Stream) -> Option<Protection> {
    let agreed = stream.security.as_ref()?;
    let sender = srtp::Sender::new(&agreed.send.policy, agreed.send.master_keys().ok()?).ok()?;
    let keys = agreed.receive.master_keys().ok()?;
    let receiver = srtp::Receiver::new(&agreed.receive.policy, keys).ok()?;
    Some(Protection { sender, receiver })
}

impl Session {
    /// The session of `stream`. `None` where its keys cannot be used.
    #[must_use]
    pub fn new(stream: Stream, seed: Seed) -> Option<Self> {
        let protection = protection(&stream);
        if stream.security.is_some() && protection.is_none() {
            return None;
        }
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
            last: Vec::new(),
            statistics: Statistics::default(),
            stream,
        })
    }

    /// Goes on with what was agreed on anew. False where its keys cannot be used: the session is as it was.
    pub fn renew(&mut self, stream: Stream) -> bool {
        let is_same_key = match (&self.stream.security, &stream.security) {
            (Some(one), Some(other)) => {
                let keys = |agreed: &sdp::negotiation::Agreement| {
                    let bytes = |crypto: &sdp::Crypto| crypto.keys[0].bytes.clone();
                    (bytes(&agreed.send), bytes(&agreed.receive))
                };
                keys(one) == keys(other)
            }
            _ => false,
        };
        if !is_same_key {
            // Counters begin anew with new keys, and only then.
            let protection = protection(&stream);
            if stream.security.is_some() && protection.is_none() {
                return false;
            }
            self.protection = protection;
        }
        if stream.codec != self.stream.codec {
            self.encoder = Encoder::new(stream.codec);
            self.decoder = Decoder::new(stream.codec);
            self.buffer = JitterBuffer::new(Config::new(stream.codec.clock_rate()));
        }
        if stream.remote != self.stream.remote {
            self.source = None;
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

    /// Sends a key: `0` to `9`, `*`, `#`, `A` to `D`, as a telephone event (RFC 4733). False where the other end does
    /// not take any, or there is no such key.
    pub fn press(&mut self, digit: char) -> bool {
        match (self.stream.events, from_digit(digit)) {
            (Some(_), Some(event)) => {
                self.digits.push(event);
                true
            }
            _ => false,
        }
    }

    /// The next packet, with 20 ms of sound from `samples`: to be called every 20 ms. It is put into `out`, and goes to
    /// the address returned; `None` where nothing is to be sent.
    pub fn send(&mut self, samples: &[i16], out: &mut Vec<u8>) -> Option<SocketAddr> {
        let units = self.stream.codec.clock_rate() / 50;
        let timestamp = self.timestamp;
        self.timestamp = self.timestamp.wrapping_add(units);
        let to = self.destination()?;
        if !self.stream.sends {
            return None;
        }
        let (payload_type, timestamp, marker, payload) = match self.event(timestamp) {
            Some((payload_type, begun, is_first, event)) => {
                (payload_type, begun, is_first, event.to_bytes().to_vec())
            }
            None => {
                let mut payload = Vec::with_capacity(samples.len());
                self.encoder.encode(samples, &mut payload);
                let marker = core::mem::take(&mut self.begins);
                (self.stream.send_type, timestamp, marker, payload)
            }
        };
        let fields = Fields {
            payload_type,
            marker,
            sequence_number: self.sequence_number,
            timestamp,
            ssrc: self.seed.ssrc,
        };
        out.clear();
        out.resize(MAX_PACKET, 0);
        let mut length = fields.write(&payload, out)?;
        if let Some(protection) = &mut self.protection {
            length = protection.sender.protect(out, length).ok()?;
        }
        out.truncate(length);
        self.sequence_number = self.sequence_number.wrapping_add(1);
        self.statistics.sent += 1;
        Some(to)
    }

    /// The telephone event that takes the place of sound now: its payload type, when it began, whether it begins.
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

    /// A datagram has come at `now` from `from`. It is decrypted in place.
    pub fn receive(&mut self, now: Duration, from: SocketAddr, datagram: &mut [u8]) -> Heard {
        if rtp::is_rtcp(datagram) {
            return Heard::Nothing;
        }
        let packet = match &mut self.protection {
            Some(protection) => match protection.receiver.unprotect(datagram) {
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
        if !is_event && header.payload_type() != self.stream.receive_type {
            return Heard::Nothing;
        }
        let is_first = self.source.is_none();
        if !self.is_of_peer(from) {
            self.statistics.strangers += 1;
            return Heard::Nothing;
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
        }
        if let Some(reception) = &mut self.reception {
            reception.receive(&header, now);
        }
        if is_event {
            let mut digit = None;
            self.events.receive(header.timestamp(), packet.payload, |event| {
                digit = digit.or(to_digit(event.event));
            });
            return digit.map_or(Heard::Nothing, Heard::Digit);
        }
        if self.stream.receives {
            self.buffer.insert(header.timestamp(), now, packet.payload.to_vec());
        }
        if is_first { Heard::First(from) } else { Heard::Nothing }
    }

    /// Where packets go: where the other end's come from, if that is proved by SRTP, or if the address that it named
    /// means nothing outside of its network. Else a forged datagram could send our sound to anybody.
    fn destination(&self) -> Option<SocketAddr> {
        let named = self.stream.remote?;
        let follows = self.protection.is_some() || is_private(named.ip());
        Some(self.source.filter(|_| follows).unwrap_or(named))
    }

    /// Whether a packet from `from` is the other end's. What is authentic is, wherever it comes from. In clear the
    /// address that the other end named counts before others, which behind a NAT is another one; whoever was heard
    /// first keeps the stream.
    fn is_of_peer(&mut self, from: SocketAddr) -> bool {
        let is_proven = self.protection.is_some();
        let is_named = self.stream.remote == Some(from);
        if is_proven || is_named || self.source.is_none() {
            self.source = Some(from);
        }
        self.source == Some(from)
    }

    /// Appends the next 20 ms of sound to `out`: to be called every 20 ms.
    pub fn play(&mut self, now: Duration, out: &mut Vec<i16>) {
        let count = self.frame_samples();
        let start = out.len();
        match self.buffer.play(now) {
            Playout::Frame(payload) => {
                self.decoder.decode(&payload, out);
                out.resize(start + count, 0);
                self.last.clear();
                self.last.extend_from_slice(&out[start..]);
            }
            // The last frame once more, and quieter each time, until it is silent.
            Playout::Missing | Playout::Held => {
                self.statistics.missing += 1;
                self.last.iter_mut().for_each(|sample| *sample /= 2);
                out.extend_from_slice(&self.last);
                out.resize(start + count, 0);
            }
            Playout::Empty => out.resize(start + count, 0),
        }
    }

    /// How the stream has gone.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let mut statistics = self.statistics;
        let Some(reception) = &self.reception else { return statistics };
        let spacing = reception.spacing();
        statistics.received = reception.received();
        statistics.expected = reception.expected();
        statistics.jitter = spacing.jitter();
        statistics.max_jitter = spacing.max_jitter();
        statistics.mean_delta = spacing.mean_delta();
        statistics.max_delta = spacing.max_delta();
        let counts = self.buffer.counts();
        let lost = statistics.lost() + counts.late;
        let share = lost as f64 / (statistics.expected.max(1)) as f64;
        let quality = quality_of(self.stream.codec);
        let delay = self.buffer.target() + FRAME;
        statistics.mos = mean_opinion_score(rating(quality, delay, share, 1.0));
        statistics
    }
}

/// What the codec costs, each with the concealment that it has here.
const fn quality_of(codec: Codec) -> CodecQuality {
    match codec {
        Codec::Pcmu | Codec::Pcma => CodecQuality::G711,
        // The E-model's scale ends where G.711's quality does: wideband is taken for no worse.
        _ => CodecQuality::G711,
    }
}

/// Whether `ip` means something only in its own network (RFC 1918, RFC 3927, RFC 4193, RFC 6598).
fn is_private(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let [first, second, ..] = ip.octets();
            ip.is_private() || ip.is_link_local() || (first == 100 && second & 0xc0 == 64)
        }
        IpAddr::V6(ip) => ip.is_unique_local() || ip.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests;
