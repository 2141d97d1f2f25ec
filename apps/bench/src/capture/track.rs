//! A stream while it is read: loss, order, interarrival time and jitter.

use super::continuity::{Arrived, Continuity, Verdict};
use super::endpoints::Endpoints;
use super::packet::Transported;
use super::quality::rating;
use super::sdp::{Format, static_format};
use super::sequence::{Arrival, Sequence};
use super::spread::Spread;
use super::srtp::{Check, Decryptor, Srtp};
use rtp::Header;
use rtp::event::is_event_format;
use rtp::quality::mean_opinion_score;
use serde::Serialize;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// The most payload types and encodings of a stream that are told.
const PAYLOAD_TYPES: usize = 8;

/// Payload types of comfort noise (RFC 3389; 19 is what drafts of RFC 3551 had).
const COMFORT_NOISE: u8 = 13;
const OLD_COMFORT_NOISE: u8 = 19;

/// Source, destination and SSRC of a stream.
pub(super) type Key = (SocketAddr, SocketAddr, u32);

/// What was received of an SSRC between two addresses.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RtpStream {
    /// Who sent it.
    pub(crate) source: SocketAddr,
    /// To whom.
    pub(crate) destination: SocketAddr,
    /// The synchronisation source.
    pub(crate) ssrc: u32,
    /// The payload types, in the order in which they came; no more than 8 are told.
    pub(crate) payload_types: Vec<u8>,
    /// Their encoding names, where they are known.
    pub(crate) encodings: Vec<String>,
    /// The Call-ID of the session description that names one of the addresses, if there is one.
    /// Without one, the stream was recognised by its packets.
    pub(crate) call_id: Option<String>,
    /// The first packet, in microseconds since the Unix epoch.
    pub(crate) started_us: u64,
    /// The last packet.
    pub(crate) ended_us: u64,
    /// Packets, copies among them, but for those of [`Srtp::not_authentic`].
    pub(crate) packets: u64,
    /// Packets that were sent, by the sequence numbers.
    pub(crate) expected: u64,
    /// Packets that were sent and did not come.
    pub(crate) lost: u64,
    /// Packets that came after one with a higher sequence number.
    pub(crate) out_of_order: u64,
    /// Packets with a sequence number that had come before.
    pub(crate) duplicates: u64,
    /// Packets, each alone, whose sequence numbers are far from all others; they are not in the
    /// figures above.
    pub(crate) strays: u64,
    /// How often the sequence numbers began anew somewhere else.
    pub(crate) restarts: u64,
    /// Packets that say that padding follows their payload.
    pub(crate) padded: u64,
    /// The bytes of that padding; absent where it is encrypted and no key is known.
    pub(crate) padding_bytes: Option<u64>,
    /// The mean time from one packet to the next in milliseconds; absent for a single packet. Like
    /// Wireshark this leaves out what is no steady stream: packets with the marker, comfort noise
    /// and the packet after it.
    pub(crate) mean_delta_ms: Option<f64>,
    /// The longest time from one packet to the next in milliseconds.
    pub(crate) max_delta_ms: Option<f64>,
    /// What 99.9 % of these times do not exceed, to 0.8 %, in milliseconds; absent where fewer than
    /// 1,000 packets tell it.
    pub(crate) p999_delta_ms: Option<f64>,
    /// The mean of the interarrival jitter (RFC 3550 section 6.4.1) at the same packets in
    /// milliseconds; absent where no clock rate is known.
    pub(crate) mean_jitter_ms: Option<f64>,
    /// The largest interarrival jitter in milliseconds.
    pub(crate) max_jitter_ms: Option<f64>,
    /// How a listener would rate speech so sent, 0 to 93.2 (E-model, ITU-T G.107); absent where the
    /// codec's figures are not known. See [`super::quality`] for what is assumed.
    pub(crate) rating: Option<f64>,
    /// The mean opinion score that the rating stands for, 1 to 4.5 (ITU-T G.107 annex B).
    pub(crate) mos: Option<f64>,
    /// What its keys tell; absent where the capture has none for it.
    pub(crate) srtp: Option<Srtp>,
    /// Bits of the IP packets, headers included, that came after the first, by the time since the
    /// first, in kbit/s.
    pub(crate) kbit_per_s: Option<f64>,
}

