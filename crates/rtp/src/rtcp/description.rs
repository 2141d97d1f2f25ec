//! Source description (SDES) packets (RFC 3550 section 6.5).

use super::raw::{RawPacket, RtcpError, Writer, packet_type};
use crate::WriteError;
use crate::packet::word;

/// An SDES packet: descriptions of sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceDescription<'a> {
    count: u8,
    body: &'a [u8],
}

/// The description of one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SdesChunk<'a> {
    /// The SSRC of the source.
    pub ssrc: u32,
    items: &'a [u8],
}

/// One item of a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SdesItem<'a> {
    /// The item type: [`SdesItem::CNAME`] or another one of RFC 3550 section 12.2.
    pub kind: u8,
    /// The text, in UTF-8 if the source conforms to the RFC.
    pub text: &'a [u8],
}

impl SdesItem<'_> {
    /// The canonical name, which is mandatory.
    pub const CNAME: u8 = 1;
    /// The name of the user.
    pub const NAME: u8 = 2;
    /// The name of the application or tool.
    pub const TOOL: u8 = 6;
    /// A private extension: a prefix with its length before it, then a value.
    pub const PRIV: u8 = 8;
}

/// Splits off the first item and returns the bytes after it.
fn split_item(bytes: &[u8]) -> Option<(SdesItem<'_>, &[u8])> {
    let &[kind, length, ref rest @ ..] = bytes else { return None };
    let (text, rest) = rest.split_at_checked(usize::from(length))?;
    Some((SdesItem { kind, text }, rest))
}

/// Splits off the first chunk and returns the bytes after it.
fn split_chunk(body: &[u8]) -> Option<(SdesChunk<'_>, &[u8])> {
    let mut rest = body.get(4..)?;
    while *rest.first()? != 0 {
        rest = split_item(rest)?.1;
    }
    // A zero byte ends the items, and the chunk ends at a 32-bit boundary.
    let items = body.len() - rest.len();
    let chunk = SdesChunk { ssrc: word(body, 0), items: &body[4..items] };
    Some((chunk, body.get((items + 1).next_multiple_of(4)..)?))
}

impl<'a> SourceDescription<'a> {
    pub(super) fn parse(frame: RawPacket<'a>) -> Result<Self, RtcpError> {
        let mut rest = frame.body;
        for _ in 0..frame.count {
            rest = split_chunk(rest).ok_or(frame.malformed())?.1;
        }
        Ok(Self { count: frame.count, body: frame.body })
    }

    /// The descriptions of the sources.
    pub fn chunks(&self) -> impl Iterator<Item = SdesChunk<'a>> + use<'a> {
        let mut rest = self.body;
        (0..self.count).map_while(move |_| {
            let (chunk, after) = split_chunk(rest)?;
            rest = after;
            Some(chunk)
        })
    }
}

impl<'a> SdesChunk<'a> {
    /// The items of the description.
    pub fn items(&self) -> impl Iterator<Item = SdesItem<'a>> + use<'a> {
        let mut rest = self.items;
        core::iter::from_fn(move || {
            let (item, after) = split_item(rest)?;
            rest = after;
            Some(item)
        })
    }

    /// The canonical name of the source.
    #[must_use]
    pub fn cname(&self) -> Option<&'a [u8]> {
        self.items().find(|item| item.kind == SdesItem::CNAME).map(|item| item.text)
    }
}

impl Writer<'_> {
    /// Writes the description of one source.
    ///
    /// # Errors
    /// [`WriteError`] if the buffer is too short, a text exceeds 255 bytes or an item type is 0.
    pub fn description(&mut self, ssrc: u32, items: &[SdesItem<'_>]) -> Result<(), WriteError> {
        self.packet(packet_type::SDES, 1, |writer| {
            writer.put_word(ssrc)?;
            for item in items {
                if item.kind == 0 {
                    return Err(WriteError::Element);
                }
                let length = u8::try_from(item.text.len()).map_err(|_| WriteError::TooLong)?;
                writer.put(&[item.kind, length])?;
                writer.put(item.text)?;
            }
            writer.put(&[0])
        })
    }
}
