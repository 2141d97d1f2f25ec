//! BYE packets (RFC 3550 section 6.6).

use super::raw::{RawPacket, RtcpError, Writer, packet_type, words};
use crate::WriteError;

/// A BYE packet: the sources that leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bye<'a> {
    sources: &'a [u8],
    /// The reason for leaving, if present.
    pub reason: Option<&'a [u8]>,
}

impl<'a> Bye<'a> {
    pub(super) fn parse(frame: RawPacket<'a>) -> Result<Self, RtcpError> {
        let split = frame.body.split_at_checked(4 * usize::from(frame.count));
        let (sources, rest) = split.ok_or(frame.malformed())?;
        let reason = match rest {
            [] => None,
            [length, text @ ..] => Some(text.get(..usize::from(*length)).ok_or(frame.malformed())?),
        };
        Ok(Self { sources, reason })
    }

    /// The SSRCs of the sources.
    pub fn sources(&self) -> impl ExactSizeIterator<Item = u32> + use<'a> {
        words(self.sources)
    }
}

impl Writer<'_> {
    /// Writes a BYE for at most 31 sources.
    ///
    /// # Errors
    /// [`WriteError`] if the buffer is too short, if there are more sources, or if the reason
    /// exceeds 255 bytes.
    pub fn bye(&mut self, sources: &[u32], reason: Option<&[u8]>) -> Result<(), WriteError> {
        self.packet(packet_type::BYE, sources.len(), |writer| {
            sources.iter().try_for_each(|&ssrc| writer.put_word(ssrc))?;
            let Some(reason) = reason else { return Ok(()) };
            writer.put(&[u8::try_from(reason.len()).map_err(|_| WriteError::TooLong)?])?;
            writer.put(reason)
        })
    }
}