/// A stream, or what may become one.
#[derive(Default)]
pub(super) struct Track {
    /// Packets in sequence, up to the last.
    pub(super) in_sequence: u32,
    pub(super) packets: u64,
    /// Whether there are keys, and too many streams with keys.
    pub(super) keys_left_out: bool,
    sequence: Option<Sequence>,
    continuity: Continuity,
    /// The state of the descriptions that was looked at last.
    described: Option<u64>,
    /// What they say, and what they said before: packets may be under way when that changes.
    formats: [Option<Rc<[Format]>>; 2],
    call_id: Option<Rc<str>>,
    /// Whether the call is not certain: the stream follows another one, and the description of its
    /// own call may still come.
    is_early: bool,
    /// The meaning of payload types that no session description names.
    assumed: Rc<[Format]>,
    /// Sequence number, time stamp and clock rate of the last packet; and the time stamp of the
    /// first.
    latest: Option<(u16, u32, Option<u32>)>,
    first_timestamp: Option<u32>,
    is_plain: bool,
    decryptor: Option<Decryptor>,
    payload_types: Vec<u8>,
    /// The names of the encodings, and how many packets each has.
    encodings: Vec<(Rc<str>, u64)>,
    padded: u64,
    padding_bytes: u64,
    padding_is_hidden: bool,
    /// Nanoseconds since the Unix epoch.
    first: u64,
    last: u64,
    follows_comfort_noise: bool,
    deltas: Mean,
    spread: Spread,
    /// Time, time stamp and clock rate of the last packet that has a clock.
    sampled: Option<(u64, u32, u32)>,
    /// In nanoseconds.
    jitter: f64,
    jitters: Mean,
    ip_bytes: u64,
}

/// After a pause of so many nanoseconds, a stream that does not go on where it was is another one;
/// where the call is another one, too, after a shorter one.
const PAUSE: u64 = 10_000_000_000;
const PAUSE_BETWEEN_CALLS: u64 = 500_000_000;
/// Sequence numbers that a stream may advance by across a pause, and how far its time stamps may
/// then be from the time that has passed, in seconds.
const ADVANCE: u16 = 16;
const DRIFT: f64 = 1.0;

/// Mean and maximum, in nanoseconds.
#[derive(Default)]
struct Mean {
    count: u64,
    sum: f64,
    max: f64,
}

impl Mean {
    fn take(&mut self, nanos: f64) {
        self.count += 1;
        self.sum += nanos;
        self.max = self.max.max(nanos);
    }

    fn mean_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64 / 1e6)
    }

    fn max_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.max / 1e6)
    }
}

impl Track {
    /// A stream before its first packet; `is_early` where it follows another one of a call.
    pub(super) fn after(is_early: bool, assumed: Rc<[Format]>) -> Self {
        Self { is_early, assumed, ..Self::default() }
    }

    /// Whether a packet with the addresses and the SSRC of this stream begins another one: that of
    /// the next call, which some phones give the same SSRC and ports.
    pub(super) fn is_followed_by(
        &self,
        datagram: &Transported<'_>,
        header: &Header<'_>,
        endpoints: &Endpoints,
    ) -> bool {
        let pause = datagram.time.saturating_sub(self.last);
        if pause < PAUSE_BETWEEN_CALLS {
            return false;
        }
        let media = endpoints.find(datagram.source, datagram.destination);
        let is_other_call = match (&self.call_id, media) {
            (Some(ours), Some((media, _))) => !self.is_early && *ours != media.call_id,
            _ => false,
        };
        let goes_on = self.goes_on(pause, header);
        (is_other_call && (pause >= PAUSE || !goes_on)) || (pause >= PAUSE && !goes_on)
    }

    /// Whether a packet continues the sequence numbers of the stream, or its time stamps.
    fn goes_on(&self, pause: u64, header: &Header<'_>) -> bool {
        let Some((number, timestamp, clock)) = self.latest else { return true };
        let advance = header.sequence_number().wrapping_sub(number);
        if (1..=ADVANCE).contains(&advance) {
            return true;
        }
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        let clock = clock.map(f64::from).or_else(|| {
            // As fast as the stream itself has shown.
            let ticks = timestamp.wrapping_sub(self.first_timestamp?);
            let clock = f64::from(ticks) / seconds(self.last.saturating_sub(self.first));
            (clock.is_finite() && clock > 0.0).then_some(clock)
        });
        let Some(clock) = clock else { return false };
        let passed = f64::from(header.timestamp().wrapping_sub(timestamp)) / clock;
        (passed - seconds(pause)).abs() < DRIFT
    }

    /// Whether a session description names it.
    pub(super) fn is_described(&self) -> bool {
        self.call_id.is_some()
    }

