//! RTP data packets (RFC 3550 section 5.1).

use crate::WriteError;
use crate::extension::Extension;
use core::error::Error;
use core::fmt;

/// The length of a header without contributing sources and extension, in bytes.
pub const FIXED_HEADER: usize = 12;

/// The reason why bytes are not an RTP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PacketError {
    /// The bytes end before the header does, or before the padding that it announces.
    Truncated {
        /// The required number of bytes.
        needed: usize,
        /// The actual number of bytes.
        length: usize,
    },
    /// The version is not 2.
    Version(u8),
    /// The count of padding bytes, the last byte of the packet, is zero.
    Padding,
}

impl fmt::Display for PacketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { needed, length } => {
                write!(f, "RTP packet of {length} bytes, expected at least {needed}")
            }
            Self::Version(version) => write!(f, "RTP version {version}, expected 2"),
            Self::Padding => write!(f, "RTP packet with a padding of 0 bytes, expected 1 or more"),
        }
    }
}

impl Error for PacketError {}

/// A complete header, over borrowed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a>(&'a [u8]);

impl<'a> Header<'a> {
    /// Parses the header of a packet. The payload may be encrypted.
    ///
    /// # Errors
    /// The version is not 2, or the bytes end before the header does.
    #[inline]
    pub fn parse(packet: &'a [u8]) -> Result<Self, PacketError> {
        header_length(packet).map(|length| Self(&packet[..length]))
    }

    /// The bytes of the header.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.0
    }

    /// The length of the header in bytes, which is the offset of the payload.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a header is never empty")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if padding follows the payload.
    #[must_use]
    pub fn has_padding(&self) -> bool {
        self.0[0] & 0x20 != 0
    }

    /// The marker bit. Its meaning depends on the payload's profile: for audio it marks the first
    /// packet after silence (RFC 3551 section 4.1).
    #[must_use]
    pub fn marker(&self) -> bool {
        self.0[1] & 0x80 != 0
    }

    /// The payload type, 0 to 127.
    #[must_use]
    pub fn payload_type(&self) -> u8 {
        self.0[1] & 0x7f
    }

    /// The sequence number.
    #[must_use]
    pub fn sequence_number(&self) -> u16 {
        u16::from_be_bytes([self.0[2], self.0[3]])
    }

    /// The sampling time of the payload's first sample, in units of the payload's clock.
    #[must_use]
    pub fn timestamp(&self) -> u32 {
        word(self.0, 4)
    }

    /// The synchronization source.
    #[must_use]
    pub fn ssrc(&self) -> u32 {
        word(self.0, 8)
    }

    /// The contributing sources, at most 15.
    pub fn csrcs(&self) -> impl ExactSizeIterator<Item = u32> + use<'a> {
        let count = usize::from(self.0[0] & 0x0f);
        self.0[FIXED_HEADER..][..4 * count].chunks_exact(4).map(|csrc| word(csrc, 0))
    }

    /// The header extension.
    #[must_use]
    pub fn extension(&self) -> Option<Extension<'a>> {
        let bytes = &self.0[FIXED_HEADER + 4 * self.csrcs().len()..];
        // The header is complete: it ends with its extension.
        (self.0[0] & 0x10 != 0).then(|| Extension {
            profile: u16::from_be_bytes([bytes[0], bytes[1]]),
            data: &bytes[4..],
        })
    }
}

/// Returns the offset of the payload of a packet.
#[inline]
fn header_length(packet: &[u8]) -> Result<usize, PacketError> {
    let truncated = |needed| PacketError::Truncated { needed, length: packet.len() };
    let Some(&first) = packet.first() else { return Err(truncated(FIXED_HEADER)) };
    if first >> 6 != 2 {
        return Err(PacketError::Version(first >> 6));
    }
    let mut length = FIXED_HEADER + 4 * usize::from(first & 0x0f);
    if first & 0x10 != 0 {
        length += 4;
        let words = packet.get(length - 2..length).ok_or(truncated(length))?;
        length += 4 * usize::from(u16::from_be_bytes([words[0], words[1]]));
    }
    if packet.len() < length { Err(truncated(length)) } else { Ok(length) }
}

