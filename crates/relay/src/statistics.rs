//! The statistics of the packets of one end.

use crate::announcement::Announcement;
use crate::codec::Codec;
use crate::transcode::Conversions;
use alloc::boxed::Box;
use core::net::SocketAddr;
use core::time::Duration;
use media::demultiplex::Kind;
use rtp::quality::{CodecQuality, mean_opinion_score, rating};
use rtp::rtcp::{Bye, Compound, Packet, ReportBlock};
use rtp::{Header, ReceptionStats};

/// Packets of one side that were [rewritten](crate::frame::rewrite) in their frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rewrites {
    /// Their number.
    pub packets: u64,
    /// Their bytes with the headers of RTP.
    pub bytes: u64,
    /// The time of the last one.
    pub last: Option<Duration>,
}

/// Counters of the packets that came from one end.
#[derive(Clone, Debug, Default)]
pub(crate) struct LegStatistics {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Packets that were refused: of another source, forged, or not agreed.
    pub(crate) refused: u64,
    /// Packets that were in order, and could not be sent to the other end.
    pub(crate) unsent: u64,
    pub(crate) first: Option<Duration>,
    pub(crate) last: Option<Duration>,
    /// The time of the last RTCP packet, or of the last check of a browser.
    pub(crate) heard: Option<Duration>,
    /// True if the last RTP packet was comfort noise (RFC 3389): the end suppresses silence, and
    /// sends no further packet before there is speech.
    is_silent: bool,
    /// The time of the last RTCP packet of such an end.
    pub(crate) in_silence: Option<Duration>,
    /// True if the end has sent an RTCP BYE of its source (RFC 3550 section 6.6), and no packet
    /// since.
    pub(crate) has_left: bool,
    reception: Option<ReceptionStats>,
    /// Packets expected and received from earlier SSRCs, and the worst of their jitters.
    earlier: (u64, u64, Duration),
    payload_type: Option<u8>,
    clock_rate: u32,
    /// The last report of the other end about these packets.
    reported: Option<Reported>,
}

impl LegStatistics {
    /// Counts an RTP packet of `length` bytes.
    pub(crate) fn receive(
        &mut self,
        header: &Header<'_>,
        length: usize,
        announced: &Announcement,
        now: Duration,
    ) {
        self.count(length, now);
        let payload_type = header.payload_type();
        let is_event = announced.events & crate::codec::bit(payload_type) != 0;
        let reception = match &mut self.reception {
            Some(reception) if reception.ssrc() == header.ssrc() => reception,
            _ => {
                self.end_reception();
                let mut new = ReceptionStats::new(header, announced.clock_rate(payload_type));
                for number in (0..128).filter(|number| announced.events >> number & 1 == 1) {
                    new = new.with_events(number);
                }
                self.reception.insert(new)
            }
        };
        self.is_silent = false;
        if !is_event && self.payload_type != Some(payload_type) {
            let clock_rate = announced.clock_rate(payload_type);
            reception.set_clock_rate(clock_rate);
            self.is_silent = announced.codec(payload_type).is_some_and(Codec::is_noise);
            if !self.is_silent {
                (self.payload_type, self.clock_rate) = (Some(payload_type), clock_rate);
            }
        }
        reception.receive(header, now);
    }

    /// Adds packets that were rewritten. Gaps and distances between them are unknown, and are no
    /// losses: the measurement begins again with the next packet.
    pub(crate) fn add(&mut self, rewrites: Rewrites) {
        if rewrites.packets == 0 {
            return;
        }
        self.packets += rewrites.packets;
        self.bytes += rewrites.bytes;
        self.first = self.first.or(rewrites.last);
        self.last = self.last.max(rewrites.last);
        self.has_left = false;
        self.end_reception();
    }

    /// Moves the measurement of an SSRC to the earlier ones.
    fn end_reception(&mut self) {
        if let Some(ended) = self.reception.take().filter(ReceptionStats::is_valid) {
            self.earlier.0 += ended.expected();
            self.earlier.1 += ended.received();
            self.earlier.2 = self.earlier.2.max(ended.spacing().max_jitter());
        }
    }

    /// Counts a packet other than RTP. The reports in RTCP in clear are about `other`, the packets
    /// of the other end.
    pub(crate) fn receive_other(
        &mut self,
        kind: Kind,
        packet: &[u8],
        other: &mut Self,
        now: Duration,
    ) {
        if kind != Kind::Rtcp {
            return self.count(packet.len(), now);
        }
        self.heard = Some(now);
        if self.is_silent {
            self.in_silence = Some(now);
        }
        let Ok(compound) = Compound::parse(packet) else { return };
        for packet in compound.packets() {
            match packet {
                Packet::SenderReport(report) => other.reported(report.blocks()),
                Packet::ReceiverReport(report) => other.reported(report.blocks()),
                Packet::Bye(bye) => self.has_left |= self.is_source_of(&bye),
                _ => {}
            }
        }
    }

    /// True if `bye` is of the source of the packets.
    fn is_source_of(&self, bye: &Bye<'_>) -> bool {
        // The source of rewritten packets is not known.
        self.reception.as_ref().is_none_or(|it| bye.sources().any(|source| source == it.ssrc()))
    }

