//! RTCP packets without their meaning, and their writer.

use crate::WriteError;
use crate::packet::word;
use core::error::Error;
use core::fmt;

/// Packet types (RFC 3550 section 12.1, RFC 4585, RFC 3611).
pub mod packet_type {
    /// Sender report.
    pub const SR: u8 = 200;
    /// Receiver report.
    pub const RR: u8 = 201;
    /// Source description.
    pub const SDES: u8 = 202;
    /// BYE.
    pub const BYE: u8 = 203;
    /// Application-defined packet.
    pub const APP: u8 = 204;
    /// Transport layer feedback.
    pub const RTPFB: u8 = 205;
    /// Payload-specific feedback.
    pub const PSFB: u8 = 206;
    /// Extended report.
    pub const XR: u8 = 207;
}

/// The reason why bytes are not RTCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RtcpError {
    /// The bytes end before the packet's header does, or before the length that it announces.
    Truncated {
        /// The required number of bytes from the beginning of the packet.
        needed: usize,
        /// The actual number of bytes.
        length: usize,
    },
    /// The version is not 2.
    Version(u8),
    /// Invalid padding: in a packet that is not the last one, not a multiple of four bytes, or
    /// longer than the packet.
    Padding,
    /// The packet body is shorter than its count announces, or is otherwise incomplete.
    Malformed {
        /// See [`packet_type`].
        packet_type: u8,
    },
}

impl fmt::Display for RtcpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { needed, length } => {
                write!(f, "RTCP packet of {length} bytes, expected at least {needed}")
            }
            Self::Version(version) => write!(f, "RTCP version {version}, expected 2"),
            Self::Padding => write!(f, "RTCP packet with invalid padding"),
            Self::Malformed { packet_type } => {
                write!(f, "RTCP packet of type {packet_type} is shorter than its count announces")
            }
        }
    }
}

impl Error for RtcpError {}

/// An RTCP header and the body after it, without padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawPacket<'a> {
    /// See [`packet_type`].
    pub packet_type: u8,
    /// The report count, source count or subtype, 0 to 31.
    pub count: u8,
    /// The body, a multiple of four bytes.
    pub body: &'a [u8],
}

impl<'a> RawPacket<'a> {
    /// Splits off the first packet and returns the bytes after it.
    pub(super) fn split(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), RtcpError> {
        let truncated = |needed| RtcpError::Truncated { needed, length: bytes.len() };
        let &[first, packet_type, high, low, ..] = bytes else { return Err(truncated(4)) };
        if first >> 6 != 2 {
            return Err(RtcpError::Version(first >> 6));
        }
        let length = 4 + 4 * usize::from(u16::from_be_bytes([high, low]));
        let (packet, rest) = bytes.split_at_checked(length).ok_or(truncated(length))?;
        let mut body = &packet[4..];
        if first & 0x20 != 0 {
            let padding = body.last().map_or(0, |&padding| usize::from(padding));
            let fits = padding > 0 && padding % 4 == 0 && padding <= body.len() && rest.is_empty();
            if !fits {
                return Err(RtcpError::Padding);
            }
            body = &body[..body.len() - padding];
        }
        Ok((Self { packet_type, count: first & 0x1f, body }, rest))
    }

    pub(super) fn malformed(&self) -> RtcpError {
        RtcpError::Malformed { packet_type: self.packet_type }
    }
}

/// Writes packets one after another into a buffer.
#[derive(Debug)]
pub struct Writer<'a> {
    buffer: &'a mut [u8],
    length: usize,
}

impl<'a> Writer<'a> {
    /// Creates a writer that starts at the beginning of a buffer.
    pub fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, length: 0 }
    }

    /// The number of bytes written.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a compound packet is never empty")]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Writes a packet, with `write` for its body. Writes nothing if the buffer is too short or
    /// `write` fails. The body is padded with zeros to a multiple of four bytes.
    pub(crate) fn packet(
        &mut self,
        packet_type: u8,
        count: usize,
        write: impl FnOnce(&mut Self) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        let start = self.length;
        let written = self.write_packet(packet_type, count, write);
        if written.is_err() {
            self.length = start;
        }
        written
    }

    fn write_packet(
        &mut self,
        packet_type: u8,
        count: usize,
        write: impl FnOnce(&mut Self) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        let count = u8::try_from(count).ok().filter(|&count| count < 32);
        let count = count.ok_or(WriteError::TooLong)?;
        let start = self.length;
        self.put(&[0x80 | count, packet_type, 0, 0])?;
        write(self)?;
        self.fill()?;
        let words = (self.length - start) / 4 - 1;
        let words = u16::try_from(words).map_err(|_| WriteError::TooLong)?;
        self.buffer[start + 2..start + 4].copy_from_slice(&words.to_be_bytes());
        Ok(())
    }

    /// Pads with zeros to the next multiple of four bytes.
    pub(crate) fn fill(&mut self) -> Result<(), WriteError> {
        self.put(&[0; 3][..self.length.next_multiple_of(4) - self.length])
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        let end = self.length + bytes.len();
        let place = self.buffer.get_mut(self.length..end).ok_or(WriteError::BufferTooShort)?;
        place.copy_from_slice(bytes);
        self.length = end;
        Ok(())
    }

    pub(crate) fn put_word(&mut self, word: u32) -> Result<(), WriteError> {
        self.put(&word.to_be_bytes())
    }

    /// Removes the bytes written from `length` on.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// Overwrites two bytes written before.
    pub(crate) fn set_u16(&mut self, at: usize, value: u16) {
        self.buffer[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }
}

/// Reads the consecutive 32-bit words.
pub(super) fn words(bytes: &[u8]) -> impl ExactSizeIterator<Item = u32> + '_ {
    bytes.chunks_exact(4).map(|bytes| word(bytes, 0))
}