/// Reads the 32-bit word at offset `at`.
pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// A packet with unencrypted payload, over borrowed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The header.
    pub header: Header<'a>,
    /// The payload, without padding.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Parses a packet.
    ///
    /// # Errors
    /// See [`PacketError`].
    pub fn parse(packet: &'a [u8]) -> Result<Self, PacketError> {
        let header = Header::parse(packet)?;
        let rest = &packet[header.len()..];
        if !header.has_padding() {
            return Ok(Self { header, payload: rest });
        }
        let padding = rest.last().map_or(1, |&padding| usize::from(padding));
        if padding == 0 {
            return Err(PacketError::Padding);
        }
        let needed = header.len() + padding;
        let payload = rest.len().checked_sub(padding).map(|length| &rest[..length]);
        let payload = payload.ok_or(PacketError::Truncated { needed, length: packet.len() })?;
        Ok(Self { header, payload })
    }
}

/// The fields of a fixed header to be written. [`HeaderFields::write_with`] adds sources and
/// an extension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderFields {
    /// See [`Header::marker`].
    pub marker: bool,
    /// See [`Header::payload_type`]; the highest bit is ignored.
    pub payload_type: u8,
    /// The sequence number.
    pub sequence_number: u16,
    /// See [`Header::timestamp`].
    pub timestamp: u32,
    /// The synchronization source.
    pub ssrc: u32,
}

impl HeaderFields {
    /// Returns the fixed header.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; FIXED_HEADER] {
        let mut bytes = [0; FIXED_HEADER];
        bytes[0] = 0x80;
        bytes[1] = u8::from(self.marker) << 7 | self.payload_type & 0x7f;
        bytes[2..4].copy_from_slice(&self.sequence_number.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.timestamp.to_be_bytes());
        bytes[8..].copy_from_slice(&self.ssrc.to_be_bytes());
        bytes
    }

    /// Writes the fixed header and a payload, and returns the length of the packet.
    ///
    /// # Errors
    /// [`WriteError::BufferTooShort`].
    pub fn write(&self, payload: &[u8], buffer: &mut [u8]) -> Result<usize, WriteError> {
        self.write_with(&[], None, payload, buffer)
    }

    /// Writes a packet with contributing sources (the first 15 are used) and an extension, and
    /// returns its length.
    ///
    /// # Errors
    /// [`WriteError`] if the buffer is too short, or if the length of the extension's data is not a
    /// multiple of 4 bytes or exceeds 65,535 times 4.
    pub fn write_with(
        &self,
        csrcs: &[u32],
        extension: Option<Extension<'_>>,
        payload: &[u8],
        buffer: &mut [u8],
    ) -> Result<usize, WriteError> {
        let csrcs = &csrcs[..csrcs.len().min(15)];
        let mut writer = Writer { buffer, length: 0 };
        let mut fixed = self.to_bytes();
        // At most 15, as cut above.
        fixed[0] |= csrcs.len() as u8 | u8::from(extension.is_some()) << 4;
        writer.put(&fixed)?;
        for csrc in csrcs {
            writer.put(&csrc.to_be_bytes())?;
        }
        if let Some(Extension { profile, data }) = extension {
            if data.len() % 4 != 0 {
                return Err(WriteError::Unaligned);
            }
            let words = u16::try_from(data.len() / 4).map_err(|_| WriteError::TooLong)?;
            writer.put(&profile.to_be_bytes())?;
            writer.put(&words.to_be_bytes())?;
            writer.put(data)?;
        }
        writer.put(payload)?;
        Ok(writer.length)
    }
}