    fn count(&mut self, length: usize, now: Duration) {
        self.has_left = false;
        self.packets += 1;
        self.bytes += length as u64;
        self.first.get_or_insert(now);
        self.last = Some(now);
    }

    fn reported(&mut self, mut reports: impl Iterator<Item = ReportBlock>) {
        let ssrc = self.reception.as_ref().map(ReceptionStats::ssrc);
        if let Some(report) = reports.find(|report| Some(report.ssrc) == ssrc) {
            let micros = u64::from(report.jitter) * 1_000_000 / u64::from(self.clock_rate.max(1));
            self.reported = Some(Reported {
                lost: report.lost,
                fraction_lost: f64::from(report.fraction_lost) / 256.0,
                jitter: Duration::from_micros(micros),
            });
        }
    }

    /// The payload type in use, other than telephone events and comfort noise.
    pub(crate) const fn payload_type(&self) -> Option<u8> {
        self.payload_type
    }

    /// The time until the next packet is no delta: the end has been held, or goes on.
    pub(crate) fn pause(&mut self) {
        if let Some(reception) = &mut self.reception {
            reception.pause();
        }
    }

    /// The statistics for a report, without those of the description and of the ports. `codec` is
    /// the agreed one.
    pub(crate) fn summary(&self, codec: Option<&Codec>) -> Direction {
        let (mut expected, mut received, mut jitter) = self.earlier;
        let mut max_delta = None;
        if let Some(reception) = self.reception.as_ref().filter(|reception| reception.is_valid()) {
            expected += reception.expected();
            received += reception.received();
            jitter = jitter.max(reception.spacing().max_jitter());
            max_delta = Some(reception.spacing().max_delta());
        }
        let lost = expected.saturating_sub(received);
        let quality = (expected > 0).then(|| {
            let share = lost as f64 / expected as f64;
            // The delay from mouth to ear is not known here.
            let quality = codec.map_or(CodecQuality::G711_CONCEALED, Codec::quality);
            mean_opinion_score(rating(quality, Duration::ZERO, share, 1.0))
        });
        Direction {
            ssrc: self.reception.as_ref().map(ReceptionStats::ssrc),
            packets: self.packets,
            bytes: self.bytes,
            refused: self.refused,
            unsent: self.unsent,
            expected: (expected > 0).then_some(expected),
            lost: (expected > 0).then_some(lost),
            jitter: (expected > 0).then_some(jitter),
            max_delta,
            mean_opinion_score: quality,
            payload_type: self.payload_type,
            codec: codec.map(Codec::label),
            reported: self.reported,
            first: self.first,
            last: self.last,
            ..Direction::default()
        }
    }
}

/// A report of a receiving end (RFC 3550 section 6.4.1). Loss and jitter arise before the relay and
/// behind it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Reported {
    /// The lost packets since the beginning. Duplicates may make it negative.
    pub lost: i32,
    /// The part of the packets that was lost since the report before.
    pub fraction_lost: f64,
    /// The interarrival jitter.
    pub jitter: Duration,
}

/// The packets of one direction of a stream, as they arrived at the relay. A value that was not
/// measured is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Direction {
    /// The type of the medium, such as `audio`. Empty before the offer is answered.
    pub media_type: Box<str>,
    /// The transport protocol that the end names, such as `RTP/AVP`.
    pub protocol: Box<str>,
    /// True if the relay has keys for the packets.
    pub has_keys: bool,
    /// True if the keys of the end are those of a DTLS handshake with the host.
    pub has_handshake: bool,
    /// The local port at which the packets arrive. RTCP has the next one.
    pub local_port: u16,
    /// The address that the end names for its packets, if packets may be sent there.
    pub announced: Option<SocketAddr>,
    /// The address that the packets come from.
    pub source: Option<SocketAddr>,
    /// The last SSRC.
    pub ssrc: Option<u32>,
    /// Packets except RTCP.
    pub packets: u64,
    /// Their bytes with the headers of RTP.
    pub bytes: u64,
    /// Packets that were refused: of another source, forged, or not agreed.
    pub refused: u64,
    /// Packets that the relay could not send to the other end.
    pub unsent: u64,
    /// Packets that the sequence numbers tell of.
    pub expected: Option<u64>,
    /// Packets lost before the relay.
    pub lost: Option<u64>,
    /// The maximum interarrival jitter.
    pub jitter: Option<Duration>,
    /// The longest time between two packets.
    pub max_delta: Option<Duration>,
    /// The mean opinion score by the E-model, from loss alone.
    pub mean_opinion_score: Option<f64>,
    /// The last payload type other than telephone events and comfort noise.
    pub payload_type: Option<u8>,
    /// The agreed codec with its clock rate, such as `PCMU/8000`: that of the last packets, or the
    /// one that the receiving end prefers.
    pub codec: Option<Box<str>>,
    /// The codec that the sound is converted to, with its clock rate. `None` if packets pass.
    pub converted_to: Option<Box<str>>,
    /// Counters of the conversion, if there is or was one.
    pub conversions: Option<Conversions>,
    /// The last report of the receiving end.
    pub reported: Option<Reported>,
    /// The time of the first packet.
    pub first: Option<Duration>,
    /// The time of the last packet.
    pub last: Option<Duration>,
}