    /// Finds what session descriptions say of it now; they may come after the first packets, and
    /// change. Tells whether its packets are decrypted from now on.
    pub(super) fn describe(
        &mut self,
        datagram: &Transported<'_>,
        endpoints: &Endpoints,
        may_decrypt: bool,
    ) -> bool {
        if self.described.replace(endpoints.state()) == Some(endpoints.state()) {
            return false;
        }
        let Some((media, keys)) = endpoints.find(datagram.source, datagram.destination) else {
            return false;
        };
        let is_new = self.call_id.as_ref() != Some(&media.call_id);
        if self.call_id.is_none() || (self.is_early && is_new) {
            self.is_early &= self.call_id.is_none();
            self.call_id = Some(media.call_id.clone());
        }
        let new = &media.formats;
        if self.formats[0].as_ref().is_none_or(|formats| !Rc::ptr_eq(formats, new)) {
            self.formats[1] = self.formats[0].replace(new.clone());
        }
        self.is_plain = media.is_plain;
        if keys.is_empty() {
            return false;
        }
        if let Some(decryptor) = &mut self.decryptor {
            decryptor.use_keys(keys);
            return false;
        }
        self.keys_left_out = !may_decrypt;
        if may_decrypt {
            self.decryptor = Some(Decryptor::new(keys));
        }
        may_decrypt
    }

    fn format(&self, payload_type: u8) -> Option<Format> {
        let described = self.formats.iter().flatten().flat_map(|formats| formats.iter());
        let mut described = described.filter(|format| format.payload_type == payload_type);
        let assumed =
            || self.assumed.iter().find(|format| format.payload_type == payload_type).cloned();
        described.next().cloned().or_else(|| static_format(payload_type)).or_else(assumed)
    }

    pub(super) fn take(&mut self, datagram: &Transported<'_>, header: &Header<'_>) {
        let mut padding = None;
        if let Some(decryptor) = &mut self.decryptor {
            match decryptor.check(&datagram.payload) {
                Check::NotAuthentic { passed_over: true } => return,
                Check::NotAuthentic { .. } => {}
                Check::Taken(bytes) => padding = bytes,
            }
        } else if self.is_plain {
            padding = super::srtp::padding(&datagram.payload);
        }
        if header.has_padding() {
            self.padded += 1;
            self.padding_bytes += padding.unwrap_or(0) as u64;
            self.padding_is_hidden |= padding.is_none();
        }
        let payload_type = header.payload_type();
        if !self.payload_types.contains(&payload_type) && self.payload_types.len() < PAYLOAD_TYPES {
            self.payload_types.push(payload_type);
        }
        let format = self.format(payload_type);
        if let Some(format) = &format {
            self.count_encoding(&format.name);
        }
        self.packets += 1;
        let clock = format.as_ref().map(|one| one.clock).filter(|&clock| clock > 0);
        self.first_timestamp.get_or_insert(header.timestamp());
        self.latest = Some((header.sequence_number(), header.timestamp(), clock));
        let packet = Arrived {
            time: datagram.time,
            ip_length: datagram.ip_length,
            number: header.sequence_number(),
            timestamp: header.timestamp(),
            payload_type,
            marker: header.marker(),
            clock,
            is_event: format.is_some_and(|one| is_event_format(&one.name)),
        };
        self.place(packet);
    }

    fn count_encoding(&mut self, name: &Rc<str>) {
        if let Some((_, packets)) = self.encodings.iter_mut().find(|(known, _)| known == name) {
            *packets += 1;
        } else if self.encodings.len() < PAYLOAD_TYPES {
            self.encodings.push((name.clone(), 1));
        }
    }

    fn place(&mut self, packet: Arrived) {
        let Some(sequence) = &mut self.sequence else {
            self.sequence = Some(Sequence::new(packet.number));
            self.continuity.note(&packet);
            (self.first, self.in_sequence) = (packet.time, 1);
            self.last = packet.time;
            self.follows_comfort_noise = is_comfort_noise(&packet);
            return self.sample(&packet, false);
        };
        match self.continuity.judge(sequence, packet) {
            Verdict::Held => {}
            Verdict::GoesOn(behind, packet) => {
                let arrivals: Vec<_> =
                    behind.iter().map(|packet| sequence.fall_back(packet.number)).collect();
                let arrival = packet.map(|packet| sequence.advance(packet.number));
                for (packet, arrival) in
                    behind.iter().zip(arrivals).chain(packet.iter().zip(arrival))
                {
                    self.measure(packet, arrival);
                }
            }
            Verdict::Restart(run) => {
                let mut numbers = run.iter().map(|packet| packet.number);
                let first = numbers.next().map(|number| sequence.restart(number));
                let arrivals: Vec<_> = first
                    .into_iter()
                    .chain(numbers.map(|number| sequence.advance(number)))
                    .collect();
                for (packet, arrival) in run.iter().zip(arrivals) {
                    self.measure(packet, arrival);
                }
            }
        }
    }

