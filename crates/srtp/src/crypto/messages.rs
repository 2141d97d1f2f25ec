//! Messages with HMACs that are computed together.

use super::hmac::HmacSha1;

/// The maximum number of messages.
pub(crate) const LANES: usize = 16;

/// A message and its key.
pub(crate) struct Message<'a> {
    pub(crate) hmac: &'a HmacSha1,
    pub(crate) data: &'a [u8],
    /// The bytes after the data.
    pub(crate) more: [u8; 4],
}

/// An HMAC that a packet needs.
pub(crate) struct Wanted {
    pub(crate) hmac: HmacSha1,
    /// The number of authenticated bytes of the packet.
    pub(crate) length: usize,
    /// The bytes authenticated after them.
    pub(crate) rollover: [u8; 4],
}
