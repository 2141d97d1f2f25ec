//! Extended reports (RFC 3611).

use super::raw::{RawPacket, RtcpError, Writer, packet_type};
use crate::WriteError;
use crate::ntp::NtpTime;
use crate::packet::word;

/// Block types (RFC 3611 section 4).
pub mod block_type {
    /// Receiver reference time.
    pub const RECEIVER_REFERENCE_TIME: u8 = 4;
    /// Delay since the last receiver report.
    pub const DELAY_SINCE_LAST_RECEIVER_REPORT: u8 = 5;
    /// VoIP metrics.
    pub const VOIP_METRICS: u8 = 7;
}

/// An extended report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtendedReport<'a> {
    /// The SSRC of the reporter.
    pub ssrc: u32,
    blocks: &'a [u8],
}

/// A block of an extended report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Block<'a> {
    /// The receiver reference time, from which a sender measures the round-trip time.
    ReceiverReferenceTime(NtpTime),
    /// The delays since the receiver reference times of some receivers.
    DelaySinceLastReceiverReport(DlrrBlock<'a>),
    /// The metrics of a voice call.
    VoipMetrics(VoipMetrics),
    /// Any other block.
    Other {
        /// See [`block_type`].
        block_type: u8,
        /// The type-specific byte after the block type.
        specific: u8,
        /// The block contents, a multiple of four bytes.
        body: &'a [u8],
    },
}

/// The sub-blocks of a DLRR block, which answers receiver reference times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DlrrBlock<'a>(&'a [u8]);

/// The answer to the receiver reference time of one receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastReceiverReport {
    /// The SSRC of the receiver.
    pub ssrc: u32,
    /// The middle 32 bits of its reference time.
    pub last: u32,
    /// The time since its reception, in 65,536ths of a second.
    pub delay: u32,
}

impl<'a> DlrrBlock<'a> {
    /// The sub-blocks, one per receiver.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = LastReceiverReport> + use<'a> {
        self.0.chunks_exact(12).map(|bytes| LastReceiverReport {
            ssrc: word(bytes, 0),
            last: word(bytes, 4),
            delay: word(bytes, 8),
        })
    }
}

/// The metrics of a voice call (RFC 3611 section 4.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoipMetrics {
    /// The SSRC of the source.
    pub ssrc: u32,
    /// The share of packets lost, in 256ths.
    pub loss_rate: u8,
    /// The share of packets that arrived too late or too early to be played, in 256ths.
    pub discard_rate: u8,
    /// The share of packets lost or discarded within bursts, in 256ths.
    pub burst_density: u8,
    /// The share of packets lost or discarded within gaps, in 256ths.
    pub gap_density: u8,
    /// The mean duration of a burst in milliseconds.
    pub burst_duration: u16,
    /// The mean duration of a gap in milliseconds.
    pub gap_duration: u16,
    /// The round-trip time in milliseconds, 0 if unknown.
    pub round_trip_delay: u16,
    /// The delay within the end system in milliseconds, 0 if unknown.
    pub end_system_delay: u16,
    /// The speech level in dBm0, [`VoipMetrics::UNKNOWN_LEVEL`] if unknown.
    pub signal_level: i8,
    /// The noise level in dBm0, [`VoipMetrics::UNKNOWN_LEVEL`] if unknown.
    pub noise_level: i8,
    /// Residual echo return loss in dB.
    pub residual_echo_return_loss: u8,
    /// The number of consecutive packets received that ends a burst; 16 is recommended.
    pub minimum_gap: u8,
    /// The R factor of this segment of the call, 0 to 100.
    pub r_factor: u8,
    /// The R factor of a segment outside the RTP session.
    pub external_r_factor: u8,
    /// Ten times the mean opinion score of listening quality.
    pub mos_listening: u8,
    /// Ten times the mean opinion score of conversational quality, with delay and echo.
    pub mos_conversation: u8,
    /// The concealment and jitter buffer flags (RFC 3611 section 4.7.6).
    pub receiver_configuration: u8,
    /// The current nominal delay of the jitter buffer, in milliseconds.
    pub jitter_buffer_nominal: u16,
    /// The current maximum delay of the jitter buffer, in milliseconds.
    pub jitter_buffer_maximum: u16,
    /// The absolute maximum delay of the jitter buffer, in milliseconds.
    pub jitter_buffer_absolute_maximum: u16,
}

