//! The input of tags, and the verdict on a received tag.

/// The first 12 bytes of a packet.
pub(crate) type FixedHeader = [u8; rtp::packet::FIXED_HEADER];

pub(super) fn ssrc(header: &FixedHeader) -> u32 {
    u32::from_be_bytes([header[8], header[9], header[10], header[11]])
}

/// The result of checking a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The tag is correct.
    Right,
    /// The tag is wrong.
    Wrong,
    /// Only an expensive check can decide.
    Unknown,
}
