//! RTP streams: loss, order, interarrival time and jitter (RFC 3550; seeds A13 and D2).

use super::packet::Transported;
use super::sdp::{Endpoints, Format, static_format};
use super::sequence::{Arrival, Sequence};
use rtp::Header;
use serde::Serialize;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;

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
    /// Packets, copies among them.
    pub(crate) packets: u64,
    /// Packets that were sent, by the sequence numbers.
    pub(crate) expected: u64,
    /// Packets that were sent and did not come.
    pub(crate) lost: u64,
    /// Packets that came after one with a higher sequence number.
    pub(crate) out_of_order: u64,
    /// Packets with a sequence number that had come before.
    pub(crate) duplicates: u64,
    /// How often the sequence numbers began anew somewhere else.
    pub(crate) restarts: u64,
    /// The mean time from one packet to the next in milliseconds; absent for a single packet. Like
    /// Wireshark this leaves out what is no steady stream: packets with the marker, comfort noise
    /// and the packet after it.
    pub(crate) mean_delta_ms: Option<f64>,
    /// The longest time from one packet to the next in milliseconds.
    pub(crate) max_delta_ms: Option<f64>,
    /// The mean of the interarrival jitter (RFC 3550 section 6.4.1) at the same packets in
    /// milliseconds; absent where no clock rate is known.
    pub(crate) mean_jitter_ms: Option<f64>,
    /// The largest interarrival jitter in milliseconds.
    pub(crate) max_jitter_ms: Option<f64>,
    /// Bits of the IP packets, headers included, that came after the first, by the time since the
    /// first, in kbit/s.
    pub(crate) kbit_per_s: Option<f64>,
}

/// RTP in a capture.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Rtp {
    /// The streams, in the order of time.
    pub(crate) streams: Vec<RtpStream>,
    /// RTCP packets.
    pub(crate) rtcp: u64,
    /// Packets that look like RTP and were in too few to make a stream.
    pub(crate) unrecognised: u64,
    /// Packets of streams that were not followed: there were more than [`STREAMS`].
    pub(crate) left_out: u64,
}

/// The most streams that are followed.
const STREAMS: usize = 50_000;
/// The most that may yet turn out to be streams.
const CANDIDATES: usize = 50_000;
/// So many packets in sequence make a stream of what no session description names.
const PROBATION: u32 = 4;
/// The most payload types of a stream that are told.
const PAYLOAD_TYPES: usize = 8;

/// Payload types of comfort noise (RFC 3389; 19 is what drafts of RFC 3551 had).
const COMFORT_NOISE: u8 = 13;
const OLD_COMFORT_NOISE: u8 = 19;

type Key = (SocketAddr, SocketAddr, u32);

/// The streams of a capture while it is read.
#[derive(Default)]
pub(super) struct RtpBook {
    streams: HashMap<Key, Track>,
    candidates: HashMap<Key, Track>,
    rtcp: u64,
    left_out: u64,
}

/// A stream, or what may become one.
struct Track {
    in_sequence: u32,
    sequence: Sequence,
    formats: Option<Rc<[Format]>>,
    call_id: Option<Rc<str>>,
    payload_types: Vec<u8>,
    packets: u64,
    /// Nanoseconds since the Unix epoch.
    first: u64,
    last: u64,
    follows_comfort_noise: bool,
    deltas: Mean,
    /// Time, time stamp and clock rate of the last packet that has a clock.
    sampled: Option<(u64, u32, u32)>,
    /// In nanoseconds.
    jitter: f64,
    jitters: Mean,
    ip_bytes: u64,
}

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

/// Whether a packet of version 2 is RTCP: RTP avoids these types where both may come.
fn is_rtcp(bytes: &[u8]) -> bool {
    bytes.len() >= 8 && bytes[0] >> 6 == 2 && rtp::is_rtcp(bytes)
}

impl RtpBook {
    /// Takes a datagram that is no SIP message, and tells whether it is, or may become, part of a
    /// stream, or is RTCP.
    pub(super) fn take(&mut self, datagram: &Transported<'_>, endpoints: &Endpoints) -> bool {
        if is_rtcp(&datagram.payload) {
            self.rtcp += 1;
            return true;
        }
        let Ok(rtp::Packet { header, .. }) = rtp::Packet::parse(&datagram.payload) else {
            return false;
        };
        let key = (datagram.source, datagram.destination, header.ssrc());
        if let Some(track) = self.streams.get_mut(&key) {
            track.describe(datagram, endpoints);
            track.take(datagram, &header);
            return true;
        }
        let mut track = match self.candidates.remove(&key) {
            Some(track) => track,
            None => Track::new(datagram, &header),
        };
        track.describe(datagram, endpoints);
        track.take(datagram, &header);
        let is_described = track.call_id.is_some();
        if is_described || track.in_sequence >= PROBATION {
            if self.streams.len() < STREAMS {
                self.streams.insert(key, track);
            } else {
                self.left_out += track.packets;
            }
            return true;
        }
        if static_format(header.payload_type()).is_none() && header.payload_type() < 96 {
            return false;
        }
        if self.candidates.len() >= CANDIDATES {
            // Most of them are no streams at all, and those that are begin anew.
            self.left_out += self.candidates.values().map(|track| track.packets).sum::<u64>();
            self.candidates.clear();
        }
        self.candidates.insert(key, track);
        true
    }