    /// Measures a packet after the first.
    fn measure(&mut self, packet: &Arrived, arrival: Arrival) {
        self.in_sequence = match arrival {
            Arrival::Next(1..=16) => self.in_sequence + 1,
            Arrival::Next(_) | Arrival::Restart => 1,
            Arrival::Late | Arrival::Duplicate | Arrival::Stray => self.in_sequence,
        };
        if arrival == Arrival::Restart {
            // The time stamps before it have nothing to do with those after it.
            self.sampled = None;
        }
        self.ip_bytes += packet.ip_length;
        let is_comfort_noise = is_comfort_noise(packet);
        let is_regular = !packet.marker && !is_comfort_noise && !self.follows_comfort_noise;
        if is_regular {
            let delta = packet.time.saturating_sub(self.last);
            self.deltas.take(delta as f64);
            self.spread.take(Duration::from_nanos(delta));
        }
        self.last = packet.time;
        self.follows_comfort_noise = is_comfort_noise;
        if arrival != Arrival::Stray {
            self.sample(packet, is_regular);
        }
    }

    /// Works out the interarrival jitter (RFC 3550 section 6.4.1 and appendix A.8).
    fn sample(&mut self, packet: &Arrived, is_regular: bool) {
        let Some(clock) = packet.clock.filter(|_| !packet.is_event) else { return };
        if let Some((last, last_timestamp, last_clock)) = self.sampled
            && last_clock == clock
        {
            let sampled = packet.timestamp.wrapping_sub(last_timestamp).cast_signed();
            let sampled = f64::from(sampled) * 1e9 / f64::from(clock);
            // Times in a capture may run backwards.
            let elapsed = packet.time.wrapping_sub(last).cast_signed() as f64;
            self.jitter += ((elapsed - sampled).abs() - self.jitter) / 16.0;
            if is_regular {
                self.jitters.take(self.jitter);
            }
        }
        self.sampled = Some((packet.time, packet.timestamp, clock));
    }

    pub(super) fn report(mut self, (source, destination, ssrc): Key) -> RtpStream {
        for packet in self.continuity.finish() {
            if let Some(sequence) = &mut self.sequence {
                let arrival = sequence.fall_back(packet.number);
                self.measure(&packet, arrival);
            }
        }
        let elapsed = self.last.saturating_sub(self.first);
        let counts = self.sequence.as_ref().map(Sequence::counts).unwrap_or_default();
        // The last of several with as many packets would be comfort noise or events.
        let main = self.encodings.iter().rev().max_by_key(|(_, packets)| *packets);
        let jitter = Duration::from_secs_f64(self.jitters.mean_ms().unwrap_or(0.0) / 1e3);
        let rating = main.and_then(|(name, _)| rating(name, &counts, jitter));
        RtpStream {
            source,
            destination,
            ssrc,
            payload_types: self.payload_types,
            encodings: self.encodings.iter().map(|(name, _)| name.to_string()).collect(),
            call_id: self.call_id.as_deref().map(str::to_owned),
            started_us: self.first / 1_000,
            ended_us: self.last / 1_000,
            packets: self.packets,
            expected: counts.expected,
            lost: counts.lost(),
            out_of_order: counts.late,
            duplicates: counts.duplicates,
            strays: counts.strays,
            restarts: counts.restarts,
            padded: self.padded,
            padding_bytes: (!self.padding_is_hidden).then_some(self.padding_bytes),
            mean_delta_ms: self.deltas.mean_ms(),
            max_delta_ms: self.deltas.max_ms(),
            p999_delta_ms: self
                .spread
                .told(99.9)
                .zip(self.deltas.max_ms())
                .map(|(delta, max)| max.min(delta.as_secs_f64() * 1e3)),
            mean_jitter_ms: self.jitters.mean_ms(),
            max_jitter_ms: self.jitters.max_ms(),
            rating,
            mos: rating.map(mean_opinion_score),
            srtp: self.decryptor.map(Decryptor::report),
            kbit_per_s: (elapsed > 0).then(|| self.ip_bytes as f64 * 8e6 / elapsed as f64),
        }
    }
}

fn is_comfort_noise(packet: &Arrived) -> bool {
    matches!(packet.payload_type, COMFORT_NOISE | OLD_COMFORT_NOISE)
}
