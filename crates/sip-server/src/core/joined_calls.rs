//! The calls of the owner's B2BUA, as the proxy asks about them.

use alloc::vec::Vec;

/// The calls of the owner's B2BUA. The methods must not call the server.
pub trait JoinedCalls: Send + Sync {
    /// Returns the request URI with which an INVITE to `uri` goes to the B2BUA, since the value
    /// `replaces` of its Replaces header field (RFC 3891) names a leg of a call. `None` if it names
    /// none.
    fn replacing(&self, uri: &[u8], replaces: &[u8]) -> Option<Vec<u8>>;
}
