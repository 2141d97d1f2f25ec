//! RTP streams: which packets are one, and what is told of each (RFC 3550; rows A13 and D2 of
//! docs/sources.md).

use super::endpoints::Endpoints;
use super::packet::Transported;
use super::sdp::static_format;
use super::track::Track;
use rtp::Header;
use serde::Serialize;
use std::collections::HashMap;
use std::net::SocketAddr;

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

/// What came of the packets of a stream whose keys the capture has (RFC 4568).
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Srtp {
    /// The name of the crypto suite.
    pub(crate) suite: String,
    /// Packets whose tag is right.
    pub(crate) authentic: u64,
    /// Packets whose tag is wrong under every key. Once a packet has been authentic, they are in no
    /// other figure of the stream: whoever receives them drops them.
    pub(crate) not_authentic: u64,
    /// Packets that carry no tag, copies, and packets too late for a receiver to check.
    pub(crate) unchecked: u64,
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
    /// Streams whose packets were not decrypted, though there are keys: there were too many.
    pub(crate) srtp_left_out: u64,
}

/// The most streams that are followed.
const STREAMS: usize = 50_000;
/// The most that may yet turn out to be streams.
const CANDIDATES: usize = 50_000;
/// So many packets in sequence make a stream of what no session description names.
const PROBATION: u32 = 4;
/// The most streams whose packets are decrypted.
const DECRYPTED: u64 = 10_000;

pub(super) type Key = (SocketAddr, SocketAddr, u32);

/// The streams of a capture while it is read.
#[derive(Default)]
pub(super) struct RtpBook {
    streams: HashMap<Key, Track>,
    candidates: HashMap<Key, Track>,
    rtcp: u64,
    left_out: u64,
    /// Streams whose packets are decrypted.
    decrypted: u64,
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
        // The last byte of a packet that is or may be SRTP is no count of padding: the header alone
        // decides.
        let Ok(header) = Header::parse(&datagram.payload) else { return false };
        let key = (datagram.source, datagram.destination, header.ssrc());
        if let Some(track) = self.streams.get_mut(&key) {
            let may_decrypt = self.decrypted < DECRYPTED;
            self.decrypted += u64::from(track.describe(datagram, endpoints, may_decrypt));
            track.take(datagram, &header);
            return true;
        }
        let mut track = self.candidates.remove(&key).unwrap_or_default();
        let may_decrypt = self.decrypted < DECRYPTED && self.streams.len() < STREAMS;
        self.decrypted += u64::from(track.describe(datagram, endpoints, may_decrypt));
        track.take(datagram, &header);
        if track.is_described() || track.in_sequence >= PROBATION {
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
        let left_out = self.streams.values().filter(|track| track.keys_left_out);
        let srtp_left_out = left_out.count() as u64;
        let streams = self.streams.into_iter().map(|(key, track)| track.report(key));
        let mut streams: Vec<_> = streams.collect();
        streams.sort_by_key(|one| (one.started_us, one.source, one.destination, one.ssrc));
        let unrecognised = self.candidates.values().map(|track| track.packets).sum();
        Rtp { streams, rtcp: self.rtcp, unrecognised, left_out: self.left_out, srtp_left_out }
    }
}
