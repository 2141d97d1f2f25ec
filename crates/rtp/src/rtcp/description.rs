//! Source descriptions (RFC 3550 section 6.5).

use super::{Frame, RtcpError, Writer, packet_type};
use crate::packet::word;

/// Descriptions of sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description<'a> {
    count: u8,
    body: &'a [u8],
}

/// What is said of one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// The source.
    pub ssrc: u32,
    items: &'a [u8],
}

/// One thing that is said of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// What it is: [`Item::CNAME`] or another one of RFC 3550 section 12.2.
    pub kind: u8,
    /// What is said, in UTF-8 if the source keeps to the RFC.
    pub text: &'a [u8],
}

impl Item<'_> {
    /// The canonical name, which every source has.
    pub const CNAME: u8 = 1;
    /// The user's name.
    pub const NAME: u8 = 2;
    /// The program's name.
    pub const TOOL: u8 = 6;
    /// For a private extension: a prefix with its length before it, then a value.
    pub const PRIV: u8 = 8;
}

/// Takes an item off the beginning of `bytes`, and gives what follows it.
fn split_item(bytes: &[u8]) -> Option<(Item<'_>, &[u8])> {
    let &[kind, length, ref rest @ ..] = bytes else { return None };
    let (text, rest) = rest.split_at_checked(usize::from(length))?;
    Some((Item { kind, text }, rest))
}

/// Takes a chunk off the beginning of `body`, and gives what follows it.
fn split_chunk(body: &[u8]) -> Option<(Chunk<'_>, &[u8])> {
    let mut rest = body.get(4..)?;
    while *rest.first()? != 0 {
        rest = split_item(rest)?.1;
    }
    // The items end with a zero, and the chunk where 32 bits do.
    let items = body.len() - rest.len();
    let chunk = Chunk { ssrc: word(body, 0), items: &body[4..items] };
    Some((chunk, body.get((items + 1).next_multiple_of(4)..)?))
}

impl<'a> Description<'a> {
    pub(super) fn parse(frame: Frame<'a>) -> Result<Self, RtcpError> {
        let mut rest = frame.body;
        for _ in 0..frame.count {
            rest = split_chunk(rest).ok_or(frame.malformed())?.1;
        }
        Ok(Self { count: frame.count, body: frame.body })
    }

    /// What is said of each source.
    pub fn chunks(&self) -> impl Iterator<Item = Chunk<'a>> + use<'a> {
        let mut rest = self.body;
        (0..self.count).map_while(move |_| {
            let (chunk, after) = split_chunk(rest)?;
            rest = after;
            Some(chunk)
        })
    }
}

impl<'a> Chunk<'a> {
    /// What is said of the source.
    pub fn items(&self) -> impl Iterator<Item = Item<'a>> + use<'a> {
        let mut rest = self.items;
        core::iter::from_fn(move || {
            let (item, after) = split_item(rest)?;
            rest = after;
            Some(item)
        })
    }

    /// Its canonical name.
    #[must_use]
    pub fn cname(&self) -> Option<&'a [u8]> {
        self.items().find(|item| item.kind == Item::CNAME).map(|item| item.text)
    }
}

impl Writer<'_> {
    /// Describes one source; `None` if the buffer is too short, a text has more than 255 bytes or a
    /// kind is 0.
    pub fn description(&mut self, ssrc: u32, items: &[Item<'_>]) -> Option<()> {
        self.packet(packet_type::SDES, 1, |writer| {
            writer.put_word(ssrc)?;
            for item in items {
                let length = u8::try_from(item.text.len()).ok().filter(|_| item.kind != 0)?;
                writer.put(&[item.kind, length])?;
                writer.put(item.text)?;
            }
            writer.put(&[0])
        })
    }
}
