//! The RTP streams of a capture (RFC 3550; see docs/sources.md).

use super::endpoints::Endpoints;
use super::packet::Transported;
use super::sdp::Format;
use super::sdp::static_format;
use super::track::{Key, RtpStream, Track};
use rtp::Header;
use serde::Serialize;
use std::collections::HashMap;
use std::rc::Rc;

/// RTP in a capture.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Rtp {
    /// The streams, in chronological order.
    pub(crate) streams: Vec<RtpStream>,
    /// RTCP packets.
    pub(crate) rtcp: u64,
    /// Packets that look like RTP but were too few for a stream.
    pub(crate) unrecognised: u64,
    /// Packets of streams beyond the limit of [`STREAMS`].
    pub(crate) left_out: u64,
    /// Streams with keys that were not decrypted because of the limit.
    pub(crate) srtp_left_out: u64,
}

/// The limit of streams.
const STREAMS: usize = 50_000;
/// The limit of candidates for streams.
const CANDIDATES: usize = 50_000;
/// The number of packets in sequence that make a stream without a session description.
const PROBATION: u32 = 4;
/// The limit of decrypted streams.
const DECRYPTED: u64 = 10_000;

/// The streams of a capture during reading.
#[derive(Default)]
pub(super) struct RtpBook {
    streams: HashMap<Key, Track>,
    candidates: HashMap<Key, Track>,
    /// Streams that were followed by another one with the same addresses and SSRC.
    followed: Vec<RtpStream>,
    /// The payload types without a session description.
    assumed: Rc<[Format]>,
    rtcp: u64,
    left_out: u64,
    /// The number of decrypted streams.
    decrypted: u64,
}

/// Returns true if a packet of version 2 is RTCP: RTP avoids these payload types where both are
/// multiplexed.
fn is_rtcp(bytes: &[u8]) -> bool {
    bytes.len() >= 8 && bytes[0] >> 6 == 2 && rtp::is_rtcp(bytes)
}

impl RtpBook {
    /// Returns an empty book with `assumed` for payload types without a session description.
    pub(super) fn new(assumed: Rc<[Format]>) -> Self {
        Self { assumed, ..Self::default() }
    }

    /// Handles a datagram that is not SIP. Returns true if it is RTCP, or is or may become part of
    /// a stream.
    pub(super) fn take(&mut self, datagram: &Transported<'_>, endpoints: &Endpoints) -> bool {
        if is_rtcp(&datagram.payload) {
            self.rtcp += 1;
            return true;
        }
        // The last byte of a packet that is or may be SRTP is no padding count, so only the header
        // decides.
        let Ok(header) = Header::parse(&datagram.payload) else { return false };
        let key = (datagram.source, datagram.destination, header.ssrc());
        let is_full = self.streams.len() + self.followed.len() >= STREAMS;
        if !is_full
            && let Some(track) = self.streams.get(&key)
            && track.is_followed_by(datagram, &header, endpoints)
            && let Some(track) = self.streams.remove(&key)
        {
            let is_described = track.is_described();
            self.followed.push(track.report(key));
            // The stream continues between the same parties, so no probation is needed.
            let next = Track::after(is_described, self.assumed.clone());
            self.streams.insert(key, next);
        }
        if let Some(track) = self.streams.get_mut(&key) {
            let may_decrypt = self.decrypted < DECRYPTED;
            self.decrypted += u64::from(track.describe(datagram, endpoints, may_decrypt));
            track.take(datagram, &header);
            return true;
        }
        let track = self.candidates.remove(&key);
        let mut track = track.unwrap_or_else(|| Track::after(false, self.assumed.clone()));
        let may_decrypt = self.decrypted < DECRYPTED && !is_full;
        self.decrypted += u64::from(track.describe(datagram, endpoints, may_decrypt));
        track.take(datagram, &header);
        if track.is_described() || track.in_sequence >= PROBATION {
            if !is_full {
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
            // Most of them are not streams, and streams among them start again.
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
        let mut streams: Vec<_> = streams.chain(self.followed).collect();
        streams.sort_by_key(|one| (one.started_us, one.source, one.destination, one.ssrc));
        let unrecognised = self.candidates.values().map(|track| track.packets).sum();
        Rtp { streams, rtcp: self.rtcp, unrecognised, left_out: self.left_out, srtp_left_out }
    }
}
