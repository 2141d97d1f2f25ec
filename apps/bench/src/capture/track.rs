//! An RTP stream during reading: loss, order, interarrival time and jitter.

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

/// The limit of payload types and encodings per stream.
const PAYLOAD_TYPES: usize = 8;

/// Payload types of comfort noise (RFC 3389; 19 in drafts of RFC 3551).
const COMFORT_NOISE: u8 = 13;
const OLD_COMFORT_NOISE: u8 = 19;

/// Source, destination and SSRC of a stream.
pub(super) type Key = (SocketAddr, SocketAddr, u32);

/// The received packets of an SSRC between two addresses.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RtpStream {
    /// The sender.
    pub(crate) source: SocketAddr,
    /// The receiver.
    pub(crate) destination: SocketAddr,
    /// The synchronisation source.
    pub(crate) ssrc: u32,
    /// The payload types in the order of arrival; at most 8.
    pub(crate) payload_types: Vec<u8>,
    /// Their encoding names, if known.
    pub(crate) encodings: Vec<String>,
    /// The Call-ID of the session description with one of the addresses. Without one, the stream
    /// was recognised by its packets.
    pub(crate) call_id: Option<String>,
    /// The time of the first packet, in microseconds since the Unix epoch.
    pub(crate) started_us: u64,
    /// The time of the last packet.
    pub(crate) ended_us: u64,
    /// Packets, including duplicates, without those of [`Srtp::not_authentic`].
    pub(crate) packets: u64,
    /// Sent packets, by the sequence numbers.
    pub(crate) expected: u64,
    /// Lost packets.
    pub(crate) lost: u64,
    /// Packets that came after one with a higher sequence number.
    pub(crate) out_of_order: u64,
    /// Duplicate packets.
    pub(crate) duplicates: u64,
    /// Single packets with sequence numbers far from all others; they are not in the figures above.
    pub(crate) strays: u64,
    /// Restarts of the sequence numbers at another value.
    pub(crate) restarts: u64,
    /// Packets with the padding bit.
    pub(crate) padded: u64,
    /// The padding in bytes; absent if it is encrypted and the key is unknown.
    pub(crate) padding_bytes: Option<u64>,
    /// The mean interarrival time in milliseconds; absent for a single packet. As in Wireshark, it
    /// excludes packets with the marker, comfort noise and the packet after it.
    pub(crate) mean_delta_ms: Option<f64>,
    /// The longest interarrival time in milliseconds.
    pub(crate) max_delta_ms: Option<f64>,
    /// The 99.9th percentile of these times in milliseconds, with a resolution of 0.8 %; absent
    /// with fewer than 1,000 packets.
    pub(crate) p999_delta_ms: Option<f64>,
    /// The mean of the interarrival jitter (RFC 3550 section 6.4.1) at the same packets in
    /// milliseconds; absent without a known clock rate.
    pub(crate) mean_jitter_ms: Option<f64>,
    /// The largest interarrival jitter in milliseconds.
    pub(crate) max_jitter_ms: Option<f64>,
    /// The estimated speech quality, 0 to 93.2 (E-model, ITU-T G.107); absent if the codec's values
    /// are unknown. See [`super::quality`] for the assumptions.
    pub(crate) rating: Option<f64>,
    /// The mean opinion score of the rating, 1 to 4.5 (ITU-T G.107 annex B).
    pub(crate) mos: Option<f64>,
    /// The results of SRTP authentication; absent if the capture has no keys for the stream.
    pub(crate) srtp: Option<Srtp>,
    /// The bit rate of the IP packets with headers after the first, over the time since the first,
    /// in kbit/s.
    pub(crate) kbit_per_s: Option<f64>,
}

/// A stream, or a candidate for one.
#[derive(Default)]
pub(super) struct Track {
    /// The number of packets in sequence, up to the last.
    pub(super) in_sequence: u32,
    pub(super) packets: u64,
    /// True if the stream has keys but is beyond the limit of decrypted streams.
    pub(super) keys_left_out: bool,
    sequence: Option<Sequence>,
    continuity: Continuity,
    /// The state of the descriptions at the last look-up.
    described: Option<u64>,
    /// The current and the previous formats: packets may be under way when they change.
    formats: [Option<Rc<[Format]>>; 2],
    call_id: Option<Rc<str>>,
    /// True if the call is not certain: the stream follows another one, and the description of its
    /// own call may still come.
    is_early: bool,
    /// The payload types without a session description.
    assumed: Rc<[Format]>,
    /// Sequence number, timestamp and clock rate of the last packet; and the timestamp of the
    /// first.
    latest: Option<(u16, u32, Option<u32>)>,
    first_timestamp: Option<u32>,
    is_plain: bool,
    decryptor: Option<Decryptor>,
    payload_types: Vec<u8>,
    /// The names of the encodings with their packet counts.
    encodings: Vec<(Rc<str>, u64)>,
    padded: u64,
    padding_bytes: u64,
    padding_is_hidden: bool,
    /// The times of arrival in nanoseconds since the Unix epoch.
    first: u64,
    last: u64,
    follows_comfort_noise: bool,
    deltas: Mean,
    spread: Spread,
    /// Time, timestamp and clock rate of the last packet with a clock rate.
    sampled: Option<(u64, u32, u32)>,
    /// The jitter in nanoseconds.
    jitter: f64,
    jitters: Mean,
    ip_bytes: u64,
}

/// The pause in nanoseconds after which packets that do not continue the stream are a new one; and
/// the shorter pause if the call is another one.
const PAUSE: u64 = 10_000_000_000;
const PAUSE_BETWEEN_CALLS: u64 = 500_000_000;
/// The largest advance of sequence numbers across a pause, and the largest difference of timestamps
/// from the elapsed time in seconds.
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
    /// Returns a stream before its first packet; `is_early` if it follows another one of a call.
    pub(super) fn after(is_early: bool, assumed: Rc<[Format]>) -> Self {
        Self { is_early, assumed, ..Self::default() }
    }

    /// Returns true if a packet with the addresses and the SSRC of this stream begins a new stream:
    /// that of the next call, for which some phones reuse SSRC and ports.
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

    /// Returns true if a packet continues the sequence numbers or the timestamps of the stream.
    fn goes_on(&self, pause: u64, header: &Header<'_>) -> bool {
        let Some((number, timestamp, clock)) = self.latest else { return true };
        let advance = header.sequence_number().wrapping_sub(number);
        if (1..=ADVANCE).contains(&advance) {
            return true;
        }
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        let clock = clock.map(f64::from).or_else(|| {
            // The clock rate that the stream itself has shown.
            let ticks = timestamp.wrapping_sub(self.first_timestamp?);
            let clock = f64::from(ticks) / seconds(self.last.saturating_sub(self.first));
            (clock.is_finite() && clock > 0.0).then_some(clock)
        });
        let Some(clock) = clock else { return false };
        let passed = f64::from(header.timestamp().wrapping_sub(timestamp)) / clock;
        (passed - seconds(pause)).abs() < DRIFT
    }

    /// Returns true if a session description describes the stream.
    pub(super) fn is_described(&self) -> bool {
        self.call_id.is_some()
    }

    /// Looks up the current session descriptions; they may come after the first packets, and
    /// change. Returns true if the packets are decrypted from now on.
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
            // Timestamps before and after a restart are unrelated.
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

    /// Updates the interarrival jitter (RFC 3550 section 6.4.1 and appendix A.8).
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
        // Of several with equal counts, the last would be comfort noise or events.
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
