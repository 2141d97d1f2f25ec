//! The HMAC that authenticates a message (RFC 8489 section 14.5).

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;

/// The 24 bytes of MESSAGE-INTEGRITY, less the 20 of the message header, which do not count.
const MORE: usize = 4;

/// The HMAC of the bytes before MESSAGE-INTEGRITY.
pub(crate) struct Integrity(Hmac<Sha1>);

/// The HMAC by `key` of the bytes `before` MESSAGE-INTEGRITY. Their length field counts as if the
/// message ended with that attribute.
pub(crate) fn of(before: &[u8], key: &[u8]) -> Integrity {
    // A key may have any length.
    let mut hmac = Hmac::<Sha1>::new_from_slice(key).expect("HMAC takes any key");
    let length = (before.len() + MORE) as u16;
    hmac.update(&before[..2]);
    hmac.update(&length.to_be_bytes());
    hmac.update(&before[4..]);
    Integrity(hmac)
}

impl Integrity {
    /// Compares with the value of an attribute in constant time.
    pub(crate) fn is(self, value: &[u8]) -> bool {
        self.0.verify_slice(value).is_ok()
    }

    /// The value of the attribute.
    pub(crate) fn value(self) -> [u8; 20] {
        self.0.finalize().into_bytes().into()
    }
}