impl VoipMetrics {
    /// The value of an unknown metric, unless its field documents another one.
    pub const UNKNOWN: u8 = 127;
    /// The value of an unknown level.
    pub const UNKNOWN_LEVEL: i8 = 127;

    const LENGTH: usize = 32;

    /// Creates metrics of a source with all values unknown.
    #[must_use]
    pub fn unknown(ssrc: u32) -> Self {
        Self {
            ssrc,
            loss_rate: 0,
            discard_rate: 0,
            burst_density: 0,
            gap_density: 0,
            burst_duration: 0,
            gap_duration: 0,
            round_trip_delay: 0,
            end_system_delay: 0,
            signal_level: Self::UNKNOWN_LEVEL,
            noise_level: Self::UNKNOWN_LEVEL,
            residual_echo_return_loss: Self::UNKNOWN,
            minimum_gap: 16,
            r_factor: Self::UNKNOWN,
            external_r_factor: Self::UNKNOWN,
            mos_listening: Self::UNKNOWN,
            mos_conversation: Self::UNKNOWN,
            receiver_configuration: 0,
            jitter_buffer_nominal: 0,
            jitter_buffer_maximum: 0,
            jitter_buffer_absolute_maximum: 0,
        }
    }

    fn parse(bytes: &[u8]) -> Self {
        let short = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        Self {
            ssrc: word(bytes, 0),
            loss_rate: bytes[4],
            discard_rate: bytes[5],
            burst_density: bytes[6],
            gap_density: bytes[7],
            burst_duration: short(8),
            gap_duration: short(10),
            round_trip_delay: short(12),
            end_system_delay: short(14),
            signal_level: bytes[16].cast_signed(),
            noise_level: bytes[17].cast_signed(),
            residual_echo_return_loss: bytes[18],
            minimum_gap: bytes[19],
            r_factor: bytes[20],
            external_r_factor: bytes[21],
            mos_listening: bytes[22],
            mos_conversation: bytes[23],
            receiver_configuration: bytes[24],
            jitter_buffer_nominal: short(26),
            jitter_buffer_maximum: short(28),
            jitter_buffer_absolute_maximum: short(30),
        }
    }

    fn write(&self, writer: &mut Writer<'_>) -> Result<(), WriteError> {
        writer.put_word(self.ssrc)?;
        writer.put(&[self.loss_rate, self.discard_rate, self.burst_density, self.gap_density])?;
        for short in
            [self.burst_duration, self.gap_duration, self.round_trip_delay, self.end_system_delay]
        {
            writer.put(&short.to_be_bytes())?;
        }
        writer.put(&[
            self.signal_level.cast_unsigned(),
            self.noise_level.cast_unsigned(),
            self.residual_echo_return_loss,
            self.minimum_gap,
            self.r_factor,
            self.external_r_factor,
            self.mos_listening,
            self.mos_conversation,
            self.receiver_configuration,
            0,
        ])?;
        for short in [
            self.jitter_buffer_nominal,
            self.jitter_buffer_maximum,
            self.jitter_buffer_absolute_maximum,
        ] {
            writer.put(&short.to_be_bytes())?;
        }
        Ok(())
    }
}

