//! Messages whose codes are made at once.

use super::hmac::HmacSha1;

/// The most messages at once.
pub(crate) const LANES: usize = 16;

/// A message under a key.
pub(crate) struct Message<'a> {
    pub(crate) hmac: &'a HmacSha1,
    pub(crate) data: &'a [u8],
    /// What follows the data.
    pub(crate) more: [u8; 4],
}

/// A code that a packet wants.
pub(crate) struct Wanted {
    pub(crate) hmac: HmacSha1,
    /// So many bytes of the packet it is of,
    pub(crate) length: usize,
    /// and of what follows them.
    pub(crate) rollover: [u8; 4],
}
