//! Packets that applications define (RFC 3550 section 6.7).

use super::{Frame, RtcpError, Writer, packet_type};
use crate::packet::word;

/// A packet that an application defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Application<'a> {
    /// The application's own kind of packet, 0 to 31.
    pub subtype: u8,
    /// Whose packet it is.
    pub ssrc: u32,
    /// Four letters that name the application.
    pub name: [u8; 4],
    /// A multiple of four bytes.
    pub data: &'a [u8],
}

impl<'a> Application<'a> {
    pub(super) fn parse(frame: Frame<'a>) -> Result<Self, RtcpError> {
        let (head, data) = frame.body.split_at_checked(8).ok_or(frame.malformed())?;
        let name = [head[4], head[5], head[6], head[7]];
        Ok(Self { subtype: frame.count, ssrc: word(head, 0), name, data })
    }
}

impl Writer<'_> {
    /// A packet that an application defines; `None` if the buffer is too short or the subtype is
    /// above 31. Data that is no multiple of four bytes is filled up with zeros.
    pub fn application(&mut self, packet: &Application<'_>) -> Option<()> {
        self.packet(packet_type::APP, usize::from(packet.subtype), |writer| {
            writer.put_word(packet.ssrc)?;
            writer.put(&packet.name)?;
            writer.put(packet.data)
        })
    }
}