struct Writer<'a> {
    buffer: &'a mut [u8],
    length: usize,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        let end = self.length + bytes.len();
        let place = self.buffer.get_mut(self.length..end).ok_or(WriteError::BufferTooShort)?;
        place.copy_from_slice(bytes);
        self.length = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const FIELDS: HeaderFields = HeaderFields {
        marker: true,
        payload_type: 96,
        sequence_number: 0x1234,
        timestamp: 0xdeca_fbad,
        ssrc: 0xcafe_babe,
    };

    #[test]
    fn fields_have_the_positions_of_rfc_3550() {
        let mut buffer = [0; 64];
        let length = FIELDS.write(b"hello", &mut buffer).unwrap();
        let bytes = b"\x80\xe0\x12\x34\xde\xca\xfb\xad\xca\xfe\xba\xbehello";
        assert_eq!(&buffer[..length], bytes);
        let packet = Packet::parse(bytes).unwrap();
        assert_eq!(packet.payload, b"hello");
        assert_eq!(packet.header.csrcs().len(), 0);
        assert_eq!(packet.header.extension(), None);
    }

    #[test]
    fn truncated_packets_are_rejected() {
        let mut buffer = [0; 64];
        let extension = Some(Extension { profile: 0xbede, data: &[0; 8] });
        let length = FIELDS.write_with(&[1, 2], extension, b"", &mut buffer).unwrap();
        assert_eq!(length, 12 + 8 + 4 + 8);
        for end in 0..length {
            let error = Packet::parse(&buffer[..end]).unwrap_err();
            assert!(matches!(error, PacketError::Truncated { needed, .. } if needed > end));
        }
        assert!(Packet::parse(&buffer[..length]).is_ok());
        assert_eq!(Header::parse(&[0x40; 12]), Err(PacketError::Version(1)));
    }

    #[test]
    fn padding_is_removed() {
        let mut bytes = FIELDS.to_bytes().to_vec();
        bytes[0] |= 0x20;
        bytes.extend(b"hello\0\0\x03");
        assert_eq!(Packet::parse(&bytes).unwrap().payload, b"hello");
        *bytes.last_mut().unwrap() = 8;
        assert_eq!(Packet::parse(&bytes).unwrap().payload, b"");
        *bytes.last_mut().unwrap() = 9;
        let truncated = PacketError::Truncated { needed: 21, length: 20 };
        assert_eq!(Packet::parse(&bytes), Err(truncated));
        *bytes.last_mut().unwrap() = 0;
        assert_eq!(Packet::parse(&bytes), Err(PacketError::Padding));
        assert!(Packet::parse(&bytes[..12]).is_err());
    }

    #[test]
    fn an_oversized_extension_is_rejected() {
        let mut buffer = [0; 64];
        let odd = Some(Extension { profile: 1, data: &[0; 5] });
        assert_eq!(FIELDS.write_with(&[], odd, b"", &mut buffer), Err(WriteError::Unaligned));
        assert_eq!(FIELDS.write(&[0; 53], &mut buffer), Err(WriteError::BufferTooShort));
        assert_eq!(FIELDS.write(&[0; 52], &mut buffer), Ok(64));
    }

    proptest! {
        #[test]
        fn written_packets_are_parsed(
            marker: bool,
            payload_type in 0u8..128,
            sequence_number: u16,
            timestamp: u32,
            ssrc: u32,
            csrcs in proptest::collection::vec(any::<u32>(), 0..=15),
            extension in proptest::option::of((any::<u16>(), 0usize..9)),
            payload: Vec<u8>,
        ) {
            let fields = HeaderFields { marker, payload_type, sequence_number, timestamp, ssrc };
            let data = [7; 32];
            let extension =
                extension.map(|(profile, words)| Extension { profile, data: &data[..4 * words] });
            let mut buffer = [0; 512];
            let length = fields.write_with(&csrcs, extension, &payload, &mut buffer).unwrap();
            let Packet { header, payload: read } = Packet::parse(&buffer[..length]).unwrap();
            prop_assert_eq!(read, &payload);
            prop_assert_eq!(header.csrcs().collect::<Vec<_>>(), csrcs);
            prop_assert_eq!(header.extension(), extension);
            let again = HeaderFields {
                marker: header.marker(),
                payload_type: header.payload_type(),
                sequence_number: header.sequence_number(),
                timestamp: header.timestamp(),
                ssrc: header.ssrc(),
            };
            prop_assert_eq!(again, fields);
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes: Vec<u8>) {
            if let Ok(packet) = Packet::parse(&bytes) {
                prop_assert!(packet.header.len() + packet.payload.len() <= bytes.len());
                packet.header.csrcs().for_each(drop);
                let _ = packet.header.extension();
            }
        }
    }
}
