//! RTP streams: which packets are one, and what is told of each (RFC 3550; rows A13 and D2 of
//! docs/sources.md).

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

/// The streams of a capture while it is read.
#[derive(Default)]
pub(super) struct RtpBook {
    streams: HashMap<Key, Track>,
    candidates: HashMap<Key, Track>,
    /// Streams that another one with the same addresses and SSRC has followed.
    followed: Vec<RtpStream>,
    /// The meaning of payload types that no session description names.
    assumed: Rc<[Format]>,
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
    /// A book in which `assumed` holds for payload types that no session description names.
    pub(super) fn new(assumed: Rc<[Format]>) -> Self {
        Self { assumed, ..Self::default() }
    }

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
        let is_full = self.streams.len() + self.followed.len() >= STREAMS;
        if !is_full
            && let Some(track) = self.streams.get(&key)
            && track.is_followed_by(datagram, &header, endpoints)
            && let Some(track) = self.streams.remove(&key)
        {
            let is_described = track.is_described();
            self.followed.push(track.report(key));
            // The same two parties go on: no packets have to prove that this is RTP.
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
        let mut streams: Vec<_> = streams.chain(self.followed).collect();
        streams.sort_by_key(|one| (one.started_us, one.source, one.destination, one.ssrc));
        let unrecognised = self.candidates.values().map(|track| track.packets).sum();
        Rtp { streams, rtcp: self.rtcp, unrecognised, left_out: self.left_out, srtp_left_out }
    }
}
