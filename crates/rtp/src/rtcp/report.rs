//! Sender and receiver reports (RFC 3550 sections 6.4.1 and 6.4.2).

use super::raw::{RawPacket, RtcpError, Writer, packet_type};
use crate::WriteError;
use crate::ntp::NtpTime;
use crate::packet::word;

const BLOCK: usize = 24;

/// The sender information of a sender report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderInfo {
    /// The time of the report.
    pub ntp_time: NtpTime,
    /// The same time as an RTP timestamp, in units of the payload's clock.
    pub timestamp: u32,
    /// The number of packets sent.
    pub packets: u32,
    /// The number of payload bytes sent.
    pub bytes: u32,
}

/// A reception report block about one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportBlock {
    /// The SSRC of the source.
    pub ssrc: u32,
    /// The share of packets lost since the last report, in 256ths.
    pub fraction_lost: u8,
    /// The cumulative number of packets lost, from -2^23 to 2^23 - 1. Negative if duplicates
    /// outnumber losses.
    pub lost: i32,
    /// The extended highest sequence number received: cycles in the high 16 bits.
    pub highest_sequence_number: u32,
    /// The interarrival jitter in units of the payload's clock.
    pub jitter: u32,
    /// The middle 32 bits of the NTP time of the last sender report received from the source, or 0.
    pub last_sender_report: u32,
    /// The time since its reception, in 65,536ths of a second.
    pub delay_since_last_sender_report: u32,
}

impl ReportBlock {
    fn parse(bytes: &[u8]) -> Self {
        let lost = word(bytes, 4);
        Self {
            ssrc: word(bytes, 0),
            fraction_lost: bytes[4],
            // Sign extension from 24 bits.
            lost: (lost << 8) as i32 >> 8,
            highest_sequence_number: word(bytes, 8),
            jitter: word(bytes, 12),
            last_sender_report: word(bytes, 16),
            delay_since_last_sender_report: word(bytes, 20),
        }
    }

    fn write(&self, writer: &mut Writer<'_>) -> Result<(), WriteError> {
        let lost = self.lost.clamp(-(1 << 23), (1 << 23) - 1);
        writer.put_word(self.ssrc)?;
        writer.put_word(u32::from(self.fraction_lost) << 24 | lost as u32 & 0x00ff_ffff)?;
        writer.put_word(self.highest_sequence_number)?;
        writer.put_word(self.jitter)?;
        writer.put_word(self.last_sender_report)?;
        writer.put_word(self.delay_since_last_sender_report)
    }
}

/// A report of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderReport<'a> {
    /// The SSRC of the reporter.
    pub ssrc: u32,
    /// The sender information.
    pub sender: SenderInfo,
    blocks: &'a [u8],
    /// The profile-specific extension.
    pub extension: &'a [u8],
}

/// A report of a participant that only receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverReport<'a> {
    /// The SSRC of the reporter.
    pub ssrc: u32,
    blocks: &'a [u8],
    /// The profile-specific extension.
    pub extension: &'a [u8],
}

/// The parts of a sender or receiver report.
struct Parts<'a> {
    ssrc: u32,
    /// The bytes between the reporter's SSRC and the blocks.
    info: &'a [u8],
    blocks: &'a [u8],
    extension: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(frame: RawPacket<'a>, info: usize) -> Result<Self, RtcpError> {
        let (head, rest) = frame.body.split_at_checked(4 + info).ok_or(frame.malformed())?;
        let blocks = rest.split_at_checked(BLOCK * usize::from(frame.count));
        let (blocks, extension) = blocks.ok_or(frame.malformed())?;
        Ok(Self { ssrc: word(head, 0), info: &head[4..], blocks, extension })
    }
}

impl<'a> SenderReport<'a> {
    pub(super) fn parse(frame: RawPacket<'a>) -> Result<Self, RtcpError> {
        let Parts { ssrc, info, blocks, extension } = Parts::of(frame, 20)?;
        let sender = SenderInfo {
            ntp_time: NtpTime(u64::from(word(info, 0)) << 32 | u64::from(word(info, 4))),
            timestamp: word(info, 8),
            packets: word(info, 12),
            bytes: word(info, 16),
        };
        Ok(Self { ssrc, sender, blocks, extension })
    }

    /// The report blocks, one per received source.
    pub fn blocks(&self) -> impl ExactSizeIterator<Item = ReportBlock> + use<'a> {
        self.blocks.chunks_exact(BLOCK).map(ReportBlock::parse)
    }
}

impl<'a> ReceiverReport<'a> {
    pub(super) fn parse(frame: RawPacket<'a>) -> Result<Self, RtcpError> {
        let Parts { ssrc, blocks, extension, .. } = Parts::of(frame, 0)?;
        Ok(Self { ssrc, blocks, extension })
    }

    /// The report blocks, one per received source.
    pub fn blocks(&self) -> impl ExactSizeIterator<Item = ReportBlock> + use<'a> {
        self.blocks.chunks_exact(BLOCK).map(ReportBlock::parse)
    }
}

impl Writer<'_> {
    /// Writes a sender report with at most 31 blocks.
    ///
    /// # Errors
    /// [`WriteError`] if the buffer is too short or there are more blocks.
    pub fn sender_report(
        &mut self,
        ssrc: u32,
        sender: &SenderInfo,
        blocks: &[ReportBlock],
    ) -> Result<(), WriteError> {
        self.packet(packet_type::SR, blocks.len(), |writer| {
            writer.put_word(ssrc)?;
            writer.put(&sender.ntp_time.0.to_be_bytes())?;
            writer.put_word(sender.timestamp)?;
            writer.put_word(sender.packets)?;
            writer.put_word(sender.bytes)?;
            blocks.iter().try_for_each(|block| block.write(writer))
        })
    }

    /// Writes a receiver report with at most 31 blocks.
    ///
    /// # Errors
    /// [`WriteError`] if the buffer is too short or there are more blocks.
    pub fn receiver_report(&mut self, ssrc: u32, blocks: &[ReportBlock]) -> Result<(), WriteError> {
        self.packet(packet_type::RR, blocks.len(), |writer| {
            writer.put_word(ssrc)?;
            blocks.iter().try_for_each(|block| block.write(writer))
        })
    }
}
