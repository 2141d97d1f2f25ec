//! The calls of the owner's B2BUA, as the proxy asks about them.

use alloc::vec::Vec;

/// The calls of the owner's B2BUA. The methods must not call the server.
pub trait JoinedCalls: Send + Sync {
    /// Returns the request URI with which an INVITE to `uri` goes to the B2BUA, since the value
    /// `replaces` of its Replaces header field (RFC 3891) names a leg of a call. `None` if it names
    /// none.
    fn replacing(&self, uri: &[u8], replaces: &[u8]) -> Option<Vec<u8>>;

    /// Returns the value of Refer-To that a trunk gets for `refer_to`, if the B2BUA passes a REFER
    /// with it to one: the REFER came within the leg with this Call-ID and the tag `to_tag` of the
    /// B2BUA. `None` if it goes to no trunk.
    fn referral_of_trunk(&self, call_id: &[u8], to_tag: &[u8], refer_to: &[u8]) -> Option<Vec<u8>>;
}
