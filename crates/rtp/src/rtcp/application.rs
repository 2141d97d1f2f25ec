//! Application-defined packets (RFC 3550 section 6.7).

use super::raw::{RawPacket, RtcpError, Writer, packet_type};
use crate::WriteError;
use crate::packet::word;

/// An application-defined packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Application<'a> {
    /// The subtype, 0 to 31, which the application defines.
    pub subtype: u8,
    /// The SSRC of the sender.
    pub ssrc: u32,
    /// The name of the application, four ASCII characters.
    pub name: [u8; 4],
    /// The data, a multiple of four bytes.
    pub data: &'a [u8],
}

impl<'a> Application<'a> {
    pub(super) fn parse(frame: RawPacket<'a>) -> Result<Self, RtcpError> {
        let (head, data) = frame.body.split_at_checked(8).ok_or(frame.malformed())?;
        let name = [head[4], head[5], head[6], head[7]];
        Ok(Self { subtype: frame.count, ssrc: word(head, 0), name, data })
    }
}

impl Writer<'_> {
    /// Writes an application-defined packet. The data is padded with zeros to a multiple of four
    /// bytes.
    ///
    /// # Errors
    /// [`WriteError`] if the buffer is too short or the subtype exceeds 31.
    pub fn application(&mut self, packet: &Application<'_>) -> Result<(), WriteError> {
        self.packet(packet_type::APP, usize::from(packet.subtype), |writer| {
            writer.put_word(packet.ssrc)?;
            writer.put(&packet.name)?;
            writer.put(packet.data)
        })
    }
}