    pub(super) fn finish(self) -> Rtp {
        let streams = self.streams.into_iter().map(|(key, track)| track.report(key));
        let mut streams: Vec<_> = streams.collect();
        streams.sort_by_key(|one| (one.started_us, one.source, one.destination, one.ssrc));
        let unrecognised = self.candidates.values().map(|track| track.packets).sum();
        Rtp { streams, rtcp: self.rtcp, unrecognised, left_out: self.left_out }
    }
}

impl Track {
    fn new(datagram: &Transported<'_>, header: &Header<'_>) -> Self {
        Self {
            in_sequence: 0,
            sequence: Sequence::new(header.sequence_number()),
            formats: None,
            call_id: None,
            payload_types: Vec::new(),
            packets: 0,
            first: datagram.time,
            last: datagram.time,
            follows_comfort_noise: false,
            deltas: Mean::default(),
            sampled: None,
            jitter: 0.0,
            jitters: Mean::default(),
            ip_bytes: 0,
        }
    }

    /// Finds the session description, which may come after the first packets.
    fn describe(&mut self, datagram: &Transported<'_>, endpoints: &Endpoints) {
        if self.call_id.is_none()
            && let Some(media) = endpoints.find(datagram.source, datagram.destination)
        {
            self.formats = Some(media.formats.clone());
            self.call_id = Some(media.call_id.clone());
        }
    }

    fn format(&self, payload_type: u8) -> Option<Format> {
        let described = self.formats.iter().flat_map(|formats| formats.iter());
        let mut described = described.filter(|format| format.payload_type == payload_type);
        described.next().cloned().or_else(|| static_format(payload_type))
    }

    fn take(&mut self, datagram: &Transported<'_>, header: &Header<'_>) {
        let (payload_type, sequence, timestamp) =
            (header.payload_type(), header.sequence_number(), header.timestamp());
        if !self.payload_types.contains(&payload_type) && self.payload_types.len() < PAYLOAD_TYPES {
            self.payload_types.push(payload_type);
        }
        let is_comfort_noise = matches!(payload_type, COMFORT_NOISE | OLD_COMFORT_NOISE);
        self.packets += 1;
        let mut is_regular = false;
        if self.packets == 1 {
            self.in_sequence = 1;
        } else {
            let arrival = self.sequence.take(sequence);
            self.in_sequence = match arrival {
                Arrival::Next(1..=16) => self.in_sequence + 1,
                Arrival::Next(_) | Arrival::Restart => 1,
                Arrival::Late | Arrival::Duplicate => self.in_sequence,
            };
            if arrival == Arrival::Restart {
                // The time stamps before it have nothing to do with those after it.
                self.sampled = None;
            }
            self.ip_bytes += datagram.ip_length;
            is_regular = !header.marker() && !is_comfort_noise && !self.follows_comfort_noise;
            if is_regular {
                self.deltas.take(datagram.time.saturating_sub(self.last) as f64);
            }
        }
        self.last = datagram.time;
        self.follows_comfort_noise = is_comfort_noise;
        self.sample(payload_type, timestamp, is_regular);
    }

    /// Works out the interarrival jitter (RFC 3550 section 6.4.1 and appendix A.8).
    fn sample(&mut self, payload_type: u8, timestamp: u32, is_regular: bool) {
        let format = self.format(payload_type);
        // The time stamps of events stand still while they last (RFC 4733 section 2.2.1).
        let format = format.filter(|one| !one.name.eq_ignore_ascii_case("telephone-event"));
        let Some(clock) = format.map(|one| one.clock).filter(|&clock| clock > 0) else { return };
        if let Some((last, last_timestamp, last_clock)) = self.sampled
            && last_clock == clock
        {
            let sampled = timestamp.wrapping_sub(last_timestamp).cast_signed();
            let sampled = f64::from(sampled) * 1e9 / f64::from(clock);
            // Times in a capture may run backwards.
            let elapsed = self.last.wrapping_sub(last).cast_signed() as f64;
            self.jitter += ((elapsed - sampled).abs() - self.jitter) / 16.0;
            if is_regular {
                self.jitters.take(self.jitter);
            }
        }
        self.sampled = Some((self.last, timestamp, clock));
    }

    fn report(&self, (source, destination, ssrc): Key) -> RtpStream {
        let elapsed = self.last.saturating_sub(self.first);
        let counts = self.sequence.counts();
        RtpStream {
            source,
            destination,
            ssrc,
            payload_types: self.payload_types.clone(),
            encodings: self
                .payload_types
                .iter()
                .filter_map(|&one| self.format(one).map(|format| format.name.to_string()))
                .collect(),
            call_id: self.call_id.as_deref().map(str::to_owned),
            started_us: self.first / 1_000,
            ended_us: self.last / 1_000,
            packets: self.packets,
            expected: counts.expected,
            lost: counts.lost(),
            out_of_order: counts.late,
            duplicates: counts.duplicates,
            restarts: counts.restarts,
            mean_delta_ms: self.deltas.mean_ms(),
            max_delta_ms: self.deltas.max_ms(),
            mean_jitter_ms: self.jitters.mean_ms(),
            max_jitter_ms: self.jitters.max_ms(),
            kbit_per_s: (elapsed > 0).then(|| self.ip_bytes as f64 * 8e6 / elapsed as f64),
        }
    }
}
