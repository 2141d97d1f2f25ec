//! What tags are made for, and what a receiver makes of one.

/// The first 12 bytes of a packet.
pub(crate) type FixedHeader = [u8; rtp::packet::FIXED_HEADER];

/// Its source.
pub(super) fn ssrc(header: &FixedHeader) -> u32 {
    u32::from_be_bytes([header[8], header[9], header[10], header[11]])
}

/// What a receiver makes of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is right.
    Right,
    /// It is wrong.
    Wrong,
    /// Only costly work would tell.
    Unknown,
}