/// Splits off the first block and returns the bytes after it. Returns `None` if the block is
/// truncated.
fn split_block(bytes: &[u8]) -> Option<(Block<'_>, &[u8])> {
    let &[block_type, specific, high, low, ref rest @ ..] = bytes else { return None };
    let length = 4 * usize::from(u16::from_be_bytes([high, low]));
    let (body, rest) = rest.split_at_checked(length)?;
    let block = match (block_type, length) {
        (block_type::RECEIVER_REFERENCE_TIME, 8) => {
            let time = u64::from(word(body, 0)) << 32 | u64::from(word(body, 4));
            Block::ReceiverReferenceTime(NtpTime(time))
        }
        (block_type::DELAY_SINCE_LAST_RECEIVER_REPORT, _) if length % 12 == 0 => {
            Block::DelaySinceLastReceiverReport(DlrrBlock(body))
        }
        (block_type::VOIP_METRICS, VoipMetrics::LENGTH) => {
            Block::VoipMetrics(VoipMetrics::parse(body))
        }
        _ => Block::Other { block_type, specific, body },
    };
    Some((block, rest))
}

impl<'a> ExtendedReport<'a> {
    pub(super) fn parse(frame: RawPacket<'a>) -> Result<Self, RtcpError> {
        let (head, blocks) = frame.body.split_at_checked(4).ok_or(frame.malformed())?;
        let mut rest = blocks;
        while !rest.is_empty() {
            rest = split_block(rest).ok_or(frame.malformed())?.1;
        }
        Ok(Self { ssrc: word(head, 0), blocks })
    }

    /// The blocks. A block with the wrong length for its type is [`Block::Other`].
    pub fn blocks(&self) -> impl Iterator<Item = Block<'a>> + use<'a> {
        let mut rest = self.blocks;
        core::iter::from_fn(move || {
            let (block, after) = split_block(rest)?;
            rest = after;
            Some(block)
        })
    }
}

/// Writes the blocks of an extended report.
#[derive(Debug)]
pub struct BlockWriter<'a, 'b>(&'a mut Writer<'b>);

impl BlockWriter<'_, '_> {
    fn block(
        &mut self,
        block_type: u8,
        specific: u8,
        write: impl FnOnce(&mut Writer<'_>) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        let start = self.0.len();
        let write_block = || {
            self.0.put(&[block_type, specific, 0, 0])?;
            write(self.0)?;
            self.0.fill()?;
            let words = (self.0.len() - start) / 4 - 1;
            let words = u16::try_from(words).map_err(|_| WriteError::TooLong)?;
            self.0.set_u16(start + 2, words);
            Ok(())
        };
        let written = write_block();
        if written.is_err() {
            self.0.truncate(start);
        }
        written
    }

    /// Writes the receiver reference time.
    ///
    /// # Errors
    /// [`WriteError::BufferTooShort`].
    pub fn receiver_reference_time(&mut self, time: NtpTime) -> Result<(), WriteError> {
        self.block(block_type::RECEIVER_REFERENCE_TIME, 0, |writer| {
            writer.put(&time.0.to_be_bytes())
        })
    }

    /// Writes the delays since the receiver reference times of some receivers.
    ///
    /// # Errors
    /// [`WriteError`] if the buffer is too short, or there are more than 21,845 receivers.
    pub fn delay_since_last_receiver_report(
        &mut self,
        receivers: &[LastReceiverReport],
    ) -> Result<(), WriteError> {
        self.block(block_type::DELAY_SINCE_LAST_RECEIVER_REPORT, 0, |writer| {
            receivers.iter().try_for_each(|receiver| {
                writer.put_word(receiver.ssrc)?;
                writer.put_word(receiver.last)?;
                writer.put_word(receiver.delay)
            })
        })
    }

    /// Writes the metrics of a voice call.
    ///
    /// # Errors
    /// [`WriteError::BufferTooShort`].
    pub fn voip_metrics(&mut self, metrics: &VoipMetrics) -> Result<(), WriteError> {
        self.block(block_type::VOIP_METRICS, 0, |writer| metrics.write(writer))
    }
}

impl Writer<'_> {
    /// Writes an extended report. `write` writes its blocks.
    ///
    /// # Errors
    /// [`WriteError`] if the buffer is too short, or that of `write`.
    pub fn extended_report(
        &mut self,
        ssrc: u32,
        write: impl FnOnce(&mut BlockWriter<'_, '_>) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        self.packet(packet_type::XR, 0, |writer| {
            writer.put_word(ssrc)?;
            write(&mut BlockWriter(writer))
        })
    }
}
