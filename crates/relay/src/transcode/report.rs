//! The reports about converted packets (RFC 3550 section 6.4).
//!
//! The SSRC of a converted source stays, and so do the times of reports: the round-trip time is
//! that between the ends. Numbers of packets, timestamps and jitter become those of the leg that
//! receives the report.

use super::conversion::{Change, Conversion};
use super::transcoder::{Transcoder, convert};
use rtp::rtcp::{Compound, packet_type};

/// The length of a report block.
const BLOCK: usize = 24;

impl Conversion {
    /// Rewrites the RTCP packets in the first `length` bytes of `buffer` in place. `own` converts
    /// the packets of their sender, `other` those that it receives. Returns the new length: packets
    /// with numbers of single packets are removed.
    pub(crate) fn rewrite_reports(
        [own, other]: [Option<&Self>; 2],
        buffer: &mut [u8],
        length: usize,
    ) -> Option<usize> {
        Compound::parse(buffer.get(..length)?).ok()?;
        let (mut read, mut written) = (0, 0);
        while let Some(&[first, kind, high, low]) = buffer[read..length].first_chunk() {
            let end = read + 4 + 4 * usize::from(u16::from_be_bytes([high, low]));
            let packet = buffer.get_mut(read..end).filter(|_| end <= length)?;
            let blocks = match kind {
                packet_type::SR => {
                    if let Some(own) = own {
                        own.rewrite_sender(packet);
                    }
                    28
                }
                packet_type::RR => 8,
                _ => packet.len(),
            };
            if let Some(other) = other {
                let blocks = packet.get_mut(blocks..)?.chunks_exact_mut(BLOCK);
                blocks.take((first & 0x1f).into()).for_each(|block| other.rewrite_block(block));
            }
            if (packet_type::SR..=packet_type::APP).contains(&kind) {
                buffer.copy_within(read..end, written);
                written += end - read;
            }
            read = end;
        }
        (written > 0).then_some(written)
    }

    /// Rewrites the information about the sender of a sender report.
    fn rewrite_sender(&self, packet: &mut [u8]) {
        let [ssrc, timestamp, packets, bytes] = [4, 16, 20, 24].map(|at| word(packet, at));
        match &self.0 {
            Change::Codec(transcoder) => {
                let Some(source) = transcoder.source().filter(|source| source.ssrc == ssrc) else {
                    return;
                };
                put(packet, 16, transcoder.timestamp(timestamp));
                let more = transcoder.output.packets.wrapping_sub(source.packets);
                put(packet, 20, packets.wrapping_add(more));
                let more = transcoder.output.bytes.wrapping_sub(source.bytes);
                put(packet, 24, bytes.wrapping_add(more));
            }
            Change::Numbers(renumbering) if renumbering.ssrc() == ssrc => {
                let more = renumbering.added.map_or(0, |(_, more)| more);
                put(packet, 16, timestamp.wrapping_add(more));
            }
            Change::Numbers(_) => {}
        }
    }

    /// Rewrites a block about the packets that this converts.
    fn rewrite_block(&self, block: &mut [u8]) {
        let [ssrc, lost, highest, jitter] = [0, 4, 8, 12].map(|at| word(block, at));
        match &self.0 {
            Change::Codec(transcoder) => {
                let Some(source) = transcoder.source().filter(|source| source.ssrc == ssrc) else {
                    return;
                };
                let hidden = source.hidden.cast_signed();
                // Sign extension from 24 bits.
                let total = ((lost << 8).cast_signed() >> 8).saturating_add(hidden);
                let total = total.clamp(-(1 << 23), (1 << 23) - 1);
                put(block, 4, lost & 0xff00_0000 | total.cast_unsigned() & 0x00ff_ffff);
                put(block, 8, source.window.highest());
                let rate = source.line.map_or(8000, |(_, rate)| rate);
                let sent = transcoder.route().sound.1.clock_rate();
                put(block, 12, convert(jitter.into(), sent, rate) as u32);
            }
            Change::Numbers(renumbering) if renumbering.ssrc() == ssrc => {
                let more = renumbering.added.map_or(0, |(more, _)| more);
                let number = (highest as u16).wrapping_sub(more);
                put(block, 8, highest & 0xffff_0000 | u32::from(number));
            }
            Change::Numbers(_) => {}
        }
    }
}

impl Transcoder {
    /// The timestamp of the output that equals `timestamp` of the input.
    fn timestamp(&self, timestamp: u32) -> u32 {
        let line = self.source().and_then(|source| source.line);
        let Some((next, rate)) = line else { return timestamp };
        let ahead = timestamp.wrapping_sub(next).cast_signed();
        let units = convert(ahead.unsigned_abs().into(), rate, self.route().sound.1.clock_rate());
        let (end, units) = (self.end(), units as u32);
        if ahead < 0 { end.wrapping_sub(units) } else { end.wrapping_add(units) }
    }
}

/// The word at `at`. The caller has checked the length.
fn word(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

fn put(bytes: &mut [u8], at: usize, word: u32) {
    if let Some(place) = bytes.get_mut(at..at + 4) {
        place.copy_from_slice(&word.to_be_bytes());
    }
}
