//! RTP streams: loss, order, interarrival time and jitter (RFC 3550; seeds A13 and D2).

use super::packet::Transported;
use super::sdp::{Endpoints, Format, static_format};
use super::sequence::{Arrival, Sequence};
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
    /// The mean time from one packet to the next in milliseconds; absent for a single packet.
    pub(crate) mean_delta_ms: Option<f64>,
    /// The longest time from one packet to the next in milliseconds.
    pub(crate) max_delta_ms: Option<f64>,
    /// The mean over all packets of the interarrival jitter (RFC 3550 section 6.4.1) in
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
    max_delta: u64,
    last_timestamp: u32,
    last_clock: Option<u32>,
    /// In nanoseconds.
    jitter: f64,
    jitter_sum: f64,
    jitter_max: f64,
    jitter_count: u64,
    ip_bytes: u64,
}

/// The fixed header of an RTP packet (RFC 3550 section 5.1).
struct Header {
    payload_type: u8,
    sequence: u16,
    timestamp: u32,
    ssrc: u32,
}

impl Header {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let fixed: &[u8; 12] = bytes.first_chunk()?;
        let csrc = 4 * usize::from(fixed[0] & 0x0f);
        let mut length = 12 + csrc;
        if fixed[0] & 0x10 != 0 {
            let extension = bytes.get(length + 2..length + 4)?;
            length += 4 + 4 * usize::from(u16::from_be_bytes([extension[0], extension[1]]));
        }
        let padding = match fixed[0] & 0x20 {
            0 => 0,
            _ => usize::from(*bytes.last()?),
        };
        let is_rtp = fixed[0] >> 6 == 2 && length + padding <= bytes.len();
        is_rtp.then(|| Self {
            payload_type: fixed[1] & 0x7f,
            sequence: u16::from_be_bytes([fixed[2], fixed[3]]),
            timestamp: u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]),
            ssrc: u32::from_be_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]),
        })
    }
}

/// Whether a packet of version 2 is RTCP: RTP avoids these types where both may come (RFC 5761
/// section 4).
fn is_rtcp(bytes: &[u8]) -> bool {
    bytes.len() >= 8 && bytes[0] >> 6 == 2 && (192..=223).contains(&bytes[1])
}

impl RtpBook {
    /// Takes a datagram that is no SIP message, and tells whether it is, or may become, part of a
    /// stream, or is RTCP.
    pub(super) fn take(&mut self, datagram: &Transported<'_>, endpoints: &Endpoints) -> bool {
        if is_rtcp(&datagram.payload) {
            self.rtcp += 1;
            return true;
        }
        let Some(header) = Header::parse(&datagram.payload) else { return false };
        let key = (datagram.source, datagram.destination, header.ssrc);
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
        if static_format(header.payload_type).is_none() && header.payload_type < 96 {
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
    fn new(datagram: &Transported<'_>, header: &Header) -> Self {
        Self {
            in_sequence: 0,
            sequence: Sequence::new(header.sequence),
            formats: None,
            call_id: None,
            payload_types: Vec::new(),
            packets: 0,
            first: datagram.time,
            last: datagram.time,
            max_delta: 0,
            last_timestamp: header.timestamp,
            last_clock: None,
            jitter: 0.0,
            jitter_sum: 0.0,
            jitter_max: 0.0,
            jitter_count: 0,
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

    fn take(&mut self, datagram: &Transported<'_>, header: &Header) {
        let clock = self.format(header.payload_type).map(|format| format.clock);
        let clock = clock.filter(|&clock| clock > 0);
        if !self.payload_types.contains(&header.payload_type)
            && self.payload_types.len() < PAYLOAD_TYPES
        {
            self.payload_types.push(header.payload_type);
        }
        self.packets += 1;
        if self.packets == 1 {
            self.in_sequence = 1;
        } else {
            let arrival = self.sequence.take(header.sequence);
            self.in_sequence = match arrival {
                Arrival::Next(1..=16) => self.in_sequence + 1,
                Arrival::Next(_) | Arrival::Restart => 1,
                Arrival::Late | Arrival::Duplicate => self.in_sequence,
            };
            self.ip_bytes += datagram.ip_length;
            let delta = datagram.time.saturating_sub(self.last);
            self.max_delta = self.max_delta.max(delta);
            // A restart has nothing to do with the time stamp before it.
            if let Some(clock) = clock.filter(|_| clock == self.last_clock)
                && arrival != Arrival::Restart
            {
                let sampled = header.timestamp.wrapping_sub(self.last_timestamp).cast_signed();
                let sampled = f64::from(sampled) * 1e9 / f64::from(clock);
                // Times in a capture may run backwards.
                let elapsed = datagram.time.wrapping_sub(self.last).cast_signed() as f64;
                self.jitter += ((elapsed - sampled).abs() - self.jitter) / 16.0;
                self.jitter_sum += self.jitter;
                self.jitter_max = self.jitter_max.max(self.jitter);
                self.jitter_count += 1;
            }
        }
        self.last = datagram.time;
        self.last_timestamp = header.timestamp;
        self.last_clock = clock;
    }

    fn report(&self, (source, destination, ssrc): Key) -> RtpStream {
        let elapsed = self.last.saturating_sub(self.first);
        let ms = |nanos: f64| nanos / 1e6;
        let has_delta = self.packets > 1;
        let has_jitter = self.jitter_count > 0;
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
            mean_delta_ms: has_delta.then(|| ms(elapsed as f64 / (self.packets - 1) as f64)),
            max_delta_ms: has_delta.then(|| ms(self.max_delta as f64)),
            mean_jitter_ms: has_jitter.then(|| ms(self.jitter_sum / self.jitter_count as f64)),
            max_jitter_ms: has_jitter.then(|| ms(self.jitter_max)),
            kbit_per_s: (elapsed > 0).then(|| self.ip_bytes as f64 * 8e6 / elapsed as f64),
        }
    }
}
